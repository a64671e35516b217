"""A value as a file of the system: written, read in part, and what the system refuses told in words of ours.

Source: issue "Nothing lost, nobody let in", part 6: a full disk, no permission, a directory that vanishes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.errors import (
    StoreError,
    StoreExistsError,
    StoreFullError,
    StoreNotFoundError,
    StoreRefusedError,
    StoreUnreachableError,
    ZarrBackendError,
)

READING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""How the file of a value is opened; a pipe in its place must not make the reader wait."""

NO_LINKS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
"""Flags for opening a file of ours for writing: a symbolic link is refused, and a pipe does not block."""

_READ_BYTES = 2**24

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_GONE = (errno.ENOENT, errno.ENOTDIR)
_SILENT = tuple(getattr(errno, name) for name in ("ETIMEDOUT", "ESTALE", "EHOSTDOWN") if hasattr(errno, name))


def followed(path: str) -> str:
    """Return the path that the symbolic link at ``path`` leads to; ``path`` itself if it is not a link.

    A new file is made beside the file that it replaces, and renamed to it, so that the link stays.
    """
    return os.path.realpath(path) if os.path.islink(path) else path


def check_followed(path: str) -> None:
    """Refuse to write to a symbolic link that leads nowhere: a disk may be missing there.

    Raises
    ------
    StoreExistsError
        Such a link is at ``path``.
    """
    if os.path.islink(path) and not os.path.exists(path):
        raise StoreExistsError(
            f"this is a symbolic link to {os.readlink(path)!r}, which does not exist",
            store=path,
            remedy="Delete the link, or create what it should lead to.",
        )


def read_rest(file: int) -> bytes:
    """Return what is left of an open file."""
    parts = []
    while part := os.read(file, _READ_BYTES):
        parts.append(part)
    return b"".join(parts)


def read_part(file: Any, start: int, stop: int) -> bytes:
    """Return the bytes ``start:stop`` of a file object, fewer where it ends before."""
    parts, left = [], max(0, stop - start)
    file.seek(start)
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def make_folder(path: str, *, inside: str = "") -> None:
    """Make a folder, and those above it.

    Parameters
    ----------
    path : str
        The folder.
    inside : str
        A folder above it that has to be there: one that was removed is not made anew, with a part of what was in it.

    Raises
    ------
    FileNotFoundError
        ``inside`` is not there.
    """
    if inside:
        os.stat(inside)
    try:
        os.mkdir(path)  # most often the one above is there
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)


def create_file(path: str, *, exclusive: bool = True) -> int:
    """Open a file for writing and return its descriptor; a symbolic link, pipe or device in its place is refused.

    Parameters
    ----------
    path : str
        The file.
    exclusive : bool
        The file must not exist yet. False: a regular file that exists is emptied.

    Raises
    ------
    OSError
        Naming ``path``.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | NO_LINKS | (os.O_EXCL if exclusive else 0), 0o666)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        if not exclusive:
            os.ftruncate(file, 0)
    except BaseException:
        os.close(file)
        raise
    return file


def write_file(path: str, value: bytes, *, exclusive: bool = True) -> None:
    """Write a file; arguments as of `create_file`."""
    file = create_file(path, exclusive=exclusive)
    try:
        write_all(file, value)
    finally:
        os.close(file)


def write_all(file: int, value: bytes) -> None:
    """Append all of ``value`` to an open file, in as many calls as the system needs."""
    view = memoryview(value)
    while view.nbytes:
        view = view[os.write(file, view) :]


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether to look into an entry; links that lead back to a folder on the way to them would never end."""
    if not entry.is_symlink():
        return entry.is_dir()
    folder, above = os.path.realpath(entry.path), os.path.dirname(entry.path)
    if not os.path.isdir(folder):
        return False
    while os.path.commonpath([folder, os.path.realpath(above)]) != folder:
        if above == os.path.dirname(above):
            return True
        above = os.path.dirname(above)
    return False


def size_of(entry: os.DirEntry[str]) -> int | None:
    """Return the bytes of a file; None of what is no file, such as a symbolic link that leads to itself."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except OSError as error:
        if error.errno in (errno.ELOOP, *_GONE):
            return None
        raise


def disk_failure(error: OSError, location: str, key: str, doing: str) -> StoreError:
    """Return our error for what the system refused.

    Parameters
    ----------
    error : OSError
        What was raised.
    location : str
        Path of the file.
    key : str
        The key, ``""`` for the file as a whole.
    doing : str
        What was tried: ``"read"``, ``"written"``, ``"deleted"``, ``"listed"``, ``"opened"``.
    """
    # only where something is refused: that module knows the keys, which know this one
    from hdmf_zarr_backend.stores.failures import node_of

    what = repr(key) if key else "the file"
    problem = f"{what} could not be {doing}: {error.strerror or str(error) or type(error).__name__}"
    kind, remedy = _kind(error, is_writing=doing not in ("read", "listed"))
    return kind(problem, store=location, path=node_of(key) if key else None, remedy=remedy)


def is_of_disk(error: OSError) -> bool:
    """Tell whether it is this system that refused something, and not a library that speaks of a server."""
    named = error.filename if isinstance(error.filename, str) else ""
    return error.errno in _FULL or (error.errno is not None and os.path.isabs(named))


def _kind(error: OSError, *, is_writing: bool) -> tuple[type[StoreError], str]:
    if error.errno in _FULL:
        return StoreFullError, "Make room, and write it again."
    if error.errno in _REFUSED:
        return StoreRefusedError, "Look at the permissions of the folder and of what is in it."
    if error.errno in _SILENT:
        return StoreUnreachableError, "The file system did not answer; try again when it does."
    if error.errno == errno.ENAMETOOLONG:
        return StoreError, "This file system holds no names that are so long: rename it, or write to another place."
    if error.errno in _GONE and is_writing:
        return StoreNotFoundError, "Its folder was removed or moved meanwhile; write it again."
    if error.errno in _GONE:
        return StoreNotFoundError, "Check the path of what it is read from."
    return StoreError, "A disk may be failing: look at the log of the system before anything else is written there."


@contextmanager
def told(location: str, doing: str, key: str = "") -> Iterator[None]:
    """Tell what the system refuses in the block as an error of ours; arguments as of `disk_failure`."""
    try:
        yield
    except ZarrBackendError:
        raise
    except OSError as error:
        raise disk_failure(error, location, key, doing) from error
