"""What the libraries of remote stores raise -> one error of ours that names the store, the node and the key.

What is transient has been tried again already, by `stores.retries`.

Source: issue "Format 3, shards, and any store, near or far", part 5.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.errors import (
    StoreError,
    StoreNotFoundError,
    StoreRefusedError,
    StoreUnreachableError,
    ZarrBackendError,
)
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import DOCUMENTS
from hdmf_zarr_backend.stores.disk import disk_failure, is_of_disk

_FOREIGN = {
    "aiohttp": ("ClientError",),
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "obstore.exceptions": ("BaseError",),
    "gcsfs.retry": ("HttpError",),
    "google.auth.exceptions": ("GoogleAuthError",),
    "azure.core.exceptions": ("AzureError",),
    "icechunk": ("IcechunkError",),
}
_REFUSED = frozenset(
    {
        "PermissionDeniedError",
        "UnauthenticatedError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ClientAuthenticationError",
        "GoogleAuthError",
    }
)
_REFUSED_STATUS = (401, 403)
_STATUS = ("status", "status_code", "code")  # aiohttp, azure, gcsfs
# what servers say of a bucket that is not there; the libraries have no type for it
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist", re.IGNORECASE)
_NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|metadata\.google\.internal|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|^Forbidden: |status code: 40[13] "
)
_NO_RANGES = re.compile(r"range request not supported|does(?: not|n't) support range", re.IGNORECASE)
_CAUSE = re.compile(r'message: "([^"]*)"|"(dns error)"')
_ABSENT_STATUS = (404, 410)
_NOT_OF_SERVER = (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError, TypeError, RuntimeError)
_ANONYMOUS = {"gs": 'token="anon"', "gcs": 'token="anon"'}
_CHUNK_FOLDERS = re.compile(r"(^|/)c(/\d+)*$")
_LETTERS = 300


def library_errors() -> tuple[type[BaseException], ...]:
    """Return what libraries of stores raise, as far as they are loaded; for ``except library_errors():``."""
    found: list[type[BaseException]] = [OSError, RuntimeError, ValueError, TypeError]
    for module, names in _FOREIGN.items():
        loaded = sys.modules.get(module)
        found.extend(getattr(loaded, name) for name in names if hasattr(loaded, name))
    return tuple(found)


@contextmanager
def telling(location: str, key: str, doing: str) -> Iterator[None]:
    """Let what a library raises be an error of ours, which names store and key; parameters as of `failure`."""
    try:
        yield
    except ZarrBackendError as error:
        raise error.located(store=location) from error.__cause__
    except library_errors() as error:
        raise failure(error, location, key, doing) from error


def failure(error: BaseException, location: str, key: str, doing: str) -> StoreError:
    """Return our error for one that a library raised.

    Parameters
    ----------
    error : Exception
        What was raised.
    location : str
        Path or URL of the file.
    key : str
        The key, or the prefix that was listed.
    doing : str
        What was tried: ``"read"``, ``"written"``, ``"deleted"``, ``"listed"``.
    """
    if isinstance(error, OSError) and is_of_disk(error):
        return disk_failure(error, location, key, doing)
    text = reason(error)
    if _NO_RANGES.search(text):
        return without_ranges(location, key)
    problem = f"{key!r} could not be {doing}: {text}" if key else f"the store could not be {doing}: {text}"
    path = node_of(key)
    # a key can be written wherever there is a bucket; some libraries say no more than that something is not there
    if is_no_bucket(error) or (doing == "written" and isinstance(error, FileNotFoundError)):
        remedy = "Check the name of the bucket, and the endpoint."
        return StoreNotFoundError(f"there is no such bucket; {problem}", store=location, path=path, remedy=remedy)
    if _is_refusal(error):
        anonymous = _ANONYMOUS.get(location.partition("://")[0], "anon=True")
        remedy = f"Check the credentials in storage_options or the environment; {anonymous} reads a public bucket."
        return StoreRefusedError(problem, store=location, path=path, remedy=remedy)
    remedy = "Check the address and whether the server is up; what was read so far is right, try again later."
    if doing not in ("read", "listed"):
        remedy = "Check the address and whether the server is up; what was written is not complete, write it again."
    return StoreUnreachableError(problem, store=location, path=path, remedy=remedy)


def without_ranges(location: str, key: str) -> StoreError:
    """Return the error for a server that sends whole files only; parameters as of `failure`."""
    return StoreError(
        f"the server does not support byte ranges, and {key!r} cannot be read without them",
        store=location,
        path=node_of(key),
        remedy="Download the file, and open the copy.",
    )


def is_no_bucket(error: BaseException) -> bool:
    """Tell whether the bucket itself is not there, where the key might only be absent."""
    return _NO_BUCKET.search(str(error)) is not None


def tell_of_bucket(error: BaseException) -> None:
    """Raise an error that says that a key is not there, if it is the bucket that is not there, or the server."""
    if is_no_bucket(error):
        raise error
    cause = error.__cause__  # fsspec says so of a web server whatever went wrong
    is_of_server = isinstance(cause, library_errors()) and not isinstance(cause, _NOT_OF_SERVER)
    if cause is not None and is_of_server and status_of(cause) not in _ABSENT_STATUS:
        raise cause


def _is_refusal(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, PermissionError) or names & _REFUSED:
        return True
    return status_of(error) in _REFUSED_STATUS or _NO_CREDENTIALS.search(str(error)) is not None


def status_of(error: BaseException) -> int | None:
    """Return the status of the HTTP answer that an error is about, or None; its libraries have three names for it."""
    found: Any = next((getattr(error, name) for name in _STATUS if isinstance(getattr(error, name, None), int)), None)
    response = getattr(error, "response", None)
    if found is None and isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return found if isinstance(found, int) else None


def reason(error: BaseException) -> str:
    """Return what a library says of its error, in one line of bounded length."""
    text, _, details = str(error).partition("\nDebug source")
    text = " ".join(text.split()) or type(error).__name__
    cause = _CAUSE.search(details)  # obstore says no more than "error sending request" before that
    if cause is not None:
        text = f"{text}: {cause[1] or cause[2]}"
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}..."


def node_of(key: str) -> str:
    """Return the absolute path of the node that a key of a document or a chunk belongs to."""
    parent, _, name = key.rpartition("/")
    if name not in DOCUMENTS:
        parent = _CHUNK_FOLDERS.sub("", parent)
    return absolute(parent)
