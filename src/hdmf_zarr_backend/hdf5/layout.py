"""Whether the elements of an HDF5 type are byte for byte those of a NumPy dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from hdmf_zarr_backend.hdf5.types import BOOL, TypeJSON


def is_same_layout(kind: TypeJSON, dtype: np.dtype[Any]) -> bool:
    """Tell whether raw elements of an HDF5 type are elements of ``dtype``, without any conversion.

    Parameters
    ----------
    kind : TypeJSON
        The type, as `types.encode_type` gives it.
    dtype : numpy.dtype
        Packed, as `formats.dtypes.plain` gives it; a subarray for elements that are arrays.

    Notes
    -----
    Not the same: padded compounds, numbers with a precision or fields of their own, and text that ends at a terminator
    or is padded with spaces, which HDF5 changes when it is read into NumPy's.
    """
    if isinstance(kind, str):
        return dtype.kind == "b" if kind == BOOL else _is_number(kind, dtype)
    if "enum" in kind:
        return is_same_layout(kind["base"], dtype)
    if "text" in kind:
        return dtype.kind == "S" and (kind.get("size"), kind.get("pad")) == (dtype.itemsize, "nullpad")
    if "opaque" in kind:
        is_opaque = dtype.kind in "VmM" and dtype.names is None and dtype.subdtype is None
        return is_opaque and dtype.itemsize == kind["opaque"]
    if "bitfield" in kind:
        return _is_number(kind["bitfield"], dtype)
    if "complex" in kind:
        return dtype.kind == "c" and _is_number(kind["complex"], _part(dtype))
    if "array" in kind:
        return _is_same_array(kind, dtype)
    return "fields" in kind and "number" not in kind and _is_same_compound(kind, dtype)


def _is_number(name: Any, dtype: np.dtype[Any]) -> bool:
    return isinstance(name, str) and dtype.kind in "iuf" and dtype.str == name


def _part(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")


def _is_same_array(kind: dict[str, Any], dtype: np.dtype[Any]) -> bool:
    if dtype.subdtype is None:
        return False
    base, shape = dtype.subdtype
    return list(shape) == list(kind["shape"]) and is_same_layout(kind["array"], base)


def _is_same_compound(kind: dict[str, Any], dtype: np.dtype[Any]) -> bool:
    if "offsets" in kind:
        return False
    if dtype.kind == "c":
        parts = [inner for _, inner in kind["fields"]]
        return len(parts) == 2 and all(isinstance(p, str) and _is_number(p, _part(dtype)) for p in parts)
    if dtype.names is None or [name for name, _ in kind["fields"]] != list(dtype.names):
        return False
    is_packed = dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names)
    return is_packed and all(is_same_layout(inner, dtype[name]) for name, inner in kind["fields"])
