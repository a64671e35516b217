"""`ChunkReader`: reads selections of one array, and fetches and decodes only the parts of chunks that they need.

`ChunkCache` has the decoded chunks of one file: hdmf reads a table of references or strings row by row, and to decode
its chunk for each row would take quadratic time.

Keys are those of h5py, which hdmf, pynwb and their users expect: integers, slices, ``...``, a list of indices or a
boolean mask on an axis, a mask of the full shape, a field name. Beyond h5py, negative steps are allowed, lists in any
order and with repetitions, and lists on several axes, which apply separately.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.array.shards import ENTRY_BYTES, Index, ShardReader, inner_grid
from hdmf_zarr_backend.encoding import zarr2, zarr3
from hdmf_zarr_backend.encoding.blosc_blocks import DecodedRange, find_blocks, stated_bytes
from hdmf_zarr_backend.encoding.chunk_codec import ChunkCodec, reading_codec
from hdmf_zarr_backend.encoding.chunks import Array, Elements, StructRows
from hdmf_zarr_backend.encoding.dtypes import numpy_dtype
from hdmf_zarr_backend.encoding.fills import EMPTY_OBJECTS, fill_scalar
from hdmf_zarr_backend.encoding.lindi import external_of
from hdmf_zarr_backend.encoding.references import CELLS
from hdmf_zarr_backend.encoding.reserved import as_dict
from hdmf_zarr_backend.errors import RESTORE_CHUNK, ChunkError, MetadataError, StoreError, ZarrBackendError, at
from hdmf_zarr_backend.model.json_text import load
from hdmf_zarr_backend.model.nodes import StoredArray, join, relative
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.remote import cpus, in_threads

IntArray: TypeAlias = npt.NDArray[np.intp]
Positions: TypeAlias = slice | IntArray


@dataclass(slots=True)
class Axis:
    """The selection on one axis: ``indices``, or the range ``start, stop, step``; an integer drops the axis."""

    start: int
    stop: int
    step: int = 1
    indices: IntArray | None = None
    drop: bool = False

    @property
    def length(self) -> int:
        """Number of selected positions."""
        if self.indices is not None:
            return len(self.indices)
        # len(range(...)) fails beyond 2**63
        return max(0, -((self.start - self.stop) // self.step))

    def chunks(self, chunk: int) -> int:
        """Return an upper bound of the number of chunks of length ``chunk`` in `parts`."""
        if self.indices is not None:
            return len(self.indices)
        return max(0, (self.stop - 1) // chunk - self.start // chunk + 1)

    def parts(self, chunk: int) -> Iterator[tuple[int, Positions, Positions]]:
        """Yield the number of each chunk of length ``chunk`` with positions in it, and those in the result."""
        if self.indices is not None:
            numbers = self.indices // chunk
            for number in np.unique(numbers).tolist():
                where = np.flatnonzero(numbers == number)
                yield number, self.indices[where] - number * chunk, where
            return
        for number in range(self.start // chunk, (self.stop - 1) // chunk + 1):
            base = number * chunk
            first = max(0, -((self.start - base) // self.step))
            position = self.start + first * self.step
            end = min(self.stop, base + chunk)
            if position < end:
                count = len(range(position, end, self.step))
                yield number, slice(position - base, end - base, self.step), slice(first, first + count)


def normalise(key: Any, shape: tuple[int, ...]) -> list[Axis]:
    """Return the selection of ``key`` on each axis of an array of ``shape``."""
    return [_axis(item, length) for item, length in zip(full_key(key, len(shape)), shape, strict=True)]


def full_key(key: Any, ndim: int) -> list[Any]:
    """Return a key with an entry for each axis; an ellipsis stands for those that it leaves out."""
    keys = list(key) if isinstance(key, tuple) else [key]
    position = next((number for number, item in enumerate(keys) if item is Ellipsis), len(keys))
    before, after = keys[:position], keys[position + 1 :]
    if any(item is Ellipsis for item in after):
        raise IndexError("an index can only have a single ellipsis ('...')")
    given = len(before) + len(after)
    if given > ndim:
        raise IndexError(f"{given} indexing arguments for {ndim} dimensions")
    return [*before, *[slice(None)] * (ndim - given), *after]


def full_mask(key: Any, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], npt.NDArray[np.bool_]] | None:
    """Return the bounding box of a mask of the full shape, and the mask in it; None for any other key."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.ndim < 2:
        return None
    if mask.shape != shape:
        raise IndexError(f"a mask of shape {mask.shape} does not fit an array of shape {shape}")
    box: list[slice] = []
    for axis in range(mask.ndim):
        where = np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
        box.append(slice(int(where[0]), int(where[-1]) + 1) if where.size else slice(0, 0))
    return tuple(box), mask[tuple(box)]


