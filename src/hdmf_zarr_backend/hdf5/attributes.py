"""HDF5 data types in h5py; attributes of an object <-> values for `encoding.attributes`, with a note of what is lost.

Types: what cannot be stored, memory types, and the kinds and layouts of elements; `encoding` has the `Element` of each.

The note of an object has an entry for an attribute only where something would otherwise be lost. The keys of that note,
and of that on the creation order of links and attributes, are in docs/format/format-2.md, "What an object was in HDF5".

Conversely, HDF5 has no type for objects, lists of unlike values, and integers of any size. They become JSON in a
compound of one field, `JSON_ROW`, by which it is recognised on the way back.

Source: HDF5 reference manual, "Datatypes"; `h5py.h5t` for the types that NumPy has.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import h5py
import numpy as np
from h5py import h5, h5a, h5g, h5s, h5t

from hdmf_zarr_backend.encoding import references
from hdmf_zarr_backend.encoding.attributes import as_array, decode_attributes, default_element, encode_attributes
from hdmf_zarr_backend.encoding.chunks import in_layout
from hdmf_zarr_backend.encoding.dtypes import Kind, plain
from hdmf_zarr_backend.encoding.hdf5_types import JSON_ROW, from_hdf5, from_note, raw_of, text_of, to_hdf5, to_note
from hdmf_zarr_backend.encoding.hdf5_values import (
    Array,
    array_of,
    decode_array,
    decode_text,
    encode_array,
    encode_text,
    object_array,
)
from hdmf_zarr_backend.errors import ValueRefusedError, ZarrBackendError
from hdmf_zarr_backend.model.element import ArrayOf, Compound, Element, Opaque, Reference, Sequence, Text

T = TypeVar("T")
_TYPES = 1000  # kept at most
_POINTER = np.dtype([("size", np.uintp), ("address", np.uintp)])  # hvl_t of HDF5, a sequence in memory


def _by_type(function: Callable[..., T]) -> Callable[..., T]:
    """Keep what a function returns for an HDF5 type, since most objects of a file have one of few types."""
    # By the encoded type, which takes HDF5 a tenth of the time of a description.
    results: dict[Hashable, T] = {}

    @functools.wraps(function)
    def call(tid: Any, **options: bool) -> T:
        key = (tid.encode(), *options.values())
        if (result := results.get(key)) is None:  # which no function returns
            if len(results) >= _TYPES:
                results.clear()
            results[key] = result = function(tid.copy(), **options)  # a copy: a named type belongs to its file
        return result

    return call


@_by_type
def storable_type(tid: Any) -> Element:
    """Return the `Element` of an ``h5py.h5t.TypeID`` whose values can be stored."""
    element = from_hdf5(tid)
    if isinstance(element, (ArrayOf, Compound, Sequence)):
        arrays = (part for part in parts_of(tid) if part.get_class() == h5t.ARRAY)
        if any(part.get_super().get_class() == h5t.ARRAY for part in arrays):
            problem = "elements that are arrays of arrays cannot be stored"
            raise ValueRefusedError(problem, remedy="Store the values in an array type with more axes.")
        rows = (part for part in parts_of(tid) if part.get_class() == h5t.COMPOUND)
        names = (text_of(row.get_member_name(index)) for row in rows for index in range(row.get_nmembers()))
        if odd := next((name for name in names if any("\udc80" <= letter <= "\udcff" for letter in name)), None):
            raise ValueRefusedError(f"the name of the field {odd!r} is not UTF-8", remedy="Rename the field.")
    return element


def parts_of(tid: Any) -> Iterator[Any]:
    """Yield a type and all types inside it."""
    pending = [tid]
    while pending:
        part = pending.pop()
        yield part
        form = part.get_class()
        if form == h5t.COMPOUND:
            pending += map(part.get_member_type, range(part.get_nmembers()))
        elif form in (h5t.ARRAY, h5t.VLEN, h5t.ENUM):
            pending.append(part.get_super())


@_by_type
def is_sparse(tid: Any) -> bool:
    """Tell whether a type has numbers that use less than half of their bits."""
    # HDF5 2.0 treats such a type as damage in a file without checksums, which the oldest version of the format is.
    numbers = (part for part in parts_of(tid) if part.get_class() in (h5t.INTEGER, h5t.FLOAT))
    return any(part.get_size() > 1 and 2 * part.get_precision() < 8 * part.get_size() for part in numbers)


# ---- memory types ---------------------------------------------------------------------------------------------------


@_by_type
def numpy_type(tid: Any) -> np.dtype[Any]:
    """Return the NumPy type for values of ``tid``: h5py's, but bytes for opaque data, and fields that fit in it."""
    return _numpy_type(tid, from_hdf5(tid))


