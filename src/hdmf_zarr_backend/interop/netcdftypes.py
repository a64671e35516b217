"""What netCDF calls the types of Zarr, and what values it has where it lacks a type.

=====================  ======================================================================================
bool                   ``uint8``, of variables and of attributes
datetime, timedelta    text, with the unit beside it: dates are ISO 8601, durations whole numbers of the unit
complex                the compound ``_Complex`` of the root, with the fields ``r`` and ``i``
``|V10``               opaque
``|S1``                char
``|S10``, ``<U10``     strings
=====================  ======================================================================================

Source: "NetCDF ZARR Storage Representation" (2018), "Types" and "Type Definitions".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.errors import ChunkError, MetadataError
from hdmf_zarr_backend.model.nodes import absolute, join

__all__ = [
    "COMPLEX",
    "NetcdfType",
    "as_attributes",
    "as_netcdf",
    "complex_type",
    "defined_types",
    "kind_of",
    "texts_of",
]

Array = npt.NDArray[Any]

COMPLEX = "_Complex"

NUMBERS = {"i1": "byte", "u1": "ubyte", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "int64",
           "u8": "uint64", "f4": "float", "f8": "double"}  # fmt: skip
"""netCDF's names of numbers."""


@dataclass(frozen=True, slots=True)
class NetcdfType:
    """A type that a group defines, for variables anywhere in the file.

    Attributes
    ----------
    path : str
        Absolute path.
    kind : str
        ``"compound"``, ``"enum"``, ``"opaque(10)"``; ``""`` where the file says it in another way.
    dtype : numpy.dtype or None
        Of the elements; of an enumeration, the integers. None where the definition names no type of Zarr.
    constants : dict
        The numbers of an enumeration, by their names.
    text_lengths : dict
        The most characters of those fields of a compound that are text, by their names.
    definition : object
        As the file has it, in the types of Zarr; the draft of 2018 wants definitions and does not say how they look.
    """

    path: str
    kind: str
    dtype: np.dtype[Any] | None = None
    constants: dict[str, int] = field(default_factory=dict)
    text_lengths: dict[str, int] = field(default_factory=dict)
    definition: Any = None


def defined_types(path: str, definitions: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, NetcdfType]:
    """Return the types that the group at ``path`` defines, by name.

    A definition is what Zarr has for the type, a list of fields for a compound, or an object that has it among its
    values; an object of numbers in there are the constants of an enumeration.
    """
    return {name: _defined(path, name, definition, attributes) for name, definition in definitions.items()}


def _defined(path: str, name: str, definition: Any, attributes: Mapping[str, Any]) -> NetcdfType:
    parts = list(definition.values()) if isinstance(definition, dict) else [definition]
    dtype = next((_dtype(part) for part in parts if isinstance(part, (str, list))), None)
    constants = next((part for part in parts if isinstance(part, dict)), {})
    constants = {name: value for name, value in constants.items() if type(value) is int}
    lengths = {field: attributes.get(f"{name}.{field}") for field in (dtype.names if dtype is not None else None) or ()}
    return NetcdfType(
        path=absolute(join(path, name)),
        kind="enum" if constants else "" if dtype is None else kind_of(dtype),
        dtype=dtype,
        constants=constants,
        text_lengths={field: int(n) for field, n in lengths.items() if isinstance(n, (int, np.integer))},
        definition=definition,
    )


def _dtype(declared: Any) -> np.dtype[Any] | None:
    try:
        return numpy_dtype(declared)
    except MetadataError:
        return None


def complex_type(dtype: np.dtype[Any]) -> NetcdfType:
    """Return the compound that stands for complex numbers."""
    return NetcdfType(absolute(COMPLEX), "compound", _shown(dtype))


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return netCDF's name for a data type."""
    if dtype.kind == "b":
        return "ubyte"
    if dtype.kind == "S":
        return "char" if dtype.itemsize == 1 else "string"
    if dtype.kind in "mMOUT":
        return "string"
    if dtype.kind == "c":
        return COMPLEX
    if dtype.names is not None:
        return "compound"
    return f"opaque({dtype.itemsize})" if dtype.kind == "V" else NUMBERS.get(dtype.str[1:], dtype.name)


def as_netcdf(values: Array) -> Array:
    """Return values as netCDF has them; text and dates as `str` in an array of objects.

    Raises
    ------
    ChunkError
        Text is not UTF-8.
    """
    letter, dtype = values.dtype.kind, values.dtype
    if letter == "M":
        return np.asarray(np.datetime_as_string(values)).astype(object)
    if letter == "m":
        return np.where(np.isnat(values), "NaT", values.astype("i8").astype(str)).astype(object)
    if letter == "U":
        return values.astype(object)
    if letter == "S" and dtype.itemsize > 1:
        return texts_of(values)
    shown = dtype if dtype.hasobject else _shown(dtype)
    return values if shown == dtype else values.view(shown)


def _shown(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the same bytes that netCDF has: of bool, of complex numbers, and of rows with such fields."""
    if dtype.kind == "b":
        return np.dtype("u1")
    if dtype.kind == "c":
        part = f"{dtype.str[0]}f{dtype.itemsize // 2}"
        return np.dtype([("r", part), ("i", part)])
    if dtype.subdtype is not None:
        return np.dtype((_shown(dtype.subdtype[0]), dtype.subdtype[1]))
    if not dtype.names or dtype.fields is None:
        return dtype
    fields = [dtype.fields[name] for name in dtype.names]
    formats, offsets = [_shown(kind[0]) for kind in fields], [kind[1] for kind in fields]
    return np.dtype({"names": dtype.names, "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize})


def texts_of(values: Array) -> Array:
    """Return text of one length, which is padded with zeros, as `str`.

    Raises
    ------
    ChunkError
        It is not UTF-8.
    """
    texts = np.empty(values.size, object)
    for position, text in enumerate(values.reshape(-1).tolist()):
        try:
            texts[position] = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ChunkError(
                f"element {position} of the text is not UTF-8 ({error})",
                remedy="Open the array with zarr: it has bytes.",
            ) from error
    return texts.reshape(values.shape)


def as_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as netCDF has them; the unit of dates in ``a`` is the attribute ``a.units``."""
    found: dict[str, Any] = {}
    units: dict[str, Any] = {}
    for name, value in attributes.items():
        if not isinstance(value, (bool, np.generic, np.ndarray)):
            found[name] = value
            continue
        array = np.asarray(value)
        found[name] = as_netcdf(array)[()]
        units |= {f"{name}.{unit}": said for unit, said in units_of(array.dtype).items()}
    return units | found


def units_of(dtype: np.dtype[Any]) -> dict[str, str]:
    """Return the built-in attribute ``units`` of dates and durations, such as ``25s``; nothing for other types."""
    if dtype.kind not in "mM":
        return {}
    unit, multiple = np.datetime_data(dtype)
    return {"units": unit if multiple == 1 else f"{multiple}{unit}"}
