"""The contract of a store: keys and bytes of one Zarr file, and everything that only some kinds of stores can do.

`Store` declares the complete contract, with a default for each operation that a kind of store may not have, so that
callers never test the class of a store. A new kind of store is one subclass of it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from hdmf_zarr_backend.errors import (
    ChunkError,
    OutOfMemoryError,
    ReadOnlyStoreError,
    ResourceError,
    StoreError,
    StoreFullError,
    StoreNotFoundError,
    StoreRefusedError,
    StoreUnreachableError,
    ZarrBackendError,
    at,
)
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.options import DEFAULT_RULES, ReadRules

DOCUMENTS = frozenset({".zgroup", ".zarray", ".zattrs", "zarr.json"})  # names of the metadata documents of nodes
JOURNAL = ".hdmf_zarr_journal"  # key of the first record of a pending change; the others begin with the same letters
Write: TypeAlias = Callable[[bytes], Any]  # appends to a value that is written piece by piece
Range = tuple[int, int | None]  # start and end of a range of bytes; ``(-n, None)`` are the last n bytes

_SAMPLE_BYTES = 2**16
_PIECE_BYTES = 8 * 2**20
_CHUNK_FOLDERS = re.compile(r"(^|/)c(/\d+)*$")


class OpenValue:
    """The open file of one value; all reads return bytes of the same version of the value."""

    def __init__(self, file: int, size: int, name: str) -> None:
        self.size = size
        self.name = name
        self._file = file

    def __enter__(self) -> OpenValue:
        return self

    def __exit__(self, *error: object) -> None:
        close_read(self._file)

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the bytes that begin at ``start``."""
        while buffer.nbytes:
            if hasattr(os, "preadv"):
                count = os.preadv(self._file, [buffer], start)
            else:  # Windows
                os.lseek(self._file, start, os.SEEK_SET)
                part = os.read(self._file, buffer.nbytes)
                count = len(part)
                buffer[:count] = part
            if not count:
                raise ChunkError(f"{self.name!r} was cut while it was read", remedy="Restore it from a copy.")
            start, buffer = start + count, buffer[count:]


def close_read(file: int) -> None:
    """Close a file that was only read, ignoring errors, since the bytes that were read are correct."""
    with suppress(OSError):
        os.close(file)


@dataclass(frozen=True, slots=True)
class FileState:
    """Properties of a file that are known without reading it."""

    size: int
    etag: str | None = None  # the entity tag of the content on a server, without quotes
    mtime_ns: int | None = None  # time of the last change, in nanoseconds since 1970

    def is_same(self, other: FileState) -> bool | None:
        """Return whether size, and tag or time, are those of the same content; None if neither can be compared."""
        if self.size != other.size:
            return False
        # a tag is exact; the time of a server is in whole seconds, and its copy of a file has another one
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag
        return None if None in (self.mtime_ns, other.mtime_ns) else self.mtime_ns == other.mtime_ns


@dataclass(frozen=True, slots=True)
class Abilities:
    """The operations that a kind of store allows."""

    write: bool = True  # a new file can be written
    change: bool = True  # an existing file can be changed
    listing: bool = True  # the store can list its keys
    is_remote: bool = False  # requests are slow, so several run at once
    consolidates: bool = True  # a consolidated document is useful; Icechunk keeps all metadata together itself
    formats: tuple[int, ...] = (2, 3)  # Zarr formats that can be written
    control_characters: bool = True  # keys may contain them; paths of obstore may not
    strict_json: bool = False  # of documents: Icechunk refuses the tokens NaN and Infinity
    commits: bool = False  # changes are visible after a commit, which has a message
    open_ranges: bool = True  # a range of bytes may end beyond the value, which Icechunk refuses
    why: str = ""  # why an operation is not possible, for messages: "a zip file cannot be changed"