def _numpy_type(tid: Any, element: Element) -> np.dtype[Any]:
    match element:
        case ArrayOf(base, shape):
            while tid.get_class() == h5t.ARRAY:
                tid = tid.get_super()
            return np.dtype((_numpy_type(tid, base), shape))
        case Opaque(size):  # h5py takes the type in a tag, such as text, which not all bytes are
            return np.dtype(f"V{size}")
        case Compound(fields):
            types = [tid.get_member_type(index) for index in range(tid.get_nmembers())]
            formats = [_numpy_type(part, each) for part, (_, each) in zip(types, fields, strict=True)]
            names = [name for name, _ in fields]
            # h5py's fields overlap, or it fails, if one is larger in NumPy than in HDF5, as those of small floats are;
            # then they are packed here
            if any(dtype.itemsize > part.get_size() for part, dtype in zip(types, formats, strict=True)):
                return np.dtype(list(zip(names, formats, strict=True)))
            offsets = [tid.get_member_offset(index) for index in range(len(types))]
            return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": tid.get_size()})
    return tid.dtype  # type: ignore[no-any-return]


@_by_type
def memory_type(tid: Any, *, writing: bool) -> Any:
    """Return the memory type for values of ``tid`` in a NumPy array of its `numpy_type`."""
    return _memory_type(tid, numpy_type(tid), writing=writing)


def _ends_text(tid: Any) -> bool:
    """Tell whether it is text with a terminator, for which HDF5 replaces the last byte of text without one."""
    is_fixed = tid.get_class() == h5t.STRING and not tid.is_variable_str()
    return is_fixed and bool(tid.get_strpad() == h5t.STR_NULLTERM)


def _memory_type(tid: Any, dtype: np.dtype[Any], *, writing: bool) -> Any:
    form = tid.get_class()
    if form == h5t.STRING and not tid.is_variable_str():
        return tid if writing and _ends_text(tid) else h5t.py_create(dtype)
    if form in (h5t.OPAQUE, h5t.BITFIELD) or (form == h5t.ENUM and dtype.kind != "b"):
        return tid
    if form == h5t.ARRAY:
        return h5t.array_create(_memory_type(tid.get_super(), dtype.base, writing=writing), tid.get_array_dims())
    if form != h5t.COMPOUND or dtype.fields is None:
        return h5t.py_create(dtype)
    memory = h5t.create(h5t.COMPOUND, dtype.itemsize)
    for index, (member, offset, *_) in enumerate(dtype.fields.values()):  # members are at their offsets in NumPy
        part = _memory_type(tid.get_member_type(index), member, writing=writing)
        memory.insert(tid.get_member_name(index), offset, part)
    return memory


# ---- kind ------------------------------------------------------------------------------------------------------------


def kind_of(element: Element) -> Kind:
    """Return the kind of the elements of a dataset."""
    match element:
        case Reference(is_region):
            return "region" if is_region else "object"
        case Text(charset, None):
            return "text" if charset == "utf-8" else "ascii"
        case Sequence():
            problem = "HDF5 sequences of variable length cannot be stored"
            raise ValueRefusedError(problem, remedy="Store the values as a ragged column: data and index.")
        case ArrayOf(base) if kind_of(base) != "number":
            raise ValueRefusedError("elements that are arrays of text or references cannot be stored")
        case Compound(fields) if any(kind_of(member) != "number" for _, member in fields):
            return "compound"
    return "number"


LINK_ORDER, ATTRIBUTE_ORDER = "link_order", "attribute_order"
_TRACKED, _INDEXED = 1, 2

Resolve = Callable[[Any], "references.ZarrReference | None"]
Refer = Callable[[references.ZarrReference], Any]
NamedType = Callable[[Any, Any], Any]


class NewerFormatNeededError(Exception):
    """The file needs the HDF5 format of version 1.8. Caught inside this package."""

    # Earlier versions cannot store attributes of more than 64 KiB, and have no index of attributes and no checksums,
    # without which HDF5 2.0 refuses some types.


# ---- HDF5 -> values -------------------------------------------------------------------------------------------------


