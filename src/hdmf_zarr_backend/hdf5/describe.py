"""What an HDF5 dataset is: kind of elements, types, chunks, filters, fill value, largest shape.

Nothing of h5py leaves this room but the dataset itself. The *note* is what Zarr has no word for; it is kept in the
reserved attribute of the array, and Zarr -> HDF5 gives back the same dataset::

    chunks   list of int, of a dataset in chunks
    layout   "compact" where the values lie in the header; without it and chunks they lie in one piece
    filters  list of [number, flags, [values]], in the order in which HDF5 applies them
    enum     {name: value}, of an enumeration
    charset  "utf-8", of text of fixed length
    type     the type as JSON (see `types`), where it is not the one that the array leads to (`elements.default_type`)
    fill     "undefined", or {"value": JSON} where Zarr has no such fill value: text, rows, NaN payloads, scalars
    null     true, of a dataset without a dataspace
    named    path of the named type that is its type
    attribute_order  as of `order`, where the dataset keeps it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.formats.dtypes import Kind, number_name, plain
from hdmf_zarr_backend.hdf5.order import note_orders
from hdmf_zarr_backend.hdf5.types import OBJECT, REGION, TypeJSON, encode_type
from hdmf_zarr_backend.hdf5.values import encode_array

FieldWord = str


@dataclass(slots=True)
class Description:
    """What is known of an HDF5 dataset.

    Attributes
    ----------
    kind : str
        Kind of the elements; ``compound`` for rows that hold text or references, ``number`` for plain structured data
        too.
    dtype : numpy.dtype
        Type of plain elements, packed and without metadata.
    fields : list of (name, word)
        Of a compound.
    type : str or dict
        The HDF5 type as JSON.
    inner : tuple of int
        Shape of an element that is an array itself; further axes of the Zarr array.
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
    type: TypeJSON = ""
    inner: tuple[int, ...] = ()
    maxshape: tuple[int | None, ...] | None = None
    chunks: tuple[int, ...] | None = None
    fill_value: Any = None
    note: dict[str, Any] = field(default_factory=dict)


def kind_of_type(kind: TypeJSON) -> Kind:
    """Return the kind of the elements of a dataset.

    Raises
    ------
    ValueRefusedError
        Sequences of variable length, which neither HDMF nor Zarr has.
    """
    if isinstance(kind, str):
        return "object" if kind == OBJECT else "region" if kind == REGION else "number"
    if "text" in kind:
        return "number" if "size" in kind else "text" if kind["text"] == "utf-8" else "ascii"
    if "sequence" in kind:
        raise ValueRefusedError(
            "HDF5 sequences of variable length have no place in HDMF",
            remedy="Store the values as a ragged column: data and index.",
        )
    if "array" in kind:
        if kind_of_type(kind["array"]) != "number":
            raise ValueRefusedError("elements that are arrays of text or references have no place in HDMF")
        return "number"
    if "fields" in kind and "number" not in kind:
        return "compound" if any(kind_of_type(inner) != "number" for _, inner in kind["fields"]) else "number"
    return "number"


def _field_word(kind: TypeJSON, dtype: np.dtype[Any]) -> FieldWord:
    word = {"text": "str", "ascii": "bytes", "object": "object", "region": "region"}.get(kind_of_type(kind))
    if word is not None:
        return word
    if dtype.kind in "biuf":
        return number_name(plain(dtype))
    return "bytes" if dtype.kind == "S" else f"V{dtype.itemsize}"  # JSON of a form of its own


def describe(dataset: Any) -> Description:
    """Return what is known of an ``h5py.Dataset``."""
    from h5py import h5d

    tid, created = dataset.id.get_type(), dataset.id.get_create_plist()
    found = encode_type(tid)
    kind = kind_of_type(found)
    dtype: np.dtype[Any] = tid.dtype
    inner: tuple[int, ...] = ()
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
    note: dict[str, Any] = {}
    if dataset.shape is None:
        note["null"] = True
    if dataset.chunks is not None:
        note["chunks"] = list(dataset.chunks)
    elif created.get_layout() == h5d.COMPACT:
        note["layout"] = "compact"
    filters = [_filter(created.get_filter(i)) for i in range(created.get_nfilters())]
    if filters:
        note["filters"] = filters
    note_orders(dataset.id, created, note)
    if isinstance(found, dict) and "enum" in found:
        note["enum"] = dict(found["enum"])
    if isinstance(found, dict) and "size" in found and found.get("text") == "utf-8":
        note["charset"] = "utf-8"
    description = Description(
        kind=kind,
        dtype=plain(dtype),
        fields=_fields(found, dtype) if kind == "compound" else [],
        type=found,
        inner=tuple(inner),
        maxshape=tuple(dataset.maxshape) if dataset.shape else None,
        chunks=dataset.chunks,
        note=note,
    )
    _describe_fill(description, created, tid.dtype)
    return description


def _fields(found: Any, dtype: np.dtype[Any]) -> list[tuple[str, FieldWord]]:
    return [(name, _field_word(inner, dtype[name])) for name, inner in found["fields"]]


def _filter(entry: tuple[int, int, tuple[int, ...], bytes]) -> list[Any]:
    code, flags, values, _ = entry
    return [int(code), int(flags), [int(value) for value in values]]


def _describe_fill(description: Description, created: Any, dtype: np.dtype[Any]) -> None:
    """Put down the fill value where the file defines one that says something (zero says nothing)."""
    from h5py import h5d

    defined = created.fill_value_defined()
    if defined == h5d.FILL_VALUE_UNDEFINED:
        description.note["fill"] = "undefined"
    if defined != h5d.FILL_VALUE_USER_DEFINED or not _has_readable_fill(description):
        return
    is_text = description.kind in ("text", "ascii")
    value = np.zeros((1,) if is_text else (), dtype)  # h5py's bindings want it so
    created.get_fill_value(value)
    if is_text:
        if value[0]:
            description.note["fill"] = {"value": encode_array(value[0:1].reshape(()), description.type, _no_reference)}
    elif not value.tobytes().strip(b"\0"):
        return
    else:
        if value.dtype.names is None and description.maxshape is not None:
            description.fill_value = value.astype(description.dtype)[()]
        if description.fill_value is None or is_unusual_nan(value):
            description.note["fill"] = {"value": encode_array(value, description.type, _no_reference)}


def is_unusual_nan(value: Any) -> bool:
    """Tell whether a NumPy number is a NaN whose sign or payload JSON does not have."""
    if value.dtype.kind not in "fc" or not np.isnan(value):
        return False
    return bool(value.tobytes() != np.array(np.nan, value.dtype).tobytes())


def _has_readable_fill(description: Description) -> bool:
    """Tell whether h5py can read such a fill value at all; it can write no other either."""
    tagged = isinstance(description.type, dict) and bool(description.type.get("tag")) and description.dtype.kind == "V"
    return not tagged and not description.inner and description.kind not in ("object", "region", "compound")


def _no_reference(_: Any) -> None:
    return None


def is_dataset(data: Any) -> bool:
    """Tell whether ``data`` is an ``h5py.Dataset``, without importing h5py for data that cannot be one."""
    if not any(cls.__module__.partition(".")[0] == "h5py" for cls in type(data).__mro__):
        return False
    import h5py

    return isinstance(data, h5py.Dataset)
