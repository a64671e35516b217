"""`NWBZarrIO` and `NWBZarrV2IO` with the members and the order of arguments of hdmf-zarr's classes.

Separate from `alias.names`, because it needs pynwb, which is optional.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from hdmf_zarr_backend import nwb
from hdmf_zarr_backend.alias.names import IncompleteConversionError, ReadsOnly, ZarrIO, anonymous
from hdmf_zarr_backend.errors import DamagedFileError


class NWBZarrIO(ZarrIO, nwb.NWBZarrIO):
    """`hdmf_zarr_backend.NWBZarrIO` with the members of hdmf-zarr's class."""

    ours: ClassVar[type] = nwb.NWBZarrIO

    def __init__(
        self,
        path: Any,
        mode: str = "r",
        manager: Any = None,
        synchronizer: Any = None,
        object_codec_class: type | None = None,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        load_namespaces: bool = True,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        extensions: Any = None,
        **options: Any,
    ) -> None:
        options |= {"load_namespaces": load_namespaces, "extensions": extensions}
        super().__init__(
            path, mode, manager, synchronizer, object_codec_class, storage_options, force_overwrite, **options
        )

    def export(  # type: ignore[override] # pynwb calls the container nwbfile
        self,
        src_io: Any,
        nwbfile: Any = None,
        write_args: dict[str, Any] | None = None,
        *arguments: Any,
        **options: Any,
    ) -> None:
        """Write what ``src_io`` has read; other arguments as for `alias.names.ZarrIO.export`."""
        super().export(src_io, options.pop("container", nwbfile), write_args, *arguments, **options)

    @staticmethod
    def read_nwb(path: str | os.PathLike[str], **options: Any) -> Any:
        """Return the ``NWBFile`` at ``path``; options as for `NWBZarrIO`.

        A file at ``s3://`` is read without credentials, as with hdmf-zarr, unless ``storage_options`` are given.
        """
        options.setdefault("storage_options", anonymous(path))
        return NWBZarrIO(path, mode="r", **options).read()


class NWBZarrV2IO(ReadsOnly, NWBZarrIO):
    """`NWBZarrIO` that only reads, under hdmf-zarr 0.14's name of the class for files of format 2."""

    def export_to_v3(
        self,
        path: Any,
        nwbfile: Any = None,
        write_args: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write this file, or ``nwbfile`` read from it, to a new file of format 3. All data are copied."""
        arguments = {**(write_args or {}), "link_data": False}
        try:
            with NWBZarrIO(path, mode="w", storage_options=storage_options, zarr_format=3) as io:
                io.export(src_io=self, nwbfile=nwbfile, write_args=arguments)
        except DamagedFileError as error:
            raise IncompleteConversionError(str(error)) from error

    @classmethod
    def convert_to_v3(
        cls,
        source_path: str | os.PathLike[str],
        dest_path: Any,
        write_args: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        allow_pickle: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
    ) -> None:
        """Write the file at ``source_path`` to a new file of format 3; arguments as for `export_to_v3`."""
        with cls._opened(source_path, allow_pickle=allow_pickle) as io:
            io.export_to_v3(dest_path, write_args=write_args, storage_options=storage_options)

    @classmethod
    def read_nwb(  # type: ignore[override] # hdmf-zarr's takes less
        cls,
        path: str | os.PathLike[str],
        allow_pickle: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
    ) -> Any:
        """Return the ``NWBFile`` at ``path``."""
        return cls._opened(path, allow_pickle=allow_pickle).read()

    @classmethod
    def _opened(cls, path: str | os.PathLike[str], *, allow_pickle: bool) -> Any:
        return cls(path, mode="r", storage_options=anonymous(path), allow_pickle=allow_pickle)
