"""HDF5 filter pipelines <-> numcodecs configurations that give the same bytes for a stored chunk.

=====================  =====================================================================
HDF5 filter            numcodecs
=====================  =====================================================================
1 deflate              ``zlib``
2 shuffle              ``shuffle``, before anything that changes the length
3 fletcher32           ``fletcher32``, last
307 bzip2              ``bz2``
32001 blosc            ``blosc``; not with Snappy, which numcodecs does not include
32004 lz4              ``lz4``, last: another frame around the same block (if a chunk has one block)
32015 zstd             ``zstd``
=====================  =====================================================================

A pipeline with any other filter (lzf, szip, scaleoffset, nbit, bitshuffle, blosc2, a user's own) has no counterpart;
HDF5 has to decode it.

Source: HDF5 file format specification, "Filter pipeline message"; the HDF Group's registry of filters for the numbers
above 255 and the meaning of their options; numcodecs for the byte layouts.
"""

from __future__ import annotations

import itertools
import math
import os
import struct
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import h5py
import numpy as np
from h5py import h5d, h5o, h5t, h5z
from h5py._objects import phil  # the lock around HDF5, without which old releases of h5py read and write raw chunks

from hdmf_zarr_backend.encoding.chunk_codec import DECODE_ERRORS, between_filters, decode_bounded, make_codec
from hdmf_zarr_backend.errors import ChunkError
from hdmf_zarr_backend.model.nodes import Memo

Config: TypeAlias = dict[str, Any]
Pipeline: TypeAlias = list[list[Any]]
"""``[[number, flags, [option, ...]], ...]`` in the order in which HDF5 applies them, as in a note."""

DEFLATE, SHUFFLE, FLETCHER32, SZIP, NBIT, SCALE_OFFSET = 1, 2, 3, 4, 5, 6
BZIP2, LZF, BLOSC, LZ4, BITSHUFFLE, ZSTD, BLOSC2 = 307, 32000, 32001, 32004, 32008, 32015, 32026
BUILT_IN = frozenset({DEFLATE, SHUFFLE, FLETCHER32})  # filters of every HDF5 library; others are plugins
_NEVER_FAIL = frozenset({FLETCHER32, LZ4, BITSHUFFLE, ZSTD})  # when they encode, whatever their options are

OPTIONAL, MANDATORY = 1, 0
# by the filter's number of the codec; 3 is Snappy, which numcodecs does not include
_BLOSC_NAMES = ("blosclz", "lz4", "lz4hc", None, "zlib", "zstd")
_LZ4_HEADER = struct.Struct(">QI")
_UNSIGNED = 2**32
_MOST_OPTIONS = 256
_DAMAGED = "The HDF5 file is damaged; try `h5dump` on the dataset, or restore the file from a copy."
_MARK_BYTES = 16
# which chunks of which dataset were checked for the last block: the next one is often of the same chunks
_CHECKED: dict[tuple[int, int], frozenset[tuple[int, ...]]] = {}
_codec = Memo(lambda config: make_codec(config, np.dtype("u1")))


@dataclass(frozen=True, slots=True)
class CodecPipeline:
    """The codecs that decode the chunks of an HDF5 dataset, one for each filter, in the order in which they encode."""

    codecs: tuple[Config, ...] = ()
    reframed: bool = False  # whether the last codec is ``lz4``, whose chunks need another frame in Zarr

    @property
    def filters(self) -> list[Config] | None:
        """``filters`` of format 2: all codecs but the last; None if there are none."""
        return [dict(config) for config in self.codecs[:-1]] or None

    @property
    def compressor(self) -> Config | None:
        """``compressor`` of format 2: the last codec."""
        return dict(self.codecs[-1]) if self.codecs else None

    def divides(self, nbytes: int) -> bool:
        """Tell whether a chunk of ``nbytes`` is a number of complete elements for each shuffle."""
        return not any(nbytes % config["elementsize"] for config in self.codecs if config["id"] == "shuffle")

    def decode(self, data: bytes, nbytes: int, *, mask: int = 0) -> memoryview:
        """Return the ``nbytes`` decoded bytes of a chunk as HDF5 stores it."""
        buffer: Any = data
        try:
            for number in reversed(range(len(self.codecs))):
                if mask >> number & 1:
                    continue
                if self.reframed and number == len(self.codecs) - 1:
                    buffer = _lz4_decoded(buffer, between_filters(nbytes))
                else:
                    buffer = decode_bounded(_codec(self.codecs[number]), buffer, between_filters(nbytes))
        except DECODE_ERRORS as error:
            problem = f"a chunk of HDF5 cannot be decoded ({type(error).__name__}: {error})"
            raise ChunkError(problem, remedy=_DAMAGED) from error
        decoded = memoryview(buffer).cast("B")
        if decoded.nbytes != nbytes:
            problem = f"a chunk of HDF5 decodes to {decoded.nbytes} bytes instead of {nbytes}"
            raise ChunkError(problem, remedy=_DAMAGED)
        return decoded


