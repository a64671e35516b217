"""Elements <-> the types of HDF5, and the JSON by which a note records a type that Zarr does not have.

docs/format/format-2.md has the JSON, from which Zarr -> HDF5 creates the type again. h5py is imported on use, since
files are listed without it. NumPy's dates are opaque in HDF5, with a tag of h5py.

Source: HDF5 reference manual, "Datatypes"; `h5py.h5t` for the types that NumPy has.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hdmf_zarr_backend.encoding.data_types import KINDS, LETTERS, MAX_DEPTH, code_element
from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.model.element import (
    REFERENCE,
    REGION,
    UTF8,
    ArrayOf,
    ByteOrder,
    Compound,
    Element,
    Enum,
    Number,
    NumberKind,
    Opaque,
    Padding,
    Precision,
    Reference,
    Sequence,
    Text,
    Time,
)
from hdmf_zarr_backend.model.nodes import Memo

JSON_ROW = Compound((("json", UTF8),))  # the HDF5 type of an attribute that only JSON holds
_PADDING: tuple[Padding, ...] = ("nullterm", "nullpad", "spacepad")  # by their numbers in HDF5, H5T_str_t
_BOOL = Enum(Number("int", 1), (("FALSE", 0), ("TRUE", 1)))
_NUMPY = "NUMPY:"
_HDF5_SIZES = (1, 2, 4, 8)
# Bytes of a float of NumPy -> position of its sign, position and size of its exponent and mantissa; and its bias.
_IEEE_754 = {2: ((15, 10, 5, 0, 10), 15), 4: ((31, 23, 8, 0, 23), 127), 8: ((63, 52, 11, 0, 52), 1023)}
_NAMED: dict[str, Element] = {"bool": Number("bool", 1), "object": REFERENCE, "region": REGION}


def text_of(raw: Any) -> str:
    """Return a path, name or tag of HDF5 as text; bytes that are not UTF-8 as surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else str(raw)


def raw_of(text: Any) -> bytes:
    """Return the bytes of a path, name or tag in HDF5; the inverse of `text_of`."""
    return str(text).encode("utf-8", "surrogateescape")


def _has_regions(element: Element) -> bool:
    match element:
        case Compound():
            return any(_has_regions(field) for _, field in element.fields)
        case ArrayOf(base) | Sequence(base):
            return _has_regions(base)
    return element == REGION


def _as_h5py(element: Element) -> Element:
    """Return what h5py makes of a type: a bool, a complex number, a date, a number, or an array with more axes."""
    match element:
        case Enum(number, members) if set(members) == set(_BOOL.members):
            return Number("bool", number.size, number.byte_order, None if element == _BOOL else element)
        case Compound((("r", Number("float") as part), ("i", other))) if part == other:
            is_packed = element.offsets is None and part.layout is None
            return Number("complex", 2 * part.size, part.byte_order, None if is_packed else element)
        case ArrayOf(ArrayOf(base, inner), shape):
            return ArrayOf(base, (*shape, *inner))
        case Sequence(base) if _has_regions(base):  # h5py writes beyond the end of an array
            problem = "sequences of region references cannot be stored"
            raise ValueRefusedError(problem, remedy="Store each region reference in an element of its own.")
        case Opaque(size, tag) if tag.startswith(_NUMPY):  # of `h5py.opaque_dtype`
            with suppress(ValueError):
                value = code_element(tag.removeprefix(_NUMPY))
                if isinstance(value, Time):
                    return replace(value, tag=tag)
                if isinstance(value, Number) and value.size == size:
                    return replace(value, layout=element)
    return element


