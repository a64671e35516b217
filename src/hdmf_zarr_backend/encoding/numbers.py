"""Numbers: ints, floats, complex numbers and bools, and what Zarr stores as integers: enumerations and bits of HDF5.

Also the codes of format 2, in which nodes have all data types: ``"<f4"``, or a list of fields. As JSON, in rows with
text or references, in notes and as fill values, a number is a number, "NaN" or "Infinity"; a NaN with another sign or
payload is its bits, "0x7ff8000000000001"; a complex number is a list of two; bools, enumerations and bits are integers
or bools.

Source: Zarr v2 specification, "Data type encoding"; Zarr v3 specification, "Data types"; NumPy, "Datetimes"; HDF5
reference manual, "Datatypes".
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.encoding.kind import Convert, Kind, from_hdf5, note_size, read_note, to_hdf5, to_note
from hdmf_zarr_backend.encoding.text import raw_of, text_of
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.model.element import (
    UTF8,
    ByteOrder,
    Compound,
    Element,
    Enum,
    Number,
    NumberKind,
    Opaque,
    Precision,
    Text,
    Time,
)

if TYPE_CHECKING:
    import numpy as np

KINDS: dict[str, NumberKind] = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
"""First letter of a code -> kind of the element."""

NUMBERS = {
    "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8",
    "complex128": "c16",
}  # fmt: skip
"""Name in format 3, NumPy and HDMF -> code in format 2 and NumPy, without the byte order."""

NAMES = {code: name for name, code in NUMBERS.items()}
"""Code of format 2 -> name in format 3."""


def ordered(code: str, byte_order: str) -> str:
    """Return the data type of format 2 for a number with a byte order, ``"<"`` or ``">"``; one byte has none."""
    return ("|" if code[1:] == "1" else byte_order) + code


_LONG_DOUBLES = frozenset({"f16", "c32"})  # in NumPy on some machines: only read, never written
_DATES = {"M": "datetime64", "m": "timedelta64"}

_CODE = re.compile(r"([<>|]?)([biufcmMSUVO])([0-9]{0,10})(?:\[([^\]]*)\])?")
_UNIT = re.compile(r"([0-9]{0,10})(Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as|generic)")
_MOST_UNITS = 2**31 - 1  # NumPy's maximum for one step of a date
_MOST_IN_FIELD = 2**31 - 1  # NumPy's maximum for the bytes of a field


def split_code(data_type: str) -> tuple[str, str, str, str | None]:
    """Return the parts of a data type of format 2 that is a code."""
    match = _CODE.fullmatch(data_type)
    if match is None:
        raise ValueError(f"{data_type!r} is not one of Zarr's")
    byte_order, letter, digits, unit = match.groups()
    return byte_order, letter, digits, unit


def split_unit(text: str | None) -> tuple[int, str]:
    """Return the unit of a date and how many of it are one step; ``"generic"`` where there is none."""
    if not text:
        return 1, "generic"
    match = _UNIT.fullmatch(text)
    count = int(match[1] or 1) if match is not None else 0
    if match is None or not 0 < count <= _MOST_UNITS:
        raise ValueError(f"{text!r} is not a unit of time")
    return count, match[2]


def field_shape(rest: list[Any]) -> tuple[int, ...]:
    """Return the axes of a field from its entry without name and type: ``[]``, ``[3]`` or ``[[3, 2]]``."""
    shape = tuple(map(int, rest[0] if isinstance(rest[0], list) else rest)) if rest else ()
    if any(length > _MOST_IN_FIELD for length in shape) or math.prod(shape) > _MOST_IN_FIELD:
        raise ValueError(f"a field has at most {_MOST_IN_FIELD:,} elements")
    return shape


def itemsize(data_type: Any) -> int:
    """Return the bytes of one element of a data type of format 2; 0 for objects and invalid types."""
    try:
        if isinstance(data_type, list):
            return sum(itemsize(inner) * math.prod(field_shape(rest)) for _, inner, *rest in data_type)
        _, kind, digits, _ = split_code(data_type)
    except ValueError:
        return 0
    return 0 if kind == "O" else int(digits or 1) * (4 if kind == "U" else 1)


def code_element(data_type: str) -> Element:
    """Return the `Element` for a data type of format 2 that is a code; a field of objects is text."""
    order, kind, digits, unit = split_code(data_type)
    size = int(digits or 0)
    byte_order: ByteOrder = ">" if order == ">" else "<"
    if kind in _DATES:
        count, step = split_unit(unit)
        shown = f"[{'' if count == 1 else count}{step}]" if unit else ""  # as in NumPy
        return Time(_DATES[kind] + shown, byte_order)
    if kind in KINDS:
        code = f"{kind}{size}"
        if code not in NAMES and code not in _LONG_DOUBLES:
            raise ValueError(f"{KINDS[kind]} does not have {size} bytes")
        return Number(KINDS[kind], size, "|" if size == 1 else byte_order)
    if kind == "S":
        return Text("ascii", max(1, size), "nullpad")
    return Opaque(size) if kind == "V" else UTF8


# ---- JSON of values -------------------------------------------------------------------------------------------------


def json_float(value: float) -> float | str:
    """Return a number as strict JSON: NaN and infinities by name."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def encode_number(value: Any) -> Any:
    """Return the JSON of a number of NumPy."""
    import numpy as np

    if isinstance(value, np.generic) and value.dtype.kind in "fc" and np.isnan(value):
        array = np.array(value)
        if array.dtype.kind == "c":
            return [encode_number(part[()]) for part in (array.real, array.imag)]
        bits = int(array.view(f"u{array.itemsize}"))
        usual = int(np.array(np.nan, array.dtype).view(f"u{array.itemsize}"))
        return "NaN" if bits == usual else f"0x{bits:0{2 * array.itemsize}x}"
    item = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(item, complex):
        return [encode_number(item.real), encode_number(item.imag)]
    return json_float(item) if isinstance(item, float) else item


