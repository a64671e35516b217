"""HDF5 data types <-> JSON, the memory types of their values, and the kinds and layouts of elements.

The JSON records in a note a type that Zarr does not have, from which Zarr -> HDF5 creates the type again::

    "<f8"  "|u1"                                      numbers, named as NumPy names them
    "bool"  "object"  "region"                        h5py's enumeration; references
    {"text": "utf-8"}                                 text of variable length; "ascii" is the other charset; "pad" if it
                                                      is not "nullterm"
    {"text": "ascii", "size": 5, "pad": "nullterm"}   text of fixed length; "nullpad", "spacepad"
    {"enum": [["red", 1], ...], "base": type}
    {"bitfield": "<u2"}  {"opaque": 3, "tag": "..."}  {"complex": "<f8"}
    {"number": "<u2", "precision": 12, "offset": 2}   a number with a custom layout; for floats also "fields", "bias"
    {"fields": [[name, type], ...]}                   with "offsets" and "size" if it is padded
    {"array": type, "shape": [3]}  {"sequence": type}

Source: HDF5 reference manual, "Datatypes"; `h5py.h5t` for the types that NumPy has.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import h5py
import numpy as np
from h5py import h5t

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.formats.dtypes import Kind, element_of
from hdmf_zarr_backend.formats.elements import DATES
from hdmf_zarr_backend.model.elements import Element

TypeJSON: TypeAlias = "str | dict[str, Any]"

OBJECT = "object"
REGION = "region"
BOOL = "bool"
UTF8: dict[str, Any] = {"text": "utf-8"}

_NUMBER = re.compile(r"^[<>|][iuf](\d{1,2})$")
_STANDARD = ("1", "2", "4", "8")
_PADDING = ("nullterm", "nullpad", "spacepad")  # in the order of HDF5's own numbers
_BOOL_MEMBERS = [["FALSE", 0], ["TRUE", 1]]
_CODES = {"int": "i", "uint": "u", "float": "f"}
_MAX_DEPTH = 32


# ---- names ----------------------------------------------------------------------------------------------------------


def text_of(raw: Any) -> str:
    """Return a path, name or tag of HDF5 as text; bytes that are not UTF-8 as surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else str(raw)


def raw_of(text: Any) -> bytes:
    """Return the bytes of a path, name or tag in HDF5; the inverse of `text_of`."""
    return str(text).encode("utf-8", "surrogateescape")


# ---- HDF5 -> JSON ---------------------------------------------------------------------------------------------------


def encode_type(tid: Any) -> TypeJSON:
    """Return the JSON of an ``h5py.h5t.TypeID``."""
    found = any_type(tid)
    arrays = () if isinstance(found, str) else (part for part in _parts(tid) if part.get_class() == h5t.ARRAY)
    if any(part.get_super().get_class() == h5t.ARRAY for part in arrays):
        problem = "elements that are arrays of arrays cannot be stored"
        raise ValueRefusedError(problem, remedy="Store the values in an array type with more axes.")
    return found


def any_type(tid: Any) -> TypeJSON:
    """Return the JSON of a type. An array of arrays becomes one array with more axes, as in NumPy."""
    encode: dict[int, Callable[[Any], TypeJSON]] = {
        h5t.INTEGER: _encode_number,
        h5t.FLOAT: _encode_number,
        h5t.STRING: _encode_text,
        h5t.BITFIELD: lambda t: {"bitfield": t.dtype.str},
        h5t.OPAQUE: lambda t: {"opaque": t.get_size(), "tag": text_of(t.get_tag())},
        h5t.COMPOUND: _encode_compound,
        h5t.REFERENCE: lambda t: REGION if h5py.check_ref_dtype(t.dtype) is h5py.RegionReference else OBJECT,
        h5t.ENUM: _encode_enum,
        h5t.ARRAY: _encode_array,
        h5t.VLEN: lambda t: {"sequence": any_type(t.get_super())},
        getattr(h5t, "COMPLEX", -1): lambda t: {"complex": any_type(t.get_super())},
    }
    try:
        _ = tid.dtype
        return encode[tid.get_class()](tid)
    except (TypeError, KeyError) as error:
        problem = f"the HDF5 type of class {tid.get_class()} and {tid.get_size()} bytes has no counterpart in NumPy"
        raise ValueRefusedError(problem, remedy="Store the values in a standard type.") from error


def _parts(tid: Any) -> Iterator[Any]:
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


