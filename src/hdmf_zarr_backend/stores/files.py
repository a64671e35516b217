"""Local files and folders: reading, writing, moving into place in one step, syncing to disk, and cleaning up.

A file that is written beside its target has a name that begins with a dot and the name of the target, and ends in
``.partial``. On systems that cannot exchange two names, the old target gets the ending ``.old`` in addition while it is
replaced. What cannot be deleted gets the ending ``.left``, and is ignored afterwards.

Source: Linux's ``renameat2``, which exchanges two names or gives a name only where it is free, and ``syncfs``.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import shutil
import stat
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.errors import ChunkError, StoreExistsError, UsageError, warn

NO_LINKS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
"""Flags for opening one of our files for writing: a symbolic link is refused, and a pipe does not block."""

READING = os.O_RDONLY | NO_LINKS & ~getattr(os, "O_NOFOLLOW", 0)
"""Flags for opening the file of a value for reading."""

PARTIAL = ".partial"
RECORD = ".record"
_ASIDE = ".old"
_LEFT = ".left"
_NEW = "[0-9a-f]{32}"
_CONVERSION = "conversion-[0-9a-f]{12}"
_EITHER = f"({_NEW}|{_CONVERSION})"
_NAME_LETTERS = 40


# ---- reading and writing --------------------------------------------------------------------------------------------


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
            else:
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


def read_part(file: Any, start: int, stop: int) -> bytes:
    """Return the bytes ``start:stop`` of a file object, fewer at its end."""
    parts, left = [], max(0, stop - start)
    file.seek(start)
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def create_file(path: str) -> int:
    """Open an empty file for writing and return its descriptor; a symbolic link, pipe or device there is refused."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINKS, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return file


def write_all(file: int, value: bytes) -> None:
    """Append all of ``value`` to an open file, in as many calls as the system needs."""
    view = memoryview(value)
    while view.nbytes:
        view = view[os.write(file, view) :]


def follow_link(path: str) -> str:
    """Return the target of a symbolic link, beside which a new file is made, so that the link stays; else ``path``."""
    return os.path.realpath(path) if os.path.islink(path) else path


def check_link(path: str) -> None:
    """Refuse to write to a symbolic link whose target does not exist: a disk may be missing."""
    if os.path.islink(path) and not os.path.exists(path):
        raise StoreExistsError(
            f"this is a symbolic link to {os.readlink(path)!r}, which does not exist",
            store=path,
            remedy="Delete the link, or create its target.",
        )


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder to search; a link to a folder above itself would never end."""
    if not entry.is_symlink():
        return entry.is_dir()
    folder, above = os.path.realpath(entry.path), Path(entry.path).parents
    return os.path.isdir(folder) and not any(each.resolve().is_relative_to(folder) for each in above)


def size_of(entry: os.DirEntry[str]) -> int | None:
    """Return the size of a file in bytes; None for anything else, such as a symbolic link to itself."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR):
            return None
        raise


# ---- syncing to disk ------------------------------------------------------------------------------------------------


def sync_files(path: str) -> None:
    """Wait until all that was written to the file system of ``path`` is on its disk.

    This takes a few hundredths of the time of writing thousands of files; one call per file takes five times that time.
    """
    call = _linux_call("syncfs")
    if call is None:
        check_sync()  # a journal tells that its writer was durable, perhaps on another system
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if call(descriptor) != 0:
            raise _last_error(path)
    finally:
        os.close(descriptor)


def check_sync() -> None:
    """Refuse to wait for the disk on a system that has no call for it."""
    if _linux_call("syncfs") is None and not hasattr(os, "sync"):
        raise UsageError(
            "this system has no call that writes everything to disk",
            remedy="Leave out durable=True.",
            remedy_cli="Leave --durable out.",
        )


