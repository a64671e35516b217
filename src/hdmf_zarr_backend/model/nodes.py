"""`Hierarchy`, `GroupNode` and `ArrayNode`: the model of a file, for writing, reading and inspecting.

A hierarchy is a tree (`GroupNode.members`), and also a mapping of paths to the same nodes. Paths in the model have no
leading slash, and the root is ``""``; `absolute` and `relative` convert.

Source: Zarr Object Model (ZEP 6); Zarr v2 specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from hdmf_zarr_backend.errors import MetadataError

Attributes: TypeAlias = dict[str, Any]
A = TypeVar("A", bound=Mapping[str, Any])


Order: TypeAlias = "str | tuple[int, ...]"
"""The layout inside a chunk: ``"C"``, ``"F"``, or the axes of the array in the order in which a chunk has them."""

MOST_AXES = 64
"""Maximum number of axes of a NumPy array."""


def check_axes(shape: tuple[int, ...], chunks: tuple[int, ...], path: str) -> None:
    """Raise a MetadataError for an array with too many axes for NumPy, or with chunks of another number of axes."""
    if len(shape) > MOST_AXES:
        raise MetadataError(
            f"an array of {len(shape)} axes cannot be read: NumPy has at most {MOST_AXES}",
            path=absolute(path),
            remedy="Write it with fewer axes.",
        )
    if len(shape) != len(chunks):
        raise MetadataError(
            f"shape {shape} and chunks {chunks} differ in length",
            path=absolute(path),
            remedy="Run `zarrio verify` on the file.",
        )


def checked_lengths(value: Any, key: str, path: str, *, least: int) -> tuple[int, ...]:
    """Return a list of lengths in a document as a tuple, or raise a MetadataError; each is ``least`` or more."""
    if isinstance(value, list):
        for length in value:  # a loop takes half the time of all() for one or two items
            if type(length) is not int or length < least:
                break
        else:
            return tuple(value)
    raise MetadataError(
        f"{key} {value!r} is not a list of lengths", path=absolute(path), remedy="Run `zarrio verify` on the file."
    )


@dataclass(slots=True, frozen=True)
class Shards:
    """How chunks are combined in stored objects (Zarr v3, codec ``sharding_indexed``).

    Attributes
    ----------
    shape : tuple of int
        Shape of one stored object, a multiple of the chunk shape on each axis.
    index_at_end : bool
        Position of the index: after the chunks, or before them.
    checksum : bool
        Whether the index is followed by a CRC32C of it.
    """

    shape: tuple[int, ...]
    index_at_end: bool = True
    checksum: bool = True


@dataclass(slots=True, frozen=True)
class ChunkKeys:
    """The chunk key encoding: how the key of a stored object is derived from its index.

    Attributes
    ----------
    encoding : {"v2", "default"}
        By its name in format 3. ``"v2"``: ``0.3``, the only one in format 2. ``"default"``: ``c/0/3``.
    separator : {".", "/"}
        Separator between the parts of a key.

    Source: Zarr v2 specification, "Chunks"; Zarr v3 specification, "Chunk key encoding".
    """

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
        if len(parts) != axes or not all(map(is_chunk_number, parts)):
            return None
        index = tuple(map(int, parts))
        return index if self.name(index) == name else None


DEFAULT_PREFIX = "c"
"""First part of the keys with the encoding ``"default"``."""

_MOST_DIGITS = 20


def is_chunk_number(text: str) -> bool:
    """Tell whether a part of a key is the number of a chunk."""
    return text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS


class Original(NamedTuple):
    """The format-3 document that an array was read from, which is written again if its properties have not changed.

    Attributes
    ----------
    document : dict
        The document.
    stored : tuple
        The fields of the node that determine how it is stored, as read (`formats.zarr3`).
    attributes : dict
        The attributes of the node, as read.
    """

    document: dict[str, Any]
    stored: tuple[Any, ...]
    attributes: Attributes


_V2_KEYS = ChunkKeys()


@dataclass(slots=True)
class ArrayNode(Generic[A]):
    """The metadata of one array.

    Attributes
    ----------
    shape : tuple of int
        Length of each axis.
    chunks : tuple of int
        Shape of one stored chunk, with as many entries as ``shape``.
    data_type : str or list
        The data type as JSON (format 2: ``"<f4"``, ``"|O"`` or a list of fields).
    fill_value : object
        As JSON; None if undefined.
    compressor, filters : dict or list of dict, optional
        Codec configurations of format 2. ``filters`` are applied in order before ``compressor``.
    order : str or tuple of int
        The layout inside a chunk, as of `Order`; a tuple in format 3 only.
    zarr_format : int
        2 or 3: the format that the array is stored in.
    chunk_keys : ChunkKeys
        The encoding of the keys of its chunks, or shards.
    stored_axes : int, optional
        Number of axes in the document and in the keys of chunks, if not all; these are the first ones.
    shards : Shards, optional
        How chunks are combined in stored objects; None: each is a separate object.
    original : Original, optional
        The format-3 document that it was read from.
    attributes : mapping
        The user attributes, as JSON.
    extra : dict
        Keys of the document that the format does not define, kept so that reading and writing is lossless.
    keeps_attributes : bool
        Whether the file has a document of attributes even if they are empty (zarr-python 3 writes one).
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    data_type: Any
    fill_value: Any = None
    compressor: dict[str, Any] | None = None
    filters: list[dict[str, Any]] | None = None
    order: Order = "C"
    attributes: A = field(default_factory=lambda: cast(A, {}))
    extra: dict[str, Any] = field(default_factory=dict)
    keeps_attributes: bool = False
    zarr_format: int = 2
    chunk_keys: ChunkKeys = _V2_KEYS
    stored_axes: int | None = None
    shards: Shards | None = None
    original: Original | None = None

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in the document of the array."""
        return self.shape if self.stored_axes is None else self.shape[: self.stored_axes]

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))

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
        product = 1
        for n in self.shape:
            product *= n
        return product

    def chunk_name(self, index: tuple[int, ...]) -> str:
        """Return the key of the chunk, or shard, at ``index``, relative to the array."""
        return self.chunk_keys.name(index if self.stored_axes is None else index[: self.stored_axes])


@dataclass(slots=True)
class GroupNode(Generic[A]):
    """A group: attributes and named members.

    Attributes
    ----------
    attributes : mapping
        The user attributes, as JSON.
    members : dict
        Child nodes by name.
    extra : dict
        Keys of the group document other than ``zarr_format``; read, but not written (Zarr v2: MUST NOT have other
        keys).
    keeps_attributes : bool
        As for `ArrayNode`.
    """

    attributes: A = field(default_factory=lambda: cast(A, {}))
    members: dict[str, Node] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    keeps_attributes: bool = False


Node: TypeAlias = "GroupNode[Attributes] | ArrayNode[Attributes]"


def relative(path: str) -> str:
    """Return ``path`` as in the model: without slashes at both ends, and none doubled."""
    if path.startswith("/") or path.endswith("/") or "//" in path:
        return "/".join(part for part in path.split("/") if part)
    return path


def absolute(path: str) -> str:
    """Return ``path`` as in HDMF, with a leading slash."""
    return "/" + relative(path)


def join(parent: str, name: str) -> str:
    """Return the path of ``name`` inside ``parent``, both as in the model."""
    return f"{parent}/{name}" if parent else name


def split(path: str) -> tuple[str, str]:
    """Return parent and name of a path as in the model."""
    parent, _, name = path.rpartition("/")
    return parent, name


@dataclass(slots=True)
class Hierarchy:
    """All nodes of one file.

    Attributes
    ----------
    root : GroupNode or ArrayNode
        The node at ``""``.
    zarr_format : int
        2 or 3.
    """

    root: Node = field(default_factory=GroupNode)
    zarr_format: int = 2

    def walk(self, *, without: str | None = None) -> Iterator[tuple[str, Node]]:
        """Yield ``(path, node)`` of every node, parents before members, members sorted by name.

        ``without`` is the path of a node that is left out with all below it.
        """
        stack: list[tuple[str, Node]] = [("", self.root)]
        while stack:
            path, node = stack.pop()
            if path == without and without:
                continue
            yield path, node
            if isinstance(node, GroupNode):
                stack.extend((join(path, name), node.members[name]) for name in sorted(node.members, reverse=True))

    def flat(self) -> dict[str, Node]:
        """Return ``{path: node}``."""
        return dict(self.walk())

    def get(self, path: str) -> Node | None:
        """Return the node at ``path``, or None."""
        node: Node = self.root
        for part in relative(path).split("/") if relative(path) else ():
            if not isinstance(node, GroupNode) or part not in node.members:
                return None
            node = node.members[part]
        return node

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.get(path) is not None

    def add(self, path: str, node: Node) -> None:
        """Add ``node`` at ``path``; its parent must be an existing group."""
        parent, name = split(relative(path))
        if not name:
            self.root = node
            return
        group = self.get(parent)
        if not isinstance(group, GroupNode):
            raise MetadataError("no group holds this node", path=absolute(path))
        group.members[name] = node

    @classmethod
    def from_flat(cls, nodes: Mapping[str, Node], *, zarr_format: int = 2) -> Hierarchy:
        """Return the hierarchy of ``{path: node}``.

        Creates groups that only their members imply, so that a reader does not lose them (Zarr v2 requires ``.zgroup``
        at every ancestor; `verify` reports missing ones).
        """
        flat: dict[str, Node] = {relative(path): node for path, node in nodes.items()}
        for path, node in list(flat.items()):
            if not path:
                continue
            parent, _, name = path.rpartition("/")
            group = flat.get(parent)
            if not isinstance(group, GroupNode):
                group = _group_at(flat, parent)
            group.members[name] = node
        return cls(flat.get("", GroupNode()), zarr_format)


def _group_at(flat: dict[str, Node], path: str) -> GroupNode[Attributes]:
    missing: list[str] = []
    while path and path not in flat:
        missing.append(path)
        path = split(path)[0]
    node = flat.setdefault(path, GroupNode())
    if isinstance(node, ArrayNode):
        raise MetadataError("an array has members", path=absolute(path), remedy="Run `zarrio verify` on the file.")
    for below in reversed(missing):
        group: GroupNode[Attributes] = GroupNode()
        flat[below] = node.members[split(below)[1]] = group
        node = group
    return node


def copy_hierarchy(hierarchy: Hierarchy) -> Hierarchy:
    """Return a hierarchy whose nodes can be changed without changing those of ``hierarchy``. Documents are shared."""
    copied = Hierarchy(replace(hierarchy.root), hierarchy.zarr_format)
    stack = [copied.root]
    while stack:  # not recursive: a file may be nested deeper than the recursion limit
        here = stack.pop()
        if isinstance(here, GroupNode):
            here.members = {name: replace(child) for name, child in here.members.items()}
            stack.extend(here.members.values())
    return copied


def adopt(known: Hierarchy, written: Hierarchy) -> None:
    """Update ``known`` with the content of ``written``, keeping node objects, which others refer to."""
    known.root = _kept(known.root, written.root)
    pairs = [(known.root, written.root)]
    while pairs:
        here, there = pairs.pop()
        if here is there:
            continue
        here.attributes = there.attributes
        if isinstance(here, GroupNode) and isinstance(there, GroupNode):
            for name, node in there.members.items():
                here.members[name] = _kept(here.members.get(name), node)
                pairs.append((here.members[name], node))


def _kept(known: Node | None, written: Node) -> Node:
    """Return the known node if it has the class of the written one, else the written one."""
    return known if known is not None and type(known) is type(written) else written
