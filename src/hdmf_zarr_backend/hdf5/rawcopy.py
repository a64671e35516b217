"""Which HDF5 datasets are copied with their chunks as they are, and which Zarr arrays are.

HDF5 -> Zarr: `plan_raw`; Zarr -> HDF5: `plan_direct` and `write_direct`. No value is decoded or encoded on the way, but
for the chunks that one side can store and the other cannot.

Source: HDF5 reference manual, `H5Pset_chunk_opts`, `H5Pset_fill_time`, `H5Dwrite_chunk`; the issue on conversion
without recompression.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.errors import ChunkError, MetadataError, UsageError
from hdmf_zarr_backend.hdf5.describe import Description
from hdmf_zarr_backend.hdf5.filters import BUILT_IN, LZ4, Config, Pipeline, codecs_of, lz4_to_hdf5, pipeline_of, usable
from hdmf_zarr_backend.hdf5.layout import is_same_layout
from hdmf_zarr_backend.hdf5.rawchunks import UNFILTERED, Index, RawChunks, is_listable
from hdmf_zarr_backend.hdf5.rawsource import RawH5Source
from hdmf_zarr_backend.hdf5.types import TypeJSON
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

_UNDECIDED = 16
"""How many chunks at the edge are looked at to find out whether those are filtered."""

_MOST_BYTES = 2**32 - 1
"""HDF5 before 2.0 has no larger chunk."""


class RawPlan(NamedTuple):
    """How a dataset is copied with its chunks as they are.

    Attributes
    ----------
    filters, compressor
        Of the Zarr array; its chunks are ``source.chunks``, its data type that of the dataset, its order "C".
    source : RawH5Source
        Its values.
    """

    filters: list[Config] | None
    compressor: Config | None
    source: RawH5Source


def plan_raw(dataset: Any, description: Description) -> RawPlan | None:
    """Return how ``dataset`` can be copied with its chunks kept as they are, None if HDF5 has to decode it.

    Parameters
    ----------
    dataset : h5py.Dataset
        Any. It is not kept, unless its file is not a plain local one.
    description : Description
        What `describe` says of it.

    Notes
    -----
    None for: what is not chunked or virtual; text, references and rows with them; types whose bytes are not those of
    the Zarr type (padded compounds, numbers with a layout of their own, terminated text); filters without a
    counterpart.
    """
    if description.kind != "number" or not dataset.shape or not is_listable(dataset) or dataset.file.swmr_mode:
        return None
    dtype, inner = description.dtype, description.inner
    element = np.dtype((dtype, inner)) if inner else dtype
    entries = description.note.get("filters", [])
    pipeline = codecs_of(entries, dtype)
    fill = _fill_bytes(dataset, dtype, has_inner=bool(inner))
    if pipeline is None or fill is None or not is_same_layout(description.type, element):
        return None
    size = math.prod(dataset.chunks) * element.itemsize
    if any(size % config["elementsize"] for config in pipeline.codecs if config["id"] == "shuffle"):
        return None
    try:
        source = RawH5Source(RawChunks(dataset, inner), dtype, pipeline, fill)
    except UsageError:
        return None
    numbers = [entry[0] for entry in entries]
    if not _edges_known(dataset, source, size) or not _decodes(source, numbers):
        return None
    return RawPlan(pipeline.filters, pipeline.compressor, source)


def _fill_bytes(dataset: Any, dtype: np.dtype[Any], *, has_inner: bool) -> bytes | None:
    """Return the element that reads where no chunk is: zero where HDF5 was told never to fill, None if unknown."""
    from h5py import h5d

    created = dataset.id.get_create_plist()
    is_given = created.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    if not is_given or created.get_fill_time() == h5d.FILL_TIME_NEVER:
        return bytes(dtype.itemsize)
    if has_inner:
        return None  # h5py does not read the fill value of elements that are arrays
    value = np.zeros((), dataset.dtype)
    created.get_fill_value(value)
    return value.tobytes()


def _decodes(source: RawH5Source, numbers: list[int]) -> bool:
    """Tell whether numcodecs reads what a plugin made, by the smallest chunk; the built-in filters are certain."""
    raw = source.raw
    if set(numbers) <= BUILT_IN or not len(raw):
        return True
    filtered = np.flatnonzero(raw.masks() != UNFILTERED)
    if not len(filtered):
        return True
    smallest = filtered[np.argmin(raw.sizes()[filtered])]
    try:
        source.decode(raw.index_at(int(smallest)))
    except ChunkError:
        return False
    return True


def _edges_known(dataset: Any, source: RawH5Source, size: int) -> bool:
    """Find out whether chunks at the edge are filtered (``H5Pset_chunk_opts``), which h5py cannot ask; False: unknown.

    A chunk that was left alone has exactly the size of its values; then decoding it tells, and where the only filter is
    shuffling, what HDF5 reads.
    """
    raw, pipeline = source.raw, source.pipeline
    if not pipeline.codecs:
        return True
    partial = raw.is_partial()
    doubtful = np.flatnonzero(partial & (raw.sizes() == size) & (raw.masks() == 0))
    for place in doubtful[:_UNDECIDED]:
        answer = _is_filtered(dataset, source, raw.index_at(int(place)))
        if answer is False:
            raw.set_unfiltered(partial)
        if answer is not None:
            return True
    return len(doubtful) <= _UNDECIDED


def _is_filtered(dataset: Any, source: RawH5Source, index: Index) -> bool | None:
    """Tell whether the chunk at ``index`` is filtered, None where both readings of its bytes are the same."""
    data = source.raw.read(index)
    try:
        decoded = source.decode(index)
    except ChunkError:
        return False
    if decoded.tobytes() == data:
        return None
    if any(config["id"] != "shuffle" for config in source.pipeline.codecs):
        return True
    rank = len(dataset.shape)
    region = tuple(
        slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index[:rank], dataset.chunks, dataset.shape, strict=True)
    )
    values = np.ascontiguousarray(dataset[region]).tobytes()
    inside = tuple(slice(0, part.stop - part.start) for part in region)
    ours = np.ascontiguousarray(decoded[inside]).tobytes()
    plain = np.frombuffer(data or b"", source.dtype).reshape(source.chunks)[inside]
    if ours == np.ascontiguousarray(plain).tobytes():
        return None
    return ours == values


# ---- Zarr -> HDF5 ---------------------------------------------------------------------------------------------------


def plan_direct(
    node: ArrayNode[Attributes], kind: TypeJSON, maxshape: tuple[int | None, ...] | None = None, *, noted: Any = None
) -> Pipeline | None:
    """Return the filters of an HDF5 dataset that takes the chunks of a Zarr array as they are, None if there are none.

    The dataset is then created with the shape and chunks of ``node``, with `set_filters` on its property list and with
    the fill value of ``node`` (zero for null), and filled by `write_direct`.

    Parameters
    ----------
    node : ArrayNode
        A format-2 array.
    kind : TypeJSON
        The type that the elements will have in HDF5.
    maxshape : tuple, optional
        The largest shape of the dataset, the shape of ``node`` where it is not given: HDF5 has no chunk that is longer.
    noted : list, optional
        The filters that the dataset had in HDF5.
    """
    try:
        dtype = numpy_dtype(node.data_type)
    except MetadataError:
        return None
    if dtype.hasobject or not node.shape or node.order != "C" or not is_same_layout(kind, dtype):
        return None
    bounds = maxshape if maxshape is not None else node.shape
    if any(bound is not None and c > bound for c, bound in zip(node.chunks, bounds, strict=True)):
        return None
    if not 0 < math.prod(node.chunks) * dtype.itemsize <= _MOST_BYTES:
        return None
    pipeline = pipeline_of(node.filters, node.compressor, dtype, noted=noted)
    return pipeline if pipeline is not None and usable(pipeline) else None


def write_direct(dataset: Any, chunks: Iterable[tuple[Index, bytes | None]]) -> int:
    """Write the chunks of a Zarr array into a new HDF5 dataset as they are.

    Parameters
    ----------
    dataset : h5py.Dataset
        Created as `plan_direct` says.
    chunks : iterable of (index, bytes)
        None for a chunk that is not there; it stays unallocated and reads as the fill value.

    Returns
    -------
    int
        Bytes that were written.

    Raises
    ------
    UsageError
        A chunk lies outside of the dataset.
    ChunkError
        A chunk without filters has not the size of its values.
    """
    created = dataset.id.get_create_plist()
    count = created.get_nfilters()
    is_framed = count > 0 and created.get_filter(count - 1)[0] == LZ4
    size = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    grid = [-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)]
    written = 0
    for index, data in chunks:
        if data is None:
            continue
        if len(index) != len(grid) or not all(0 <= i < n for i, n in zip(index, grid, strict=True)):
            raise UsageError(f"the chunk {index} lies outside of the dataset", path=dataset.name)
        if not count and len(data) != size:
            problem = f"the chunk {index} has {len(data)} bytes instead of {size}"
            raise ChunkError(problem, remedy="Run `zarrio verify` on the Zarr file.")
        stored = lz4_to_hdf5(data) if is_framed else data
        dataset.id.write_direct_chunk(tuple(i * c for i, c in zip(index, dataset.chunks, strict=True)), stored)
        written += len(stored)
    return written
