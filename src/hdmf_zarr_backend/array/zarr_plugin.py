"""What plain zarr-python 3 needs to open HDMF's files: data types for arrays of Python objects, and for rows.

Two layers, with a hard line between them:

* Installing the package adds *new* names to zarr: :class:`JSON2ObjectDType`, the type of ``|O`` arrays that the
  ``json2`` codec stores in format 2, and before zarr 3.2 :class:`StructDType`, the type ``struct`` of rows in format 3.
  Everything that this package writes then opens with ``zarr.open_group``, xarray and pydantic-zarr. Nothing that zarr
  or numcodecs had before is changed.
* Files of hdmf-zarr 0.13 and older need entries of zarr and numcodecs replaced, for the complete process: that is in
  `zarr_legacy`, and happens only when a user calls it.

Two entry points lead here, ``zarr.data_type`` and ``zarr.buffer``. zarr 3.4 loads the first group when it meets the
first data type of the process. zarr 3.1, the last one for Python 3.11, collects that group and never loads it; but the
first store that it reads makes it load the group of buffer classes. An array that is opened there *by itself*, with no
group opened before in the process, reads its document without that step: import this module, or open the group.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from zarr.buffer import cpu
from zarr.dtype import Structured, VariableLengthBytes, VariableLengthUTF8, ZDType, data_type_registry

try:
    from zarr.errors import DataTypeValidationError  # type: ignore[attr-defined, unused-ignore]
except ImportError:  # zarr 3.1
    from zarr.dtype import DataTypeValidationError  # type: ignore[no-redef, unused-ignore]

_OBJECT_NAME = "|O"
_COMPOUND_CODECS = ("pickle", "json2", "msgpack2")


class _Format2Only:
    """A data type that exists in format 2 only, with the name of the codec that stores its objects."""

    @classmethod
    def _from_json_v3(cls, data: object) -> Self:
        raise DataTypeValidationError(f"{cls.__name__} exists in Zarr format 2 only, got {data!r}")

    def _stated(self, name: Any, codec_id: str, zarr_format: int) -> dict[str, Any]:
        """Return the type in a document."""
        if zarr_format != 2:
            what = type(self).__name__
            raise ValueError(f"{what} exists in Zarr format 2 only; in format 3, store the values as text")
        return {"name": name, "object_codec_id": codec_id}


@dataclass(frozen=True, kw_only=True)
class _ObjectDType(_Format2Only, ZDType[np.dtypes.ObjectDType, Any]):
    """Format-2 ``|O`` array whose elements depend on its object codec; the fill value is any JSON value."""

    dtype_cls: ClassVar[type[np.dtypes.ObjectDType]] = np.dtypes.ObjectDType
    object_codec_id: ClassVar[str]

    @classmethod
    def from_native_dtype(cls, dtype: np.dtype[Any]) -> Self:
        # zarr's registry never calls this for object arrays, because numpy's type does not determine the codec
        if isinstance(dtype, np.dtypes.ObjectDType):
            return cls()
        raise DataTypeValidationError(f"{cls.__name__} stores numpy's object dtype, got {dtype}")

    def to_native_dtype(self) -> np.dtypes.ObjectDType:
        return np.dtypes.ObjectDType()

    @classmethod
    def _from_json_v2(cls, data: object) -> Self:
        if _dtype_name(data, cls.object_codec_id) == _OBJECT_NAME:
            return cls()
        raise DataTypeValidationError(f"{cls.__name__} stores '|O' with codec {cls.object_codec_id!r}, got {data!r}")

    def to_json(self, zarr_format: Literal[2, 3]) -> Any:
        return self._stated(_OBJECT_NAME, self.object_codec_id, zarr_format)

    def _check_scalar(self, data: object) -> bool:
        return isinstance(data, str | int | float | list | tuple | dict | np.generic | None)

    def cast_scalar(self, data: object) -> Any:
        if not self._check_scalar(data):
            raise TypeError(f"{data!r} is not a JSON value and cannot fill an array of Python objects")
        return data.item() if isinstance(data, np.generic) else data

    def default_scalar(self) -> Any:
        # what numpy fills an empty object array with, and zarr 2 therefore reads for a missing chunk
        return None

    def from_json_scalar(self, data: Any, *, zarr_format: Literal[2, 3]) -> Any:
        return data

    def to_json_scalar(self, data: object, *, zarr_format: Literal[2, 3]) -> Any:
        return self.cast_scalar(data)


class JSON2ObjectDType(_ObjectDType):
    """zarr data type of format-2 ``|O`` arrays stored with numcodecs' ``json2``: references, tables of them, specs.

    Elements are as JSON has them; rows have an axis for their fields. Source: hdmf-zarr storage specification.
    """

    _zarr_v3_name: ClassVar[str] = "hdmf_zarr_backend.json2"
    object_codec_id: ClassVar[str] = "json2"


class PluginBuffer(cpu.Buffer):
    """zarr's buffer in main memory under a second name; naming it in an entry point makes zarr 3.1 load this module."""


def _dtype_name(data: object, codec_id: str) -> object:
    """Return the ``dtype`` of a ``.zarray`` as zarr passes it on, or None if another codec stores its objects."""
    if isinstance(data, Mapping) and data.get("object_codec_id") == codec_id:
        return data.get("name")
    return None


# --- types of older files -------------------------------------------------------------------------------------------
# hdmf-zarr up to 0.13 wrote `fill_value: 0` on arrays of text, bytes and references: zarr 2 does so if none is given.
# It is read as null here, so that a missing chunk is the type's own default, and xarray does not mask the text "0".


