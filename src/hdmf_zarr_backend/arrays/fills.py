"""The fill value of an array: as a NumPy scalar or object, and as the content of a chunk that is not stored.

Source: Zarr v2 specification, "Fill value encoding".
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.shards import inner_grid
from hdmf_zarr_backend.encoding.chunks import Array, StructRows
from hdmf_zarr_backend.encoding.type_codes import letter_of
from hdmf_zarr_backend.errors import ChunkError, MetadataError, at
from hdmf_zarr_backend.formats.dtypes import numpy_dtype
from hdmf_zarr_backend.formats.lindi import external_of
from hdmf_zarr_backend.formats.zarr3 import has_records
from hdmf_zarr_backend.model.element import check_characters
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.base import DOCUMENTS, Store


def fill_array(stored: StoredArray, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return the content of a chunk that is not stored.

    With a fill value of null the elements are undefined; they read as zero, empty text or None, as in zarr-python.
    """
    elsewhere = external_of(stored)
    if elsewhere is not None:
        url, name = elsewhere
        problem = f"the values are not in this file, but in the dataset {name!r} of {url}"
        remedy = f"Make references that have them: `zarrio convert {url} x.nwb.zarr.json --to virtual`."
        raise ChunkError(problem, remedy=remedy)
    array: Array = np.zeros(shape, dtype) if not dtype.hasobject else np.empty(shape, dtype)
    value = fill_scalar(stored, dtype)
    if value is None and has_records(stored):
        return StructRows(stored.first_filter["fields"], numpy_dtype).empty(math.prod(shape[:-1])).reshape(shape)
    if value is None and dtype.kind == "O":
        value = _EMPTY.get(stored.first_filter.get("id"))
    if value is not None:
        array[...] = value
    return array


_EMPTY: dict[Any, Any] = {"vlen-utf8": "", "vlen-bytes": b""}


def fill_scalar(array: StoredArray, dtype: np.dtype[Any]) -> Any:
    """Return the fill value of ``array`` as a NumPy scalar or object, or None if it is undefined."""
    value = array.fill_value
    if value is None or (dtype.hasobject and dtype.names is not None):
        return None  # a fill of rows with references is a pickle in old files: never decoded, never needed
    if dtype.kind == "O":
        codec_id = array.first_filter.get("id")
        if isinstance(value, str):
            return _bytes_fill(value) if codec_id == "vlen-bytes" else value
        return _EMPTY.get(codec_id, value)  # hdmf-zarr declared 0 for text and bytes
    try:
        if letter_of(dtype) in "SV" and isinstance(value, str):
            raw = base64.standard_b64decode(value)
            values = np.frombuffer(raw.ljust(dtype.itemsize, b"\0")[: dtype.itemsize], dtype)
            check_characters(values)
            return values[0]
        if value == 0 and letter_of(dtype) in "SUV":
            return np.zeros((), dtype)[()]  # zarr 2 declared 0 for everything
        return _number_fill(value, dtype)
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise MetadataError(f"the fill value {value!r} does not fit {dtype} ({error})") from error


def _number_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c" and isinstance(value, list):
        real, imaginary = value
        return dtype.type(complex(float(real), float(imaginary)))
    if dtype.kind in "mM":
        return np.array(value, "i8" if type(value) is int else dtype).astype(dtype)[()]
    if isinstance(value, (list, dict)):
        raise TypeError("it is not a single value")
    if isinstance(value, str) and letter_of(dtype) == "f":
        value = float(value)  # which the types of other libraries do not take as text
    return np.array(value, dtype)[()]


def _bytes_fill(value: str) -> bytes:
    """Return the fill value of bytes: Base64, as zarr-python 3 writes it; others have written text."""
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return value.encode("utf-8", "surrogatepass")


_LEAST_BYTES = 2**16
"""The least bytes that a chunk counts as, since each becomes an object in the copy."""

_INDEX_ENTRY = 16
"""Bytes of an entry of the index of a shard."""


def check_unwritten(store: Store, path: str, array: StoredArray) -> None:
    """Make sure that the chunks that an array lacks are few enough to be created.

    The keys of the array are listed only where it states more than the limit in all.
    """
    limits = store.read_rules.limits
    cost = max(math.prod(array.chunks) * numpy_dtype(array.data_type).itemsize, _LEAST_BYTES)
    stated = math.prod(array.grid)
    if stated * cost <= limits.max_unwritten_bytes:
        return
    stored = 0
    if store.abilities.listing:
        objects = sum(key.rpartition("/")[2] not in DOCUMENTS for key in store.list_prefix(path))
        # the index of a shard has an entry for each of its chunks
        stored = objects * min(math.prod(inner_grid(array)), limits.max_stored_bytes // _INDEX_ENTRY)
    absent = stated - stored
    what = f"{stated:,} chunks are stated, and at most {stored:,} of them are stored"
    with at(store, path):
        limits.check("max_unwritten_bytes", absent * cost, what)
