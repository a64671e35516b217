"""Data types of nodes, which are those of format 2 <-> data types of format 3; and `NUMBERS`, the table of the numbers.

A node has a data type of format 2: a code such as ``"<f4"``, or a list of fields. Files are listed without NumPy.

For elements of variable length format 3 has the data types ``string`` and ``variable_length_bytes``, and format 2
``"|O"`` with a filter. The byte order is not part of a format-3 data type; it is the ``endian`` of the codec ``bytes``,
the same for all fields of a row.

Source: Zarr v2 specification, "Data type encoding"; Zarr v3 specification, "Data types"; NumPy, "Datetimes";
zarr-extensions for ``string``, ``struct``, ``fixed_length_utf32``, ``numpy.datetime64``; zarr-python for
``null_terminated_bytes``, ``raw_bytes``, ``structured``.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Literal

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.model.element import UTF8, ByteOrder, Element, Number, NumberKind, Opaque, Text, Time

if TYPE_CHECKING:
    import numpy as np

# First letter of a code -> kind of the element.
KINDS: dict[str, NumberKind] = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
LETTERS = {kind: letter for letter, kind in KINDS.items()} | {"bitfield": "u"}
_SIZES: dict[NumberKind, tuple[int, ...]] = {
    "int": (1, 2, 4, 8), "uint": (1, 2, 4, 8), "float": (2, 4, 8), "complex": (8, 16),
}  # fmt: skip
# The numbers of Zarr by their name in format 3, NumPy and HDMF.
NUMBERS: dict[str, Number] = {"bool": Number("bool", 1)} | {
    f"{kind}{8 * size}": Number(kind, size, "|" if size == 1 else "<") for kind in _SIZES for size in _SIZES[kind]
}
# HDMF's other names of numbers. ``int`` has 32 bits and ``float`` single precision, as in the specification.
NUMBER_WORDS = {
    "float": "float32", "double": "float64", "long": "int64", "int": "int32", "short": "int16", "uint": "uint32",
}  # fmt: skip
# Code of a number of NumPy, without the byte order -> name.
NAMES = {f"{LETTERS[number.kind]}{number.size}": name for name, number in NUMBERS.items()}
MAX_DEPTH = 32  # how deep types may be nested in each other
_LONG_DOUBLES = frozenset({"f16", "c32"})  # read and never written, since NumPy has them on some machines only
_DATES = {"M": "datetime64", "m": "timedelta64"}
_CODE = re.compile(r"([<>|]?)([biufcmMSUVO])([0-9]{0,10})(?:\[([^\]]*)\])?")
_UNIT = re.compile(r"([0-9]{0,10})(Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as|generic)")
DTYPE_OPTIONS = frozenset({"dtype", "astype", "encode_dtype", "decode_dtype"})  # of codecs
_MOST = 2**31 - 1  # NumPy's maximum for the units in one step of a date, and for the bytes of a field
Endian = Literal["little", "big"]
STRING = "string"
BYTES = "variable_length_bytes"  # zarr-python 3 has this name, but it is not registered: reading it warns
# `struct` is a registered extension (zarr-extensions 45), which zarr-python writes from 3.2 on; before, it had
# `structured`, with pairs in place of objects. Both are read.
STRUCT = "struct"
STRUCTURED = "structured"
OBJECTS = {STRING: STRING, "str": STRING, BYTES: BYTES, "bytes": BYTES}
_FIXED = {"null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1), "fixed_length_utf32": ("U", 4)}
_FIXED_NAMES = {code: (name, width) for name, (code, width) in _FIXED.items()}
DATES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
# The core specification names opaque bytes by their bits: r24 has three bytes.
_RAW_BITS = re.compile(r"r([1-9][0-9]*)")


def number_code(number: Number, byte_order: str = "<") -> str:
    """Return the data type of format 2 for a number of Zarr; one byte has no byte order."""
    return f"{'|' if number.size == 1 else byte_order}{LETTERS[number.kind]}{number.size}"


def code_of(dtype: np.dtype[Any]) -> str:
    """Return the data type of format 2 for a NumPy dtype without fields."""
    if dtype.isbuiltin == 2:  # it is of another library, such as ml_dtypes, and its ``str`` looks like opaque bytes
        raise ValueRefusedError(f"Zarr has no data type for {dtype}", remedy="Convert the data to another type.")
    return dtype.str


def unknown_type(data_type: Any, error: Exception) -> MetadataError:
    """Return the error about a data type that a node cannot have, for the reason that ``error`` gives."""
    problem = f"the data type {data_type!r} is unknown ({error})"
    remedy = "Convert the array with the program that wrote it, or run `zarrio verify` on the file."
    return MetadataError(problem, remedy=remedy)


def split_code(data_type: str) -> tuple[str, str, str, str | None]:
    """Return byte order, letter, size and unit of a code of format 2."""
    match = _CODE.fullmatch(data_type)
    if match is None:
        raise ValueError(f"{data_type!r} is not one of Zarr's")
    return match[1], match[2], match[3], match[4]


def split_unit(text: str | None) -> tuple[int, str]:
    """Return the unit of a date and how many of it are one step; ``"generic"`` where there is none."""
    if not text:
        return 1, "generic"
    match = _UNIT.fullmatch(text)
    count = int(match[1] or 1) if match is not None else 0
    if match is None or not 0 < count <= _MOST:
        raise ValueError(f"{text!r} is not a unit of time")
    return count, match[2]


def field_shape(rest: list[Any]) -> tuple[int, ...]:
    """Return the axes of a field from its entry without name and type: ``[]``, ``[3]`` or ``[[3, 2]]``."""
    shape = tuple(map(int, rest[0] if isinstance(rest[0], list) else rest)) if rest else ()
    if any(length > _MOST for length in shape) or math.prod(shape) > _MOST:
        raise ValueError(f"a field has at most {_MOST:,} elements")
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
        shown = f"[{'' if count == 1 else count}{step}]" if unit else ""  # NumPy writes units like this
        return Time(_DATES[kind] + shown, byte_order)
    if kind in KINDS:
        code = f"{kind}{size}"
        if code not in NAMES and code not in _LONG_DOUBLES:
            raise ValueError(f"{KINDS[kind]} does not have {size} bytes")
        return Number(KINDS[kind], size, "|" if size == 1 else byte_order)
    if kind == "S":
        return Text("ascii", max(1, size), "nullpad")
    return Opaque(size) if kind == "V" else UTF8


def json_float(value: float) -> float | str:
    """Return a number as strict JSON: NaN and infinities by name."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def encode_type(data_type: Any) -> Any:
    """Return the format-3 data type for a format-2 one other than ``"|O"``; fields with axes become bytes."""
    if isinstance(data_type, list):
        fields = []
        for name, inner, *rest in data_type:
            if shape := field_shape(rest):
                stored = {"name": "raw_bytes", "configuration": {"length_bytes": itemsize(inner) * math.prod(shape)}}
            else:
                stored = encode_type(inner)
            fields.append({"name": name, "data_type": stored})
        return {"name": STRUCT, "configuration": {"fields": fields}}
    _, kind, digits, unit = split_code(data_type)
    if kind in _DATES:
        count, unit = split_unit(unit)
        return {"name": f"numpy.{_DATES[kind]}", "configuration": {"unit": unit, "scale_factor": count}}
    if kind in _FIXED_NAMES:
        name, width = _FIXED_NAMES[kind]
        return {"name": name, "configuration": {"length_bytes": width * int(digits or 1)}}
    if kind + digits in _LONG_DOUBLES:
        raise ValueRefusedError(f"format 3 has no data type for {data_type}", remedy="Convert the data to float64.")
    return NAMES[kind + digits]


