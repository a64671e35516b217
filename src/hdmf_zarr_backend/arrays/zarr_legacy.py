"""`enable_legacy_files`: lets plain zarr-python open files of hdmf-zarr 0.13 and older.

Those files need entries of zarr and numcodecs replaced (``vlen-bytes`` whose fill value is not bytes, pickled
references). That changes zarr for the complete process, so it happens only when `enable_legacy_files` is called;
`disable_legacy_files` reverts it.

Nothing here unpickles: the replacement of the ``pickle`` codec builds data and refuses code.

Apart from `zarr_plugin`, because loading that module must not change zarr or numcodecs.

Source: files that hdmf-zarr 0.1 to 0.13 wrote.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numcodecs.abc import Codec
from numcodecs.registry import codec_registry
from zarr.dtype import VariableLengthBytes, VariableLengthUTF8, ZDType, data_type_registry

from hdmf_zarr_backend.arrays.zarr_plugin import DataTypeValidationError, ObjectDType, dtype_name, only_format_2
from hdmf_zarr_backend.errors import ChunkError, UnsafeDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["disable_legacy_files", "enable_legacy_files"]

# --- types of older files -------------------------------------------------------------------------------------------
# hdmf-zarr up to 0.13 wrote `fill_value: 0` on arrays of text, bytes and references: zarr 2 does so if none is given.
# It is read as null here, so that a missing chunk is the type's own default, and xarray does not mask the text "0".


def _is_unset(fill_value: object, zarr_format: int) -> bool:
    return zarr_format == 2 and isinstance(fill_value, int) and fill_value == 0


class _LegacyObjectDType(ObjectDType):
    def from_json_scalar(self, data: Any, *, zarr_format: Literal[2, 3]) -> Any:
        return None if _is_unset(data, zarr_format) else super().from_json_scalar(data, zarr_format=zarr_format)


class _PickleObjectDType(_LegacyObjectDType):
    """References, and compound tables with text, as hdmf-zarr wrote them by default."""

    _zarr_v3_name: ClassVar[str] = "hdmf_zarr_backend.pickle"
    object_codec_id: ClassVar[str] = "pickle"


class _MsgPackObjectDType(_LegacyObjectDType):
    """The same written with ``object_codec_class=numcodecs.MsgPack``."""

    _zarr_v3_name: ClassVar[str] = "hdmf_zarr_backend.msgpack2"
    object_codec_id: ClassVar[str] = "msgpack2"


class _LegacyVariableLengthBytes(VariableLengthBytes):
    """zarr's type of ``vlen-bytes`` arrays, which refuses a fill value of 0 and with it the whole group."""

    def from_json_scalar(self, data: Any, *, zarr_format: Literal[2, 3]) -> Any:
        return None if _is_unset(data, zarr_format) else super().from_json_scalar(data, zarr_format=zarr_format)


class _LegacyVariableLengthUTF8(VariableLengthUTF8):
    """zarr's type of ``vlen-utf8`` arrays, which takes a fill value of 0 for the text "0"."""

    def from_json_scalar(self, data: Any, *, zarr_format: Literal[2, 3]) -> Any:
        return None if _is_unset(data, zarr_format) else super().from_json_scalar(data, zarr_format=zarr_format)