def _encode_number(tid: Any) -> TypeJSON:
    size = tid.get_size()
    is_float = tid.get_class() == h5t.FLOAT
    kind = "f" if is_float else "u" if tid.get_sign() == h5t.SGN_NONE else "i"
    order = "|" if size == 1 else ">" if tid.get_order() == h5t.ORDER_BE else "<"
    name = f"{order}{kind}{size}"
    layout = {"precision": tid.get_precision(), "offset": tid.get_offset()}
    is_plain = layout == {"precision": 8 * size, "offset": 0} and (size in (1, 2, 4, 8))
    if is_float:
        layout |= {"fields": list(tid.get_fields()), "bias": tid.get_ebias()}
        is_plain = is_plain and size > 1 and _float_layout(h5t.py_create(np.dtype(name))) == _float_layout(tid)
    return name if is_plain else {"number": name, **layout}


def _float_layout(tid: Any) -> tuple[Any, ...]:
    return (*tid.get_fields(), tid.get_ebias())


def _encode_text(tid: Any) -> TypeJSON:
    charset = "utf-8" if tid.get_cset() == h5t.CSET_UTF8 else "ascii"
    padding = _PADDING[tid.get_strpad()]
    if tid.is_variable_str():
        return {"text": charset} if padding == "nullterm" else {"text": charset, "pad": padding}
    return {"text": charset, "size": tid.get_size(), "pad": padding}


def _encode_enum(tid: Any) -> TypeJSON:
    base = any_type(tid.get_super())
    members = [[text_of(tid.get_member_name(i)), int(tid.get_member_value(i))] for i in range(tid.get_nmembers())]
    return BOOL if members == _BOOL_MEMBERS and base == "|i1" else {"enum": members, "base": base}


def _encode_array(tid: Any) -> TypeJSON:
    inner, shape = any_type(tid.get_super()), list(tid.get_array_dims())
    if isinstance(inner, dict) and "array" in inner:
        return {"array": inner["array"], "shape": [*shape, *inner["shape"]]}
    return {"array": inner, "shape": shape}


def _encode_compound(tid: Any) -> TypeJSON:
    members = range(tid.get_nmembers())
    types = [tid.get_member_type(i) for i in members]
    fields = [[text_of(tid.get_member_name(i)), any_type(types[i])] for i in members]
    offsets = [tid.get_member_offset(i) for i in members]
    if [*offsets, tid.get_size()] == _packed(types):
        return {"fields": fields}
    return {"fields": fields, "offsets": offsets, "size": tid.get_size()}


def _packed(types: list[Any]) -> list[int]:
    """Return the offsets of fields of these types without padding, and the bytes of all."""
    return [0, *itertools.accumulate(member.get_size() for member in types)]


def type_of_dtype(dtype: np.dtype[Any]) -> TypeJSON:
    """Return the JSON of the type that h5py stores values of a plain NumPy ``dtype`` in."""
    return type_of_element(element_of(dtype))


def type_of_element(element: Element) -> TypeJSON:
    """Return the JSON of the type that h5py stores elements in that were never in HDF5.

    h5py cannot store ``datetime64`` and ``timedelta64``, and `decode_type` refuses the JSON that is returned for them.
    Dates from an HDF5 file are opaque values with a tag, and have that type in their note.
    """
    kind, size, order = element.kind, element.size, element.byte_order
    if element.base is not None:
        return {"array": type_of_element(element.base), "shape": list(element.shape)}
    if kind == "compound":
        return {"fields": [[name, type_of_element(member)] for name, member in element.fields]}
    if kind == "text":
        text = {"text": element.encoding}
        return text if size is None else {**text, "size": size, "pad": "nullpad"}
    if kind == "enum":
        base = f"{order}{_CODES[element.detail]}{size}"
        return {"enum": list(map(list, element.members)), "base": base}
    if kind == "datetime":
        return np.dtype(element.detail).newbyteorder(order).str
    if kind == "complex":
        part = f"{order}f{(size or 0) // 2}"
        return {"fields": [["r", part], ["i", part]]}
    named: dict[str, TypeJSON] = {
        "bool": BOOL,
        "reference": OBJECT,
        "region": REGION,
        "opaque": {"opaque": size, "tag": ""},
    }
    return named.get(kind) or f"{order}{_CODES[kind]}{size}"


# ---- JSON -> HDF5 ---------------------------------------------------------------------------------------------------


