"""`writer_lock`: lets one writer at a time change a file, in any kind of store. Readers take no lock, and never wait.

A local file has a `FileLock`, an object store a `KeyLock`, and any other store a `ProcessLock`, with an
UnlockedWarning unless the store is ``of_one_process``.

Source: RFC 9110, section 13.1.2, ``If-None-Match: *``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import stat
import sys
import threading
import uuid
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from filelock import lock_descriptor, unlock_descriptor

from hdmf_zarr_backend.errors import (
    StoreError,
    StoreLockedError,
    StoreRefusedError,
    UnlockedWarning,
    ZarrBackendError,
    printable,
    warn,
)
from hdmf_zarr_backend.model.links import inside_of, split_location
from hdmf_zarr_backend.store.base import Store, close_read, os_errors
from hdmf_zarr_backend.store.files import check_link, restore_old, sweep, unfinished
from hdmf_zarr_backend.store.local import NO_LINKS, READING
from hdmf_zarr_backend.store.opening import open_neighbour

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_RECORD_BYTES = 4096
_TRIES = 10
_LONGEST_NAME = 200
_SHORT_NAME = 40
_UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has a file open for writing ``since`` a time (UTC, ISO 8601)."""

    host: str
    pid: int
    since: str

    @classmethod
    def here(cls) -> Holder:
        """Return this process, now."""
        return cls(socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def of(cls, record: Any) -> Holder:
        """Return the holder in the record of a lock; ValueError, KeyError or TypeError if it has none."""
        holder = cls(record["host"], record["pid"], record["since"])
        if [type(part) for part in astuple(holder)] != [str, int, str] or not 0 < holder.pid < 2**31:
            raise TypeError("it does not name its writer")
        return holder

    def __str__(self) -> str:
        return printable(f"process {self.pid} on {self.host} since {self.since}")

    def is_here(self) -> bool:
        """Return whether this is a process of this machine."""
        return self.host == socket.gethostname()

    def is_another(self) -> bool:
        """Return whether another process of this machine that runs has this number; False if that is unknown."""
        return self.is_here() and self.pid != os.getpid() and sys.platform != "win32" and not self.is_gone()

    def is_gone(self) -> bool:
        """Return whether this is a process of this machine that has ended."""
        # on Windows, the signal 0 of os.kill is Ctrl-C, and most others end the process
        if not self.is_here() or sys.platform == "win32":
            return False
        try:
            os.kill(self.pid, 0)
        except OSError as error:
            # any other error says that the process belongs to another user
            return isinstance(error, ProcessLookupError)
        return False


def told(holder: Holder | None) -> str:
    """Return who a holder is, and whether that process has ended, as far as this machine knows."""
    ended = "; that process has ended" if holder is not None and holder.is_gone() else ""
    return f"{holder or 'a process that has left no name'}{ended}"


def writer_in(record: Any) -> str:
    """Return who the record of a writer in an incomplete file names."""
    try:
        return told(Holder.of(record))
    except _UNREADABLE:
        return told(None)


def locked_error(holder: Holder | None, location: str, *, is_mine: bool | None = None) -> StoreLockedError:
    """Return the error for the second writer of a file.

    ``is_mine``: whether the first one is this process; None if its number tells. A lock for which that is given does
    not end with its process.
    """
    problem = f"another writer has this file open: {told(holder)}"
    ends = holder is not None and holder.is_here() and is_mine is None
    if holder is not None and holder.is_gone():
        remedy = "Take it over with `zarrio repair --break-lock`, or with break_lock=True."
    elif is_mine or (ends and holder is not None and holder.pid == os.getpid()):
        remedy = "That is this process: close the other io first."
    else:
        remedy = "Wait until it has closed the file, or end it."
        if is_mine is not None and holder is not None and holder.is_another():
            # the number of a process that has ended is given to another one some day
            name = split_location(location)[1]
            remedy += f" If that process is another program, delete the key {f'.{name}.lock'!r} beside the file."
        elif not ends:
            remedy += " If it is gone for certain, run `zarrio repair --break-lock`, or pass break_lock=True."
    return StoreLockedError(problem, store=location, remedy=remedy)


class WriterLock(ABC):
    """The lock of the file at ``location``, held until it is released or collected.

    It belongs to this process: a fork does not hold it, and cannot release it.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self.broken = ""  # whose lock this one was taken from
        self._pid = os.getpid()
        self._is_held = False

    def __del__(self) -> None:
        self.release()

    @property
    def is_held(self) -> bool:
        """Whether this process may write."""
        return self._is_held and self._pid == os.getpid()

    def check(self) -> None:
        """Make sure that the lock is still held; called immediately before each commit, and before the first put."""
        if self.is_held:
            return
        problem, remedy = "this file is closed", "Open the file again."
        if self._pid != os.getpid():
            problem = f"this was opened by process {self._pid}, before a fork"
            remedy = "Open the file in the process that writes it."
        raise StoreLockedError(problem, store=self.location, remedy=remedy)

    def _broken(self, how: str, remedy: str) -> StoreLockedError:
        """Return the error for a lock that somebody else has broken."""
        problem = f"the lock of this writer was broken: {how}"
        return StoreLockedError(problem, store=self.location, remedy=remedy)

    def release(self) -> None:
        """Release the lock; a second call has no effect."""
        if self.is_held:
            self._is_held = False
            self._release()

    @abstractmethod
    def _release(self) -> None:
        """Release the lock."""


# ---- any store ------------------------------------------------------------------------------------------------------


def writer_lock(store: Store, *, break_lock: bool = False, replaces: bool = False) -> WriterLock:
    """Acquire the lock of a file."""
    store = store.unwrapped
    local = store.folder or store.zip_file
    if local is not None:
        check_link(store.location)
        return FileLock(local, break_lock=break_lock, replaces=replaces)
    if store.opens_by_url and store.abilities.is_remote:
        folder, name = split_location(store.location)
        # a file that is a complete bucket has no keys beside it
        beside = open_neighbour(store, folder) if "://" in folder and name else None
        if beside is not None and beside.opens_by_url:
            return KeyLock(beside, name, store.location, break_lock=break_lock)
    if not store.of_one_process:
        _warn_unlocked(store.location, "this kind of store has no lock that other processes see")
    return ProcessLock(store.location)


def _warn_unlocked(location: str, reason: str) -> None:
    warn(f"a second writer of {location} cannot be kept away: {reason}", UnlockedWarning)


_OF_THIS_PROCESS: dict[tuple[int, str], Holder] = {}


class ProcessLock(WriterLock):
    """The lock of a store that other processes cannot open, or that has no other lock."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        # with the process, since a fork has a copy of the memory, and of this table; fsspec has one file by both names
        self._name = (self._pid, location.replace("memory:///", "memory://"))
        mine = Holder.here()
        first = _OF_THIS_PROCESS.setdefault(self._name, mine)  # atomic among threads
        if first is not mine:
            raise locked_error(first, location)
        self._is_held = True

    def _release(self) -> None:
        _OF_THIS_PROCESS.pop(self._name, None)


# ---- local files ----------------------------------------------------------------------------------------------------


def lock_path(target: str) -> str:
    """Return the path of the lock file of ``target``, beside it."""
    folder, name = os.path.split(target)
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f"{name[:_SHORT_NAME]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
    return os.path.join(folder, f".{name}.lock")


class FileLock(WriterLock):
    """A lock of the system on the file ``.NAME.lock`` beside a local file, whose content names the holder.

    If the file system has no locks (some network file systems), the process that creates the file has the lock: it
    counts as alive unless it is one of this machine that has ended. If the folder cannot be written, the file itself is
    locked. ``follows`` is true if an earlier writer died; an old file that it had moved aside is moved back. The new
    file that the dead writer has left is deleted if this writer ``replaces`` the file; otherwise the lock file stays,
    so that a later writer knows that nobody is writing that new file.
    """

    def __init__(self, target: str, *, break_lock: bool = False, replaces: bool = False) -> None:
        super().__init__(target)
        self.follows = False
        # one file has one lock, by whatever symbolic link it is opened
        self._path = lock_path(os.path.realpath(target))
        missing = takewhile(lambda folder: not os.path.lexists(folder), Path(self._path).parents)
        self._new_folders = [str(folder) for folder in missing]
        if (inside := inside_of(self._path)) is not None:
            raise StoreError(inside[0], store=target, remedy=inside[1])
        self._descriptor = -1
        self._is_file = False
        self._is_kept = False
        self._has_locks = True
        try:
            with os_errors(target, "locked"):
                if self._new_folders:
                    os.makedirs(self._new_folders[0], exist_ok=True)
                self._acquire(break_lock=break_lock)
            self._is_held = True
            _held.add(self)
            if self.follows:
                self._is_kept = True  # if this fails, the lock file stays, and the next writer tries it too
                with os_errors(target, "written"):
                    restore_old(target)
                    if replaces:
                        sweep(target)
                self._is_kept = self._has_locks and bool(unfinished(target))
        except BaseException:
            self.release()
            self._remove_folders()
            raise

    def check(self) -> None:
        """Make sure that the lock file was not deleted or replaced; see `WriterLock.check`."""
        super().check()
        with os_errors(self.location, "locked"):
            if not self._is_file or _is_at(self._descriptor, self._path):
                return
        raise self._broken("its file is gone", "Another writer may have the file open now. Open it again.")

    def _acquire(self, *, break_lock: bool) -> None:
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                # a symbolic link could make this truncate somebody else's file, and a pipe would block
                if not stat.S_ISREG(os.lstat(self._path).st_mode):
                    raise self._foreign("is not a regular file")
            descriptor, existed = self._open()
            try:
                if self._locks(descriptor, break_lock=break_lock, existed=existed):
                    self._descriptor = descriptor
                    return
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)
        raise locked_error(None, self.location)

    def _locks(self, descriptor: int, *, break_lock: bool, existed: bool) -> bool:
        """Lock an open file; return False if its lock was broken, or another file has its name by now."""
        is_mine = None
        try:
            is_mine = lock_descriptor(descriptor, blocking=False)
        except OSError as error:
            # some network file systems have no locks: then creating the file, and the record in it, decide
            if error.errno not in _NO_LOCKS:
                raise
        holder = self._holder(descriptor, is_locked=is_mine is False)
        self._has_locks = is_mine is not None
        if is_mine is None:
            is_mine = not (existed and self._is_file)
        if not is_mine:
            is_gone = holder is not None and holder.is_gone()
            # a process that runs on this machine is certainly alive, and its lock cannot be broken
            may_break = break_lock and (holder is None or is_gone or not holder.is_here())
            if not self._is_file or not (may_break or (is_gone and not self._has_locks)):
                raise locked_error(holder, self.location)
            # the lock of the system stays with the unlinked file; the next attempt makes a new one, alone
            os.unlink(self._path)
            self.follows, self.broken = True, told(holder) if break_lock else ""
            return False
        if self._is_file:
            # another writer may have released the lock, and deleted this file, after it was opened here
            if not _is_at(descriptor, self._path):
                return False
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, b" " + json.dumps(asdict(Holder.here())).encode())
        # the file of a lock may be empty: its writer died, or the disk was full
        self.follows |= self._is_file and existed
        return True

    def _holder(self, descriptor: int, *, is_locked: bool) -> Holder | None:
        """Return the holder in an open lock file, None if it is empty; ``is_locked``: it may be writing its record."""
        if not self._is_file or not os.fstat(descriptor).st_size:
            return None
        os.lseek(descriptor, 1, os.SEEK_SET)  # Windows locks the first byte, and hides it from readers
        try:
            return Holder.of(json.loads(os.read(descriptor, _RECORD_BYTES)))
        except _UNREADABLE:
            if is_locked:
                raise locked_error(None, self.location) from None
            raise self._foreign("holds something other than the record of a lock") from None

    def _open(self) -> tuple[int, bool]:
        """Open the file that is locked; return its descriptor, and whether it existed before."""
        self._is_file, flags = True, os.O_RDWR | NO_LINKS
        try:
            for _ in range(_TRIES):
                with suppress(FileExistsError):
                    return os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o666), False
                with suppress(FileNotFoundError):  # its holder deletes it at this moment
                    return os.open(self._path, flags), True
            raise locked_error(None, self.location)
        except OSError as error:
            # a user who may write to the file, but not beside it, locks the file itself; Windows opens no folders
            if error.errno not in _NOT_WRITABLE or not os.path.lexists(self.location) or sys.platform == "win32":
                raise
            self._is_file = False
            return os.open(self.location, READING), True

    def _foreign(self, problem: str) -> StoreRefusedError:
        problem = f"the lock file {self._path!r} {problem}, and is left as it is"
        remedy = "This package did not make it. Look at it, and move or delete it before you write here."
        return StoreRefusedError(problem, store=self.location, remedy=remedy)

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        is_mine = False
        with suppress(OSError):
            is_mine = self._is_file and not self._is_kept and _is_at(descriptor, self._path)
        # Windows deletes no open file; elsewhere the lock is held until its file is gone
        if sys.platform == "win32":
            close_read(descriptor)
        if is_mine:
            with suppress(OSError):
                os.unlink(self._path)
        if sys.platform != "win32":
            # closing the descriptor does not unlock it while a fork has it open too
            with suppress(OSError):
                unlock_descriptor(descriptor)
            close_read(descriptor)
        self._remove_folders()

    def _remove_folders(self) -> None:
        for folder in self._new_folders:
            with suppress(OSError):  # it is not empty
                os.rmdir(folder)


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether an open file is the one at ``path`` itself, not the target of a link."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _forget_all() -> None:
    """Close the files in a fork, where they would keep the locks beyond the life of their holder."""
    for lock in list(_held):
        if lock._descriptor >= 0:
            os.close(lock._descriptor)
            lock._descriptor = -1
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# ---- object stores --------------------------------------------------------------------------------------------------


