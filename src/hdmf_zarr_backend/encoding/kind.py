"""`Kind`: all encodings of one kind of element, in one module for each; and the functions that ask the kind.

NumPy and h5py are imported on use, since files are listed without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.model.element import ArrayOf, Element, Unknown
from hdmf_zarr_backend.model.memo import Memo

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

Convert: TypeAlias = Callable[[Any], Any]
E = TypeVar("E", bound=Element)

MAX_DEPTH = 32
"""How deep types may be nested in each other."""

JSON2: dict[str, Any] = {
    "id": "json2", "encoding": "utf-8", "allow_nan": True, "check_circular": True, "ensure_ascii": True, "indent": None,
    "separators": [",", ":"], "skipkeys": False, "sort_keys": True, "strict": True,
}  # fmt: skip
"""The filter of format 2 for elements that are JSON."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a node, or a document of format 3, says about elements that are objects, as JSON; nodes share it.

    Attributes
    ----------
    word : str, list or None
        ``zarr_dtype``; in a document of format 3, ``_DTYPE``.
    codec : dict
        The first filter, which makes bytes of objects.
    note : dict
        Entries of the note.
    """

    word: Any
    codec: dict[str, Any] = field(default_factory=dict)
    note: dict[str, Any] = field(default_factory=dict)


class Kind(ABC, Generic[E]):
    """The encodings of some classes of elements. Both directions of a translation are one below the other."""

    elements: tuple[type[Any], ...]
    """Its classes of elements."""
    keys: tuple[str, ...] = ()
    """The keys by which JSON of a type of HDF5, as a note has it, is one of this kind."""
    hdf5_classes: tuple[str, ...] = ()
    """The names that h5py has for the classes of its types in HDF5."""

    @abstractmethod
    def to_hdmf(self, element: E) -> Any:
        """Return HDMF's name of the type."""

    @abstractmethod
    def label(self, element: E) -> str:
        """Return what the type is called in listings."""

    def fits(self, noted: E, stored: E) -> bool:
        """Tell whether elements that are stored in Zarr can be of the type in a note; if not, they were replaced."""
        return True

    # ---- Zarr -------------------------------------------------------------------------------------------------------

    def from_zarr2(self, stored: Stored) -> E | None:
        """Return the element of objects in a node, None if they are of another kind."""
        return None

    def to_zarr2(self, element: E, *, scalar: bool) -> Stored:
        """Return what the node of a new array of format 2 says."""
        raise NotImplementedError

    def from_zarr3(self, stored: Stored) -> Stored | None:
        """Return what the node says of text in a document of format 3, None if it is of another kind."""
        return None

    def to_zarr3(self, stored: Stored) -> Stored:
        """Return what a document of format 3 says for a node of format 2, and the codec that its node has."""
        return stored

    # ---- HDF5: JSON in notes, types, and values ---------------------------------------------------------------------

    @abstractmethod
    def from_note(self, note: Any, depth: int) -> Element:
        """Return the element for the JSON of a type of HDF5."""

    @abstractmethod
    def to_note(self, element: E) -> Any:
        """Return the JSON of the type of HDF5, from which it is created again."""

    @abstractmethod
    def from_hdf5(self, tid: Any) -> Element:
        """Return the element for an ``h5py.h5t.TypeID``."""

    @abstractmethod
    def to_hdf5(self, element: E) -> Any:
        """Return the ``h5py.h5t.TypeID``."""

    def in_numpy(self, element: E) -> Element | None:
        """Return the element that NumPy has for the same bytes as HDF5, None if it has none."""
        return element

    def encoder(self, element: E, refer: Convert) -> Convert:
        """Return a function that makes JSON of a value as h5py reads it."""
        raise NotImplementedError

    def decoder(self, element: E, dtype: np.dtype[Any], refer: Convert) -> Convert:
        """Return the inverse of `encoder`; ``dtype`` is that of the array for the values."""
        raise NotImplementedError

    def plain(self, values: Array, element: E, resolve: Convert) -> Array:
        """Return values as h5py or Zarr return them in the form of `model.content`."""
        return values


@cache
def _kinds() -> tuple[Kind[Any], ...]:
    from hdmf_zarr_backend.encoding import numbers, opaque, references, rows, text  # on use: they import this module

    return (numbers.Numbers(), text.Texts(), references.References(), opaque.OpaqueBytes(), rows.Rows())


@cache
def _by_element() -> dict[type[Any], Kind[Any]]:
    return {element: kind for kind in _kinds() for element in kind.elements}


def kind_of(element: Element) -> Kind[Any]:
    """Return the kind of an element."""
    return _by_element()[type(element)]


def to_hdmf(element: Element) -> Any:
    """Return HDMF's name of a type: the NumPy name of a number, "utf", "ascii", "object", or a list of fields."""
    return kind_of(element).to_hdmf(element)


def label(element: Element) -> str:
    """Return what a type is called in listings."""
    return element.text if isinstance(element, Unknown) else kind_of(element).label(element)


def fits(noted: Element, stored: Element) -> bool:
    """Tell whether stored elements fit a recorded type; if not, they were replaced since the conversion."""
    if isinstance(noted, ArrayOf):
        noted = noted.base
    kind = kind_of(noted)
    return kind is kind_of(stored) and kind.fits(noted, stored)


# ---- Zarr -----------------------------------------------------------------------------------------------------------


def from_zarr2(stored: Stored) -> Element | None:
    """Return the element of objects in a node, None if no kind knows them."""
    return next((found for kind in _kinds() if (found := kind.from_zarr2(stored)) is not None), None)


