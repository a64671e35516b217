"""Iterators over data chunks that exist already, with the hints that a test chooses, and over an array."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from hdmf.data_utils import AbstractDataChunkIterator, DataChunk, GenericDataChunkIterator


class Blocks(AbstractDataChunkIterator):
    """Data chunks at any place and in any order, what the iterator states, and what it recommends (None: nothing)."""

    def __init__(
        self,
        blocks: Iterable[DataChunk],
        maxshape: Any = (None, None),
        dtype: Any = np.dtype("i4"),  # noqa: B008 - a dtype is not mutable
        *,
        chunk_shape: Any = None,
        data_shape: Any = None,
    ) -> None:
        self._blocks = iter(blocks)
        self._dtype, self._maxshape = dtype, maxshape
        self._chunk_shape, self._data_shape = chunk_shape, data_shape

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> DataChunk:
        return next(self._blocks)

    next = __next__

    def recommended_chunk_shape(self) -> Any:
        return self._chunk_shape

    def recommended_data_shape(self) -> Any:
        return self._data_shape

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def maxshape(self) -> Any:
        return self._maxshape


class Windows(GenericDataChunkIterator):  # type: ignore[misc] # hdmf has no types
    """The values of an array, or of what has its shape and type, window by window."""

    def __init__(self, values: Any, **options: Any) -> None:
        self.values = values
        super().__init__(**options)

    def _get_data(self, selection: tuple[slice, ...]) -> Any:
        return self.values[selection]

    def _get_maxshape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def _get_dtype(self) -> Any:
        return self.values.dtype
