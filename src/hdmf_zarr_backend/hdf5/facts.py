"""What a file says, node by node, for comparing: the vocabulary, and how it is read from HDF5.

The first half is independent of HDF5: ``ElementType`` and the ``...Facts`` classes are what every kind of file is
described with, and ``FileFacts`` is what ``hdmf_zarr_backend.compare`` asks of a reader. The second half reads them
from HDF5 through h5py's low-level interface, which alone tells ascii from UTF-8, variable from fixed length, an enum
from a bool and a chosen fill value from the default one.

Values are plain numpy arrays in which text is ``str`` (bytes that are not UTF-8 kept as surrogate escapes), opaque
elements are ``bytes``, variable-length sequences are arrays, and references are `Reference`, already resolved.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "AttributeFacts",
    "DatasetFacts",
    "DatatypeFacts",
    "ElementType",
    "FileFacts",
    "FilterFacts",
    "GroupFacts",
    "Hdf5Facts",
    "LinkFacts",
    "NodeFacts",
    "Reference",
    "Region",
    "is_hdf5",
]

Values: TypeAlias = npt.NDArray[Any]
Selection: TypeAlias = tuple[slice, ...]
Region: TypeAlias = tuple[tuple[str, tuple[Any, ...]], ...]
"""A selection in one spelling: an entry per axis, ``("slice", (start, stop, step))`` or ``("index", (...))``, or one
entry for the whole: ``("points", ((...), ...))`` in the order of the file, or ``("none", ())``."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An object or region reference, resolved.

    Parameters
    ----------
    path : str or None
        Absolute path of the target; None for a null reference, ``"<dangling>"`` where nothing is found,
        ``"<unlinked>"`` where an object is found that no path leads to.
    region : tuple, optional
        The selection, see `Region`; None for an object reference.
    source : str
        The file of the target; empty for the same file.
    """

    path: str | None
    region: Region | None = None
    source: str = ""

    def __str__(self) -> str:
        region = "" if self.region is None else f" {dict(enumerate(self.region))}"
        return f"reference to {self.source + ':' if self.source else ''}{self.path}{region}"


@dataclass(frozen=True, slots=True)
class ElementType:
    """Type of one element, as it is stored.

    Parameters
    ----------
    kind : str
        ``int``, ``uint``, ``float``, ``complex``, ``bool``, ``enum``, ``bitfield``, ``text``, ``opaque``, ``datetime``,
        ``reference``, ``region``, ``compound``, ``array`` (fixed shape) or ``sequence`` (variable length).
    size : int or None
        Bytes of one element; None where it varies, and for compounds, whose padding is not compared.
    byte_order : {'<', '>', '|'}
        ``|`` where there is none.
    encoding : str
        ``utf-8`` or ``ascii``, for text.
    detail : str
        Whatever else tells two types apart: padding of fixed text, unit, tag, a non-standard float.
    members : tuple of (str, int)
        Names and values, for enums.
    fields : tuple of (str, ElementType)
        In stored order, for compounds.
    base : ElementType or None
        Element of an array or sequence.
    shape : tuple of int
        Of an array.
    """

    kind: str
    size: int | None = None
    byte_order: Literal["<", ">", "|"] = "|"
    encoding: str = ""
    detail: str = ""
    members: tuple[tuple[str, int], ...] = ()
    fields: tuple[tuple[str, ElementType], ...] = ()
    base: ElementType | None = None
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        if self.kind == "compound":
            return "{" + ", ".join(f"{name}: {member}" for name, member in self.fields) + "}"
        if self.kind == "text":
            length = "variable-length" if self.size is None else f"{self.size}-byte"
            return f"{length} {self.encoding} text{detail}"
        if self.base is not None:
            return f"{self.kind}{list(self.shape) if self.shape else ''} of {self.base}"
        bits = "" if self.size is None else str(8 * self.size)
        order = {"<": " little-endian", ">": " big-endian", "|": ""}[self.byte_order]
        members = " {" + ", ".join(f"{name}={value}" for name, value in self.members) + "}" if self.members else ""
        return f"{self.kind}{bits}{order}{members}{detail}"


@dataclass(frozen=True, slots=True)
class AttributeFacts:
    """One attribute: its type, shape (None for an empty dataspace) and value (None likewise)."""

    dtype: ElementType
    shape: tuple[int, ...] | None
    value: Values | None = field(compare=False)

    def __str__(self) -> str:
        return f"{None if self.value is None else self.value.tolist()!r} ({self.dtype}, shape {self.shape})"


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """One step of a filter pipeline: a name (``hdf5-<number>`` if it has none here) and its options.

    A shuffle of bytes over whole elements has no options.
    """

    name: str
    options: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}{self.options}"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group; its members are nodes of their own."""

    kind: ClassVar[str] = "group"
    attributes: Mapping[str, AttributeFacts]