def decode_type(value: Any) -> Any:
    """Return the ``h5py.h5t.TypeID`` for the JSON of a type."""
    try:
        return _decode(value, 0)
    except ValueRefusedError:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError, RuntimeError, StopIteration) as error:
        raise MetadataError(f"{value!r} is not an HDF5 type ({error})") from error


def _decode(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return _decode_name(value)
    decode: dict[str, Callable[[], Any]] = {
        "text": lambda: _decode_text(value),
        "number": lambda: _decode_number(value),
        "fields": lambda: _decode_compound(value, depth),
        "enum": lambda: _decode_enum(value, depth),
        "bitfield": lambda: _standard("STD_B", np.dtype(value["bitfield"])),
        "opaque": lambda: _decode_opaque(value),
        "array": lambda: h5t.array_create(_decode(value["array"], depth + 1), tuple(_size(n) for n in value["shape"])),
        "sequence": lambda: h5t.vlen_create(_decode(value["sequence"], depth + 1)),
        "complex": lambda: _standard("COMPLEX_IEEE_F", np.dtype(value["complex"])),  # HDF5 2.0
    }
    return next(make for key, make in decode.items() if key in value)()


def _decode_name(value: str) -> Any:
    named = {OBJECT: h5t.STD_REF_OBJ, REGION: h5t.STD_REF_DSETREG, BOOL: h5t.py_create(np.dtype("?"), logical=True)}
    if value in named:
        return named[value]
    if value[1:2] in ("m", "M"):
        problem = f"HDF5 has no data type for {np.dtype(value).name}"
        remedy = "Store the values as ISO 8601 text, or as numbers with their unit in an attribute."
        raise ValueRefusedError(problem, remedy=remedy)
    found = _NUMBER.match(value)
    if found is not None and value[1:] == "f16":
        problem = "a float of 16 bytes is not stored in HDF5: its bytes differ between machines"
        raise ValueRefusedError(problem, remedy="Convert the data to float64.")
    if found is None or found[1] not in _STANDARD:
        raise ValueError("no such number")
    return h5t.py_create(np.dtype(value))


def _decode_text(value: dict[str, Any]) -> Any:
    tid = h5t.C_S1.copy()
    tid.set_size(_size(value["size"]) if "size" in value else h5t.VARIABLE)
    tid.set_cset({"utf-8": h5t.CSET_UTF8, "ascii": h5t.CSET_ASCII}[value["text"]])
    tid.set_strpad(_PADDING.index(value.get("pad", "nullterm")))
    return tid


def _decode_number(value: dict[str, Any]) -> Any:
    name = value["number"]
    found = _NUMBER.match(name)
    if found is None:
        raise ValueError("no such number")
    tid = {"i": h5t.STD_I64LE, "u": h5t.STD_U64LE, "f": h5t.IEEE_F64LE}[name[1]].copy()
    tid.set_order(h5t.ORDER_BE if name[0] == ">" else h5t.ORDER_LE)
    if "bias" in value:
        tid.set_fields(*map(int, value["fields"]))
        tid.set_ebias(int(value["bias"]))
    # the order matters: bits must lie inside the bytes after each step
    tid.set_precision(int(value["precision"]))
    tid.set_size(_size(int(found[1])))
    tid.set_offset(int(value["offset"]))
    return tid


def _standard(prefix: str, dtype: np.dtype[Any]) -> Any:
    """Return a predefined type of HDF5."""
    return getattr(h5t, f"{prefix}{8 * dtype.itemsize}{'BE' if dtype.str[0] == '>' else 'LE'}")


def _decode_enum(value: dict[str, Any], depth: int) -> Any:
    tid = h5t.enum_create(_decode(value["base"], depth + 1))
    for name, number in value["enum"]:
        tid.enum_insert(raw_of(name), int(number))
    return tid


def _decode_opaque(value: dict[str, Any]) -> Any:
    tid = h5t.create(h5t.OPAQUE, _size(value["opaque"]))
    tid.set_tag(raw_of(value["tag"]))
    return tid


def _decode_compound(value: dict[str, Any], depth: int) -> Any:
    names = [raw_of(field[0]) for field in value["fields"]]
    types = [_decode(field[1], depth + 1) for field in value["fields"]]
    packed = _packed(types)
    offsets = value.get("offsets", packed[:-1])
    tid = h5t.create(h5t.COMPOUND, _size(value.get("size", packed[-1])))
    for name, offset, member in zip(names, offsets, types, strict=True):
        tid.insert(name, int(offset), member)
    return tid


def is_sparse(tid: Any) -> bool:
    """Tell whether a type has numbers that use less than half of their bits.

    HDF5 2.0 treats such a type as damage in a file without checksums, which the oldest version of the format is.
    """
    numbers = (part for part in _parts(tid) if part.get_class() in (h5t.INTEGER, h5t.FLOAT))
    return any(part.get_size() > 1 and 2 * part.get_precision() < 8 * part.get_size() for part in numbers)


def _size(value: Any) -> int:
    if not isinstance(value, int) or not 0 < value < 2**31:
        raise ValueError(f"{value!r} is not a size")
    return value


# ---- memory types ---------------------------------------------------------------------------------------------------


def memory_type(tid: Any, *, writing: bool) -> Any:
    """Return the memory type for values of ``tid`` in a NumPy array of ``tid.dtype``."""
    form = tid.get_class()
    dtype = tid.dtype
    if form == h5t.STRING and not tid.is_variable_str():
        return tid if writing and tid.get_strpad() == h5t.STR_NULLTERM else h5t.py_create(dtype)
    if form in (h5t.OPAQUE, h5t.BITFIELD) or (form == h5t.ENUM and dtype.kind != "b"):
        return tid
    if form == h5t.ARRAY:
        return h5t.array_create(memory_type(tid.get_super(), writing=writing), tid.get_array_dims())
    if form != h5t.COMPOUND or dtype.names is None:
        return h5t.py_create(dtype)
    memory = h5t.create(h5t.COMPOUND, dtype.itemsize)
    for index, name in enumerate(dtype.names):  # members are at their offsets in NumPy
        member = memory_type(tid.get_member_type(index), writing=writing)
        memory.insert(tid.get_member_name(index), dtype.fields[name][1], member)
    return memory


# ---- kind and layout ------------------------------------------------------------------------------------------------

_REFERENCE_KINDS: dict[str, Kind] = {OBJECT: "object", REGION: "region"}
_TEXT_KINDS: dict[str, Kind] = {"utf-8": "text", "ascii": "ascii"}
_NOT_IN_NUMPY = frozenset({"number", "sequence", "offsets"})
"""Keys of types whose elements have a layout that NumPy lacks."""


def kind_of_type(kind: TypeJSON) -> Kind:
    """Return the kind of the elements of a dataset."""
    if isinstance(kind, str):
        return _REFERENCE_KINDS.get(kind, "number")
    if "text" in kind:
        return "number" if "size" in kind else _TEXT_KINDS[kind["text"]]
    if "sequence" in kind:
        problem = "HDF5 sequences of variable length cannot be stored"
        raise ValueRefusedError(problem, remedy="Store the values as a ragged column: data and index.")
    if "array" in kind:
        if kind_of_type(kind["array"]) != "number":
            raise ValueRefusedError("elements that are arrays of text or references cannot be stored")
        return "number"
    if "fields" in kind and "number" not in kind:
        return "compound" if any(kind_of_type(inner) != "number" for _, inner in kind["fields"]) else "number"
    return "number"


def is_same_layout(kind: TypeJSON, dtype: np.dtype[Any]) -> bool:
    """Tell whether raw elements of an HDF5 type are elements of ``dtype`` without conversion.

    Notes
    -----
    Not the same: padded compounds, numbers with a custom precision or layout, and text with a terminator or padded with
    spaces, which HDF5 changes on reading.
    """
    return not dtype.hasobject and _as_stored(kind) == type_of_dtype(dtype)


def _as_stored(kind: TypeJSON) -> TypeJSON | None:
    """Return the `type_of_dtype` of elements with the same bytes, None if NumPy has no such elements."""
    if isinstance(kind, str):
        return kind
    if not _NOT_IN_NUMPY.isdisjoint(kind):
        return None
    if "fields" in kind:
        return {"fields": [[name, _as_stored(field)] for name, field in kind["fields"]]}
    if "array" in kind:
        return {"array": _as_stored(kind["array"]), "shape": kind["shape"]}
    if "text" in kind:
        return {**kind, "text": "ascii"} if "size" in kind else None
    if "opaque" in kind:
        tag = str(kind.get("tag", ""))
        return tag.removeprefix(DATES) if tag.startswith(DATES) else {"opaque": kind["opaque"], "tag": ""}
    if "complex" in kind:
        return {"fields": [["r", kind["complex"]], ["i", kind["complex"]]]}
    return _as_stored(kind["base"] if "enum" in kind else kind["bitfield"])
