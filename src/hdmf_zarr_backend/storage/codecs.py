"""Chunks <-> arrays: one `ChunkCodec` for each combination of data type, filters and compressor.

Codecs come from numcodecs by an allow-list of ids, since the configuration is the file's and a file is not to be trusted.
``pickle`` is never given to numcodecs: it is decoded by the data-only reader in `pickles` and only encoded when the user
asked for it.

Source: Zarr v2 specification, "Chunks", "Filters", "Fill value encoding"; numcodecs for the byte layouts.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from functools import lru_cache
from typing import Any, Protocol, cast

import numcodecs
import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ChunkError, MetadataError, UnsafeDataError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes
from hdmf_zarr_backend.storage.objects import JSONRows, SplitElements
from hdmf_zarr_backend.storage.pickles import UnsafePickleError, loads_data

Array = npt.NDArray[Any]

OBJECT_CODECS = frozenset({"vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2", "pickle", "categorize"})
ALLOWED_CODECS = OBJECT_CODECS | {
    "adler32", "astype", "base64", "bitround", "blosc", "bz2", "crc32", "crc32c", "delta", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "pcodec", "quantize", "shuffle", "zfpy", "zlib",
    "zstd",
}  # fmt: skip

DECODE_ERRORS = (ValueError, TypeError, RuntimeError, IndexError, KeyError, OverflowError, EOFError, OSError,
                 struct.error, zlib.error, MemoryError, RecursionError, UnicodeError)  # fmt: skip


class Codec(Protocol):
    """What is used of a numcodecs codec."""

    def encode(self, buf: Any) -> Any:
        """Return the encoded form of ``buf``."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the decoded form of ``buf``."""