@dataclass(frozen=True, slots=True)
class DatatypeFacts:
    """A data type that is a member of a group (in HDF5: a committed or named type)."""

    kind: ClassVar[str] = "datatype"
    attributes: Mapping[str, AttributeFacts]
    dtype: ElementType


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A member that leads elsewhere.

    Parameters
    ----------
    form : str
        ``soft``, ``external``, ``hard`` (a further name of an object; `target` is the first) or ``user-defined``.
    target : str
        Absolute path in this file or in the other one.
    file : str
        The other file as it is written in the link; empty within the file.
    location : str
        The other file as an absolute path, taken from the folder of this file; empty within the file.
    """

    kind: ClassVar[str] = "link"
    form: str
    target: str
    file: str = ""
    location: str = ""

    def __str__(self) -> str:
        return f"{self.form} link to {self.file + ':' if self.file else ''}{self.target}"


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A dataset without its values, and the way to read them.

    Parameters
    ----------
    attributes : mapping of str to AttributeFacts
    dtype : ElementType
    shape : tuple of int or None
        None for an empty dataspace.
    maxshape : tuple of (int or None) or None
        None in it for an axis without a limit.
    chunks : tuple of int or None
    layout : tuple of str
        How it is stored where it is not in chunks, with the files that hold it.
    filters : tuple of FilterFacts
        In the order in which they were applied.
    fill : numpy.ndarray or None
        One element in the form of the values; None where none is defined, or one is chosen that cannot be read.
    read : callable
        ``read(selection)``, a slice per axis, gives these values.
    """

    kind: ClassVar[str] = "dataset"
    attributes: Mapping[str, AttributeFacts]
    dtype: ElementType
    shape: tuple[int, ...] | None
    maxshape: tuple[int | None, ...] | None
    chunks: tuple[int, ...] | None
    layout: tuple[str, ...]
    filters: tuple[FilterFacts, ...]
    fill: Values | None
    read: Callable[[Selection], Values]


NodeFacts: TypeAlias = GroupFacts | DatasetFacts | DatatypeFacts | LinkFacts


class FileFacts(Protocol):
    """A file as a mapping of absolute paths to facts, ``/`` included; facts are read when they are asked for."""

    source: str

    def __getitem__(self, path: str, /) -> NodeFacts: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Release the file; facts taken before stay valid, but their values cannot be read any more."""
        ...


# ---------------------------------------------------------------------------------------------- HDF5

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# HDF5 assigns these numbers: 1-6 are its own, the others are registered with The HDF Group
_FILTER_NAMES = {
    1: "deflate",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    307: "bzip2",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}
# IEEE 754: (sign, exponent and mantissa positions and sizes as HDF5 gives them), exponent bias
_IEEE_FLOATS = {2: ((15, 10, 5, 0, 10), 15), 4: ((31, 23, 8, 0, 23), 127), 8: ((63, 52, 11, 0, 52), 1023)}


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file carries the HDF5 signature, at 0 or after a user block of 512, 1024, 2048 ... bytes."""
    if not os.path.isfile(path):  # noqa: PTH113 (PathLike is wider than Path)
        return False
    with open(path, "rb") as stream:  # noqa: PTH123
        end = stream.seek(0, os.SEEK_END)
        offset = 0
        while offset < end:
            stream.seek(offset)
            if stream.read(len(_SIGNATURE)) == _SIGNATURE:
                return True
            offset = 2 * offset or 512
    return False