def read_attribute(attribute: Any, resolve: Resolve, *, in_zarr: bool = True) -> tuple[Any, dict[str, Any]]:
    """Return the value of an attribute, or None if it is kept in the note only, and the note, which may be empty."""
    # without ``in_zarr`` it is kept in the note in any case, as for an object that Zarr does not have
    tid, shape = attribute.get_type(), attribute.shape
    element, dtype = storable_type(tid), numpy_type(tid)
    if shape is None:
        return h5py.Empty(dtype), {"type": to_note(element), "space": "null"}
    values = read_values(attribute, shape, dtype, memory_type(tid, writing=False))
    is_json = in_zarr and isinstance(element, Compound) and not values.ndim and to_note(element) == to_note(JSON_ROW)
    if is_json and (value := _from_json(values["json"][()])) is not None:
        return value, {}
    if isinstance(element, Reference):  # one without a target is null, as in a dataset: JSON has no other form for it
        values = object_array([resolve(reference) for reference in values.flat], values.shape)
    try:
        in_zarr = in_zarr and (all(values.flat) if isinstance(element, Reference) else kind_of(element) != "compound")
    except ValueRefusedError:  # a sequence of variable length, or an array of text
        in_zarr = False
    if not in_zarr:

        def encode(reference: Any) -> dict[str, Any] | None:
            target = resolve(reference)
            return None if target is None else references.encode_reference(target)

        kept = encode_array(values, element, encode)
        return None, {"type": to_note(element), "shape": list(shape), "value": kept}
    value = _value(values, element)
    if isinstance(element, Reference):
        return value, {} if values.size else {"type": to_note(element)}
    default = default_element(value)
    if isinstance(element, Text) and default == element:  # as most are; equal dates and rows may differ in their notes
        return value, {}
    note = to_note(element)
    return value, {} if to_note(default) == note else {"type": note}


def read_values(attribute: Any, shape: tuple[int, ...], dtype: np.dtype[Any], memory: Any) -> Array:
    """Return the values of an attribute as an array; ``memory`` is their type in memory."""
    values: Array = np.zeros(shape, dtype)
    if values.size:
        attribute.read(values, mtype=memory)
    return values


def as_json(value: Any) -> str:
    """Return a value that HDF5 has no type for as JSON; raises a TypeError or ValueError if it is none."""
    return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value, sort_keys=True)


def _from_json(text: Any) -> Any:
    """Return the value of which `as_json` made this text; None for other text."""
    # A compound with one field, "json", may be of another program. It is taken for ours only where this package would
    # write the same text for its value, so that it is written back to HDF5 as it was.
    try:
        value = json.loads(text)
        (in_zarr,) = decode_attributes(encode_attributes({"": value}, notes={}), resolve=lambda _: None).values()
        is_own = as_json(in_zarr) == text_of(text) and _in_own_type(in_zarr, None) is None
    except (ValueError, TypeError, RecursionError, ZarrBackendError):
        return None
    return value if is_own else None


def _value(values: Array, element: Element) -> Any:
    if isinstance(element, Text) and (values.ndim == 0 or element.size is None):
        texts = [encode_text(item) for item in values.flat]
        if not all(isinstance(text, str) for text in texts):
            texts = [decode_text(text) for text in texts]
        values = object_array(texts, values.shape)
    elif not values.dtype.hasobject and values.dtype.names is None:
        values = values.astype(plain(values.dtype), copy=False)  # without the dtype metadata of h5py
    return values if values.ndim else values[()]


# ---- values -> HDF5 -------------------------------------------------------------------------------------------------


