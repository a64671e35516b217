"""The stored bytes of chunks, with an error for a folder, a pipe or a device under the name of a chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hdmf_zarr_backend.arrays.blosc_blocks import stated_bytes
from hdmf_zarr_backend.errors import ChunkError, StoreError
from hdmf_zarr_backend.formats.dtypes import numpy_dtype
from hdmf_zarr_backend.model.nodes import join
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.base import OpenValue, Store


def stored_chunk(store: Store, path: str, name: str) -> bytes | None:
    """Return the stored bytes of a chunk, None if it is not stored."""
    try:
        return store.get(join(path, name))
    except StoreError as error:
        raise _chunk_error(error, store, (path, name)) from error.__cause__


def stored_chunks(store: Store, chunks: Sequence[tuple[str, str]]) -> dict[str, bytes]:
    """Return the chunks that are stored, by key, fetched together; ``chunks`` are paths of arrays and chunk names."""
    try:
        return store.get_many([join(path, name) for path, name in chunks])
    except StoreError as error:
        raise _chunk_error(error, store, *chunks) from error.__cause__


def opened_chunk(store: Store, path: str, name: str) -> OpenValue | None:
    """Open a stored chunk to read parts of it; None if it is not stored, or the store cannot open it."""
    try:
        return store.open_value(join(path, name))
    except StoreError as error:
        raise _chunk_error(error, store, (path, name)) from error.__cause__


def _chunk_error(error: StoreError, store: Store, *chunks: tuple[str, str]) -> StoreError | ChunkError:
    for path, name in chunks:
        if store.is_blocked(join(path, name)):
            problem = f"the chunk {name!r} is a folder, a pipe or a device, not a file"
            return ChunkError(problem, store=store.location, path=path, remedy="Restore it from a copy.")
    return error


_CHECKSUM = 4


def check_stored_form(array: StoredArray, name: str, data: bytes) -> None:
    """Check what the stored bytes of a chunk state about themselves, without decoding them."""
    configs = array.codecs
    identity = str(configs[-1].get("id")) if configs else ""
    check, dtype = _CHECKS.get(identity), numpy_dtype(array.data_type)
    nbytes: int | None = math.prod(array.chunks) * dtype.itemsize  # before the last codec
    if dtype.hasobject or any(config.get("id") != "shuffle" for config in configs[:-1]):
        nbytes = None  # other codecs before it change the number
    if not data or (check is not None and not check(data, nbytes)):
        problem = f"the chunk {name!r} cannot be decoded: it is empty, cut short, or not a {identity or 'plain'} chunk"
        raise ChunkError(problem, remedy="Restore it from a copy; `zarrio verify` lists all such chunks.")


def _is_blosc(data: bytes, nbytes: int | None) -> bool:
    stated = stated_bytes(data)
    return stated is not None and stated[1] == len(data) and nbytes in (None, stated[0])


def _is_gzip(data: bytes, nbytes: int | None) -> bool:
    is_length = nbytes is None or nbytes >= 2**32 or int.from_bytes(data[-4:], "little") == nbytes
    return data[:2] == b"\x1f\x8b" and is_length


_CHECKS: dict[str, Callable[[bytes, int | None], bool]] = {
    "": lambda data, nbytes: nbytes in (None, len(data)),
    "blosc": _is_blosc,
    "lz4": lambda data, nbytes: len(data) > 4 and nbytes in (None, int.from_bytes(data[:4], "little")),
    "zlib": lambda data, nbytes: len(data) > 6 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0,
    "gzip": _is_gzip,
    "bz2": lambda data, nbytes: data[:3] == b"BZh",
    "zstd": lambda data, nbytes: data[:4] == b"\x28\xb5\x2f\xfd",
    "fletcher32": lambda data, nbytes: nbytes in (None, len(data) - _CHECKSUM),
}
_CHECKS |= {"shuffle": _CHECKS[""], "crc32": _CHECKS["fletcher32"], "adler32": _CHECKS["fletcher32"]}