class Store(ABC):
    """Keys and bytes of one Zarr file.

    A subclass sets ``location`` and ``abilities``, and implements the five abstract methods: this is a complete store.
    All others have a default that is correct for any store, and that a subclass replaces where it can do better.
    """

    location: str  # absolute local path or URL of the file, without a trailing slash, for links and error messages
    abilities: Abilities = Abilities()
    read_rules: ReadRules = DEFAULT_RULES  # limits and link policy of all readers of this store, in all processes
    options: Mapping[str, Any] = {}  # the user's ``storage_options``, which open other files of the same server too
    folder: str | None = None  # the local folder, if the store is one
    zip_file: str | None = None  # the local zip file, if the store is one
    of_one_process: bool = False  # only this process can reach the keys, so a lock in it keeps other writers away
    opens_by_url: bool = False  # ``location`` and ``options`` open the file in obstore, fsspec and TensorStore
    stream_bytes: int | None = None  # in memory while `_stream` writes piece by piece; None: the complete value is
    # `sync` waits for the disk, and a power cut leaves no part of a key at the root of a local file
    is_durable: bool = False
    # the key of a file that the user has named by its URL: a server may redirect this one to another server
    named_key: str | None = None
    # opens the group of zarr-python above this one: the consolidated document may be there
    group_above: Callable[[], Store] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Store:
        """Return the same store: a deep copy of an array or container reads from the same file."""
        return self

    # ---- a new store must have these ---------------------------------------------------------------------------------

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""

    @abstractmethod
    def _set(self, key: str, value: bytes) -> None:
        """Set ``key``; a reader sees the old value or the new one, never a part."""

    @abstractmethod
    def _delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that exist."""

    @abstractmethod
    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether something exists at the location."""

    # ---- reading: a store may have a better way than these -----------------------------------------------------------

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that exist."""
        return {key: value for key in keys if (value := self.get(key)) is not None}

    def get_each(self, keys: Sequence[str]) -> Iterator[bytes | None]:
        """Return the values of ``keys`` in their order, each when it has arrived; None for one that does not exist."""
        values = self.get_many(keys)
        return map(values.get, keys)

    def get_range(self, key: str, start: int, stop: int | None = None) -> bytes | None:
        """Return a range of bytes of the value of ``key``, or None if it does not exist."""
        parts = self.get_ranges(key, [(start, stop)])
        return None if parts is None else parts[0]

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None if it does not exist."""
        value = self.get(key)
        return None if value is None else [value[start:stop] for start, stop in ranges]

    def beginning(self, key: str, count: int) -> bytes | None:
        """Return the first ``count`` bytes of the value of ``key``, or None if it does not exist."""
        return self.get_range(key, 0, count)

    def open_value(self, key: str) -> OpenValue | None:
        """Open the value of ``key`` to read parts of it; None if it does not exist, or the store cannot open values."""
        return None

    def sample(self, key: str, size: int) -> str | None:
        """Return a digest of both ends of a value of ``size`` bytes, which identifies a copy; or None."""
        # copies of a file differ in their times, and a digest of all of it would take as long as a download
        parts = self.get_ranges(key, [(0, min(size, _SAMPLE_BYTES)), (max(0, size - _SAMPLE_BYTES), size)])
        return None if parts is None else hashlib.sha256(b"".join(parts)).hexdigest()

    def state(self, key: str) -> FileState | None:
        """Return size, tag and time of the value of ``key``; None if it does not exist, or they are unknown."""
        return None

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        return iter(self.sizes(prefix))

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents except consolidated ones."""
        return (key for key in self.list_prefix("") if key.rpartition("/")[2] in DOCUMENTS)

    def keys_outside(self, arrays: Collection[str]) -> Iterator[str]:
        """Yield the keys that are not below an array."""
        for key in () if "" in arrays else self.list_prefix(""):
            above = key.rpartition("/")[0]  # from the end: the key of a chunk is right below its array in format 2
            while above and above not in arrays:
                above = above.rpartition("/")[0]
            if not above:
                yield key

    # ---- writing: likewise; only changes, locks and the journal call these -------------------------------------------

    def _create(self, key: str, value: bytes) -> bool | None:
        """Set ``key`` if it is absent, in one step; return whether it was set, None if that is impossible."""
        self._refuse_change()
        return None

    @contextmanager
    def _stream(self, key: str) -> Iterator[Write]:
        """Yield a function that appends to a new value of ``key``, which is set if the block ends without an error."""
        pieces: list[bytes] = []
        yield pieces.append
        self._set(key, b"".join(pieces))

    def held_bytes(self, nbytes: int) -> int:
        """Return how much of a value of ``nbytes`` is in memory while `_stream` writes it."""
        return nbytes if self.stream_bytes is None else min(nbytes, self.stream_bytes)

    def pieces(self, key: str) -> Iterator[bytes]:
        """Yield the value of a key, if it exists, in pieces; as one if the store cannot stream."""
        if self.stream_bytes is None:
            value = self.get(key)
            yield from () if value is None else (value,)
            return
        start, piece = 0, self.get_range(key, 0, _PIECE_BYTES + 1)
        while piece is not None:
            yield piece[:_PIECE_BYTES]
            start += _PIECE_BYTES
            # one byte more was requested, since a range that begins at the end of a value is an error in some stores
            is_last = len(piece) <= _PIECE_BYTES
            piece = None if is_last else self.get_range(key, start, start + _PIECE_BYTES + 1)

    def _copy_value(self, source: str, target: str) -> None:
        """Give the value of a key, if it exists, to another one; by a link, which needs no room, if the store can."""
        pieces = self.pieces(source)
        first, second = next(pieces, None), next(pieces, None)
        if first is not None and second is None:  # one request
            self._set(target, first)
        elif first is not None and second is not None:
            with self._stream(target) as write:
                for piece in chain([first, second], pieces):
                    write(piece)

    def _delete_below(self, path: str) -> None:
        """Delete all keys below ``path/``, and their folders in a store with folders."""
        self._delete(list(self.list_prefix(path)))

    def _delete_unfinished(self, folders: Iterable[str], beginning: str = "") -> None:
        """Delete files in ``folders`` that a writer left unfinished when it died, and those with that ``beginning``."""

    def _refuse_change(self) -> None:
        """Refuse to set or delete keys of a store that is read only."""
        if not self.abilities.change:
            raise ReadOnlyStoreError(self.abilities.why, store=self.location, remedy="Write to another location.")

    # ---- what only some stores have: folders, queues, caches, sessions -----------------------------------------------

    @property
    def unwrapped(self) -> Store:
        """The store itself, without wrappers that hold some of its values in memory."""
        return self

    def inlined(self, key: str) -> bytes | None:
        """Return the value of ``key`` if it is in memory already, None otherwise."""
        return None

    def drain(self) -> None:
        """Wait until everything that was set is in the store."""

    def abandon(self) -> None:
        """Wait until all writes have ended, successfully or not."""

    def sync(self) -> None:
        """Wait, if the store is durable, until what was set is on the disk; servers acknowledge only stored values."""

    def pin(self) -> None:
        """Keep reading the present file: if it is replaced, reading raises an error."""

    def is_empty_folder(self) -> bool:
        """Return whether the location is an empty local folder."""
        return False

    def check_inside(self, names: Iterable[str], paths: Iterable[str]) -> None:
        """Refuse keys and paths of a journal or a repair that lead out of the store, by name or by a symbolic link."""
        for name in (*names, *paths):
            if not name or is_outside(name):
                raise outside_error(name, self.location)

    def has_changes(self) -> bool:
        """Return whether there are changes that are not visible yet. Only for a store that ``commits``."""
        return False

    def _end_session(self, message: str | None) -> None:
        """Make all changes visible, with a message; None discards them. Only for a store that ``commits``."""

    # ---- other files -------------------------------------------------------------------------------------------------

    def neighbour(self, location: str) -> Store | None:
        """Return another file of the same opened file system; None if files are opened by their location."""
        return None

    def check_url(self) -> None:
        """Make sure that a library can open the location, without a request."""


def check_value_size(store: Store, key: str, size: int, *, is_inflated: bool = False) -> None:
    """Refuse a value that is larger than the limits allow, before memory is allocated for it."""
    limits = store.read_rules.limits
    name = size_limit(key)
    if is_inflated:
        name = min(name, "max_object_bytes", key=lambda each: int(getattr(limits, each)))
    with at(store):
        limits.check(name, size, f"the value of the key {key!r} has {size:,} bytes")


def size_limit(key: str) -> str:
    """Return the name of the limit for the value of a key."""
    return "max_document_bytes" if is_document(key) else "max_stored_bytes"


def is_document(key: str) -> bool:
    """Return whether a key is that of a metadata document, including the consolidated one."""
    name = key.rpartition("/")[2]
    return name in DOCUMENTS or name == ".zmetadata"


def node_of(key: str) -> str:
    """Return the absolute path of the node that a key of a document or a chunk belongs to."""
    parent, _, name = key.rpartition("/")
    if name not in DOCUMENTS:
        parent = _CHUNK_FOLDERS.sub("", parent)
    return absolute(parent)


def is_outside(key: str) -> bool:
    """Return whether a key leads out of its store; a crafted document may name nodes such as ``../../x``."""
    return key.startswith("/") or "\0" in key or (".." in key and ".." in key.split("/"))


def check_inside(key: str, location: str) -> None:
    """Refuse a key that leads out of the store at ``location``."""
    if is_outside(key):
        raise outside_error(key, location)


def outside_error(key: str, location: str) -> StoreError:
    """Return the error for a key or a path that leads out of the store at ``location``."""
    problem = f"{key!r} leads out of the store"
    return StoreError(problem, store=location, remedy="Do not trust this file.")


# ---- the operating system -------------------------------------------------------------------------------------------

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_SILENT = tuple(getattr(errno, name) for name in ("ETIMEDOUT", "ESTALE", "EHOSTDOWN") if hasattr(errno, name))
# HDF5 and libraries in Rust report these by their text only: no type, no errno
_NO_FILES = re.compile(r"Too many open files")
_NO_MEMORY = re.compile(r"memory allocation failed|Cannot allocate memory")
_DISK_FAILURES: tuple[tuple[tuple[int, ...], type[StoreError], str], ...] = (
    (_FULL, StoreFullError, "Free some space, and write it again."),
    ((errno.EACCES, errno.EPERM, errno.EROFS), StoreRefusedError, ""),  # `_refusal` has the remedy
    (_SILENT, StoreUnreachableError, "The file system did not answer; try again when it does."),
    ((errno.ENAMETOOLONG,), StoreError, "The name is too long for this file system: rename it, or write elsewhere."),
    ((errno.ENOENT, errno.ENOTDIR), StoreNotFoundError, "Check the path of the file that is read."),
)
_FOLDER_IS_GONE = "Its folder was removed or moved meanwhile; write it again."
_DISK_MAY_FAIL = "A disk may be failing: look at the log of the system before anything else is written there."


@contextmanager
def os_errors(location: str, doing: str, key: str = "") -> Iterator[None]:
    """Convert an OSError in the block to an error of this package; arguments as for `disk_failure`."""
    try:
        yield
    except ZarrBackendError:
        raise
    except OSError as error:
        raise disk_failure(error, location, key, doing) from error


def resource_failure(
    error: BaseException, doing: str, *, store: str | None = None, path: str | None = None, what: str = "this"
) -> ResourceError | None:
    """Return the error for a lack of memory or file descriptors, which no file is to blame for; else None."""
    number = error.errno if isinstance(error, OSError) else None
    problem = f"{what} could not be {doing}"
    if isinstance(error, MemoryError) or number == errno.ENOMEM or _NO_MEMORY.search(str(error)):
        remedy = "Read or write a smaller part at a time, or free memory."
        return OutOfMemoryError(f"{problem}: there is not enough memory", store=store, path=path, remedy=remedy)
    if number in (errno.EMFILE, errno.ENFILE) or _NO_FILES.search(str(error)):
        remedy = "Close files that are not needed, or raise the limit (`ulimit -n`)."
        return ResourceError(f"{problem}: too many files are open", store=store, path=path, remedy=remedy)
    return None


def disk_failure(error: OSError, location: str, key: str, doing: str) -> ZarrBackendError:
    """Return the error of this package for an OSError."""
    what, path = (repr(key), node_of(key)) if key else ("the file", None)
    lack = resource_failure(error, doing, store=location, path=path, what=what)
    if lack is not None:
        return lack
    matches = ((kind, remedy) for numbers, kind, remedy in _DISK_FAILURES if error.errno in numbers)
    kind, remedy = next(matches, (StoreError, _DISK_MAY_FAIL))
    if kind is StoreRefusedError:
        # the lock is a file beside the one to be written, and users never asked for it
        doing = "written" if doing == "locked" else doing
        remedy = _refusal(error, os.path.join(location, key) if key else location, doing)
    problem = f"{what} could not be {doing}: {error.strerror or str(error) or type(error).__name__}"
    if kind is StoreNotFoundError and doing not in ("read", "listed"):
        remedy = _FOLDER_IS_GONE
    return kind(problem, store=location, path=path, remedy=remedy)


def _refusal(error: OSError, path: str, doing: str) -> str:
    """Return what to do where the system refuses an operation: it names the folder or the file that is in the way."""
    named = error.filename if isinstance(error.filename, str) and os.path.isabs(error.filename) else path
    if doing in ("read", "listed", "opened"):
        while not os.access(os.path.dirname(named), os.X_OK):
            named = os.path.dirname(named)
        return f"Check the permissions of {named!r}: you may not read it."
    folder = named
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if error.errno == errno.EROFS:
        return f"The file system of {folder!r} is read-only: choose another folder."
    return f"Check the permissions of {folder!r}: you may not write there. Otherwise choose another folder."


# ---- the libraries of remote stores ---------------------------------------------------------------------------------

_LIBRARY_ERRORS = {
    "aiohttp": ("ClientError",),
    "http.client": ("HTTPException",),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "obstore.exceptions": ("BaseError",),
    "gcsfs.retry": ("HttpError",),
    "google.auth.exceptions": ("GoogleAuthError",),
    "azure.core.exceptions": ("AzureError",),
    "icechunk": ("IcechunkError",),
}
_REFUSED = frozenset({
    "ClientAuthenticationError", "GoogleAuthError", "NoCredentialsError", "PartialCredentialsError",
    "PermissionDeniedError", "PermissionError", "UnauthenticatedError",
})  # fmt: skip
_STATUS = ("status", "status_code", "code")  # aiohttp, azure, gcsfs
# how servers report a bucket that does not exist; the libraries have no type for it
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist", re.IGNORECASE)
_NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|metadata\.google\.internal|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|^Forbidden: |status code: 40[13] "
)
_NO_RANGES = re.compile(r"range request not supported|does(?: not|n't) support range", re.IGNORECASE)
_CAUSE = re.compile(r'message: "([^"]*)"|"(dns error)"')
_NOT_OF_SERVER = (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError, TypeError, RuntimeError)
_ANONYMOUS = dict.fromkeys(("gs", "gcs"), ('token="anon"', "token=anon"))  # in Python, and on the command line
_MESSAGE_LENGTH = 300
# the module of PanicException, which derives from BaseException: obstore panics at some options and URLs
_OF_PANIC = "pyo3_runtime"


def library_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of the loaded libraries of stores, for ``except library_errors():``."""
    # only loaded libraries raise errors; loading all of them for an `except` would take longer than the request
    kinds: list[type[BaseException]] = [OSError, RuntimeError, ValueError, TypeError]
    for module, names in _LIBRARY_ERRORS.items():
        loaded = sys.modules.get(module)
        kinds.extend(getattr(loaded, name) for name in names if hasattr(loaded, name))
    return tuple(kinds)


