"""Sources that read the values of a new array from a stored one: its layout, and its chunks without decoding.

Source: `HDF5IO` also keeps chunks and filters of what it exports.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.fills import check_unwritten, fill_scalar
from hdmf_zarr_backend.arrays.shards import ShardReader
from hdmf_zarr_backend.arrays.stored_chunks import check_stored_form
from hdmf_zarr_backend.errors import UsageError, at
from hdmf_zarr_backend.formats.casting import Place, cast
from hdmf_zarr_backend.formats.chunking import WHOLE_BYTES
from hdmf_zarr_backend.formats.dtypes import numpy_dtype
from hdmf_zarr_backend.formats.elements import stored_text
from hdmf_zarr_backend.formats.new_datasets import Sharding
from hdmf_zarr_backend.formats.zarr3_codecs import in_format_2
from hdmf_zarr_backend.hdf5.datasets import Description
from hdmf_zarr_backend.hdf5.filters import codecs_of
from hdmf_zarr_backend.hdf5.rawcopy import forget_decoded, plan_contiguous, plan_raw
from hdmf_zarr_backend.hdf5.safe_reading import check_allocated
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, join
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.transfer.plan import PlannedArray, encode_fill
from hdmf_zarr_backend.transfer.sources import Array, ArraySource, IndexedSource, Region, is_hdf5_dataset

if TYPE_CHECKING:
    from hdmf_zarr_backend.arrays.lazy import LazyArray

CACHE_BYTES = 32 * 2**20
"""Maximum bytes of decoded chunks of one file that a process keeps, for target chunks that share them."""

_SHARE = 4  # the fraction 1/4 of a memory budget
_MOST_FILES = 2
_limit = [CACHE_BYTES]


@lru_cache(maxsize=_MOST_FILES)
def _cache_of(location: str, limit: int) -> ChunkCache:
    return ChunkCache(limit)


@contextmanager
def source_caches(budget: int) -> Iterator[None]:
    """Limit the cache of decoded chunks by a budget, and forget what was decoded at the end of a write."""
    _limit.append(min(CACHE_BYTES, budget // _SHARE))
    try:
        yield
    finally:
        _limit.pop()
        _cache_of.cache_clear()
        forget_decoded()


class StoredChunks:
    """The chunks of a stored array as they are, and other values for missing chunks."""

    def __init__(self, store: Store, path: str, node: Dataset[Attributes], values: ArraySource) -> None:
        self.shape: tuple[int, ...] = values.shape
        self._store = store
        self._path = path
        self._node = node
        self._values = values
        self._reader: ShardReader | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._store.unwrapped, self._path, self._node, self._values))

    def encoded(self, index: tuple[int, ...]) -> bytes | None:
        """Return the chunk at ``index`` as stored, None if it is missing."""
        stored = self._node.stored
        name = stored.chunk_name(index)
        if stored.shards is None:
            data = self._store.get(join(self._path, name))
        else:
            self._reader = self._reader or ShardReader(self._store, self._path, stored)  # it caches the indices
            data = self._reader.get(index)
        if data is not None:
            with at(self._store, self._path):
                check_stored_form(stored, name, data)
        return data

    def read(self, region: Region) -> Array:
        """Return the values of ``region``."""
        return self._values.read(region)

    def portable(self) -> ArraySource | None:
        """Return this source if the values can be sent to another process, else None."""
        return self if isinstance(self._values, ZarrSource) and _can_be_sent(self._store) else None


class ZarrSource:
    """The values of a stored array; it can be sent to another process."""

    def __init__(self, store: Store, path: str, node: Dataset[Attributes], dtype: np.dtype[Any]) -> None:
        self.shape: tuple[int, ...] = node.stored.shape
        self._store = store
        self._path = path
        self._node = node
        self._dtype = dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._store.unwrapped, self._path, self._node, self._dtype))

    def portable(self) -> ZarrSource | None:
        """Return this source if another process can open the store, else None: it may be in this one's memory."""
        return self if _can_be_sent(self._store) else None

    def read(self, region: Region) -> Array:
        """Return the block as ``dtype``."""
        reader = ChunkReader(self._store, self._path, self._node.stored, _cache_of(self._store.location, _limit[-1]))
        return cast(reader.read(region), self._dtype, Place(tuple(part.start for part in region)))


def _can_be_sent(store: Store) -> bool:
    """Tell whether a store can be pickled; one in memory, or a session that is open for writing, refuses it."""
    try:
        store.unwrapped.__reduce_ex__(4)
    except UsageError:
        return False
    return True