def as_structured(stored: Any) -> Any:
    """Return a format-3 data type with rows under the name that zarr-python before 3.2 knows too."""
    if not isinstance(stored, dict) or stored["name"] != STRUCT:
        return stored
    fields = [[field["name"], as_structured(field["data_type"])] for field in stored["configuration"]["fields"]]
    return {"name": STRUCTURED, "configuration": {"fields": fields}}


def endian_of(data_type: Any) -> Endian | None:
    """Return the byte order of a format-2 type; None if it has none, or fields with both."""
    orders = _orders(data_type)
    if len(orders) != 1:
        return None
    return "big" if orders == {">"} else "little"


def is_mixed(data_type: Any) -> bool:
    """Tell whether a row has fields with both byte orders, which format 3 cannot express."""
    return len(_orders(data_type)) > 1


def _orders(data_type: Any) -> set[str]:
    if isinstance(data_type, list):  # fields that are bytes in format 3 keep their byte order
        return {order for _, inner, *shape in data_type if not shape for order in _orders(inner)}
    order, kind, digits, _ = split_code(data_type)
    if kind in "SVb" or (digits == "1" and kind != "U"):
        return set()
    return {">" if order == ">" else "<"}


def little(data_type: Any) -> Any:
    """Return a format-2 type with little-endian numbers."""
    if isinstance(data_type, list):
        return [[name, inner if shape else little(inner), *shape] for name, inner, *shape in data_type]
    return data_type.replace(">", "<")