@contextmanager
def library_errors_named(location: str, key: str, doing: str) -> Iterator[None]:
    """Convert an error of a library in the block to one of this package; arguments as for `disk_failure`."""
    try:
        yield
    except ZarrBackendError as error:
        error.locate(location)
        raise
    except BaseException as error:
        if not isinstance(error, library_errors()) and type(error).__module__ != _OF_PANIC:
            raise  # such as KeyboardInterrupt
        raise _library_failure(error, location, key, doing) from error


def _library_failure(error: BaseException, location: str, key: str, doing: str) -> ZarrBackendError:
    what, path, text = repr(key) if key else "the store", node_of(key), _reason(error)
    lack = resource_failure(error, doing, store=location, path=path if key else None, what=what)
    if lack is not None:
        return lack
    # an error of this machine, as of a cache of fsspec; errors about a server name no absolute path
    is_local = os.path.isabs(str(getattr(error, "filename", None) or ""))
    if isinstance(error, OSError) and error.errno is not None and (is_local or error.errno in _FULL):
        return disk_failure(error, location, key, doing)
    if _NO_RANGES.search(text):
        return without_ranges(location, key)
    names = {each.__name__ for each in type(error).__mro__}
    kind: type[StoreError] = StoreUnreachableError
    problem, remedy_cli = f"{what} could not be {doing}: {text}", ""
    remedy = "Check the address and whether the server is up, then try again."
    # a key can be written to any existing bucket; some libraries only report that something is absent
    if _NO_BUCKET.search(text) or (doing == "written" and isinstance(error, FileNotFoundError)):
        kind, problem = StoreNotFoundError, f"there is no such bucket: {problem}"
        remedy = "Check the name of the bucket, and the endpoint."
    elif type(error).__module__ == _OF_PANIC:
        kind, problem = StoreError, f"{what} could not be {doing}: its library failed: {text}"
        remedy, remedy_cli = "Check the URL, and the values of storage_options.", "Check the URL, and the values of -O."
    elif names & _REFUSED or status_of(error) in (401, 403) or _NO_CREDENTIALS.search(str(error)):
        kind = StoreRefusedError
        scheme = location.partition("://")[0]
        python, typed = _ANONYMOUS.get(scheme, ("anon=True", "anon=true"))
        remedy = f"Check the credentials in storage_options or the environment; {python} reads a public bucket."
        remedy_cli = "Check the credentials in the environment, or give them with -O NAME=VALUE; "
        remedy_cli += f"-O {typed} reads a public bucket."
        if scheme.endswith(("http", "https")):
            headers = '{"Authorization": "Bearer TOKEN"}'
            check = "Check the credentials, such as the signature of the URL, which may have expired, or"
            remedy = f'{check} storage_options={{"headers": {headers}}}.'
            remedy_cli = f"{check} -O 'headers={headers}'."
    return kind(problem, store=location, path=path, remedy=remedy, remedy_cli=remedy_cli)


