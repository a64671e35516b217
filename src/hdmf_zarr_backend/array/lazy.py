"""`LazyArray`: an array that reads when it is indexed, and behaves as users of h5py expect; `EditableArray` can change.

It is a ``zarr.Array`` to every ``isinstance`` test of hdmf and pynwb, but does not use zarr: shape and data type come
from the metadata that was parsed with the file, chunks are read and decoded here, and the real ``zarr.Array`` is
created only when a method of zarr is called.

hdmf needs these, which a zarr 3 array does not have (docs: "what hdmf expects of an array"): ``len``, chunk-wise
iteration, scalars from integer indices, object dtype for text, integer-cast and empty index lists, ``astype``,
``maxshape``, ``compressor``, a hash.
"""

from __future__ import annotations

import functools
import operator
import os
import typing
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np
import zarr
import zarr.storage

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import (
    Axis,
    ChunkCache,
    ChunkReader,
    Overlap,
    copy_part,
    fill_array,
    full_mask,
    normalise,
    overlaps,
)
from hdmf_zarr_backend.array.edits import Edits
from hdmf_zarr_backend.encoding import zarr2, zarr3
from hdmf_zarr_backend.encoding.attributes import plain_attributes
from hdmf_zarr_backend.encoding.casting import cast, cast_text, count_axes, flatten, nested_rows, to_bytes, to_text
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec, make_codec
from hdmf_zarr_backend.encoding.chunks import Array
from hdmf_zarr_backend.encoding.codecs import has_array_codecs
from hdmf_zarr_backend.encoding.elements import stored_text
from hdmf_zarr_backend.encoding.fills import fill_scalar
from hdmf_zarr_backend.encoding.hdf5_values import object_array
from hdmf_zarr_backend.encoding.registry import parse_array
from hdmf_zarr_backend.encoding.reserved import data_type_of
from hdmf_zarr_backend.errors import at, printable
from hdmf_zarr_backend.model.json_text import load
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy, absolute, join, split
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.zarr_python import open_zarr_array, store_of_zarr

# A subclass of `zarr.Array`, because hdmf and pynwb test for it: what they take for an array in `docval`, and whether a
# table can grow, is `isinstance(data, zarr.Array)`.
ZarrArray: Any = zarr.Array  # to the type checker too: what is overridden here differs from release to release

_INTERNAL = frozenset({"object_id", "namespace"})
_OF_INDEX = (
    "This is the index of a ragged column: it has the end of each row in the values, `.target.data`. To change a row, "
    'change both: see "Grow and change an array" in the documentation.'
)
_IS_ZARR_2 = zarr.__version__.startswith("2.")
_ITER_ELEMENTS = 65536
# Attributes that methods of zarr-python 2 read; in version 3 they are all behind `_async_array`.
_STATE_OF_ZARR_2 = frozenset({
    "_attrs", "_blocks", "_cache_metadata", "_chunk_store", "_chunks", "_compressor", "_dimension_separator", "_dtype",
    "_fill_value", "_filters", "_is_view", "_key_prefix", "_meta", "_meta_array", "_oindex", "_order",
    "_partial_decompress", "_path", "_read_only", "_shape", "_store", "_synchronizer", "_transformed_chunk_store",
    "_version", "_vindex", "_write_empty_chunks",
})  # fmt: skip


