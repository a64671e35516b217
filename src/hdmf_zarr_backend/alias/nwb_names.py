"""`NWBZarrIO` and `NWBZarrV2IO` with the members and the order of arguments of hdmf-zarr's classes.

Separate from `alias.names`, because it needs pynwb, which is optional.
"""

from __future__ import annotations

import os
from functools import wraps
from typing import Any, ClassVar

from hdmf_zarr_backend import nwb
from hdmf_zarr_backend.alias.names import MakesFormat3, ReadsOnly, ZarrIO, anonymous


class NWBZarrIO(ZarrIO, nwb.NWBZarrIO):
    """`hdmf_zarr_backend.NWBZarrIO` with the members of hdmf-zarr's class."""

    ours: ClassVar[type] = nwb.NWBZarrIO

    @wraps(nwb.NWBZarrIO.__init__)  # type: ignore[misc] # the signature that users see
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

    @staticmethod
    def read_nwb(path: str | os.PathLike[str], **options: Any) -> Any:
        """Return the ``NWBFile`` at ``path``; options as for `NWBZarrIO`.

        A file at ``s3://`` is read without credentials, as with hdmf-zarr, unless ``storage_options`` are given.
        """
        options.setdefault("storage_options", anonymous(path))
        return NWBZarrIO(path, mode="r", **options).read()


class NWBZarrV2IO(MakesFormat3, ReadsOnly, NWBZarrIO):  # type: ignore[misc] # hdmf-zarr's read_nwb takes less
    """`NWBZarrIO` that only reads, under hdmf-zarr 0.14's name of the class for files of format 2."""

    writer: ClassVar[Any] = NWBZarrIO
