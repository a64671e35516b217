"""WritePlan + store -> documents, chunks, grown shapes, and the consolidated document last.

Nothing is read back and no key is set twice; the document of an array that grows is set when its length is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.mapping.dimensions import encode_dimensions
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, NOTES
from hdmf_zarr_backend.model import consolidated, v2
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, Node, absolute, join
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.storage.codecs import chunk_codec, fill_array
from hdmf_zarr_backend.storage.jsontext import dump
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.write.iterators import GrowingArray
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ArraySource, Region

Array = npt.NDArray[Any]


class Writer:
    """Carries out a plan on an empty store.

    Parameters
    ----------
    keys : KeyStore
        The store.
    plan : WritePlan
        What to write.
    strict_json : bool
        No NaN or Infinity tokens.
    progress : Progress
        Is told of each array's bytes.
    """

    def __init__(
        self, keys: KeyStore, plan: WritePlan, *, strict_json: bool = False, progress: Progress = SILENT
    ) -> None:
        self._keys = keys
        self._plan = plan
        self._strict = strict_json
        self._progress = progress

    def write(self, *, consolidate: bool = True, exhaust_in_turn: bool = True) -> None:
        """Write everything.

        Parameters
        ----------
        consolidate : bool
            Set ``.zmetadata`` at the end.
        exhaust_in_turn : bool
            Exhaust iterators one after the other; False: one block of each in turn.
        """
        arrays = self._plan.arrays
        self._progress.start(sum(planned_bytes(planned) for planned in arrays.values()))
        growing = {path: planned for path, planned in arrays.items() if planned.iterator is not None}
        for path, node in self._plan.hierarchy.walk():
            if path not in growing:
                self._documents(path, node)
        for path, planned in arrays.items():
            if planned.source is not None:
                self._array(path, planned.node, planned.source)
        self._exhaust(growing, in_turn=exhaust_in_turn)
        if consolidate:
            self._keys.set(v2.CONSOLIDATED, dump(consolidated.consolidate(self._plan.hierarchy), strict=self._strict))
        self._progress.finish()

    def write_changes(self, *, added: Collection[str], changed: Collection[str], consolidate: bool = True) -> None:
        """Write what an append adds: arrays and new nodes first, then changed documents, the root and the consolidated last.

        Parameters
        ----------
        added : collection of str
            Paths of new groups and arrays; what is below them is new too.
        changed : collection of str
            Paths of nodes whose attributes differ.
        consolidate : bool
            Set ``.zmetadata``; False: delete it, since it would be stale.
        """
        arrays = self._plan.arrays
        self._progress.start(sum(planned_bytes(planned) for planned in arrays.values()))
        for path, planned in arrays.items():
            if planned.source is not None:
                self._array(path, planned.node, planned.source)
        growing = {path: planned for path, planned in arrays.items() if planned.iterator is not None}
        self._exhaust(growing, in_turn=True)
        for path in sorted(added, reverse=True):  # a group appears when all that is in it is there
            for below, node in reversed(list(Hierarchy(self._node(path)).walk())):
                place = "/".join(part for part in (path, below) if part)
                if place not in growing:
                    self._documents(place, node)
        for path in sorted(changed, reverse=True):
            self._documents(path, self._node(path))
        if consolidate:
            self._keys.set(v2.CONSOLIDATED, dump(consolidated.consolidate(self._plan.hierarchy), strict=self._strict))
        else:
            self._keys.delete([v2.CONSOLIDATED])
        self._progress.finish()

    def _node(self, path: str) -> Node:
        node = self._plan.hierarchy.get(path)
        assert node is not None
        return node

    def _documents(self, path: str, node: Any) -> None:
        for key, document in v2.node_documents(path, node):
            self._keys.set(key, dump(document, strict=self._strict))

    def _array(self, path: str, node: ArrayNode[Attributes], source: ArraySource) -> None:
        try:
            for key, value, size in encoded_chunks(path, node, source):
                self._keys.set(key, value)
                self._progress.advance(absolute(path), size)
        except ZarrBackendError as error:
            raise error.located(store=self._keys.location, path=absolute(path)) from error.__cause__

    def _exhaust(self, growing: dict[str, PlannedArray], *, in_turn: bool) -> None:
        open_arrays = {path: (GrowingArray(self._keys, path, p.node), iter(p.iterator)) for path, p in growing.items()}
        while open_arrays:
            for path in list(open_arrays)[: 1 if in_turn else None]:
                array, blocks = open_arrays[path]
                block = next(blocks, None)
                if block is not None:
                    array.put(block)
                    self._progress.advance(absolute(path), getattr(block.data, "nbytes", 0))
                    continue
                array.finish()
                self._finish_growing(path, growing[path])
                del open_arrays[path]

    def _finish_growing(self, path: str, planned: PlannedArray) -> None:
        node = planned.node
        notes: dict[str, Any] = dict(node.attributes.get(NOTES, {}))
        node.attributes[DIMENSIONS] = encode_dimensions(planned.labels, node.shape, planned.taken, notes)
        if notes.get("maxshape") == list(node.shape):
            del notes["maxshape"]
        if notes:
            node.attributes[NOTES] = notes
        else:
            node.attributes.pop(NOTES, None)
        self._documents(path, node)


def planned_bytes(planned: PlannedArray) -> int:
    """Return the bytes of the values of an array, as far as they are known before writing."""
    if planned.iterator is not None:
        return 0
    return planned.node.size * chunk_codec(planned.node).dtype.itemsize


def regions(node: ArrayNode[Attributes]) -> Iterator[tuple[tuple[int, ...], Region]]:
    """Yield the index of each chunk of ``node`` and the region of the array that it holds."""
    for index in itertools.product(*map(range, node.grid)):
        yield index, tuple(
            slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, node.chunks, node.shape, strict=True)
        )


def encoded_chunks(
    path: str, node: ArrayNode[Attributes], source: ArraySource
) -> Iterator[tuple[str, bytes, int]]:
    """Yield ``(key, bytes, size)`` of each chunk; ``size`` is that of its values in memory."""
    codec = chunk_codec(node)
    for index, region in regions(node):
        block = source.read(region)
        yield join(path, node.chunk_name(index)), codec.encode(whole_chunk(block, node, codec.dtype)), block.nbytes


def whole_chunk(block: Array, node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> Array:
    """Return ``block`` as a chunk of full size (Zarr v2: chunks at the edge are stored whole)."""
    if block.shape == node.chunks:
        return np.ascontiguousarray(block)
    chunk = fill_array(node, dtype, node.chunks)
    chunk[tuple(slice(0, n) for n in block.shape)] = block
    return chunk