class LazyArray(ZarrArray):  # type: ignore[misc]
    """A dataset of a Zarr file, as the ``data`` of a container that was read: an array that reads when it is indexed.

    Indexing is that of h5py: an integer for each axis returns a scalar; slices, masks and lists of indices, applied to
    each axis separately, return an array; the name of a field returns that field. Only the chunks of the selection are
    fetched, and they are cached. Chunks that are not stored read as the fill value.

    Parameters
    ----------
    store : Store
        The store.
    path : str
        Path of the array, in the model's spelling.
    node : Dataset
        Its metadata.
    cache : ChunkCache
        Decoded chunks of the file.
    maxshape : tuple, optional
        Largest shape, None for an axis without bound; by default the shape of the array.
    elements : callable, optional
        Converts stored elements to those that the user sees, such as ASCII text to bytes.
    file_id : str, optional
        Object id of the root of the file.
    hierarchy : Hierarchy, optional
        The metadata of the file. Another process does not get it.

    Raises
    ------
    ChunkError
        On reading: a chunk is damaged; or it is missing, where that is an error.
    LimitError
        On reading: the selection, or a chunk of it, is larger than the `Limits` of the file allow.
    StoreError
        On reading: the store does not answer, or the file was replaced or deleted.
    ModeError
        On a change: the file is open for reading. Open it with ``"r+"`` or ``"a"`` for an `EditableArray`.

    Source: h5py, "Datasets", for what an index gives; zarr-python 3, ``zarr.Array``, for everything else.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        node: Dataset,
        cache: ChunkCache,
        *,
        maxshape: tuple[int | None, ...] | None = None,
        elements: Callable[[Array], Array] | None = None,
        file_id: str | None = None,
        hierarchy: Hierarchy | None = None,
    ) -> None:
        # not calling the __init__ of zarr.Array: its one field, `_async_array`, is a property here
        self._reader = ChunkReader(store, path, node.stored, cache)
        self._reader.is_kept_open = True
        self.node = node
        self._maxshape = maxshape
        self._elements = elements
        self.file_id = file_id
        self.hierarchy = hierarchy
        self._array: Any = None

    # ---- metadata ---------------------------------------------------------------------------------------------------

    @property
    def file_store(self) -> Store:
        """The store of the file as this package has opened it; ``store`` is that of zarr-python."""
        return self._reader.store

    @property
    def location(self) -> str:
        """Absolute path or URL of the file."""
        return self._reader.store.location

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.node.stored.shape

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        """Largest shape, None for an axis without bound.

        Zarr arrays can always grow: one without a recorded maximum has its shape here, and grows without bound.
        """
        return self._maxshape if self._maxshape is not None else self.node.stored.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.node.stored.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.node.stored.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy data type; ``object`` for text, bytes and references."""
        # zarr 3 has NumPy's StringDType for text, and hdmf's validator takes each dataset of it for one of a wrong type
        return self._reader.dtype

    @property
    def text_type(self) -> type | None:
        """``str`` or ``bytes`` if the elements are text or bytes of variable length; None for other arrays."""
        stored = stored_text(self.node.stored) if self.dtype == object else None
        if stored == "text":
            return str if self._elements is None else bytes
        return bytes if stored == "bytes" else None

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory (8 for each object)."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk."""
        return self.node.stored.chunks

    @property
    def compressor(self) -> Any:
        """The compressor as a codec, or None; zarr 2 has this name, and tools use it."""
        # two checks of nwbinspector 0.7 do, and zarr 3 raises a TypeError
        return None if self.node.stored.compressor is None else self._codec(self.node.stored.compressor)

    @property
    def filters(self) -> Any:
        """The filters as the installed zarr-python returns them, None or a list in version 2 and a tuple in 3.

        In version 3, those of an array of format 3 are the codecs that encode an array as an array.
        """
        stored = self.node.stored
        if _IS_ZARR_2:
            return None if stored.filters is None else list(map(self._codec, stored.filters))
        if stored.zarr_format == 3:
            return self._async_array.filters if has_array_codecs(stored.filters, stored.order) else ()
        return tuple(map(self._codec, stored.filters or ()))

    def _codec(self, config: dict[str, Any]) -> Any:
        """Return the codec of a configuration."""
        self.check_codecs()
        return make_codec(config, self.dtype)

    def check_codecs(self) -> None:
        """Raise the error of a codec that cannot be used, before anything is read or copied."""
        _ = self._reader.codec

    @property
    def fill_value(self) -> Any:
        """The fill value, a NumPy scalar, text or bytes as in zarr; None if an array of format 2 has none."""
        stored = self.node.stored
        with at(self.location, self.name):
            value = fill_scalar(stored, self.dtype)
            if value is None and stored.zarr_format == 3 and not zarr3.has_records(stored):
                value = fill_array(stored, self.dtype, ())[()]  # always there; the node has None for zero
        return value

    @property
    def path(self) -> str:
        """Path inside the file, without a leading slash."""
        return self._reader.path

    @property
    def name(self) -> str:
        """Absolute path inside the file."""
        return absolute(self._reader.path)

    @property
    def basename(self) -> str:
        """Last part of the path."""
        return split(self._reader.path)[1]

    @property
    def nchunks(self) -> int:
        """Number of chunks of the grid."""
        return int(np.prod(self.node.stored.grid, dtype=np.int64))

    def stored_bytes(self) -> int:
        """Return the bytes of all stored chunks, whose sizes are requested from the store."""
        sizes = self.file_store.sizes(self.path)
        return sum(size for key, size in sizes.items() if key.rpartition("/")[2] not in DOCUMENTS)

    nbytes_stored: Any = property(stored_bytes) if _IS_ZARR_2 else stored_bytes
    """The same by the name that zarr-python has: a method in version 3, a number in version 2."""

    def __repr__(self) -> str:
        return f"<LazyArray {printable(self.location + self.name)} shape={self.shape} dtype={self.dtype}>"

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same stored array, as with h5py; values are not compared."""
        # hdmf's builders compare their members with ==, and have no use for an array of truth values
        return isinstance(other, LazyArray) and (self.location, self.path) == (other.location, other.path)

    def __hash__(self) -> int:  # hdmf's EnumData needs it
        return hash((self.location, self.path))

    # ---- reading ----------------------------------------------------------------------------------------------------

    # pynwb's `Units` and hdmf's tables ask for it; arrays of zarr 3 have none
    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar array has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        return self.size > 0

    def __getitem__(self, key: Any) -> Any:
        names: list[str] = []
        if isinstance(key, str) or (isinstance(key, tuple) and any(isinstance(part, str) for part in key)):
            # such as ["a"] or [0:3, "a"]: the selection of elements, and the names of fields
            parts = key if isinstance(key, tuple) else (key,)
            names = [part for part in parts if isinstance(part, str)]
            key = tuple(part for part in parts if not isinstance(part, str))
            for name in names:
                if name not in (self.dtype.names or ()):
                    raise ValueError(f"there is no field {name!r} in elements of type {self.dtype}")
        values = self._reader.read(key)
        if self._elements is not None:
            values = self._elements(values)
        if names:
            values = values[names[0] if len(names) == 1 else names]
        # a scalar of NumPy, as h5py returns it: with the array without axes of zarr 3, `DynamicTableRegion[0]` fails
        return values[()] if values.ndim == 0 else values

    def element(self, position: int) -> Any:
        """Return element or row ``position`` of an array of references or rows, without decoding its complete chunk.

        Raises
        ------
        LookupError
            It cannot be read without its chunk.
        """
        if self.dtype != object or not self.shape or not 0 <= position < self.shape[0]:
            raise LookupError(position)
        return self._reader.element(position)

    def decoded(self, data: bytes | None) -> Array:
        """Return the values of an array of one chunk, stored as ``data``; None for a chunk that is not stored."""
        # with an ellipsis, since `values[()]` of an array without axes is a scalar
        inside: Any = (..., *(slice(0, n) for n in self.shape))
        values = self._reader.decode((0,) * self.ndim, data)[inside]
        return self._elements(values) if self._elements is not None else values

    @property
    def attrs(self) -> Any:
        """The attributes without what HDMF and the format need; read-only. A reference is the path of its target.

        ``node.attributes`` has all of them, as they are in the file.
        """
        with at(self.location, self.name):
            known = plain_attributes(self.node.attributes)
        return MappingProxyType({name: value for name, value in known.items() if name not in _INTERNAL})

    def __iter__(self) -> Iterator[Any]:
        # By chunks: hdmf iterates over columns of text to find out whether they hold references. By element, 2,000 rows
        # are 4,004 reads of an array of zarr 3, and 4.5 s.
        rows = _ITER_ELEMENTS // max(1, self.size // max(1, len(self)))
        rows = max(rows // self.chunks[0], 1) * self.chunks[0]
        for start in range(0, len(self), rows):
            yield from self[start : start + rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: FBT001 - NumPy's protocol
        if copy is False:  # NumPy 2 asks for an error then
            raise ValueError("a stored array cannot become a NumPy array without a copy")
        values = np.asarray(self[()])
        return values.astype(dtype) if dtype is not None and values.dtype != dtype else values

    def astype(self, dtype: Any) -> Array:
        """Return all values as ``dtype``."""
        # hdmf calls it where a dataset has another type than the schema; arrays of zarr 3 lack it
        return np.asarray(self[()]).astype(dtype)

    def tolist(self) -> Any:
        """Return all values as nested lists."""
        return np.asarray(self[()]).tolist()

    # ---- for other libraries ----------------------------------------------------------------------------------------

    view: ClassVar[Callable[[str], Callable[..., Any]]]
    """Returns the function that makes HTML or the array of another library; `io` sets it, and loads them on use."""

    def _repr_html_(self) -> Any:
        return LazyArray.view("html")(self)

    def to_dask(self, chunks: Any = None) -> Any:
        """Return this dataset as a ``dask.array.Array``, one block per stored chunk unless ``chunks`` is given.

        See `interop.to_dask`.
        """
        return LazyArray.view("to_dask")(self, chunks)

    def to_xarray(self, chunks: Any = None, *, scaled: bool = False) -> Any:
        """Return this dataset as an ``xarray.DataArray`` on dask, with times and electrodes if it is of a time series.

        ``chunks`` as for `to_dask`; ``scaled``: in the unit of the series. See `interop.to_xarray`.
        """
        return LazyArray.view("to_xarray")(self, chunks, scaled=scaled)

    def beside(self, path: str, node: Dataset) -> LazyArray:
        """Return the dataset ``node`` at ``path`` of the file, with changes that are not written yet."""
        return LazyArray(self.file_store, path, node, self._reader.cache)

    # ---- changing ---------------------------------------------------------------------------------------------------

    def _refuse(self) -> errors.ModeError:
        problem = "the file is open for reading"
        return errors.ModeError(problem, store=self.location, path=self.name, remedy="Open it with mode 'r+'.")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self._refuse()

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Refuse to add ``data`` along ``axis``: the file is open for reading."""
        raise self._refuse()

    def resize(self, size: Any, axis: int | None = None, *lengths: int) -> None:
        """Refuse another ``size`` (also of an ``axis``, or as ``lengths``): the file is open for reading."""
        raise self._refuse()

    # ---- the zarr.Array ---------------------------------------------------------------------------------------------

    @property
    def _async_array(self) -> Any:
        return self._opened()._async_array

    def _opened(self) -> Any:
        """Return the array as zarr-python opens it."""
        if self._array is None:
            self._array = open_zarr_array(self.file_store, self.path, self.node.stored.zarr_format)
        return self._array

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"hierarchy": None}  # zarr-python 2 has other arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __getattr__(self, name: str) -> Any:
        """Return the state that methods of zarr-python 2 use, from the real array."""
        if name not in _STATE_OF_ZARR_2:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        state = getattr(self._opened(), name)
        return type(state)(self) if name in ("_blocks", "_oindex", "_vindex") else state  # these call methods


