"""`StoredArray`: how the values of a dataset are stored, which is what the chunk engine (`arrays`) needs.

Source: Zarr v2 specification; Zarr v3 specification.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

Order: TypeAlias = "str | tuple[int, ...]"
"""The layout inside a chunk: ``"C"``, ``"F"``, or the axes of the array in the order in which a chunk has them."""


@dataclass(slots=True, frozen=True)
class Shards:
    """How chunks are combined in stored objects (Zarr v3, codec ``sharding_indexed``)."""

    shape: tuple[int, ...]
    """Shape of one stored object, a multiple of the chunk shape on each axis."""
    index_at_end: bool = True
    """Position of the index: after the chunks, or before them."""
    checksum: bool = True
    """Whether the index is followed by a CRC32C of it."""


@dataclass(slots=True, frozen=True)
class ChunkKeys:
    """The chunk key encoding: how the key of a stored object is derived from its index.

    By its name in format 3, ``"v2"`` is ``0.3``, the only one in format 2, and ``"default"`` is ``c/0/3``.

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
        if len(parts) != axes or not all(map(is_small_number, parts)):
            return None
        index = tuple(map(int, parts))
        return index if self.name(index) == name else None


DEFAULT_PREFIX = "c"
"""First part of the keys with the encoding ``"default"``."""


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


def chunk_region(index: tuple[int, ...], chunks: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the part of an array that its chunk at ``index`` holds."""
    return tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, chunks, shape, strict=True))


class Original(NamedTuple):
    """The format-3 document that an array was read from, which is written again if its properties have not changed."""

    document: dict[str, Any]
    stored: tuple[Any, ...]
    """The fields of the array that determine how it is stored, as read (`encoding.zarr3`)."""
    attributes: dict[str, Any]
    """The attributes of the dataset, as read."""


@dataclass(slots=True)
class StoredArray:
    """How the chunks of one array are stored, in format 2 or 3."""

    shape: tuple[int, ...]
    """Length of each axis. Rows with text or references have a last axis for their fields, a scalar has one element."""
    chunks: tuple[int, ...]
    data_type: Any
    """Of a decoded chunk, as JSON of format 2: ``"<f4"``, ``"|O"`` or a list of fields."""
    fill_value: Any = None
    """As JSON; None if undefined."""
    compressor: dict[str, Any] | None = None
    filters: list[dict[str, Any]] | None = None
    """Configurations of codecs of format 2, and ``references``, ``struct`` and ``byteorder`` of `encoding.codecs`.
    They are applied in order before the compressor."""
    order: Order = "C"
    zarr_format: int = 2
    chunk_keys: ChunkKeys = ChunkKeys()
    """The encoding of the keys of its chunks, or shards."""
    stored_axes: int | None = None
    """Number of axes in the document and in the keys of chunks, if not all; these are the first ones."""
    shards: Shards | None = None
    """How chunks are combined in stored objects; None: each is a separate object."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys of the document that the format does not define, kept so that reading and writing is lossless."""
    original: Original | None = None
    """The format-3 document that it was read from."""

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
        return math.prod(self.shape)

    def chunk_name(self, index: tuple[int, ...]) -> str:
        """Return the key of the chunk, or shard, at ``index``, relative to the array."""
        return self.chunk_keys.name(index if self.stored_axes is None else index[: self.stored_axes])

    @property
    def first_chunk(self) -> str:
        """The key of the first chunk, or shard, relative to the array."""
        return self.chunk_name((0,) * len(self.shape))
