"""`OutputFile`: the file object that HDF5 writes to, through Python, so that no failed write goes unnoticed.

HDF5's own drivers ignore errors of the system when they close an object. Data are then lost without an error, and the
process may crash at exit. `OutputFile` keeps the first error, and raises it after HDF5 has closed the file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from hdmf_zarr_backend.stores.files import NO_LINKS


class OutputFile:
    """A new file for the driver ``fileobj`` of h5py.

    At the end of the ``with`` block the file is closed and the first error is raised.
    """

    def __init__(self, path: str, *, exclusive: bool) -> None:
        self.path = path
        self._file = io.FileIO(path, "x+" if exclusive else "w+", opener=_opened)
        self._error: OSError | KeyboardInterrupt | None = None

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._keep_error():
            self._file.close()
        self.check()

    def check(self) -> None:
        """Raise the first error, if any."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def _keep_error(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KeyboardInterrupt) as error:  # HDF5 must not see Ctrl-C either
            self._error = self._error or error

    # ---- methods for h5py -------------------------------------------------------------------------------------------

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def write(self, data: Any) -> int:
        """Write all of ``data``. After an error, nothing is written."""
        left = memoryview(data)
        with self._keep_error():
            while left and self._error is None:
                left = left[self._file.write(left) :]
        return len(data)

    def readinto(self, target: Any) -> int:
        """Fill ``target``, with zeros after the end of the file."""
        left = memoryview(target)
        with self._keep_error():
            while left and (count := self._file.readinto(left)):
                left = left[count:]
        left[:] = bytes(len(left))
        return len(target)

    def truncate(self, size: int) -> None:
        """Set the length of the file."""
        with self._keep_error():
            self._file.truncate(size)

    def flush(self) -> None:
        """Do nothing: the file has no buffer."""


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | NO_LINKS, 0o666)