# --- structured arrays with object fields ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _CompoundDType(ZDType[np.dtype[Any], Any]):
    """Format-2 structured array with ``|O`` fields, encoded by one object codec: compound with references.

    Elements are numpy records whose object fields hold what the codec decodes to (a reference is a ``dict``).

    The fill value of such an array is a pickle in base64: the zero that zarr 2 adds. It is never decoded and reads as
    null; a missing chunk reads as zeros, which is the same. Null also keeps a record out of xarray's ``_FillValue``,
    which has to be hashable.
    """

    _zarr_v3_name: ClassVar[str] = "hdmf_zarr_backend.compound"
    dtype_cls: ClassVar[type[np.dtype[Any]]] = np.dtypes.VoidDType  # type: ignore[assignment]  # numpy's own stub
    native: np.dtype[Any]
    codec_id: str

    @classmethod
    def from_native_dtype(cls, dtype: np.dtype[Any]) -> Self:
        raise DataTypeValidationError(f"numpy's {dtype} does not tell which object codec stores it")

    def to_native_dtype(self) -> np.dtype[Any]:
        return self.native

    @classmethod
    def _from_json_v2(cls, data: object) -> Self:
        from hdmf_zarr_backend.formats.dtypes import numpy_dtype

        for codec_id in _LEGACY_CODECS:
            fields = dtype_name(data, codec_id)
            if isinstance(fields, Sequence) and not isinstance(fields, str):
                native = numpy_dtype(list(fields))
                if native.hasobject:
                    return cls(native=native, codec_id=codec_id)
        raise DataTypeValidationError(f"{cls.__name__} stores structured types with '|O' fields, got {data!r}")

    @classmethod
    def _from_json_v3(cls, data: object) -> Self:
        raise DataTypeValidationError(f"{cls.__name__} exists in Zarr format 2 only, got {data!r}")

    def to_json(self, zarr_format: Literal[2, 3]) -> Any:
        if zarr_format != 2:
            raise only_format_2(self)
        fields = json.loads(json.dumps(self.native.descr))  # lists, as in the document, for numpy's tuples
        return {"name": fields, "object_codec_id": self.codec_id}

    def _check_scalar(self, data: object) -> bool:
        return isinstance(data, int | tuple | list | np.void | np.ndarray)

    def cast_scalar(self, data: object) -> Any:
        if not self._check_scalar(data):
            raise TypeError(f"{data!r} is not a record and cannot fill an array of {self.native}")
        value: Any = tuple(data) if isinstance(data, list) else data
        return np.array(value, dtype=self.native)[()]

    def default_scalar(self) -> Any:
        return self.cast_scalar(0)

    def from_json_scalar(self, data: Any, *, zarr_format: Literal[2, 3]) -> None:
        return None

    def to_json_scalar(self, data: object, *, zarr_format: Literal[2, 3]) -> None:
        return None


# --- replacements of codecs of numcodecs ----------------------------------------------------------------------------


class _DataOnlyPickle(Codec):  # type: ignore[misc]  # numcodecs has no type hints
    """Codec ``pickle`` that builds data and refuses to run what a file names.

    Its ``codec_id`` is not "pickle", so that zarr >= 3.4 does not mistake it for the codec that runs code, which it
    refuses without a switch; documents still have ``"id": "pickle"``.
    """

    codec_id = "hdmf_zarr_backend.data_pickle"

    def __init__(self, protocol: int = 5) -> None:
        self._protocol = protocol

    def encode(self, buf: Any) -> Any:
        from numcodecs.pickles import Pickle

        encoded = Pickle(self._protocol).encode(buf)
        self.decode(encoded)  # nothing is written that would be refused again
        return encoded

    def decode(self, buf: Any, out: Any = None) -> Any:
        from hdmf_zarr_backend.oldfiles.pickles import UnsafePickleError, loads_data

        try:
            decoded = loads_data(bytes(buf))
        except UnsafePickleError as error:
            if error.damaged:
                raise ChunkError(f"a pickle does not decode ({error})", remedy="Restore it from a copy.") from error
            raise UnsafeDataError(
                f"a pickle holds more than data ({error})", remedy="Do not trust this file; nothing of it was run."
            ) from error
        return _delivered(decoded, out)

    def get_config(self) -> dict[str, Any]:
        return {"id": "pickle", "protocol": self._protocol}


