"""`new_dataset`: how a dataset is stored that is described by its element and shape; the inverse of `describe`.

`formats.elements.describe` returns the element and shape again. `Layout` has what a user may choose: chunks, codecs,
shards. Arrays are made in their form of format 2; `formats.zarr3.store_in_format_3` converts them.

Source: hdmf-zarr storage specification, "dtype mappings", "Links and references"; docs/format for scalars and rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hdmf_zarr_backend.encoding.reserved import DTYPE
from hdmf_zarr_backend.encoding.type_codes import letter_of
from hdmf_zarr_backend.errors import UsageError, ValueRefusedError
from hdmf_zarr_backend.formats.chunking import DEFAULT_COMPRESSOR, OBJECT_BYTES, chunks_by_elements, default_chunks
from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.formats.elements import row_word
from hdmf_zarr_backend.formats.zarr3_types import word_of_type
from hdmf_zarr_backend.model.element import Compound, Element, Reference, Text
from hdmf_zarr_backend.model.nodes import Attributes, Dataset
from hdmf_zarr_backend.model.stored import StoredArray

VLEN_UTF8: dict[str, Any] = {"id": "vlen-utf8"}
VLEN_BYTES: dict[str, Any] = {"id": "vlen-bytes"}
JSON2: dict[str, Any] = {
    "id": "json2", "encoding": "utf-8", "allow_nan": True, "check_circular": True, "ensure_ascii": True, "indent": None,
    "separators": [",", ":"], "skipkeys": False, "sort_keys": True, "strict": True,
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Sharding:
    """The requested shards of an array.

    Attributes
    ----------
    shape : tuple of int or "auto"
        Shape of a shard; "auto": by bytes, and no shards for a small array.
    are_chunks_given : bool
        Whether the user gave the chunk shape, which is then not changed to fit the shards.
    is_kept : bool
        Whether the array was stored with these shards before; then format 2, which has no shards, is not an error.
    """

    shape: tuple[int, ...] | Literal["auto"]
    are_chunks_given: bool = False
    is_kept: bool = False


@dataclass(slots=True)
class Layout:
    """What a user may choose of how a dataset is stored; None: it is chosen here.

    Attributes
    ----------
    chunks, fill_value, maxshape, chunk_elements, chunk_aspect_ratio, shards
        As in `ZarrDataIO`. Chunks and shards have an axis for each axis of the dataset.
    compressor : dict, bool or None
        False: no compression; True or None: the default.
    filters : list of dict or None
        Codecs before the compressor.
    """

    chunks: tuple[int, ...] | None = None
    fill_value: Any = None
    maxshape: tuple[int | None, ...] | None = None
    compressor: dict[str, Any] | bool | None = None
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


Notes = dict[str, Any]

_OBJECTS = "|O"
_SCALAR = "scalar"


def new_dataset(
    element: Element | np.dtype[Any], shape: tuple[int, ...], layout: Layout, *, as_bytes: bool = False
) -> tuple[Dataset[Attributes], Notes]:
    """Return a new dataset and the entries of its note."""
    if isinstance(element, np.dtype):
        return _plain(element, shape, layout)
    if isinstance(element, Compound):
        return _rows(element, shape, layout)
    if isinstance(element, Text) and element.size is None:
        codec = VLEN_BYTES if as_bytes else VLEN_UTF8
        word: Any = _SCALAR if not shape else "bytes" if as_bytes else "str"
        notes: Notes = {"text": "ascii"} if element.charset == "ascii" and not as_bytes else {}
    elif isinstance(element, Reference):
        codec, word = JSON2, row_word(element)
        notes = {} if shape else {"scalar": True}
    else:
        raise ValueRefusedError(f"a dataset of {element} is made from its NumPy type", remedy="Give the type.")
    return _objects(codec, word, shape, layout), notes


def as_scalar(dataset: Dataset[Attributes], notes: Notes) -> None:
    """Mark a new dataset of one compound or opaque element as a scalar, which is not compressed."""
    notes["scalar"] = True
    dataset.stored.compressor = None


def _plain(dtype: np.dtype[Any], shape: tuple[int, ...], layout: Layout) -> tuple[Dataset[Attributes], Notes]:
    is_marked = not shape and letter_of(dtype) == "V"  # ``zarr_dtype`` has the fields, so the note marks it as a scalar
    data_type = zarr_type(dtype)
    word = word_of_type(data_type) if shape or is_marked else _SCALAR
    return _dataset(data_type, word, shape, layout, dtype.itemsize), {"scalar": True} if is_marked else {}


def _rows(element: Compound, shape: tuple[int, ...], layout: Layout) -> tuple[Dataset[Attributes], Notes]:
    """Return a dataset of compounds with text or references: lists of JSON, whose fields are the last axis."""
    fields = len(element.fields)
    lengths = shape or (1,)
    chunks = layout.chunks
    if chunks is None and layout.chooses_by_elements:
        chunks = layout.choose_chunks(lengths, OBJECT_BYTES)
    inner = Layout(chunks=chunks and (chunks[0], fields), compressor=layout.compressor)
    words = [{"name": name, "dtype": row_word(member)} for name, member in element.fields]
    made = _objects(JSON2, words, (*lengths, fields), inner)
    made.stored.chunks = (made.stored.chunks[0], fields)
    notes: Notes = {"rows": True}
    if not shape:
        as_scalar(made, notes)
    return made, notes


def _objects(codec: dict[str, Any], word: Any, shape: tuple[int, ...], layout: Layout) -> Dataset[Attributes]:
    made = _dataset(_OBJECTS, word, shape, layout, OBJECT_BYTES)
    made.stored.filters = [dict(codec), *(made.stored.filters or [])]
    return made


def _dataset(data_type: Any, word: Any, shape: tuple[int, ...], layout: Layout, itemsize: int) -> Dataset[Attributes]:
    lengths, chunks = shape or (1,), layout.chunks
    if chunks is not None and len(chunks) != len(lengths):
        raise UsageError(f"chunks {chunks} do not fit the shape {lengths}", remedy="Give one length for each axis.")
    stored = StoredArray(
        shape=lengths,
        chunks=chunks or layout.choose_chunks(lengths, itemsize),
        data_type=data_type,
        compressor=layout.compressor_config() if shape else None,
        filters=layout.filters or None,
    )
    return Dataset(stored, {DTYPE: word})
