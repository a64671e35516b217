"""One writer at a time where there are no locks: a key beside the file, set only where there is none, with an expiry.

The key ``.NAME.lock`` says who writes until when, and is set anew long before that. A server sets a key only where
there is none (``If-None-Match: *``); one that cannot, or credentials that reach no further than the file itself, are
told by a warning, and then nothing keeps a second writer away. The lease of a process of this machine that is gone is
taken over. One that has expired is taken over on request only: its holder may be a machine that was asleep, and servers
have no way to replace exactly the lease that was looked at.

Source: issue "Nothing lost, nobody let in", part 3; RFC 9110, section 13.1.2.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import tempfile
import threading
import uuid
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue

from hdmf_zarr_backend.changes.locks import FileLock, Holder, WriterLock, locked_error
from hdmf_zarr_backend.errors import StoreError, StoreLockedError, StoreRefusedError, UnlockedWarning, ZarrBackendError
from hdmf_zarr_backend.stores.base import Store

LEASE_SECONDS = 300
"""How long a lease holds that nobody sets anew."""

REFRESH_SECONDS = LEASE_SECONDS / 3

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = "/proc/self/ns/pid"

GOODBYE_SECONDS = 10
"""How long closing a file waits for its lease to be deleted; one that is left expires by itself."""


class Lease(WriterLock):
    """The lease of one file.

    Parameters
    ----------
    keys : Store
        The folder of the file.
    name : str
        Name of the file in it.
    location : str
        The file, for messages.
    break_lock : bool
        Take the lease from its holder, unless that is a process of this machine that is alive.

    Raises
    ------
    StoreLockedError
        Another writer holds it.

    Warns
    -----
    UnlockedWarning
        None can be had.
    """

    def __init__(self, keys: Store, name: str, location: str, *, break_lock: bool = False) -> None:
        super().__init__(location)
        self._note = _Note(keys, f".{name}.lock", location)
        self._end: SimpleQueue[None] = SimpleQueue()
        self._keeper = threading.Thread(target=_keep, args=(self._note, self._end), name="hdmf-zarr-lease", daemon=True)
        try:
            if self._note.create() is False:
                self._come_second(break_lock=break_lock)
        except StoreError as error:
            error.store = location  # what was asked for is the file, not the key beside it
            raise error.located() from error.__cause__
        self._is_held = True
        if not self._note.is_set:
            warnings.warn(
                f"a second writer of {location} cannot be kept away: {self._note.why}", UnlockedWarning, stacklevel=4
            )
            return
        with suppress(RuntimeError):  # the interpreter is ending, and starts no threads any more
            self._keeper.start()

    def _come_second(self, *, break_lock: bool) -> None:
        first = self._note.read()
        if first.is_gone():
            # nobody else can know that but processes of this machine, and those wait for each other here
            gate = FileLock(_place_on_this_machine(self.location))
            try:
                self._take_over(first)
            finally:
                gate.release()
        elif break_lock and not first.is_alive():
            self._take_over(first)
        else:
            stale = f"its lease has expired at {first.expires}" if first.has_expired() else ""
            raise locked_error(first.holder, self.location, stale=stale)

    def _take_over(self, first: _Said) -> None:
        if self._note.read().token == first.token:
            self._note.delete()
        if self._note.create() is False:  # another one was quicker
            raise locked_error(self._note.read().holder, self.location)

    def check(self) -> None:
        """Make sure that the lease is still held; one that was not set anew in time is looked at.

        Raises
        ------
        StoreLockedError
            It is not: the process was forked, the lease was given back, or another writer has broken it.
        """
        super().check()
        if self._note.is_late():
            self._note.refresh()
        if self._note.lost is not None:
            raise StoreLockedError(
                f"the lock of this writer was broken: {self._note.lost}",
                store=self.location,
                remedy="Somebody else writes the file now. Open it again when that is done.",
            )

    def _give_back(self) -> None:
        self._end.put(None)
        if self._keeper.is_alive():
            self._keeper.join(GOODBYE_SECONDS)
        else:
            _take_leave(self._note)

    def _abandon(self) -> None:
        self._end.put(None)  # a request must not be waited for while garbage is collected


def _keep(note: _Note, end: SimpleQueue[None]) -> None:
    """Set a lease anew, again and again, until it is given back; then delete it."""
    while True:
        try:
            end.get(timeout=REFRESH_SECONDS)
        except Empty:
            with suppress(ZarrBackendError):  # the server does not answer; the next time will tell
                note.refresh()
        else:
            _take_leave(note)
            return


def _take_leave(note: _Note) -> None:
    with suppress(ZarrBackendError):  # it expires by itself
        note.delete_own()


class _Note:
    """The key of a lease.

    Attributes
    ----------
    lost : str or None
        Who has taken the lease from this writer, in words.
    is_set : bool
        Whether there is a key at all.
    why : str
        Why there is none.
    """

    def __init__(self, keys: Store, key: str, location: str) -> None:
        self._keys = keys
        self._key = key
        self._location = location
        self._holder = Holder.here()
        self._token = uuid.uuid4().hex
        self._expires = datetime.now(UTC)
        self._order = threading.Lock()
        self.lost: str | None = None
        self.is_set = True
        self.why = "this kind of store cannot set a key only where there is none"

    def _text(self) -> bytes:
        self._expires = datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)
        expires = self._expires.isoformat(timespec="seconds")
        said = {**asdict(self._holder), "expires": expires, "token": self._token, "machine": _machine()}
        said["started"] = _started(self._holder.pid)
        return json.dumps(said).encode()

    def create(self) -> bool | None:
        """Set the key where there is none; tell whether this writer holds the lease, None where none can be had."""
        try:
            was_set = self._keys.create(self._key, self._text())
        except StoreRefusedError as error:
            was_set, self.why = None, str(error)
        if was_set is None:
            self.is_set = False
            return None
        # where an answer was lost the request was sent again, and found what it had set itself
        return was_set or self.read().token == self._token

    def delete(self) -> None:
        """Delete the key, whoever set it."""
        self._keys.delete([self._key])

    def delete_own(self) -> None:
        """Delete the key if this writer set it."""
        with self._order:
            if self.is_set and self.lost is None and self.read().token == self._token:
                self.delete()
            self.is_set = False

    def is_late(self) -> bool:
        """Tell whether the lease has expired: this machine was asleep, or the server out of reach."""
        return self.is_set and datetime.now(UTC) > self._expires

    def refresh(self) -> None:
        """Set the key anew, unless another writer has taken the lease."""
        with self._order:
            if not self.is_set or self.lost is not None:
                return
            said = self.read()
            if said.token == self._token:
                self._keys.set(self._key, self._text())
            else:
                self.lost = f"by {said.holder}" if said.holder is not None else "it was deleted"

    def read(self) -> _Said:
        """Return what the key says."""
        try:
            said = json.loads(self._keys.get(self._key) or b"")
            holder = Holder(str(said["host"]), int(said["pid"]), str(said["since"]))
            expires = datetime.fromisoformat(said["expires"])
            return _Said(str(said["token"]), holder, expires, str(said["machine"]), str(said.get("started", "")))
        except (ValueError, KeyError, TypeError):
            return _Said()


@dataclass(frozen=True, slots=True)
class _Said:
    """What the key of a lease says; None for what it does not say."""

    token: str | None = None
    holder: Holder | None = None
    expires: datetime | None = None
    machine: str | None = None
    started: str = ""

    def has_expired(self) -> bool:
        return self.expires is not None and datetime.now(UTC) > self.expires

    def is_gone(self) -> bool:
        """Tell whether the holder is a process that ended, of this machine since it was started, as it is seen here."""
        if self.holder is None or not self.machine or self.machine != _machine():
            return False
        # numbers of processes come again
        return self.holder.is_gone() or (bool(self.started) and _started(self.holder.pid) not in ("", self.started))

    def is_alive(self) -> bool:
        """Tell whether the holder is a process of this machine that is at work."""
        on_time = self.holder is not None and not self.has_expired()
        return on_time and bool(self.machine) and self.machine == _machine() and not self.is_gone()


def _machine() -> str:
    """Return what tells this machine, since its start, from others and from containers on it; "" if nothing does."""
    with suppress(OSError):
        return f"{_BOOT.read_text(encoding='ascii').strip()} {os.readlink(_PROCESSES)}"
    return ""


def _started(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; "" where the system does not say."""
    with suppress(OSError, IndexError):
        said = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return said.rpartition(")")[2].split()[19]  # its name, in parentheses, may hold anything
    return ""


def _place_on_this_machine(location: str) -> str:
    """Return a path by which processes of this user and machine wait for each other."""
    name = hashlib.sha256(location.encode()).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"hdmf-zarr-{getpass.getuser()}-{name}")