def write_attribute(
    node: Any, name: str, value: Any, note: dict[str, Any], refer: Refer, named_type: NamedType, *, is_new: bool
) -> bool:
    """Write one attribute to an HDF5 file; return whether it is JSON, because HDF5 has no type for the value."""
    # ``named_type`` returns the named type at a path if it equals the given type, else the given type. ``is_new``: the
    # file has the format of HDF5 1.8 or later.
    with refusing(f"the attribute {name!r}"):
        tid, values = _typed(name, value, note, refer)
        if not is_new and is_sparse(tid):
            raise NewerFormatNeededError(name)
        tid = named_type(note.get("named"), tid)
        shape = None if values is None else values.shape[: values.ndim - len(numpy_type(tid).shape)]
        space = h5s.create_simple(shape) if shape else h5s.create(h5s.NULL if shape is None else h5s.SCALAR)
        try:
            attribute = h5a.create(node, raw_of(name), tid, space)
        except OSError as error:
            if is_new:
                raise
            # HDF5 has no error of its own for an attribute of more than 64 KiB. Any other failure occurs again in the
            # second attempt, and is raised there.
            raise NewerFormatNeededError(name) from error
        if values is not None and values.size:
            values = np.ascontiguousarray(values).reshape(values.shape)
            if tid.get_class() == h5t.VLEN and _ends_text(tid.get_super()):
                rows = [np.ascontiguousarray(row) for row in values.flat]  # kept until they are written
                pointers = np.array([(row.size, row.ctypes.data) for row in rows], _POINTER)
                attribute.write(pointers.reshape(values.shape), mtype=tid)
            else:
                attribute.write(values, mtype=memory_type(tid, writing=True))
    return values is not None and values.dtype.names == ("json",) and "value" not in note


@contextmanager
def refusing(what: str = "this") -> Iterator[None]:
    """Turn errors of h5py for names, types, shapes and values that HDF5 refuses into `ValueRefusedError`."""
    try:
        yield
    except ZarrBackendError:
        raise  # some of these are also errors of Python
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, OverflowError) as error:
        # h5py raises OSError for almost everything, but sets the errno only for errors of the operating system
        if isinstance(error, OSError) and error.errno is not None:
            raise
        problem = f"HDF5 refuses {what} ({error})"
        raise ValueRefusedError(problem, remedy="Change it in the Zarr file, or leave it out.") from error


def _typed(name: str, value: Any, note: dict[str, Any], refer: Refer) -> tuple[Any, Array | None]:
    """Return the type and the values in memory; the values are None for an attribute without a dataspace."""
    noted = from_note(note["type"]) if note.get("type") is not None else None
    if noted is not None and note.get("space") == "null" and (value is None or np.size(value) == 0):
        return to_hdf5(noted), None
    if noted is not None and "value" in note:  # Zarr has no other value
        tid = to_hdf5(noted)

        def in_hdf5(reference: Any) -> Any:
            return None if reference is None else refer(references.decode_reference(reference))

        return tid, decode_array(note["value"], note.get("shape") or (), noted, numpy_type(tid), in_hdf5)
    targets = _references(value)
    if targets is not None:
        tid = to_hdf5(Reference(is_region=any(item.region is not None for item in targets.flat)))
        return tid, array_of([refer(item) for item in targets.flat], targets.shape, tid.dtype)
    typed = _in_own_type(value, noted)
    if typed is not None:
        return typed
    try:
        text = as_json(value)
    except (TypeError, ValueError):
        element = default_element(value)
        is_bytes = isinstance(element, Text) and element.size is not None
        what = "with bytes that end in NUL" if is_bytes else f"of type {type(value).__name__}"
        problem = f"HDF5 cannot store the attribute {name!r} {what}"
        raise ValueRefusedError(problem, remedy="Remove or change it.") from None
    tid = to_hdf5(JSON_ROW)
    return tid, array_of([(raw_of(text),)], (), tid.dtype)


def _in_own_type(value: Any, noted: Element | None) -> tuple[Any, Array] | None:
    """Return the type for a value, and the values in it; None if HDF5 has no type for it, or would lose something."""
    if isinstance(value, dict) or (isinstance(value, list) and value):  # NumPy makes text of mixed lists
        return None
    default = default_element(value)
    for element in dict.fromkeys((noted or default, default)):
        tid = to_hdf5(element)
        with suppress(ValueError, TypeError, OverflowError, ZarrBackendError):
            values = _fitting(as_array(value), element, numpy_type(tid))
            if values is not None:
                return tid, values
    return None


def _fitting(array: Array, element: Element, dtype: np.dtype[Any]) -> Array | None:
    """Return an array as ``dtype``, None if something would be lost."""
    if isinstance(element, Text):
        items = array.reshape(-1).tolist()
        if array.dtype.kind not in "OUST" or not all(isinstance(item, (str, bytes)) for item in items):
            return None
        raws = [decode_text(item) for item in items]
        # NUL at the end is the padding of HDF5, so text that has one of its own would come back shorter
        is_lossy = dtype.kind == "S" and any(len(raw) > dtype.itemsize or raw.endswith(b"\0") for raw in raws)
        return None if is_lossy else array_of(raws, array.shape, dtype)
    if isinstance(element, Reference):
        return None if array.size else np.empty(array.shape, dtype)
    base = dtype.base
    if base.names is not None:
        return in_layout(array, base) if array.dtype.names == base.names else None
    # elements that are objects are sequences, which only a note holds
    if (base.kind == "V" and array.dtype.kind != "V") or (base.kind == "O" and array.size):
        return None
    cast = array.astype(base)
    # compared as bytes first: a NaN with a payload is not equal to itself
    is_same = cast.tobytes() == array.tobytes() or np.array_equal(cast, array, equal_nan=base.kind in "fc")
    return cast if is_same and array.dtype.kind not in "OU" else None


