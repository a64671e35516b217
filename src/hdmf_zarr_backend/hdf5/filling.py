"""`Filler`: writes the values of Zarr arrays to HDF5 datasets that exist already, in one of three ways.

*kept*: the dataset has the chunks and filters of the array, so stored chunks are copied as they are. *encoded*: workers
decode blocks of the array and encode chunks of the dataset, without HDF5's lock. *written*: workers decode, and HDF5
stores the values. Text, references and rows are converted in this process, because references belong to the open file.

Only this thread calls HDF5, in the order of the blocks, so equal input gives equal files with any executor.

Source: HDF5 reference manual, `H5Dwrite_chunk`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import h5py
import numpy as np
from h5py import h5d, h5s

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.codecs import ChunkCodec
from hdmf_zarr_backend.arrays.fills import check_unwritten, fill_array
from hdmf_zarr_backend.arrays.objects import in_layout
from hdmf_zarr_backend.arrays.stored_chunks import check_stored_form
from hdmf_zarr_backend.errors import ChunkError, MetadataError, StoreError, ZarrBackendError, at
from hdmf_zarr_backend.execution.executors import runner
from hdmf_zarr_backend.execution.tasks import chunk_indices, region_of, task_bytes_for, whole_chunk
from hdmf_zarr_backend.formats.dtypes import numpy_dtype
from hdmf_zarr_backend.formats.links import LinkedFile
from hdmf_zarr_backend.formats.references import Reference
from hdmf_zarr_backend.hdf5.attributes import refer_json, refusing
from hdmf_zarr_backend.hdf5.chunks import Index
from hdmf_zarr_backend.hdf5.datasets import DatasetForm, stored_fill
from hdmf_zarr_backend.hdf5.filters import CodecPipeline, codecs_of, filters_of, pipeline_of
from hdmf_zarr_backend.hdf5.placement import Placed
from hdmf_zarr_backend.hdf5.rawcopy import Region, write_direct
from hdmf_zarr_backend.hdf5.reader import OpenGroups
from hdmf_zarr_backend.hdf5.types import OBJECT, REGION, is_same_layout, memory_type, raw_of
from hdmf_zarr_backend.hdf5.values import Array, array_of, decode, decode_text
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, absolute, join
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.failures import resource_failure

BLOCK_BYTES = 8 * 2**20
"""Bytes of one block; more if one chunk of the array or of the dataset is larger."""

Lengths = tuple[int, ...]
Encoded: TypeAlias = list[tuple[Index, bytes]]

_ENOUGH_BYTES = 2**20
_OBJECT_BYTES = 256
_MOST_AXES = 4
_LARGE_BYTES = 2**20
_CACHE_SHARE = 4  # the fraction 1/4 of the budget, for chunks that belong to two blocks


@dataclass(slots=True)
class _Target:
    """A dataset to fill, and how."""

    placed: Placed
    form: DatasetForm
    node: Dataset[Attributes]
    dataset: Any
    refer: Callable[[Any], Any]
    chunks: Index | None = None
    pipeline: CodecPipeline | None = None
    is_kept: bool = False

    @property
    def is_for_workers(self) -> bool:
        nbytes = self.node.stored.size * numpy_dtype(self.node.stored.data_type).itemsize
        return self.form.stored_as == "plain" and bool(self.form.shape) and nbytes > _LARGE_BYTES

    def values(self, block: Array, shape: tuple[int, ...]) -> Array:
        """Return a block of the array in the memory layout of the dataset."""
        dtype: np.dtype[Any] = self.dataset.get_type().dtype
        kind, stored_as = self.form.type, self.form.stored_as
        try:
            if stored_as == "rows":
                return self._rows(block, shape, dtype)
            if stored_as == "objects":
                convert = self.refer if kind in (OBJECT, REGION) else _text
                return array_of([convert(item) for item in block.flat], shape, dtype)
            base = dtype.base
            if base.names is not None and block.dtype != base:
                block = in_layout(block, base)
            return block.astype(base, copy=False).reshape((*shape, *dtype.shape))
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            if isinstance(error, ZarrBackendError):
                raise
            raise MetadataError(f"the values do not fit the type {kind!r} ({error})") from error

    def _rows(self, block: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        fields = self.form.type["fields"]  # type: ignore[index]
        is_flat = block.dtype == object and block.ndim > len(shape)
        rows = block.reshape(-1, len(fields)) if is_flat else block.reshape(-1)
        made: Array = np.empty(len(rows), dtype)
        for column, (name, kind) in enumerate(fields):
            values = [decode(row[column], kind, dtype[name], self.refer) for row in rows]
            made[name] = array_of(values, (len(rows),), dtype[name])
        return made.reshape(shape)


def _text(item: Any) -> bytes:
    if isinstance(item, (str, bytes)):
        return decode_text(item)
    raise TypeError(f"{item!r} is not text")


class Filler:
    """Fills the datasets of a new HDF5 file."""

    def __init__(
        self,
        groups: OpenGroups,
        refer: Callable[[Reference, LinkedFile], Any],
        options: WriteOptions,
        advance: Callable[[str, int], None],
    ) -> None:
        self._groups = groups
        self._refer = refer
        self._options = options
        self._advance = advance
        self._cache_bytes = options.memory_budget // _CACHE_SHARE
        self._caches: dict[str, ChunkCache] = {}

    def fill(self, planned: list[tuple[Placed, DatasetForm]]) -> None:
        """Write all values."""
        later: list[_Target] = []
        for placed, form in planned:
            assert isinstance(placed.node, Dataset)
            if not placed.node.stored.size:
                continue
            with named(placed):
                check_unwritten(placed.file.store, placed.own, placed.node.stored)
                target = self._target(placed, placed.node, form)
                if target.is_for_workers and not target.is_kept:
                    later.append(target)
                    continue
                if target.is_kept:
                    write_direct(h5py.Dataset(target.dataset), self._stored(target))
                else:
                    for task in self._tasks(target, 0):
                        self._put(target, task, task.run())
                    _encode_cached(target)
        if later:
            with runner(self._options.executor) as pool:
                budget = self._options.memory_budget - self._cache_bytes
                most = task_bytes_for(budget, pool.workers)
                tasks = (task for number, target in enumerate(later) for task in self._tasks(target, most, number))
                for done, result in pool.run(tasks, budget=budget, in_order=True):
                    assert isinstance(done, BlockTask)
                    target = later[done.number]
                    with named(target.placed):
                        self._put(target, done, result)
            for target in later:
                _encode_cached(target)

    def _target(self, placed: Placed, node: Dataset[Attributes], form: DatasetForm) -> _Target:
        stored = node.stored
        dataset = h5d.open(*self._groups.within(raw_of(absolute(placed.path))))
        file = placed.file
        refer = refer_json(lambda reference: self._refer(reference, file))
        target = _Target(placed, form, node, dataset, refer)
        created = dataset.get_create_plist()
        if created.get_layout() != h5d.CHUNKED:
            return target
        target.chunks = tuple(created.get_chunk())
        if form.stored_as != "plain":
            return target
        dtype, inner = numpy_dtype(stored.data_type), stored.shape[len(form.shape) :]
        if not is_same_layout(form.type, np.dtype((dtype, inner)) if inner else dtype):
            return target
        filters = filters_of(created)
        target.pipeline = codecs_of(filters, dtype)
        if target.chunks == stored.chunks and stored.shards is None and stored.order == "C":
            own = pipeline_of(stored.filters, stored.compressor, dtype, noted=filters)
            target.is_kept = own is not None and [step[0] for step in own] == [step[0] for step in filters]
        return target

    def _stored(self, target: _Target) -> Iterator[tuple[Index, bytes | None]]:
        """Yield the chunks of an array as stored; None if HDF5 reads the same fill value without a chunk."""
        node, keys, own = target.node, target.placed.file.store, target.placed.own
        dtype = numpy_dtype(node.stored.data_type)
        missing = None
        if not _fills_alike(target.dataset, node.stored, dtype):
            codec = ChunkCodec(node.stored.data_type, node.stored.filters, node.stored.compressor, "C")
            missing = codec.encode(fill_array(node.stored, dtype, node.stored.chunks))
        for index in chunk_indices(node.stored):
            name = node.stored.chunk_name(index)
            data = keys.get(join(own, name))
            if data is not None:
                check_stored_form(node.stored, name, data)
            elif keys.read_rules.refuses_absent:
                raise ChunkError(
                    f"the chunk {name!r} is not stored",
                    remedy='Restore it, or convert with missing_chunks="fill".',
                    remedy_cli="Restore it, or use --missing-chunks fill.",
                )
            yield index, missing if data is None else data
            lengths = (part.stop - part.start for part in region_of(node.stored, index))
            self._advance(absolute(target.placed.path), math.prod(lengths) * dtype.itemsize)

    def _tasks(self, target: _Target, most: int, number: int = 0) -> Iterator[BlockTask]:
        """Yield the blocks of an array, each of at most ``most`` bytes; ``most`` is 0 for blocks that stay here."""
        placed, node = target.placed, target.node
        cache = self._caches.setdefault(placed.file.location, ChunkCache(self._cache_bytes))
        size = min(BLOCK_BYTES, most or BLOCK_BYTES)
        pipeline = target.pipeline if most else None
        for region in block_slices(node.stored, target.form.shape, target.chunks, block_bytes=size, most_bytes=most):
            yield BlockTask(placed.file.store, placed.own, node, region, cache, target.chunks or (), pipeline, number)
        cache.forget(placed.own)

    def _put(self, target: _Target, task: BlockTask, result: Any) -> None:
        if task.pipeline is None:
            _write(target, task.region, result)
        else:
            write_direct(h5py.Dataset(target.dataset), result)
        self._advance(absolute(target.placed.path), task.nbytes)


def _write(target: _Target, region: Region, block: Array) -> None:
    dataset, tid = target.dataset, target.dataset.get_type()
    memory = memory_type(tid, writing=True)
    lengths = tuple(part.stop - part.start for part in region)
    values = np.ascontiguousarray(target.values(block, lengths))
    with refusing():
        if lengths:
            space = dataset.get_space()
            space.select_hyperslab(tuple(part.start for part in region), lengths)
            dataset.write(h5s.create_simple(lengths), space, values, memory)
        else:
            dataset.write(h5s.ALL, h5s.ALL, values.reshape(tid.dtype.shape), memory)


def _encode_cached(target: _Target) -> None:
    """Let HDF5 encode the chunks that it holds: when it closes a dataset, the errors of its filters are not raised."""
    if target.chunks and target.dataset.get_create_plist().get_nfilters():
        target.dataset.flush()


def _fills_alike(dataset: Any, stored: StoredArray, dtype: np.dtype[Any]) -> bool:
    """Tell whether HDF5 and Zarr read the same values for missing chunks; False if h5py may be unable to tell."""
    if dtype.kind not in "biufc":
        return False
    return stored_fill(dataset.get_create_plist(), dtype).tobytes() == fill_array(stored, dtype, ()).tobytes()


def named(placed: Placed) -> AbstractContextManager[None]:
    """Add the node to errors raised in this block."""
    return writing_at(placed.file.location, absolute(placed.own))


@contextmanager
def writing_at(store: str, path: str) -> Iterator[None]:
    """Add store and path to errors raised in this block, also to those of the system."""
    try:
        yield
    except ZarrBackendError as error:
        error.locate(store, path)
        raise
    except OSError as error:
        error.add_note(f"while writing {path!r} of {store!r}")
        raise


# ---- blocks ---------------------------------------------------------------------------------------------------------


def block_slices(
    stored: StoredArray,
    shape: tuple[int, ...],
    chunks: tuple[int, ...] | None,
    *,
    block_bytes: int = BLOCK_BYTES,
    most_bytes: int = 0,
) -> Iterator[Region]:
    """Yield regions that together cover a dataset.

    A region consists of complete HDF5 chunks, so each of those is compressed once. Of the possible shapes, the one is
    chosen that decodes the fewest Zarr chunks: each once, if a common multiple of both chunk shapes fits.
    """
    steps = _block_shape(stored, shape, chunks, block_bytes, most_bytes)
    for corner in itertools.product(*(range(0, n, step) for n, step in zip(shape, steps, strict=True))):
        yield tuple(slice(c, min(c + step, n)) for c, step, n in zip(corner, steps, shape, strict=True))


def _block_shape(
    stored: StoredArray, shape: Lengths, chunks: Lengths | None, block_bytes: int, most_bytes: int
) -> Lengths:
    """Return the shape of the regions; parameters as in `block_slices`."""
    dtype = numpy_dtype(stored.data_type)
    itemsize = (_OBJECT_BYTES if dtype.hasobject else dtype.itemsize) * math.prod(stored.shape[len(shape) :])
    own = tuple(min(c, n) for c, n in zip(stored.chunks, shape, strict=False))
    unit = own if chunks is None else tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    steps, needed = unit, 0
    for limit in (block_bytes, most_bytes):
        bound = max(limit // max(1, itemsize), math.prod(own), math.prod(unit))
        enough = min(bound, -(-_ENOUGH_BYTES // max(1, itemsize)))
        found = min(_shapes(own, unit, shape, bound, enough), key=lambda step: _decoded(step, own, shape))
        count = _decoded(found, own, shape)
        if not needed or count < needed:
            steps, needed = found, count
        if needed == math.prod(-(-n // z) for n, z in zip(shape, own, strict=True)):
            break
    return steps


def _shapes(own: Lengths, unit: Lengths, shape: Lengths, bound: int, enough: int) -> Iterator[Lengths]:
    """Yield possible shapes of a region of at most ``bound`` elements, the easiest to write first.

    A shape of complete chunks with ``enough`` elements is not enlarged, since each of its chunks is decoded only once.
    """
    axes = range(len(shape))
    orders = itertools.permutations(reversed(axes)) if len(shape) <= _MOST_AXES else [tuple(reversed(axes))]
    near = tuple(-(-z // u) * u for z, u in zip(own, unit, strict=True))
    common = tuple(math.lcm(z, u) for z, u in zip(own, unit, strict=True))
    for order in orders:
        for cover in dict.fromkeys((near, common)):
            whole = _grown(unit, cover, unit, bound, order)
            yield whole if math.prod(whole) >= enough else _grown(whole, shape, cover, bound, order)


def _decoded(steps: Lengths, own: Lengths, shape: Lengths) -> int:
    """Return how many Zarr chunks are decoded with regions of the shape ``steps``."""
    count = 1
    for step, z, n in zip(steps, own, shape, strict=True):
        count *= sum(-(-min(start + step, n) // z) - start // z for start in range(0, n, step))
    return count


def _grown(block: Lengths, wanted: Lengths, unit: Lengths, bound: int, order: Sequence[int]) -> Lengths:
    """Return ``block`` enlarged towards ``wanted`` axis by axis, in complete units, up to ``bound`` elements."""
    grown = list(block)
    for axis in order:
        rest = math.prod(grown) // grown[axis]
        most = max(grown[axis], bound // rest // unit[axis] * unit[axis])
        grown[axis] = min(max(wanted[axis], grown[axis]), most)
        if grown[axis] < wanted[axis]:
            break
    return tuple(grown)


@dataclass(slots=True)
class BlockTask:
    """Decodes a block; it can be sent to another process.

    Attributes
    ----------
    keys : Store
        The store of the array.
    path : str
        The array.
    node : Dataset
        Its metadata.
    region : tuple of slice
        The block, along the axes of the dataset.
    cache : ChunkCache
        For chunks that belong to two blocks.
    chunks : tuple of int, optional
        Chunk shape of the dataset; the block consists of complete chunks.
    pipeline : CodecPipeline, optional
        Encodes the chunks; None to return values instead.
    number : int
        An identifier for the caller.
    """

    store: Store
    path: str
    node: Dataset[Attributes]
    region: Region
    cache: ChunkCache
    chunks: Index = ()
    pipeline: CodecPipeline | None = None
    number: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        inner = self.node.stored.shape[len(self.region) :]
        lengths = [part.stop - part.start for part in self.region]
        return math.prod([*lengths, *inner]) * numpy_dtype(self.node.stored.data_type).itemsize

    def run(self) -> Array | Encoded:
        """Return the values, or the chunks of the dataset with their indices."""
        try:
            with at(self.store, self.path):
                reader = ChunkReader(self.store, self.path, self.node.stored, self.cache)
                inner = len(self.node.stored.shape) - len(self.region)
                block = reader.read((*self.region, *[slice(None)] * inner))
                return block if self.pipeline is None else self._encoded(block, self.pipeline)
        except ZarrBackendError:
            raise  # some of these are also errors of the system
        except OSError as error:
            where = {"store": self.store.location, "path": self.path}
            problem = f"a chunk could not be read ({error})"
            raise resource_failure(error, "read", **where) or StoreError(problem, **where) from error

    def _encoded(self, block: Array, pipeline: CodecPipeline) -> Encoded:
        codec = ChunkCodec(self.node.stored.data_type, pipeline.filters, pipeline.compressor, "C")
        whole = (*self.chunks, *self.node.stored.shape[len(self.chunks) :])
        first = [part.start // c for part, c in zip(self.region, self.chunks, strict=True)]
        chunks: Encoded = []
        for inside in itertools.product(*(range(-(-n // c)) for n, c in zip(block.shape, whole, strict=True))):
            piece = block[tuple(slice(i * c, (i + 1) * c) for i, c in zip(inside, whole, strict=True))]
            index = tuple(map(operator.add, first, inside))
            chunks.append((index, codec.encode(whole_chunk(piece, self.node.stored, codec.dtype, whole))))
        return chunks
