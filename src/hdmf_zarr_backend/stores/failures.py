"""Errors of the operating system and of store libraries -> errors of this package, which name store, node and key."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hdmf_zarr_backend.errors import (
    OutOfMemoryError,
    ResourceError,
    StoreError,
    StoreFullError,
    StoreNotFoundError,
    StoreRefusedError,
    StoreUnreachableError,
    ZarrBackendError,
)
from hdmf_zarr_backend.stores.base import node_of

# ---- the operating system -------------------------------------------------------------------------------------------

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_SILENT = tuple(getattr(errno, name) for name in ("ETIMEDOUT", "ESTALE", "EHOSTDOWN") if hasattr(errno, name))
_NO_FILES = re.compile(r"Too many open files")  # nor libraries in Rust
_NO_MEMORY = re.compile(r"memory allocation failed|Cannot allocate memory")  # HDF5 has no type or number for it
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
    """Return the error for a lack of memory or file descriptors, which no file is to blame for; else None.

    ``doing`` as for `disk_failure`, ``what`` is that which could not be done.
    """
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
    known = ((kind, remedy) for numbers, kind, remedy in _DISK_FAILURES if error.errno in numbers)
    kind, remedy = next(known, (StoreError, _DISK_MAY_FAIL))
    if kind is StoreRefusedError:
        doing = "written" if doing == "locked" else doing  # the lock is a file beside the one that is written
        remedy = _refusal(error, os.path.join(location, key) if key else location, doing)
    problem = f"{what} could not be {doing}: {error.strerror or str(error) or type(error).__name__}"
    if kind is StoreNotFoundError and doing not in ("read", "listed"):
        remedy = _FOLDER_IS_GONE
    return kind(problem, store=location, path=path, remedy=remedy)


def _refusal(error: OSError, place: str, doing: str) -> str:
    """Return what to do where the system refuses an operation: it names the folder or the file that is in the way."""
    named = error.filename if isinstance(error.filename, str) and os.path.isabs(error.filename) else place
    if doing in ("read", "listed", "opened"):
        while not os.access(os.path.dirname(named), os.X_OK):
            named = os.path.dirname(named)
        return f"Check the permissions of {named!r}: you may not read it."
    folder = named if os.path.isdir(named) else os.path.dirname(named)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if error.errno == errno.EROFS:
        return f"The file system of {folder!r} is read-only: choose another place."
    return f"Check the permissions of {folder!r}: you may not write there. Otherwise choose another place."


# ---- the libraries of remote stores ---------------------------------------------------------------------------------

_FOREIGN = {
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
_ANONYMOUS = dict.fromkeys(("gs", "gcs"), ('token="anon"', "token=anon"))  # in Python, and typed
_LETTERS = 300
_OF_PANIC = "pyo3_runtime"  # the module of an exception of a library in Rust, which no `except Exception` catches


def library_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of the loaded libraries of stores, for ``except library_errors():``."""
    found: list[type[BaseException]] = [OSError, RuntimeError, ValueError, TypeError]
    for module, names in _FOREIGN.items():
        loaded = sys.modules.get(module)
        found.extend(getattr(loaded, name) for name in names if hasattr(loaded, name))
    return tuple(found)


@contextmanager
def library_errors_named(location: str, key: str, doing: str) -> Iterator[None]:
    """Convert an error of a library in the block to one of this package; arguments as for `disk_failure`."""
    try:
        yield
    except ZarrBackendError as error:
        error.locate(location)
        raise
    except BaseException as error:
        if not isinstance(error, library_errors()) and type(error).__module__ != _OF_PANIC:  # such as an interruption
            raise
        raise _library_failure(error, location, key, doing) from error


def _library_failure(error: BaseException, location: str, key: str, doing: str) -> ZarrBackendError:
    what, path, text = repr(key) if key else "the store", node_of(key), _reason(error)
    lack = resource_failure(error, doing, store=location, path=path if key else None, what=what)
    if lack is not None:
        return lack
    if isinstance(error, OSError) and error.errno is not None:
        named = error.filename if isinstance(error.filename, str) else ""
        if error.errno in _FULL or os.path.isabs(named):  # of this machine: no library that reports on a server
            return disk_failure(error, location, key, doing)
    if _NO_RANGES.search(text):
        return without_ranges(location, key)
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
    elif _is_refusal(error):
        kind = StoreRefusedError
        python, typed = _ANONYMOUS.get(location.partition("://")[0], ("anon=True", "anon=true"))
        remedy = f"Check the credentials in storage_options or the environment; {python} reads a public bucket."
        remedy_cli = "Check the credentials in the environment, or give them with -O NAME=VALUE; "
        remedy_cli += f"-O {typed} reads a public bucket."
    return kind(problem, store=location, path=path, remedy=remedy, remedy_cli=remedy_cli)


def without_ranges(location: str, key: str) -> StoreError:
    """Return the error for a server that sends complete files only; parameters as for `disk_failure`."""
    problem = f"the server does not support byte ranges, and {key!r} cannot be read without them"
    return StoreError(problem, store=location, path=node_of(key), remedy="Download the file, and open the copy.")


def raise_if_not_absent(error: BaseException) -> None:
    """Raise an error about an absent key, if in fact the bucket does not exist, or the server failed."""
    if _NO_BUCKET.search(str(error)):
        raise error
    cause = error.__cause__  # fsspec reports any failure of a web server as absence
    if isinstance(cause, ZarrBackendError):
        raise cause
    is_of_server = isinstance(cause, library_errors()) and not isinstance(cause, _NOT_OF_SERVER)
    if cause is not None and is_of_server and status_of(cause) not in (404, 410):
        raise cause


def _is_refusal(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _REFUSED or status_of(error) in (401, 403) or _NO_CREDENTIALS.search(str(error)))


def status_of(error: BaseException) -> int | None:
    """Return the status of the HTTP response in an error, or None; the libraries have four names for it."""
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}  # of botocore
    numbers = (*(getattr(error, name, None) for name in _STATUS), metadata.get("HTTPStatusCode"))
    return next((number for number in numbers if isinstance(number, int)), None)


def _reason(error: BaseException) -> str:
    """Return the text of an error in one line of bounded length."""
    text, _, details = str(error).partition("\nDebug source")
    text = " ".join(text.split()) or type(error).__name__
    cause = _CAUSE.search(details)  # the text before it is only "error sending request"
    if cause is not None:
        text = f"{text}: {cause[1] or cause[2]}"
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}..."