class _ZeroIsNull:
    """A data type that reads the fill value 0 of format 2 as null."""

    def from_json_scalar(self, data: Any, *, zarr_format: Literal[2, 3]) -> Any:
        if zarr_format == 2 and isinstance(data, int) and data == 0:
            return None
        return super().from_json_scalar(data, zarr_format=zarr_format)  # type: ignore[misc]


class _PickleObjectDType(_ZeroIsNull, _ObjectDType):
    """References, and compound tables with text, as hdmf-zarr wrote them by default."""

    _zarr_v3_name: ClassVar[str] = "hdmf_zarr_backend.pickle"
    object_codec_id: ClassVar[str] = "pickle"


class _MsgPackObjectDType(_ZeroIsNull, _ObjectDType):
    """The same with MessagePack, as hdmf-zarr writes with ``object_codec_class=numcodecs.MsgPack``."""

    _zarr_v3_name: ClassVar[str] = "hdmf_zarr_backend.msgpack2"
    object_codec_id: ClassVar[str] = "msgpack2"


class _LegacyVariableLengthBytes(_ZeroIsNull, VariableLengthBytes):
    """zarr's type of ``vlen-bytes`` arrays, which refuses a fill value of 0 and with it the whole group."""


class _LegacyVariableLengthUTF8(_ZeroIsNull, VariableLengthUTF8):
    """zarr's type of ``vlen-utf8`` arrays, which takes a fill value of 0 for the text "0"."""


# --- structured arrays with object fields ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _CompoundDType(_Format2Only, ZDType[np.dtype[Any], Any]):
    """Format-2 structured array with ``|O`` fields, encoded by one object codec: compound with references."""

    # The fill value of such an array is a pickle in base64: the zero that zarr 2 adds. It is never decoded and reads as
    # null; a missing chunk reads as zeros, which is the same. Null also keeps a record out of xarray's ``_FillValue``,
    # which has to be hashable.

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
        from hdmf_zarr_backend.encoding.dtypes import numpy_dtype

        for codec_id in _COMPOUND_CODECS:
            fields = _dtype_name(data, codec_id)
            if isinstance(fields, Sequence) and not isinstance(fields, str):
                native = numpy_dtype(list(fields))
                if native.hasobject:
                    return cls(native=native, codec_id=codec_id)
        raise DataTypeValidationError(f"{cls.__name__} stores structured types with '|O' fields, got {data!r}")

    def to_json(self, zarr_format: Literal[2, 3]) -> Any:
        fields = json.loads(json.dumps(self.native.descr))  # lists, as in the document, for numpy's tuples
        return self._stated(fields, self.codec_id, zarr_format)

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

    to_json_scalar = from_json_scalar


LEGACY_TYPES: tuple[type[ZDType[Any, Any]], ...] = (
    _LegacyVariableLengthBytes, _LegacyVariableLengthUTF8, _PickleObjectDType, _MsgPackObjectDType, _CompoundDType,
)  # fmt: skip
"""Data types of files of hdmf-zarr 0.13 and older; `zarr_legacy.enable_legacy_files` registers them."""

# --- rows in format 3 -----------------------------------------------------------------------------------------------


class StructDType(Structured):
    """zarr data type ``struct`` of zarr-extensions, for zarr before 3.2, which has the older ``structured`` only."""

    _zarr_v3_name = "struct"  # type: ignore[assignment, misc, unused-ignore]

    @classmethod
    def from_native_dtype(cls, dtype: np.dtype[Any]) -> Self:
        """Refuse: new arrays of zarr have its own type ``structured``."""
        raise DataTypeValidationError(f"{cls.__name__} is read only, got {dtype}")

    @classmethod
    def _from_json_v2(cls, data: object) -> Self:
        raise DataTypeValidationError(f"{cls.__name__} exists in Zarr format 3 only, got {data!r}")

    @classmethod
    def _from_json_v3(cls, data: Any) -> Self:
        if not isinstance(data, Mapping) or data.get("name") != cls._zarr_v3_name:
            raise DataTypeValidationError(f"{cls.__name__} has the name {cls._zarr_v3_name!r}, got {data!r}")
        fields = data["configuration"]["fields"]
        parse = data_type_registry.match_json
        return cls(fields=tuple((field["name"], parse(field["data_type"], zarr_format=3)) for field in fields))

    def to_json(self, zarr_format: Literal[2, 3]) -> Any:
        """Return the type as in a document."""
        if zarr_format == 2:
            return super().to_json(zarr_format=2)
        # zarr 3.1 warns about text of fixed length, which the file already has
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The data type .* does not have a Zarr V3 specification")
            fields = [{"name": name, "data_type": kind.to_json(zarr_format=3)} for name, kind in self.fields]
        return {"name": self._zarr_v3_name, "configuration": {"fields": fields}}

    def from_json_scalar(self, data: Any, *, zarr_format: Literal[2, 3]) -> np.void:
        """Return a fill value, which is an object with an entry for each field, or Base64."""
        if not isinstance(data, Mapping):
            return super().from_json_scalar(data, zarr_format=zarr_format)
        values = tuple(kind.from_json_scalar(data[name], zarr_format=zarr_format) for name, kind in self.fields)
        return self.cast_scalar(values)

    def to_json_scalar(self, data: object, *, zarr_format: Literal[2, 3]) -> Any:
        """Return a fill value for a document."""
        row: Any = self.cast_scalar(data)
        return {name: kind.to_json_scalar(row[name], zarr_format=zarr_format) for name, kind in self.fields}


# The entry points only load this module, and zarr 3.1 registers nothing by itself.
data_type_registry.register(JSON2ObjectDType._zarr_v3_name, JSON2ObjectDType)
if StructDType._zarr_v3_name not in data_type_registry.contents:
    data_type_registry.register(StructDType._zarr_v3_name, StructDType)
