"""`Hierarchy`, `Group` and `Dataset`: the model of a file; and `StoredArray`: how the values of a dataset are stored.

A hierarchy is a tree (`Group.members`), and also a mapping of paths to the same nodes. Paths in the model have no
leading slash, and the root is ``""``; `absolute` and `relative` convert. A `StoredArray` is all that the chunk engine
(`array`) needs.

Source: Zarr Object Model (ZEP 6); Zarr v2 specification; Zarr v3 specification.
"""

from __future__ import annotations

import gc
import marshal
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from hdmf_zarr_backend.errors import MetadataError, NestingError

# The layout inside a chunk: ``"C"``, ``"F"``, or the axes of the array in the order in which a chunk has them.
Order: TypeAlias = "str | tuple[int, ...]"
Shape: TypeAlias = tuple[int, ...]
Attributes: TypeAlias = dict[str, Any]
Node: TypeAlias = "Group | Dataset"
# The errors of nodes whose documents are damaged or have something unsupported, by path.
Damaged: TypeAlias = "dict[str, MetadataError]"
T = TypeVar("T")

DEFAULT_PREFIX = "c"  # first part of the keys with the encoding ``"default"``
MOST_AXES = 64  # maximum number of axes of a NumPy array
_MOST_ELEMENTS = 2**512


@dataclass(slots=True, frozen=True)
class Shards:
    """How chunks are combined in stored objects (Zarr v3, codec ``sharding_indexed``)."""

    shape: tuple[int, ...]  # shape of one stored object, a multiple of the chunk shape on each axis
    index_at_end: bool = True  # position of the index: after the chunks, or before them
    checksum: bool = True  # whether the index is followed by a CRC32C of it


@dataclass(slots=True, frozen=True)
class ChunkKeys:
    """How the key of a stored object is derived from its index: ``0.3`` by ``v2``, as in format 2, else ``c/0/3``."""

    encoding: Literal["v2", "default"] = "v2"
    separator: Literal[".", "/"] = "."

    def name(self, index: tuple[int, ...]) -> str:
        """Return the key of the object at ``index``, relative to its array; ``0`` or ``c`` if it has no axes."""
        if self.encoding == "default":
            return self.separator.join((DEFAULT_PREFIX, *map(str, index)))
        return self.separator.join(map(str, index)) if index else "0"

    def index(self, name: str, axes: int) -> tuple[int, ...] | None:
        """Return the index of the object with a relative key ``name`` and ``axes`` axes, None for other names."""
        parts = name.split(self.separator)
        if self.encoding == "default":
            del parts[0]
        elif not axes:
            return () if name == "0" else None
        # A key such as 007 or 1_0 would be another name of a chunk that exists.
        if len(parts) != axes or not all(map(is_small_number, parts)):
            return None
        index = tuple(map(int, parts))
        return index if self.name(index) == name else None


def is_small_number(text: str) -> bool:
    """Tell whether a text is a number with so few digits that `int` takes it: a version, or a part of a chunk key."""
    return text.isascii() and text.isdigit() and len(text) < 20


def indices_of(grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all indices of a grid in order, without ranges in memory: a damaged file may have a huge grid."""
    for number in range(math.prod(grid)):
        index, rest = [], number
        for length in reversed(grid):
            rest, i = divmod(rest, length)
            index.append(i)
        yield tuple(reversed(index))


def grid_of(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of chunks along each axis, those at the edge included."""
    return tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))


def lengths_of(region: tuple[slice, ...]) -> tuple[int, ...]:
    """Return the shape of a region."""
    return tuple(part.stop - part.start for part in region)


