"""The data types of HDMF, NumPy, Zarr format 2, and ``zarr_dtype``, and their conversion.

Source: hdmf-zarr storage specification, "dtype mappings"; `hdmf.spec` for the types that a schema may use.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from hdmf_zarr_backend.encoding.data_types import (
    LETTERS,
    NAMES,
    NUMBER_WORDS,
    code_of,
    split_code,
    split_unit,
    unknown_type,
)
from hdmf_zarr_backend.encoding.elements import OPEN_WORDS, WORDS, type_element
from hdmf_zarr_backend.encoding.hdf5_types import to_hdf5
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.model.element import REFERENCE, UTF8, ArrayOf, Compound, Element, Enum, Number, Precision, Time

Kind: TypeAlias = Literal["number", "text", "ascii", "bytes", "object", "region", "compound"]

_KINDS: dict[str, Kind | None] = {"S": "bytes", "U": "text", "T": "text", "V": "compound", "O": None}


def zarr_type(dtype: np.dtype[Any]) -> Any:
    """Return the format-2 data type for a NumPy dtype: explicit byte order, fields as lists. Padding is dropped."""
    if dtype.hasobject:
        problem = f"{dtype} holds Python objects"
        raise ValueRefusedError(problem, remedy="Give numbers or text of a fixed length, such as S10.")
    if dtype.names is not None:
        fields = ((name, dtype[name]) for name in dtype.names)
        return [[name, zarr_type(field.base), *([list(field.shape)] if field.shape else [])] for name, field in fields]
    code = code_of(dtype)
    if dtype.kind not in "mMSUV" and code[1:] not in NAMES:
        remedy = "Convert the data to " + ("float64 or complex128." if dtype.kind in "fc" else "another type.")
        raise ValueRefusedError(f"Zarr has no data type for {dtype}", remedy=remedy)
    # NumPy makes S0 and U0 of empty text, whose chunks would have no bytes.
    if dtype.kind in "SU" and dtype.itemsize == 0:
        return dtype.str[:2] + "1"
    if not dtype.itemsize:
        raise ValueRefusedError(f"Zarr has no data type for {dtype}", remedy="Give elements that have bytes.")
    return code


def numpy_dtype(data_type: Any) -> np.dtype[Any]:
    """Return the NumPy dtype for the data type of a node; the inverse of `zarr_type`."""
    try:
        return from_zarr_type(data_type)
    except (TypeError, ValueError, SyntaxError, RecursionError) as error:
        raise unknown_type(data_type, error) from error


def from_zarr_type(data_type: Any) -> np.dtype[Any]:
    """Return the result of `numpy_dtype`, for data types that are part of a value."""
    if isinstance(data_type, str):
        split_unit(split_code(data_type)[3])  # NumPy accepts other names, and divides by a unit of 0
        return np.dtype(data_type)
    if not isinstance(data_type, list):
        raise TypeError("a data type is a string or a list of fields")
    fields: list[Any] = []
    for name, base, *shape in data_type:
        if name == "":  # NumPy would rename the field
            raise ValueError("a field has an empty name")
        lengths = (tuple(part) if isinstance(part, list) else part for part in shape)
        fields.append((str(name), from_zarr_type(base), *lengths))
    return np.dtype(fields)


def plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return ``dtype`` without metadata and padding: enumerations become integers or bool, fields are packed."""
    if dtype.names is not None:
        fields = [(name, dtype[name]) for name in dtype.names]
        return np.dtype([(name, plain(field.base), field.shape) for name, field in fields])
    if dtype.hasobject:
        return np.dtype(object)
    return np.dtype(code_of(dtype) if dtype.itemsize or dtype.kind not in "SU" else f"{dtype.str[:2]}1")


def has_unusual_nan(values: Any) -> bool:
    """Tell whether an array or number of NumPy has a NaN with a sign or payload: JSON has only one NaN."""
    dtype = values.dtype
    if dtype.kind not in "fc" or not np.isnan(values).any():
        return False
    flat = np.ascontiguousarray(values).reshape(-1)
    parts = flat.view(f"{dtype.str[0]}f{dtype.itemsize // 2}") if dtype.kind == "c" else flat
    unusual = parts[np.isnan(parts)]
    return bool(unusual.tobytes() != np.full(unusual.shape, np.nan, unusual.dtype).tobytes())