def _axis(item: Any, length: int) -> Axis:
    """Return the selection of one item of a key."""
    if isinstance(item, slice):
        start, stop, step = item.indices(length)
        if step < 0:  # beyond h5py; as a list, since `Axis.parts` goes upwards
            return Axis(0, 0, indices=np.arange(start, stop, step, dtype=np.intp))
        return Axis(start, max(start, stop), step)
    if isinstance(item, Sized) and not isinstance(item, (str, bytes)) and getattr(item, "ndim", True):
        return Axis(0, 0, indices=_indices(item, length))
    try:
        if isinstance(item, (bool, np.bool_)):  # for `operator.index` it is 0 or 1
            raise TypeError("a truth value is not an index")
        index = operator.index(item.item() if isinstance(item, np.ndarray) else item)
    except (TypeError, ValueError) as error:
        raise IndexError(f"{item!r} is not an index: give integers, slices, lists of integers or masks") from error
    if not -length <= index < length:
        raise _out_of_range(index, length)
    index %= length
    return Axis(index, index + 1, drop=True)


def _out_of_range(index: int, length: int) -> IndexError:
    # in the words of h5py: `DynamicTable` of hdmf looks for them, and reports a row that does not exist
    return IndexError(f"Index ({index}) out of range for {f'(0-{length - 1})' if length else 'empty dimension'}")


def _indices(item: Any, length: int) -> IntArray:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise IndexError(f"{item!r} is not a list of indices ({error})") from error
    if array.dtype == bool:
        if array.shape != (length,):
            raise IndexError(f"a mask of shape {array.shape} does not fit an axis of length {length}")
        return np.flatnonzero(array)
    if not array.size:  # `[]` has the type float64 in NumPy
        return np.zeros(0, np.intp)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise IndexError(f"indices must be a list of integers, not {array.dtype} of {array.ndim} dimensions")
    outside = (array < -length) | (array >= length)
    if outside.any():
        raise _out_of_range(int(array[outside][0]), length)
    indices = array.astype(np.intp)  # zarr 2 and 3.1 make floats of unsigned indices of 64 bits, and refuse those
    return np.where(indices < 0, indices + length, indices)


class Overlap(NamedTuple):
    """The part of a selection in one chunk: its index, and on each axis the positions in it and in the result."""

    chunk: tuple[int, ...]
    inner: tuple[Positions, ...]
    outer: tuple[Positions, ...]


def overlaps(axes: Sequence[Axis], chunks: tuple[int, ...]) -> Iterator[Overlap]:
    """Return the part of a selection in each chunk of an array with chunks of that shape."""
    # products of the parts on each axis, without a loop in Python for each chunk
    parts = [list(axis.parts(chunk)) for axis, chunk in zip(axes, chunks, strict=True)]
    numbers = itertools.product(*[[part[0] for part in on_axis] for on_axis in parts])
    inner = itertools.product(*[[part[1] for part in on_axis] for on_axis in parts])
    outer = itertools.product(*[[part[2] for part in on_axis] for on_axis in parts])
    return map(Overlap, numbers, inner, outer)


