"""What an HDF5 dataset is: kind of elements, types, chunks, filters, fill value, largest shape.

Nothing of h5py leaves this room but the dataset itself. The *note* is what Zarr has no word for; it is kept in the reserved
attribute of the array, and Zarr -> HDF5 gives back the same dataset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.mapping.dtypes import Kind, number_name, plain

FieldWord = str


@dataclass(slots=True)
class Description:
    """What is known of an HDF5 dataset.

    Attributes
    ----------
    kind : str
        Kind of the elements; ``compound`` for rows that hold text or references, ``number`` for plain structured data too.
    dtype : numpy.dtype
        Type of plain elements, packed and without metadata.
    fields : list of (name, word)
        Of a compound.
    maxshape, chunks : tuple or None
        As HDF5 has them.
    fill_value : object
        The fill value if the file defines one other than zero.
    note : dict
        To be kept.
    """

    kind: Kind
    dtype: np.dtype[Any]
    fields: list[tuple[str, FieldWord]] = field(default_factory=list)
    maxshape: tuple[int | None, ...] | None = None
    chunks: tuple[int, ...] | None = None
    fill_value: Any = None
    note: dict[str, Any] = field(default_factory=dict)


def describe_type(dtype: np.dtype[Any]) -> tuple[Kind, list[tuple[str, FieldWord]]]:
    """Return the kind of elements of an h5py dtype and, for rows with text or references, the fields.

    Raises
    ------
    ValueRefusedError
        A type that neither HDMF nor Zarr has, such as sequences of variable length.
    """
    import h5py

    if h5py.check_ref_dtype(dtype) is h5py.RegionReference:
        return "region", []
    if h5py.check_ref_dtype(dtype) is not None:
        return "object", []
    text = h5py.check_string_dtype(dtype)
    if text is not None and text.length is None:
        return ("text" if text.encoding == "utf-8" else "ascii"), []
    if dtype.names is not None and dtype.fields is not None:
        fields = [(name, _field_word(dtype.fields[name][0])) for name in dtype.names]
        if any(dtype.fields[name][0].hasobject for name in dtype.names):
            return "compound", fields
        return "number", []
    if dtype.hasobject:
        raise ValueRefusedError(
            f"HDF5 type {dtype} (sequences of variable length) has no place in HDMF",
            remedy="Store the values as a ragged column: data and index.",
        )
    return "number", []


def _field_word(dtype: np.dtype[Any]) -> FieldWord:
    kind, fields = describe_type(dtype)
    if fields:
        raise ValueRefusedError("a compound inside a compound holds text or references")
    if kind != "number":
        return {"text": "str", "ascii": "bytes", "object": "object", "region": "region"}[kind]
    if dtype.subdtype is not None or dtype.names is not None:
        raise ValueRefusedError("a compound with text or references also holds arrays")
    return "bytes" if dtype.kind == "S" else number_name(plain(dtype))


def describe(dataset: Any) -> Description:
    """Return what is known of an ``h5py.Dataset``."""
    kind, fields = describe_type(dataset.dtype)
    note: dict[str, Any] = {}
    created = dataset.id.get_create_plist()
    if dataset.chunks is not None:
        note["chunks"] = list(dataset.chunks)
    filters = [list(_filter(created.get_filter(i))) for i in range(created.get_nfilters())]
    if filters:
        note["filters"] = filters
    enum = _enumeration(dataset.dtype)
    if enum:
        note["enum"] = enum
    fill = _fill_value(dataset, created, kind)
    if dataset.dtype.kind == "S":
        import h5py

        text = h5py.check_string_dtype(dataset.dtype)
        if text is not None and text.encoding == "utf-8":
            note["charset"] = "utf-8"
    return Description(
        kind=kind,
        dtype=plain(dataset.dtype),
        fields=fields,
        maxshape=tuple(dataset.maxshape) if dataset.shape else None,
        chunks=dataset.chunks,
        fill_value=fill,
        note=note,
    )


def _filter(entry: tuple[int, int, tuple[int, ...], bytes]) -> tuple[int, int, list[int]]:
    code, flags, values, _ = entry
    return int(code), int(flags), [int(value) for value in values]


def _enumeration(dtype: np.dtype[Any]) -> dict[str, int] | None:
    import h5py

    values = h5py.check_enum_dtype(dtype)
    return None if values is None or dtype.kind == "b" else {str(name): int(value) for name, value in values.items()}


def _fill_value(dataset: Any, created: Any, kind: Kind) -> Any:
    """Return the fill value where the file defines one that says something (zero says nothing)."""
    import h5py

    if kind != "number" or created.fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return None
    value = np.asarray(dataset.fillvalue)
    if dataset.dtype.names is not None or not value.tobytes().strip(b"\0"):
        return None
    return value.astype(plain(dataset.dtype))[()]


def is_dataset(data: Any) -> bool:
    """Tell whether ``data`` is an ``h5py.Dataset``, without importing h5py for data that cannot be one."""
    if not any(cls.__module__.partition(".")[0] == "h5py" for cls in type(data).__mro__):
        return False
    import h5py

    return isinstance(data, h5py.Dataset)