def from_zarr3(stored: Stored) -> Stored | None:
    """Return what the node says of text in a document of format 3, None if it is only text."""
    return next((found for kind in _kinds() if (found := kind.from_zarr3(stored)) is not None), None)


def to_zarr3(stored: Stored) -> Stored:
    """Return what a document of format 3 says of objects in a node of format 2."""
    element = from_zarr2(stored)
    return stored if element is None else kind_of(element).to_zarr3(stored)


# ---- types of HDF5 --------------------------------------------------------------------------------------------------


def to_note(element: Element) -> Any:
    """Return the JSON of the HDF5 type of elements."""
    return kind_of(element).to_note(element)


def read_note(note: Any, depth: int) -> Element:
    """Return the result of `from_note` for a type inside another one; its errors are those of damaged JSON."""
    if depth > MAX_DEPTH or not isinstance(note, (str, dict)):
        raise ValueError("it is nested too deep, or neither a name nor an object")
    for kind in _kinds():
        if any(key in note if isinstance(note, dict) else key == note for key in kind.keys):
            return kind.from_note(note, depth + 1)
    if isinstance(note, dict):
        raise KeyError("it has none of the keys of a type")
    return _kinds()[0].from_note(note, depth + 1)


def _from_note(note: Any) -> Element:
    try:
        return read_note(note, 0)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise MetadataError(f"{note!r} is not an HDF5 type ({error})") from error


from_note: Memo[Element] = Memo(_from_note)
"""Returns the `Element` for the JSON of an HDF5 type.

Raises
------
MetadataError
    The JSON does not describe a type.
"""


def note_size(value: Any) -> int:
    """Return a size in the JSON of a type, or raise a ValueError."""
    if type(value) is not int or not 0 < value < 2**31:
        raise ValueError(f"{value!r} is not a size")
    return value


@cache
def _by_hdf5_class() -> dict[int, Kind[Any]]:
    from h5py import h5t

    return {getattr(h5t, name, -1): kind for kind in _kinds() for name in kind.hdf5_classes}


def from_hdf5(tid: Any) -> Element:
    """Return the `Element` of an ``h5py.h5t.TypeID``. An array of arrays is one array with more axes, as in NumPy."""
    try:
        _ = tid.dtype
        return _by_hdf5_class()[tid.get_class()].from_hdf5(tid)
    except (TypeError, KeyError) as error:
        problem = f"the HDF5 type of class {tid.get_class()} and {tid.get_size()} bytes has no counterpart in NumPy"
        raise ValueRefusedError(problem, remedy="Store the values in a standard type.") from error


def to_hdf5(element: Element) -> Any:
    """Return the ``h5py.h5t.TypeID`` of elements."""
    try:
        return kind_of(element).to_hdf5(element)
    except (ValueRefusedError, MetadataError):
        raise
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError, RuntimeError) as error:
        raise MetadataError(f"{to_note(element)!r} is not an HDF5 type ({error})") from error


def in_numpy(element: Element) -> Element | None:
    """Return the element that NumPy has for the same bytes as HDF5, None if it has none.

    It has none of padded compounds, of numbers with a custom precision or layout, and of text of variable length.
    """
    return kind_of(element).in_numpy(element)


# ---- values of HDF5 as JSON -----------------------------------------------------------------------------------------
# For values that Zarr stores as JSON or cannot store: rows with text or references, attributes of types that HDMF
# lacks, fill values.


def encoder(element: Element, refer: Convert) -> Convert:
    """Return a function that converts one value, as h5py reads it, to JSON; ``refer`` converts a reference."""
    return kind_of(element).encoder(element, refer)


def encode_array(values: Array, element: Element, refer: Convert) -> Any:
    """Return the JSON of an array of values: nested lists, or one value for a 0-d array.

    The axes of an array type count as part of its values.
    """
    convert = encoder(element, refer)
    own = values.ndim - (len(element.shape) if isinstance(element, ArrayOf) else 0)

    def encode(part: Any, depth: int) -> Any:
        return [encode(item, depth - 1) for item in part] if depth else convert(part)

    return encode(values if values.ndim else values[()], own)


_DECODE_ERRORS = (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError)


def decode_array(value: Any, shape: tuple[int, ...], element: Element, dtype: np.dtype[Any], refer: Convert) -> Array:
    """Return the array for nested lists; the inverse of `encode_array`."""
    try:
        flat = [value] if not len(shape) else list(value)
        for _ in range(len(shape) - 1):
            flat = [item for row in flat for item in row]
        convert = kind_of(element).decoder(element, dtype, refer)
        return array_of(list(map(convert, flat)), tuple(shape), dtype)
    except _DECODE_ERRORS as error:
        raise MetadataError(f"a value does not fit the HDF5 type {element} ({error})") from error


def array_of(values: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of ``shape`` whose elements are ``values``, which may be sequences themselves."""
    import numpy as np

    base, inner = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    made: Array = np.empty((len(values), *inner), base)
    for position, item in enumerate(values):
        made[position] = item
    return made.reshape((*shape, *inner))


def plain_values(values: Array, element: Element, resolve: Convert) -> Array:
    """Convert values as h5py or Zarr return them to the form described in `model.content`."""
    return values if isinstance(element, Unknown) else kind_of(element).plain(values, element, resolve)


def each(values: Array, convert: Convert) -> Array:
    """Return an array of objects, each made of one of the values."""
    import numpy as np

    return np.fromiter(map(convert, values.flat), object, values.size).reshape(values.shape)
