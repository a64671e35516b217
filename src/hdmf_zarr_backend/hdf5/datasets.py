"""HDF5 datasets <-> Zarr arrays: kind of elements, type, chunks, filters, fill value, maximum shape.

HDF5 -> Zarr: `describe`; Zarr -> HDF5: `creation_list`. The *note* in a reserved attribute of the array has what Zarr
cannot express, and restores the same dataset: docs/format/format-2.md, "What an object was in HDF5".

Without a note a dataset gets the form that pynwb users expect. Numbers of more than 64 KiB that are compressed in Zarr
are stored in chunks of at most 4 MiB, with the codecs of the array if every HDF5 library can read them (zlib, shuffle),
else with shuffle and gzip level 4. Everything else is contiguous. A dataset that can grow is chunked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5p, h5t

from hdmf_zarr_backend.encoding import elements
from hdmf_zarr_backend.encoding.chunk_codec import value_bytes
from hdmf_zarr_backend.encoding.codecs import is_chunk_shape
from hdmf_zarr_backend.encoding.dtypes import Kind, element_of, has_unusual_nan, numpy_dtype, plain
from hdmf_zarr_backend.encoding.fills import fill_scalar
from hdmf_zarr_backend.encoding.hdf5_types import in_numpy, to_note
from hdmf_zarr_backend.encoding.hdf5_values import Array, decode_array, encode_array, encode_text
from hdmf_zarr_backend.encoding.layout import CHUNK_BYTES, LEAST_CHUNK_BYTES, Layout, default_chunks
from hdmf_zarr_backend.encoding.reserved import as_dict
from hdmf_zarr_backend.errors import FilterReplacedWarning, UsageError, warn
from hdmf_zarr_backend.hdf5 import attributes, filters
from hdmf_zarr_backend.model.element import ASCII, REFERENCE, REGION, UTF8, Compound, Element, Opaque, Text
from hdmf_zarr_backend.model.nodes import StoredArray

Shape = tuple[int, ...]
MaxShape = tuple["int | None", ...]
Note = dict[str, Any] | None

_LOSSY = frozenset({32013, 32016, 32017, 32018, 32024, 32028})  # ZFP, FPZip, SZ, FCIDECOMP, SZ3, SPERR
# with text of variable length: HDF5 tells them nothing about such elements
_CRASHING = frozenset({filters.SZIP, filters.NBIT, filters.BLOSC, filters.BLOSC2})
_IN_ROWS: dict[str, Element] = {"text": UTF8, "ascii": ASCII, "object": REFERENCE, "region": REGION}


@dataclass(slots=True)
class Description:
    """Type, shape and storage of an HDF5 dataset, with the note to keep; maxshape and chunks are those in HDF5."""

    kind: Kind  # ``compound`` for rows with text or references, ``number`` for other structured data
    dtype: np.dtype[Any]  # of plain elements, packed and without metadata
    element: Element
    fields: tuple[tuple[str, Element], ...] = ()  # of a compound, as rows have them in Zarr
    inner: tuple[int, ...] = ()  # shape of an element that is an array; these are further axes of the Zarr array
    maxshape: tuple[int | None, ...] | None = None
    chunks: tuple[int, ...] | None = None
    fill_value: Any = None  # None if the file defines none, or zero
    loses_fill: bool = False  # whether it has one that cannot be written to HDF5 again
    note: dict[str, Any] = field(default_factory=dict)

    @property
    def element_dtype(self) -> np.dtype[Any]:
        """Type of an element, including its own axes."""
        return np.dtype((self.dtype, self.inner)) if self.inner else self.dtype

    @property
    def is_raw(self) -> bool:
        """Whether the bytes of elements in the file are those of ``element_dtype``."""
        return self.kind == "number" and is_same_layout(self.element, self.element_dtype)


def is_same_layout(element: Element, dtype: np.dtype[Any]) -> bool:
    """Tell whether raw elements of an HDF5 type are elements of ``dtype`` without conversion."""
    # not the same: padded compounds, numbers with a custom layout, text with a terminator or padded with spaces
    return not dtype.hasobject and in_numpy(element) == element_of(dtype)


# ---- HDF5 -> Zarr ---------------------------------------------------------------------------------------------------


def describe(dataset: Any) -> Description:
    """Return type, shape and storage of an ``h5py.Dataset``."""
    tid, created = dataset.id.get_type(), dataset.id.get_create_plist()
    element = attributes.storable_type(tid)
    kind = attributes.kind_of(element)
    dtype = attributes.numpy_type(tid)
    note: dict[str, Any] = {} if dataset.shape is not None else {"null": True}
    if dataset.chunks is not None:
        note["chunks"] = list(dataset.chunks)
    elif created.get_layout() == h5d.COMPACT:
        note["layout"] = "compact"
    if pipeline := filters.filters_of(created):
        note["filters"] = pipeline
    # the other times differ in what a chunk has that is written in part, and h5py's own default is one or the other
    if created.get_fill_time() == h5d.FILL_TIME_NEVER:
        note["fill_time"] = "never"
    note |= attributes.noted_orders(dataset.id, created)
    # `encoding.elements.describe` reads this one: with it, the stored integers are an enumeration. The ``type`` of the
    # note is added only if that is not the one of the file (`hdf5.plan.plan_described`); `Described.noted` reads it.
    if "enum" in (noted := as_dict(to_note(element))):
        note["enum"] = dict(noted["enum"])
    if isinstance(element, Text) and element.size is not None and element.charset == "utf-8":
        note["charset"] = "utf-8"
    fields: list[tuple[str, Element]] = []
    for name, member in element.fields if kind == "compound" and isinstance(element, Compound) else ():
        in_zarr = _IN_ROWS.get(attributes.kind_of(member))
        if in_zarr is None and dtype[name].kind in "biuf":
            in_zarr = element_of(plain(dtype[name]))
        # what rows have no type for is JSON in them, and has the element of its bytes here
        fields.append((name, in_zarr or (ASCII if dtype[name].kind == "S" else Opaque(dtype[name].itemsize))))
    description = Description(
        kind=kind,
        dtype=plain(dtype.base),
        element=element,
        fields=tuple(fields),
        inner=tuple(dtype.shape),
        maxshape=tuple(dataset.maxshape) if dataset.shape else None,
        chunks=dataset.chunks,
        note=note,
    )
    _describe_fill(description, created, dtype)
    return description


def _describe_fill(description: Description, created: Any, dtype: np.dtype[Any]) -> None:
    """Record the fill value if the file defines one."""
    defined = created.fill_value_defined()
    if defined == h5d.FILL_VALUE_UNDEFINED:
        description.note["fill"] = "undefined"
    is_tagged = isinstance(description.element, Opaque) and description.element.tag and description.dtype.kind == "V"
    if is_tagged or description.inner or description.kind in ("object", "region", "compound"):
        # h5py can write no fill value of this type, and read those that are references only
        is_null = description.kind in ("object", "region") and not stored_fill(created, dtype)[()]
        description.loses_fill = defined == h5d.FILL_VALUE_USER_DEFINED and not is_null
        return
    is_text = description.kind in ("text", "ascii")
    value = stored_fill(created, dtype, is_text=is_text)
    is_zero = not (value[()] if is_text else value.tobytes().strip(b"\0"))
    if is_zero and (is_text or defined != h5d.FILL_VALUE_USER_DEFINED):  # netCDF tells a defined one from none
        return
    if description.maxshape is not None and not is_zero:
        fill: Any = value[()] if is_text else value.astype(description.dtype)[()]
        if description.kind == "text":  # text in Zarr has to be UTF-8; other bytes are kept in the note only
            fill = text if isinstance(text := encode_text(fill), str) else None
        description.fill_value = fill
    if value.dtype.names is not None or is_text or description.fill_value is None or has_unusual_nan(value):
        description.note["fill"] = {"value": encode_array(value, description.element, lambda reference: None)}


def stored_fill(created: Any, dtype: np.dtype[Any], *, is_text: bool = False) -> Array:
    """Return the fill value of a dataset as an array without axes, zero if it is undefined."""
    # h5py needs an axis for text, and none for other types
    value = np.zeros((1,) if is_text else (), dtype)
    if created.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
        created.get_fill_value(value)
    return value.reshape(()) if is_text else value.astype(dtype.base, copy=False)


# ---- Zarr -> HDF5 ---------------------------------------------------------------------------------------------------


class DatasetForm(NamedTuple):
    """The HDF5 dataset that an array becomes: of the shape ``()`` for a scalar."""

    stored: StoredArray
    stored_as: elements.Form
    element: Element  # the type recorded in the note of the array, else the type of its elements in Zarr
    shape: tuple[int, ...]


def creation_list(stored: StoredArray, note: Note, element: Element, tid: Any, shape: Shape, maxshape: MaxShape) -> Any:
    """Return the ``h5py.h5p.PropDCID`` to create a dataset with."""
    properties = h5p.create(h5p.DATASET_CREATE)
    # without the time of creation, so that equal input gives equal files
    properties.set_obj_track_times(False)
    attributes.set_orders(properties, note or {})
    # HDF5 always writes those of text of variable length
    if (note or {}).get("fill_time") == "never" and not attributes.numpy_type(tid).hasobject:
        properties.set_fill_time(h5d.FILL_TIME_NEVER)
    if shape and not (note or {}).get("null"):
        chunks = _chunks(stored, note, tid, shape, maxshape)
        if chunks is not None:
            properties.set_chunk(tuple(chunks))
            filters.set_filters(properties, _filters(stored, note, tid))
    # compact values are in the header of the dataset, and HDF5 allows 64 KiB for a header message
    if (note or {}).get("layout") == "compact" and math.prod(shape) * tid.get_size() < 60_000:
        properties.set_layout(h5d.COMPACT)
    noted, dtype = (note or {}).get("fill"), attributes.numpy_type(tid)
    if isinstance(noted, dict) and "value" in noted:
        value = decode_array(noted["value"], (), element, dtype, lambda reference: None)
    else:  # a note may say "undefined", which h5py cannot set; it does not change what is stored
        own = numpy_dtype(stored.data_type)
        has_fill = dtype.subdtype is None and (not own.hasobject or elements.stored_text(stored) is not None)
        has_fill = has_fill and not (dtype.names and dtype.hasobject)  # with one, h5py damages the file
        fill = fill_scalar(stored, own) if has_fill else None
        if fill is None or ((own.hasobject or dtype.kind == "O") and not fill):
            return properties
        value = np.array(fill, own).astype(dtype)
    if dtype.kind in "OS":
        # of any other type of text h5py writes wrong values
        charset = element.charset if isinstance(element, Text) else "utf-8"
        value = np.array(value[()], dtype=h5py.string_dtype(charset))
    properties.set_fill_value(value)
    return properties


def chosen_note(layout: Layout, stored: StoredArray, note: Note, tid: Any, shape: Shape, maxshape: MaxShape) -> Note:
    """Return the note of a dataset with the chunks and filters that the user has chosen; others stay."""
    size = tid.get_size()
    chunks = layout.chunks or _chunks(stored, note, tid, shape, maxshape) or default_chunks(shape, size, target=2**20)
    pipeline: filters.Pipeline | None
    if layout.compressor is None and not layout.filters:
        pipeline = _filters(stored, note, tid)
    else:
        pipeline = filters.pipeline_of(layout.filters, layout.compressor_config(), numpy_dtype(stored.data_type))
        if pipeline is None or not filters.usable(pipeline):
            problem = f"HDF5 has no filter here for the codecs {[*(layout.filters or ()), layout.compressor_config()]}"
            remedy = 'Use "zlib" or "none", or install hdf5plugin, which has filters for "zstd" and "blosc".'
            raise UsageError(problem, remedy=remedy)
    others = {key: value for key, value in (note or {}).items() if key != "layout"}
    return {**others, "chunks": list(chunks), "filters": pipeline}


def _chunks(stored: StoredArray, note: Note, tid: Any, shape: Shape, maxshape: MaxShape) -> Shape | None:
    """Return the noted chunk shape, else that of Zarr if HDF5 allows it; None for a contiguous dataset."""
    noted = (note or {}).get("chunks")
    if is_chunk_shape(noted, len(shape)):
        chunks = tuple(noted)
    elif maxshape == shape and (note is not None or not _is_worth_compressing(stored)):
        return None
    else:
        chunks, itemsize = stored.chunks[: len(shape)], tid.get_size()
        is_suitable = LEAST_CHUNK_BYTES <= math.prod(chunks) * itemsize <= CHUNK_BYTES
        if numpy_dtype(stored.data_type).hasobject or not is_suitable:
            # Into equal parts along the first axis if possible, of at most 1 MiB, the chunk cache of HDF5 by default: a
            # chunk that does not fit there is decoded again for each read of a part of it.
            small = default_chunks(chunks, itemsize, target=2**20)
            parts = -(-chunks[0] // small[0])
            chunks = (-(-chunks[0] // parts), *small[1:])
    # HDF5 refuses chunks that are longer than the maximum shape of the dataset, but for axes of no length
    return tuple(
        min(n, bound) if length and bound else n for n, length, bound in zip(chunks, shape, maxshape, strict=True)
    )


def _is_worth_compressing(stored: StoredArray) -> bool:
    dtype = numpy_dtype(stored.data_type)
    return stored.compressor is not None and not dtype.hasobject and value_bytes(stored) > LEAST_CHUNK_BYTES


def _filters(stored: StoredArray, note: Note, tid: Any) -> filters.Pipeline:
    """Return the noted filters, else those of the codecs; with shuffle and gzip in place of unusable ones."""
    # the note is of a file, and not trusted
    noted = None if note is None else filters.filter_entries(note.get("filters", []))
    if noted is None:
        if not _is_worth_compressing(stored):
            return []
        own = filters.pipeline_of(stored.filters, stored.compressor, numpy_dtype(stored.data_type))
        return own if own and {number for number, _, _ in own} <= filters.BUILT_IN else _default_filters(tid)
    steps = list(map(list, noted))
    # a lossy filter would lose more the second time: the values in Zarr are those that it left of the original ones
    unfit = _LOSSY | {filters.SCALE_OFFSET} if tid.get_class() == h5t.FLOAT else _LOSSY
    if tid.get_class() == h5t.STRING and tid.is_variable_str():
        unfit = _LOSSY | _CRASHING
    kept = [step for step in steps if step[0] not in unfit and filters.usable([step])]
    if len(kept) == len(steps):
        return steps
    left_out = ", ".join(str(step[0]) for step in steps if step not in kept)
    message = f"HDF5 filter {left_out} is lossy, not for this type, or not installed; shuffle and gzip are used "
    message += "instead. A lossy filter is not applied a second time; the package hdf5plugin has many filters."
    warn(message, FilterReplacedWarning)
    if filters.DEFLATE in [step[0] for step in kept]:
        return kept
    return [*_default_filters(tid), *(step for step in kept if step[0] != filters.SHUFFLE)]


def _default_filters(tid: Any) -> filters.Pipeline:
    shuffle: filters.Pipeline = [[filters.SHUFFLE, filters.OPTIONAL, []]] if tid.get_size() > 1 else []
    return [*shuffle, [filters.DEFLATE, filters.OPTIONAL, [4]]]
