"""One writer of a local file at a time: a lock on a file beside it, that the system frees when its holder dies.

The file ``.NAME.lock`` says who holds the lock, for the message to the one who comes second. It is deleted when the
lock is given back; one that is found without a lock on it was left by a writer that died. Where the file system has no
locks (some network file systems) the note decides: whoever is named there is believed to be at work unless it is a
process of this machine that is gone. Where the folder cannot be written the file or folder itself is locked, which
says nothing of the holder.

The lock itself is filelock's, on a file that is opened here: filelock's own files of locks say nothing of their holder,
and stay.

Source: issue "Nothing lost, nobody let in", part 3; ``flock(2)``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import stat
import sys
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from filelock import lock_descriptor, unlock_descriptor

from hdmf_zarr_backend.errors import StoreLockedError, StoreRefusedError
from hdmf_zarr_backend.stores.failures import os_errors
from hdmf_zarr_backend.stores.files import NO_LINKS, READING, sweep

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOTE_BYTES = 4096
_TRIES = 10
_LONGEST_NAME = 200
_SHORT_NAME = 40
_LOCK_FILE = os.O_RDWR | os.O_CREAT | NO_LINKS
BREAK = "If it is gone for certain, pass break_lock=True, or run `zarrio repair --break-lock`."
"""What to do about a lock whose holder cannot be asked."""


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

    def is_on_this_machine(self) -> bool:
        """Tell whether this is a process of this machine."""
        return self.host == socket.gethostname()

    def is_gone(self) -> bool:
        """Tell whether this is a process of this machine that has ended."""
        if not self.is_on_this_machine() or sys.platform == "win32":
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # it is another user's
        return False


def locked_error(holder: Holder | None, location: str, *, stale: str = "") -> StoreLockedError:
    """Return the error for the writer that comes second.

    Parameters
    ----------
    holder : Holder or None
        Who came first; None: that is not known.
    location : str
        The file.
    stale : str
        Why the holder is no longer at work, where that is known.
    """
    problem = f"another writer has this file open: {holder or 'a process that has left no name'}"
    if stale:
        remedy = "Take it over with break_lock=True, or with `zarrio repair --break-lock`."
        return StoreLockedError(f"{problem}; {stale}", store=location, remedy=remedy)
    if holder is not None and holder.is_on_this_machine() and holder.pid == os.getpid():
        return StoreLockedError(problem, store=location, remedy="That is this process: close the other io first.")
    here = holder is not None and holder.is_on_this_machine()
    remedy = "Wait until it has closed the file, or end it." + ("" if here else f" {BREAK}")
    return StoreLockedError(problem, store=location, remedy=remedy)


class WriterLock(ABC):
    """What keeps other writers away from one file, from when it is made until it is given back.

    It is this process's alone: in a fork it is not held, and giving it back there does nothing. One that nobody refers
    to any more is given back.

    Parameters
    ----------
    location : str
        The file, for messages.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._pid = os.getpid()
        self._is_held = False

    def __del__(self) -> None:
        if self._is_held and self._pid == os.getpid():
            self._is_held = False
            self._abandon()

    @property
    def is_held(self) -> bool:
        """Whether this process may write."""
        return self._is_held and self._pid == os.getpid()

    def check(self) -> None:
        """Make sure that the lock is still held.

        Raises
        ------
        StoreLockedError
            It is not: the process was forked, the lock was given back, or another writer has broken it.
        """
        if self.is_held:
            return
        forked = self._pid != os.getpid()
        raise StoreLockedError(
            f"this was opened by process {self._pid}, before a fork" if forked else "this file is closed",
            store=self.location,
            remedy="Open the file in the process that writes it." if forked else "Open the file again.",
        )

    def release(self) -> None:
        """Give the lock back; doing so twice does no harm."""
        if self.is_held:
            self._is_held = False
            self._give_back()

    @abstractmethod
    def _give_back(self) -> None:
        """Let the next writer in."""

    def _abandon(self) -> None:
        """Let the next writer in, while garbage is collected: nothing may be waited for."""
        self._give_back()


def lock_path(target: str) -> str:
    """Return the path of the file of a lock: beside the file that it is about."""
    folder, name = os.path.split(target)
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f"{name[:_SHORT_NAME]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
    return os.path.join(folder, f".{name}.lock")