def _parts_of(number: Number) -> Element | None:
    """Return what HDF5 has for an opaque number, a bool unlike that of h5py, or a complex number of fields."""
    if isinstance(number.layout, (Opaque, Enum, Compound)):
        return number.layout
    if number.kind != "complex" or isinstance(number.layout, Number):
        return None
    part = Number("float", number.size // 2, number.byte_order)
    return Compound((("r", part), ("i", part)))


def in_numpy(element: Element) -> Element | None:
    """Return the element that NumPy has for the same bytes as HDF5, None if it has none."""
    # it has none of padded compounds, numbers with a custom layout, and text of variable length
    match element:
        case Number(kind, _, _, layout):
            is_same = layout is None or isinstance(layout, Opaque) or (kind == "complex" and isinstance(layout, Number))
            return replace(element, kind="uint" if kind == "bitfield" else kind, layout=None) if is_same else None
        case Enum(base):
            return in_numpy(base)
        case Text(_, size):
            return None if size is None else replace(element, charset="ascii")
        case Opaque(size):
            return Opaque(size)
        case ArrayOf(base, shape):
            inner = in_numpy(base)
            return None if inner is None else ArrayOf(inner, shape)
        case Compound(fields, None):
            members = [(name, in_numpy(member)) for name, member in fields]
            return Compound(tuple((name, member) for name, member in members if member is not None))
        case Time() | Reference():
            return element
    return None


# ---- elements <-> JSON ----------------------------------------------------------------------------------------------


def to_note(element: Element) -> Any:
    """Return the JSON of the HDF5 type of elements."""
    match element:
        case Number():
            return _number_note(element)
        case Text(charset, size, padding):
            length = {} if size is None else {"size": size}
            return {"text": charset, **length, **({"pad": padding} if padding else {})}
        case Compound(fields, offsets, size):
            padded = {} if offsets is None else {"offsets": list(offsets), "size": size}
            return {"fields": [[name, to_note(member)] for name, member in fields], **padded}
        case Enum(base, members):
            return {"enum": list(map(list, members)), "base": to_note(base)}
        case Opaque(size, tag) | Time(size=size, tag=tag):
            return {"opaque": size, "tag": tag} if tag or isinstance(element, Opaque) else element.code
        case ArrayOf(base, shape):
            return {"array": to_note(base), "shape": list(shape)}
        case Sequence(base):
            return {"sequence": to_note(base)}
        case Reference():
            return "region" if element == REGION else "object"
    raise ValueRefusedError(f"HDF5 has no data type for {element}")


def _number_note(number: Number) -> Any:
    layout, parts = number.layout, _parts_of(number)
    code = f"{number.byte_order}{LETTERS[number.kind]}{number.size}"
    if isinstance(layout, Precision):
        bits = {"number": code, "precision": layout.bits, "offset": layout.offset}
        return bits if layout.bias is None else {**bits, "fields": list(layout.fields), "bias": layout.bias}
    if parts is not None:
        return to_note(parts)
    if isinstance(layout, Number):
        return {"complex": to_note(layout)}
    return {"bool": "bool", "bitfield": {"bitfield": code}}.get(number.kind, code)


@Memo
def from_note(note: Any) -> Element:
    """Return the `Element` for the JSON of an HDF5 type."""
    try:
        return _noted(note, 0)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise MetadataError(f"{note!r} is not an HDF5 type ({error})") from error


def _noted(note: Any, depth: int) -> Element:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    element: Element
    match note:
        case str():
            return _NAMED.get(note) or code_element(note)
        case {"text": charset}:
            size = _size(note["size"]) if "size" in note else None
            padding = _PADDING[_PADDING.index(note["pad"] if size is not None else note.get("pad", "nullterm"))]
            element = Text(str(charset), size, "" if size is None and padding == "nullterm" else padding)
        case {"number": _} | {"enum": _} | {"bitfield": _} | {"complex": _}:  # before fields, which a number has too
            element = _noted_number(note, depth + 1)
        case {"fields": fields}:
            padded = (tuple(map(int, note["offsets"])), _size(note["size"])) if "offsets" in note else ()
            element = Compound(tuple((str(name), _noted(member, depth + 1)) for name, member in fields), *padded)
        case {"opaque": size}:
            element = Opaque(_size(size), str(note.get("tag", "")))
        case {"array": base}:
            element = ArrayOf(_noted(base, depth + 1), tuple(map(_size, note["shape"])))
        case {"sequence": base}:
            element = Sequence(_noted(base, depth + 1))
        case _:
            raise KeyError("it has none of the keys of a type")
    return _as_h5py(element)


def _noted_number(note: dict[str, Any], depth: int) -> Number | Enum:
    """Return a number with bits of its own, or what consists of one number, which is nested so deep."""
    if "number" in note:
        name = str(note["number"])
        fields, bias = (tuple(map(int, note["fields"])), int(note["bias"])) if "bias" in note else ((), None)
        layout = Precision(int(note["precision"]), int(note["offset"]), fields, bias)
        size = _size(int(name[2:]))
        return Number(KINDS[name[1]], size, "|" if size == 1 else ">" if name[0] == ">" else "<", layout)
    if "enum" in note:
        base = _noted(note["base"], depth)
        if not isinstance(base, Number):
            raise TypeError(f"an enumeration of {base} has no counterpart")
        return Enum(base, tuple((str(member), int(number)) for member, number in note["enum"]))
    kind = "bitfield" if "bitfield" in note else "complex"
    part = _noted(note[kind], depth)
    if not isinstance(part, Number):
        raise TypeError(f"{note[kind]!r} is not a number")
    return replace(part, kind="bitfield") if kind == "bitfield" else _complex_of(part)


def _size(value: Any) -> int:
    if type(value) is not int or not 0 < value < 2**31:
        raise ValueError(f"{value!r} is not a size")
    return value


def _complex_of(part: Number) -> Number:
    """Return the complex number of HDF5 2.0 with two such parts."""
    return Number("complex", 2 * part.size, part.byte_order, part)


# ---- elements <-> HDF5 ----------------------------------------------------------------------------------------------


def from_hdf5(tid: Any, depth: int = 0) -> Element:
    """Return the `Element` of an ``h5py.h5t.TypeID``."""
    from h5py import h5t

    # The limit of a note. h5py takes seconds for a type of hundreds of levels.
    if depth > MAX_DEPTH:
        problem = f"an HDF5 type is nested more than {MAX_DEPTH} deep"
        raise ValueRefusedError(problem, remedy="Store the values in a simpler type.")
    try:
        # h5py raises for types that NumPy lacks. The fields of a compound are asked one by one.
        # A tag of h5py on more bytes than its type has: HDF5 would write beyond the array.
        if tid.get_class() != h5t.COMPOUND and tid.dtype.itemsize != tid.get_size() and tid.get_class() == h5t.OPAQUE:
            raise TypeError("its tag names a type of another size")
        return _read(tid, depth + 1)
    except ValueRefusedError:  # of a part; it is a TypeError too
        raise
    except (TypeError, KeyError) as error:
        name, remedy = f"of class {tid.get_class()} and {tid.get_size()} bytes", "Store the values in a standard type."
        if tid.get_class() == h5t.REFERENCE:
            name = "H5T_STD_REF, of references since HDF5 1.12,"
            remedy = "Store them as H5T_STD_REF_OBJ or H5T_STD_REF_DSETREG, which all HDF5 libraries read."
        raise ValueRefusedError(f"the HDF5 type {name} has no counterpart in NumPy", remedy=remedy) from error


def _read(tid: Any, depth: int) -> Element:
    """Return the element of a type, whose parts are nested so deep."""
    import h5py
    from h5py import h5t

    match tid.get_class():
        case h5t.INTEGER | h5t.FLOAT:
            return _number_of(tid)
        case h5t.STRING:
            charset = "utf-8" if tid.get_cset() == h5t.CSET_UTF8 else "ascii"
            size, padding = None if tid.is_variable_str() else tid.get_size(), _PADDING[tid.get_strpad()]
            element: Element = Text(charset, size, "" if size is None and padding == "nullterm" else padding)
        case h5t.BITFIELD:
            element = Number("bitfield", tid.get_size(), _order_of(tid))
        case h5t.OPAQUE:
            element = Opaque(tid.get_size(), text_of(tid.get_tag()))
        case h5t.COMPOUND:
            members = range(tid.get_nmembers())
            types = [tid.get_member_type(i) for i in members]
            fields = tuple((text_of(tid.get_member_name(i)), from_hdf5(types[i], depth)) for i in members)
            offsets = tuple(tid.get_member_offset(i) for i in members)
            is_packed = [*offsets, tid.get_size()] == _packed(types)
            element = Compound(fields) if is_packed else Compound(fields, offsets, tid.get_size())
        case h5t.REFERENCE:
            element = REGION if h5py.check_ref_dtype(tid.dtype) is h5py.RegionReference else REFERENCE
        case h5t.ENUM:
            values = ((text_of(tid.get_member_name(i)), tid.get_member_value(i)) for i in range(tid.get_nmembers()))
            element = Enum(_number_of(tid.get_super()), tuple((name, int(value)) for name, value in values))
        case h5t.ARRAY | h5t.VLEN as kind:
            base = from_hdf5(tid.get_super(), depth)
            element = Sequence(base) if kind == h5t.VLEN else ArrayOf(base, tuple(tid.get_array_dims()))
        case kind if kind == getattr(h5t, "COMPLEX", None):  # of HDF5 2.0
            element = _complex_of(_number_of(tid.get_super()))
        case unknown:
            raise KeyError(unknown)
    return _as_h5py(element)


def _order_of(tid: Any) -> ByteOrder:
    from h5py import h5t

    return "|" if tid.get_size() == 1 else ">" if tid.get_order() == h5t.ORDER_BE else "<"


def _number_of(tid: Any) -> Number:
    from h5py import h5t

    size, order, bits, offset = tid.get_size(), _order_of(tid), tid.get_precision(), tid.get_offset()
    is_plain = (bits, offset) == (8 * size, 0) and size in _HDF5_SIZES
    if tid.get_class() == h5t.INTEGER:
        kind: NumberKind = "uint" if tid.get_sign() == h5t.SGN_NONE else "int"
        return Number(kind, size, order, None if is_plain else Precision(bits, offset))
    fields, bias = tuple(tid.get_fields()), tid.get_ebias()
    if is_plain and _IEEE_754.get(size) == (fields, bias):
        return Number("float", size, order)
    return Number("float", size, order, Precision(bits, offset, fields, bias))


def _packed(types: list[Any]) -> list[int]:
    """Return the offsets of fields of these types without padding, and the bytes of all."""
    return [0, *itertools.accumulate(member.get_size() for member in types)]


def to_hdf5(element: Element) -> Any:
    """Return the ``h5py.h5t.TypeID`` of elements."""
    # what is equal has one type, but for dates with other tags and rows with other padding
    is_frequent = isinstance(element, Text) or (isinstance(element, Number) and element.layout is None)
    try:
        return _frequent_type(element) if is_frequent else _type_of(element)
    except (ValueRefusedError, MetadataError):
        raise
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError, RuntimeError) as error:
        raise MetadataError(f"{to_note(element)!r} is not an HDF5 type ({error})") from error