# ---- changing --------------------------------------------------------------------------------------------------------

Method = TypeVar("Method", bound=Callable[..., Any])


def _one_at_a_time(method: Method) -> Method:
    """Let a method that changes an array wait for the changes that other threads make to the file."""

    @functools.wraps(method)
    def changing(self: EditableArray, *arguments: Any, **options: Any) -> Any:
        # values that other threads compute are computed before, since those may read arrays of this file
        arguments = tuple(map(_in_memory, arguments))
        options = {name: _in_memory(value) for name, value in options.items()}
        with self._edits.gate, self._edits.lock:
            if self._outdated is not None:
                raise self._outdated
            if self._edits.is_closed:
                with at(self.location, self.name):
                    raise errors.ModeError("the file is closed", remedy="Open it and read it again to change it.")
            return method(self, *arguments, **options)

    return typing.cast(Method, changing)


def _in_memory(value: Any) -> Any:
    is_elsewhere = hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic))
    return np.asarray(value) if is_elsewhere else value


def extend(array: LazyArray, data: Any, append: Callable[[Any], Any]) -> None:
    """Append all elements of ``data`` to an array, by the function that appends a list of them."""
    if not np.iterable(data):
        problem = f"{printable(repr(data))} has no elements to add"
        remedy = "Give a list or an array of elements; append adds one."
        raise errors.WrongArgumentError(problem, store=array.location, path=array.name, remedy=remedy)
    if elements := list(data):
        append(elements)


