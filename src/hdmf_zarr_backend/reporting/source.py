"""`opened`: a file for the page, in Zarr or HDF5, as an outline and a reader of values with a limit on their bytes.

An HDF5 file is planned as for a conversion, which gives its hierarchy and the chunks that Zarr would have; nothing is
written. Links are followed inside the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from hdmf_zarr_backend.array.content import ArrayReader
from hdmf_zarr_backend.encoding.elements import describe_any
from hdmf_zarr_backend.encoding.parser import ParsedFile, parse, resolver_of
from hdmf_zarr_backend.encoding.references import decode_reference
from hdmf_zarr_backend.errors import NotZarrError, ZarrBackendError
from hdmf_zarr_backend.model.content import Values
from hdmf_zarr_backend.model.element import Target
from hdmf_zarr_backend.model.links import THIS_FILE, is_url
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, StoredArray, absolute, join
from hdmf_zarr_backend.outline import Outline, outline_of
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.memory import InlinedStore
from hdmf_zarr_backend.store.opening import FileSource, is_hdf5, is_of_hdf5, open_store

VALUE_BYTES, REMOTE_VALUE_BYTES = 64 * 10**6, 16 * 10**6
"""Most bytes of values that are read for a page, of a file on this machine and of one at a URL."""

Span: TypeAlias = tuple[float, float]
"""The first and the last time, in seconds."""

UNREADABLE = "cannot be read"
_TEXT_LENGTH = 400
_OBJECT_BYTES = 64  # of an element without a size, such as text, as an estimate
_SMALL = 10_000
_SHORT = 100
_LEAST_CHUNK = 4000  # bytes as which a smaller chunk counts: thousands of them take as long as one large one


class NodeReader:
    """Reads values of a file until ``most`` bytes are read; values that cannot be read are in ``damaged``, by path.

    ``read_bytes`` counts complete chunks, decoded, also where less is read.
    """

    def __init__(self, store: Store, parsed: ParsedFile, outline: Outline) -> None:
        self.store, self.parsed, self.outline, self.hierarchy = store, parsed, outline, parsed.hierarchy
        self.is_remote = is_url(outline.location)
        self.most = REMOTE_VALUE_BYTES if self.is_remote else VALUE_BYTES
        self.read_bytes = self._spent = 0
        self.damaged: dict[str, str] = {}
        self._resolver = resolver_of(store, parsed.hierarchy, outline.location)
        self._arrays = ArrayReader(store, self._target, as_hdf5=False)

    def share(self, part: int) -> int:
        """Return the bytes that one of ``part`` reads may have of those that are left."""
        return (self.most - self._spent) // part

    def prefetch(self, paths: Iterable[str]) -> None:
        """Keep small datasets in memory, after one round of requests."""
        # those in the consolidated document are in memory already, as in files of this package; others take requests
        keys = []
        for path in paths:
            node = self.hierarchy.get(path)
            if isinstance(node, Dataset) and is_small(node.stored):
                key = join(path, node.stored.first_chunk)
                keys += [key] if self.store.inlined(key) is None else []
        try:
            if keys:
                self.store = InlinedStore(self.store, self.store.get_many(keys))
        except (ZarrBackendError, OSError):
            return  # which of them cannot be read is reported with their labels
        self._arrays = ArrayReader(self.store, self._target, as_hdf5=False)

    def dataset(self, group: str, name: str) -> tuple[str, Dataset[Attributes]] | None:
        """Return path and node of a dataset in a group, also through links inside the file."""
        path = join(group, name)
        node = self.hierarchy.get(path)
        if node is None:
            try:
                _, path, node = self._resolver.find_inside(THIS_FILE, path)
            except ZarrBackendError:
                return None
        return (path, node) if isinstance(node, Dataset) else None

    def _chunks(self, node: Dataset[Attributes], selection: tuple[slice, ...]) -> tuple[int, int]:
        """Return the number of chunks in which a selection is, and their decoded bytes."""
        stored, count = node.stored, 1
        for axis, (length, chunk) in enumerate(zip(stored.shape, stored.chunks, strict=True)):
            part = selection[axis] if axis < len(selection) else slice(0, length)
            count *= max(1, -(-part.stop // chunk) - part.start // chunk)
        return count, count * math.prod(stored.chunks) * (describe_any(node).itemsize or _OBJECT_BYTES)

    def cost(self, node: Dataset[Attributes], selection: tuple[slice, ...] = ()) -> int:
        """Return what reading a selection takes of `most`: the bytes of its chunks; tiny ones count for more."""
        count, nbytes = self._chunks(node, selection)
        return max(nbytes, count * _LEAST_CHUNK)

    def read(self, path: str, *selection: slice) -> Values | None:
        """Return values of a dataset; None if there are none, they cannot be read, or would be too many bytes."""
        node = self.hierarchy.get(path)
        if not isinstance(node, Dataset):
            return None
        try:
            # as for a comparison: values of any type and format, without builders
            content = self._arrays.content(path, node, {}, is_spec=False)
            cost = self.cost(node, selection)
            if content.shape is None or self._spent + cost > self.most:
                return None
            self._spent += cost
            self.read_bytes += self._chunks(node, selection)[1]
            rest = (slice(0, length) for length in content.shape[len(selection) :])
            return content.read((*selection, *rest)[: len(content.shape)])
        except (ZarrBackendError, OSError) as error:
            self.damaged[path] = error.problem if isinstance(error, ZarrBackendError) else str(error)
            return None

    def parts(self, path: str, *rest: slice, pieces: int, most: int) -> list[tuple[int, Values]]:
        """Return all of a dataset, or ``pieces`` of complete chunks along its first axis, each with its start.

        They have at most ``most`` bytes, or are one chunk. Pieces that cannot be read are left out.
        """
        node = self.hierarchy.get(path)
        assert isinstance(node, Dataset)
        length, chunk, grid = node.stored.shape[0], node.stored.chunks[0], node.stored.grid[0]
        one = self.cost(node, (slice(0, min(chunk, length)), *rest))
        is_all = self.cost(node, (slice(0, length), *rest)) <= most
        if is_all and (block := self.read(path, slice(0, length), *rest)) is not None:
            return [(0, block)]
        if one > max(most, self.share(4)):
            return []
        count = min(pieces, grid, max(1, most // one))
        # chunks of a piece; single ones where one of them is damaged
        run = 1 if is_all else max(1, min(most // one, grid) // count)
        starts = {round(position) * chunk for position in np.linspace(0, grid - run, count).tolist()}
        stops = {start: min(length, start + run * chunk) for start in sorted(starts)}
        blocks = [(start, self.read(path, slice(start, stop), *rest)) for start, stop in stops.items()]
        return [(start, block) for start, block in blocks if block is not None]

    def text(self, path: str) -> str:
        """Return a small dataset of text as one line; empty if it does not exist."""
        node = self.hierarchy.get(path)
        values = self.read(path) if isinstance(node, Dataset) and is_small(node.stored) else None
        if values is None:
            return UNREADABLE if path in self.damaged else ""
        return shortened("; ".join(map(str, values.reshape(-1).tolist())))

    def _target(self, value: Any) -> Target:
        try:
            return Target(absolute(decode_reference(value).node_path))
        except ZarrBackendError:
            return Target(None)


def small_values(reader: NodeReader) -> dict[str, str]:
    """Return the values of scalars and short arrays by path, as text of one line."""
    short = [path for path, node in reader.hierarchy.walk() if isinstance(node, Dataset) and node.stored.size <= _SHORT]
    reader.prefetch(short)
    values = {path: reader.read(path) for path in short}
    texts = {path: str(value.tolist()) for path, value in values.items() if value is not None}
    return {path: shortened(text, 60) for path, text in (texts | dict.fromkeys(reader.damaged, UNREADABLE)).items()}


def is_small(stored: StoredArray) -> bool:
    """Tell whether an array is one chunk of few values."""
    return 0 < stored.size <= _SMALL and math.prod(stored.grid) == 1


def shortened(text: str, length: int = _TEXT_LENGTH) -> str:
    """Return a text as one line, which ends in an ellipsis if it is longer."""
    # a description may have pages; it is one line of a table here
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"


def duration_text(seconds: float) -> str:
    """Return a number of seconds as hours, minutes and seconds."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(f"{number:,} {unit}" for number, unit in ((hours, "h"), (minutes, "min"), (whole, "s")) if number)


@contextmanager
def opened(
    source: FileSource, storage_options: Mapping[str, Any] | None, *, sizes: bool = True, **shown: Any
) -> Iterator[NodeReader]:
    """Yield the reader of a file, which is open inside the block; ``shown`` are arguments of `outline_of`."""
    store, parsed = open_store(source, storage_options), None
    if not is_hdf5(store.location):
        try:
            parsed = parse(store)
        except NotZarrError:
            if not is_of_hdf5(store):
                raise
    if parsed is not None:
        yield NodeReader(parsed.store(store), parsed, outline_of(store, parsed, sizes=sizes, **shown))
        return
    from hdmf_zarr_backend.from_hdf5 import planned_hdf5  # on use: it imports h5py and hdmf

    with planned_hdf5(store) as (planned, parsed, stored):
        outline = outline_of(planned, parsed, **shown)
        outline.is_hdf5, outline.stored = True, stored if sizes else None
        yield NodeReader(planned, parsed, outline)