def chunk_region(index: tuple[int, ...], chunks: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of an array that its chunk at ``index`` holds."""
    return tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, chunks, shape, strict=True))


class Original(NamedTuple):
    """The format-3 document that an array was read from, which is written again if its properties have not changed."""

    document: dict[str, Any]
    stored: tuple[Any, ...]  # the fields of the array that determine how it is stored, as read (`encoding.zarr3`)
    attributes: dict[str, Any]  # the attributes of the dataset, as read


@dataclass(slots=True)
class StoredArray:
    """How the chunks of one array are stored, in format 2 or 3."""

    # Length of each axis. Rows with text or references have a last axis for their fields, a scalar has one element.
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    data_type: Any  # of a decoded chunk, as JSON of format 2: ``"<f4"``, ``"|O"`` or a list of fields
    fill_value: Any = None  # as JSON; None if undefined
    # Configurations of codecs of format 2, and ``references``, ``struct`` and ``byteorder`` of `encoding.codecs`. The
    # filters are applied in order before the compressor.
    compressor: dict[str, Any] | None = None
    filters: list[dict[str, Any]] | None = None
    order: Order = "C"
    zarr_format: int = 2
    chunk_keys: ChunkKeys = ChunkKeys()  # the encoding of the keys of its chunks, or shards
    stored_axes: int | None = None  # how many of the first axes the document and the keys of chunks have, if not all
    shards: Shards | None = None  # how chunks are combined in stored objects; None: each is a separate object
    extra: dict[str, Any] = field(default_factory=dict)  # keys of the document of other programs, which are kept
    original: Original | None = None  # the format-3 document that it was read from

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in the document of the array."""
        return self.shape if self.stored_axes is None else self.shape[: self.stored_axes]

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis."""
        return grid_of(self.shape, self.chunks)

    @property
    def first_filter(self) -> dict[str, Any]:
        """Configuration of the first filter, which encodes objects; empty without filters."""
        return self.filters[0] if self.filters else {}

    @property
    def codecs(self) -> list[dict[str, Any]]:
        """Configurations of the filters and the compressor, in the order in which they are applied."""
        return [*(self.filters or ()), *([self.compressor] if self.compressor else ())]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def chunk_name(self, index: tuple[int, ...]) -> str:
        """Return the key of the chunk, or shard, at ``index``, relative to the array."""
        return self.chunk_keys.name(index if self.stored_axes is None else index[: self.stored_axes])

    def chunk_text(self, index: tuple[int, ...], *, is_object: bool = False) -> str:
        """Return the key of the object with a chunk, and its region in the array; ``is_object``: of a whole shard."""
        outer = self.chunks if self.shards is None else self.shards.shape
        region = chunk_region(index, outer if is_object else self.chunks, self.shape)
        own = index if is_object else tuple(i * c // n for i, c, n in zip(index, self.chunks, outer, strict=True))
        return f"{self.chunk_name(own)} [{', '.join(f'{part.start}:{part.stop}' for part in region)}]"

    @property
    def first_chunk(self) -> str:
        """The key of the first chunk, or shard, relative to the array."""
        return self.chunk_name((0,) * len(self.shape))


def checked_grid(shape: Any, chunks: Any, key: str, path: str) -> tuple[Shape, Shape]:
    """Return shape and chunks in a document, which has these under ``key``, or raise a MetadataError."""
    lengths = _checked_lengths(shape, "shape", path, least=0)
    chunk = _checked_lengths(chunks, key, path, least=1)
    if len(lengths) == len(chunk) <= MOST_AXES:
        return lengths, chunk
    where = absolute(path)
    if len(lengths) > MOST_AXES:
        problem = f"an array of {len(lengths)} axes cannot be read: NumPy has at most {MOST_AXES}"
        raise MetadataError(problem, path=where, remedy="Write it with fewer axes.")
    raise MetadataError(f"shape {lengths} and chunks {chunk} differ in length", path=where)


def _checked_lengths(value: Any, key: str, path: str, *, least: int) -> tuple[int, ...]:
    """Return a list of lengths in a document, each ``least`` or more, as a tuple, or raise a MetadataError."""
    if isinstance(value, list):
        # A float can hold the product, since sizes are shown and divided. A loop takes half the time of all().
        product = 1
        for length in value:
            if type(length) is not int or length < least or (product := product * (length or 1)) > _MOST_ELEMENTS:
                break
        else:
            return tuple(value)
    raise MetadataError(f"{key} {value!r} is not a list of lengths", path=absolute(path))


@dataclass(slots=True)
class Dataset:
    """A dataset: how it is stored, which is what the chunk engine needs, and its attributes as JSON."""

    stored: StoredArray
    attributes: Attributes = field(default_factory=dict)
    keeps_attributes: bool = False  # the file has a document of them even if there are none, as of zarr-python 3

    @property
    def extra(self) -> dict[str, Any]:
        """Keys of the document of the array that the format does not define."""
        return self.stored.extra


@dataclass(slots=True)
class Group:
    """A group: attributes as JSON, and members by name."""

    attributes: Attributes = field(default_factory=dict)
    members: dict[str, Node] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)  # other keys of its document, which format 2 must not have
    keeps_attributes: bool = False  # as of a dataset


def relative(path: str) -> str:
    """Return ``path`` as in the model: without slashes at both ends, and none doubled."""
    if path.startswith("/") or path.endswith("/") or "//" in path:
        return "/".join(part for part in path.split("/") if part)
    return path


def absolute(path: str) -> str:
    """Return ``path`` as in HDMF, with a leading slash."""
    return "/" + relative(path)


def has_dots(path: str) -> bool:
    """Tell whether ``.`` or ``..`` is among the names of a path, so that it is not one of a node."""
    # Zarr v2, "Logical storage paths". With a separator at its end, too, few paths have a dot before one.
    return "./" in f"{path}/" and not {".", ".."}.isdisjoint(path.split("/"))


def join(parent: str, name: str) -> str:
    """Return the path of ``name`` inside ``parent``, both as in the model."""
    return f"{parent}/{name}" if parent else name


def split(path: str) -> tuple[str, str]:
    """Return parent and name of a path as in the model."""
    parent, _, name = path.rpartition("/")
    return parent, name


def ancestors(paths: Iterable[str]) -> set[str]:
    """Return the paths above ``paths``, each of which is visited once: a crafted file may be nested deeply."""
    above: set[str] = set()
    for path in paths:
        while path and (path := split(path)[0]) not in above:
            above.add(path)
    return above


@dataclass(slots=True)
class Hierarchy:
    """All nodes of one file of Zarr format 2 or 3; the root is the node at ``""``."""

    root: Node = field(default_factory=Group)
    zarr_format: int = 2

    def walk(self, top: str = "", *, without: str | None = None) -> Iterator[tuple[str, Node]]:
        """Yield ``(path, node)`` at and below ``top``, ``without`` one path, parents first, members sorted by name."""
        start = self.get(top)
        stack: list[tuple[str, Node]] = [] if start is None else [(top, start)]
        while stack:
            path, node = stack.pop()
            if path == without and without:
                continue
            yield path, node
            if isinstance(node, Group):
                stack.extend((join(path, name), node.members[name]) for name in sorted(node.members, reverse=True))

    def flat(self) -> dict[str, Node]:
        """Return ``{path: node}``."""
        return dict(self.walk())

    def get(self, path: str) -> Node | None:
        """Return the node at ``path``, or None."""
        node: Node = self.root
        for part in filter(None, path.split("/")):
            if not isinstance(node, Group) or part not in node.members:
                return None
            node = node.members[part]
        return node

    def array(self, path: str) -> Dataset:
        """Return the array at ``path``, where there is one."""
        node = self.get(path)
        assert isinstance(node, Dataset)
        return node

    def group(self, path: str) -> Group:
        """Return the group at ``path``, where there is one."""
        node = self.get(path)
        assert isinstance(node, Group)
        return node

    def arrays(self, top: str = "") -> Iterator[tuple[str, Dataset]]:
        """Yield ``(path, node)`` of every array at and below ``top``, as `walk` does."""
        return ((path, node) for path, node in self.walk(top) if isinstance(node, Dataset))

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.get(path) is not None

    def add(self, path: str, node: Node) -> None:
        """Add ``node`` at ``path``; its parent must be an existing group."""
        parent, name = split(relative(path))
        if not name:
            self.root = node
            return
        group = self.get(parent)
        if not isinstance(group, Group):
            raise MetadataError("no group holds this node", path=absolute(path))
        group.members[name] = node

    @classmethod
    def from_flat(cls, nodes: Mapping[str, Node], damaged: Damaged | None = None, *, zarr_format: int) -> Hierarchy:
        """Return the hierarchy of ``{path: node}`` without damaged nodes; raise the error of one that has members."""
        # Groups that only their members imply are created, so that a reader does not lose them. Zarr v2 requires
        # .zgroup at every ancestor, and `verify` reports missing ones.
        if damaged and (above := ancestors(nodes) & damaged.keys() - {""}):
            raise damaged[min(above)]
        if (path := next(filter(has_dots, nodes), None)) is not None:
            raise MetadataError(f"{path!r} is not a path inside the file", path="/", remedy="Do not trust this file.")
        flat: dict[str, Node] = {relative(path): node for path, node in nodes.items() if path not in (damaged or ())}
        root = flat.setdefault("", Group())
        for path, child in list(flat.items()):
            if not path:
                continue
            node, (parent, _, name) = child, path.rpartition("/")
            group = flat.get(parent)
            while group is None:  # implied by its members: it is added to its own parent, and so on
                flat[parent] = node = Group(members={name: node})
                parent, _, name = parent.rpartition("/")
                group = flat.get(parent)
            if isinstance(group, Dataset):
                raise MetadataError("an array has members", path=absolute(parent))
            group.members[name] = node
        return cls(root, zarr_format)


def copy_hierarchy(hierarchy: Hierarchy) -> Hierarchy:
    """Return a hierarchy whose nodes can be changed without changing those of ``hierarchy``. Documents are shared."""
    copied = Hierarchy(_copied(hierarchy.root), hierarchy.zarr_format)
    stack = [copied.root]
    while stack:  # not recursive: a file may be nested deeper than the recursion limit
        here = stack.pop()
        if isinstance(here, Group):
            here.members = {name: _copied(child) for name, child in here.members.items()}
            stack.extend(here.members.values())
    return copied


def _copied(node: Node) -> Node:
    return replace(node) if isinstance(node, Group) else replace(node, stored=replace(node.stored))


def adopt(known: Hierarchy, written: Hierarchy, replaced: Iterable[str] = ()) -> None:
    """Update ``known`` with the content of ``written``, keeping node objects but those of the ``replaced`` datasets."""
    for path in replaced:  # others refer to the objects of nodes
        parent = known.get(split(path)[0])
        if isinstance(parent, Group):
            parent.members.pop(split(path)[1], None)
    known.root = _kept(known.root, written.root)
    pairs = [(known.root, written.root)]
    while pairs:
        here, there = pairs.pop()
        if here is there:
            continue
        here.attributes = there.attributes
        if isinstance(here, Group) and isinstance(there, Group):
            for name in here.members.keys() - there.members.keys():
                del here.members[name]
            for name, node in there.members.items():
                here.members[name] = _kept(here.members.get(name), node)
                pairs.append((here.members[name], node))


def _kept(known: Node | None, written: Node) -> Node:
    """Return the known node if it has the class of the written one, else the written one."""
    return known if known is not None and type(known) is type(written) else written


# ---- what Python makes of many and deep groups ----------------------------------------------------------------------


@contextmanager
def limited_nesting(root: Any, *, store: object, doing: str) -> Iterator[None]:
    """Turn a RecursionError in the block, for a plan or a file, into an error with the limit and the deepest group."""
    try:
        yield
    except RecursionError as error:
        names: list[str] = []
        longest: list[str] = []
        stack: list[tuple[int, str, Any]] = [(0, "", root)]
        while stack:
            depth, name, node = stack.pop()
            names[max(0, depth - 1) :] = [name] if depth else []
            longest = list(names) if depth > len(longest) else longest
            members = getattr(node, "members", None) or getattr(node, "groups", None) or {}
            stack.extend((depth + 1, child_name, child) for child_name, child in members.items())
        depth = len(longest)
        limit = f"Python's limit of {sys.getrecursionlimit()} nested calls"
        problem = f"groups that are nested {depth} deep cannot be {doing} with {limit}"
        remedy = f"Nest less deeply, or raise the limit: sys.setrecursionlimit({max(4 * depth, 2000)})."
        raise NestingError(problem, store=store, path=absolute("/".join(longest)), remedy=remedy) from error


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector of this process while many objects are made that stay alive."""
    # Parsing a file makes many objects that stay, which the collector would visit again and again.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Memo(Generic[T]):
    """A function of JSON values that caches its results, since a file has thousands of similar arrays.

    Arguments are equal if they are equal as JSON: 0, 0.0, -0.0 and false are four values, and NaN is one. Results are
    shared, so they must not be changed. Errors are not cached.
    """

    def __init__(self, make: Callable[..., T], *, most: int = 1024) -> None:
        self._make = make
        self._most = most
        self._known: dict[bytes, T] = {}

    def __call__(self, *arguments: Any) -> T:
        """Return the result for ``arguments``."""
        try:
            # marshal tells 0 from 0.0 and False, which are equal as keys of a dict.
            key = marshal.dumps(arguments, 2)  # in later versions, the keys of equal values may differ
        except ValueError:  # nested too deep, or not JSON: the function itself raises the error
            return self._make(*arguments)
        known = self._known.get(key)
        if known is None:
            known = self._make(*arguments)
            # All are dropped at once: crafted files with many types are rare, and an order of use costs time.
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[key] = known
        return known