# ---- HDF5 -> numcodecs ----------------------------------------------------------------------------------------------


def codecs_of(pipeline: Sequence[Sequence[Any]], dtype: np.dtype[Any]) -> CodecPipeline | None:
    """Return the codecs that read the raw chunks of a dataset as Zarr chunks, None if a filter has no counterpart."""
    entries = filter_entries(pipeline)
    if entries is None or not _is_ordered(entries):
        return None
    codecs = [_config_of(number, options, dtype) for number, _, options in entries]
    is_lz4 = bool(entries) and entries[-1][0] == LZ4
    return None if None in codecs else CodecPipeline(tuple(filter(None, codecs)), reframed=is_lz4)


def filter_entries(pipeline: Any) -> list[tuple[int, int, list[int]]] | None:
    """Return the filters as numbers, None for an invalid pipeline (notes in files are not trusted)."""
    entries = []
    for entry in pipeline if isinstance(pipeline, (list, tuple)) else [None]:
        if not isinstance(entry, (list, tuple)) or len(entry) != 3 or not isinstance(entry[2], (list, tuple)):
            return None
        numbers = [entry[0], entry[1], *entry[2]]
        if not all(isinstance(n, int) and 0 <= n < _UNSIGNED for n in numbers):
            return None
        # h5py reads at most 256 options; the second one of szip, pixels of a block, is a divisor
        if len(entry[2]) > _MOST_OPTIONS or (entry[0] == SZIP and not all(entry[2][1:2] or [0])):
            return None
        entries.append((int(entry[0]), int(entry[1]), [int(n) for n in entry[2]]))
    return entries


def _is_ordered(pipeline: Sequence[Sequence[Any]]) -> bool:
    """Tell whether filters in this order have counterparts in Zarr: a checksum or LZ4 comes last."""
    # HDF5 shuffles what it gets, of any length; numcodecs shuffles complete elements, so shuffling has to come first.
    numbers = [number for number, _, _ in pipeline]
    others = itertools.dropwhile(lambda number: number == SHUFFLE, numbers)
    return SHUFFLE not in others and {FLETCHER32, LZ4}.isdisjoint(numbers[:-1])


