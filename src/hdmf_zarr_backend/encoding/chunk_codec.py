"""Chunks <-> arrays: one `ChunkCodec` for each combination of data type, filters and compressor.

Codecs come from numcodecs by a list of ids, since files, and so the configurations in them, are not trusted. Any other
id is that of a codec of another package, which is found and guarded.

Source: Zarr v2 specification, "Chunks", "Filters", "Fill value encoding"; numcodecs for the byte layouts.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from multiprocessing import parent_process
from typing import Any

import numcodecs
import numpy as np
import numpy.typing as npt
from numcodecs import registry

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.encoding.blosc_blocks import Blosc, stated_bytes
from hdmf_zarr_backend.encoding.chunks import Array, Elements, JSONRows, LittleRows, ReferenceTexts, StructRows
from hdmf_zarr_backend.encoding.data_types import DTYPE_OPTIONS
from hdmf_zarr_backend.encoding.dtypes import from_zarr_type, numpy_dtype
from hdmf_zarr_backend.encoding.pickles import PickleLimitError, UnsafePickleError, loads_data
from hdmf_zarr_backend.model.element import check_characters
from hdmf_zarr_backend.model.nodes import Memo, Order, StoredArray
from hdmf_zarr_backend.options import Limits, ReadOptions
from hdmf_zarr_backend.store.base import resource_failure

try:
    from google_crc32c import value as _fast_crc32c
except ImportError:
    _fast_crc32c = None

_ZSTD_BLOCK = 2**17
_ZSTD_MAGIC = 0xFD2FB528
_TO_LIMIT = frozenset({"zlib", "gzip", "bz2", "lzma", "msgpack2", "pcodec", "zfpy"})
_PCODEC_TYPES = ("i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "i1", "u1")


class TooLargeError(ValueError):
    """The output is larger than ``most`` bytes, which is the limit."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it would become more than {most:,} bytes")


def _within(plain: bytes, most: int) -> bytes:
    if len(plain) > most:
        raise TooLargeError(most)
    return plain


def between_filters(nbytes: int) -> int:
    """Return the most bytes that one filter may pass to the next, for a chunk of ``nbytes`` (`packbits`)."""
    return 16 * nbytes + 2**16


def decode_bounded(codec: Any, data: Any, most: int, out: npt.NDArray[np.uint8] | None = None) -> Any:
    """Return ``data`` decoded by ``codec``, to ``most`` bytes at most: a few thousand bytes cannot become gigabytes.

    The headers of `_STATED` are checked first, and what filters of numbers multiply by; other compressors stop at the
    limit. ``out`` is used if it fits exactly.
    """
    kind = getattr(codec, "codec_id", "")
    if kind in _GROWTH and _GROWTH[kind](codec) * _raw(data).size > most:  # a few in a row multiply by millions
        raise TooLargeError(most)
    if kind in _TO_LIMIT:
        return _decode_to_limit(codec, _bytes(data), most)
    if kind in _STATED:
        stated, most_per_byte = _STATED[kind]
        raw = _bytes(data)
        length = stated(raw)
        # This is damage and not a limit: no limit that a caller raises makes it decode.
        if length > most_per_byte * len(raw):
            raise ValueError(f"it states {length:,} decoded bytes, more than {len(raw):,} bytes can hold")
        # a frame of Zstandard need not state its length; then it is bounded by its blocks
        is_frame = int.from_bytes(raw[:4], "little") == _ZSTD_MAGIC and len(raw) > 4
        is_exact = kind != "zstd" or (is_frame and _zstd_header(raw, 4)[0] == length)
        if length > most + (0 if is_exact else _ZSTD_BLOCK):
            raise TooLargeError(most)
        # given more memory than the header states, codecs of numcodecs leave the rest of it as it was, silently
        if out is not None and is_exact and length == out.size:
            return codec.decode(raw, out)
    return codec.decode(data)


def _bytes(data: Any) -> bytes:
    return data if type(data) is bytes else memoryview(data).cast("B").tobytes()


# ---- codecs that state the decoded length ---------------------------------------------------------------------------
# Source: c-blosc, README_CHUNK_FORMAT; numcodecs for the length before an LZ4 block; RFC 8878, 3.1.1, for Zstandard.


def _blosc(data: bytes) -> int:
    # the library trusts the lengths in the header, and would read memory beyond the chunk
    stated = stated_bytes(data)
    if stated is None or stated[1] > len(data):
        raise ValueError("it is cut short")
    if stated[0] > 2**31 - 1 - 16:  # the header has 16
        raise ValueError("it states a length that Blosc cannot have")
    return stated[0]