class _RowsCodec(Codec):  # type: ignore[misc]
    """A codec of numcodecs that also decodes the rows of structured arrays, which numcodecs writes but cannot read.

    Both codecs append the type and the shape of a chunk to the list of its elements.
    """

    mark: ClassVar[bytes]  # encoded beginning of the type of a structured chunk

    def __init__(self, **config: Any) -> None:
        self._inner = self._make(config)

    def _make(self, config: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _unpack(self, encoded: bytes) -> list[Any]:
        raise NotImplementedError

    def encode(self, buf: Any) -> Any:
        return self._inner.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        encoded = bytes(buf)
        if self.mark in encoded:
            *rows, dtype, shape = self._unpack(encoded)
            if str(dtype).startswith("|V"):
                return _delivered(_records(rows, shape), out)
        return self._inner.decode(buf, out)

    def get_config(self) -> Any:
        return self._inner.get_config()

    def __reduce__(self) -> tuple[Any, ...]:
        # numcodecs' JSON cannot be pickled, and with it no open array could be given to a worker process
        return type(self).from_config, ({k: v for k, v in self.get_config().items() if k != "id"},)


class _RowsJSON2(_RowsCodec):
    codec_id = "json2"
    mark = b'"|V'

    def _make(self, config: dict[str, Any]) -> Any:
        self._encoding: str = config.get("encoding", "utf-8")
        from numcodecs.json import JSON

        return JSON(**config)

    def _unpack(self, encoded: bytes) -> list[Any]:
        return list(json.loads(encoded.decode(self._encoding)))


class _RowsMsgPack2(_RowsCodec):
    codec_id = "msgpack2"
    mark = b"|V"

    def _make(self, config: dict[str, Any]) -> Any:
        from numcodecs.msgpacks import MsgPack

        return MsgPack(**config)

    def _unpack(self, encoded: bytes) -> list[Any]:
        from numcodecs.msgpacks import msgpack

        return list(msgpack.unpackb(encoded, raw=self._inner.raw))


def _records(rows: list[Any], shape: list[int]) -> NDArray[np.object_]:
    for _ in shape[1:]:
        rows = [row for block in rows for row in block]
    records = np.empty(len(rows), dtype=object)
    for index, row in enumerate(rows):
        records[index] = tuple(row)
    return records.reshape(shape)


def _delivered(decoded: Any, out: Any) -> Any:
    if out is None:
        return decoded
    out[...] = decoded
    return out


# --- the switch -----------------------------------------------------------------------------------------------------

_LEGACY_CODECS: dict[str, type[Any]] = {"pickle": _DataOnlyPickle, "json2": _RowsJSON2, "msgpack2": _RowsMsgPack2}
_LEGACY_TYPES: tuple[type[ZDType[Any, Any]], ...] = (
    _LegacyVariableLengthBytes,
    _LegacyVariableLengthUTF8,
    _PickleObjectDType,
    _MsgPackObjectDType,
    _CompoundDType,
)
_switch = threading.Lock()
# What enable_legacy_files replaced, in order: the registry, the name, the new entry, and the one before.
_replaced: list[tuple[dict[str, Any], str, type[Any], type[Any] | None]] = []


def enable_legacy_files() -> None:
    """Let zarr-python, xarray and pydantic-zarr open files of hdmf-zarr 0.13 and older in this process.

    Replaces zarr's data types ``variable_length_bytes`` and ``string`` and numcodecs' codecs ``pickle``, ``json2`` and
    (if the package msgpack is installed) ``msgpack2``, and adds data types for pickled and for structured arrays of
    objects. All of zarr in this process is affected, also other packages that use it, so call it before files are
    open in other threads; child processes that are not forked have to call it again.

    Pickled arrays are decoded as data only, whatever the values of ``NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE`` and of
    zarr's own switch: a pickle of anything else raises `UnsafeDataError`.

    Calling it twice is the same as calling it once; ``disable_legacy_files`` of its module reverts it. ``ZarrIO``
    reads such files without it.

    Numbers in such files have the fill value 0, which xarray treats as a missing value: give its ``open_zarr`` and
    ``open_datatree`` the argument ``mask_and_scale=False``, or every 0 reads as NaN.
    """
    with _switch:
        if _replaced:
            return
        for data_type in _LEGACY_TYPES:
            _replace(data_type_registry.contents, data_type._zarr_v3_name, data_type)
        for codec_id, codec in _LEGACY_CODECS.items():
            if codec_id in codec_registry:  # without msgpack, numcodecs' own error names what to install
                _replace(codec_registry, codec_id, codec)


def disable_legacy_files() -> None:
    """Put zarr's and numcodecs' own entries back, as they were before `enable_legacy_files`.

    Arrays that are open already stay readable. An entry that somebody else has replaced since is left as it is.
    Without `enable_legacy_files` before, it does nothing.
    """
    with _switch:
        while _replaced:
            entries, name, added, before = _replaced.pop()
            if entries.get(name) is not added:
                continue
            if before is None:
                del entries[name]
            else:
                entries[name] = before


def _replace(entries: dict[str, Any], name: str, entry: type[Any]) -> None:
    _replaced.append((entries, name, entry, entries.get(name)))
    entries[name] = entry