def _type_of(element: Element) -> Any:
    from h5py import h5t

    match element:
        case Number():
            return _number_type(element)
        case Text(charset, size, padding):
            tid = h5t.C_S1.copy()
            tid.set_size(h5t.VARIABLE if size is None else size)
            tid.set_cset({"utf-8": h5t.CSET_UTF8, "ascii": h5t.CSET_ASCII}[charset])
            tid.set_strpad(_PADDING.index(padding or "nullterm"))
            return tid
        case Compound(fields, offsets, size):
            types = [_type_of(member) for _, member in fields]
            packed = _packed(types)
            tid = h5t.create(h5t.COMPOUND, packed[-1] if size is None else size)
            for (name, _), offset, member in zip(fields, offsets or packed[:-1], types, strict=True):
                tid.insert(raw_of(name), offset, member)
            return tid
        case Enum(base, members):
            tid = h5t.enum_create(_type_of(base))
            for name, number in members:
                tid.enum_insert(raw_of(name), number)
            return tid
        case Opaque(size, tag) | Time(size=size, tag=tag) if tag or isinstance(element, Opaque):
            tid = h5t.create(h5t.OPAQUE, size)
            tid.set_tag(raw_of(tag))
            return tid
        case ArrayOf(base) | Sequence(base):
            tid = _type_of(base)
            return h5t.array_create(tid, element.shape) if isinstance(element, ArrayOf) else h5t.vlen_create(tid)
        case Reference():
            return h5t.STD_REF_DSETREG if element == REGION else h5t.STD_REF_OBJ
    problem = f"HDF5 has no data type for {element.name if isinstance(element, Time) else element}"
    remedy = "Store the values as ISO 8601 text, or as numbers with their unit in an attribute."
    raise ValueRefusedError(problem, remedy=remedy)