def decode_number(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the number for JSON, for an array of ``dtype``."""
    import numpy as np

    if isinstance(value, list):
        parts = np.empty(2, f"{dtype.str[0]}f{dtype.itemsize // 2}")
        parts[:] = [decode_number(part, parts.dtype) for part in value]
        return parts.view(dtype)[0]
    if isinstance(value, str) and value.startswith("0x"):
        return np.array(int(value, 16), f"u{dtype.itemsize}").astype(f"{dtype.str[0]}u{dtype.itemsize}").view(dtype)[()]
    return float(value) if isinstance(value, str) and dtype.kind == "f" else value


# ---- the kind -------------------------------------------------------------------------------------------------------

_LETTERS = {kind: letter for letter, kind in KINDS.items()}
_BOOL_MEMBERS = (("FALSE", 0), ("TRUE", 1))
_HDF5_SIZES = (1, 2, 4, 8)


class Numbers(Kind[Number | Enum]):
    """Numbers, and the notes of their types.

    ::

        "<f8"  "|u1"  "bool"                              named as NumPy names them; h5py's enumeration
        {"enum": [["red", 1], ...], "base": type}
        {"bitfield": "<u2"}  {"complex": "<f8"}
        {"number": "<u2", "precision": 12, "offset": 2}   with a custom layout; for floats also "fields", "bias"
    """

    elements = (Number, Enum)
    keys = ("bool", "number", "enum", "bitfield", "complex")
    hdf5_classes = ("INTEGER", "FLOAT", "ENUM", "BITFIELD", "COMPLEX")

    def to_hdmf(self, element: Number | Enum) -> str:
        kind = _kind_in_zarr(element)
        return kind if kind == "bool" else f"{kind}{8 * element.size}"

    def label(self, element: Number | Enum) -> str:
        return self.to_hdmf(element) + (" big-endian" if element.byte_order == ">" else "")

    def fits(self, noted: Number | Enum, stored: Number | Enum) -> bool:
        has_own_layout = isinstance(noted, Number) and (noted.kind == "bool" or isinstance(noted.layout, Precision))
        return _kind_in_zarr(noted) == _kind_in_zarr(stored) and (has_own_layout or noted.size == stored.size)

    def from_note(self, note: Any, depth: int) -> Element:
        if isinstance(note, str):
            return Number("bool", 1) if note == "bool" else code_element(note)
        if "number" in note:
            return _number_of_note(note)
        key = next(key for key in ("enum", "bitfield", "complex") if key in note)
        part = read_note(note["base" if key == "enum" else key], depth)
        if not isinstance(part, Number):
            raise TypeError(f"{note!r} does not consist of numbers")
        if key == "enum":
            return enum_of(part, tuple((str(name), int(number)) for name, number in note["enum"]))
        if key == "complex":
            return Number("complex", 2 * part.size, part.byte_order, part)
        return replace(part, kind="bitfield")

    def to_note(self, element: Number | Enum) -> Any:
        if isinstance(element, Enum):
            return {"enum": list(map(list, element.members)), "base": to_note(element.base)}
        layout, kind = element.layout, element.kind
        if kind == "bitfield":
            return {"bitfield": to_note(replace(element, kind="uint"))}
        code = f"{element.byte_order}{_LETTERS[kind]}{element.size}"
        if isinstance(layout, Precision):
            bits = {"number": code, "precision": layout.bits, "offset": layout.offset}
            return bits if layout.bias is None else {**bits, "fields": list(layout.fields), "bias": layout.bias}
        if layout is None and kind != "complex":
            return kind if kind == "bool" else code
        if kind == "complex" and isinstance(layout, Number):
            return {"complex": to_note(layout)}
        return to_note(_parts_of(element))

    def from_hdf5(self, tid: Any) -> Element:
        from h5py import h5t

        form, size = tid.get_class(), tid.get_size()
        if form == h5t.ENUM:
            base = from_hdf5(tid.get_super())
            names = (text_of(tid.get_member_name(i)) for i in range(tid.get_nmembers()))
            members = tuple((name, int(tid.get_member_value(i))) for i, name in enumerate(names))
            return enum_of(base, members)
        if form not in (h5t.INTEGER, h5t.FLOAT, h5t.BITFIELD):
            part = self.from_hdf5(tid.get_super())
            assert isinstance(part, Number)
            return Number("complex", size, part.byte_order, part)
        order = _order_of(tid)
        if form == h5t.BITFIELD:
            return Number("bitfield", size, order)
        bits, offset = tid.get_precision(), tid.get_offset()
        is_plain = (bits, offset) == (8 * size, 0) and size in _HDF5_SIZES
        if form == h5t.INTEGER:
            kind: NumberKind = "uint" if tid.get_sign() == h5t.SGN_NONE else "int"
            return Number(kind, size, order, None if is_plain else Precision(bits, offset))
        fields, bias = _float_layout(tid)
        if is_plain and size > 1 and _float_layout(h5t.py_create(_dtype(f"{order}f{size}"))) == (fields, bias):
            return Number("float", size, order)
        return Number("float", size, order, Precision(bits, offset, fields, bias))

    def to_hdf5(self, element: Number | Enum) -> Any:
        from h5py import h5t

        if isinstance(element, Enum):
            tid = h5t.enum_create(to_hdf5(element.base))
            for name, number in element.members:
                tid.enum_insert(raw_of(name), number)
            return tid
        size, order, layout = element.size, element.byte_order, element.layout
        if isinstance(layout, Precision):
            return _type_with_bits(element, layout)
        is_native = element.kind == "complex" and isinstance(layout, Number)  # of HDF5 2.0
        if element.kind == "bitfield" or is_native:
            prefix = f"COMPLEX_IEEE_F{4 * size}" if is_native else f"STD_B{8 * size}"
            return getattr(h5t, prefix + ("BE" if order == ">" else "LE"))
        if layout is not None or element.kind == "complex":
            return to_hdf5(_parts_of(element))
        if element.kind == "bool":
            return h5t.py_create(_dtype("?"), logical=True)
        if element.kind == "float" and size == 16:
            problem = "a float of 16 bytes is not stored in HDF5: its bytes differ between machines"
            raise ValueRefusedError(problem, remedy="Convert the data to float64.")
        if size not in _HDF5_SIZES:
            raise ValueError("no such number")
        return h5t.py_create(_dtype(f"{order}{_LETTERS[element.kind]}{size}"))

    def in_numpy(self, element: Number | Enum) -> Element | None:
        if isinstance(element, Enum):
            return self.in_numpy(element.base)
        if element.kind == "bitfield":
            return replace(element, kind="uint")
        is_native = element.kind == "complex" and isinstance(element.layout, Number)
        return replace(element, layout=None) if element.layout is None or is_native else None

    def encoder(self, element: Number | Enum, refer: Convert) -> Convert:
        return encode_number

    def decoder(self, element: Number | Enum, dtype: np.dtype[Any], refer: Convert) -> Convert:
        return lambda value: decode_number(value, dtype)


def _kind_in_zarr(element: Number | Enum) -> str:
    kind = element.base.kind if isinstance(element, Enum) else element.kind
    return "uint" if kind == "bitfield" else kind


def _dtype(code: str) -> np.dtype[Any]:
    import numpy as np

    return np.dtype(code)


def _order_of(tid: Any) -> ByteOrder:
    from h5py import h5t

    return "|" if tid.get_size() == 1 else ">" if tid.get_order() == h5t.ORDER_BE else "<"


def _float_layout(tid: Any) -> tuple[tuple[int, ...], int]:
    return tuple(tid.get_fields()), tid.get_ebias()


def _number_of_note(note: dict[str, Any]) -> Number:
    name = str(note["number"])
    fields, bias = (tuple(map(int, note["fields"])), int(note["bias"])) if "bias" in note else ((), None)
    layout = Precision(int(note["precision"]), int(note["offset"]), fields, bias)
    size = note_size(int(name[2:]))
    return Number(KINDS[name[1]], size, "|" if size == 1 else ">" if name[0] == ">" else "<", layout)


def enum_of(base: Element, members: tuple[tuple[str, int], ...]) -> Element:
    """Return an enumeration of HDF5; h5py reads one of FALSE and TRUE as bool, whatever its base."""
    if not isinstance(base, Number):
        raise TypeError(f"an enumeration of {base} has no counterpart")
    if members != _BOOL_MEMBERS:
        return Enum(base, members)
    return Number("bool", base.size, base.byte_order, None if (base.kind, base.size) == ("int", 1) else base)


def complex_of(row: Compound) -> Element:
    """Return a compound of HDF5; one of two equal floats ``r`` and ``i`` is h5py's form of complex numbers."""
    part = row.fields[0][1]
    is_complex = [name for name, _ in row.fields] == ["r", "i"] and part == row.fields[1][1]
    if not is_complex or not isinstance(part, Number) or part.kind != "float":
        return row
    is_packed = row.offsets is None and part.layout is None
    return Number("complex", 2 * part.size, part.byte_order, None if is_packed else row)


def _parts_of(number: Number) -> Element:
    """Return the element of HDF5 that h5py reads as a bool or as a complex number."""
    if isinstance(number.layout, Number):
        return Enum(number.layout, _BOOL_MEMBERS)
    part = Number("float", number.size // 2, number.byte_order)
    return number.layout if isinstance(number.layout, Compound) else Compound((("r", part), ("i", part)))


def _type_with_bits(number: Any, layout: Precision) -> Any:
    from h5py import h5t

    tid = {"int": h5t.STD_I64LE, "uint": h5t.STD_U64LE, "float": h5t.IEEE_F64LE}[number.kind].copy()
    tid.set_order(h5t.ORDER_BE if number.byte_order == ">" else h5t.ORDER_LE)
    if layout.bias is not None:
        tid.set_fields(*layout.fields)
        tid.set_ebias(layout.bias)
    # the order matters: bits must lie inside the bytes after each step
    tid.set_precision(layout.bits)
    tid.set_size(number.size)
    tid.set_offset(layout.offset)
    return tid