class Hdf5Facts(Mapping[str, NodeFacts]):
    """`FileFacts` of an HDF5 file, which is opened for reading until `close`.

    Objects are found by walking depth first in the order of names. An object with several hard links is a node at the
    first path and a link of form ``hard`` at the others, so that cycles end. Links are not followed.

    Parameters
    ----------
    path : str or PathLike
        A local file.

    Raises
    ------
    OSError, RuntimeError
        From h5py, where the file cannot be opened; with a note naming file and node where one cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import h5py

        self.source = os.fspath(path)
        self._file = h5py.File(self.source, "r")
        self._addresses: dict[int, str] = {}
        self._nodes: dict[str, LinkFacts | None] = dict(self._walk())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, path: str) -> NodeFacts:
        link = self._nodes[path]
        if link is not None:
            return link
        from h5py import h5d, h5o, h5t

        with self._naming(path):
            node = h5o.open(self._file.id, path.encode("utf-8", "surrogateescape"))
            attributes = self._attributes(node)
            if isinstance(node, h5d.DatasetID):
                return self._dataset(path, node, attributes)
            if isinstance(node, h5t.TypeID):
                return DatatypeFacts(attributes, _element_type(node))
            return GroupFacts(attributes)

    @contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:  # what HDF5's errors become
            error.add_note(
                f"while reading {path!r} of {self.source!r}: if a filter is missing, install hdf5plugin and import it; "
                f"else the file is damaged there (h5dump or h5check tell more)"
            )
            raise

    def _walk(self) -> Iterator[tuple[str, LinkFacts | None]]:
        from h5py import h5g, h5l, h5o

        root = h5g.open(self._file.id, b"/")
        pending = [b"/"]
        while pending:
            raw = pending.pop()
            path = raw.decode("utf-8", "surrogateescape")
            if raw != b"/" and root.links.get_info(raw).type != h5l.TYPE_HARD:
                yield path, self._link(root, raw)
                continue
            info = h5o.get_info(root, raw)
            first = self._addresses.setdefault(info.addr, path)
            if first != path:
                yield path, LinkFacts("hard", first)
                continue
            yield path, None
            if info.type == h5o.TYPE_GROUP:
                prefix = raw.rstrip(b"/") + b"/"
                pending += [prefix + name for name in sorted(h5g.open(root, raw), reverse=True)]

    def _link(self, root: Any, raw: bytes) -> LinkFacts:
        from h5py import h5l

        form = root.links.get_info(raw).type
        if form not in (h5l.TYPE_SOFT, h5l.TYPE_EXTERNAL):
            return LinkFacts("user-defined", f"link class {form}")
        value = root.links.get_val(raw)
        if form == h5l.TYPE_SOFT:
            # a relative target starts at the group of the link; HDF5 knows "." but not ".."
            parts = posixpath.join(posixpath.dirname(raw), value).split(b"/")
            return LinkFacts("soft", "/" + _text(b"/".join(part for part in parts if part not in {b"", b"."})))
        file = os.fsdecode(value[0])
        location = os.path.abspath(os.path.join(os.path.dirname(self.source), file))  # noqa: PTH100, PTH118, PTH120
        return LinkFacts("external", "/" + _text(value[1]).strip("/"), file, location)

    def _attributes(self, node: Any) -> dict[str, AttributeFacts]:
        from h5py import h5a, h5s

        found = {}
        for index in range(h5a.get_num_attrs(node)):
            attribute = h5a.open(node, index=index)
            tid = attribute.get_type()
            dtype = _element_type(tid)
            name = _text(attribute.name)
            if attribute.get_space().get_simple_extent_type() == h5s.NULL:
                found[name] = AttributeFacts(dtype, None, None)
                continue
            values, memory = _buffer(tid, attribute.shape)
            if values.size:
                attribute.read(values, mtype=memory)
            found[name] = AttributeFacts(dtype, attribute.shape, _plain(values, dtype, self._resolve))
        return found

    def _dataset(self, path: str, node: Any, attributes: Mapping[str, AttributeFacts]) -> DatasetFacts:
        from h5py import h5d, h5s

        tid, space, creation = node.get_type(), node.get_space(), node.get_create_plist()
        dtype = _element_type(tid)
        empty = space.get_simple_extent_type() == h5s.NULL
        chunked = creation.get_layout() == h5d.CHUNKED
        limits = () if empty else space.get_simple_extent_dims(1)

        def read(selection: Selection) -> Values:
            with self._naming(path):
                return _plain(_read(node, tid, selection), dtype, self._resolve)

        return DatasetFacts(
            attributes=attributes,
            dtype=dtype,
            shape=None if empty else node.shape,
            maxshape=None if empty else tuple(None if n == h5s.UNLIMITED else n for n in limits),
            chunks=creation.get_chunk() if chunked else None,
            layout=_layout(creation),
            filters=tuple(_filter(creation, index, tid.get_size()) for index in range(creation.get_nfilters())),
            fill=self._fill(creation, tid, dtype),
            read=read,
        )

    def _fill(self, creation: Any, tid: Any, dtype: ElementType) -> Values | None:
        from h5py import h5d

        defined = creation.fill_value_defined()
        if defined == h5d.FILL_VALUE_UNDEFINED:
            return None
        if defined == h5d.FILL_VALUE_USER_DEFINED and dtype.kind in {"array", "sequence"}:
            return None  # h5py has no way to read these
        # h5py takes a text fill value into element 0 of a 1-d array, any other into a 0-d array
        values, _ = _buffer(tid, (1,) if dtype.kind == "text" else ())
        if defined == h5d.FILL_VALUE_USER_DEFINED:
            creation.get_fill_value(values)
        plain = _plain(values, dtype, self._resolve)
        return plain[0:1].reshape(()) if dtype.kind == "text" else plain

    def _resolve(self, reference: Any) -> Reference:
        import h5py
        from h5py import h5o, h5r

        if not reference:
            return Reference(None)
        try:
            target = h5r.dereference(reference, self._file.id)
            path = self._addresses.get(h5o.get_info(target).addr, "<unlinked>")
            if not isinstance(reference, h5py.RegionReference):
                return Reference(path)
            return Reference(path, _region(h5r.get_region(reference, self._file.id)))
        except (ValueError, RuntimeError, OSError, KeyError):  # what HDF5's errors become, depending on the damage
            return Reference("<dangling>")


def _text(item: Any) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "surrogateescape")
    return item if isinstance(item, str) else ""  # an element never written is 0 or None


def _buffer(tid: Any, shape: tuple[int, ...]) -> tuple[Values, Any]:
    """Return zeros to read into, and the memory type; a type that numpy has no word for is read as raw bytes."""
    from h5py import h5t

    if (dtype := _numpy_type(tid)) is None:
        return np.zeros(shape, dtype=f"V{tid.get_size()}"), tid
    return np.zeros(shape, dtype=dtype), h5t.py_create(dtype)


def _numpy_type(tid: Any) -> np.dtype[Any] | None:
    try:
        dtype: np.dtype[Any] = tid.dtype
    except (TypeError, ValueError):
        return None
    return dtype


def _read(node: Any, tid: Any, selection: Selection) -> Values:
    from h5py import h5s

    shape = tuple(part.stop - part.start for part in selection)
    values, memory = _buffer(tid, shape)
    if math.prod(shape) == 0:
        return values
    space = node.get_space()
    if not shape:
        node.read(h5s.ALL, h5s.ALL, values, memory)
        return values
    space.select_hyperslab(tuple(part.start for part in selection), shape)
    node.read(h5s.create_simple(shape), space, values, memory)
    return values


def _layout(creation: Any) -> tuple[str, ...]:
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


def _filter(creation: Any, index: int, size: int) -> FilterFacts:
    code, _, options, _ = creation.get_filter(index)
    if _FILTER_NAMES.get(code) == "shuffle" and options == (size,):
        options = ()  # the size of the element, which the type tells
    return FilterFacts(_FILTER_NAMES.get(code, f"hdf5-{code}"), tuple(options))


def _element_type(tid: Any) -> ElementType:
    from h5py import h5t

    dtype = _numpy_type(tid)
    if dtype is None:
        return ElementType("opaque", tid.get_size(), detail=f"HDF5 type class {tid.get_class()}")
    if dtype.kind == "c" and dtype.subdtype is None:
        native = "" if tid.get_class() == h5t.COMPOUND else "native"
        return ElementType("complex", tid.get_size(), _order(dtype), detail=native)
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


def _number_type(tid: Any, _: np.dtype[Any]) -> ElementType:
    from h5py import h5t

    size, detail = tid.get_size(), ""
    # the order is HDF5's own: numpy's may be that of a wider type
    order: Literal["<", ">", "|"] = "|" if size == 1 else ">" if tid.get_order() == h5t.ORDER_BE else "<"
    layout = tid.get_precision(), tid.get_offset()
    if layout != (8 * size, 0):
        detail = f"{layout[0]} bits from bit {layout[1]}"
    if tid.get_class() == h5t.INTEGER:
        return ElementType("uint" if tid.get_sign() == h5t.SGN_NONE else "int", size, order, detail=detail)
    parts = tuple(tid.get_fields()), tid.get_ebias()
    if _IEEE_FLOATS.get(size) != parts:
        detail = f"sign, exponent and mantissa {parts[0]}, bias {parts[1]}"
    return ElementType("float", size, order, detail=detail)


def _bitfield_type(tid: Any, dtype: np.dtype[Any]) -> ElementType:
    return ElementType("bitfield", tid.get_size(), _order(dtype))


def _text_type(tid: Any, _: np.dtype[Any]) -> ElementType:
    from h5py import h5t

    encoding = "utf-8" if tid.get_cset() == h5t.CSET_UTF8 else "ascii"
    if tid.is_variable_str():
        return ElementType("text", encoding=encoding)
    padding = {h5t.STR_NULLTERM: "null-terminated", h5t.STR_NULLPAD: "null-padded", h5t.STR_SPACEPAD: "space-padded"}
    return ElementType("text", tid.get_size(), encoding=encoding, detail=padding[tid.get_strpad()])


def _opaque_type(tid: Any, dtype: np.dtype[Any]) -> ElementType:
    if dtype.kind in "mM":
        return ElementType("datetime", tid.get_size(), _order(dtype), detail=dtype.name)
    return ElementType("opaque", tid.get_size(), detail=_text(tid.get_tag()))


def _enum_type(tid: Any, dtype: np.dtype[Any]) -> ElementType:
    base = _element_type(tid.get_super())
    if dtype.kind == "b":
        return ElementType("bool", base.size, base.byte_order)
    members = tuple((_text(tid.get_member_name(i)), tid.get_member_value(i)) for i in range(tid.get_nmembers()))
    return ElementType("enum", base.size, base.byte_order, detail=base.kind, members=members)


def _nested_type(tid: Any, _: np.dtype[Any]) -> ElementType:
    import h5py
    from h5py import h5t

    form = tid.get_class()
    if form == h5t.COMPOUND:
        members = range(tid.get_nmembers())
        fields = tuple((_text(tid.get_member_name(i)), _element_type(tid.get_member_type(i))) for i in members)
        return ElementType("compound", fields=fields)
    if form == h5t.REFERENCE:
        return ElementType("region" if h5py.check_ref_dtype(tid.dtype) is h5py.RegionReference else "reference")
    base = _element_type(tid.get_super())
    if form == h5t.ARRAY:
        return ElementType("array", base=base, shape=tuple(tid.get_array_dims()))
    return ElementType("sequence", base=base)


def _plain(values: Values, dtype: ElementType, resolve: Callable[[Any], Reference]) -> Values:
    """Return values as h5py gives them in the form that this module's docstring describes."""
    if dtype.kind == "text":
        return _objects(values, _text)
    if dtype.kind in {"reference", "region"}:
        return _objects(values, resolve)
    if dtype.kind == "opaque":
        return _objects(values, np.void.tobytes)
    if dtype.base is not None and dtype.kind == "array":
        return _plain(values, dtype.base, resolve)
    if dtype.base is not None:
        base = dtype.base
        return _objects(values, lambda item: _plain(_sequence(item), base, resolve))
    if dtype.kind == "compound":
        columns = {name: _plain(values[name], member, resolve) for name, member in dtype.fields}
        rows = np.empty(values.shape, [(name, c.dtype, c.shape[values.ndim :]) for name, c in columns.items()])
        for name, column in columns.items():
            rows[name] = column
        return rows
    return values


def _sequence(item: Any) -> Values:
    return item if isinstance(item, np.ndarray) else np.empty(0)  # never written


def _objects(values: Values, convert: Callable[[Any], object]) -> Values:
    made = np.empty(values.size, dtype=object)
    for index, item in enumerate(values.flat):
        made[index] = convert(item)
    return made.reshape(values.shape)


def _region(space: Any) -> Region:
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
        return tuple(_spaced(axis) or ("index", tuple(axis)) for axis in axes)
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


def _spaced(indices: list[int]) -> tuple[str, tuple[Any, ...]] | None:
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    stop = indices[-1] + 1
    return ("slice", (indices[0], stop, step)) if indices == list(range(indices[0], stop, step)) else None