def separately(parts: Sequence[Positions], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index that applies lists of positions to each axis of ``shape`` separately."""
    if sum(isinstance(part, np.ndarray) for part in parts) <= 1:
        return tuple(parts)  # slices do not copy
    lists = (np.arange(n)[part] if isinstance(part, slice) else part for part, n in zip(parts, shape, strict=True))
    return np.ix_(*lists)


def copy_part(source: Array, inner: Sequence[Positions], target: Array, outer: Sequence[Positions]) -> None:
    """Copy ``source[inner]`` to ``target[outer]``, with lists of positions applied to each axis separately."""
    target[separately(outer, target.shape)] = source[separately(inner, source.shape)]


# Decoded bytes, and number, of the chunks that are fetched together from a remote store: recordings have chunks of
# 16 MiB, and a slice of several should take the time of one request.
FETCHED_BYTES, FETCHED_CHUNKS = 2**27, 512
DECODERS = min(8, cpus())  # threads that decode; more would wait for memory
PARALLEL_BYTES = 2**22  # fewer bytes of values are decoded by one thread, which takes no CPU time for others
WINDOW_BYTES = 2**16  # chunks are kept for windows from here on: below, looking for an overlap takes as long as reading
BLOCKWISE_BYTES = 2**20  # a smaller chunk is always decoded completely
FEW = 16  # the most chunks of an array that may get larger chunks: 16 small ones are quickly written again


# ---- decoded chunks --------------------------------------------------------------------------------------------------

# Enough for the chunks of the columns of a table that is read row by row; a chunk may take a quarter of it, so that a
# large recording, which is read once, does not push them out.
CACHE_BYTES = 64 * 2**20
# The forms of a chunk in the cache, by suffixes that no key of a store has: the complete chunk, which must not be
# changed; its `Elements`; with a number, one of its blocks.
CHUNK, ELEMENTS, BLOCKS = "", "/#", "/@"


def memory_bytes(chunk: Array) -> int:
    """Return the memory that a chunk takes, estimated for objects."""
    # a reference is a `dict` with two or three texts, some 200 bytes; its `nbytes` are those of a pointer
    return chunk.size * 200 if chunk.dtype.hasobject else chunk.nbytes


class ChunkCache:
    """Decoded chunks by key, bounded in bytes: the least recently used are dropped, and those beyond ``largest``."""

    def __init__(self, max_bytes: int = CACHE_BYTES, *, largest: int | None = None) -> None:
        self._max = max_bytes
        self._largest = max_bytes // 4 if largest is None else largest
        self._bytes = 0
        self._chunks: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.RLock()  # arrays are read by threads, of dask for instance

    def __reduce__(self) -> tuple[type[ChunkCache], tuple[int]]:
        return ChunkCache, (self._max,)  # a copy, or another process, decodes for itself

    def fits(self, count: int, nbytes: int) -> bool:
        """Return whether so many chunks of ``nbytes`` are kept."""
        return nbytes <= self._largest and count * nbytes <= self._max

    def get(self, key: str, form: str = CHUNK) -> Any:
        """Return the chunk of ``key`` in one of its forms, None if it is not in the cache."""
        key += form
        with self._lock:
            entry = self._chunks.get(key)
            if entry is None:
                return None
            self._chunks.move_to_end(key)
            return entry[0]

    def put(self, key: str, chunk: Any, form: str = CHUNK) -> None:
        """Keep the chunk of ``key`` in one of its forms, all of which have ``nbytes``."""
        size = memory_bytes(chunk) if form == CHUNK else chunk.nbytes
        if size > self._largest:  # it would replace all others, and is mostly read once
            return
        key += form
        with self._lock:
            self.drop(key)
            self._chunks[key] = (chunk, size)
            self._bytes += size
            while self._bytes > self._max:
                self.drop(next(iter(self._chunks)))

    def drop(self, key: str) -> None:
        """Forget one chunk."""
        with self._lock:
            self._bytes -= self._chunks.pop(key, (None, 0))[1]

    def forget(self, path: str) -> None:
        """Forget all chunks of the array at ``path``."""
        with self._lock:
            for key in [key for key in self._chunks if key.startswith(f"{path}/")]:
                self.drop(key)


# ---- stored chunks ---------------------------------------------------------------------------------------------------


def absent_chunk(array: StoredArray, index: Index) -> ChunkError:
    """Return the error for a chunk that is not stored, where that is refused."""
    problem = f"the chunk {array.chunk_text(index)!r} is not stored"
    return ChunkError(problem, remedy='Restore it, or read with missing_chunks="fill".', remedy_cli=RESTORE_CHUNK)


def check_stored_form(array: StoredArray, index: Index, data: bytes) -> None:
    """Check what the stored bytes of a chunk state about themselves, without decoding them."""
    configs = array.codecs
    identity = str(configs[-1].get("id")) if configs else ""
    check, dtype = _CHECKS.get(identity), numpy_dtype(array.data_type)
    nbytes: int | None = math.prod(array.chunks) * dtype.itemsize  # before the last codec
    if dtype.hasobject or any(config.get("id") != "shuffle" for config in configs[:-1]):
        nbytes = None  # other codecs before it change the number
    if not data or (check is not None and not check(data, nbytes)):
        name = array.chunk_text(index)
        problem = f"the chunk {name!r} cannot be decoded: it is empty, cut short, or not a {identity or 'plain'} chunk"
        raise ChunkError(problem, remedy=RESTORE_CHUNK)


_CHECKS: dict[str, Callable[[bytes, int | None], bool]] = {
    "": lambda data, nbytes: nbytes in (None, len(data)),
    "blosc": lambda data, nbytes: (
        (stated := stated_bytes(data)) is not None and stated[1] == len(data) and nbytes in (None, stated[0])
    ),
    "lz4": lambda data, nbytes: len(data) > 4 and nbytes in (None, int.from_bytes(data[:4], "little")),
    "zlib": lambda data, nbytes: len(data) > 6 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0,
    "gzip": lambda data, nbytes: (
        data[:2] == b"\x1f\x8b" and (nbytes is None or nbytes >= 2**32 or int.from_bytes(data[-4:], "little") == nbytes)
    ),
    "bz2": lambda data, nbytes: data[:3] == b"BZh",
    "zstd": lambda data, nbytes: data[:4] == b"\x28\xb5\x2f\xfd",
    "fletcher32": lambda data, nbytes: nbytes in (None, len(data) - 4),
}
_CHECKS |= {"shuffle": _CHECKS[""], "crc32": _CHECKS["fletcher32"], "adler32": _CHECKS["fletcher32"]}


# ---- fill values ----------------------------------------------------------------------------------------------------
# Source: Zarr v2 specification, "Fill value encoding".


def fill_array(stored: StoredArray, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return the content of a chunk that is not stored: without a fill value zero, empty text or None, as in zarr."""
    elsewhere = external_of(stored)
    if elsewhere is not None:
        url, name = elsewhere
        problem = f"the values are not in this file, but in the dataset {name!r} of {url}"
        remedy = f"Make references that have them: `zarrio convert {url} x.nwb.zarr.json --to virtual`."
        raise ChunkError(problem, remedy=remedy)
    array: Array = np.zeros(shape, dtype) if not dtype.hasobject else np.empty(shape, dtype)
    value = fill_scalar(stored, dtype)
    if value is None and zarr3.has_records(stored):
        rows = StructRows(stored.first_filter["fields"], numpy_dtype)
        return rows.cells(np.zeros(math.prod(shape[:-1]), rows.dtype)).reshape(shape)
    if value is None and dtype.kind == "O":
        value = EMPTY_OBJECTS.get(stored.first_filter.get("id"))
    if value is not None:
        array[...] = value
    return array


def check_unwritten(store: Store, path: str, array: StoredArray) -> None:
    """Make sure that the chunks that an array lacks are few enough to be created; keys are listed only if needed."""
    limits = store.read_rules.limits
    # each chunk becomes an object in the copy, which has costs of its own
    cost = max(math.prod(array.chunks) * numpy_dtype(array.data_type).itemsize, 2**16)
    stated = math.prod(array.grid)
    if stated * cost <= limits.max_unwritten_bytes:
        return
    stored = 0
    if store.abilities.listing:
        objects = sum(key.rpartition("/")[2] not in DOCUMENTS for key in store.list_prefix(path))
        # the index of a shard has an entry for each of its chunks
        stored = objects * min(math.prod(inner_grid(array)), limits.max_stored_bytes // ENTRY_BYTES)
    absent = stated - stored
    what = f"{stated:,} chunks are stated, and at most {stored:,} of them are stored"
    with at(store, path):
        limits.check("max_unwritten_bytes", absent * cost, what)


# ---- the reader ------------------------------------------------------------------------------------------------------


class ChunkReader:
    """Reads selections of one array.

    An array that is open for changes has ``changed``, which returns the chunk at an index if it was changed and is not
    written yet, else None; and ``cut``, which returns what is left of a stored chunk if the array became smaller.
    """

    def __init__(self, store: Store, path: str, array: StoredArray, cache: ChunkCache) -> None:
        self.store = store
        self.path = path
        self.array = array
        self.cache = cache
        self.changed: Callable[[Index], Array | None] | None = None
        self.cut: Callable[[Index, Array], Array] | None = None
        self.is_closed: Callable[[], bool] | None = None  # of an array with ``changed``: others may change it now
        self.is_kept_open = False  # by a program, while others may remove the array
        self._codec_inputs: Any = (None, None)
        self._rules = store.read_rules
        self._allowed: Any = None
        self._codec: ChunkCodec | None = None  # made on use: an array is looked at whose codec is not known
        self._is_remote = store.abilities.is_remote  # a request takes longer than decoding a chunk
        # a part of a file never costs more than all of it, as it would on a server
        self._opens = array.shards is None and store.folder is not None
        self._fetched_chunks: dict[Index, bytes | None] = {}
        self._block_bytes = 1  # of the blocks that were decoded last
        self._last: list[tuple[int, int, int]] = []  # bounds of the selection before
        self._was_window = False
        self._of_window: set[str] = set()  # chunks in the cache because of it
        self._shards = None if array.shards is None else ShardReader(store, path, array)

    def _stored(self, index: Index) -> bytes | None:
        """Return the stored bytes of the chunk at ``index``, None if it is not stored."""
        self._check_chunk()
        if self._is_lost(index):
            return None
        if index in self._fetched_chunks:
            return self._fetched_chunks[index]
        if self._shards is not None:
            return self._shards.get(index)
        return self.store.get(join(self.path, self.array.chunk_name(index)))

    def _is_lost(self, index: Index) -> bool:
        return self.store.read_rules.is_lost(self.path, index)

    def _check_chunk(self) -> None:
        """Refuse to read chunks that are larger than the limit, before memory is allocated for one."""
        limits, chunks = self._rules.limits, self.array.chunks
        if self._allowed is chunks:
            return
        size = math.prod(chunks) * self.codec.dtype.itemsize
        with at(self.store, self.path):
            limits.check("max_chunk_bytes", size, f"chunks {chunks} have {size:,} bytes each")
        self._allowed = chunks

    @property
    def codec(self) -> ChunkCodec:
        """The codec of the chunks; replaced when the data type or the filters of the array change."""
        data_type, filters = self._codec_inputs
        if self._codec is None or data_type is not self.array.data_type or filters is not self.array.filters:
            self._codec_inputs = self.array.data_type, self.array.filters
            with at(self.store, self.path):
                self._codec = reading_codec(self.array, self._rules)
        return self._codec

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of decoded chunks, which is known without the codec."""
        if self._codec is not None:
            return self.codec.dtype
        with at(self.store, self.path):
            return numpy_dtype(self.array.data_type)

    def read(self, key: Any = ()) -> Array:
        """Return what ``key`` selects, always as an array (0-d for a single element)."""
        # a table with ragged columns reads two elements for each row
        if (piece := self._piece(key)) is not None:
            return piece
        masked = full_mask(key, self.array.shape)
        if masked is not None:
            return self.read(masked[0])[masked[1]]
        axes = normalise(key, self.array.shape)
        lengths = tuple(axis.length for axis in axes)
        size = math.prod(lengths) * self.codec.dtype.itemsize
        count = math.prod(axis.chunks(chunk) for axis, chunk in zip(axes, self.array.chunks, strict=True))
        advice = "Read a smaller part at a time. "
        with at(self.store, self.path):  # before memory is allocated
            limits = self._rules.limits
            limits.check("max_read_bytes", size, f"{size:,} bytes are requested at once", advice)
            limits.check("max_read_chunks", count, f"{count:,} chunks are requested at once", advice)
        result = np.empty(lengths, self.codec.dtype)
        parts, is_kept = overlaps(axes, self.array.chunks), False
        if result.nbytes >= WINDOW_BYTES:
            parts, is_kept = self._kept(axes, parts, count)
        # codecs of numbers run without the lock of the interpreter, but those of other packages may not be made for
        # threads; changes are under a lock that this thread has
        is_shareable = self.changed is None and not self.codec.is_object and not self.codec.plug_ins
        threads = DECODERS if result.nbytes >= PARALLEL_BYTES and is_shareable else 1
        for reader, batch in self._fetching(parts, FETCHED_BYTES):
            if threads > 1:
                in_threads(functools.partial(reader._load, result=result, is_kept=is_kept), batch, threads)
            else:
                for part in batch:
                    reader._load(part, result, is_kept=is_kept)
        return result.reshape(tuple(axis.length for axis in axes if not axis.drop))

    def _load(self, part: Overlap, result: Array, *, is_kept: bool) -> None:
        """Fill the part of ``result`` in one chunk, which is kept in the cache or decoded where it is needed."""
        if is_kept or not (self._load_blocks(part, result) or self._load_into(part, result)):
            copy_part(self.chunk(part.chunk), part.inner, result, part.outer)

    def _kept(self, axes: list[Axis], parts: Iterator[Overlap], count: int) -> tuple[Iterator[Overlap], bool]:
        """Return the parts of a selection, and whether their ``count`` chunks are kept, however large or complete."""
        # They are if it begins inside of the one before, as windows do: the next window begins inside of this one. The
        # first selection after such windows may begin others, as in each batch of a data loader.
        bounds = [(axis.start, axis.stop, axis.step) for axis in axes if axis.indices is None]
        before, self._last = self._last, bounds
        is_window = 0 < len(before) == len(bounds) == len(axes) and before[1:] == bounds[1:]
        is_window = is_window and before[0][0] < bounds[0][0] < before[0][1]
        is_kept, self._was_window = is_window or self._was_window, is_window
        is_kept &= self.cache.fits(count, math.prod(self.array.chunks) * self.codec.dtype.itemsize)
        listed = list(parts) if is_kept else []
        names = {join(self.path, self.array.chunk_name(part.chunk)) for part in listed}
        for name in self._of_window - names:  # the window has moved on
            self.cache.drop(name)
        self._of_window = names
        return (iter(listed), True) if is_kept else (parts, False)

    def _fetching(self, parts: Iterator[Overlap], nbytes: int) -> Iterable[tuple[ChunkReader, Iterable[Overlap]]]:
        """Return parts of a selection with their reader; of a remote store, as many together as have ``nbytes``."""
        if not self._is_remote:
            return [(self, parts)]
        count = max(1, min(nbytes // max(1, math.prod(self.array.chunks) * self.dtype.itemsize), FETCHED_CHUNKS))
        batches = iter(lambda: list(itertools.islice(parts, count)), [])
        return (self._fetched(batch) if len(batch) > 1 else (self, batch) for batch in batches)

    def chunks(self, nbytes: int, indices: Iterable[Index]) -> Iterator[tuple[Index, Array]]:
        """Yield the chunks at ``indices`` with these; of a remote store, ``nbytes`` are fetched together."""
        for reader, batch in self._fetching((Overlap(index, (), ()) for index in indices), nbytes):
            for part in batch:
                yield part.chunk, reader.chunk(part.chunk)

    def _fetched(self, batch: list[Overlap]) -> tuple[ChunkReader, Iterator[Overlap]]:
        """Return a reader of a batch of remote chunks, and the parts, each when the bytes of its chunk are there."""
        names = {part.chunk: join(self.path, self.array.chunk_name(part.chunk)) for part in batch}
        missing = [index for index in names if self.cache.get(names[index]) is None and not self._is_lost(index)]
        if self.changed is not None:
            missing = [index for index in missing if self.changed(index) is None]
        reader = copy.copy(self)  # threads that read other parts do not see these
        if self._shards is not None:
            reader._fetched_chunks = self._shards.get_many(missing)
            return reader, iter(batch)
        stored, requested = self.store.get_each([names[index] for index in missing]), set(missing)
        reader._fetched_chunks = {}

        def arriving() -> Iterator[Overlap]:
            for part in batch:  # each is decoded while the next ones are under way
                if part.chunk in requested:
                    reader._fetched_chunks[part.chunk] = next(stored)
                yield part

        return reader, arriving()

    def _load_into(self, part: Overlap, result: Array) -> bool:
        """Decode a completely selected chunk straight into ``result``, uncached; return False if that is impossible."""
        if not self.codec.decodes_in_place or self.changed is not None:
            return False
        target = _direct_target(part, result, self.array.chunks)
        if target is None:
            return False
        key = join(self.path, self.array.chunk_name(part.chunk))
        if self.cache.get(key) is not None or (data := self._stored(part.chunk)) is None:
            return False
        self._decoded(part.chunk, data, out=target)
        return True

    def _load_blocks(self, part: Overlap, result: Array) -> bool:
        """Decode the blocks of a large chunk that hold the selected rows; return False if that is impossible."""
        rows = part.inner[0] if part.inner else None
        if not self._has_blocks or not isinstance(rows, slice) or rows.step not in (None, 1):
            return False
        first, stop, _ = rows.indices(self.array.chunks[0])
        index, key = part.chunk, join(self.path, self.array.chunk_name(part.chunk))
        is_complete = stop - first >= self.array.chunks[0]
        if (is_complete and not self._opens) or self.cache.get(key) is not None:
            return False
        shape = (stop - first, *self.array.chunks[1:])
        target = _direct_target(part, result, shape)
        read = np.empty(shape, self.codec.dtype) if target is None else target
        flat, nbytes = read.reshape(-1).view(np.uint8), math.prod(self.array.chunks) * self.codec.dtype.itemsize
        try:
            if not self._read_range(flat, first * (flat.size // (stop - first)), index, nbytes):
                return False
            self.codec.check(read, functools.partial(self._named, index))
        except ChunkError as error:
            raise self._explained(error) from error.__cause__
        if target is None:
            copy_part(read, (slice(None), *part.inner[1:]), result, part.outer)
        return True

    def _read_range(self, out: npt.NDArray[np.uint8], start: int, index: Index, nbytes: int) -> bool:
        """Fill ``out`` with the bytes from ``start`` of a chunk of ``nbytes``, decoded; return False without blocks."""
        key = join(self.path, self.array.chunk_name(index))
        # by the block of its last byte, which the next row needs; a wrong guess of their length is a miss
        last = start + out.size - 1
        known: DecodedRange | None = self.cache.get(key, f"{BLOCKS}{last // self._block_bytes}")
        if known is not None and known.copy_to(out, start):
            return True
        self._check_chunk()
        value = self.store.open_value(key) if self._opens and not self._is_lost(index) else None
        with nullcontext(self._stored(index)) if value is None else value as stored:
            blocks = None if stored is None else find_blocks(stored, nbytes)
            if blocks is None:
                return False
            decode = functools.partial(self.codec.decode_blocks, what=functools.partial(self._named, index))
            beyond = blocks.read_into(out, start, decode)
        if beyond is not None and out.size <= blocks.length:  # reading row by row needs them again
            self._block_bytes = blocks.length
            self.cache.put(key, beyond, f"{BLOCKS}{last // blocks.length}")
        return True

    @property
    def _has_blocks(self) -> bool:
        """Whether part of a chunk is cheaper than the complete chunk: chunks are large, and their store is local."""
        if self._is_remote or self.changed is not None or not self.codec.has_blocks:
            return False
        return math.prod(self.array.chunks) * self.codec.dtype.itemsize >= BLOCKWISE_BYTES

    def _piece(self, key: Any) -> Array | None:
        """Return an element or a range of a 1-d array within one chunk: the fast path for ragged columns."""
        if len(self.array.shape) != 1:
            return None
        length, size = self.array.shape[0], self.array.chunks[0]
        if type(key) is slice and key.step in (None, 1):
            start, stop, _ = key.indices(length)
        elif type(key) is int or isinstance(key, np.integer):
            start = int(key) + (length if key < 0 else 0)
            if not 0 <= start < length:
                return None
            stop = start + 1
        else:
            return None
        number = start // size
        if start >= stop or (stop - 1) // size != number or (stop - start == size and not self.codec.is_object):
            return None
        if self._has_blocks or (stop - start) * self.codec.dtype.itemsize > self._rules.limits.max_read_bytes:
            return None
        piece = self.chunk((number,))[start - number * size : stop - number * size].copy()
        return piece if type(key) is slice else piece.reshape(())

    def element(self, position: int) -> Any:
        """Return one element along the first axis of an array of references or rows, without decoding its chunk."""
        array = self.array
        index = (position // array.chunks[0], *(0 for _ in array.shape[1:]))
        key = join(self.path, array.chunk_name(index))
        if self.changed is not None or array.shape[1:] != array.chunks[1:] or self.cache.get(key) is not None:
            raise LookupError(key)
        split: Elements | None = self.cache.get(key, ELEMENTS)
        if split is None:
            row = self._row(position, index)
            if row is not None:
                return row
            data, most = self._stored(index), self._rules.limits.max_object_bytes
            split = None if data is None else self.codec.split(data, max_object_bytes=most)
            if split is None or split.shape[:1] != array.chunks[:1]:
                raise LookupError(key)
            self.cache.put(key, split, ELEMENTS)
        try:
            return split[position % array.chunks[0]]
        except ValueError as error:
            raise LookupError(key) from error

    def _row(self, position: int, index: Index) -> list[Any] | None:
        """Return one row from its block of the chunk at ``index``, None if it has to be decoded with its chunk."""
        rows = self.codec.rows_in_blocks
        if rows is None or self._is_remote:
            return None
        count, size = self.array.chunks[0], rows.dtype.itemsize
        record = np.empty(size, np.uint8)
        try:
            is_read = self._read_range(record, position % count * size, index, count * size)
            return rows.cells(record.view(rows.dtype))[0].tolist() if is_read else None
        except (ChunkError, UnicodeDecodeError, ValueError):
            return None  # decoding the chunk raises the error

    def chunk(self, index: Index) -> Array:
        """Return the complete decoded chunk at ``index``; the caller must not change it."""
        key = join(self.path, self.array.chunk_name(index))
        if self.changed is not None and (changed := self.changed(index)) is not None:
            return changed
        chunk: Array | None = self.cache.get(key)
        if chunk is None:
            chunk = self._decoded(index, self._stored(index))
            self.cache.put(key, chunk)
        return chunk if self.cut is None else self.cut(index, chunk)

    def forget(self) -> None:
        """Forget the decoded chunks, which have been rewritten."""
        self.cache.forget(self.path)
        if self._shards is not None:
            self._shards.forget()

    def _decoded(self, index: Index, data: bytes | None, *, out: Array | None = None) -> Array:
        """Return a chunk as `decode` does; if its shard was replaced meanwhile, read the index again."""
        try:
            return self.decode(index, data, out=out)
        except ChunkError:
            if self._shards is None:
                raise
            # the index may be that of the shard before; a replaced chunk without a shard is read in one request
            self._shards.forget()
            chunk = self.decode(index, self._shards.get(index))
            if out is not None:
                out[...] = chunk
            return chunk

    def decode(self, index: Index, data: bytes | None, *, out: Array | None = None) -> Array:
        """Return the chunk at ``index`` from its stored bytes (None: the fill value), if possible in ``out``."""
        self._check_chunk()
        try:
            if data is None:
                if self.store.read_rules.refuses_absent:
                    raise absent_chunk(self.array, index)
                # it would read as the fill value; the document is read again for arrays that may get larger chunks, and
                # in files that have all chunks
                is_few = self.array.shards is None and math.prod(self.array.grid) <= FEW
                may_be_old = (is_few or self.store.read_rules.is_whole) and self._may_be_old
                if may_be_old and (error := self._error_of_change()) is not None:
                    raise error
                return fill_array(self.array, self.codec.dtype, self.array.chunks)
            most = self._rules.limits.max_object_bytes
            what = functools.partial(self._named, index)
            return self.codec.decode(data, self.array.chunks, out=out, max_object_bytes=most, what=what)
        except ZarrBackendError as error:
            raise self._explained(error) from error.__cause__

    @property
    def _may_be_old(self) -> bool:
        return self.changed is None or bool(self.is_closed and self.is_closed())

    def _named(self, index: Index) -> str:
        return f"the chunk {self.array.chunk_text(index)!r}"

    def _explained(self, error: ZarrBackendError) -> ZarrBackendError:
        """Return an error with its place, or that of an array that was changed while it was open."""
        if isinstance(error, ChunkError) and self._may_be_old:
            error = self._error_of_change() or error
        error.locate(self.store, self.path)
        return error

    def _error_of_change(self) -> StoreError | None:
        """Return the error for a chunk that is absent or does not decode because its array was changed, else None."""
        array, may_be_gone = self.array, self.is_kept_open and not self.changed
        own = array.shape, array.chunks, array.data_type, array.codecs
        known = own if array.original is None else zarr3.stated_as_read(array)
        # in a file of LINDI the model has other filters than the document, and more axes
        of_model = array.original is None and array.stored_axes is not None
        if known is None or of_model or CELLS in array.first_filter:
            return None
        what: str | None = None
        for stored in _stated_now(self.store, self.path, array):
            if stored is None:
                what = what or ("removed or renamed" if may_be_gone else None)
                continue
            given = zip(("other chunks", "another data type", "another codec"), known[1:], stored[1:], strict=True)
            what = next((f"given {what}" for what, one, other in given if one != other), None)
            if what is None and may_be_gone and any(n < m for n, m in zip(stored[0], known[0], strict=False)):
                what = "made smaller"
            if what is None:
                return None
        problem = f"the array was {what} while it was open"
        return None if what is None else StoreError(problem, remedy="Open the file again.")


def _direct_target(part: Overlap, result: Array, shape: Index) -> Array | None:
    """Return the part of ``result`` that a decoder can fill with values of ``shape``, None if they must be copied."""
    for positions in part.outer:
        if not isinstance(positions, slice) or positions.step not in (None, 1):
            return None
    target = result[(*part.outer, ...)]  # a view, of an array without axes too
    return target if target.shape == shape and target.flags.c_contiguous else None


# ---- arrays that another writer has changed --------------------------------------------------------------------------
# Another writer may give an array other chunks, elements or codecs while it is open here. They are stored under the
# names of the old chunks, after the document that describes them. Old chunks that are not needed are deleted when the
# change is complete.


def _stated_now(store: Store, path: str, array: StoredArray) -> Iterator[tuple[Index, Index, Any, Any] | None]:
    """Yield shape, chunks, data type and codecs as the own and the consolidated document of an array state them now."""
    # if they contradict each other in a file that no one has changed, a chunk is damaged, and the array is not old
    name, first = (zarr2.ARRAY, zarr2.CONSOLIDATED) if array.original is None else (zarr3.DOCUMENT, zarr3.DOCUMENT)
    own = join(path, name)
    for key in dict.fromkeys((own, first)):  # one key for an array of format 3 without a group around it
        text = store.unwrapped.get(key)
        # a damaged document states nothing: the other may be intact, and `verify` reports it
        with suppress(MetadataError):
            document: Any = None if text is None else load(text, key=key)
            if document is not None and key != own:
                is_v2 = name == zarr2.ARRAY
                block = as_dict(as_dict(document).get(zarr3.CONSOLIDATED)).get("metadata")
                listed = zarr2.unwrap(document) if is_v2 else as_dict(block)
                wanted = own if is_v2 else path
                document = listed.get(wanted)
                if document is None:
                    document = next((listed[each] for each in listed if relative(each) == wanted), None)
            if document is None:
                yield None
            elif name == zarr2.ARRAY:
                stored = zarr2.parse_array(document, {}, path).stored
                yield stored.shape, stored.chunks, stored.data_type, stored.codecs
            else:
                is_array = zarr3.check_document(document, path) is not None
                yield zarr3.stated(document) if is_array else None
