"""`ZarrDataIO`: the storage options of one dataset.

Source: ``hdmf.data_utils.DataIO``; hdmf-zarr's class of the same name; TensorStore, "Chunk layout", for chosen chunks.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from hdmf.data_utils import AbstractDataChunkIterator, DataIO, InvalidDataIOError
from hdmf.utils import get_data_shape

from hdmf_zarr_backend.encoding.codecs import Codec, codec_config, compressor_config, pipeline_of_zarr3
from hdmf_zarr_backend.errors import UsageError, known_arguments, warn


class ZarrDataIO(DataIO):  # type: ignore[misc]
    """Wraps data for `ZarrIO` together with the way to store them.

    Parameters
    ----------
    data : array-like, DataChunkIterator, h5py.Dataset or zarr.Array
        The values: of any shape; numbers, booleans, text, bytes, dates, references, or rows of these. A copy of a
        stored Zarr array keeps the chunks and shards, codecs and fill value that are not given here.
    chunks : tuple of int or True, optional
        Shape of a chunk, as many entries as axes. True and None: as the next two say; else the chunks of an
        ``h5py.Dataset``, with None those of a stored Zarr array, and of anything else about 4 MiB (an element of text
        or a reference counts as 64 bytes), for which the first axis is cut first. An ``h5py.Dataset`` of up to 1 MiB is
        one chunk, and chunks of less than 64 KiB are joined.
    fillvalue : scalar, optional
        Value of elements that were never written; stored as given: a number, text, bytes, a date or a row of numbers.
        None: that of a stored array, else undefined, which reads as zero or an empty text.
    compressor : str, codec of numcodecs or zarr, dict or bool, optional
        "blosc", "zstd", "zlib" or "none", as for `convert`; a codec, or its configuration in Zarr format 2 or 3, for a
        file of either format. False: none. None: that of a stored Zarr array. True, and None for other data: the
        default, Blosc with LZ4 at level 5 and shuffled bytes, which is
        ``{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}``. Scalars are not compressed. Chunks of
        `numcodecs.Zstd` have a checksum.
    filters : sequence of codecs of numcodecs or zarr, or dicts, optional
        Applied in order before the compressor; None: none. TensorStore cannot read arrays with filters.
    compressors : codec, name, bool, or sequence of codecs, optional
        The compressor, instead of ``compressor``, as hdmf-zarr 0.14 and zarr 3 name it: one codec, or several that
        are applied in order.
    serializer : codec, optional
        As in hdmf-zarr 0.14: only zarr's ``BytesCodec``, little-endian, which is the default.
    link_data : bool
        Link to a stored array that is given as ``data`` instead of copying it. It must be a member of a Zarr file that
        has a path or a URL. What would be read with another name or type through a link is copied.
    maxshape : tuple or int, optional
        Largest shape, None for an axis without bound; kept and given back on read. None: what the schema allows
        for columns of tables, else that of an ``h5py.Dataset``, else no more than the shape is recorded.
    chunk_elements : int, optional
        Elements of a chunk at most, whose shape is then chosen as TensorStore does; 2**20 if only the ratio is given.
    chunk_aspect_ratio : sequence of float, optional
        Ratio of the lengths of a chunk, a number for each axis; all alike if only the elements are given.
    shards : tuple of int or "auto", optional
        Shape of a shard, one stored object that holds many chunks: a multiple of ``chunks``, which are chosen to fit if
        they are not given. "auto": by bytes, 16 MB chunks in 512 MB shards, and none for less than 64 MB. A new file
        for which no format is named has Zarr format 3 then; format 2 has no shards. Changing an array, or appending to
        it, rewrites the affected shards.
    shape, dtype : tuple and type, optional
        Instead of ``data``: an array of the fill value (else zeros) is written, to be filled through `dataset` while
        the file is open.

    Raises
    ------
    UsageError
        A generator that is not in a DataChunkIterator; an unknown codec; ``compressor`` and ``compressors`` at once;
        chunks, shards or maxshape that are not lengths; shards that are not a multiple of chunks, or are of an array to
        be filled later; chunks that are given and to be chosen at once. In a write: a maxshape for other data.
    ValueError
        Only one of ``shape`` and ``dtype`` is given.

    Warns
    -----
    UserWarning
        ``link_data`` is True for data that are not a stored array; in a write, for an array that no link can point to.

    Examples
    --------
    >>> import numpy as np
    >>> from hdmf_zarr_backend import ZarrDataIO
    >>> from pynwb import TimeSeries
    >>> data = ZarrDataIO(np.zeros((9000, 8)), chunks=(3000, 8), compressor="zstd")
    >>> series = TimeSeries(name="raw", data=data, unit="V", rate=1000.0)
    """

    @known_arguments
    def __init__(
        self,
        data: Any = None,
        chunks: Any = None,
        fillvalue: Any = None,
        compressor: Codec | None = None,
        filters: Sequence[Any] | None = None,
        link_data: bool = False,  # noqa: FBT001, FBT002 - the signature of the class that users know
        *,
        compressors: Codec | Sequence[Codec] | None = None,
        serializer: Any = None,
        maxshape: tuple[int | None, ...] | int | None = None,
        shape: tuple[int, ...] | None = None,
        dtype: Any = None,
        chunk_elements: int | None = None,
        chunk_aspect_ratio: Sequence[float] | None = None,
        shards: Any = None,
    ) -> None:
        is_wrapped = isinstance(data, (AbstractDataChunkIterator, DataIO)) or hasattr(data, "shape")
        if isinstance(data, Iterator) and not is_wrapped:
            remedy = "Wrap it, row by row: ZarrDataIO(DataChunkIterator(data=...)), from hdmf.data_utils."
            raise UsageError(f"data cannot be a {type(data).__name__}, which has no shape", remedy=remedy)
        super().__init__(data=data, shape=shape, dtype=np.dtype(dtype) if isinstance(dtype, str) else dtype)
        self.chunks: tuple[int, ...] | None = None if chunks is None or chunks is True else _lengths(chunks)
        self.chunk_elements, self.chunk_aspect_ratio = _chosen_chunks(chunk_elements, chunk_aspect_ratio, self.chunks)
        is_unfilled = data is None and shape is not None
        self.shards: tuple[int, ...] | Literal["auto"] | None = _shards(shards, self.chunks, is_unfilled=is_unfilled)
        self.fillvalue = fillvalue
        self.filters, self.compressor = _codecs(filters, compressor, compressors, serializer)
        self.link_data = bool(link_data)
        if link_data and isinstance(data, (list, tuple, np.ndarray, AbstractDataChunkIterator)):
            warn(f"link_data=True has no effect: a {type(data).__name__} is not a stored array")
            self.link_data = False
        self._maxshape = None if maxshape is None else _largest(maxshape)
        self._dataset: Any = None
        # as they were given, for `get_io_params`: codecs are converted by the constructor again
        self._given = {
            "chunks": chunks if chunks is True else self.chunks, "fillvalue": fillvalue, "filters": filters,
            "compressor": compressor, "maxshape": self._maxshape,
            "chunk_elements": self.chunk_elements, "chunk_aspect_ratio": self.chunk_aspect_ratio, "shards": self.shards,
            "compressors": compressors, "serializer": serializer,
        }  # fmt: skip
        if data is None and shape is not None:
            self._given |= {"shape": tuple(shape), "dtype": dtype}

    def get_io_params(self) -> dict[str, Any]:
        """Return the options as arguments for another `ZarrDataIO`."""
        # hdmf calls `type(data)(data=..., **data.get_io_params())`: each key has to be an argument of the constructor
        return {**self._given, "link_data": self.link_data}

    @property
    def io_settings(self) -> dict[str, Any]:
        """A copy of the storage options that are set, as they were given; ``compressors=False`` is None in it."""
        # True is the default, which hdmf-zarr 0.14 does not name
        left_out = {name for name in ("compressor", "compressors") if self._given[name] is True}
        settings = {key: value for key, value in self._given.items() if value is not None and key not in left_out}
        return settings | ({"compressors": None} if settings.get("compressors") is False else {})

    @property
    def dataset(self) -> Any:
        """The array that was written for ``shape`` and ``dtype``, to be filled; None before the write."""
        return self._dataset

    @dataset.setter
    def dataset(self, value: Any) -> None:
        if self._dataset is not None:
            problem = "an array was written with these settings already"
            raise UsageError(problem, remedy="Create a new wrapper for each file.")
        self._dataset = value

    @property
    def maxshape(self) -> tuple[int | None, ...] | None:
        """The maximum shape that was given, else that of the data, else the shape of the data."""
        if self._maxshape is not None:
            return self._maxshape
        if "shape" in self._given:
            return tuple(self._given["shape"])
        known = getattr(self.data, "maxshape", None)
        shape: tuple[int | None, ...] | None = get_data_shape(self.data) if known is None else known
        return shape

    # hdmf's own copies are a plain `DataIO` without the options

    def __copy__(self) -> ZarrDataIO:
        return ZarrDataIO(self.data, **self.get_io_params())

    def __deepcopy__(self, memo: dict[int, Any]) -> ZarrDataIO:
        result = ZarrDataIO(copy.deepcopy(self.data, memo), **self.get_io_params())
        memo[id(self)] = result
        return result

    def __iter__(self) -> Iterator[Any]:
        if not self.valid:
            raise InvalidDataIOError("there are no data to iterate over")
        if hasattr(self.data, "__iter__"):
            return iter(self.data)
        # an array that cannot be iterated over, such as one of zarr 3, is read chunk by chunk
        length, step = (self.data.shape[0], max(1, self.data.chunks[0])) if self.data.shape else (0, 1)
        return (row for start in range(0, length, step) for row in self.data[start : start + step])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001 - NumPy's protocol
        if not self.valid:
            raise InvalidDataIOError("there are no data to make an array from")
        if isinstance(self.data, AbstractDataChunkIterator):
            raise NotImplementedError("a data chunk iterator cannot be turned into an array: it can be read only once")
        # NumPy 2 passes `dtype` and `copy`; the method of hdmf takes neither
        return np.array(self.data, dtype=dtype) if copy else np.asarray(self.data, dtype=dtype)


ZarrDataIO.__init__.__doc__ = ZarrDataIO.__doc__  # help() shows hdmf's otherwise


def keep_settings(given: Any, builder: Any) -> None:
    """Wrap the data of a builder as those ``given`` were, of which hdmf has made a list of references or rows."""
    # hdmf does it for H5DataIO only, and for the ZarrDataIO of hdmf-zarr
    if isinstance(given, ZarrDataIO) and isinstance(builder.data, list):
        builder["data"] = ZarrDataIO(builder.data, **given.get_io_params())


def unwrapped(data: Any) -> Any:
    """Return the data inside a DataIO of any backend."""
    while isinstance(data, DataIO):
        data = data.data
    return data


def _shards(
    shards: Any, chunks: tuple[int, ...] | None, *, is_unfilled: bool
) -> tuple[int, ...] | Literal["auto"] | None:
    if shards is None:
        return None
    if is_unfilled:  # filling it by parts would rewrite each shard for each part
        problem = "a sharded array cannot be filled later"
        raise UsageError(problem, remedy="Give the data, an iterator, or leave shards out.")
    if isinstance(shards, str) and shards == "auto":
        return "auto"
    lengths = _lengths(shards, "shards")
    if chunks is not None and len(chunks) != len(lengths):
        axes = ["1 axis" if len(each) == 1 else f"{len(each)} axes" for each in (lengths, chunks)]
        problem = f"shards {lengths} are for {axes[0]}, and chunks {chunks} for {axes[1]}"
        raise UsageError(problem, remedy="Give one length for each axis of the data.")
    if chunks is not None and any(n % c for n, c in zip(lengths, chunks, strict=True)):
        problem = f"shards {lengths} are not a whole number of chunks {chunks}"
        raise UsageError(problem, remedy="Give shards whose lengths are multiples of those of the chunks.")
    return lengths


def _codecs(
    filters: Any, compressor: Any, compressors: Any, serializer: Any
) -> tuple[list[dict[str, Any]] | None, Any]:
    """Return filters and compressor as stored, from the arguments of hdmf-zarr 0.13 or from those of 0.14."""
    if compressor is not None and compressors is not None:
        raise UsageError("compressor and compressors are both given", remedy="Give one of them.")
    if compressors is not None or serializer is not None:
        filters, compressor_of_zarr3 = pipeline_of_zarr3(filters, compressors, serializer)
        compressor = compressor_of_zarr3 if compressor is None else compressor
    if filters is not None and not isinstance(filters, (list, tuple)):
        raise UsageError(f"filters {filters!r} is not a list", remedy="Give a list of codecs.")
    configs = None if filters is None else [codec_config(codec) for codec in filters]
    return configs, None if compressor is None else compressor_config(compressor)


def _lengths(chunks: Any, what: str = "chunks") -> tuple[int, ...]:
    # as in h5py, a number is the length on the only axis; True asks for chosen chunks
    given = [chunks] if isinstance(chunks, (int, np.integer)) and not isinstance(chunks, bool) else chunks
    try:
        lengths = tuple(operator.index(n) for n in given)
    except TypeError as error:
        raise UsageError(f"{what} {chunks!r} are not lengths", remedy="Give one whole number for each axis.") from error
    if any(n < 1 for n in lengths):
        raise UsageError(f"{what} {chunks} has a length below 1", remedy="Give positive lengths.")
    return lengths


def _largest(maxshape: Any) -> tuple[int | None, ...]:
    # a number as in h5py, see `_lengths`; NumPy's would not become JSON
    is_one = isinstance(maxshape, (int, np.integer)) and not isinstance(maxshape, bool)
    try:
        lengths = tuple(None if n is None else operator.index(n) for n in ([maxshape] if is_one else maxshape))
    except TypeError:
        lengths = (-1,)
    if any(n is not None and n < 0 for n in lengths):
        remedy = "Give a whole number for each axis, or None for one without bound."
        raise UsageError(f"maxshape {maxshape!r} is not a shape", remedy=remedy)
    return lengths


def _chosen_chunks(
    elements: Any, ratio: Any, chunks: tuple[int, ...] | None
) -> tuple[int | None, tuple[float, ...] | None]:
    """Return the two arguments that choose the shape of chunks, checked."""
    if chunks is not None and (elements is not None or ratio is not None):
        raise UsageError("chunks cannot be given and chosen at once", remedy="Leave chunks out.")
    try:
        parts = None if ratio is None else tuple(float(part) for part in ratio)
        count = None if elements is None else operator.index(elements)
    except (TypeError, ValueError) as error:
        problem = f"chunk_elements {elements!r} and chunk_aspect_ratio {ratio!r} are not valid"
        raise UsageError(problem, remedy="Give a whole number, and a number for each axis.") from error
    if not all(0 < number < math.inf for number in (count, *(parts or ())) if number is not None):
        problem = f"chunk_elements {elements!r} or chunk_aspect_ratio {ratio!r} is not positive"
        raise UsageError(problem, remedy="Give positive numbers.")
    return count, parts
