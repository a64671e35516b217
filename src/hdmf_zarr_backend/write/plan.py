"""What a write will do: the hierarchy that will be on disk, and where the values of each array come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.mapping.chunking import DEFAULT_COMPRESSOR, chunks_by_elements, default_chunks
from hdmf_zarr_backend.mapping.dtypes import JSON2
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy
from hdmf_zarr_backend.write.sources import ArraySource


@dataclass(slots=True, frozen=True)
class Sharding:
    """Which shards are wanted.

    Attributes
    ----------
    shape : tuple of int or "auto"
        Of one shard; "auto": by bytes, and none for a small array.
    are_chunks_given : bool
        Whether the chunks must not be chosen so that they fit.
    is_kept : bool
        Whether this is how the array was stored before: then format 2, which has no shards, is no error.
    """

    shape: tuple[int, ...] | Literal["auto"]
    are_chunks_given: bool = False
    is_kept: bool = False


@dataclass(slots=True)
class StorageOptions:
    """How one array is stored; None means that the planner chooses.

    Attributes
    ----------
    chunks, fill_value, maxshape, chunk_elements, chunk_aspect_ratio, shards
        As in `ZarrDataIO`.
    compressor : dict, bool or None
        False: none; True and None: the default.
    filters : list of dict or None
        Codecs before the compressor.
    object_codec : dict
        Configuration of the codec of references and rows.
    """

    chunks: tuple[int, ...] | None = None
    fill_value: Any = None
    maxshape: tuple[int | None, ...] | None = None
    compressor: dict[str, Any] | bool | None = None
    filters: list[dict[str, Any]] | None = None
    object_codec: dict[str, Any] = field(default_factory=lambda: dict(JSON2))
    chunk_elements: int | None = None
    chunk_aspect_ratio: tuple[float, ...] | None = None
    shards: tuple[int, ...] | Literal["auto"] | None = None

    def sharding(self) -> Sharding | None:
        """Return which shards are wanted; to be asked before a planner has chosen chunks."""
        if self.shards is None:
            return None
        return Sharding(self.shards, are_chunks_given=self.chunks is not None or self.chooses_by_elements)

    @property
    def chooses_by_elements(self) -> bool:
        """Whether chunks are to be chosen as TensorStore does."""
        return self.chunk_elements is not None or self.chunk_aspect_ratio is not None

    def choose_chunks(self, shape: tuple[int | None, ...], itemsize: int) -> tuple[int, ...]:
        """Return the shape of a chunk that is not given: by bytes, or by elements; None is a length that is unknown.

        Raises
        ------
        UsageError
            A ratio of another number of axes.
        """
        if not self.chooses_by_elements:
            return default_chunks(tuple(n or 0 for n in shape), itemsize)
        ratio = self.chunk_aspect_ratio
        if ratio is not None and len(ratio) != len(shape):
            raise UsageError(
                f"chunk_aspect_ratio {ratio} does not fit {len(shape)} axes", remedy="Give a number for each axis."
            )
        return chunks_by_elements(shape, self.chunk_elements, ratio)

    def compressor_config(self) -> dict[str, Any] | None:
        """Return the configuration of the compressor, None for no compression."""
        if self.compressor is False:
            return None
        return dict(DEFAULT_COMPRESSOR) if self.compressor in (True, None) else dict(self.compressor)  # type: ignore[arg-type]


@dataclass(slots=True)
class PlannedArray:
    """One array of a plan.

    Attributes
    ----------
    node : ArrayNode
        What will be on disk.
    source : ArraySource or None
        Where the values come from; None for an iterator and for an array without elements.
    iterator : object
        A data chunk iterator; the shape of the node grows while it is exhausted.
    notes : dict
        For the reserved attribute of the array.
    sharding : Sharding or None
        The shards that are wanted; the node has them when it has got the form of format 3.
    labels, taken
        HDMF's dimension labels and the names of the group, for an array whose lengths are not known yet.
    """

    node: ArrayNode[Attributes]
    source: ArraySource | None = None
    iterator: Any = None
    notes: dict[str, Any] = field(default_factory=dict)
    labels: tuple[str | None, ...] | None = None
    taken: dict[str, int] = field(default_factory=dict)
    sharding: Sharding | None = None


@dataclass(slots=True)
class WritePlan:
    """A hierarchy and its sources.

    Attributes
    ----------
    hierarchy : Hierarchy
        What will be on disk.
    arrays : dict
        ``{path: PlannedArray}``, paths in the model's spelling.
    unfilled : list
        ``(ZarrDataIO, path)`` of what was asked for by shape and type only.
    """

    hierarchy: Hierarchy = field(default_factory=Hierarchy)
    arrays: dict[str, PlannedArray] = field(default_factory=dict)
    unfilled: list[tuple[Any, str]] = field(default_factory=list)
