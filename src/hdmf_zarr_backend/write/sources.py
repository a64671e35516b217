"""Sources of the values of a new array, each of which can return any block of them.

A source is read in complete chunks, so that no array is in memory twice. Each class handles one kind of input, and
converts values (text, references, rows) block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader, check_stored_form
from hdmf_zarr_backend.array.shards import ShardReader
from hdmf_zarr_backend.encoding.casting import Location, cast, row_values, to_text, unmasked
from hdmf_zarr_backend.encoding.dtypes import dtype_of
from hdmf_zarr_backend.encoding.hdf5_values import utf8_or_none
from hdmf_zarr_backend.errors import UsageError, ValueRefusedError, at
from hdmf_zarr_backend.model.element import Element, Reference, Text
from hdmf_zarr_backend.model.nodes import Dataset, join, lengths_of
from hdmf_zarr_backend.store.base import Store

Array = npt.NDArray[Any]
Region = tuple[slice, ...]
Encode = Callable[[Any], Any] | np.dtype[Any]
"""What makes JSON of the values of a field of rows: a function, or the type of numbers."""

_CHECK_ELEMENTS = 65536


def is_utf8(value: bytes) -> bool:
    """Tell whether bytes are text."""
    return utf8_or_none(value) is not None


def all_utf8(data: Any, length: int) -> bool:
    """Tell whether all bytes in the ``length`` rows of an array or list are UTF-8."""
    for start in range(0, length, _CHECK_ELEMENTS):
        block = np.asarray(data[start : start + _CHECK_ELEMENTS], dtype=object).reshape(-1)
        if not all(is_utf8(item) for item in block if isinstance(item, bytes)):
            return False
    return True


def row_blocks(shape: tuple[int, ...], rows: int) -> Iterator[Region]:
    """Yield the regions of at most ``rows`` rows that cover an array."""
    inner, rows = [slice(0, n) for n in shape[1:]], max(rows, 1)
    for start in range(0, shape[0], rows):
        yield (slice(start, min(start + rows, shape[0])), *inner)


class ArraySource(Protocol):
    """The values of one array; one whose ``can_be_refused`` is True may raise an error on reading."""

    # sources of stored chunks also return chunks as they are stored, by ``encoded``
    shape: tuple[int, ...]

    def read(self, region: Region) -> Array:
        """Return the values of ``region`` in the stored data type, or as objects for the codec."""


class IndexedSource:
    """An array that is read by indexing: NumPy, h5py, zarr, or similar."""

    def __init__(self, data: Any, dtype: np.dtype[Any]) -> None:
        self.data = data
        self.dtype = dtype
        self.shape: tuple[int, ...] = tuple(data.shape)

    @property
    def can_be_refused(self) -> bool:
        """Whether `read` may raise an error, depending on the values."""
        given = getattr(self.data, "dtype", None)
        if given is None or given == self.dtype:
            return given is None
        # all numbers of a type are in a wider one of its kind, such as int8 in int16
        return given.kind != self.dtype.kind or given.kind not in "biufc" or not np.can_cast(given, self.dtype)

    def read(self, region: Region) -> Array:
        place = Location(tuple(part.start for part in region))
        block = unmasked(self.data[region] if region else self.data[()], place)
        return cast(np.asarray(block), self.dtype, place)


class ElementSource:
    """Objects made one by one from the elements of a sequence."""

    can_be_refused = True

    def __init__(self, data: Any, shape: tuple[int, ...], convert: Callable[[Any], Any]) -> None:
        self.data = data
        self.shape = shape
        self._convert = convert

    def read(self, region: Region) -> Array:
        shape, data = lengths_of(region), self.data
        elements: Sequence[Any]
        if not region or getattr(data, "shape", None) == ():
            elements = [data[()] if hasattr(data, "shape") else data]
        elif hasattr(data, "shape") and len(region) > 1:
            elements = np.asarray(unmasked(data[region]), dtype=object).reshape(-1).tolist()
        elif len(region) == 1:
            elements = list(data[region[0]] if hasattr(data, "__getitem__") else list(data)[region[0]])
        else:
            rows = np.fromiter(_leaves(data, self.shape), object, math.prod(self.shape)).reshape(self.shape)
            elements = list(rows[region].reshape(-1))
        # most text needs no conversion, and one check of all elements is much faster than a call for each
        if self._convert is to_text and set(map(type, elements)) == {str}:
            with suppress(UnicodeEncodeError):  # of a surrogate, whose position is reported below
                if (text := "".join(elements)).isascii() or text.encode():
                    return np.fromiter(elements, object, len(elements)).reshape(shape)
        block = np.empty(len(elements), object)
        position = 0
        try:
            for position, element in enumerate(elements):
                block[position] = self._convert(element)
        except ValueRefusedError as error:
            inside = np.unravel_index(position, shape) if shape else ()
            raise _at(error, [part.start + int(n) for part, n in zip(region, inside, strict=True)]) from error.__cause__
        return block.reshape(shape)


class EncodedSource(ElementSource):
    """An array of objects that are encoded already."""

    can_be_refused = False

    def __init__(self, data: Array) -> None:
        super().__init__(data, data.shape, lambda value: value)

    def read(self, region: Region) -> Array:
        block: Array = self.data[region]
        return block


def _leaves(data: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    if not shape:
        yield data
        return
    if isinstance(data, (str, bytes)) or not hasattr(data, "__len__") or len(data) != shape[0]:
        raise ValueRefusedError("rows differ in length", remedy="Give as many elements in each row.")
    for item in data:
        yield from _leaves(item, shape[1:])


class RowSource:
    """Rows of a compound as an ``(n, k)`` array of objects."""

    # the form that hdmf-zarr 0.13 reads without pickle: a row is a list of JSON

    can_be_refused = True

    def __init__(self, data: Any, length: int, converters: Sequence[Encode], names: Sequence[str]) -> None:
        self.data = data
        self.shape: tuple[int, ...] = (length, len(converters))
        self._converters = converters
        self._names = names

    def read(self, region: Region) -> Array:
        given = self.data[region[0]] if hasattr(self.data, "__getitem__") else list(self.data)[region[0]]
        return encode_rows(given, self._names, self._converters, region[0].start)[:, region[1]]


def field_encoder(field: Element, reference: Callable[[Any], Any]) -> Encode:
    """Return what makes JSON of a field of rows; ``reference`` does for references."""
    if isinstance(field, Text):
        return to_text
    return reference if isinstance(field, Reference) else dtype_of(field)


def encode_rows(given: Any, names: Sequence[str], converters: Sequence[Encode], start: int = 0) -> Array:
    """Return rows, of which ``start`` is the first, as objects with an axis for the fields: JSON, or numbers."""
    # dates are integers
    place = Location((start,))
    rows = [row_values(row, tuple(names), n, place) for n, row in enumerate(given)]
    block = np.empty((len(rows), len(converters)), object)
    for column, (name, convert) in enumerate(zip(names, converters, strict=True)):
        values = [row[column] for row in rows]
        if isinstance(convert, np.dtype):
            numbers = cast(values, convert, place.inside(name))
            if numbers.ndim > 1:
                problem = f"the field {name!r} has values of shape {numbers.shape[1:]}"
                raise place.refused((0,), problem, "Give one number for each.")
            block[:, column] = (numbers.astype("i8") if convert.kind in "mM" else numbers).tolist()
            continue
        for position, value in enumerate(values):
            try:
                block[position, column] = convert(value)
            except ValueRefusedError as error:
                raise _at(error, [start + position, column]) from error.__cause__
    return block


def _at(error: ValueRefusedError, index: list[int]) -> ValueRefusedError:
    """Return ``error`` with the index of the element added to its message."""
    if index:
        error.problem = f"element {index if len(index) > 1 else index[0]}: {error.problem}"
    return error


CACHE_BYTES = 32 * 2**20
"""Maximum bytes of decoded chunks of one file that a process keeps, for target chunks that share them."""

# the caches take a quarter of a memory budget
_SHARE = 4
_limit = [CACHE_BYTES]


# three caches: of two Zarr files, and of HDF5
@lru_cache(maxsize=3)
def cache_of(location: str, limit: int = CACHE_BYTES) -> ChunkCache:
    """Return the cache of the decoded chunks of a source, each of which is read for several chunks of a target."""
    return ChunkCache(limit, largest=limit)


@contextmanager
def source_caches(budget: int) -> Iterator[None]:
    """Limit the caches of decoded chunks by a budget, and forget what was decoded at the end of a write."""
    _limit.append(min(CACHE_BYTES, budget // _SHARE))
    try:
        yield
    finally:
        _limit.pop()
        cache_of.cache_clear()


class StoredChunks:
    """The chunks of a stored array as they are, and other values for missing chunks."""

    def __init__(self, store: Store, path: str, node: Dataset, values: ArraySource) -> None:
        self.shape: tuple[int, ...] = values.shape
        self._store, self._path, self._node, self._values = store, path, node, values
        self._reader: ShardReader | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._store.unwrapped, self._path, self._node, self._values))

    def encoded(self, index: tuple[int, ...]) -> bytes | None:
        """Return the chunk at ``index`` as stored, None if it is missing."""
        if self._store.read_rules.is_lost(self._path, index):
            return None
        stored = self._node.stored
        if stored.shards is None:
            data = self._store.get(join(self._path, stored.chunk_name(index)))
        else:
            # one reader for all chunks, because it caches the indices of shards
            self._reader = self._reader or ShardReader(self._store, self._path, stored)
            data = self._reader.get(index)
        # a chunk that is copied is not decoded, but damage that its header shows must not be copied with it
        if data is not None:
            with at(self._store, self._path):
                check_stored_form(stored, index, data)
        return data

    def read(self, region: Region) -> Array:
        return self._values.read(region)

    def decoded(self) -> ArraySource:
        """Return a source of values, for an array with other chunks or codecs."""
        return self._values

    def portable(self) -> ArraySource | None:
        """Return this source if the values can be sent to another process, else None."""
        return self if isinstance(self._values, ZarrSource) and _can_be_sent(self._store) else None


class ZarrSource:
    """The values of a stored array; it can be sent to another process."""

    def __init__(self, store: Store, path: str, node: Dataset, dtype: np.dtype[Any]) -> None:
        self.shape: tuple[int, ...] = node.stored.shape
        self._store, self._path, self._node, self._dtype = store, path, node, dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._store.unwrapped, self._path, self._node, self._dtype))

    def portable(self) -> ZarrSource | None:
        """Return this source if another process can open the store, else None: it may be in this one's memory."""
        return self if _can_be_sent(self._store) else None

    def read(self, region: Region) -> Array:
        reader = ChunkReader(self._store, self._path, self._node.stored, cache_of(self._store.location, _limit[-1]))
        return cast(reader.read(region), self._dtype, Location(tuple(part.start for part in region)))


def _can_be_sent(store: Store) -> bool:
    """Tell whether a store can be pickled."""
    # one in memory refuses it, and so does a session that is open for writing
    try:
        store.unwrapped.__reduce_ex__(4)
    except UsageError:
        return False
    return True
