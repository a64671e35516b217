"""HDF5's types, layouts, filters and selections, in the words of `model.facts`.

Through h5py's low-level interface, which alone tells ascii from UTF-8, variable from fixed length and an enum from a
bool.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.hdf5.types import memory_type
from hdmf_zarr_backend.model.elements import Element, Region
from hdmf_zarr_backend.model.facts import FilterFacts, Selection, Values, even_steps, hdf5_filter, text_of

# IEEE 754: (sign, exponent and mantissa positions and sizes as HDF5 gives them), exponent bias
_IEEE_FLOATS = {2: ((15, 10, 5, 0, 10), 15), 4: ((31, 23, 8, 0, 23), 127), 8: ((63, 52, 11, 0, 52), 1023)}


def buffer_for(tid: Any, shape: tuple[int, ...]) -> tuple[Values, Any]:
    """Return zeros to read into, and the memory type; a type that numpy has no word for is read as raw bytes."""
    if (dtype := _numpy_type(tid)) is None:
        return np.zeros(shape, dtype=f"V{tid.get_size()}"), tid
    return np.zeros(shape, dtype=dtype), memory_type(tid, writing=False)


def _numpy_type(tid: Any) -> np.dtype[Any] | None:
    try:
        dtype: np.dtype[Any] = tid.dtype
    except (TypeError, ValueError):
        return None
    return dtype


def read_block(node: Any, tid: Any, selection: Selection) -> Values:
    """Return the selected values as h5py gives them."""
    from h5py import h5s

    shape = tuple(part.stop - part.start for part in selection)
    values, memory = buffer_for(tid, shape)
    if math.prod(shape) == 0:
        return values
    space = node.get_space()
    if not shape:
        node.read(h5s.ALL, h5s.ALL, values, memory)
        return values
    space.select_hyperslab(tuple(part.start for part in selection), shape)
    node.read(h5s.create_simple(shape), space, values, memory)
    return values


def layout_of(creation: Any) -> tuple[str, ...]:
    """Return how a dataset is stored, with the files that hold it where these are others."""
    from h5py import h5d

    names = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked", h5d.VIRTUAL: "virtual"}
    layout = creation.get_layout()
    files: list[str] = []
    if layout == h5d.VIRTUAL:
        for index in range(creation.get_virtual_count()):
            files.append(f"{creation.get_virtual_filename(index)}:{creation.get_virtual_dsetname(index)}")
    elif layout == h5d.CONTIGUOUS:
        for index in range(creation.get_external_count()):
            files.append(":".join(map(str, creation.get_external(index))))
    return (names[layout], *files)


def filter_at(creation: Any, index: int, size: int) -> FilterFacts:
    """Return one step of the pipeline of a dataset with elements of `size` bytes."""
    code, _, options, _ = creation.get_filter(index)
    return hdf5_filter(code, tuple(options), size)


def element_type(tid: Any) -> Element:
    """Return what an HDF5 type is."""
    from h5py import h5t

    dtype = _numpy_type(tid)
    if dtype is None:
        return Element("opaque", tid.get_size(), detail=f"HDF5 type class {tid.get_class()}")
    if dtype.kind == "c" and dtype.subdtype is None:
        native = "" if tid.get_class() == h5t.COMPOUND else "native"
        return Element("complex", tid.get_size(), _order(dtype), detail=native)
    describe = {
        h5t.INTEGER: _number_type,
        h5t.FLOAT: _number_type,
        h5t.BITFIELD: _bitfield_type,
        h5t.STRING: _text_type,
        h5t.OPAQUE: _opaque_type,
        h5t.ENUM: _enum_type,
    }
    return describe.get(tid.get_class(), _nested_type)(tid, dtype)


def _order(dtype: np.dtype[Any]) -> Literal["<", ">", "|"]:
    order = dtype.str[0]
    return "<" if order == "<" else ">" if order == ">" else "|"


def _number_type(tid: Any, _: np.dtype[Any]) -> Element:
    from h5py import h5t

    size, detail = tid.get_size(), ""
    # the order is HDF5's own: numpy's may be that of a wider type
    order: Literal["<", ">", "|"] = "|" if size == 1 else ">" if tid.get_order() == h5t.ORDER_BE else "<"
    layout = tid.get_precision(), tid.get_offset()
    if layout != (8 * size, 0):
        detail = f"{layout[0]} bits from bit {layout[1]}"
    if tid.get_class() == h5t.INTEGER:
        return Element("uint" if tid.get_sign() == h5t.SGN_NONE else "int", size, order, detail=detail)
    parts = tuple(tid.get_fields()), tid.get_ebias()
    if _IEEE_FLOATS.get(size) != parts:
        detail = f"sign, exponent and mantissa {parts[0]}, bias {parts[1]}"
    return Element("float", size, order, detail=detail)


def _bitfield_type(tid: Any, dtype: np.dtype[Any]) -> Element:
    return Element("bitfield", tid.get_size(), _order(dtype))


def _text_type(tid: Any, _: np.dtype[Any]) -> Element:
    from h5py import h5t

    encoding = "utf-8" if tid.get_cset() == h5t.CSET_UTF8 else "ascii"
    padding = {h5t.STR_NULLTERM: "null-terminated", h5t.STR_NULLPAD: "null-padded", h5t.STR_SPACEPAD: "space-padded"}
    if tid.is_variable_str():
        return Element("text", encoding=encoding, detail=padding[tid.get_strpad()] if tid.get_strpad() else "")
    return Element("text", tid.get_size(), encoding=encoding, detail=padding[tid.get_strpad()])


def _opaque_type(tid: Any, dtype: np.dtype[Any]) -> Element:
    if dtype.kind in "mM":
        return Element("datetime", tid.get_size(), _order(dtype), detail=dtype.name)
    return Element("opaque", tid.get_size(), detail=text_of(tid.get_tag()))


def _enum_type(tid: Any, dtype: np.dtype[Any]) -> Element:
    base = element_type(tid.get_super())
    if dtype.kind == "b":
        return Element("bool", base.size, base.byte_order)
    members = tuple((text_of(tid.get_member_name(i)), tid.get_member_value(i)) for i in range(tid.get_nmembers()))
    return Element("enum", base.size, base.byte_order, detail=base.kind, members=members)


def _nested_type(tid: Any, _: np.dtype[Any]) -> Element:
    import h5py
    from h5py import h5t

    form = tid.get_class()
    if form == h5t.COMPOUND:
        members = range(tid.get_nmembers())
        fields = tuple((text_of(tid.get_member_name(i)), element_type(tid.get_member_type(i))) for i in members)
        return Element("compound", fields=fields)
    if form == h5t.REFERENCE:
        return Element("region" if h5py.check_ref_dtype(tid.dtype) is h5py.RegionReference else "reference")
    base = element_type(tid.get_super())
    if form == h5t.ARRAY and base.kind == "array":  # NumPy makes one array of them
        return Element("array", base=base.base, shape=(*tid.get_array_dims(), *base.shape))
    if form == h5t.ARRAY:
        return Element("array", base=base, shape=tuple(tid.get_array_dims()))
    return Element("sequence", base=base)


def region_of(space: Any) -> Region:
    """Return a selection in the one spelling of `Region`, however HDF5 holds it."""
    from h5py import h5s

    form = space.get_select_type()
    if form == h5s.SEL_NONE:
        return (("none", ()),)
    if form == h5s.SEL_ALL:
        return tuple(("slice", (0, n, 1)) for n in space.shape)
    if form == h5s.SEL_POINTS:
        return (("points", tuple(tuple(map(int, point)) for point in space.get_select_elem_pointlist())),)
    if space.is_regular_hyperslab():
        return tuple(_regular_axis(*axis) for axis in zip(*space.get_regular_hyperslab(), strict=True))
    blocks = np.asarray(space.get_select_hyper_blocklist(), dtype=np.int64)
    axes = [_covered(blocks[:, :, axis]) for axis in range(blocks.shape[2])]
    if math.prod(map(len, axes)) == space.get_select_npoints():
        return tuple(even_steps(axis) or ("index", tuple(axis)) for axis in axes)
    points = sorted(tuple((low + step).tolist()) for low, high in blocks for step in np.ndindex(*(high - low + 1)))
    return (("points", tuple(points)),)


def _regular_axis(start: int, stride: int, count: int, block: int) -> tuple[str, tuple[Any, ...]]:
    if count == 1 or stride == block:
        return ("slice", (int(start), int(start + count * block), 1))
    if block == 1:
        return ("slice", (int(start), int(start + (count - 1) * stride + 1), int(stride)))
    return ("index", tuple(int(start + i * stride + j) for i in range(count) for j in range(block)))


def _covered(bounds: npt.NDArray[np.int64]) -> list[int]:
    """Return the sorted indices that lie in any of the closed intervals, one in each row."""
    return sorted({index for low, high in {tuple(row) for row in bounds.tolist()} for index in range(low, high + 1)})