def zstd_bound(data: bytes) -> int:
    """Return the most bytes that Zstandard frames can decode to, as they state or by their blocks; 0 for other data."""
    total = position = 0
    while position + 4 <= len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        if 0x184D2A50 <= magic < 0x184D2A60:  # a frame to skip
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        if magic != _ZSTD_MAGIC or position + 5 > len(data):
            break
        length, position, checksum = _zstd_header(data, position + 4)
        last, blocks = False, 0
        while not last and position + 3 <= len(data):
            block = int.from_bytes(data[position : position + 3], "little")
            last = bool(block & 1)
            position += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
            blocks += 1
        # numcodecs decodes all frames from 0.16 on; before, to what the first one states
        total += blocks * _ZSTD_BLOCK if length is None else length
        position += checksum
    return total


def _zstd_header(data: bytes, position: int) -> tuple[int | None, int, int]:
    """Return the length that a frame states, where its blocks begin, and the bytes of its checksum."""
    descriptor = data[position]
    single, dictionary = descriptor >> 5 & 1, (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    position += 1 + (0 if single else 1) + dictionary
    stated = int.from_bytes(data[position : position + width], "little") + (256 if width == 2 else 0)
    return stated if width else None, position + width, 4 if descriptor & 4 else 0


#: How each codec states the decoded length, and the most bytes that one stored byte can decode to. A byte of an LZ4
#: block adds at most 255; Zstandard, which Blosc can hold, needs four bytes for a block of 128 KiB.
_STATED: dict[str, tuple[Callable[[bytes], int], int]] = {
    "blosc": (_blosc, _ZSTD_BLOCK // 4),
    "lz4": (lambda data: int.from_bytes(data[:4], "little"), 255),
    "zstd": (zstd_bound, _ZSTD_BLOCK // 4),
}

#: The bytes that each filter of numbers makes of one byte.
_GROWTH: dict[str, Callable[[Any], float]] = {
    "astype": lambda codec: codec.decode_dtype.itemsize / codec.encode_dtype.itemsize,
    **dict.fromkeys(
        ("delta", "fixedscaleoffset", "quantize"), lambda codec: codec.dtype.itemsize / codec.astype.itemsize
    ),
    "packbits": lambda codec: 8,
}


def _in_turn(make: Callable[[], Any], data: bytes, most: int) -> bytes:
    """Decode consecutive streams; bytes after the last one that begin no stream are an error."""
    parts: list[bytes] = []
    left = most
    while data:
        machine = make()
        part = machine.decompress(data, left + 1)
        left -= len(part)
        if left < 0:
            raise TooLargeError(most)
        if not machine.eof:
            raise ValueError("it is cut short")
        parts.append(part)
        data = machine.unused_data
    return b"".join(parts)


def _decode_to_limit(codec: Any, data: bytes, most: int) -> Any:
    match codec.codec_id:
        case "zlib":
            machine = zlib.decompressobj()
            plain = _within(machine.decompress(data, most + 1), most)
            if not machine.eof:
                raise ValueError("it is cut short")
            return plain
        case "gzip":
            with gzip.GzipFile(fileobj=io.BytesIO(data), mode="rb") as file:
                return _within(file.read(most + 1), most)
        case "bz2":
            return _in_turn(bz2.BZ2Decompressor, data, most)
        case "lzma" if codec.format == lzma.FORMAT_RAW:
            raw = lzma.LZMADecompressor(format=codec.format, filters=codec.filters)
            return _within(raw.decompress(data, most + 1), most)
        case "lzma":
            # the header may ask for a dictionary of 4 GiB
            return _in_turn(lambda: lzma.LZMADecompressor(format=codec.format, memlimit=2**28), data, most)
        case "msgpack2":
            return _msgpack(codec, data)
        case "zfpy":
            return _zfp(data, most)
        case "pcodec":
            return _pcodec(codec, data, most)
    raise AssertionError(f"{codec.codec_id!r} is in _TO_LIMIT and has no case")


def _msgpack(codec: Any, data: bytes) -> Any:
    """Return objects, after checking the type and the shape that follow them in ``data``."""
    from numcodecs import msgpacks

    items = msgpacks.msgpack.unpackb(data, raw=codec.raw)
    shape = items[-1]
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{shape!r} is not a shape")
    rows = items[:-2]
    is_too_large = math.prod(shape) > len(data)  # an object takes a byte at least
    if is_too_large or (shape and shape[0] != len(rows)) or np.dtype(items[-2]) != object:
        raise ValueError(f"{len(rows)} objects do not fill the shape {shape}")
    objects = np.empty(shape, dtype=object)
    objects[:] = rows
    return objects


def _pcodec(codec: Any, data: bytes, most: int) -> npt.NDArray[Any]:
    """Return numbers of the type that the data state; the package pcodec shows it by refusing all others."""
    from numcodecs.pcodec import standalone

    for name in _PCODEC_TYPES:  # `simple_decompress` would allocate any number of values: 520 bytes can be 40 MB
        values = np.empty(most // np.dtype(name).itemsize, name)
        try:
            progress = standalone.simple_decompress_into(data, values)
        except RuntimeError as error:
            if "number type" in str(error) and name != _PCODEC_TYPES[-1]:
                continue
            raise
        # numcodecs ignores this, and returns memory that was not written where there are fewer numbers
        if not progress.finished:
            raise TooLargeError(most)
        return values[: progress.n_processed]
    raise AssertionError


def _zfp(data: bytes, most: int) -> npt.NDArray[Any]:
    """Return numbers, after checking the shape in the header. Source: zfp 1.0, ``zfp_read_header``."""
    from numcodecs.zfpy import _zfpy

    if data[:3] != b"zfp" or len(data) < 12:
        raise ValueError("it is cut short")
    header = int.from_bytes(data[4:14], "little")
    size, axes, mode = (4, 8)[header & 1], (header >> 2 & 3) + 1, header >> 52 & 0xFFF
    width = 48 // axes
    lengths = [(header >> 4 + width * axis & 2**width - 1) + 1 for axis in range(axes)]
    if size * math.prod(lengths) > most:
        raise TooLargeError(most)
    # The library reads as many bits as the blocks need, also beyond the chunk, where the process ends. So zeros follow
    # it: as many as all blocks can need, which begin no less than `least` bits apart.
    blocks = math.prod(-(-length // 4) for length in lengths)
    least = 1 + (mode if mode < 2048 else header >> 64 & 0x7FFF if mode == 4095 else 0)
    if blocks * least > 8 * len(data):
        raise ValueError("it is cut short")
    padded = np.zeros(len(data) + blocks * (4**axes * (8 * size + 1) // 8 + 8) + 64, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    values: npt.NDArray[Any] = _zfpy.decompress_numpy(padded)
    return values


# ---- codecs of this package ------------------------------------------------------------------------------------------

_CRC_TABLE = list(range(256))
for _ in range(8):  # with the reversed polynomial
    _CRC_TABLE = [entry >> 1 ^ (0x82F63B78 if entry & 1 else 0) for entry in _CRC_TABLE]


def _crc32c(data: bytes) -> int:
    """Return the CRC32C of ``data``. Source: RFC 3720, appendix B.4."""
    if _fast_crc32c is not None:
        return int(_fast_crc32c(data))
    state = 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ _CRC_TABLE[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


class CRC32C:
    """The codec ``crc32c``: a checksum of four bytes, little-endian, after the data or before them."""

    # numcodecs has it only from 0.16.4, and only beside ``google_crc32c``, which zarr-python 3 installs.
    # Source: Zarr v3 specification, codec ``crc32c``.

    codec_id = "crc32c"

    def __init__(self, location: str = "end") -> None:
        if location not in ("end", "start"):
            raise ValueError(f"the location of a checksum is 'start' or 'end', not {location!r}")
        self.location = location

    def get_config(self) -> dict[str, str]:
        """Return the configuration, as codecs of numcodecs do."""
        return {"id": self.codec_id, "location": self.location}

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of ``buf`` with their checksum."""
        data = np.ascontiguousarray(buf).tobytes() if isinstance(buf, np.ndarray) else bytes(buf)
        stored = _crc32c(data).to_bytes(4, "little")
        return data + stored if self.location == "end" else stored + data

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the bytes of ``buf`` without their checksum."""
        data = memoryview(buf).tobytes()
        if len(data) < 4:
            raise ValueError(f"{len(data)} bytes are too few for a checksum")
        size = len(data) - 4
        plain, stored = (data[:size], data[size:]) if self.location == "end" else (data[4:], data[:4])
        expected = int.from_bytes(stored, "little")
        if _crc32c(plain) != expected:
            raise ValueError(f"the CRC32C is {_crc32c(plain)} and should be {expected}")
        return plain


# numcodecs refuses to decode pickles from 0.15.2 on, unless an environment variable allows it for the whole process. So
# hdmf-zarr 0.13 cannot read the references of its own files out of the box, and this package reads them safely.
class DataPickle:
    """The ``pickle`` filter: decodes data only; encodes with numcodecs where the user chose it."""

    def encode(self, buf: Any) -> Any:
        """Return ``buf`` as a pickle of protocol 5."""
        return numcodecs.Pickle().encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the objects of a pickle that holds nothing but data; a damaged one is one of `DECODE_ERRORS`."""
        try:
            return loads_data(memoryview(buf).tobytes())
        except PickleLimitError as error:
            remedy = "If you trust this file, export it with hdmf-zarr 0.13, with smaller chunks."
            raise errors.LimitError(f"a pickle is too large to be read safely ({error})", remedy=remedy) from error
        except UnsafePickleError as error:
            if error.damaged:
                raise
            problem = f"a pickle holds more than data ({error})"
            raise errors.UnsafeDataError(problem, remedy="Do not trust this file; nothing of it was run.") from error


class GZip(numcodecs.GZip):  # type: ignore[misc]
    """The codec ``gzip``, without the time in its header, so that equal values are equal chunks."""

    def encode(self, buf: Any) -> bytes:
        """Return ``buf`` as a gzip stream."""
        machine = zlib.compressobj(self.level, wbits=16 + zlib.MAX_WBITS)
        return machine.compress(numcodecs.compat.ensure_contiguous_ndarray(buf)) + machine.flush()


# ---- codecs of other packages ----------------------------------------------------------------------------------------
# Those that are registered with numcodecs, by a call or by an installed entry point. Such a codec is code that this
# package does not know. So its errors, of whatever class, are translated here, in one place, and it never decodes into
# memory of the caller: what it returns is checked like the bytes of a file.

# Packages whose codecs are used by the list of ids only: some of the others unpickle.
_NO_PLUG_INS = frozenset({"numcodecs", "zarr", "hdmf_zarr_backend"})
_PICKLE_NAMES = frozenset({"pickle", "numcodecs.pickle"})
# For the advice of errors: extras of numcodecs, and packages with codecs of large recordings, by the id of the codec.
_EXTRAS = {"msgpack2": "msgpack", "pcodec": "pcodec", "zfpy": "zfpy"}
_PACKAGES = {"flac": "flac-numcodecs", "wavpack": "wavpack-numcodecs"}


class PlugInError(ValueError):
    """A codec of another package raised an error; the message names the codec and the class of that error."""


class PlugIn:
    """A codec of another package, whose errors are a `PlugInError`."""

    def __init__(self, codec_id: str, codec: Any) -> None:
        self.codec_id = codec_id
        self.codec = codec

    def encode(self, buf: Any) -> Any:
        """Return the encoded form of ``buf``."""
        return self._call(self.codec.encode, buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the decoded form of ``buf`` in memory of its own; ``out`` is not used."""
        return self._call(self.codec.decode, buf)

    def _call(self, method: Callable[[Any], Any], buf: Any) -> Any:
        try:
            return method(buf)
        except Exception as error:
            raise PlugInError(f"the codec {self.codec_id!r} raised {type(error).__name__}: {error}") from error


def _make_plug_in(config: dict[str, Any]) -> Any:
    codec_id: Any = config.get("id")
    codec_class: Any = registry.codec_registry.get(codec_id) if isinstance(codec_id, str) else None
    if codec_class is None and isinstance(codec_id, str) and codec_id in registry.entries:
        entry: Any = registry.entries[codec_id]
        try:
            codec_class = entry.load()
        except Exception as error:
            problem = f"the codec {codec_id!r} of {entry.value!r} cannot be imported ({type(error).__name__}: {error})"
            raise errors.MissingCodecError(problem, remedy="Repair or reinstall the package that has it.") from error
        registry.register_codec(codec_class, codec_id=codec_id)
    module = str(getattr(codec_class, "__module__", "")).partition(".")[0]
    unpickles = isinstance(codec_class, type) and issubclass(codec_class, numcodecs.Pickle)
    if codec_class is None or module in _NO_PLUG_INS or unpickles:
        package = _PACKAGES.get(str(codec_id))
        at_top = " at the top of a module that the workers import (not below `if __name__`), or use executor='threads'"
        install = f"Install it: pip install {package}" if package else "Install its package, if you trust this file"
        raise errors.MissingCodecError(
            f"the codec {codec_id!r} is not one that this package decodes, and numcodecs has none of that name "
            "registered",
            remedy=f"{install}, or register it with numcodecs.register_codec{at_top if parent_process() else ''}; "
            "the commands find a codec of your own by an entry point of the group numcodecs.codecs. "
            f"Known codecs: {', '.join(sorted(ALLOWED_CODECS))}.",
        )
    pending: list[Any] = list(_without_id(config).values())  # some codecs make others from their configuration
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, (list, tuple)):
            pending += value
        elif isinstance(value, str) and value in _PICKLE_NAMES:
            problem = f"the codec {codec_id!r} is configured with the codec 'pickle', which would run code"
            raise errors.UnsafeDataError(problem, remedy="Do not trust this file; nothing of it was run.")
    try:
        return codec_class.from_config(_without_id(config))
    except Exception as error:
        raise errors.MetadataError(
            f"the codec {codec_id!r} cannot have the configuration {dict(config)!r} ({type(error).__name__}: {error})",
            remedy="Install the release of its package that wrote this; else run `zarrio verify`.",
        ) from error


# ---- configurations -> codecs ----------------------------------------------------------------------------------------

MAX_OBJECT_BYTES = Limits().max_object_bytes
OBJECT_CODECS = frozenset(
    {"vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2", "pickle", "categorize", "references", "struct"}
)
# Codecs of numcodecs and of this package that are used; other codecs of numcodecs and zarr are not.
ALLOWED_CODECS = OBJECT_CODECS | {
    "adler32", "astype", "base64", "bitround", "blosc", "byteorder", "bz2", "crc32", "crc32c", "delta",
    "fixedscaleoffset", "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "pcodec", "quantize",
    "shuffle", "zfpy", "zlib", "zstd",
}  # fmt: skip
DECODE_ERRORS = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, EOFError, OSError, AttributeError,
                 AssertionError, BufferError, MemoryError, SystemError, struct.error, zlib.error,
                 lzma.LZMAError)  # fmt: skip
ENCODE_ERRORS = (TypeError, ValueError, LookupError, OverflowError, RuntimeError, AttributeError, zlib.error,
                 lzma.LZMAError)  # fmt: skip
# what these store of bytes that they take for another type does not lead back to them
_BY_VALUE = frozenset({"fixedscaleoffset", "quantize", "astype", "packbits"})
_LONGEST_ELEMENT = 32
_VLEN = frozenset({"vlen-utf8", "vlen-bytes", "vlen-array", "references"})
# As zarr does when it is imported: with its own threads, Blosc stores blocks in any order, and equal chunks differ.
numcodecs.blosc.use_threads = False


def value_bytes(array: StoredArray) -> int:
    """Return the bytes of the values of an array; 8 for each object."""
    return array.size * numpy_dtype(array.data_type).itemsize


def make_codec(config: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the codec of a configuration."""
    if is_plug_in(config):
        return _make_plug_in(config)
    codec_id: str = config["id"]
    try:
        if codec_id in _OWN_CODECS:
            return _OWN_CODECS[codec_id](config, dtype)
        if codec_id == "shuffle":
            # netcdf-c writes 0 and means the size of an element; zarr 2.18 and 3.1.6 return wrong numbers silently.
            size = config.get("elementsize") or dtype.itemsize
            if type(size) is not int or size < 1:
                # numcodecs would return memory that was not written.
                raise ValueError("a shuffle needs the size of an element")
            config = {**config, "elementsize": size}
        if codec_id == "fixedscaleoffset" and not all(np.isscalar(config[key]) for key in ("offset", "scale")):
            raise ValueError("offset and scale are numbers")  # numbers in lists multiply the values
        for key in DTYPE_OPTIONS & config.keys():
            # a few bytes would become many, and a unit of 0 of a date ends the process
            if from_zarr_type(np.dtype(config[key]).str).itemsize > _LONGEST_ELEMENT:
                raise ValueError(f"{config[key]!r} is not a type of numbers")
        return numcodecs.get_codec(dict(config))
    except (ValueError, TypeError, LookupError, AttributeError, SyntaxError, ImportError) as error:
        # numcodecs lists a codec only if what it needs is installed; its pcodec looks for that when it is made
        if isinstance(error, ImportError) or codec_id not in {*registry.codec_registry, *_OWN_CODECS}:
            problem = f"the codec {codec_id!r} is not available here ({error})"
            extra = _EXTRAS.get(codec_id)
            remedy = f"Install it: pip install 'numcodecs[{extra}]'." if extra else "Install a numcodecs that has it."
            raise errors.MissingCodecError(problem, remedy=remedy) from error
        raise errors.MetadataError(f"the codec configuration {config!r} is not usable ({error})") from error


def is_plug_in(config: dict[str, Any]) -> bool:
    """Return whether a configuration is that of a codec of another package, registered or not."""
    codec_id = config.get("id")
    return not isinstance(codec_id, str) or codec_id not in ALLOWED_CODECS


_OWN_CODECS: dict[str, Callable[[dict[str, Any], np.dtype[Any]], Any]] = {
    "blosc": lambda config, dtype: Blosc.from_config(_without_id(config)),
    "byteorder": lambda config, dtype: LittleRows(dtype, numpy_dtype(config["stored"])),
    "crc32c": lambda config, dtype: CRC32C(**_without_id(config)),
    "gzip": lambda config, dtype: GZip.from_config(_without_id(config)),
    "json2": JSONRows,
    "pickle": lambda config, dtype: DataPickle(),
    "references": lambda config, dtype: ReferenceTexts(),
    "struct": lambda config, dtype: StructRows(config["fields"], numpy_dtype),
}
"""Codecs that are made here, given their configuration and the data type of the array; the others are of numcodecs."""


def _guarded_codec(config: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the codec of a configuration; one of another package with its errors translated."""
    if config.get("id") == "zstd":
        # every reader checks it, so the document need not mention it; TensorStore refuses a ``.zarray`` that does
        config = {**config, "checksum": True}
    codec = make_codec(config, dtype)
    return PlugIn(config["id"], codec) if is_plug_in(config) else codec


def _without_id(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "id"}


# ---- chunks ----------------------------------------------------------------------------------------------------------


class ChunkCodec:
    """Encodes and decodes the chunks of arrays that share a data type and codecs; ``dtype`` is of decoded chunks."""

    def __init__(self, data_type: Any, filters: Any, compressor: Any, order: Order) -> None:
        filters = filters or ()
        self.dtype = numpy_dtype(data_type)
        self._axes = None if isinstance(order, str) else order  # by which a chunk is transposed
        self.order: Any = order if isinstance(order, str) else "C"  # of the elements of a transposed chunk
        self._filters = [_guarded_codec(config, self.dtype) for config in filters]
        self._compressor: Any = _guarded_codec(compressor, self.dtype) if compressor else None
        codecs = [*self._filters, self._compressor]
        self.plug_ins = [codec.codec_id for codec in codecs if isinstance(codec, PlugIn)]
        self.is_object = self.dtype.hasobject
        ids = [config["id"] for config in filters]
        if self.is_object and OBJECT_CODECS.isdisjoint(ids):
            raise errors.MetadataError("an array of objects has no codec for objects")
        if compressor and compressor["id"] in OBJECT_CODECS:
            raise errors.MetadataError(f"{compressor['id']!r} is not a compressor")
        self._has_count = bool(ids) and ids[0] in _VLEN
        self._has_arrays = ids[:1] == ["vlen-array"]
        # JSON, MessagePack and pickles store the shape of a chunk.
        self._keeps_shape = self.is_object and not self._has_count
        # Whether `decode` can write values straight into ``out``; whether chunks may be decoded block by block; and the
        # filter that makes rows from packed records, if these are stored in blocks of Blosc.
        self.decodes_in_place = not self.is_object and not self._filters and self.order == "C" and self._axes is None
        is_blosc = isinstance(self._compressor, numcodecs.Blosc)
        self.has_blocks = self.decodes_in_place and is_blosc
        first = self._filters[0] if len(self._filters) == 1 else None
        self.rows_in_blocks = first if isinstance(first, StructRows) and is_blosc else None

    def encode(self, chunk: Array) -> bytes:
        """Return the stored form of one complete chunk."""
        try:
            if self._axes is not None:
                chunk = chunk.transpose(self._axes)
            buffer: Any = chunk if self._keeps_shape else np.ravel(chunk, order=self.order)
            # As zarr does: codecs for signals, such as WavPack and FLAC, compress by channel.
            if self.plug_ins and not self.is_object:
                buffer = buffer.reshape(chunk.shape if self.order == "C" else chunk.shape[::-1])
            for codec in self._filters:
                buffer = codec.encode(buffer)
            if self._compressor is not None:
                if isinstance(buffer, np.ndarray) and buffer.dtype.kind in "MmV":
                    # a type of the buffer protocol, from which compressors read the size of an element
                    buffer = buffer.view("i8" if buffer.dtype.kind in "Mm" else f"V{buffer.dtype.itemsize}")
                buffer = self._compressor.encode(buffer)
            return buffer if type(buffer) is bytes else _raw(buffer).tobytes()
        except ENCODE_ERRORS as error:
            # Numbers of the type of the array always fit, so this is an option that only encoding looks at, such as a
            # level; or a codec that takes other numbers.
            is_of_codec = not self.is_object or isinstance(error, (zlib.error, lzma.LZMAError))
            remedy = "Correct the options of the codecs, or use others." if is_of_codec else ""
            reason = repr(error) if isinstance(error, LookupError) else error  # whose text is a key
            raise errors.ValueRefusedError(f"the values cannot be stored ({reason})", remedy=remedy) from error

    def decode_blocks(
        self, frame: bytearray, out: npt.NDArray[np.uint8] | None, what: Callable[[], str]
    ) -> npt.NDArray[np.uint8]:
        """Return the decoded bytes of a frame of `BloscBlocks`, in ``out`` unless that is None."""
        try:
            return _raw(self._compressor.decode(frame, out))
        except DECODE_ERRORS as error:
            raise self._undecodable(error, len(frame), what()) from error

    def check(self, values: Array, what: Callable[[], str]) -> None:
        """Refuse values of `decode_blocks` that no complete chunk would decode to."""
        try:
            check_characters(values)
        except ValueError as error:
            raise self._undecodable(error, 0, what()) from error

    def decode(
        self,
        data: bytes,
        shape: tuple[int, ...],
        *,
        out: Array | None = None,
        max_object_bytes: int = MAX_OBJECT_BYTES,
        what: Callable[[], str] = lambda: "a chunk",
    ) -> Array:
        """Return one complete chunk of ``shape``; numbers in a new, writable array, or in ``out``."""
        try:
            if self._axes is None:
                return self._decode(data, shape, out, max_object_bytes)
            stored = self._decode(data, tuple(shape[axis] for axis in self._axes), None, max_object_bytes)
            return stored.transpose(np.argsort(self._axes))
        except DECODE_ERRORS as error:
            if self.is_object and isinstance(error, TooLargeError):
                problem = f"{what()} decompresses to more bytes than that"
                limits = Limits(max_object_bytes=max_object_bytes)
                raise limits.exceeded("max_object_bytes", 2 * max_object_bytes, problem) from error
            raise self._undecodable(error, math.prod(shape) * self.dtype.itemsize, what()) from error

    def _undecodable(self, error: Exception, nbytes: int, what: str) -> errors.ChunkError | errors.ResourceError:
        """Return the error for a chunk of ``nbytes`` that does not decode: it is damaged, or there is no memory."""
        if isinstance(error, MemoryError):
            try:
                # This is enough to decode the chunk, if it were not damaged.
                np.empty(2 * nbytes + 64 * 2**20, np.uint8)
            except MemoryError:
                lack = resource_failure(error, "decoded", what=what)
                assert lack is not None
                return lack
        reason = str(error) if isinstance(error, PlugInError) else f"{type(error).__name__}: {error}"
        if self.plug_ins and not isinstance(error, PlugInError):
            reason += f"; codec {', '.join(map(repr, self.plug_ins))}"
        return errors.ChunkError(f"{what} cannot be decoded ({reason})", remedy=errors.RESTORE_CHUNK)

    def split(self, data: bytes, *, max_object_bytes: int = MAX_OBJECT_BYTES) -> Elements | None:
        """Return the unparsed elements of a chunk of references or rows, None for any other chunk."""
        if len(self._filters) != 1 or not isinstance(self._filters[0], (JSONRows, ReferenceTexts, StructRows)):
            return None
        try:
            plain = data if self._compressor is None else decode_bounded(self._compressor, data, max_object_bytes)
            return self._filters[0].split(plain if isinstance(plain, bytes) else _raw(plain).tobytes())
        except DECODE_ERRORS:
            return None  # decoding the complete chunk raises the error

    def _decode(self, data: bytes, shape: tuple[int, ...], out: Array | None, max_object_bytes: int) -> Array:
        if self._filters:  # as objects always have
            nbytes = math.prod(shape) * self.dtype.itemsize
            most = max_object_bytes if self.is_object else between_filters(nbytes)
            buffer: Any = data
            if self._compressor is not None:
                buffer = decode_bounded(self._compressor, buffer, most)
            for position in reversed(range(len(self._filters))):
                if position == 0 and self._has_count:
                    _check_count(buffer, math.prod(shape))
                buffer = decode_bounded(self._filters[position], buffer, most)
            if self.is_object:
                return self._shaped(buffer, shape)
            flat = _raw(buffer)
            if flat.size != nbytes:
                raise ValueError(f"{flat.size} bytes instead of {nbytes}")
            values: Array = flat.view(self.dtype).copy().reshape(shape, order=self.order)
            check_characters(values)
            return values
        if out is None:
            out = np.empty(shape, self.dtype, order=self.order)
        flat = out.reshape(-1, order=self.order).view("u1")
        decoded = _raw(data if self._compressor is None else decode_bounded(self._compressor, data, flat.size, flat))
        if decoded.size != flat.size:
            raise ValueError(f"{decoded.size} bytes instead of {flat.size}")
        if not np.may_share_memory(decoded, flat):
            flat[:] = decoded
        check_characters(out)
        return out

    def _shaped(self, objects: Any, shape: tuple[int, ...]) -> Array:
        if not isinstance(objects, np.ndarray):
            raise ValueError(f"the filters decode to {type(objects).__name__}, not to objects")
        if self.dtype.names is not None and objects.dtype.names is None:
            raise ValueError(f"the filters decode to {objects.dtype}, not to rows")
        if self._has_arrays:
            for item in objects:
                check_characters(item)
        if objects.dtype.names != self.dtype.names or objects.dtype.kind != self.dtype.kind:
            # hdmf-zarr pickled structured arrays and declared them as plain objects
            objects = objects.astype(object)
        shaped: Array = objects.reshape(shape, order=self.order)
        return shaped


def _raw(buffer: Any) -> npt.NDArray[np.uint8]:
    """Return the output of a codec as bytes."""
    if isinstance(buffer, np.ndarray):
        return np.ravel(buffer, order="A").view(np.uint8)
    return np.frombuffer(buffer, np.uint8)


def _check_count(buffer: Any, wanted: int) -> None:
    """Check the number of elements that a chunk states, before memory is allocated for them."""
    raw = _raw(buffer)
    stated = int.from_bytes(raw[:4].tobytes(), "little")
    if len(raw) >= 4 and stated != wanted:
        raise ValueError(f"{stated} elements instead of {wanted}")
    if len(raw) < 4 + 4 * wanted:  # each element has a length before it
        raise ValueError(f"{len(raw)} bytes for {wanted} elements")


_codec_of: Memo[ChunkCodec] = Memo(ChunkCodec, most=4096)


def chunk_codec(array: StoredArray) -> ChunkCodec:
    """Return the codec of the chunks of ``array``; equal configurations share one."""
    # A plug-in may be registered again under its id, so its codecs are not cached.
    make = ChunkCodec if any(map(is_plug_in, array.codecs)) else _codec_of
    return make(array.data_type, array.filters, array.compressor, array.order)


def check_given(array: StoredArray) -> None:
    """Refuse options that a codec of a new array does not have, where the user gave the codecs."""
    try:
        codec = chunk_codec(array)
    except errors.MissingCodecError:
        raise
    except errors.MetadataError as error:
        raise errors.UsageError(error.problem, remedy="Correct the codec or its options.") from error
    if codec.is_object or codec.dtype.names is not None:
        return

    def numbers(dtype: Any) -> np.dtype[Any]:  # those of dates are their integers
        dtype = np.dtype(dtype)
        return np.dtype(f"{dtype.str[0]}i8") if dtype.kind in "mM" else dtype

    dtype = codec.dtype
    for config in array.filters or ():
        taken = np.dtype("?" if config["id"] == "packbits" else config.get("decode_dtype", config.get("dtype", dtype)))
        if config["id"] in _BY_VALUE and numbers(taken) != numbers(dtype):
            problem = f"the filter {config['id']!r} takes values of type {taken}, and these are {dtype}"
            remedy = "Give the filter the type of the data, or the data that of the filter."
            raise errors.UsageError(problem, remedy=remedy)
        dtype = np.dtype(config.get("encode_dtype", config.get("astype", dtype)))


def reading_codec(array: StoredArray, rules: ReadOptions) -> ChunkCodec:
    """Return the codec that reads chunks of ``array`` from a file."""
    if not rules.limits.plug_in_codecs:
        refused = sorted({str(config.get("id")) for config in array.codecs if is_plug_in(config)})
        if refused:
            problem = f"the codec {', '.join(map(repr, refused))} is of another package, and plug_in_codecs is False"
            allow = "read_options=ReadOptions(limits=Limits(plug_in_codecs=True))"
            trust = "If you trust this file and that package,"
            cli = f"{trust} leave --no-plug-in-codecs out."
            raise errors.LimitError(problem, remedy=f"{trust} allow it: {allow}.", remedy_cli=cli)
    return chunk_codec(array)