def sync_folder(path: str) -> None:
    """Wait until the names in a folder are on disk, after a rename; not needed where folders cannot be opened."""
    with suppress(PermissionError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _linux_call(name: str) -> Any:
    """Return a function of Linux's C library; None if it does not exist."""
    return getattr(ctypes.CDLL(None, use_errno=True), name, None) if sys.platform.startswith("linux") else None


def _last_error(path: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)


# ---- moving into place ----------------------------------------------------------------------------------------------

_AT_FDCWD = -100
_NO_REPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def replace(partial: str, target: str) -> None:
    """Move ``partial`` to ``target``, and delete the old target; if the move fails, the old target stays."""
    if not os.path.lexists(target):
        os.rename(partial, target)
        return
    if not _renameat2(partial, target, _EXCHANGE):
        aside = f"{partial}{_ASIDE}"
        os.rename(target, aside)
        try:
            os.rename(partial, target)
        except BaseException:
            os.rename(aside, target)
            raise
        partial = aside
    try:
        remove(partial)
    except OSError as error:
        warn(f"the new file is in its place; {partial!r}, the old one, stays: {error}", stacklevel=3)


def move_into_place(partial: str, target: str, *, exclusive: bool, durable: bool) -> None:
    """Move a complete file or folder to its place; with ``exclusive`` only if nothing is there."""
    if durable:
        sync_files(partial)
    (place if exclusive else replace)(partial, target)
    if durable:
        sync_folder(os.path.dirname(target))


def place(partial: str, target: str) -> None:
    """Move ``partial`` to ``target``, which must not exist, in one step among competing processes."""
    try:
        if _renameat2(partial, target, _NO_REPLACE):
            return
        if os.name == "nt":
            os.rename(partial, target)  # does not replace on Windows
        elif os.path.isfile(partial):
            try:
                os.link(partial, target)
            except OSError as error:
                if isinstance(error, FileExistsError) or os.path.lexists(target):
                    raise
                os.rename(partial, target)  # this file system has no hard links
            else:
                os.unlink(partial)
        else:
            os.mkdir(target)  # reserves the name in one step; a folder can be renamed onto an empty one
            try:
                os.rename(partial, target)
            except BaseException:
                with suppress(OSError):
                    os.rmdir(target)
                raise
    except FileExistsError as error:
        raise StoreExistsError(
            "another file was created there while this one was written, and it is not replaced",
            store=target,
            remedy="Choose another path, or mode 'w' to replace it.",
            remedy_cli="Choose another path, or use --overwrite to replace it.",
        ) from error


def _renameat2(one: str, other: str, flag: int) -> bool:
    """Rename according to ``flag``, in one step; return False if the system cannot."""
    call = _linux_call("renameat2")
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), flag) == 0:
        return True
    error = _last_error(other)
    if error.errno in _UNSUPPORTED:
        return False
    raise error


# ---- files beside a target -------------------------------------------------------------------------------------------


def partial_path(target: str) -> str:
    """Return a path beside ``target`` that is not used yet."""
    return _named(target, uuid.uuid4().hex)


def conversion_path(target: str, identity: str) -> str:
    """Return the path beside ``target`` of the folder of a conversion that can be continued, by its 12 hex digits."""
    return _named(target, f"conversion-{identity}")


def _named(target: str, name: str) -> str:
    folder, last = os.path.split(target)
    digest = hashlib.sha256(os.fsencode(last)).hexdigest()[:8]  # other names may have the same beginning
    return os.path.join(folder, f".{last[:_NAME_LETTERS]}.{digest}.{name}{PARTIAL}")


def _beside(target: str, names: str, ending: str = "") -> list[str]:
    """Return the paths beside ``target`` that belong to it, whose own names match a pattern and have an ``ending``."""
    folder = os.path.dirname(target)
    start = os.path.basename(_named(target, "")).removesuffix(PARTIAL)
    pattern = re.compile(re.escape(start) + names + re.escape(PARTIAL) + ending)
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if pattern.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def unfinished(target: str) -> list[str]:
    """Return the paths of the new files beside ``target`` whose writers are running or have died."""
    try:
        return _beside(target, _NEW)
    except OSError:  # the folder cannot be listed
        return []


def conversions(target: str) -> list[str]:
    """Return the paths of the folders of interrupted conversions to ``target``, also where only a record is left."""
    return sorted({path.removesuffix(RECORD) for path in _beside(target, _CONVERSION, rf"(\{RECORD})?")})


def restore_old(target: str) -> None:
    """Move the old target back to its place if a writer died between the two renames of its replacement.

    The caller must hold the lock of the file.
    """
    aside = [] if os.path.lexists(target) else _beside(target, _EITHER, rf"\{_ASIDE}")
    if aside:
        os.rename(aside[0], target)


def sweep(target: str) -> None:
    """Remove the new files that dead writers left beside ``target``, and old ones that were replaced.

    The caller must hold the lock of the file. A conversion may be continued, and stays.
    """
    done = [path + RECORD for path in conversions(target) if not os.path.lexists(path)]
    for path in [*_beside(target, _NEW), *_beside(target, _EITHER, rf"\{_ASIDE}"), *done]:
        with suppress(OSError):  # it belongs to another user; its name is never used again
            discard(path)


def remove(path: str) -> None:
    """Delete a file, a link or a folder with its content, of any depth."""
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):  # paths are too long, or folders nested too deep
        folders = [path]
        for folder in folders:  # all below are moved to the top
            for entry in list(os.scandir(folder)):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(os.path.join(path, uuid.uuid4().hex))
                    os.rename(entry.path, folders[-1])
        shutil.rmtree(path)


def discard(path: str) -> None:
    """Delete a file or folder; one that cannot be deleted is renamed."""
    try:
        remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        aside = f"{path}.{uuid.uuid4().hex[:8]}{_LEFT}"
        os.rename(path, aside)
        warn(f"{aside!r} could not be deleted: {error}; it is not needed", stacklevel=3)