class FileLock(WriterLock):
    """The lock of a local file. Missing folders above it are made; those that are left empty are removed at the end.

    Parameters
    ----------
    target : str
        Absolute path of the file, which need not be there.
    break_lock : bool
        Take the lock from a holder that cannot be asked, or that is gone; never from a process of this machine that is
        alive.

    Attributes
    ----------
    follows : bool
        Whether a writer died here before. What it left beside the file was removed.

    Raises
    ------
    StoreLockedError
        Another writer holds it.
    StoreRefusedError
        The system lets nobody of this user write there, or the lock file is something that this package did not make.
    """

    def __init__(self, target: str, *, break_lock: bool = False) -> None:
        super().__init__(target)
        self.follows = False
        self._path = lock_path(os.path.realpath(target))  # one file has one lock, by whatever path it is opened
        self._made = _missing(os.path.dirname(self._path))
        self._descriptor = -1
        self._is_file = False
        try:
            with os_errors(target, "locked"):
                if self._made:
                    os.makedirs(self._made[0], exist_ok=True)
                self._acquire(break_lock=break_lock)
        except BaseException:
            self._remove_folders()
            raise
        self._is_held = True
        _held.add(self)
        if self.follows:
            sweep(target)

    def check(self) -> None:
        """Make sure that the lock is still held, and that nobody has deleted its file.

        Raises
        ------
        StoreLockedError
            It is not: the process was forked, the lock was given back, or it was broken.
        """
        super().check()
        if self._is_file and not _is_at(self._descriptor, self._path):
            raise StoreLockedError(
                "the lock of this writer was broken: its file is gone",
                store=self.location,
                remedy="Somebody else may write the file now. Open it again.",
            )

    def _acquire(self, *, break_lock: bool) -> None:
        for _ in range(_TRIES):
            descriptor, is_file = self._open()
            try:
                holder = self._holder(descriptor) if is_file else None
                if not _take(descriptor, holder):
                    if not break_lock or not is_file or not _may_break(holder):
                        stale = "that process has ended" if holder is not None and holder.is_gone() else ""
                        raise locked_error(holder, self.location, stale=stale)
                    os.unlink(self._path)  # a lock of the system stays with the file that nobody finds any more
                elif not is_file or _is_at(descriptor, self._path):  # it may have been deleted before it was locked
                    self.follows = holder is not None
                    if is_file:
                        _note(descriptor)
                    self._descriptor, self._is_file = descriptor, is_file
                    return
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise locked_error(None, self.location)

    def _open(self) -> tuple[int, bool]:
        """Open what is locked, and tell whether it is the file that is made for that."""
        self._check_plain()  # O_NOFOLLOW does not exist everywhere
        try:
            descriptor = os.open(self._path, _LOCK_FILE, 0o666)
        except OSError as error:
            self._check_plain()
            if error.errno not in _NOT_WRITABLE or not os.path.lexists(self.location) or sys.platform == "win32":
                raise
            return os.open(self.location, READING), False
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._foreign("is not a regular file")
        return descriptor, True

    def _check_plain(self) -> None:
        """Refuse a lock file that is a symbolic link, a pipe, a device or a folder."""
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(self._path).st_mode):
                raise self._foreign("is not a regular file")

    def _foreign(self, problem: str) -> StoreRefusedError:
        return StoreRefusedError(
            f"the lock file {self._path!r} {problem}, and is left as it is",
            store=self.location,
            remedy="This package did not make it. Look at it, and move or delete it before you write here.",
        )

    def _holder(self, descriptor: int) -> Holder | None:
        """Return the holder that the lock file names; None if the file is empty.

        Raises
        ------
        StoreRefusedError
            The file holds something else, which must not be overwritten.
        """
        if not os.fstat(descriptor).st_size:
            return None
        os.lseek(descriptor, 1, os.SEEK_SET)  # Windows locks the first byte
        try:
            said = json.loads(os.read(descriptor, _NOTE_BYTES))
            return Holder(str(said["host"]), int(said["pid"]), str(said["since"]))
        except (ValueError, KeyError, TypeError):
            raise self._foreign("holds something other than the record of a lock") from None

    def _give_back(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        is_mine = self._is_file and _is_at(descriptor, self._path)
        if sys.platform == "win32":  # an open file cannot be deleted
            os.close(descriptor)
        if is_mine:
            with suppress(OSError):
                os.unlink(self._path)
        if sys.platform != "win32":
            _free(descriptor)
            os.close(descriptor)
        self._remove_folders()

    def _remove_folders(self) -> None:
        for folder in self._made:
            with suppress(OSError):  # something is in it by now
                os.rmdir(folder)

    def forget(self) -> None:
        """Close the file, in a fork: as long as it is open there, the lock would be held after its holder has died."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _may_break(holder: Holder | None) -> bool:
    return holder is None or not holder.is_on_this_machine() or holder.is_gone()


def _missing(folder: str) -> list[str]:
    """Return the folders above a file that are not there yet, the innermost first."""
    missing = []
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _take(descriptor: int, holder: Holder | None) -> bool:
    """Lock an open file; False where somebody else holds it."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return holder is None or holder.is_gone()


def _free(descriptor: int) -> None:
    """Unlock a file for good; closing it would not, where a fork has it open as well."""
    with suppress(OSError):
        unlock_descriptor(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    """Tell whether an open file is the one at ``path``, and not only what a link there leads to."""
    mine = os.fstat(descriptor)
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _note(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    # the first byte is what Windows locks; it would be hidden from readers
    os.write(descriptor, b" " + json.dumps(asdict(Holder.here())).encode())


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
