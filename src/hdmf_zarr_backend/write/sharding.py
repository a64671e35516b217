"""The shards of a new array of format 3: those that were asked for, or chosen by bytes.

Source: issue "Format 3, shards, and any store, near or far", part 3.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.mapping import chunking, format3
from hdmf_zarr_backend.mapping.chunking import SHARD_BYTES
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Shards
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.write.plan import PlannedArray, Sharding

_SHARE = 2
_NO_SHARDS = "Zarr format 2 has no shards"
_USE_FORMAT_3 = "Write with zarr_format=3, or leave shards out."

ShardsOfFile: TypeAlias = tuple[int, ...] | Literal["auto"] | None
"""What is asked for of a whole file."""


def ask_for_shards(planned: PlannedArray, shards: ShardsOfFile) -> None:
    """Ask for the shards of an array that is converted with its whole file; chunks that are copied stay as they are.

    Parameters
    ----------
    planned : PlannedArray
        Changed, before it has the form of format 3.
    shards : tuple of int, "auto" or None
        "auto": by bytes, and none for a small array. Lengths are for the arrays that have as many axes and more than
        one chunk, each rounded up to whole chunks; rows and other arrays are stored without. None: as planned.
    """
    node = planned.node
    if shards == "auto":
        planned.sharding = Sharding("auto")
    elif shards is not None:
        is_whole = math.prod(node.grid) < 2  # one chunk, or none
        if is_whole or len(shards) != len(node.shape) or planned.notes.get("rows") is True:
            return
        shape = tuple(-(-shard // chunk) * chunk for shard, chunk in zip(shards, node.chunks, strict=True))
        planned.sharding = Sharding(shape, are_chunks_given=True)


def checked_shards(shards: Any, zarr_format: int) -> ShardsOfFile:
    """Return what was asked for of a whole file.

    Raises
    ------
    UsageError
        It is neither "auto" nor lengths, or the format has no shards.
    """
    if shards is None:
        return None
    if zarr_format != 3:
        raise UsageError(_NO_SHARDS, remedy=_USE_FORMAT_3)
    if isinstance(shards, str) and shards == "auto":
        return "auto"
    if not isinstance(shards, (tuple, list)) or not all(type(n) is int and n > 0 for n in shards):
        raise UsageError(f"shards {shards!r} are no lengths", remedy='Give a whole number for each axis, or "auto".')
    return tuple(shards)


def shard_bytes_for(keys: KeyStore, memory_budget: int) -> int:
    """Return the bytes of a shard that is chosen: less where a store takes it as a whole, from memory, only."""
    return SHARD_BYTES if keys.streams_values else max(1, min(SHARD_BYTES, memory_budget // _SHARE))


def refuse_shards(planned: PlannedArray) -> None:
    """Refuse what format 2 does not have.

    Raises
    ------
    UsageError
        Shards are asked for.
    """
    if planned.sharding is not None and not planned.sharding.is_kept:
        raise UsageError(_NO_SHARDS, remedy=_USE_FORMAT_3)


def give_shards(planned: PlannedArray, shard_bytes: int = SHARD_BYTES) -> None:
    """Give a planned array that has the form of format 3 its shards, and chunks that fit into them.

    Parameters
    ----------
    planned : PlannedArray
        Changed.
    shard_bytes : int
        Bytes of values of a shard that is chosen, at most.

    Raises
    ------
    UsageError
        The shards that are asked for do not fit the array or its chunks.
    """
    sharding, node = planned.sharding, planned.node
    if sharding is None:
        return
    if sharding.shape == "auto":
        _choose(planned, node, shard_bytes, are_chunks_given=sharding.are_chunks_given)
        return
    shape = sharding.shape
    if node.key_axes == 0:
        raise UsageError("a scalar has no shards", remedy="Leave shards out.")
    if node.key_axes is not None:  # rows: the axis of their fields is never divided
        shape = (*shape[: node.key_axes], *node.chunks[node.key_axes :])
    if len(shape) != len(node.shape):
        raise UsageError(f"shards {shape} do not fit the shape {node.shape}", remedy="Give one length for each axis.")
    if not sharding.are_chunks_given:
        node.chunks = chunking.chunks_inside(shape, node.chunks)
    if not all(_are_multiples(shape, node.chunks)):
        raise UsageError(
            f"shards {shape} hold no whole number of chunks {node.chunks}",
            remedy="Give shards whose lengths are multiples of those of the chunks.",
        )
    node.shards = Shards(shape)


def _are_multiples(shards: tuple[int, ...], chunks: tuple[int, ...]) -> list[bool]:
    return [shard % chunk == 0 for shard, chunk in zip(shards, chunks, strict=True)]


def _choose(planned: PlannedArray, node: ArrayNode[Attributes], shard_bytes: int, *, are_chunks_given: bool) -> None:
    lengths = _lengths(planned)
    itemsize = _itemsize(node)
    known = [length for length in lengths if length is not None]
    is_small = len(known) == len(lengths) and math.prod(known) * itemsize < chunking.SHARDED_BYTES
    if node.key_axes == 0 or not lengths or is_small:
        return
    is_free = not are_chunks_given and planned.iterator is None and not hasattr(planned.source, "encoded")
    if is_free and node.key_axes is None:
        target = min(chunking.SHARDED_CHUNK_BYTES, shard_bytes)
        node.chunks = chunking.default_chunks(node.shape, itemsize, target=target)
    node.shards = Shards(chunking.shards_by_bytes(lengths, node.chunks, itemsize, target=shard_bytes))


def _lengths(planned: PlannedArray) -> tuple[int | None, ...]:
    if planned.iterator is None:
        return planned.node.shape
    most: Any = planned.iterator.maxshape
    return tuple(None if length is None else int(length) for length in most)


def _itemsize(node: ArrayNode[Attributes]) -> int:
    row = format3.row_bytes(node)
    if row is not None:
        return max(1, row // max(1, node.shape[-1]))
    dtype = chunk_codec(node).dtype
    return chunking.OBJECT_BYTES if dtype.hasobject else dtype.itemsize