def without_ranges(location: str, key: str) -> StoreError:
    """Return the error for a server that sends complete files only; parameters as for `disk_failure`."""
    problem = f"the server does not support byte ranges, and {key!r} cannot be read without them"
    remedy = "Download the file, and open the copy; or serve it with a server that does (docs: stores)."
    return StoreError(problem, store=location, path=node_of(key), remedy=remedy)


def raise_if_not_absent(error: BaseException) -> None:
    """Raise an error about an absent key, if in fact the bucket or the archive does not exist, or the server failed."""
    if isinstance(error, ZarrBackendError) or _NO_BUCKET.search(str(error)):
        raise error
    # fsspec's HTTPFileSystem reports any failure of a server as FileNotFoundError, with the failure as its cause
    cause = error.__cause__
    if isinstance(cause, ZarrBackendError):
        raise cause
    is_of_server = isinstance(cause, library_errors()) and not isinstance(cause, _NOT_OF_SERVER)
    if cause is not None and is_of_server and status_of(cause) not in (404, 410):
        raise cause


def status_of(error: BaseException) -> int | None:
    """Return the status of the HTTP response in an error, or None; the libraries have four names for it."""
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}  # of botocore
    for name in _STATUS:  # one after the other: aiohttp has ``status``, and warns of ``code``
        if isinstance(number := getattr(error, name, None), int):
            return number
    number = metadata.get("HTTPStatusCode")
    return number if isinstance(number, int) else None


def _reason(error: BaseException) -> str:
    """Return the text of an error in one line of bounded length."""
    text, _, details = str(error).partition("\nDebug source")
    text = " ".join(text.split()) or type(error).__name__
    # obstore's own text is "error sending request"; the reason is in the debug output of Rust below it
    cause = _CAUSE.search(details)
    if cause is not None:
        text = f"{text}: {cause[1] or cause[2]}"
    return text if len(text) <= _MESSAGE_LENGTH else f"{text[:_MESSAGE_LENGTH]}..."
