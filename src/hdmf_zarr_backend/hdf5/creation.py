"""How a dataset is laid out in HDF5: chunks, filters, fill value; as noted, or what a pynwb user would expect.

Without a note: numbers of more than 64 KiB that are compressed in Zarr lie in chunks of at most 4 MiB, with the codecs
that they have in Zarr if every HDF5 reads those (zlib, shuffle), else shuffled and with gzip 4; all else lies
in one piece. What may grow lies in chunks.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.arrays.fills import fill_scalar
from hdmf_zarr_backend.errors import FilterReplacedWarning
from hdmf_zarr_backend.formats.chunking import CHUNK_BYTES, LEAST_CHUNK_BYTES, default_chunks
from hdmf_zarr_backend.hdf5.filters import BUILT_IN, pipeline_of, usable
from hdmf_zarr_backend.hdf5.order import set_orders
from hdmf_zarr_backend.hdf5.types import TypeJSON
from hdmf_zarr_backend.hdf5.values import decode_array
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

Shape = tuple[int, ...]
MaxShape = tuple["int | None", ...]

Step = tuple[int, int, tuple[int, ...]]

_DEFLATE, _SHUFFLE, _SCALE_OFFSET, _BITSHUFFLE = 1, 2, 6, 32008
_LOSSY = frozenset({32013, 32016, 32017, 32018, 32024, 32028})  # ZFP, FPZip, SZ, FCIDECOMP, SZ3, SPERR
_OPTIONAL = 1
_GZIP_LEVEL = 4
_CHUNK_TARGET = 2**20  # of chunks that are cut anew: HDF5's cache of chunks
_COMPACT_BYTES = 60_000  # HDF5 allows 64 KiB for a header message


def creation_list(
    node: ArrayNode[Attributes], note: dict[str, Any] | None, kind: TypeJSON, tid: Any, shape: Shape, maxshape: MaxShape
) -> Any:
    """Return the ``h5py.h5p.PropDCID`` of a dataset.

    Parameters
    ----------
    node : ArrayNode
        The array in Zarr.
    note : dict or None
        What is noted of the dataset; None if it never was in HDF5.
    kind, tid
        Its type, as JSON and of HDF5.
    shape, maxshape : tuple
        Of the dataset; an axis of ``maxshape`` that is None has no bound.
    """
    from h5py import h5d, h5p

    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)  # equal input, equal output
    set_orders(properties, note or {})
    if shape and not (note or {}).get("null"):
        chunks = _chunks(node, note, tid, shape, maxshape)
        if chunks is not None:
            properties.set_chunk(tuple(chunks))
            _set_filters(properties, _filters(node, note, tid), tid)
    if (note or {}).get("layout") == "compact" and math.prod(shape) * tid.get_size() < _COMPACT_BYTES:
        properties.set_layout(h5d.COMPACT)
    _set_fill(properties, node, note or {}, kind, tid)
    return properties


def _chunks(
    node: ArrayNode[Attributes], note: dict[str, Any] | None, tid: Any, shape: Shape, maxshape: MaxShape
) -> Shape | None:
    noted = (note or {}).get("chunks")
    if isinstance(noted, list) and len(noted) == len(shape) and all(type(n) is int and n > 0 for n in noted):
        return tuple(n if bound is None else max(1, min(n, bound)) for n, bound in zip(noted, maxshape, strict=True))
    grows = maxshape != shape
    if not grows and (note is not None or not _is_worth_compressing(node)):
        return None
    itemsize = tid.get_size()
    own = node.chunks[: len(shape)]
    if not numpy_dtype(node.data_type).hasobject and LEAST_CHUNK_BYTES <= math.prod(own) * itemsize <= CHUNK_BYTES:
        chunks = own
    else:
        chunks = _cut(own, itemsize)
    return tuple(n if bound is None else max(1, min(n, bound)) for n, bound in zip(chunks, maxshape, strict=True))


def _is_worth_compressing(node: ArrayNode[Attributes]) -> bool:
    dtype = numpy_dtype(node.data_type)
    return node.compressor is not None and not dtype.hasobject and node.size * dtype.itemsize > LEAST_CHUNK_BYTES


def _cut(chunks: Shape, itemsize: int) -> Shape:
    """Cut chunks of Zarr that are too large for HDF5, into equal parts along the first axis where that goes."""
    small = default_chunks(chunks, itemsize, target=_CHUNK_TARGET)
    parts = -(-chunks[0] // small[0])
    return (-(-chunks[0] // parts), *small[1:])


def _filters(node: ArrayNode[Attributes], note: dict[str, Any] | None, tid: Any) -> list[Step]:
    if note is None:
        if not _is_worth_compressing(node):
            return []
        return _own_filters(node) or _default_filters(tid)
    steps = note.get("filters", [])
    found = [step for step in steps if isinstance(step, list) and len(step) == 3]
    return [(int(code), int(flags), tuple(int(value) for value in values)) for code, flags, values in found]


def _own_filters(node: ArrayNode[Attributes]) -> list[Step]:
    """Return the codecs of an array as filters that every HDF5 library has; none if they are others."""
    pipeline = pipeline_of(node.filters, node.compressor, numpy_dtype(node.data_type)) or []
    if not {number for number, _, _ in pipeline} <= BUILT_IN:
        return []
    return [(number, flags, tuple(values)) for number, flags, values in pipeline]


def _set_filters(properties: Any, steps: list[Step], tid: Any) -> None:
    """Set the filters, with shuffle and gzip in the place of those that cannot be used."""
    kept = [step for step in steps if not _is_lossy(step[0], tid) and usable([[step[0], step[1], list(step[2])]])]
    if len(kept) < len(steps):
        left_out = ", ".join(str(step[0]) for step in steps if step not in kept)
        warnings.warn(
            f"HDF5 filter {left_out} is lossy or not installed; shuffle and gzip are used instead. What loses "
            f"precision is not applied a second time; hdf5plugin has many filters.",
            FilterReplacedWarning,
            stacklevel=2,
        )
        if _DEFLATE not in [step[0] for step in kept]:
            after = [step for step in kept if step[0] != _SHUFFLE]
            kept = [*_default_filters(tid), *after]
    for code, flags, values in kept:
        # bitshuffle itself puts three values before those of the user, again and again
        properties.set_filter(code, flags, values[3:] if code == _BITSHUFFLE else values)


def _default_filters(tid: Any) -> list[Step]:
    shuffle: list[Step] = [(_SHUFFLE, _OPTIONAL, ())] if tid.get_size() > 1 else []
    return [*shuffle, (_DEFLATE, _OPTIONAL, (_GZIP_LEVEL,))]


def _is_lossy(code: int, tid: Any) -> bool:
    from h5py import h5t

    return code in _LOSSY or (code == _SCALE_OFFSET and tid.get_class() == h5t.FLOAT)


def _set_fill(properties: Any, node: ArrayNode[Attributes], note: dict[str, Any], kind: TypeJSON, tid: Any) -> None:
    """Set the fill value; h5py has no way to say that it is undefined, which makes no difference to what is stored."""
    noted = note.get("fill")
    dtype: np.dtype[Any] = tid.dtype
    if isinstance(noted, dict) and "value" in noted:
        value = decode_array(noted["value"], (), kind, dtype, lambda reference: None)
    else:
        own = numpy_dtype(node.data_type)
        chosen = None if own.hasobject or dtype.subdtype is not None else fill_scalar(node, own)
        if chosen is None or dtype.kind == "O":
            return
        value = np.array(chosen, own).astype(dtype)
    if dtype.kind in "OS":
        import h5py

        charset = kind.get("text", "utf-8") if isinstance(kind, dict) else "utf-8"
        value = np.array(value[()], dtype=h5py.string_dtype(charset))  # h5py writes garbage for any other text type
    properties.set_fill_value(value)
