"""`ZarrDataIO` with the members and arguments of hdmf-zarr's class of that name.

Source: hdmf-zarr 0.13.0 and 0.14.0, ``hdmf_zarr.utils.ZarrDataIO``.
"""

from __future__ import annotations

import warnings
from abc import ABCMeta
from collections.abc import Sequence
from typing import Any, ClassVar

from hdmf_zarr_backend import dataio
from hdmf_zarr_backend.arrays.codecs import make_codec
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.hdf5.filters import codecs_of


def pipeline_of_zarr3(filters: Any, compressors: Any, serializer: Any) -> tuple[list[Any] | None, Any]:
    """Return the arguments ``filters`` and ``compressor`` of our ZarrDataIO.

    Parameters
    ----------
    filters : sequence of codecs, optional
        What changes the array: codecs of zarr 3 or of numcodecs.
    compressors : codec, sequence of codecs or bool, optional
        What changes the bytes: the last one is the compressor, those before it are filters. False: none; True and None:
        the default.
    serializer : codec, optional
        What makes bytes of the array: ``BytesCodec``, little-endian, which is what is done anyway.

    Raises
    ------
    UsageError
        Another serializer.
    """
    if serializer is not None and _named(serializer) not in ("bytes", "bytes (little)"):
        raise UsageError(
            f"the serializer {serializer!r} is not taken: text, references and the order of bytes follow from the data",
            remedy="Leave serializer out; give data of the type that is to be stored.",
        )
    steps = list(filters or ())
    if compressors is None or isinstance(compressors, bool):
        return steps or None, compressors
    listed = compressors if isinstance(compressors, Sequence) else [compressors]
    if not listed:
        return steps or None, False
    return [*steps, *listed[:-1]] or None, listed[-1]


def _named(serializer: Any) -> str:
    document = serializer.to_dict()
    endian = document.get("configuration", {}).get("endian")
    return str(document["name"]) if endian is None else f"{document['name']} ({endian})"


class SameAsOurs(ABCMeta):
    """Makes instances of our class instances of the class under its other name as well."""

    def __instancecheck__(cls, instance: Any) -> bool:
        ours = vars(cls).get("ours")  # not inherited: a user's subclass is a class of its own
        return super().__instancecheck__(instance) if ours is None else isinstance(instance, ours)


class ZarrDataIO(dataio.ZarrDataIO, metaclass=SameAsOurs):
    """`hdmf_zarr_backend.ZarrDataIO` with what hdmf-zarr's class has besides.

    Parameters
    ----------
    data, chunks, fillvalue, compressor, filters, link_data
        As of `hdmf_zarr_backend.ZarrDataIO`.
    compressors, serializer
        Codecs of zarr 3, as of hdmf-zarr 0.14; as of `alias.dataio.pipeline_of_zarr3`.
    **options
        Everything else that `hdmf_zarr_backend.ZarrDataIO` takes.

    Raises
    ------
    UsageError
        ``compressor`` and ``compressors`` are both given, or a codec is not taken.
    """

    ours: ClassVar[type] = dataio.ZarrDataIO

    def __init__(
        self,
        data: Any = None,
        chunks: Any = None,
        fillvalue: Any = None,
        compressor: Any = None,
        filters: Any = None,
        link_data: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        *,
        compressors: Any = None,
        serializer: Any = None,
        **options: Any,
    ) -> None:
        if compressor is not None and compressors is not None:
            raise UsageError("compressor and compressors are both given", remedy="Give one of them.")
        if compressors is not None or serializer is not None:
            filters, found = pipeline_of_zarr3(filters, compressors, serializer)
            compressor = found if compressor is None else compressor
        super().__init__(data, chunks, fillvalue, compressor, filters, link_data, **options)

    @staticmethod
    def is_h5py_dataset(obj: Any) -> bool:
        """Tell whether ``obj`` is an ``h5py.Dataset``, without importing h5py."""
        return (type(obj).__module__, type(obj).__name__) == ("h5py._hl.dataset", "Dataset")

    @staticmethod
    def hdf5_to_zarr_filters(h5dataset: Any) -> list[Any]:
        """Return the codecs with which the chunks of an HDF5 dataset are chunks of Zarr.

        Warns
        -----
        UserWarning
            A filter has no counterpart; there are no codecs then.
        """
        properties = h5dataset.id.get_create_plist()
        filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
        found = codecs_of([[number, flags, list(options)] for number, flags, options, _ in filters], h5dataset.dtype)
        if found is None:
            warnings.warn(
                f"{h5dataset.name}: Zarr has no codecs for the HDF5 filters {[number for number, *_ in filters]}; the "
                "data will be stored with other codecs",
                UserWarning,
                stacklevel=2,
            )
        return [] if found is None else [make_codec(dict(config), h5dataset.dtype) for config in found.codecs]

    @staticmethod
    def from_h5py_dataset(h5dataset: Any, **options: Any) -> ZarrDataIO:
        """Wrap an HDF5 dataset with its chunks, fill value and filters, as far as ``options`` do not say otherwise."""
        filters = ZarrDataIO.hdf5_to_zarr_filters(h5dataset)
        fill = h5dataset.fillvalue
        options.setdefault("chunks", h5dataset.chunks)
        options.setdefault("fillvalue", fill.decode("utf-8") if isinstance(fill, bytes) else fill)
        if filters and not {"compressor", "compressors", "filters"} & options.keys():
            options |= {"compressor": filters[-1], "filters": filters[:-1] or None}
        return ZarrDataIO(h5dataset, **options)