class KeyLock(WriterLock):
    """The key ``.NAME.lock`` in the folder ``store`` of an object store, read again before each commit.

    That of a dead writer stays until a user breaks it: no server can say whether the holder is alive. An
    UnlockedWarning is issued if the server cannot set a key only if it is absent, or if the credentials are limited to
    the file.
    """

    def __init__(self, store: Store, name: str, location: str, *, break_lock: bool = False) -> None:
        super().__init__(location)
        self._store = store
        self._key = f".{name}.lock"
        self._token = uuid.uuid4().hex
        self._is_key = True
        try:
            if not self._create():
                token, holder = self._read()
                # no server knows whether a holder is alive; this machine knows it of its own processes
                is_alive = token in _tokens or (holder is not None and holder.is_another())
                if break_lock and not is_alive:
                    self.broken = told(holder)
                    self._delete(token)
                    token, holder = (self._token, None) if self._create() else self._read()
                if token != self._token:
                    raise locked_error(holder, location, is_mine=token in _tokens)
        except StoreError as error:
            # the user named the file, not the key beside it
            error.store = location
            raise
        self._is_held = True
        if self._is_key:
            _tokens.add(self._token)

    def check(self) -> None:
        """Make sure that the key has the value of this writer, by a request; see `WriterLock.check`."""
        super().check()
        token, holder = self._read() if self._is_key else (self._token, None)
        if token != self._token:
            how = "it was deleted" if holder is None else f"by {holder}"
            raise self._broken(how, "Another writer has the file open now. Open it again when that writer is done.")

    def _create(self) -> bool:
        """Set the key if it is absent; return False if another writer holds the lock."""
        record = {**asdict(Holder.here()), "token": self._token}
        was_set, missing = None, "this kind of store cannot set a key only if it is absent"
        try:
            was_set = self._store._create(self._key, json.dumps(record).encode())
        except StoreRefusedError as error:
            missing = str(error)
        if was_set is None:
            self._is_key = False
            _warn_unlocked(self.location, missing)
            return True
        # after a lost answer obstore sends the request again, which then finds the key that it set itself
        return was_set or self._read()[0] == self._token

    def _read(self) -> tuple[str, Holder | None]:
        """Return token and holder in the key; no holder if there is no such key, or it has other content."""
        try:
            record = json.loads(self._store.get(self._key) or b"")
            return str(record["token"]), Holder.of(record)
        except _UNREADABLE:
            return "", None

    def _delete(self, token: str) -> None:
        # the key may be that of another writer by now; obstore and fsspec cannot delete only the value that was read
        if self._read()[0] == token:
            self._store._delete([self._key])

    def _release(self) -> None:
        _tokens.discard(self._token)
        with suppress(ZarrBackendError):  # the next writer has to break it
            if self._is_key:
                self._delete(self._token)

    def __del__(self) -> None:
        # garbage collection may run in a thread that requests wait for; at the end of the interpreter no thread starts
        with suppress(RuntimeError):
            if self.is_held:
                threading.Thread(target=self.release, daemon=True).start()


_tokens: set[str] = set()  # the tokens of the locks that this process holds
