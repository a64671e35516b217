"""HDF5 data types: what cannot be stored, the memory types of their values, and the kinds and layouts of elements.

`encoding` has the elements for types, and types for elements.

Source: HDF5 reference manual, "Datatypes"; `h5py.h5t` for the types that NumPy has.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from h5py import h5t

from hdmf_zarr_backend.encoding.data_types import LIBRARY_NUMBERS, installed_number, library_type
from hdmf_zarr_backend.encoding.dtypes import Kind, element_of, has_library_number
from hdmf_zarr_backend.encoding.hdf5_types import from_hdf5, in_numpy, to_hdf5
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.model.element import ArrayOf, Compound, Element, Number, Reference, Sequence, Text

Array: TypeAlias = npt.NDArray[Any]


def storable_type(tid: Any) -> Element:
    """Return the `Element` of an ``h5py.h5t.TypeID`` whose values can be stored."""
    element = from_hdf5(tid)
    arrays = (part for part in _parts(tid) if part.get_class() == h5t.ARRAY)
    if isinstance(element, (ArrayOf, Compound, Sequence)) and any(
        part.get_super().get_class() == h5t.ARRAY for part in arrays
    ):
        problem = "elements that are arrays of arrays cannot be stored"
        raise ValueRefusedError(problem, remedy="Store the values in an array type with more axes.")
    return element


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


def is_sparse(tid: Any) -> bool:
    """Tell whether a type has numbers that use less than half of their bits."""
    # HDF5 2.0 treats such a type as damage in a file without checksums, which the oldest version of the format is.
    numbers = (part for part in _parts(tid) if part.get_class() in (h5t.INTEGER, h5t.FLOAT))
    return any(part.get_size() > 1 and 2 * part.get_precision() < 8 * part.get_size() for part in numbers)


# ---- memory types ---------------------------------------------------------------------------------------------------


def numpy_type(tid: Any) -> np.dtype[Any]:
    """Return the NumPy type for values of ``tid``: h5py's, with the numbers that other libraries add to NumPy."""
    # h5py's fields overlap if one is larger in NumPy than in HDF5, as those of small floats are; then they are packed
    # here.
    try:
        dtype: np.dtype[Any] = tid.dtype
    except (TypeError, ValueError):  # they overlap with objects, or the last one is too large for the compound
        return _packed_type(tid, from_hdf5(tid))
    return _packed_type(tid, from_hdf5(tid)) if LIBRARY_NUMBERS or _overlaps(dtype) else dtype


def _overlaps(dtype: np.dtype[Any]) -> bool:
    """Tell whether a field begins before the end of the one before it."""
    end = 0
    for member, offset, *_ in sorted((dtype.base.fields or {}).values(), key=itemgetter(1)):
        if offset < end or _overlaps(member):
            return True
        end = offset + member.itemsize
    return False


def _packed_type(tid: Any, element: Element) -> np.dtype[Any]:
    """Return the result of `numpy_type` for a type and its `Element`."""
    match element:
        case Number() if (number := installed_number(element)) is not None:
            return number.dtype()
        case ArrayOf(base, shape):
            while tid.get_class() == h5t.ARRAY:
                tid = tid.get_super()
            return np.dtype((_packed_type(tid, base), shape))
        case Compound(fields):
            types = map(tid.get_member_type, range(tid.get_nmembers()))
            members = [
                (part, name, _packed_type(part, member)) for part, (name, member) in zip(types, fields, strict=True)
            ]
            if any(has_library_number(dtype) or dtype.itemsize > part.get_size() for part, _, dtype in members):
                return np.dtype([(name, dtype) for _, name, dtype in members])
    return tid.dtype  # type: ignore[no-any-return]


def axes_of(tid: Any) -> tuple[int, ...]:
    """Return the axes of an element that is an array, none for other elements."""
    return (*tid.get_array_dims(), *axes_of(tid.get_super())) if tid.get_class() == h5t.ARRAY else ()


def memory_type(tid: Any, dtype: np.dtype[Any], *, writing: bool) -> Any:
    """Return the memory type for values of ``tid`` in a NumPy array of ``dtype``, which is that of `numpy_type`."""
    form = tid.get_class()
    if form == h5t.STRING and not tid.is_variable_str():
        return tid if writing and tid.get_strpad() == h5t.STR_NULLTERM else h5t.py_create(dtype)
    if form in (h5t.OPAQUE, h5t.BITFIELD) or (form == h5t.ENUM and dtype.kind != "b"):
        return tid
    if form == h5t.ARRAY:
        return h5t.array_create(memory_type(tid.get_super(), dtype.base, writing=writing), tid.get_array_dims())
    if (number := library_type(dtype)) is not None:
        return to_hdf5(number.element)
    if form != h5t.COMPOUND or dtype.fields is None:
        return h5t.py_create(dtype)
    memory = h5t.create(h5t.COMPOUND, dtype.itemsize)
    for index, (member, offset, *_) in enumerate(dtype.fields.values()):  # members are at their offsets in NumPy
        part = memory_type(tid.get_member_type(index), member, writing=writing)
        memory.insert(tid.get_member_name(index), offset, part)
    return memory


# ---- kind and layout ------------------------------------------------------------------------------------------------


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


def is_same_layout(element: Element, dtype: np.dtype[Any]) -> bool:
    """Tell whether raw elements of an HDF5 type are elements of ``dtype`` without conversion.

    Not the same: padded compounds, numbers with a custom layout, text with a terminator or padded with spaces.
    """
    return not dtype.hasobject and in_numpy(element) == element_of(dtype)