def numpy_dtype(data_type: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a format-2 data type.

    Parameters
    ----------
    data_type : str or list
        ``"<f4"``, ``"|O"``, or a list of ``[name, type]`` or ``[name, type, shape]``.

    Raises
    ------
    MetadataError
        It is no data type.
    """
    try:
        return np.dtype(_dtype_argument(data_type))
    except (TypeError, ValueError, SyntaxError, RecursionError) as error:
        raise MetadataError(f"the data type {data_type!r} is unknown ({error})") from error


def _dtype_argument(data_type: Any) -> Any:
    if isinstance(data_type, str):
        return data_type
    if not isinstance(data_type, list):
        raise TypeError("a data type is a string or a list of fields")
    fields = []
    for field in data_type:
        name, kind, *shape = field
        fields.append((str(name), _dtype_argument(kind), *(tuple(s) if isinstance(s, list) else s for s in shape)))
    return fields


class DataPickle:
    """The ``pickle`` filter: decodes data only; encodes with numcodecs where the user chose it."""

    def encode(self, buf: Any) -> Any:
        """Return ``buf`` as a pickle of protocol 5."""
        return numcodecs.Pickle().encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the objects of a pickle that holds nothing but data."""
        return loads_data(memoryview(buf).tobytes())


def make_codec(config: dict[str, Any], dtype: np.dtype[Any]) -> Codec:
    """Return the codec of a configuration.

    Raises
    ------
    MetadataError
        The id is not one that is allowed, or the configuration is wrong.
    """
    codec_id = config.get("id")
    if codec_id not in ALLOWED_CODECS:
        raise MetadataError(
            f"the codec {codec_id!r} is not one that this package decodes",
            remedy=f"Known codecs: {', '.join(sorted(ALLOWED_CODECS))}.",
        )
    if codec_id == "pickle":
        return DataPickle()
    if codec_id == "json2":
        return JSONRows(config, dtype)
    if codec_id == "shuffle" and not config.get("elementsize"):
        config = {**config, "elementsize": dtype.itemsize}  # netcdf-c writes 0 and means the size of an element
    try:
        return cast(Codec, numcodecs.get_codec(dict(config)))
    except (ValueError, TypeError, KeyError) as error:
        raise MetadataError(f"the codec configuration {config!r} is not usable ({error})") from error


class ChunkCodec:
    """Encodes and decodes the chunks of arrays that share a data type and codecs.

    Attributes
    ----------
    dtype : numpy.dtype
        Of decoded chunks; ``object`` for variable-length data.
    is_object : bool
        Whether elements are Python objects.
    """

    def __init__(self, data_type: Any, filters: Any, compressor: Any, order: str) -> None:
        self.dtype = numpy_dtype(data_type)
        self.order = order
        self._filters = [make_codec(config, self.dtype) for config in filters or ()]
        self._compressor = make_codec(compressor, self.dtype) if compressor else None
        self.is_object = self.dtype.hasobject
        if self.is_object and not any(config["id"] in OBJECT_CODECS for config in filters or ()):
            raise MetadataError("an array of objects names no codec for them", remedy="Run `zarrio verify`.")

    def encode(self, chunk: Array) -> bytes:
        """Return the stored form of one whole chunk."""
        buffer: Any = chunk if self.is_object or self.order == "C" else chunk.ravel(order="F")
        for codec in self._filters:
            buffer = codec.encode(buffer)
        if isinstance(buffer, np.ndarray):
            buffer = np.ascontiguousarray(buffer)
            if buffer.dtype.kind in "Mm":
                buffer = buffer.view("i8")
        if self._compressor is not None:
            buffer = self._compressor.encode(buffer)
        return buffer if type(buffer) is bytes else memoryview(buffer).cast("B").tobytes() if len(buffer) else b""

    def decode(self, data: bytes, shape: tuple[int, ...]) -> Array:
        """Return one whole chunk of ``shape``; numbers come in a new, writable array.

        Raises
        ------
        ChunkError
            The bytes do not decode to a chunk of that shape.
        UnsafeDataError
            Only running code that the file names could decode them.
        """
        try:
            return self._decode(data, shape)
        except UnsafePickleError as error:
            raise UnsafeDataError(
                f"a pickle holds more than data ({error})", remedy="Do not trust this file; nothing of it was run."
            ) from error
        except DECODE_ERRORS as error:
            raise ChunkError(
                f"a chunk does not decode ({type(error).__name__}: {error})",
                remedy="Restore it from a copy, or run `zarrio verify` to list all such chunks.",
            ) from error

    def split(self, data: bytes) -> SplitElements | None:
        """Return the elements of a chunk of references or rows unparsed, None for any other chunk."""
        if len(self._filters) != 1 or not isinstance(self._filters[0], JSONRows):
            return None
        try:
            return self._filters[0].split(bytes(self._compressor.decode(data)) if self._compressor is not None else data)
        except DECODE_ERRORS:
            return None  # the full decoder will say what is wrong

    def _decode(self, data: bytes, shape: tuple[int, ...]) -> Array:
        buffer: Any = data
        if self.is_object or self._filters:
            if self._compressor is not None:
                buffer = self._compressor.decode(buffer)
            for codec in reversed(self._filters):
                buffer = codec.decode(buffer)
            if self.is_object:
                return self._shaped(np.asarray(buffer), shape)
            return self._shaped(np.frombuffer(memoryview(buffer).cast("B"), self.dtype).copy(), shape)
        out: Array = np.empty(shape, self.dtype, order=cast(Any, self.order))
        flat = out.reshape(-1, order=cast(Any, self.order)).view("u1")
        if self._compressor is None:
            flat[:] = np.frombuffer(data, "u1")
        else:
            decoded = self._compressor.decode(data, flat)
            if memoryview(decoded).nbytes != flat.nbytes:
                raise ValueError(f"{memoryview(decoded).nbytes} bytes instead of {flat.nbytes}")
        return out

    def _shaped(self, array: Array, shape: tuple[int, ...]) -> Array:
        if array.dtype.names is not None and self.dtype.names is None:
            # hdmf-zarr pickled structured arrays and declared them as plain objects
            objects: Array = np.empty(array.shape, dtype=object)
            objects[...] = array
            array = objects
        return array.reshape(shape, order=cast(Any, self.order))


@lru_cache(maxsize=4096)
def _codec_of(data_type: str, filters: str, compressor: str, order: str) -> ChunkCodec:
    return ChunkCodec(json.loads(data_type), json.loads(filters), json.loads(compressor), order)


def chunk_codec(node: ArrayNode[Attributes]) -> ChunkCodec:
    """Return the codec of the chunks of ``node``; equal configurations share one."""
    return _codec_of(json.dumps(node.data_type), json.dumps(node.filters), json.dumps(node.compressor), node.order)


def fill_array(node: ArrayNode[Attributes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return what a chunk that is not stored reads as.

    A fill value of null leaves the elements undefined; they read as zero, empty text or None, as zarr-python reads them.
    """
    array: Array = np.zeros(shape, dtype) if not dtype.hasobject else np.empty(shape, dtype)
    value = fill_scalar(node, dtype)
    if value is not None:
        array[...] = value
    elif dtype == object and node.filters and node.filters[0]["id"] == "vlen-utf8":
        array[...] = ""
    return array


def fill_scalar(node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> Any:
    """Return the fill value of ``node`` as a NumPy scalar or object, or None where it is undefined.

    Raises
    ------
    MetadataError
        The fill value does not fit the data type.
    """
    value = node.fill_value
    if value is None or (dtype.hasobject and dtype.names is not None):
        return None  # a fill of rows with references is a pickle in old files: never decoded, never needed
    if dtype == object:
        # hdmf-zarr declared 0 for text and bytes
        return {"vlen-utf8": "", "vlen-bytes": b""}.get((node.filters or [{}])[0].get("id", "")) if value == 0 else value
    try:
        if dtype.kind in "SV" and isinstance(value, str):
            raw = base64.standard_b64decode(value)
            return np.frombuffer(raw.ljust(dtype.itemsize, b"\0")[: dtype.itemsize], dtype)[0]
        if dtype.kind == "c" and isinstance(value, list):
            return dtype.type(complex(float(value[0]), float(value[1])))
        return np.array(value).astype(dtype)[()]
    except (ValueError, TypeError, IndexError, OverflowError, binascii.Error) as error:
        raise MetadataError(f"the fill value {value!r} does not fit {dtype} ({error})") from error
