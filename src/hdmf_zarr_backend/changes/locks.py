"""`writer_lock`: lets one writer at a time change a file, in any kind of store. Readers take no lock, and never wait.

The lock depends on the store:

- `FileLock`, for a local file: a lock of the system on the file ``.NAME.lock`` beside it, which the system frees when
  its holder dies. The content names the holder, for the error of the second writer. If the file system has no locks
  (some network file systems), the content decides: a holder counts as alive unless it is a process of this machine that
  has ended. If the folder cannot be written, the file itself is locked, and the holder is not named.
- `Lease`, for an object store: the key ``.NAME.lock`` beside the file, set only if it is absent (``If-None-Match: *``,
  RFC 9110, section 13.1.2). It expires, and is refreshed long before that. The lease of a process of this machine that
  has ended is taken over. One that has expired is taken over on request only: its holder may be a machine that was
  asleep, and servers cannot replace exactly the lease that was read.
- `ProcessLock`, for any other store: a lock within this process.

A session of Icechunk needs no lock: of two sessions with conflicting changes, the second cannot commit.
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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

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
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.failures import os_errors
from hdmf_zarr_backend.stores.files import NO_LINKS, READING, check_link, close_read, restore_old, sweep, unfinished
from hdmf_zarr_backend.stores.locations import split_location
from hdmf_zarr_backend.stores.opening import open_neighbour

LEASE_SECONDS = 300
"""Validity of a lease that is not refreshed."""

REFRESH_SECONDS = LEASE_SECONDS / 3
RELEASE_SECONDS = 10
"""How long closing a file waits for the deletion of its lease; one that is not deleted expires."""

_BREAK = "If it is gone for certain, run `zarrio repair --break-lock`, or pass break_lock=True."
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_RECORD_BYTES = 4096
_TRIES = 10
_LONGEST_NAME = 200
_SHORT_NAME = 40
_LOCK_FILE = os.O_RDWR | os.O_CREAT | NO_LINKS
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = "/proc/self/ns/pid"
_UNREADABLE = (ValueError, KeyError, TypeError)


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
        return cls(str(record["host"]), int(record["pid"]), str(record["since"]))

    def __str__(self) -> str:
        return printable(f"process {self.pid} on {self.host} since {self.since}")

    def is_on_this_machine(self) -> bool:
        """Return whether this is a process of this machine."""
        return self.host == socket.gethostname()

    def is_gone(self) -> bool:
        """Return whether this is a process of this machine that has ended."""
        if not self.is_on_this_machine() or sys.platform == "win32":
            return False
        try:
            os.kill(self.pid, 0)
        except OSError as error:  # any other error: the process belongs to another user
            return isinstance(error, ProcessLookupError)
        return False


def locked_error(holder: Holder | None, location: str, *, stale: str = "") -> StoreLockedError:
    """Return the error for the second writer of a file; ``stale``: why the first one seems to have ended."""
    problem = f"another writer has this file open: {holder or 'a process that has left no name'}"
    is_here = holder is not None and holder.is_on_this_machine()
    if stale:
        problem = f"{problem}; {stale}"
        remedy = "Take it over with `zarrio repair --break-lock`, or with break_lock=True."
    elif holder is not None and is_here and holder.pid == os.getpid():
        remedy = "That is this process: close the other io first."
    else:
        remedy = "Wait until it has closed the file, or end it." + ("" if is_here else f" {_BREAK}")
    return StoreLockedError(problem, store=location, remedy=remedy)


class WriterLock(ABC):
    """The lock of the file at ``location``, held from its creation until it is released or its ``with`` block ends.

    It belongs to this process: a fork does not hold it, and cannot release it. A lock that is collected as garbage is
    released.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._pid = os.getpid()
        self._is_held = False

    def __del__(self) -> None:
        if self.is_held:
            self._is_held = False
            self._abandon()

    @property
    def is_held(self) -> bool:
        """Whether this process may write."""
        return self._is_held and self._pid == os.getpid()

    def check(self) -> None:
        """Make sure that the lock is still held; called immediately before each commit, and before the first put."""
        if self.is_held:
            return
        forked = self._pid != os.getpid()
        raise StoreLockedError(
            f"this was opened by process {self._pid}, before a fork" if forked else "this file is closed",
            store=self.location,
            remedy="Open the file in the process that writes it." if forked else "Open the file again.",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock; a second call has no effect."""
        if self.is_held:
            self._is_held = False
            self._release()

    @abstractmethod
    def _release(self) -> None:
        """Release the lock."""

    def _abandon(self) -> None:
        """Release the lock without waiting: this runs during garbage collection."""
        self._release()


# ---- any store ------------------------------------------------------------------------------------------------------


def writer_lock(keys: Store, *, break_lock: bool = False, replaces: bool = False) -> WriterLock:
    """Acquire the lock of a file."""
    store = keys.unwrapped
    local = store.folder or store.zip_file
    if local is not None:
        check_link(store.location)
        return FileLock(local, break_lock=break_lock, replaces=replaces)
    if store.opens_by_url and store.abilities.is_remote:
        folder, name = split_location(store.location)
        beside = open_neighbour(store, folder) if "://" in folder and name else None
        if beside is not None and beside.opens_by_url:  # a file that is a complete bucket has no keys beside it
            return Lease(beside, name, store.location, break_lock=break_lock)
    return ProcessLock(store.location)


_OF_THIS_PROCESS: dict[tuple[int, str], Holder] = {}


class ProcessLock(WriterLock):
    """The lock of a store that other processes cannot open."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._place = (self._pid, location)
        mine = Holder.here()
        first = _OF_THIS_PROCESS.setdefault(self._place, mine)  # atomic among threads
        if first is not mine:
            raise locked_error(first, location)
        self._is_held = True

    def _release(self) -> None:
        _OF_THIS_PROCESS.pop(self._place, None)


# ---- local files ----------------------------------------------------------------------------------------------------


def lock_path(target: str) -> str:
    """Return the path of the lock file of ``target``, beside it."""
    folder, name = os.path.split(target)
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f"{name[:_SHORT_NAME]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
    return os.path.join(folder, f".{name}.lock")


class FileLock(WriterLock):
    """The lock of the local file at an absolute path, which need not exist yet.

    Missing folders above it are created; those that stay empty are removed at the end. ``follows`` is true if an
    earlier writer died; an old file that it had moved aside is moved back. Its new file is deleted if this writer
    replaces it; otherwise the lock file stays, so that a later writer knows that nobody is writing that file. A
    StoreRefusedError means that the user may not write there, or that the lock file was not created by this package.
    """

    def __init__(self, target: str, *, break_lock: bool = False, replaces: bool = False) -> None:
        super().__init__(target)
        self.follows = False
        self._path = lock_path(os.path.realpath(target))  # one file has one lock, by whatever path it is opened
        self._made = _missing(os.path.dirname(self._path))
        above = os.path.dirname(self._made[-1] if self._made else self._path)
        if os.path.isfile(above):
            raise StoreError(f"{above!r} is a file, not a folder", store=target, remedy="Check the path.")
        self._descriptor = -1
        self._is_file = False
        self._is_kept = False
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
            self._clear(target, replaces=replaces)

    def _clear(self, target: str, *, replaces: bool) -> None:
        """Deal with what a dead writer has left beside the file."""
        try:
            with os_errors(target, "written"):
                restore_old(target)
                if replaces:
                    sweep(target)
        except BaseException:
            self._is_kept = True  # the next writer tries it too
            self.release()
            raise
        self._is_kept = unfinished(target) is not None

    def check(self) -> None:
        """Make sure that the lock is still held, and its file was not deleted; raises the errors of `WriterLock`."""
        super().check()
        with os_errors(self.location, "locked"):
            is_intact = not self._is_file or _is_at(self._descriptor, self._path)
        if not is_intact:
            raise StoreLockedError(
                "the lock of this writer was broken: its file is gone",
                store=self.location,
                remedy="Another writer may have the file open now. Open it again.",
            )

    def _acquire(self, *, break_lock: bool) -> None:
        for _ in range(_TRIES):
            existed = os.path.lexists(self._path)
            descriptor, self._is_file = self._open()
            try:
                if self._locks(descriptor, break_lock=break_lock, existed=existed):
                    self._descriptor = descriptor
                    return
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise locked_error(None, self.location)

    def _locks(self, descriptor: int, *, break_lock: bool, existed: bool) -> bool:
        """Lock an open file; return False if its lock was broken, or another file has its name by now."""
        holder = self._holder(descriptor) if self._is_file else None
        if not _take(descriptor, holder):
            if not (break_lock and self._is_file and _may_break(holder)):
                stale = "that process has ended" if holder is not None and holder.is_gone() else ""
                raise locked_error(holder, self.location, stale=stale)
            os.unlink(self._path)  # the lock of the system stays with the unlinked file
            self.follows = True
            return False
        if self._is_file:
            if not _is_at(descriptor, self._path):
                return False
            _record_holder(descriptor)
        self.follows |= self._is_file and existed  # perhaps empty: its writer died, or could not write to it
        return True

    def _open(self) -> tuple[int, bool]:
        """Open the file that is locked; return its descriptor, and whether it is a lock file."""
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
        """Return the holder in the lock file, None if it is empty; refuse a file with other content."""
        if not os.fstat(descriptor).st_size:
            return None
        os.lseek(descriptor, 1, os.SEEK_SET)  # Windows locks the first byte
        try:
            return Holder.of(json.loads(os.read(descriptor, _RECORD_BYTES)))
        except _UNREADABLE:
            raise self._foreign("holds something other than the record of a lock") from None

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        is_mine = False
        with suppress(OSError):
            is_mine = self._is_file and not self._is_kept and _is_at(descriptor, self._path)
        if sys.platform == "win32":  # an open file cannot be deleted
            close_read(descriptor)
        if is_mine:
            with suppress(OSError):
                os.unlink(self._path)
        if sys.platform != "win32":
            with suppress(OSError):
                unlock_descriptor(descriptor)  # closing it would not unlock it where a fork has it open as well
            close_read(descriptor)
        self._remove_folders()

    def _remove_folders(self) -> None:
        for folder in self._made:
            with suppress(OSError):  # it is not empty
                os.rmdir(folder)

    def forget(self) -> None:
        """Close the file in a fork, where it would keep the lock beyond the life of its holder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _may_break(holder: Holder | None) -> bool:
    return holder is None or not holder.is_on_this_machine() or holder.is_gone()


def _missing(folder: str) -> list[str]:
    """Return the folders above a file that do not exist yet, the innermost first."""
    missing = []
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _take(descriptor: int, holder: Holder | None) -> bool:
    """Lock an open file; return False if another process has locked it."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return holder is None or holder.is_gone()


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether an open file is the one at ``path`` itself, not the target of a link."""
    mine = os.fstat(descriptor)
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (found.st_dev, found.st_ino)


def _record_holder(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    # Windows locks the first byte, and hides it from readers
    os.write(descriptor, b" " + json.dumps(asdict(Holder.here())).encode())


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# ---- object stores --------------------------------------------------------------------------------------------------


class Lease(WriterLock):
    """The lease of the file ``name`` in the folder ``keys`` of an object store.

    An UnlockedWarning is issued if the server cannot set a key only if it is absent, or if the credentials are limited
    to the file.
    """

    def __init__(self, keys: Store, name: str, location: str, *, break_lock: bool = False) -> None:
        super().__init__(location)
        self._key = _LeaseKey(keys, f".{name}.lock")
        self._end: SimpleQueue[None] = SimpleQueue()
        # the thread does not refer to this object, which would never be collected otherwise
        self._keeper = threading.Thread(target=_keep, args=(self._key, self._end), name="hdmf-zarr-lease", daemon=True)
        try:
            if not self._key.create():
                self._create_after(break_lock=break_lock)
        except StoreError as error:
            error.store = location  # the user named the file, not the key beside it
            raise
        self._is_held = True
        if self._key.missing:
            problem = f"a second writer of {location} cannot be kept away: {self._key.missing}"
            warn(problem, UnlockedWarning, stacklevel=4)
            return
        with suppress(RuntimeError):  # the interpreter is ending, and starts no more threads
            self._keeper.start()

    def _create_after(self, *, break_lock: bool) -> None:
        """Take over the lease of another writer if it has ended; refuse otherwise."""
        first = self._key.read()
        if first.is_gone():
            # only processes of this machine know that; they wait for each other here
            with FileLock(_gate_path(self.location)):
                self._take_over(first)
        elif break_lock and not first.is_alive():
            self._take_over(first)
        else:
            stale = f"its lease has expired at {first.expires}" if first.has_expired() else ""
            raise locked_error(first.holder, self.location, stale=stale)

    def _take_over(self, first: _LeaseRecord) -> None:
        self._key.delete(first.token)
        if not self._key.create():  # another writer was quicker
            raise locked_error(self._key.read().holder, self.location)

    def check(self) -> None:
        """Make sure that the lease is still held, by reading it; raises the errors of `WriterLock`.

        It is refreshed if it has expired: this machine was asleep, or the server did not answer.
        """
        super().check()
        self._key.refresh(only_late=True)
        if self._key.lost:
            raise StoreLockedError(
                f"the lock of this writer was broken: {self._key.lost}",
                store=self.location,
                remedy="Another writer has the file open now. Open it again when that writer is done.",
            )

    def _release(self) -> None:
        self._abandon()
        if self._keeper.is_alive():
            self._keeper.join(RELEASE_SECONDS)
        else:
            self._key.release()

    def _abandon(self) -> None:
        self._end.put(None)


def _keep(key: _LeaseKey, end: SimpleQueue[None]) -> None:
    """Refresh a lease until it is released; then delete it."""
    while True:
        try:
            end.get(timeout=REFRESH_SECONDS)
        except Empty:
            with suppress(ZarrBackendError):  # the server does not answer; try again later
                key.refresh()
        else:
            key.release()
            return


class _LeaseKey:
    """The key of a lease; ``missing`` is the reason if a lease is impossible, ``lost`` how this writer lost it."""

    def __init__(self, keys: Store, key: str) -> None:
        self._keys = keys
        self._key = key
        self._token = uuid.uuid4().hex
        self._expires = datetime.now(UTC)
        self._order = threading.Lock()
        holder = Holder.here()
        self._record = asdict(holder) | {"token": self._token, "machine": _machine(), "started": _started(holder.pid)}
        self._is_released = False
        self.missing = self.lost = ""

    def _text(self) -> bytes:
        self._expires = datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)
        return json.dumps({**self._record, "expires": self._expires.isoformat(timespec="seconds")}).encode()

    def create(self) -> bool:
        """Set the key if it is absent; return False if another writer holds the lease."""
        try:
            was_set = self._keys.create(self._key, self._text())
        except StoreRefusedError as error:
            self.missing = str(error)
            return True
        if was_set is None:
            self.missing = "this kind of store cannot set a key only if it is absent"
        # after a lost answer the request is sent again, and finds the key that it set itself
        return was_set is not False or self.read().token == self._token

    def read(self) -> _LeaseRecord:
        """Return the record of the key."""
        try:
            record = json.loads(self._keys.get(self._key) or b"")
            expires = datetime.fromisoformat(record["expires"])
            started = str(record.get("started", ""))
            return _LeaseRecord(str(record["token"]), Holder.of(record), expires, str(record["machine"]), started)
        except _UNREADABLE:
            return _LeaseRecord()

    def delete(self, token: str | None) -> None:
        """Delete the key if it still has this token."""
        if self.read().token == token:
            self._keys.delete([self._key])

    def release(self) -> None:
        """Delete the key if this writer holds it; one that is not deleted expires."""
        with self._order, suppress(ZarrBackendError):
            if not (self._is_released or self.missing or self.lost):
                self._is_released = True
                self.delete(self._token)

    def refresh(self, *, only_late: bool = False) -> None:
        """Extend the lease, unless another writer has taken it; ``only_late``: only one that has expired."""
        with self._order:
            if self._is_released or self.missing or self.lost:
                return
            record = self.read()
            if record.token != self._token:
                self.lost = f"by {record.holder}" if record.holder is not None else "it was deleted"
            elif not only_late or datetime.now(UTC) > self._expires:
                self._keys.set(self._key, self._text())


@dataclass(frozen=True, slots=True)
class _LeaseRecord:
    """The record in the key of a lease; None in place of fields that are missing or invalid."""

    token: str | None = None
    holder: Holder | None = None
    expires: datetime | None = None
    machine: str = ""
    started: str = ""

    def has_expired(self) -> bool:
        return self.expires is not None and datetime.now(UTC) > self.expires

    def _is_of_this_machine(self) -> bool:
        return bool(self.machine) and self.machine == _machine()

    def is_gone(self) -> bool:
        """Return whether the holder is a process of this machine, as it runs now, that has ended."""
        if self.holder is None or not self._is_of_this_machine():
            return False
        # process ids are reused
        return self.holder.is_gone() or (bool(self.started) and _started(self.holder.pid) not in ("", self.started))

    def is_alive(self) -> bool:
        """Return whether the holder is a live process of this machine with a valid lease."""
        return self._is_of_this_machine() and not self.has_expired() and not self.is_gone()


def _machine() -> str:
    """Return an id of this machine since its start, different in containers on it; "" if unknown."""
    with suppress(OSError):
        return f"{_BOOT.read_text(encoding='ascii').strip()} {os.readlink(_PROCESSES)}"
    return ""


def _started(pid: int) -> str:
    """Return the start time of a process, in ticks since the start of the machine; "" if unknown."""
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return status.rpartition(")")[2].split()[19]  # its name, in parentheses, may hold anything
    return ""


def _gate_path(location: str) -> str:
    """Return the path of a lock by which processes of this user and machine wait for each other."""
    import getpass  # few files need them, and they take longer to import than this module
    import tempfile

    name = hashlib.sha256(location.encode()).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"hdmf-zarr-{getpass.getuser()}-{name}")
