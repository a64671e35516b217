"""The values of Zarr arrays -> the HDF5 datasets that were made for them; each in the cheapest of three ways.

*kept*: the dataset has the chunks and filters of the array: stored chunks are copied as they are. *encoded*: workers
decode blocks of the array and encode chunks of the dataset, outside of HDF5's lock. *written*: workers decode, and HDF5
stores the values; text, references and rows are made here, since references belong to the open file.

Only this thread calls HDF5, in the order of the blocks, so that equal input gives equal files whoever does the work.

Source: the issue on conversion without recompression; HDF5 reference manual, `H5Dwrite_chunk`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.arrays.codecs import ChunkCodec, numpy_dtype
from hdmf_zarr_backend.arrays.fills import check_unwritten, fill_array
from hdmf_zarr_backend.arrays.stored_chunks import check_plausible
from hdmf_zarr_backend.errors import ChunkError, ZarrBackendError
from hdmf_zarr_backend.execution.executors import Runner, runner
from hdmf_zarr_backend.execution.tasks import MEMORY_BUDGET, chunk_indices, region_of, task_bytes_for
from hdmf_zarr_backend.formats.references import Reference, decode_reference
from hdmf_zarr_backend.hdf5.attributes import refusing
from hdmf_zarr_backend.hdf5.blocks import BLOCK_BYTES, block_slices
from hdmf_zarr_backend.hdf5.blocktasks import BlockTask, Index, Region
from hdmf_zarr_backend.hdf5.elements import Elements
from hdmf_zarr_backend.hdf5.filters import CodecPipeline, Pipeline, codecs_of
from hdmf_zarr_backend.hdf5.layout import is_same_layout
from hdmf_zarr_backend.hdf5.memory import Conversion
from hdmf_zarr_backend.hdf5.placement import Placed, ZarrFile
from hdmf_zarr_backend.hdf5.rawcopy import plan_direct, write_direct
from hdmf_zarr_backend.hdf5.types import memory_type
from hdmf_zarr_backend.hdf5.values import Array
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute, join

_LARGE_BYTES = 2**20
_CACHE_SHARE = 4  # of the budget, for chunks that two blocks share


@dataclass(slots=True)
class _Target:
    """A dataset that is to be filled, and how."""

    placed: Placed
    elements: Elements
    node: ArrayNode[Attributes]
    dataset: Any
    chunks: Index | None = None
    pipeline: CodecPipeline | None = None
    is_kept: bool = False

    @property
    def is_for_workers(self) -> bool:
        nbytes = self.node.size * numpy_dtype(self.node.data_type).itemsize
        return self.elements.form == "plain" and bool(self.elements.shape) and nbytes > _LARGE_BYTES


class Filler:
    """Fills the datasets of a new HDF5 file.

    Parameters
    ----------
    file : h5py.h5f.FileID
        The file; all datasets are there, without values.
    refer : callable
        Returns the h5py reference for a reference in a Zarr file.
    executor : object
        As of `execution.executors.runner`: who decodes and encodes what is large.
    memory_budget : int
        Bytes of values that may be in flight.
    advance : callable
        Is told path and bytes of what is written.
    """

    def __init__(
        self,
        file: Any,
        refer: Callable[[Reference, ZarrFile], Any],
        *,
        executor: Any = None,
        memory_budget: int = MEMORY_BUDGET,
        advance: Callable[[str, int], None] = lambda path, done: None,
    ) -> None:
        self._file = file
        self._refer = refer
        self._executor = executor
        self._budget = memory_budget
        self._advance = advance
        self._cache_bytes = memory_budget // _CACHE_SHARE
        self._caches: dict[str, ChunkCache] = {}

    def fill(self, planned: list[tuple[Placed, Elements]]) -> None:
        """Write all values.

        Raises
        ------
        ZarrBackendError
            A chunk cannot be read, or its values have no form in HDF5; store and node are named.
        """
        later: list[_Target] = []
        for placed, elements in planned:
            assert isinstance(placed.node, ArrayNode)
            if not placed.node.size:
                continue
            with named(placed):
                check_unwritten(placed.file.keys, placed.own, placed.node)
                target = self._target(placed, placed.node, elements)
                if target.is_kept:
                    self._keep(target)
                elif target.is_for_workers:
                    later.append(target)
                else:
                    self._write_here(target)
        if later:
            with runner(self._executor) as pool:
                self._run(later, pool)

    def _target(self, placed: Placed, node: ArrayNode[Attributes], elements: Elements) -> _Target:
        import h5py
        from h5py import h5d

        dataset = h5d.open(self._file, absolute(placed.path).encode("utf-8", "surrogateescape"))
        target = _Target(placed, elements, node, dataset)
        created = dataset.get_create_plist()
        if created.get_layout() != h5d.CHUNKED:
            return target
        target.chunks = tuple(created.get_chunk())
        if elements.form != "plain":
            return target
        dtype, inner = numpy_dtype(node.data_type), node.shape[len(elements.shape) :]
        if not is_same_layout(elements.type, np.dtype((dtype, inner)) if inner else dtype):
            return target
        filters = _filters(created)
        target.pipeline = codecs_of(filters, dtype)
        if target.chunks == node.chunks and node.shards is None and node.codecs is None:
            direct = plan_direct(node, elements.type, h5py.Dataset(dataset).maxshape, noted=filters)
            target.is_kept = direct is not None and _numbers(direct) == _numbers(filters)
        return target

    # ---- kept -------------------------------------------------------------------------------------------------------

    def _keep(self, target: _Target) -> None:
        import h5py

        write_direct(h5py.Dataset(target.dataset), self._stored(target))

    def _stored(self, target: _Target) -> Iterator[tuple[Index, bytes | None]]:
        """Yield the chunks of an array as they are; None where HDF5 reads the same fill value without a chunk."""
        node, keys, own = target.node, target.placed.file.keys, target.placed.own
        dtype = numpy_dtype(node.data_type)
        missing = None if _fills_alike(target.dataset, node, dtype) else _fill_chunk(node, dtype)
        for index in chunk_indices(node):
            name = node.chunk_name(index)
            data = keys.get(join(own, name))
            if data is not None:
                check_plausible(node, name, data)
            elif keys.read_rules.refuses_absent:
                raise ChunkError(
                    f"the chunk {name!r} is not stored",
                    remedy='Restore it, or convert with missing_chunks="fill".',
                )
            yield index, missing if data is None else data
            lengths = (part.stop - part.start for part in region_of(node, index))
            self._advance(absolute(target.placed.path), math.prod(lengths) * dtype.itemsize)

    # ---- by workers -------------------------------------------------------------------------------------------------

    def _run(self, targets: list[_Target], pool: Runner) -> None:
        budget = self._budget - self._cache_bytes
        most = task_bytes_for(budget, pool.workers)
        tasks = (task for number in range(len(targets)) for task in self._tasks(number, targets[number], most))
        for task, result in pool.run(tasks, memory_budget=budget, in_order=True):
            assert isinstance(task, BlockTask)
            target = targets[task.number]
            with named(target.placed):
                self._put(target, task, result)
            self._advance(absolute(target.placed.path), task.nbytes)

    def _tasks(self, number: int, target: _Target, most: int) -> Iterator[BlockTask]:
        placed, node = target.placed, target.node
        cache = self._cache(placed.file)
        size = min(BLOCK_BYTES, most)
        for region in block_slices(node, target.elements.shape, target.chunks, block_bytes=size, most_bytes=most):
            yield BlockTask(
                placed.file.keys, placed.own, node, region, cache, target.chunks or (), target.pipeline, number
            )
        cache.forget(placed.own)

    def _put(self, target: _Target, task: BlockTask, result: Any) -> None:
        if task.pipeline is None:
            self._write(target, task.region, result, self._conversion(target))
        else:
            import h5py

            write_direct(h5py.Dataset(target.dataset), result)

    def _cache(self, file: ZarrFile) -> ChunkCache:
        return self._caches.setdefault(file.location, ChunkCache(self._cache_bytes))

    # ---- written ----------------------------------------------------------------------------------------------------

    def _write_here(self, target: _Target) -> None:
        placed, node, shape = target.placed, target.node, target.elements.shape
        cache = self._cache(placed.file)
        reader = ChunkReader(placed.file.keys, placed.own, node, cache)
        convert = self._conversion(target)
        inner = len(node.shape) - len(shape)
        for region in block_slices(node, shape, target.chunks):
            block = reader.read((*region, *[slice(None)] * inner) if shape else ())
            self._write(target, region, block, convert)
            self._advance(absolute(placed.path), block.nbytes)
        cache.forget(placed.own)

    def _conversion(self, target: _Target) -> Conversion:
        file = target.placed.file
        return Conversion(
            target.elements,
            target.dataset.get_type(),
            lambda value: None if value is None else self._refer(decode_reference(value), file),
        )

    def _write(self, target: _Target, region: Region, block: Array, convert: Conversion) -> None:
        from h5py import h5s

        dataset, tid = target.dataset, target.dataset.get_type()
        memory = memory_type(tid, writing=True)
        lengths = tuple(part.stop - part.start for part in region)
        values = np.ascontiguousarray(convert(block, lengths))
        with refusing():
            if lengths:
                space = dataset.get_space()
                space.select_hyperslab(tuple(part.start for part in region), lengths)
                dataset.write(h5s.create_simple(lengths), space, values, memory)
            else:
                dataset.write(h5s.ALL, h5s.ALL, values.reshape(tid.dtype.shape), memory)


def _filters(created: Any) -> Pipeline:
    """Return the filters of a property list, in order."""
    entries = [created.get_filter(i) for i in range(created.get_nfilters())]
    return [[int(number), int(flags), [int(value) for value in values]] for number, flags, values, _ in entries]


def _numbers(pipeline: Pipeline) -> list[int]:
    return [number for number, _, _ in pipeline]


def _fills_alike(dataset: Any, node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> bool:
    """Tell whether HDF5 reads what is not stored as Zarr does; False where h5py may be unable to tell."""
    if dtype.kind not in "biufc":
        return False
    value = np.zeros((), dtype)
    dataset.get_create_plist().get_fill_value(value)
    return bool(value.tobytes() == fill_array(node, dtype, ()).tobytes())


def _fill_chunk(node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> bytes:
    codec = ChunkCodec(node.data_type, node.filters, node.compressor, "C")
    return codec.encode(fill_array(node, dtype, node.chunks))


def named(placed: Placed) -> AbstractContextManager[None]:
    """Name the node where something goes wrong."""
    return located(placed.file.location, absolute(placed.own))


@contextmanager
def located(store: str, path: str) -> Iterator[None]:
    """Name store and path where something goes wrong."""
    try:
        yield
    except ZarrBackendError as error:
        raise error.located(store=store, path=path) from error.__cause__
    except OSError as error:
        error.add_note(f"while writing {path!r} of {store!r}")
        raise
