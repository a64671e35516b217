"""The file that HDF5 writes, by calls of ours: what the system refuses is kept, and told when HDF5 has come to its end.

HDF5 itself cannot bear a refusal. What it writes when an object is closed is lost without a word, and after that the
process may crash when it ends.
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
    """A new file that HDF5 writes to, as the driver ``fileobj`` of h5py wants it.

    When the block ends the file is closed, and the first thing that was refused is raised.

    Parameters
    ----------
    path : str
        Where the file will be.
    exclusive : bool
        Nothing may be there; else what is there is replaced.

    Raises
    ------
    OSError
        The file cannot be made; and, at the end of the block, what the system refused.
    """

    def __init__(self, path: str, *, exclusive: bool) -> None:
        self.path = path
        self._file = io.FileIO(path, "x+" if exclusive else "w+", opener=_opened)
        self._refused: OSError | KeyboardInterrupt | None = None

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._kept():
            self._file.close()
        self.check()

    def check(self) -> None:
        """Raise what was refused, if anything was."""
        if self._refused is not None:
            raise self._refused

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KeyboardInterrupt) as error:  # Ctrl-C must not reach HDF5 either
            self._refused = self._refused or error

    # ---- asked for by h5py ------------------------------------------------------------------------------------------

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()

    def write(self, data: Any) -> int:
        """Write all of ``data``; nothing any more once something was refused."""
        left = memoryview(data)
        with self._kept():
            while left and self._refused is None:
                left = left[self._file.write(left) :]
        return len(data)

    def readinto(self, target: Any) -> int:
        """Fill ``target``, with zeros behind the end of the file."""
        left = memoryview(target)
        with self._kept():
            while left and (count := self._file.readinto(left)):
                left = left[count:]
        left[:] = bytes(len(left))
        return len(target)

    def truncate(self, size: int) -> None:
        """Make the file as long as ``size``."""
        with self._kept():
            self._file.truncate(size)

    def flush(self) -> None:
        """Do nothing: what was written is with the system."""


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | NO_LINKS, 0o666)
