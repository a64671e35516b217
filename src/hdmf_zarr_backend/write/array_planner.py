"""Plans of single arrays: the metadata and the source of values for the data of one dataset.

As in HDF5IO, the type of the data takes precedence over the type of the builder.

Source: `encoding.dtypes` for the stored types; docs/format for the specification.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.encoding import dtypes
from hdmf_zarr_backend.encoding.casting import cast, cast_rows, cast_text, flatten, infer, to_bytes, to_text, unmasked
from hdmf_zarr_backend.encoding.codecs import in_format_2
from hdmf_zarr_backend.encoding.elements import TIME_WORDS, stored_text, word_element
from hdmf_zarr_backend.encoding.fills import fill_scalar
from hdmf_zarr_backend.encoding.layout import Layout, Sharding, as_scalar, new_dataset
from hdmf_zarr_backend.encoding.references import RegionReference, infer_reference
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.model.element import ASCII, UTF8, Compound, Element, Time
from hdmf_zarr_backend.model.nodes import StoredArray
from hdmf_zarr_backend.write import sources
from hdmf_zarr_backend.write.plan import PlannedArray, encode_fill, encode_object_fill

if TYPE_CHECKING:
    from hdmf_zarr_backend.array.lazy import LazyArray

Shape = tuple[int, ...]
Encode = Callable[[Any], Any]
Fields = Sequence[tuple[str, Element]]

_DATES = (datetime.datetime, datetime.date)
_BYTES_KINDS = ("ascii", "bytes")
_TEXT_KINDS = ("text", "ascii", "bytes")
_NUMBER_TYPES = (bool, int, float, complex, np.bool_, np.number, np.datetime64, np.timedelta64)


def shape_of(data: Any) -> tuple[int, ...]:
    """Return the shape of an array or of nested lists, taken from their first elements."""
    shape: tuple[int, ...] = ()
    while known := _outer_shape(data):
        shape += known
        if hasattr(data, "shape") or not known[0]:
            break
        data = _first(data)
    return shape


def first_leaf(data: Any, position: int = 0) -> Any:
    """Return the first element of nested lists or of an array, or a value of its type; None if there is none."""
    # with -1 as ``position``, it is the last one of the last one, and so on
    while (known := _outer_shape(data)) is not None:
        if not known:
            inner = data[()]
            if not isinstance(data, np.ndarray):
                return inner
            # zarr-python 3.1 returns an array without axes for one, with the object in it
            data = inner
            continue
        if not known[0]:
            return None
        text = getattr(data, "text_type", None)  # type of a stored array, without reading a chunk
        data = _first(data, position) if text is None else text()
    return data


def _outer_shape(data: Any) -> tuple[int, ...] | None:
    """Return the shape of an array, or the length of a sequence; None for a single value, also a container of hdmf."""
    is_value = data is np.ma.masked or isinstance(data, (str, bytes, dict, np.generic, RegionReference))
    if is_value or hasattr(data, "container_source"):  # without importing hdmf for data that has no container
        return None
    if hasattr(data, "shape"):
        return (0,) if data.shape is None else tuple(map(int, data.shape))
    return (len(data),) if hasattr(data, "__len__") else None


def _first(data: Any, position: int = 0) -> Any:
    return data[position] if hasattr(data, "__getitem__") else next(iter(data))


def _numbers_dtype(builder_dtype: Any) -> np.dtype[Any] | None:
    """Return the type of a number, or of a compound of numbers of any depth; None for other types."""
    stated = dtypes.word_of(builder_dtype)
    if not isinstance(stated, list):
        is_number = isinstance(stated, str) and dtypes.kind_of(stated) == "number"
        return dtypes.numpy_of(stated) if is_number else None
    fields = {str(field["name"]): _numbers_dtype(field["dtype"]) for field in stated}
    # not `None in`, which compares by ==: NumPy takes None for float64
    if any(dtype is None for dtype in fields.values()):
        return None
    return np.dtype([(name, dtype) for name, dtype in fields.items() if dtype is not None])


def plan_scalar(value: Any, builder_dtype: Any, options: Layout, reference: Encode) -> PlannedArray:
    """Plan a scalar dataset; text that is not valid UTF-8 is stored as bytes."""
    if isinstance(value, np.ndarray) and value.dtype.names is None:
        value = value[()]
    if isinstance(value, (np.void, np.ndarray)) and value.dtype.names is not None:
        return plan_scalar_row(value, builder_dtype, options, reference)
    kind = dtypes.kind_of(builder_dtype) if isinstance(builder_dtype, str) else None
    if isinstance(value, (str, bytes, *_DATES)):
        return plan_text([value], (), "ascii" if kind == "ascii" else "text", options, builder_dtype)
    if not isinstance(value, _NUMBER_TYPES):
        raise ValueRefusedError(f"a scalar of type {type(value).__name__} cannot be stored")
    array = infer(value)
    if kind == "number":
        array = cast(array, dtypes.number_type(builder_dtype, value.dtype if isinstance(value, np.generic) else None))
    array = array.reshape(1)
    node, notes = new_dataset(array.dtype, (), options)
    return PlannedArray(node, sources.IndexedSource(array, array.dtype), notes=notes)


def plan_scalar_row(value: Any, builder_dtype: Any, options: Layout, reference: Encode) -> PlannedArray:
    """Plan one row, or one value of an opaque type."""
    planned = plan_array(np.atleast_1d(np.asarray(value)), builder_dtype, options, reference)
    as_scalar(planned.node, planned.notes)
    return planned


def plan_references(
    data: Any, shape: Shape, options: Layout, reference: Encode, *, element: Element | None = None
) -> PlannedArray:
    """Plan a dataset of references of any rank, whose kind is that of ``element``, or of the references."""
    if element is None:
        _, leaves = flatten(data) if isinstance(data, (list, tuple, np.ndarray)) else ((), [first_leaf(data)])
        element = infer_reference(leaves)
    return _plan_objects(element, data, shape, reference, options)


def _plan_objects(
    element: Element, data: Any, shape: Shape, encode: Encode, options: Layout, *, as_bytes: bool = False
) -> PlannedArray:
    """Plan text or references; ``data`` is a list of one element for a scalar."""
    node, notes = new_dataset(element, shape, options, as_bytes=as_bytes)
    node.stored.fill_value = encode_object_fill(options.fill_value, node.stored.first_filter.get("id"))
    return PlannedArray(node, sources.ElementSource(data, node.stored.shape, encode), notes=notes)


def plan_rows(
    data: Any, length: int, fields: Fields, options: Layout, reference: Encode, encoders: Sequence[Encode] | None = None
) -> PlannedArray:
    """Plan compound rows with text or references; ``encoders`` make JSON of the fields, by default by their types."""
    node, notes = new_dataset(Compound(tuple(fields)), (length,), options)
    encode_object_fill(options.fill_value, node.stored.first_filter.get("id"))  # refuses any
    converters: Sequence[Encode | np.dtype[Any]] = encoders or ()
    if encoders is None:
        for _, element in fields:
            if isinstance(element, Time):
                dtypes.check_units(dtypes.dtype_of(element).str)
        converters = [sources.field_encoder(element, reference) for _, element in fields]
    # noted only where it differs from the shape
    if options.maxshape is not None and options.maxshape[:1] != (length,):
        notes["maxshape"] = list(options.maxshape)[:1]
    return PlannedArray(node, sources.RowSource(data, length, converters, [name for name, _ in fields]), notes=notes)


def plan_array(
    data: Any, builder_dtype: Any, options: Layout, reference: Encode, *, element_type: type | None = None
) -> PlannedArray:
    """Plan an array, or nested lists, of numbers, text, bytes or rows, of any rank above 0."""
    # ``builder_dtype`` is the type as HDMF names it, or the list of fields; None: that of the data. ``element_type`` is
    # the type as a class.
    data = unmasked(data)
    if isinstance(builder_dtype, list):
        return _plan_compound(data, builder_dtype, options, reference)
    kind = dtypes.kind_of(builder_dtype) if isinstance(builder_dtype, str) else None
    is_typed = hasattr(data, "dtype") and hasattr(data, "shape") and isinstance(data.dtype, np.dtype)
    if isinstance(data, np.ndarray) and data.dtype == object:
        if builder_dtype == "utf8":  # what hdmf states for every array of objects
            kind = None
    elif is_typed:
        return _plan_typed(data, kind, builder_dtype, options, reference)
    elif element_type is not None and element_type in (type(first_leaf(data)), type(first_leaf(data, -1))):
        # hdmf has taken the type from one element and has not looked at the others, so all of them choose it again
        kind = None
    return _plan_elements(data, kind, builder_dtype, options, reference)


def _plan_elements(data: Any, kind: str | None, builder_dtype: Any, options: Layout, reference: Encode) -> PlannedArray:
    """Plan nested lists, or an array of objects; all elements choose the type if ``kind`` is None."""
    array = infer(data)
    if not array.size:
        if kind is None and not isinstance(data, np.ndarray):
            raise ValueRefusedError("empty data without a type", remedy="Give a NumPy array with a dtype.")
        array = array.astype(dtypes.numpy_of(builder_dtype) if kind == "number" else object)
    if kind == "number":
        array = cast(array, dtypes.number_type(builder_dtype, array.dtype))
    if array.dtype != object:
        return _plan_typed(array, kind, builder_dtype, options, reference)
    types = set(map(type, array.reshape(-1)))
    has_text, has_bytes = (any(issubclass(cls, base) for cls in types) for base in (str, bytes))
    if kind not in _TEXT_KINDS:
        kind = "ascii" if has_bytes and not has_text else "text"
    if has_text and has_bytes and kind != "bytes":
        kind, array = "text", cast_text(array, to_text)
    return plan_text(array, array.shape, kind, options, builder_dtype)


def _plan_typed(data: Any, kind: str | None, builder_dtype: Any, options: Layout, reference: Encode) -> PlannedArray:
    dtype: np.dtype[Any] = data.dtype
    if dtype.kind == "O" and kind not in _TEXT_KINDS:
        first = first_leaf(data)
        if isinstance(first, (str, bytes, *_DATES, type(None))):
            kind = "ascii" if isinstance(first, bytes) else "text"
            return plan_text(data, tuple(data.shape), kind, options, builder_dtype)
        return _plan_elements(np.asarray(data), kind, builder_dtype, options, reference)
    is_stored = hasattr(data, "text_type")  # a stored array of fixed-length text keeps its type
    if dtype.kind in "OTU" or (dtype.kind == "S" and kind in ("text", "ascii") and not is_stored):
        return plan_text(data, tuple(data.shape), kind if kind in _TEXT_KINDS else "text", options, builder_dtype)
    if dtype.names is not None and dtype.hasobject and isinstance(data, np.ndarray):
        return plan_rows(data, len(data), _fields_of_objects(data), options, reference)
    stored = dtypes.plain(dtype)
    if kind == "number" and isinstance(builder_dtype, str):
        stored = dtypes.number_type(builder_dtype, stored)
    return plan_stored(data, stored, options)


def _fields_of_objects(rows: npt.NDArray[Any]) -> Fields:
    """Return the fields of structured rows with text as Python objects, each from all of its values."""
    if rows.ndim != 1:
        raise ValueRefusedError(f"rows with text have {rows.ndim} axes", remedy="Give them with one axis.")
    fields: list[tuple[str, Element]] = []
    for name in rows.dtype.names or ():
        column = infer(rows[name])
        if column.ndim > 1 or column.dtype.names is not None:
            problem = f"the field {name!r} of rows with text has several values"
            raise ValueRefusedError(problem, remedy="Give a number or text for each field.")
        text = ASCII if column.dtype.kind == "S" or {bytes} == set(map(type, column)) else UTF8
        fields.append((name, text if column.dtype.kind in "OSTU" else dtypes.element_of(column.dtype)))
    return fields


def plan_stored(data: Any, dtype: np.dtype[Any], options: Layout) -> PlannedArray:
    """Plan an array of numbers, dates, or rows of these, of a NumPy type."""
    node, notes = new_dataset(dtype, tuple(data.shape), options)
    node.stored.fill_value = encode_fill(options.fill_value, dtype)
    return PlannedArray(node, sources.IndexedSource(data, dtype) if node.stored.size else None, notes=notes)


def plan_text(data: Any, shape: Shape, kind: str | None, options: Layout, builder_dtype: Any = None) -> PlannedArray:
    """Plan an array of text; bytes that are not text stay bytes."""
    holds_bytes, fill = isinstance(first_leaf(data), bytes), options.fill_value
    is_binary = (holds_bytes or kind == "ascii") and isinstance(fill, bytes) and not sources.is_utf8(fill)
    if kind == "bytes" or is_binary or (holds_bytes and not sources.all_utf8(data, shape[0] if shape else 1)):
        return _plan_objects(ASCII, data, shape, to_bytes, options, as_bytes=True)
    planned = _plan_objects(ASCII if kind == "ascii" else UTF8, data, shape, to_text, options)
    if kind != "ascii" and builder_dtype in TIME_WORDS:
        planned.notes["text"] = builder_dtype
    return planned


def _plan_compound(data: Any, fields: list[Any], options: Layout, reference: Encode) -> PlannedArray:
    """Plan rows: as NumPy stores them if they have numbers and bytes of fixed length only, else with text as JSON."""
    dtype = _numbers_dtype(fields)
    given: Any = getattr(data, "dtype", None)
    stated = {str(field["name"]): dtypes.word_of(field["dtype"]) for field in fields}
    if isinstance(given, np.dtype) and given.names is not None and hasattr(data, "shape"):
        has_plain_fields = dtype is not None
        if dtype is None and not given.hasobject and set(stated) == set(given.names):
            has_plain_fields = all(
                _numbers_dtype(field) is not None
                or (given[name].base.kind == "S" and isinstance(field, str) and dtypes.kind_of(field) in _BYTES_KINDS)
                for name, field in stated.items()
            )
        if has_plain_fields:  # in the order of the builder, with the types of the data
            ordered = np.dtype([(name, given[name]) for name in stated]) if set(stated) == set(given.names) else given
            return plan_stored(data, dtypes.plain(ordered), options)
    if dtype is not None:
        return plan_stored(cast_rows(data, dtype, 1), dtype, options)
    elements: list[tuple[str, Element]] = []
    for field in fields:
        name, field_dtype = str(field["name"]), stated[str(field["name"])]
        if not isinstance(field_dtype, str):
            problem = f"a field of type {field['dtype']!r} cannot be stored: an inner compound may have numbers only"
            raise ValueRefusedError(problem)
        is_number = dtypes.kind_of(field_dtype) == "number"
        elements.append((name, word_element(dtypes.numpy_of(field_dtype).name if is_number else field_dtype)))
    return plan_rows(data, len(data), elements, options, reference)


def keep_layout(planned: PlannedArray, data: LazyArray, *, chunks: bool, codecs: bool, fill_value: bool) -> None:
    """Set the chunks and shards, codecs and fill value of a planned array to those of the stored one that it copies."""
    # Nothing is changed if the type of the elements, or the codec of objects, differs.
    stored, old = planned.node.stored, data.node.stored
    dtype = dtypes.numpy_dtype(old.data_type)
    has_other_codec = dtype.hasobject and (stored.filters or [])[:1] != (old.filters or [])[:1]
    if planned.source is None or stored.shape != old.shape or not _has_type_of(stored, old) or has_other_codec:
        return
    if chunks:
        stored.chunks, stored.order = old.chunks, old.order if isinstance(old.order, str) else "C"
        if old.shards is not None:
            planned.sharding = Sharding(old.shards.shape, are_chunks_given=True, is_kept=True)
    if fill_value and (dtype.kind in "biufc" or (dtype.kind in "mM" and old.fill_value != 0)):
        stored.fill_value = encode_fill(fill_scalar(old, dtype), dtype)
    elif fill_value and isinstance(old.fill_value, str) and (not dtype.hasobject or stored_text(old)):
        # the 0 that hdmf-zarr declares for all others is not kept: newer readers refuse it
        stored.fill_value = old.fill_value or None
    if codecs:
        stored.filters = in_format_2(old.filters)
        stored.compressor = None if old.compressor is None else dict(old.compressor)


def take_stored(planned: PlannedArray, data: LazyArray) -> None:
    """Let a planned array use the chunks of the stored array that it copies, as they are where possible.

    What changes when it is stored in format 3 is encoded again after all (`write.plan`, ``_encode_again``).
    """
    from hdmf_zarr_backend.array.lazy import EditableArray

    source = planned.source
    # changes of an editable array that are not written yet are visible only through the array itself
    if source is None or isinstance(data, EditableArray):
        return
    store = data.file_store
    if isinstance(source, sources.IndexedSource):
        source = sources.ZarrSource(store, data.path, data.node, source.dtype)
    stored, old = planned.node.stored, data.node.stored
    has_same_grid = (stored.shape, stored.chunks, stored.order) == (old.shape, old.chunks, old.order)
    has_same_codecs = (stored.filters or None, stored.compressor) == (old.filters or None, old.compressor)
    is_same = has_same_grid and has_same_codecs and _has_type_of(stored, old)
    planned.source = sources.StoredChunks(store, data.path, data.node, source) if is_same else source


def _has_type_of(stored: StoredArray, old: StoredArray) -> bool:
    return dtypes.numpy_dtype(stored.data_type) == dtypes.numpy_dtype(old.data_type)