def decode_type(data_type: Any, endian: Endian | None = "little") -> Any:
    """Return the format-2 data type for a format-3 one."""
    try:
        return _decode(data_type, ">" if endian == "big" else "<", 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unknown_type(data_type, error) from error


def object_kind(data_type: Any) -> str | None:
    """Return ``string`` or ``variable_length_bytes`` for types of objects in memory, None for other types."""
    name = data_type.get("name") if isinstance(data_type, dict) else data_type
    return OBJECTS.get(name) if isinstance(name, str) else None


def _decode(data_type: Any, order: str, depth: int) -> Any:
    if isinstance(data_type, str):
        data_type = {"name": data_type}
    name, configuration = data_type["name"], data_type.get("configuration") or {}
    if name in NUMBERS:
        return number_code(NUMBERS[name], order)
    if name in _FIXED:
        code, width = _FIXED[name]
        length = _length(configuration["length_bytes"])
        if length % width:
            raise ValueError("it is not a whole number of characters")
        return f"{order if code == 'U' else '|'}{code}{length // width}"
    if name in DATES:
        unit, scale = configuration["unit"], _length(configuration.get("scale_factor", 1))
        if not re.fullmatch(r"[A-Za-z]+|μs", unit):
            raise ValueError(f"{unit!r} is not a unit")
        step = f"[{scale if scale != 1 else ''}{'us' if unit == 'μs' else unit}]"
        return order + DATES[name] + (step if unit != "generic" else "")
    if name in (STRUCT, STRUCTURED):
        return _decode_fields(configuration["fields"], order, depth)
    bits = _RAW_BITS.fullmatch(name)
    if bits and int(bits[1]) % 8 == 0:
        return f"|V{int(bits[1]) // 8}"
    raise KeyError(name)


def _length(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"{value!r} is not a length")
    return value


def _decode_fields(fields: Any, order: str, depth: int) -> list[Any]:
    if depth > MAX_DEPTH or not isinstance(fields, list) or not fields:
        raise ValueError("it is not a list of fields")
    pairs = [(field["name"], field["data_type"]) if isinstance(field, dict) else field for field in fields]
    if names := [name for name, _ in pairs if not isinstance(name, str)]:
        raise TypeError(f"{names[0]!r} is not a name")
    return [[name, _decode(inner, order, depth + 1)] for name, inner in pairs]


def word_of_type(data_type: Any, *, in_row: bool = False) -> Any:
    """Return the default ``zarr_dtype`` of a format-2 type other than ``"|O"``: NumPy's name, or the fields."""
    if isinstance(data_type, list):
        return [{"name": name, "dtype": word_of_type(inner, in_row=True)} for name, inner, *_ in data_type]
    _, kind, digits, unit = split_code(data_type)
    if kind == "S" and not in_row:
        return "bytes"
    if kind in "mM":
        return _DATES[kind] + (f"[{unit}]" if unit else "")
    if kind in _FIXED_NAMES:
        return f"{ {'S': 'bytes', 'U': 'str', 'V': 'void'}[kind] }{8 * itemsize(data_type)}"
    return f"{KINDS[kind]}{8 * int(digits)}" if kind + digits in _LONG_DOUBLES else NAMES[kind + digits]
