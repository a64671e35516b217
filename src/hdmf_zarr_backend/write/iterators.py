"""`GrowingArray`: writes the blocks of a data chunk iterator, in any order and size, to an array that grows.

Complete chunks of the target are written, each once if the order of the blocks allows it. A chunk that is not yet full
stays in memory within a byte limit, and is read back if it had to be written too early.

Source: `hdmf.data_utils.AbstractDataChunkIterator`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hdmf_zarr_backend.array.chunks import Axis, fill_array, full_key, normalise, overlaps, separately
from hdmf_zarr_backend.array.shards import WaitingShards, shard_of
from hdmf_zarr_backend.encoding import dtypes, elements
from hdmf_zarr_backend.encoding.casting import cast, cast_text, infer, to_text, unmasked
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec
from hdmf_zarr_backend.encoding.layout import OBJECT_BYTES, VLEN_BYTES, Layout, default_chunks, new_dataset
from hdmf_zarr_backend.encoding.reserved import DTYPE, NOTES
from hdmf_zarr_backend.errors import UsageError, ValueRefusedError
from hdmf_zarr_backend.model.element import ASCII, UTF8
from hdmf_zarr_backend.model.nodes import StoredArray, indices_of, join
from hdmf_zarr_backend.store.transaction import Change
from hdmf_zarr_backend.write.plan import PlannedArray, encode_fill, encode_object_fill
from hdmf_zarr_backend.write.sources import Array, is_utf8
from hdmf_zarr_backend.write.tasks import Index, Sink, ValuesTask


class Texts:
    """The text elements of an array that grows, as bytes: whether they are text is known when all of them are."""

    # ``vlen-utf8`` and ``vlen-bytes`` are the same bytes, so the name can be chosen when the chunks are written.

    def __init__(self) -> None:
        self._has_text = False
        self._has_bytes = False
        self._is_utf8 = True

    def encode(self, item: Any) -> bytes:
        """Return an element as it is stored."""
        if isinstance(item, bytes):
            self._has_bytes = True
            if self._has_text or is_utf8(item):
                return to_text(item).encode("utf-8")
            self._is_utf8 = False
            return bytes(item)
        if not self._is_utf8:
            problem = f"{item!r} is text among bytes that are not UTF-8"
            raise ValueRefusedError(problem, remedy="Give only bytes, or only text.")
        self._has_text = True
        return to_text(item).encode("utf-8")

    def name(self, planned: PlannedArray) -> None:
        """Give a planned array of text the kind of its elements: bytes stay bytes if the type of the data allows."""
        if not self._has_bytes or self._has_text:
            return
        stored, attributes = planned.node.stored, planned.node.attributes
        notes = dict(attributes.get(NOTES, {}))
        if not self._is_utf8:
            stored.filters = [dict(VLEN_BYTES), *(stored.filters or [])[1:]]
            stored.fill_value = encode_object_fill(stored.fill_value, "vlen-bytes")
            attributes[DTYPE] = "bytes"
            notes.pop("text", None)
        elif _numpy_type(getattr(planned.iterator, "dtype", None)) == np.dtype(object) and "text" not in planned.notes:
            notes["text"] = "ascii"
        else:
            return
        attributes[NOTES] = notes


WAITING_BYTES = 64 * 2**20  # maximum bytes of chunks that are not full yet

# an axis without a maximum counts as this long where chunks are chosen, so that it is divided first
_GROWING = 2**40
_GUESS = 1024
"""Length to assume for an axis other than the first, if unknown: a chunk should not be one row of half a million."""


def plan_iterator(data: Any, builder_dtype: Any, options: Layout) -> PlannedArray:
    """Plan an array whose values come from an iterator. Its shape is known when the iterator is exhausted."""
    maxshape = getattr(data, "maxshape", None)
    if maxshape is None:
        raise ValueRefusedError("the iterator has no maxshape", remedy="Give one, with None for axes that grow.")
    maxshape = tuple(maxshape)
    options.maxshape = options.maxshape or maxshape
    dtype = _dtype(data, builder_dtype)
    itemsize = OBJECT_BYTES if dtype is None else dtype.itemsize
    if options.chunks is not None and len(options.chunks) != len(maxshape):
        problem = f"chunks {options.chunks} do not fit the maxshape {maxshape}"
        raise UsageError(problem, remedy="Give one length for each axis.")
    # the initial shape that the iterator recommends, as HDF5IO uses it; zeros where it has none
    advised = _hint(data, "recommended_data_shape", len(maxshape)) or (0,) * len(maxshape)
    pairs = zip((int(n or 0) for n in advised), maxshape, strict=True)
    first_shape = tuple(n if most is None else min(n, most) for n, most in pairs)
    options.chunks = options.chunks or _chunks(data, options, first_shape, itemsize)
    if dtype is None:  # ASCII, times, or any text; `Texts` corrects this when the elements are known
        stated = builder_dtype if isinstance(builder_dtype, str) else getattr(data, "dtype", None)
        is_ascii = stated == "ascii" or (isinstance(stated, np.dtype) and stated.kind == "S")
        node, notes = new_dataset(ASCII if is_ascii else UTF8, first_shape, options)
        if isinstance(stated, str) and stated in elements.TIME_WORDS:
            notes["text"] = stated
        node.stored.fill_value = encode_object_fill(options.fill_value, "vlen-utf8")
    else:
        node, notes = new_dataset(dtype, first_shape, options)
        node.stored.fill_value = encode_fill(options.fill_value, dtype)
    limit = options.maxshape if len(options.maxshape) == len(maxshape) else None  # the one given may have other axes
    return PlannedArray(node, iterator=data, maxshape=limit, notes=notes)


def _chunks(data: Any, options: Layout, first_shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    maxshape = tuple(data.maxshape)
    if options.chooses_by_elements:
        return options.choose_chunks(maxshape, itemsize)
    hint = _hint(data, "recommended_chunk_shape", len(maxshape))
    if hint and all(hint):
        return tuple(map(int, hint))
    # by bytes: the first axis grows, the others have the length known so far
    likely = [most if most is not None else n or _GUESS for n, most in zip(first_shape, maxshape, strict=True)]
    if likely and maxshape[0] is None:
        likely[0] = _GROWING
    return default_chunks(tuple(likely), itemsize)


def _dtype(data: Any, builder_dtype: Any) -> np.dtype[Any] | None:
    """Return the type of numbers; None for text."""
    given = getattr(data, "dtype", None)
    own = _numpy_type(given)
    # hdmf takes the type of an iterator over a list from its first element; all of them choose it here
    values = unmasked(getattr(data, "data", None))
    if isinstance(values, (list, tuple)):
        values = [value for value in values if value is not None]  # hdmf leaves these out: they get the fill value
        # whatever the type is, this refuses a list of several kinds, and masked elements, before anything is written
        dtype = infer(values).dtype if values else None
        is_own = own is not None and builder_dtype in (None, own.name)
        if dtype is not None and is_own and np.asarray(values[0]).dtype == own and dtype.kind in "biufcmM":
            return dtype
    kind = dtypes.kind_of(builder_dtype) if isinstance(builder_dtype, str) else None
    if kind == "number":
        return dtypes.number_type(builder_dtype, own)
    if kind is not None or (isinstance(given, str) and given in elements.WORDS):
        return None
    if given is None:
        raise ValueRefusedError("the iterator has no dtype", remedy="Give it one.")
    dtype = dtypes.numpy_of(given) if isinstance(given, str) else np.dtype(given)
    return None if dtype.kind in "OUST" else dtypes.plain(dtype)


def _numpy_type(given: Any) -> np.dtype[Any] | None:
    """Return the NumPy type that an iterator has as ``dtype``, None if it has none."""
    try:
        return None if given is None else np.dtype(given)
    except TypeError:
        return None


def _hint(data: Any, name: str, axes: int) -> tuple[Any, ...] | None:
    """Return the lengths that an iterator recommends, None if it has none for each axis."""
    method = getattr(data, name, None)
    hint = method() if callable(method) else None
    return tuple(hint) if isinstance(hint, (tuple, list)) and len(hint) == axes else None


class GrowingArray:
    """Takes blocks of one array and writes its chunks."""

    def __init__(
        self,
        change: Change,
        path: str,
        array: StoredArray,
        *,
        maxshape: tuple[int | None, ...] | None = None,
        sink: Sink[Any] | None = None,
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self._maxshape = maxshape or (None,) * len(array.shape)
        self._has_blocks = False
        self._sink = sink or Sink()
        self._waiting_bytes = waiting_bytes
        self._change = change
        self._path = path
        self.array = array
        self.texts = Texts() if array.first_filter.get("id") == "vlen-utf8" else None
        self._encoded = array
        if self.texts is not None:  # the chunks of text are those of bytes
            fill, filters = encode_object_fill(array.fill_value, "vlen-bytes"), [VLEN_BYTES, *(array.filters or [])[1:]]
            self._encoded = replace(array, fill_value=fill, filters=filters)
        self._codec = chunk_codec(self._encoded)
        self._waiting: OrderedDict[Index, tuple[Array, int]] = OrderedDict()
        self._written: set[Index] = set()
        self._full: defaultdict[Index, set[Index]] = defaultdict(set)
        self._shards = None if array.shards is None else WaitingShards(change.reader, path, array)
        self._chunk_bytes = max(1, int(np.prod(array.chunks)) * self._codec.dtype.itemsize)

    def put(self, block: Any) -> int:
        """Add one `hdmf.data_utils.DataChunk`, and return its bytes; the array grows as needed."""
        if not hasattr(block, "selection"):
            remedy = "Give each block as hdmf.data_utils.DataChunk(data=..., selection=...)."
            raise ValueRefusedError(f"the iterator gives a {type(block).__name__}, not a DataChunk", remedy=remedy)
        if block.data is None:
            return 0
        if self._codec.is_object:
            data = cast_text(block.data, to_text if self.texts is None else self.texts.encode)
        else:
            data = cast(block.data, self._codec.dtype, same_kind=True)
        try:
            shape = self._grown(block)
            axes = normalise(block.selection, shape)
            values = _shaped(data, axes)
        except (IndexError, ValueError, TypeError) as error:
            what = f"a block of shape {np.shape(block.data)} does not fit its selection {block.selection!r}"
            remedy = "Give each block the shape of its selection, and one entry for each axis; for rows of different "
            remedy += "lengths, use a ragged column with an index."
            raise ValueRefusedError(f"{what} ({error})", remedy=remedy) from error
        self.array.shape = shape
        self._has_blocks = True
        for index, inner, outer in overlaps(axes, self.array.chunks):
            piece = values[separately(outer, values.shape)]
            in_order = all(isinstance(part, slice) for part in inner)
            if in_order and piece.shape == self.array.chunks and index not in self._waiting:
                # a copy if it is written later: an iterator may give the same buffer again
                self._write(index, np.array(piece, order="C", copy=True if self._sink.is_later else None))
                continue
            waiting = self._waiting.pop(index, None)
            chunk, filled = (self._unfilled(index), 0) if waiting is None else waiting
            chunk[separately(inner, chunk.shape)] = piece
            if filled + piece.size >= chunk.size:
                self._write(index, chunk)
                continue
            self._waiting[index] = (chunk, filled + piece.size)
            while len(self._waiting) * self._chunk_bytes > self._waiting_bytes and len(self._waiting) > 1:
                oldest, (old, _) = self._waiting.popitem(last=False)
                self._write(oldest, old, is_full=False)
        return values.size * self._codec.dtype.itemsize

    def _grown(self, block: Any) -> tuple[int, ...]:
        """Return the shape of the array with a block. What selects a whole axis does not make it longer."""
        selection, given = full_key(block.selection, len(self.array.shape)), np.shape(block.data)
        # the end of the block on each axis; its length counts where the selection has no end
        is_whole = len(given) == len(selection)  # the data may have an axis for an integer index
        lengths, bounds = iter(given), list[int]()
        for item in selection:
            if isinstance(item, slice):
                length = next(lengths, 0)
                last = (item.start or 0) + (length - 1) * (item.step or 1) + 1 if length else 0
                bounds.append(int(last if item.stop is None else item.stop))
                continue
            positions = np.asarray(item)
            if is_whole or positions.ndim:
                next(lengths, 0)
            positions = np.flatnonzero(positions) if positions.dtype == bool else positions
            bounds.append(int(positions.max()) + 1 if positions.size else 0)
        shape = tuple(max(n, bound) for n, bound in zip(self.array.shape, bounds, strict=True))
        limits = zip(self.array.shape, bounds, self._maxshape, selection, strict=True)
        for axis, (n, bound, most, item) in enumerate(limits):
            if most is not None and bound > most:
                raise ValueError(f"it reaches beyond the maxshape {self._maxshape}")
            if self._has_blocks and bound > n and isinstance(item, slice) and item == slice(None):
                raise ValueError(f"it has {bound} values along axis {axis}, but the earlier blocks have {n}")
        return shape

    def _unfilled(self, index: Index) -> Array:
        """Return a new chunk, or one that had to be written before it was full."""
        if index in self._written:
            self._sink.flush()  # the chunk may still be in the queue
            data = self._shards.get(index) if self._shards is not None else self._change.reader.get(self._key(index))
            if data is not None:
                return self._codec.decode(data, self.array.chunks)
        return fill_array(self._encoded, self._codec.dtype, self.array.chunks)

    def _write(self, index: Index, chunk: Array, *, is_full: bool = True) -> None:
        self._written.add(index)
        self._sink.put(ValuesTask(self._change, self._path, self._codec, chunk, partial(self._set, index)))
        if self._shards is None:
            return
        full = self._full[shard_of(self.array, index)]
        full.discard(index)
        if is_full:
            full.add(index)
        if len(full) == self._shards.size:
            self._sink.flush()
            self._shards.write(shard_of(self.array, index), self._change)
            full.clear()

    def _set(self, index: Index, data: bytes) -> None:
        if self._shards is None:
            self._change.put(self._key(index), data)
        else:
            self._shards.set(index, data)

    def _key(self, index: Index) -> str:
        return join(self._path, self.array.chunk_name(index))

    def finish(self) -> None:
        """Write the chunks that are not full, and every chunk without a block."""
        # Files of this package have every chunk, so that a missing one is known to be lost. An iterator that was used
        # before gives no block at all, which would become an array of fill values.
        if self.array.size and not self._has_blocks and None not in self._maxshape:
            problem = f"the iterator has given no block of an array of shape {self.array.shape}"
            others = "give ZarrDataIO(shape=..., dtype=...) for an array of fill values."
            raise ValueRefusedError(problem, remedy=f"Create a new iterator for each write; {others}")
        while self._waiting:
            index, (chunk, _) = self._waiting.popitem(last=False)
            self._write(index, chunk, is_full=False)
        empty: bytes | None = None
        for index in indices_of(self.array.grid):
            if index in self._written:
                continue
            empty = empty or self._codec.encode(fill_array(self._encoded, self._codec.dtype, self.array.chunks))
            self._set(index, empty)
        if self._shards is not None:
            self._sink.flush()
            for shard in sorted(self._shards.shards()):
                self._shards.write(shard, self._change)
            self._shards.close()


def _shaped(data: Array, axes: list[Axis]) -> Array:
    """Return the values of a block with all axes of the array; a single value, or a row, is repeated."""
    # An axis that the data have is not repeated: ``[3]`` is a row that is too short.
    lengths = tuple(axis.length for axis in axes)
    kept = tuple(axis.length for axis in axes if not axis.drop)
    if data.shape in (lengths, kept):
        return data.reshape(lengths)
    if data.shape != kept[len(kept) - data.ndim :]:
        raise ValueError(f"the selection has the shape {kept}")
    return np.broadcast_to(data, kept).reshape(lengths)
