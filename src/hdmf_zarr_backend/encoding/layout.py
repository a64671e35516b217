"""`new_dataset`: how a dataset is stored that is described by its element and shape; the inverse of `describe`.

`Layout` has what a user may choose: chunks, codecs, shards; what is not chosen is chosen here, by bytes. Arrays are
made in their form of format 2; `encoding.zarr3.store_in_format_3` converts them.

A chunk is fetched by one request and decoded by one thread. 1 to 16 MB are suitable for disks and object stores, and
keep the number of files small (issue 1520 of the DANDI archive's client: 1.5 million files for 34 GB).

Source: hdmf-zarr storage specification, "dtype mappings", "Links and references"; docs/format for scalars and rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import truediv
from typing import Any, Literal

import numpy as np

from hdmf_zarr_backend.encoding.data_types import word_of_type
from hdmf_zarr_backend.encoding.dtypes import zarr_type
from hdmf_zarr_backend.encoding.elements import row_word
from hdmf_zarr_backend.encoding.reserved import DTYPE
from hdmf_zarr_backend.errors import UsageError, ValueRefusedError
from hdmf_zarr_backend.model.element import Compound, Element, Reference, Text
from hdmf_zarr_backend.model.nodes import Dataset, Shape, StoredArray


class NoMatchError(UsageError):
    """Patterns of settings match no dataset of a file."""

    patterns: frozenset[str] = frozenset()


# Target size of one chunk of a new array, and of one inside a shard, which may be as large as one request.
CHUNK_BYTES, SHARDED_CHUNK_BYTES = 4 * 2**20, 16 * 2**20
# Automatic shards: most bytes of values, most chunks (whose index has a quarter of a megabyte), and least bytes of an
# array that has them; a smaller one consists of a few objects anyway.
SHARD_BYTES, SHARD_CHUNKS, SHARDED_BYTES = 512 * 2**20, 2**14, 64 * 2**20
OBJECT_BYTES = 64  # assumed size of an element of an object array, for the size of chunks
WHOLE_BYTES = 2**20  # maximum size of an HDF5 dataset that becomes one chunk, whatever its HDF5 chunks were
LEAST_CHUNK_BYTES = 2**16  # smaller HDF5 chunks are joined along the first axis
TENSORSTORE_ELEMENTS = 2**20  # TensorStore's default number of elements of a chunk

# hdmf-zarr 0.13 has this default, and all readers of format 2 that were tried decode it. gzip is unreadable for
# netcdf-c, lz4 and lzma for TensorStore too.
DEFAULT_COMPRESSOR: dict[str, Any] = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
# zarr-python, xarray and zarrita read text in this form; hdmf-zarr 0.13 reads ASCII, dates and cached specifications
# in it, too. TensorStore and netcdf-c read text in no form of variable length.
VLEN_UTF8: dict[str, Any] = {"id": "vlen-utf8"}
VLEN_BYTES: dict[str, Any] = {"id": "vlen-bytes"}
# The only form of references that hdmf-zarr 0.13 reads without unpickling, which numcodecs refuses from 0.15.2 on.
JSON2: dict[str, Any] = {
    "id": "json2", "encoding": "utf-8", "allow_nan": True, "check_circular": True, "ensure_ascii": True, "indent": None,
    "separators": [",", ":"], "skipkeys": False, "sort_keys": True, "strict": True,
}  # fmt: skip
Notes = dict[str, Any]
_OBJECTS = "|O"
_SCALAR = "scalar"


def default_chunks(shape: tuple[int, ...], itemsize: int, *, target: int = CHUNK_BYTES) -> tuple[int, ...]:
    """Return a chunk shape of about ``target`` bytes."""
    # The first axis (time, rows) is divided first. If one row is too large, the longest other axis is halved.
    if not shape:
        return ()
    rest = [max(1, n) for n in shape[1:]]
    row = math.prod(rest) * max(1, itemsize)
    while row > target and max(rest, default=1) > 1:
        longest = rest.index(max(rest))
        rest[longest] = -(-rest[longest] // 2)
        row = math.prod(rest) * max(1, itemsize)
    # A row is what one step of the first axis adds: at least one of them is in a chunk, however large.
    rows = max(1, target // row)
    # equal chunks: the last one is stored completely, and could be mostly padding otherwise
    return (-(-shape[0] // -(-shape[0] // rows)) if shape[0] else rows, *rest)


def chunks_from_hdf5(shape: tuple[int, ...], itemsize: int, chunks: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the chunks of an array for an HDF5 dataset with ``chunks`` (None: contiguous), kept if suitable."""
    if chunks is None or math.prod(shape) * itemsize <= WHOLE_BYTES:
        return default_chunks(shape, itemsize)
    chunk_bytes = math.prod(chunks) * itemsize
    if chunk_bytes >= LEAST_CHUNK_BYTES:
        return tuple(chunks)
    # Small chunks of HDF5 would be as many files or requests; in HDF5 they cost nothing.
    factor = max(1, WHOLE_BYTES // max(1, chunk_bytes))
    return (min(chunks[0] * factor, -(-shape[0] // chunks[0]) * chunks[0]), *chunks[1:])


def chunks_by_elements(
    shape: tuple[int | None, ...], elements: int | None = None, aspect_ratio: Sequence[float] | None = None
) -> tuple[int, ...]:
    """Return the chunk shape that TensorStore would choose: the ratio times the largest factor that fits."""
    # The factor is searched in steps, as in TensorStore; with ratios such as 10 to 0.1 and chunks of a few elements, an
    # axis may differ by one. Source: TensorStore, "Selection of chunk layout when creating a new array".
    if not shape:
        return ()
    target = TENSORSTORE_ELEMENTS if elements is None else elements
    ratio = [float(part) or 1.0 for part in aspect_ratio or (1.0,) * len(shape)]
    most = [float(target if n is None else min(target, max(1, n))) for n in shape]

    def scaled(factor: float) -> Shape:
        return tuple(max(1, int(min(part * factor, limit))) for part, limit in zip(ratio, most, strict=True))

    step = 0.5 / max(ratio)  # between two such factors, no axis grows by 2
    low, high = step, 2 * max(map(truediv, most, ratio))
    while low + step < high:
        middle = low + (high - low) / 2
        count = math.prod(scaled(middle))
        if count >= target:
            high = middle
        if count <= target:
            low = middle
    return scaled(low)


def shards_by_bytes(shape: tuple[int | None, ...], chunks: Shape, itemsize: int, *, target: int = SHARD_BYTES) -> Shape:
    """Return a shard shape of at most ``target`` bytes (at least one chunk), a multiple of ``chunks``."""
    # The last axes are filled first, so that a shard is a range on the first one (time, rows) if possible. It is not
    # longer than the array, rounded up to complete chunks.
    # An index entry has 16 bytes, and a reader fetches the whole index before the first chunk.
    left = max(1, min(SHARD_CHUNKS, target // max(1, math.prod(chunks) * itemsize)))
    counts: list[int] = []
    for length, chunk in zip(reversed(shape), reversed(chunks), strict=True):
        count = left
        if length is not None:  # equal shards: the last one could be small otherwise
            in_all = max(1, -(-length // chunk))
            count = -(-in_all // -(-in_all // min(left, in_all)))
        counts.append(count)
        left //= count
    return tuple(count * chunk for count, chunk in zip(reversed(counts), chunks, strict=True))


def chunks_inside(shards: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the largest chunk shape up to ``chunks`` of which ``shards`` is a multiple."""
    inside = []
    for length, most in zip(shards, chunks, strict=True):
        small = [n for n in range(1, math.isqrt(length) + 1) if length % n == 0]
        inside.append(max(n for n in (*small, *(length // n for n in small)) if n <= most))
    return tuple(inside)


@dataclass(slots=True, frozen=True)
class Sharding:
    """The requested shards of an array."""

    shape: tuple[int, ...] | Literal["auto"]  # "auto": by bytes, and none for a small array
    are_chunks_given: bool = False  # the user gave the chunks: they are not changed to fit the shards
    # The array was stored with shards before. Then format 2, which has none, is not an error.
    is_kept: bool = False


@dataclass(slots=True)
class Layout:
    """What a user may choose of how a dataset is stored, as in `ZarrDataIO`; None: it is chosen here."""

    chunks: tuple[int, ...] | None = None
    fill_value: Any = None
    maxshape: tuple[int | None, ...] | None = None
    compressor: dict[str, Any] | bool | None = None  # False: no compression; True or None: the default
    filters: list[dict[str, Any]] | None = None
    chunk_elements: int | None = None
    chunk_aspect_ratio: tuple[float, ...] | None = None
    shards: tuple[int, ...] | Literal["auto"] | None = None

    @property
    def has_given_codecs(self) -> bool:
        """Whether the user gave filters or the configuration of a compressor."""
        return bool(self.filters) or isinstance(self.compressor, dict)

    @property
    def is_left_open(self) -> bool:
        """Whether the user has chosen neither codecs nor chunks, so that those of a stored array may stay."""
        return self.compressor is None and not self.filters and self.chunks is None and not self.chooses_by_elements

    def sharding(self) -> Sharding | None:
        """Return the requested shards. Call this before a planner has chosen chunks."""
        if self.shards is None:
            return None
        return Sharding(self.shards, are_chunks_given=self.chunks is not None or self.chooses_by_elements)

    @property
    def chooses_by_elements(self) -> bool:
        """Whether chunks are chosen as TensorStore does."""
        return self.chunk_elements is not None or self.chunk_aspect_ratio is not None

    def choose_chunks(self, shape: tuple[int | None, ...], itemsize: int) -> tuple[int, ...]:
        """Return a chunk shape, chosen by bytes or by elements; None is an unknown length."""
        if not self.chooses_by_elements:
            return default_chunks(tuple(n or 0 for n in shape), itemsize)
        ratio = self.chunk_aspect_ratio
        if ratio is not None and len(ratio) != len(shape):
            problem = f"chunk_aspect_ratio {ratio} does not fit {len(shape)} axes"
            raise UsageError(problem, remedy="Give a number for each axis.")
        return chunks_by_elements(shape, self.chunk_elements, ratio)

    def compressor_config(self) -> dict[str, Any] | None:
        """Return the configuration of the compressor, None without compression."""
        if self.compressor is False:
            return None
        return dict(DEFAULT_COMPRESSOR) if self.compressor in (True, None) else dict(self.compressor)  # type: ignore[arg-type]


def new_dataset(
    element: Element | np.dtype[Any], shape: tuple[int, ...], layout: Layout, *, as_bytes: bool = False
) -> tuple[Dataset, Notes]:
    """Return a new dataset and the entries of its note."""
    if isinstance(element, np.dtype):
        # ``zarr_dtype`` has the fields, so the note marks it as a scalar.
        is_marked = not shape and element.kind == "V"
        data_type = zarr_type(element)
        named = word_of_type(data_type) if shape or is_marked else _SCALAR
        return _dataset(data_type, named, shape, layout, element.itemsize), {"scalar": True} if is_marked else {}
    if isinstance(element, Compound):
        return _rows(element, shape, layout)
    if isinstance(element, Text) and element.size is None:
        codec = VLEN_BYTES if as_bytes else VLEN_UTF8
        zarr_dtype: Any = _SCALAR if not shape else "bytes" if as_bytes else "str"
        notes: Notes = {"text": "ascii"} if element.charset == "ascii" and not as_bytes else {}
    elif isinstance(element, Reference):
        codec, zarr_dtype = JSON2, row_word(element)
        notes = {} if shape else {"scalar": True}
    else:
        raise ValueRefusedError(f"a dataset of {element} needs a NumPy type", remedy="Give the NumPy type.")
    return _objects(codec, zarr_dtype, shape, layout), notes


def as_scalar(dataset: Dataset, notes: Notes) -> None:
    """Mark a new dataset of one compound or opaque element as a scalar, which is not compressed."""
    notes["scalar"] = True
    dataset.stored.compressor = None


def _rows(element: Compound, shape: tuple[int, ...], layout: Layout) -> tuple[Dataset, Notes]:
    """Return a dataset of compounds with text or references: lists of JSON, whose fields are the last axis."""
    # hdmf-zarr 0.13 reads rows in this form, makes data frames of them and exports them to HDF5; its own is a pickle.
    fields = len(element.fields)
    lengths = shape or (1,)
    chunks = _given_chunks(layout, lengths)
    if chunks is None and layout.chooses_by_elements:
        chunks = layout.choose_chunks(lengths, OBJECT_BYTES)
    inner = Layout(chunks=chunks and (*chunks, fields), compressor=layout.compressor, filters=layout.filters)
    words = [{"name": name, "dtype": row_word(member)} for name, member in element.fields]
    dataset = _objects(JSON2, words, (*lengths, fields), inner)
    dataset.stored.chunks = (*dataset.stored.chunks[:-1], fields)
    notes: Notes = {"rows": True}
    if not shape:
        as_scalar(dataset, notes)
    return dataset, notes


def _given_chunks(layout: Layout, lengths: Shape) -> tuple[int, ...] | None:
    """Return the chunks that were given, which have a length for each axis."""
    if layout.chunks is not None and len(layout.chunks) != len(lengths):
        problem = f"chunks {layout.chunks} do not fit the shape {lengths}"
        raise UsageError(problem, remedy="Give one length for each axis.")
    return layout.chunks


def _objects(codec: dict[str, Any], zarr_dtype: Any, shape: tuple[int, ...], layout: Layout) -> Dataset:
    dataset = _dataset(_OBJECTS, zarr_dtype, shape, layout, OBJECT_BYTES)
    dataset.stored.filters = [dict(codec), *(dataset.stored.filters or [])]
    return dataset


def _dataset(data_type: Any, zarr_dtype: Any, shape: Shape, layout: Layout, itemsize: int) -> Dataset:
    lengths = shape or (1,)
    chunks = _given_chunks(layout, lengths)
    # xarray reads a fill value of 0 as "missing" and makes NaN of every 0, so there is none unless the user gives one.
    # An empty list of filters crashes netcdf-c 4.10, which cannot read a compressed scalar either.
    stored = StoredArray(
        shape=lengths,
        chunks=chunks or layout.choose_chunks(lengths, itemsize),
        data_type=data_type,
        compressor=layout.compressor_config() if shape else None,
        filters=layout.filters or None,
    )
    return Dataset(stored, {DTYPE: zarr_dtype})