class EditableArray(LazyArray):
    """A dataset of a file that is open with ``"r+"`` or ``"a"``: values can be assigned, added and cut off.

    Changes are visible at once to readers of this array. They are written when the file is closed, or by the next
    ``write``; an exception that leaves the ``with`` block discards them. Assignment accepts the same indices as
    reading, and values that NumPy can broadcast to the selection; they are converted to the data type of the array, and
    refused if that would change them. To change a chunk in a shard, the shard is rewritten. An open file has one array
    for each dataset: copies are the same object.

    Threads may share it: each assignment, ``append``, ``extend``, ``resize`` and indexing is atomic. Several of them
    are not, such as ``array[0] = array[0] + 1``: use a lock of your own.

    Parameters
    ----------
    edits : Edits
        Changes of the file.
    *arguments, **options
        Arguments of `LazyArray`.

    Raises
    ------
    UsageError
        On an assignment: the values do not fill the selection.
    ModeError
        On a change: the file is closed, so that it would not be written.
    ValueRefusedError
        On an assignment: the values do not fit the data type without loss.

    Source: h5py, "Datasets", for assignment and ``resize``; zarr-python, ``Array.append``.
    """

    def __init__(self, edits: Edits, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._edits = edits
        self._outdated: errors.UsageError | None = None
        self._reader = edits.opened(self._reader, self.node, self)
        self._reader.changed = functools.partial(edits.chunk, self.path)
        self._reader.cut = functools.partial(edits.cut, self.path)
        self._reader.is_closed = lambda: edits.is_closed

    def outdate(self, problem: str, *, is_gone: bool) -> None:
        """Refuse changes from now on, with an error for ``problem``; and reading, if the array ``is_gone``."""
        error = self._outdated = self._unusable(problem, "Read the file again with io.read().")

        def refuse(*_: Any) -> None:
            raise error

        if is_gone:
            self._reader.forget()
            self._reader.changed = refuse

    def __reduce__(self) -> Any:
        raise TypeError("an array that is open for changes stays in its process; open the file for reading elsewhere")

    def beside(self, path: str, node: Dataset) -> LazyArray:
        """Return the dataset ``node`` at ``path`` of the file, with its changes."""
        return EditableArray(self._edits, self.file_store, path, node, self._reader.cache)

    def __copy__(self) -> EditableArray:
        return self  # the file has one array, which holds its changes

    def __deepcopy__(self, memo: dict[int, Any]) -> EditableArray:
        return self

    @property
    def _async_array(self) -> Any:
        self._array = None  # the array that zarr opened before may have grown
        return super()._async_array

    def __getitem__(self, key: Any) -> Any:
        with self._edits.lock:  # else a read could see half of an assignment
            return super().__getitem__(key)

    @_one_at_a_time
    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add ``data`` at the end of ``axis``.

        Parameters
        ----------
        data : array-like
            As many axes as the array, with the same lengths except along ``axis``; or one element for the first axis.
        axis : int
            The axis that grows; negative numbers count from the last.

        Returns
        -------
        tuple of int
            The new shape.

        Raises
        ------
        UsageError
            The shapes do not fit, or maxshape forbids it.
        ValueRefusedError
            The values do not fit the data type.
        """
        is_number = isinstance(axis, (int, np.integer))
        if is_number and axis < 0:
            axis += self.ndim
        block = data
        if axis == 0:  # one element gets the first axis
            with at(self.location, self.name):
                if self.dtype.names is not None and not self.dtype.hasobject:
                    ndim = count_axes(data)
                else:
                    ndim = data.ndim if hasattr(data, "ndim") else len(flatten(data)[0])
            block = [data] if ndim < self.ndim else data
        values = self._values(block)
        if (
            not is_number
            or not 0 <= axis < values.ndim == self.ndim
            or any(n != m for i, (n, m) in enumerate(zip(values.shape, self.shape, strict=True)) if i != axis)
        ):
            given = f"data of shape {values.shape}" if block is data else f"an element of shape {values.shape[1:]}"
            problem = f"{given} cannot be appended to shape {self.shape} along axis {axis}"
            remedy = "Give one element, or as many axes with the same lengths except along the one that grows."
            raise self._unusable(problem, remedy)
        start = self.shape[axis]
        shape = tuple(n + values.shape[axis] if i == axis else n for i, n in enumerate(self.shape))
        if start % self.node.stored.chunks[axis]:  # before the array grows: its last chunks may be damaged
            self._check_changing([Axis(start - 1 if i == axis else 0, n) for i, n in enumerate(self.shape)])
        self.resize(shape)
        self._assign([Axis(start if i == axis else 0, n) for i, n in enumerate(shape)], values)
        return self.shape

    def extend(self, data: Any) -> None:
        """Add all elements of ``data`` at the end of the first axis; raises the errors of `append`."""
        extend(self, data, self.append)

    @_one_at_a_time
    def resize(self, size: Any, axis: int | None = None, *lengths: int) -> None:
        """Change the shape: new elements have the fill value, elements outside are cut off.

        Parameters
        ----------
        size : tuple of int or int
            The length of each axis, or the new length of ``axis``. Axes without a recorded maximum are unbounded.
        axis : int, optional
            The only axis that changes; negative numbers count from the last.
        *lengths : int
            Three or more numbers are the lengths of all axes, as in zarr-python 2.

        Raises
        ------
        UsageError
            Another number of axes, an axis that is not there, or a length beyond maxshape.

        Examples
        --------
        >>> data.resize((150, 4))
        >>> data.resize(150, axis=0)
        """
        remedy = "Give a tuple with a length of 0 or more for each axis, or one length and axis=."
        try:
            sizes: Any = (size, axis, *lengths) if lengths else size if np.ndim(size) else (size,)
            if axis is not None and not lengths:
                sizes = list(self.shape)
                sizes[axis] = size
            shape = tuple(operator.index(n) for n in sizes)
        except (IndexError, TypeError, ValueError) as error:
            problem = f"size {size!r} with axis {axis!r} does not fit an array of {self.ndim} axes"
            raise self._unusable(problem, remedy) from error
        if len(shape) != self.ndim or min(shape, default=0) < 0:
            raise self._unusable(f"{shape} is not a shape of {self.ndim} axes", remedy)
        bounds = self._maxshape or ()  # rows are stored with one more axis, which has no bound
        if any(bound is not None and n > max(bound, m) for n, m, bound in zip(shape, self.shape, bounds, strict=False)):
            problem = f"the shape {shape} is beyond the largest one, {bounds}"
            raise self._unusable(problem, "Write the data to a new dataset.")
        self._edits.resize(self._reader, shape)

    def _unusable(self, problem: str, remedy: str) -> errors.UsageError:
        return errors.UsageError(problem, store=self.location, path=self.name, remedy=remedy)

    @_one_at_a_time
    def __setitem__(self, key: Any, value: Any) -> None:
        key, mask = full_mask(key, self.shape) or (key, None)
        axes = normalise(key, self.shape)
        lengths = tuple(axis.length for axis in axes)
        kept = tuple(axis.length for axis in axes if not axis.drop) if mask is None else (int(np.count_nonzero(mask)),)
        own_remedy = _OF_INDEX if data_type_of(self.node) == "VectorIndex" else ""
        try:
            values = self._values(value)
        except errors.ValueRefusedError as error:
            error.remedy = own_remedy or error.remedy
            raise
        # as h5py and NumPy: `array[0] = [5]`
        while values.ndim > len(kept) and values.shape[0] == 1:
            values = values[0]
        try:
            values = np.broadcast_to(values, kept)
            values = values.reshape(lengths) if mask is None else values
        except ValueError as error:
            problem = f"data of shape {values.shape} do not fill the selection, which has shape {kept}"
            remedy = f"Give data of that shape, or one value; io.replace({self.name!r}, values) gives it another shape."
            raise self._unusable(problem, own_remedy or remedy) from error
        if mask is not None:  # the elements around it, within its bounds, keep their values
            values, given = self._reader.read(key).copy(), values
            values[mask] = given
        self._check_changing(axes)
        self._assign(axes, values)

    def _values(self, data: Any) -> Array:
        codec = self._reader.codec
        stored = stored_text(self.node.stored)
        with at(self.location, self.name):
            if not codec.is_object or codec.dtype.names is not None:
                return self._typed(data, codec.dtype)
            if stored is None:
                if hasattr(data, "shape") and hasattr(data, "dtype"):
                    return np.asarray(data).astype(object)
                shape, items = nested_rows(data, self.ndim)  # the elements may be lists themselves
                return object_array(items, shape)
            return cast_text(data, to_text if stored == "text" else to_bytes)

    def _typed(self, data: Any, dtype: np.dtype[Any]) -> Array:
        return cast(data, dtype, same_kind=True)

    def _assign(self, axes: list[Axis], values: Array) -> None:
        stored, codec = self.node.stored, self._reader.codec
        for part in overlaps(axes, stored.chunks):
            if self._is_replaced(part):  # it is not read: it may be damaged, or of an old type
                chunk = fill_array(stored, codec.dtype, stored.chunks)
            else:
                held = self._edits.chunk(self.path, part.chunk)
                # a copy: the cache keeps the stored chunk, to which an undone change returns
                chunk = held if held is not None else self._reader.chunk(part.chunk).copy()
            copy_part(values, part.outer, chunk, part.inner)
            self._edits.put(self._reader, part.chunk, chunk)

    def _check_changing(self, axes: list[Axis]) -> None:
        """Decode the chunks that a selection changes in part: a damaged one is refused before anything changes."""
        for part in overlaps(axes, self.node.stored.chunks):
            if not self._is_replaced(part):
                self._reader.chunk(part.chunk)

    def _is_replaced(self, part: Overlap) -> bool:
        """Return whether all elements of a chunk are in its part of a selection."""
        stored = self.node.stored
        for inner, number, length, chunk in zip(part.inner, part.chunk, stored.shape, stored.chunks, strict=True):
            if not isinstance(inner, slice) or inner != slice(0, min(chunk, length - number * chunk), 1):
                return False
        return True


def _of_stored(name: str) -> Any:
    """Return a method of zarr-python, which reads what is stored, that refuses an array whose changes are not there."""
    method = getattr(ZarrArray, name)

    @functools.wraps(method)
    def reading(self: EditableArray, *arguments: Any, **options: Any) -> Any:
        if self.path in self._edits.changed:
            problem = f"{name} of zarr reads what is stored, and the array has changes that are not written yet"
            raise self._unusable(problem, "Index the array itself, array[...], or write the file first.")
        return method(self, *arguments, **options)

    return reading


# `oindex`, `vindex` and `blocks` call these
for _kind in ("basic", "orthogonal", "mask", "coordinate", "block"):
    setattr(EditableArray, f"get_{_kind}_selection", _of_stored(f"get_{_kind}_selection"))


# ---- arrays of zarr --------------------------------------------------------------------------------------------------

_storage: Any = zarr.storage  # to the type checker too: it differs from release to release


class UnlinkedArray(LazyArray):
    """An array that is not a member of a local file, so that no link can point to it: it is copied."""


def stored_view(data: Any) -> Any:
    """Return the lazy array for a ``zarr.Array``; anything else, and one that cannot be decoded here, unchanged."""
    # The file is the outermost group around an array in a local folder: the user may have opened the array itself.
    if isinstance(data, LazyArray) or not isinstance(data, zarr.Array) or getattr(data, "is_view", False):
        return data
    given: Any = data
    zarr_store = given.chunk_store if _IS_ZARR_2 else given.store  # not the consolidated documents of zarr-python 2
    number = 2 if _IS_ZARR_2 else data.metadata.zarr_format
    is_folder = isinstance(zarr_store, _storage.DirectoryStore if _IS_ZARR_2 else _storage.LocalStore)
    root = str(zarr_store.path if _IS_ZARR_2 else zarr_store.root) if is_folder else ""
    location = os.path.abspath(os.path.join(root, data.path)) if is_folder else ""
    parts: list[str] = []
    while is_folder and os.path.exists(os.path.join(os.path.dirname(location), _DOCUMENTS[number][0])):
        location, name = os.path.split(location)  # to the folder of the outermost group
        parts.insert(0, name)
    store = LocalStore(location) if parts else store_of_zarr(zarr_store)
    path = "/".join(parts) if parts else data.path.strip("/")
    node = None if store is None else _node(store, path, number)
    if store is None or node is None:
        return data
    return (LazyArray if parts else UnlinkedArray)(store, path, node, ChunkCache())


def _node(store: Store, path: str, number: int) -> Dataset | None:
    """Return the metadata of an array, None if this package cannot decode its chunks."""
    texts = store.get_many(join(path, name) for name in _DOCUMENTS[number][1])
    try:
        node = parse_array({split(key)[1]: load(text, key=key) for key, text in texts.items()}, path)
        if node is not None:
            chunk_codec(node.stored)
    except errors.DamagedFileError:  # zarr has decoded the document, so it is only of a kind that we do not know
        return None
    return node


_DOCUMENTS = {2: (zarr2.GROUP, (zarr2.ARRAY, zarr2.ATTRIBUTES)), 3: (zarr3.DOCUMENT, (zarr3.DOCUMENT,))}
"""By format, the document of a group, and those of an array."""