def _references(value: Any) -> Any:
    """Return an array of references if the value is a reference or consists of references."""
    if isinstance(value, references.ZarrReference):
        return object_array([value], ())
    if not isinstance(value, (list, np.ndarray)):
        return None
    array = value if isinstance(value, np.ndarray) else np.array(value, dtype=object)
    if array.dtype != object or not array.size:
        return None
    if all(references.is_reference(item) for item in array.flat):  # those of several axes are left as JSON
        return array_of([references.decode_attribute_reference(item) for item in array.flat], array.shape, array.dtype)
    return array if all(isinstance(item, references.ZarrReference) for item in array.flat) else None


def attribute_names(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and ``h5py.h5a.AttrID`` of the attributes of an object, sorted by name."""
    # Opened by index, HDF5 would sort the names again for each attribute: time in the square of their number, and real
    # objects have thousands.
    names: list[bytes] = []
    h5a.iterate(node, names.append)
    for name in names:
        yield text_of(name), h5a.open(node, name)


def noted_orders(node: Any, created: Any) -> dict[str, Any]:
    """Return the note of the creation orders that a group or dataset keeps."""
    orders: dict[str, tuple[int, list[bytes]]] = {}
    if (flags := created.get_attr_creation_order()) & _TRACKED:
        names: list[bytes] = []
        if h5a.get_num_attrs(node):
            h5a.iterate(node, names.append, index_type=h5.INDEX_CRT_ORDER)
        orders[ATTRIBUTE_ORDER] = flags, names
    if isinstance(node, h5g.GroupID) and (flags := created.get_link_creation_order()) & _TRACKED:
        orders[LINK_ORDER] = flags, _links(node)
    # the names only where they say something: most files are written in alphabetical order, or do not care
    return {
        key: [flags] if names == sorted(names) else [flags, list(map(text_of, names))]
        for key, (flags, names) in orders.items()
    }


def _links(group: Any) -> list[bytes]:
    names: list[bytes] = []
    group.links.iterate(names.append, idx_type=h5.INDEX_CRT_ORDER)
    return names


def set_orders(properties: Any, note: dict[str, Any]) -> None:
    """Make a new object keep the creation orders in the note."""
    if flags := _flags(note, ATTRIBUTE_ORDER):
        properties.set_attr_creation_order(flags)
    if flags := _flags(note, LINK_ORDER):
        properties.set_link_creation_order(flags)


def _flags(note: dict[str, Any], key: str) -> int:
    """Return the noted flags, 0 if they are missing or invalid."""
    noted = note.get(key)
    flags = noted[0] if isinstance(noted, list) and noted else 0
    return flags if flags in (_TRACKED, _TRACKED | _INDEXED) else 0


def in_order(names: Iterable[str], note: dict[str, Any], key: str) -> list[str]:
    """Return names in the noted order, followed by those that the note lacks, sorted by name."""
    if not _flags(note, key):
        return list(names)
    _, *rest = note[key]
    known = rest[0] if rest and isinstance(rest[0], list) else []
    rank = {name: position for position, name in enumerate(known) if isinstance(name, str)}
    return sorted(names, key=lambda name: (rank.get(name, len(rank)), raw_of(name)))


def order_links(group: Any, note: dict[str, Any], creation: Any) -> None:
    """Bring the links of a group into the noted order."""
    if not _flags(note, LINK_ORDER):
        return
    names = _links(group)
    wanted = [raw_of(name) for name in in_order(map(text_of, names), note, LINK_ORDER)]
    if names == wanted:
        return
    # HDF5 has no call that sets the order, but a link that is moved counts as created last
    aside = b"aside"
    while aside in names:
        aside += b"_"
    for name in wanted:
        group.links.move(name, group, aside, creation)
        group.links.move(aside, group, name, creation)
