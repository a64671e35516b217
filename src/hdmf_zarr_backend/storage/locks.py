"""One process at a time: a lock on a file beside the place of the work, that the system frees when its holder dies.

The file says who holds the lock, for the message to the one who comes second. Where the file system has no locks (some
network file systems), that note decides: whoever is named there is believed to be at work unless it is a process of
this machine that is gone.

Source: issue "Nothing lost, nobody let in", part 3; ``flock(2)``.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from hdmf_zarr_backend.errors import StoreError

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
_NOTE_BYTES = 4096
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Holder:
    """Who is at work.

    Attributes
    ----------
    host : str
        Name of the machine.
    pid : int
        Number of the process.
    since : str
        When it began, UTC, ISO 8601.
    """

    host: str
    pid: int
    since: str

    @classmethod
    def here(cls) -> Holder:
        """Return this process, now."""
        return cls(socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"

    def is_gone(self) -> bool:
        """Tell whether this is a process of this machine that has ended."""
        if self.host != socket.gethostname() or sys.platform == "win32":
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # it is another user's
        return False


@contextmanager
def locked(path: str, *, location: str) -> Iterator[None]:
    """Hold the lock ``path`` while the block runs, and delete the file at its end.

    Parameters
    ----------
    path : str
        Absolute path of the lock's file; its folder is there.
    location : str
        What the lock is about, for messages.

    Raises
    ------
    StoreError
        Somebody else holds it.
    """
    descriptor = _acquired(path, location)
    try:
        yield
    finally:
        if sys.platform == "win32":  # an open file cannot be deleted
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(path)
        else:
            with suppress(OSError):
                os.unlink(path)
            os.close(descriptor)


def _acquired(path: str, location: str) -> int:
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            if not _take(descriptor):
                raise _held(_holder(descriptor), path, location)
            if _is_at(descriptor, path):  # the one before may have deleted the file while this one waited for it
                _note(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise _held(None, path, location)


def _take(descriptor: int) -> bool:
    """Lock an open file; False where somebody else holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            return False
        if error.errno not in _NO_LOCKS:
            raise
        holder = _holder(descriptor)
        return holder is None or holder.is_gone()
    return True


def _is_at(descriptor: int, path: str) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _note(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    # the first byte is what Windows locks; it would be hidden from readers
    os.write(descriptor, b" " + json.dumps(asdict(Holder.here())).encode())


def _holder(descriptor: int) -> Holder | None:
    """Return who noted itself, None where nobody has yet."""
    os.lseek(descriptor, 1, os.SEEK_SET)
    try:
        said = json.loads(os.read(descriptor, _NOTE_BYTES))
        return Holder(str(said["host"]), int(said["pid"]), str(said["since"]))
    except (ValueError, KeyError, TypeError):
        return None


def _held(holder: Holder | None, path: str, location: str) -> StoreError:
    return StoreError(
        f"this is being made by {holder or 'another process'}",
        store=location,
        remedy=f"Wait until it is done, or end it. If it is gone, delete {path!r}.",
    )
