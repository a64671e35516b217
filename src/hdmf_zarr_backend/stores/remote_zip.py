"""A zip file on a server: one request for its size, one for its directory, and one for each value.

The end of the file is fetched once and kept. It holds the directory, and, since the consolidated document is written
last, often that as well. A value that is stored as it is comes with its own header in one piece.

Source: issue "Format 3, shards, and any store, near or far", parts 4 and 5; PKWARE's APPNOTE, section 4.3.7, for the
header that stands before a value.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from hdmf_zarr_backend.errors import StoreError, StoreNotFoundError
from hdmf_zarr_backend.stores.base import Abilities, KeyStore, Range
from hdmf_zarr_backend.stores.remote import at_once
from hdmf_zarr_backend.stores.zip import ZipKeys

_TAIL_BYTES = 2**18
_BUFFER = 2**16
_HEADER = struct.Struct("<4s22xHH")  # of an entry: magic; lengths of its name and of what else stands before the value
_MAGIC = b"PK\3\4"


class FarZipKeys(ZipKeys):
    """A zip file on a server, read by ranges of bytes.

    Parameters
    ----------
    location : str
        URL of the zip file.
    folder : KeyStore
        What the zip file lies in.
    name : str
        Name of the zip file there.
    """

    abilities = Abilities(write=False, change=False, is_far=True, why="a zip file on a server is read only")

    def __init__(self, location: str, folder: KeyStore, name: str) -> None:
        super().__init__(location)
        self.zip_file = None
        self._folder = folder
        self._name = name
        self._size: int | None = None
        self._ends: list[int] = []
        self._begins: dict[str, int] = {}
        self._far: _FarFile | None = None
        self.options = folder.options

    def __reduce__(self) -> tuple[Any, ...]:
        return FarZipKeys, (self.location, self._folder, self._name), {"read_rules": self.read_rules}

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        if self._size is None:
            self._size = self._folder.size(self._name)
        return self._size is not None

    def _file(self) -> Any:
        if not self.exists():
            raise StoreNotFoundError("nothing is there", store=self.location, remedy="Check the path.")
        assert self._size is not None
        self._far = _FarFile(self._folder, self._name, self._size)
        self._piece(max(0, self._size - 1), self._size)  # zipfile would take an error of the server for a damaged file
        return io.BufferedReader(self._far, buffer_size=_BUFFER)

    def _entry(self, archive: zipfile.ZipFile, key: str) -> bytes | None:
        info = archive.NameToInfo.get(key)
        if info is None or not _is_plain(info):
            return super()._entry(archive, key)
        self._check_entry(info)
        piece = self._piece(info.header_offset, self._end_of(archive, info))
        begin = self._begin(info, piece)
        value = piece[begin : begin + info.file_size]
        if len(value) != info.file_size or zlib.crc32(value) != info.CRC:
            raise self._damaged(key, "its checksum is another one")
        return value

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there; asked for at once."""
        archive = self._zip()
        wanted = [key for key in keys if archive is not None and key in archive.NameToInfo]
        self._check_documents(wanted)
        values = at_once(self.get, wanted) if len(wanted) > 1 else map(self.get, wanted)
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        archive = self._zip()
        info = None if archive is None else archive.NameToInfo.get(key)
        if info is None or not _is_plain(info):
            return super().get_ranges(key, ranges)
        if key not in self._begins:
            self._begin(info, self._piece(info.header_offset, info.header_offset + _HEADER.size))
        first = info.header_offset + self._begins[key]
        found = [slice(start, stop).indices(info.file_size)[:2] for start, stop in ranges]
        return [self._piece(first + start, first + max(start, stop)) for start, stop in found]

    def _begin(self, info: zipfile.ZipInfo, piece: bytes) -> int:
        """Return where the value of an entry begins, counted from its header, with which ``piece`` begins."""
        if len(piece) < _HEADER.size or not piece.startswith(_MAGIC):
            raise self._damaged(info.filename, "no header is where the directory says")
        _, name, extra = _HEADER.unpack_from(piece)
        begin = self._begins[info.filename] = _HEADER.size + int(name) + int(extra)
        return begin

    def _end_of(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
        """Return where the next entry begins, or the directory: so far a value may reach."""
        if not self._ends:
            self._ends = sorted({*(entry.header_offset for entry in archive.filelist), archive.start_dir})
        place = bisect_right(self._ends, info.header_offset)
        most = info.header_offset + _HEADER.size + 2 * 2**16 + info.file_size
        return min(self._ends[place], most) if place < len(self._ends) else most

    def _piece(self, start: int, stop: int) -> bytes:
        assert self._far is not None
        try:
            return self._far.piece(start, stop)
        except EOFError as error:
            raise StoreError(str(error), store=self.location, remedy="Open the file again.") from error

    def _damaged(self, key: str, why: str) -> StoreError:
        return StoreError(
            f"the entry {key!r} cannot be read ({why})", store=self.location, remedy="Fetch or write the file again."
        )


def _is_plain(info: zipfile.ZipInfo) -> bool:
    return info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1  # an encrypted one


class _FarFile(io.RawIOBase):
    """A value of a store as a file that can be read from any place; its end is fetched once and kept."""

    def __init__(self, keys: KeyStore, name: str, size: int) -> None:
        self._keys = keys
        self._name = name
        self._size = size
        self._place = 0
        self._kept_from = max(0, size - _TAIL_BYTES)
        self._kept: bytes | None = None

    def piece(self, start: int, stop: int) -> bytes:
        """Return the bytes ``start:stop``, fewer at the end of the file."""
        stop = min(stop, self._size)
        if stop <= start:
            return b""
        if start >= self._kept_from:
            if self._kept is None:
                self._kept = self._fetch(self._kept_from, self._size)
            return self._kept[start - self._kept_from : stop - self._kept_from]
        return self._fetch(start, stop)

    def _fetch(self, start: int, stop: int) -> bytes:
        part = self._keys.get_range(self._name, start, stop)
        if part is None or len(part) != stop - start:
            raise EOFError("the file on the server is shorter than it was")
        return part

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        part = self.piece(self._place, self._place + len(view))
        view[: len(part)] = part
        self._place += len(part)
        return len(part)