def check_stored(data: Any, rules: ReadOptions) -> None:
    """Check that a stored array to be copied, or its resolver of references, has most of its chunks.

    ``rules`` are for an HDF5 dataset; a Zarr array is read with those of its own store.
    """
    from hdmf_zarr_backend.arrays.editable import EditableArray
    from hdmf_zarr_backend.arrays.lazy import LazyArray  # imported here and below: zarr is slow to import

    stored = getattr(data, "dataset", data)
    if isinstance(stored, LazyArray) and not isinstance(stored, EditableArray):
        check_unwritten(stored.file_store, stored.path, stored.node.stored)
    elif is_hdf5_dataset(stored):
        check_allocated(stored, rules)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a copy of a stored array keeps of it: its chunks and shards, its codecs, its fill value."""

    chunks: bool
    codecs: bool
    fill_value: bool


def keep_layout(planned: PlannedArray, data: LazyArray, kept: Kept) -> None:
    """Set the chunks, shards, codecs and fill value of a planned array to those of the stored array that it copies.

    Nothing is changed if the type of the elements, or the codec of objects, differs.
    """
    stored, old = planned.node.stored, data.node.stored
    has_other_codec = numpy_dtype(old.data_type).hasobject and (stored.filters or [])[:1] != (old.filters or [])[:1]
    if planned.source is None or stored.shape != old.shape or not _has_type_of(stored, old) or has_other_codec:
        return
    if kept.chunks:
        stored.chunks, stored.order = old.chunks, old.order if isinstance(old.order, str) else "C"
        if old.shards is not None:
            planned.sharding = Sharding(old.shards.shape, are_chunks_given=True, is_kept=True)
    dtype = numpy_dtype(old.data_type)
    if kept.fill_value and (dtype.kind in "biufc" or (dtype.kind in "mM" and old.fill_value != 0)):
        stored.fill_value = encode_fill(fill_scalar(old, dtype), dtype)
    elif kept.fill_value and isinstance(old.fill_value, str) and (not dtype.hasobject or stored_text(old)):
        stored.fill_value = old.fill_value or None  # old files declare others as 0, which newer readers refuse
    if kept.codecs:
        stored.filters = in_format_2(old.filters)
        stored.compressor = None if old.compressor is None else dict(old.compressor)


def take_stored(planned: PlannedArray, data: LazyArray) -> None:
    """Let a planned array use the chunks of the stored array that it copies, as they are where possible."""
    from hdmf_zarr_backend.arrays.editable import EditableArray

    source = planned.source
    if source is None or isinstance(data, EditableArray):
        return  # changes that are not written yet are visible only through the array itself
    store = data.file_store
    if isinstance(source, IndexedSource):
        source = ZarrSource(store, data.path, data.node, source.dtype)
    planned.source = (
        StoredChunks(store, data.path, data.node, source) if _is_same(planned.node.stored, data.node.stored) else source
    )


def _has_type_of(stored: StoredArray, old: StoredArray) -> bool:
    return numpy_dtype(stored.data_type) == numpy_dtype(old.data_type)


def _is_same(stored: StoredArray, old: StoredArray) -> bool:
    same_grid = (stored.shape, stored.chunks, stored.order) == (old.shape, old.chunks, old.order)
    same_codecs = (stored.filters or None, stored.compressor) == (old.filters or None, old.compressor)
    return same_grid and same_codecs and _has_type_of(stored, old)


def keep_codecs(found: Description, planned: PlannedArray) -> None:
    """Give a planned array the codecs that the HDF5 dataset has, whatever its chunks are, if Zarr has them all.

    Of text and references, whose bytes differ from those in HDF5, it is the compressor alone.
    """
    stored = planned.node.stored
    pipeline = codecs_of(found.note.get("filters", []), found.dtype)
    if pipeline is None or not pipeline.codecs or stored.compressor is None:  # a scalar has no compressor
        return
    compressors = [config for config in pipeline.codecs if config["id"] not in _NO_COMPRESSORS]
    if found.kind != "number":
        stored.compressor = dict(compressors[-1]) if compressors else stored.compressor
    elif pipeline.divides(math.prod(stored.chunks) * found.dtype.itemsize):
        if compressors:
            stored.filters, stored.compressor = pipeline.filters, pipeline.compressor
        else:  # the default compressor comes after them
            stored.filters = [dict(config) for config in pipeline.codecs]


_NO_COMPRESSORS = ("shuffle", "fletcher32")


def take_chunks(dataset: Any, found: Description, planned: PlannedArray, *, keep: bool) -> None:
    """Use the chunks of an HDF5 dataset as they are, or at least read its values without the HDF5 library.

    A small dataset is one chunk in Zarr, and very small chunks are joined, so these are not copied. The source
    of ``planned`` is replaced. ``keep``: the planned codecs are those of the dataset, so equal chunks can be copied.
    """
    node, old = planned.node, planned.source
    is_small = node.stored.size * found.dtype.itemsize <= WHOLE_BYTES
    if (
        (is_small and node.stored.chunks != _chunks_of(found))
        or not isinstance(old, IndexedSource)
        or old.dtype != found.dtype
    ):
        return
    chunked = plan_raw(dataset, found)
    if chunked is None:
        contiguous = None if is_small else plan_contiguous(dataset, found)
        if contiguous is not None and contiguous.shape == node.stored.shape:
            planned.source = contiguous
        return
    if chunked.shape != node.stored.shape:
        return
    if keep and chunked.chunks == node.stored.chunks:
        node.stored.filters, node.stored.compressor = chunked.pipeline.filters, chunked.pipeline.compressor
        planned.source = chunked
    elif not is_small and (keep or chunked.raw.file is not None):
        planned.source = chunked.decoded()


def is_joined(found: Description, planned: PlannedArray) -> bool:
    """Tell whether the chunks of an array consist of several small chunks of the HDF5 dataset."""
    chunks, stored = _chunks_of(found), planned.node.stored
    return (
        found.kind == "number"
        and chunks is not None
        and len(chunks) == len(stored.shape)
        and any(length > min(chunk, n) for length, chunk, n in zip(stored.chunks, chunks, stored.shape, strict=True))
    )


def _chunks_of(found: Description) -> tuple[int, ...] | None:
    """Return the chunk shape of an HDF5 dataset with the axes of an element, None if it is not chunked."""
    return None if found.chunks is None else found.chunks + found.inner
