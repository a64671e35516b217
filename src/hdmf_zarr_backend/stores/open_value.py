"""A value of a local directory that is open, whose parts are read straight to where they are wanted."""

from __future__ import annotations

import os

from hdmf_zarr_backend.errors import ChunkError


class OpenValue:
    """A file that holds one value, open for reading; all that is read from it is of one version of the value.

    Parameters
    ----------
    file : int
        Its descriptor, which is closed with this.
    size : int
        Its bytes when it was opened.
    """

    def __init__(self, file: int, size: int) -> None:
        self.size = size
        self._file = file

    def __enter__(self) -> OpenValue:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def read_into(self, start: int, room: memoryview) -> None:
        """Fill ``room`` with the bytes that begin at ``start``.

        Raises
        ------
        ChunkError
            There are not so many: the file was cut since it was opened.
        """
        while room.nbytes:
            count = _read_into(self._file, start, room)
            if not count:
                raise ChunkError("a chunk was cut while it was read", remedy="Restore it from a copy.")
            start, room = start + count, room[count:]


def _read_into(file: int, start: int, room: memoryview) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(file, [room], start)
    os.lseek(file, start, os.SEEK_SET)
    part = os.read(file, room.nbytes)
    room[: len(part)] = part
    return len(part)