def _config_of(number: int, options: list[int], dtype: np.dtype[Any]) -> Config | None:
    """Return the codec for one filter, None if it has no counterpart."""

    def option(position: int, default: int) -> int:
        return options[position] if position < len(options) else default

    match number:
        case 1:  # DEFLATE
            return {"id": "zlib", "level": min(9, option(0, 6))}
        case 2:  # SHUFFLE; elements may be arrays of dtype
            size = option(0, dtype.itemsize)
            fits = size > 0 and (size % dtype.itemsize == 0 or dtype.itemsize % size == 0)
            return {"id": "shuffle", "elementsize": size} if fits else None
        case 3:  # FLETCHER32
            return {"id": "fletcher32"}
        case 307:  # BZIP2
            return {"id": "bz2", "level": min(9, max(1, option(0, 9)))}
        case 32001:  # BLOSC: options 0 to 3 are set by the filter itself, the user's come after them
            code, shuffle = option(6, 0), option(5, 1)
            name, clevel = _BLOSC_NAMES[code] if code < len(_BLOSC_NAMES) else None, min(9, option(4, 5))
            config = {"id": "blosc", "cname": name, "clevel": clevel, "shuffle": shuffle, "blocksize": 0}
            return config if name is not None and shuffle <= 2 else None
        case 32004:  # LZ4
            return {"id": "lz4", "acceleration": 1}
        case 32015:  # ZSTD; a negative level is stored as unsigned
            level = option(0, 3)
            return {"id": "zstd", "level": level - _UNSIGNED if level >= _UNSIGNED // 2 else level}
    return None


# ---- numcodecs -> HDF5 ----------------------------------------------------------------------------------------------


def pipeline_of(
    filters: Sequence[Config] | None, compressor: Config | None, dtype: np.dtype[Any], *, noted: Any = None
) -> Pipeline | None:
    """Return the HDF5 filters whose raw chunks equal the chunks of a Zarr array, None if a codec has no counterpart."""
    # the HDF5 library may lack some of the filters: see `usable`
    configs = [*(filters or ()), compressor] if compressor else list(filters or ())
    known = codecs_of(noted, dtype)  # None for None
    # without the key that only some releases of numcodecs write, and that has no effect here
    plain = [{key: value for key, value in each.items() if (key, value) != ("checksum", False)} for each in configs]
    if known is not None and list(known.codecs) == plain:
        return list(map(list, filter_entries(noted) or ()))
    steps = [_filter_of(config, dtype) for config in configs]
    pipeline = list(filter(None, steps))
    return pipeline if len(pipeline) == len(steps) and _is_ordered(pipeline) else None


def _level(config: Config, default: int) -> int:
    level = config.get("level", default)
    return level if isinstance(level, int) else default


def _filter_of(config: Config, dtype: np.dtype[Any]) -> list[Any] | None:
    """Return number, flags and options of the filter for one codec, None if it has no counterpart."""
    match config.get("id"):
        case "zlib":
            return [DEFLATE, OPTIONAL, [min(9, max(0, _level(config, 1)))]]
        case "shuffle":
            # HDF5 shuffles by the size of the dataset's elements, whatever the option is; netcdf-c writes 0 for it
            size = config.get("elementsize", 4) or dtype.itemsize
            return [SHUFFLE, OPTIONAL, [size]] if size == dtype.itemsize else None
        case "fletcher32":
            return [FLETCHER32, MANDATORY, []]
        case "bz2":
            return [BZIP2, MANDATORY, [min(9, max(1, _level(config, 9)))]]
        case "blosc":
            name, shuffle, clevel = config.get("cname", "lz4"), config.get("shuffle", 1), config.get("clevel", 5)
            if shuffle == -1:  # AUTOSHUFFLE of numcodecs: by bits for single bytes, else by bytes
                shuffle = 2 if dtype.itemsize == 1 else 1
            if isinstance(name, str) and name in _BLOSC_NAMES and shuffle in (0, 1, 2) and clevel in range(10):
                return [BLOSC, MANDATORY, [0, 0, 0, 0, clevel, shuffle, _BLOSC_NAMES.index(name)]]
        case "lz4":
            return [LZ4, MANDATORY, [0]]
        case "zstd":
            return [ZSTD, MANDATORY, [_level(config, 3) % _UNSIGNED]]
    return None


def filters_of(created: Any) -> Pipeline:
    """Return the filters of a dataset creation property list (``h5py.h5p.PropDCID``), in order."""
    entries = map(created.get_filter, range(created.get_nfilters()))
    return [[int(number), int(flags), [int(value) for value in values]] for number, flags, values, _ in entries]


def usable(pipeline: Pipeline) -> bool:
    """Tell whether this HDF5 library can read and write through ``pipeline``, with ``hdf5plugin`` if installed."""
    plugins = {number for number, _, _ in pipeline} - BUILT_IN
    if not all(map(_is_registered, plugins)):
        with suppress(ImportError):
            import hdf5plugin  # noqa: F401 - registers its filters on import
    return all(map(_is_registered, plugins))


def _is_registered(number: int) -> bool:
    both = h5z.FILTER_CONFIG_ENCODE_ENABLED | h5z.FILTER_CONFIG_DECODE_ENABLED
    return bool(h5z.filter_avail(number)) and h5z.get_filter_info(number) & both == both


def set_filters(created: Any, pipeline: Pipeline) -> None:
    """Add the filters to a dataset creation property list (``h5py.h5p.PropDCID``)."""
    for number, flags, options in pipeline:
        # HDF5 stores a chunk as it is if an optional filter fails, as some do when it does not shrink, and all with
        # wrong options. If the filter is mandatory, the process crashes when the file is closed.
        flag = flags if number in _NEVER_FAIL else OPTIONAL
        # The filter of bitshuffle puts three values of its own in front of the user's, each time it is set. Those in a
        # note are of the first time, and would be doubled.
        created.set_filter(number, flag, tuple(options[3:] if number == BITSHUFFLE else options))


def is_snappy(data: bytes) -> bool:
    """Tell whether a chunk of Blosc names Snappy as its compressor, which numcodecs lacks."""
    return len(data) > 2 and data[2] >> 5 == 2


def check_chunks(node: Any, bounds: Sequence[tuple[int, int]]) -> None:
    """Check the chunks of a block before HDF5 decodes them with a plugin, if numcodecs or h5py can."""
    # If a chunk is cut off, the plugin of bzip2 does not end, and those of LZF, Zstd, LZ4 and Blosc return what was in
    # memory. The filters that every HDF5 library has notice it.
    created = node.get_create_plist()
    entries = filters_of(created)
    numbers = {number for number, _, _ in entries}
    if numbers <= BUILT_IN:
        return
    size = _stored_bytes(node.get_type())
    pipeline = codecs_of(entries, np.dtype((np.void, size)))
    is_lzf = LZF in numbers <= {SHUFFLE, LZF} and entries[-1][0] == LZF
    if not (pipeline or is_lzf) or created.get_layout() != h5d.CHUNKED:
        return
    chunks = created.get_chunk()
    nbytes = math.prod(chunks) * size
    starts = (range(start - start % chunk, stop, chunk) for (start, stop), chunk in zip(bounds, chunks, strict=True))
    info = h5o.get_info(node)
    known, checked = _CHECKED.get((info.fileno, info.addr), frozenset()), []
    with ExitStack() as files:
        # one for all chunks: making it takes about a millisecond, longer than decoding a small chunk
        lzf: Any = None
        for start in itertools.product(*starts):
            checked.append(start)
            if start in known:
                continue
            # `get_chunk_info_by_coord` would tell whether the chunk is stored, in a time that grows with their number
            try:
                with phil:
                    mask, data = node.read_direct_chunk(start)
            except (RuntimeError, OSError, MemoryError):  # an old h5py takes a missing chunk for a huge one
                continue  # it is not stored, or HDF5 says why it cannot be read
            if len(data) == nbytes:
                continue  # a chunk at the edge may have no filters (`H5Pset_chunk_opts`)
            if pipeline is None:
                if lzf is None:  # a dataset of one chunk, of ``nbytes`` and a mark, in a file in memory
                    file = h5py.File(uuid.uuid4().hex, "w", driver="core", backing_store=False)
                    shape = (nbytes + _MARK_BYTES,)
                    lzf = files.enter_context(file).create_dataset("x", shape, "u1", chunks=shape, compression="lzf")
                _check_lzf(lzf, data, nbytes, is_plain=bool(mask >> len(entries) - 1 & 1))
            elif not (BLOSC in numbers and is_snappy(data)):
                pipeline.decode(data, nbytes, mask=mask)
    _CHECKED.clear()
    _CHECKED[info.fileno, info.addr] = frozenset(checked[:1000])


def _check_lzf(dataset: Any, data: bytes, nbytes: int, *, is_plain: bool) -> None:
    """Make sure that a chunk of LZF decodes to ``nbytes``, which neither its filter nor HDF5 does."""
    # A run of literals behind the chunk must come out behind ``nbytes``. It is new each time, so that it cannot be in
    # memory from the chunk before.
    mark, behind = os.urandom(_MARK_BYTES), b""
    with phil, suppress(OSError):
        dataset.id.write_direct_chunk((0,), data + bytes([len(mark) - 1]) + mark)
        behind = dataset[nbytes:].tobytes()
    if is_plain or behind != mark:
        problem = f"a chunk of HDF5 cannot be decoded (LZF: it does not become {nbytes} bytes)"
        raise ChunkError(problem, remedy=_DAMAGED)


def _stored_bytes(tid: Any) -> int:
    """Return the bytes of an element in a chunk of a file."""
    # text of any length is a pointer in memory, and 16 bytes in a file: length, address of a heap, index in it
    if isinstance(tid, h5t.TypeStringID) and tid.is_variable_str():
        return 16
    size: int = tid.get_size()
    if isinstance(tid, h5t.TypeArrayID):
        base = tid.get_super()
        return size // int(base.get_size()) * _stored_bytes(base)
    members = map(tid.get_member_type, range(tid.get_nmembers())) if isinstance(tid, h5t.TypeCompoundID) else ()
    return size + sum(_stored_bytes(member) - int(member.get_size()) for member in members)


# ---- LZ4 ------------------------------------------------------------------------------------------------------------
# HDF5: length and block length (big endian), then each block after its own length; a block that did not shrink is
# stored uncompressed. numcodecs: length (little endian), then one block. Both use the LZ4 block format.


def _lz4_decoded(data: Any, most: int) -> bytes:
    view = memoryview(data).cast("B")
    if len(view) < _LZ4_HEADER.size:
        raise ValueError("no LZ4 header")
    total, block_size = _LZ4_HEADER.unpack_from(view)
    # checked before anything is decoded: the header of a crafted file must not decide how much memory is taken
    if not 0 < total <= most or not block_size:
        raise ValueError(f"an LZ4 header that states {total:,} bytes in blocks of {block_size:,}")
    codec, parts = _codec({"id": "lz4"}), []
    start, left = _LZ4_HEADER.size + 4, total
    while left:
        if start > len(view):
            raise ValueError("LZ4 blocks are missing")
        stop, length = start + int.from_bytes(view[start - 4 : start], "big"), min(block_size, left)
        if stop > len(view):
            raise ValueError("an LZ4 block ends early")
        block = view[start:stop]
        parts.append(block if len(block) == length else codec.decode(length.to_bytes(4, "little") + block.tobytes()))
        start, left = stop + 4, left - length
    return b"".join(parts)
