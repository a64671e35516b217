"""One block of a Zarr array on its way to HDF5: what a worker does of it, without HDF5."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.arrays.codecs import ChunkCodec, numpy_dtype
from hdmf_zarr_backend.arrays.fills import fill_array
from hdmf_zarr_backend.errors import StoreError, ZarrBackendError
from hdmf_zarr_backend.hdf5.filters import CodecPipeline
from hdmf_zarr_backend.hdf5.values import Array
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute
from hdmf_zarr_backend.stores.base import Store

Index = tuple[int, ...]
Region = tuple[slice, ...]
Encoded: TypeAlias = list[tuple[Index, bytes]]


@dataclass(slots=True)
class BlockTask:
    """Decodes a block; it can be sent to another process.

    Attributes
    ----------
    keys : Store
        The store of the array.
    path : str
        The array.
    node : ArrayNode
        Its metadata.
    region : tuple of slice
        The block, along the axes of the dataset.
    cache : ChunkCache
        For chunks that two blocks share.
    chunks : tuple of int, optional
        Of the dataset; the block is whole ones.
    pipeline : CodecPipeline, optional
        What encodes those; None: the values are wanted.
    number : int
        For whoever made the task.
    """

    keys: Store
    path: str
    node: ArrayNode[Attributes]
    region: Region
    cache: ChunkCache
    chunks: Index = ()
    pipeline: CodecPipeline | None = None
    number: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        inner = self.node.shape[len(self.region) :]
        lengths = [part.stop - part.start for part in self.region]
        return math.prod([*lengths, *inner]) * numpy_dtype(self.node.data_type).itemsize

    def run(self) -> Array | Encoded:
        """Return the values, or the chunks of the dataset with their indices.

        Raises
        ------
        ZarrBackendError
            Naming the store and the array.
        """
        try:
            reader = ChunkReader(self.keys, self.path, self.node, self.cache)
            inner = len(self.node.shape) - len(self.region)
            block = reader.read((*self.region, *[slice(None)] * inner))
            return block if self.pipeline is None else self._encoded(block, self.pipeline)
        except ZarrBackendError as error:
            raise error.located(store=self.keys.location, path=absolute(self.path)) from error.__cause__
        except OSError as error:
            raise StoreError(
                f"a chunk could not be read ({error})", store=self.keys.location, path=absolute(self.path)
            ) from error

    def _encoded(self, block: Array, pipeline: CodecPipeline) -> Encoded:
        codec = ChunkCodec(self.node.data_type, pipeline.filters, pipeline.compressor, "C")
        whole = (*self.chunks, *self.node.shape[len(self.chunks) :])
        corners = [range(0, n, c) for n, c in zip(block.shape, whole, strict=True)]
        made: Encoded = []
        for corner in itertools.product(*corners):
            piece = block[tuple(slice(start, start + c) for start, c in zip(corner, whole, strict=True))]
            made.append((self._index(corner), codec.encode(self._whole(piece, whole, codec.dtype))))
        return made

    def _index(self, corner: Index) -> Index:
        return tuple(
            (part.start + start) // c for part, start, c in zip(self.region, corner, self.chunks, strict=False)
        )

    def _whole(self, piece: Array, shape: Index, dtype: np.dtype[Any]) -> Array:
        """Return a chunk of full size: HDF5 stores those at the edge whole too."""
        if piece.shape == shape:
            return np.ascontiguousarray(piece)
        chunk = fill_array(self.node, dtype, shape)
        chunk[tuple(slice(0, n) for n in piece.shape)] = piece
        return chunk