_frequent_type = lru_cache(_type_of)


def _number_type(number: Number) -> Any:
    import numpy as np
    from h5py import h5t

    kind, size, order, layout = number.kind, number.size, number.byte_order, number.layout
    if isinstance(layout, Precision):
        tid = {"int": h5t.STD_I64LE, "uint": h5t.STD_U64LE, "float": h5t.IEEE_F64LE}[kind].copy()
        tid.set_order(h5t.ORDER_BE if order == ">" else h5t.ORDER_LE)
        if layout.bias is not None:
            tid.set_fields(*layout.fields)
            tid.set_ebias(layout.bias)
        # the order matters: all bits must lie inside the number, and the number inside the bytes, after each step
        tid.set_offset(layout.offset)
        tid.set_precision(layout.bits)
        tid.set_size(size)
        return tid
    if (parts := _parts_of(number)) is not None:
        return _type_of(parts)
    if kind in ("bitfield", "complex"):  # complex: of HDF5 2.0
        prefix = f"STD_B{8 * size}" if kind == "bitfield" else f"COMPLEX_IEEE_F{4 * size}"
        return getattr(h5t, prefix + ("BE" if order == ">" else "LE"))
    if kind == "bool":
        return h5t.py_create(np.dtype("?"), logical=True)
    # A long double has 80 bits on x86, 128 on some ARM processors, and 64 with some compilers.
    if kind == "float" and size == 16:
        problem = "a float of 16 bytes is not stored in HDF5: its bytes differ between machines"
        raise ValueRefusedError(problem, remedy="Convert the data to float64.")
    if size not in _HDF5_SIZES:
        raise ValueError("no such number")
    return h5t.py_create(np.dtype(f"{order}{LETTERS[kind]}{size}"))
