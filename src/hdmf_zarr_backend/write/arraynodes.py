"""The metadata of a new array: chunk shape, codecs, fill value."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.mapping import chunking
from hdmf_zarr_backend.mapping.reserved import DTYPE
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes
from hdmf_zarr_backend.write.plan import StorageOptions
from hdmf_zarr_backend.write.sources import cast_block


def new_node(
    shape: tuple[int, ...], data_type: Any, options: StorageOptions, zarr_dtype: Any, *, itemsize: int
) -> ArrayNode[Attributes]:
    """Return the node of an array whose elements have ``itemsize`` bytes.

    Raises
    ------
    UsageError
        Chunks of another number of axes.
    """
    chunks = options.chunks
    if chunks is not None and len(chunks) != len(shape):
        raise UsageError(f"chunks {chunks} do not fit the shape {shape}", remedy="Give one length for each axis.")
    return ArrayNode(
        shape=shape,
        chunks=chunks or options.choose_chunks(shape, itemsize),
        data_type=data_type,
        compressor=options.compressor_config(),
        filters=options.filters or None,
        attributes={DTYPE: zarr_dtype},
    )


def object_node(
    shape: tuple[int, ...], codec: dict[str, Any], fill_value: Any, options: StorageOptions, zarr_dtype: Any
) -> ArrayNode[Attributes]:
    """Return the node of an array of objects that ``codec`` turns into bytes."""
    node = new_node(shape, "|O", options, zarr_dtype, itemsize=chunking.OBJECT_BYTES)
    node.filters = [dict(codec), *(node.filters or [])]
    node.fill_value = fill_value
    return node


def encode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as JSON: numbers, "NaN" and its like as text, bytes and rows in Base64.

    Raises
    ------
    ValueRefusedError
        ``dtype`` does not hold it.

    Source: Zarr v2 specification, "Fill value encoding".
    """
    if value is None:
        return None
    scalar = cast_block(np.asarray(value), dtype)
    if dtype.kind in "SV":
        return base64.standard_b64encode(scalar.tobytes()).decode()
    if dtype.kind in "mM":
        return int(scalar.astype("i8"))
    item = scalar.item()
    if isinstance(item, float) and not math.isfinite(item):
        return "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    if isinstance(item, complex):
        return [encode_fill(item.real, np.dtype("f8")), encode_fill(item.imag, np.dtype("f8"))]
    return item
