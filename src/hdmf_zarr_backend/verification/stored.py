"""Which objects of a store hold the chunks of an array, by their names; what is stored counts, not what is stated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes
from hdmf_zarr_backend.stores.base import DOCUMENTS, Store

Index = tuple[int, ...]

_LONGEST = 20  # digits of the number of a chunk


def indices_of(grid: Index) -> Iterator[Index]:
    """Yield all indices of a grid in order; a file may state one that no memory holds the ranges of."""
    for number in range(math.prod(grid)):
        index, rest = [], number
        for length in reversed(grid):
            rest, i = divmod(rest, length)
            index.append(i)
        yield tuple(reversed(index))


class StoredObjects:
    """The objects in which the chunks of an array are: the chunks themselves, or shards of them.

    Parameters
    ----------
    node : ArrayNode
        The array.

    Attributes
    ----------
    grid : tuple of int
        Number of objects along each axis.
    inner : tuple of int
        Number of chunks along each axis of an object.
    """

    def __init__(self, node: ArrayNode[Attributes]) -> None:
        self._node = node
        shape = node.chunks if node.shards is None else node.shards.shape
        self.grid = tuple(-(-n // c) for n, c in zip(node.shape, shape, strict=True))
        self.inner = tuple(s // c for s, c in zip(shape, node.chunks, strict=True))

    def all_chunks(self) -> Iterator[Index]:
        """Yield the index of every chunk."""
        return indices_of(self._node.grid)

    def sort(self, names: Iterable[str]) -> tuple[set[Index], list[str]]:
        """Return the indices of those ``names`` that are objects of the array, and the other names."""
        found: set[Index] = set()
        unknown: list[str] = []
        for name in names:
            index = self._index(name)
            if index is not None:
                found.add(index)
            elif name not in DOCUMENTS:
                unknown.append(name)
        return found, sorted(unknown)

    def _index(self, name: str) -> Index | None:
        parts = name.split(self._node.separator)
        axes = len(self.grid) if self._node.key_axes is None else self._node.key_axes
        if self._node.prefix:
            if parts.pop(0) != self._node.prefix:
                return None
        elif not axes:
            return () if name == "0" else None
        if len(parts) != axes or not all(part.isascii() and part.isdigit() and len(part) < _LONGEST for part in parts):
            return None
        index = (*map(int, parts), *(0,) * (len(self.grid) - axes))
        is_inside = all(i < n for i, n in zip(index, self.grid, strict=True))
        return index if is_inside and self._node.chunk_name(index) == name else None

    def chunks_in(self, index: Index) -> Iterator[Index]:
        """Yield the chunks that the object at ``index`` holds."""
        if self._node.shards is None:
            yield index
            return
        starts = [i * n for i, n in zip(index, self.inner, strict=True)]
        ends = [min(s + n, g) for s, n, g in zip(starts, self.inner, self._node.grid, strict=True)]
        lengths = tuple(end - start for start, end in zip(starts, ends, strict=True))
        for inner in indices_of(lengths):
            yield tuple(start + i for start, i in zip(starts, inner, strict=True))


def stored_names(keys: Store, path: str) -> list[str]:
    """Return the names of all keys below an array."""
    return [key[len(path) + 1 if path else 0 :] for key in keys.sizes(path)]


def stored_rows(keys: Store, path: str, node: ArrayNode[Attributes]) -> list[int]:
    """Return which chunks along the first axis there is anything of; all of them where the store cannot list.

    Raises
    ------
    LimitError
        They are more than ``max_read_chunks``.
    """
    if not node.shape:
        return [0]
    stored = StoredObjects(node)
    limits = keys.read_rules.limits
    if not keys.abilities.listing:
        limits.check("max_read_chunks", node.grid[0], f"{node.grid[0]:,} chunks are stated")
        return list(range(node.grid[0]))
    found, _ = stored.sort(stored_names(keys, path))
    objects = {index[0] for index in found}
    count = len(objects) * stored.inner[0]
    limits.check("max_read_chunks", count, f"{count:,} chunks are stated")
    rows = (row * stored.inner[0] + i for row in objects for i in range(stored.inner[0]))
    return sorted(row for row in rows if row < node.grid[0])
