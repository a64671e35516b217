"""`enable_legacy_files`: lets plain zarr-python open files of hdmf-zarr 0.13 and older.

Those files need entries of zarr and numcodecs replaced (``vlen-bytes`` whose fill value is not bytes, pickled
references). That changes zarr for the complete process, so it happens only when `enable_legacy_files` is called, and
apart from `zarr_plugin`, which has the data types for zarr-python 3. Nothing here unpickles: the replacement of the
``pickle`` codec builds data and refuses code.

Source: files that hdmf-zarr 0.1 to 0.13 wrote.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import numcodecs
import numpy as np
import zarr
from numcodecs.abc import Codec
from numcodecs.registry import codec_registry

from hdmf_zarr_backend.encoding.chunk_codec import DataPickle
from hdmf_zarr_backend.encoding.pickles import UnsafePickleError
from hdmf_zarr_backend.errors import ChunkError, known_arguments

# --- replacements of codecs of numcodecs ----------------------------------------------------------------------------


class _DataOnlyPickle(Codec):  # type: ignore[misc]  # numcodecs has no type hints
    """Codec ``pickle`` that builds data and refuses to run what a file names."""

    # not "pickle", as documents have it, so that zarr 3.4 does not mistake it for the codec that runs code, which it
    # refuses without a switch
    codec_id = "hdmf_zarr_backend.data_pickle"

    def __init__(self, protocol: int = 5) -> None:
        self._protocol = protocol

    def encode(self, buf: Any) -> Any:
        # encoding is harmless; numcodecs 0.15.2 and newer refuse only to decode, without a switch of the environment
        encoded = numcodecs.Pickle(self._protocol).encode(buf)
        self.decode(encoded)  # nothing is written that would be refused again
        return encoded

    def decode(self, buf: Any, out: Any = None) -> Any:
        try:
            return _delivered(DataPickle().decode(buf), out)
        except UnsafePickleError as error:
            raise ChunkError(f"a pickle cannot be decoded ({error})", remedy="Restore it from a copy.") from error

    def get_config(self) -> dict[str, Any]:
        return {"id": "pickle", "protocol": self._protocol}


class _Rows:
    """Lets a codec of numcodecs also decode the rows of structured arrays, which numcodecs writes but cannot read."""

    def decode(self: Any, buf: Any, out: Any = None) -> Any:
        # both codecs append the type and the shape of a chunk to the list of its elements
        encoded = bytes(buf)
        if b"|V" in encoded:
            *rows, dtype, shape = self._unpacked(encoded)
            if str(dtype).startswith("|V"):
                for _ in shape[1:]:  # numcodecs nests the rows, one list for each axis
                    rows = [row for block in rows for row in block]
                return _delivered(np.fromiter(map(tuple, rows), object, len(rows)).reshape(shape), out)
        return super().decode(buf, out)  # type: ignore[misc]  # of the codec beside it

    def __reduce__(self: Any) -> tuple[Any, ...]:
        # numcodecs' JSON cannot be pickled, and with it no open array could be given to a worker process
        return type(self).from_config, ({k: v for k, v in self.get_config().items() if k != "id"},)


class _RowsJSON2(_Rows, numcodecs.JSON):  # type: ignore[misc]
    def _unpacked(self, encoded: bytes) -> Any:
        return json.loads(encoded.decode(self.get_config()["encoding"]))


# numcodecs has the codec only if msgpack is installed
class _RowsMsgPack2(_Rows, getattr(numcodecs, "MsgPack", object)):  # type: ignore[misc]
    def _unpacked(self, encoded: bytes) -> Any:
        from numcodecs.msgpacks import msgpack

        return msgpack.unpackb(encoded, raw=self.raw)


def _delivered(decoded: Any, out: Any) -> Any:
    if out is None:
        return decoded
    out[...] = decoded
    return out


# --- the switch -----------------------------------------------------------------------------------------------------

_LEGACY_CODECS: dict[str, type[Any]] = {"pickle": _DataOnlyPickle, "json2": _RowsJSON2, "msgpack2": _RowsMsgPack2}
_switch = threading.Lock()
# What enable_legacy_files replaced, in order: the registry, the name, the new entry, and the one before.
_replaced: list[tuple[dict[str, Any], str, type[Any], type[Any] | None]] = []


@known_arguments
def enable_legacy_files() -> None:
    """Let zarr-python, xarray and pydantic-zarr open files of hdmf-zarr 0.13 and older in this process.

    Replaces the data types ``variable_length_bytes`` and ``string`` of zarr-python 3, and numcodecs' codecs ``pickle``,
    ``json2`` and (if the package msgpack is installed) ``msgpack2``, and adds data types for pickled and for structured
    arrays of objects. All of zarr in this process is affected, also other packages that use it, so call it before files
    are open in other threads; child processes that are not forked have to call it again.

    Pickled arrays are decoded as data only, regardless of ``NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE`` and of
    zarr's own switch: a pickle of anything else raises `UnsafeDataError`.

    Calling it twice is the same as calling it once; ``disable_legacy_files`` of its module reverts it. ``ZarrIO``
    reads such files without it.

    Numbers in such files have the fill value 0, which xarray treats as a missing value: give its ``open_zarr`` and
    ``open_datatree`` the argument ``mask_and_scale=False``, or every 0 reads as NaN.
    """
    with _switch:
        if _replaced:
            return
        # zarr 2 has no data types besides NumPy's, and needs none
        if not zarr.__version__.startswith("2."):
            from zarr.dtype import data_type_registry

            from hdmf_zarr_backend.array.zarr_plugin import LEGACY_TYPES

            for data_type in LEGACY_TYPES:
                _replace(data_type_registry.contents, data_type._zarr_v3_name, data_type)
        for codec_id, codec in _LEGACY_CODECS.items():
            # without msgpack, numcodecs' own error names what to install
            if codec_id in codec_registry:
                _replace(codec_registry, codec_id, codec)


def disable_legacy_files() -> None:
    """Put zarr's and numcodecs' own entries back, as before `enable_legacy_files`; open arrays stay readable."""
    with _switch:
        while _replaced:
            entries, name, added, before = _replaced.pop()
            if entries.get(name) is not added:  # another package has replaced it since
                continue
            if before is None:
                del entries[name]
            else:
                entries[name] = before


def _replace(entries: dict[str, Any], name: str, entry: type[Any]) -> None:
    _replaced.append((entries, name, entry, entries.get(name)))
    entries[name] = entry