def element_of(dtype: np.dtype[Any]) -> Element:
    """Return the `Element` for a NumPy dtype; fields of objects are references."""
    if dtype.subdtype is not None:
        return ArrayOf(element_of(dtype.base), dtype.shape)
    if dtype.names is not None:
        fields = [(name, REFERENCE if dtype[name].kind == "O" else element_of(dtype[name])) for name in dtype.names]
        return Compound(tuple(fields))
    return UTF8 if dtype.kind in "OUT" else type_element(code_of(dtype))


def dtype_of(element: Element) -> np.dtype[Any]:
    """Return the NumPy dtype for values in memory, in native byte order; text, references and opaque are objects."""
    match element:
        case Compound(fields):
            return np.dtype([(name, dtype_of(member)) for name, member in fields])
        case ArrayOf(base, shape):
            return np.dtype((dtype_of(base), shape))
        case Time(name):
            return np.dtype(name)
        case Number("bool"):
            return np.dtype(bool)
        case Number(layout=Precision()):  # h5py may have a larger type for it
            return to_hdf5(element).dtype.newbyteorder("=")  # type: ignore[no-any-return]
        case Number(kind, size) | Enum(Number(kind, size)):
            return np.dtype(f"{LETTERS[kind]}{size}")
    return np.dtype(object)


def word_of(dtype: Any) -> Any:
    """Return HDMF's name for the type of a builder: a str, a list of field dicts, or None."""
    if dtype is None or isinstance(dtype, (str, list)):
        return dtype
    if isinstance(dtype, dict):
        return "region" if dtype.get("reftype") == "region" else "object"
    if hasattr(dtype, "reftype"):
        return str(dtype.reftype)
    if not isinstance(dtype, (np.dtype, type)):
        raise ValueRefusedError(f"{dtype!r} is not a data type of HDMF")
    dtype = np.dtype(dtype)
    if dtype.kind == "V" or dtype.hasobject:
        return None  # the fields, or the size of opaque elements, come from the data
    return {"S": "ascii", "U": "utf8"}.get(dtype.kind, dtype.name)


def kind_of(dtype_name: str) -> Kind | None:
    """Return the kind of element for HDMF's type ``dtype_name``, None if it leaves the type open."""
    if dtype_name in OPEN_WORDS:
        return None
    if dtype_name in WORDS:
        return WORDS[dtype_name]
    try:
        return _KINDS.get(np.dtype(dtype_name).kind, "number")
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueRefusedError(f"{dtype_name!r} is not a data type of HDMF") from error


def numpy_of(dtype_name: str) -> np.dtype[Any]:
    """Return the NumPy dtype for HDMF's number type ``dtype_name``."""
    return np.dtype(NUMBER_WORDS.get(dtype_name, dtype_name))


def number_type(dtype_name: str, given: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the type to store numbers of type ``given`` in, if the schema has the type ``dtype_name``."""
    wanted = numpy_of(dtype_name)
    if given is None:
        return wanted
    # Data of the schema's type keep their byte order. A type without a unit, such as ``datetime64``, which hdmf derives
    # from every array of dates, leaves the unit to the data.
    return given if given.name == wanted.name or (given.kind == wanted.kind and _lacks_unit(wanted)) else wanted


def _lacks_unit(dtype: np.dtype[Any]) -> bool:
    """Tell whether a type, or one of its fields, is ``datetime64`` or ``timedelta64`` without a unit."""
    if dtype.names is not None:
        return any(_lacks_unit(dtype[name].base) for name in dtype.names)
    return dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic"


def check_units(data_type: Any) -> None:
    """Raise a ValueRefusedError for a format-2 data type with dates or durations that have no unit."""
    dtype = from_zarr_type(data_type)
    if _lacks_unit(dtype):
        problem = f"{dtype} has no unit, and its values would be bare integers"
        raise ValueRefusedError(problem, remedy="Give the data a unit, such as 's': data.astype('datetime64[s]').")
