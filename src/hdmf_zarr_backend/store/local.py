"""`LocalStore`: a local directory as a store, by direct calls of the operating system.

A node of an NWB file has a few hundred bytes, and reading it through an event loop takes ten times as long.

Source: Linux's ``syncfs``, which writes all of a file system to its disk.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import io
import os
import re
import stat
import sys
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.errors import ChunkError, StoreError, UsageError, ZarrBackendError
from hdmf_zarr_backend.model.json_text import parse_fast
from hdmf_zarr_backend.store import base

NO_LINKS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Flags for opening one of our files for writing: a symbolic link is refused, and a pipe does not block."""

READING = os.O_RDONLY | NO_LINKS & ~getattr(os, "O_NOFOLLOW", 0)  # flags for opening the file of a value for reading
PARTIAL = ".partial"
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_NO_FILE = (errno.ENXIO, errno.EISDIR, errno.ESPIPE)  # what opening or reading a socket, a folder and a pipe raises
_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")


class LocalStore(base.Store):
    """A local directory."""

    stream_bytes = 0

    def __init__(self, root: str, *, location: str | None = None) -> None:
        self.root = self.folder = follow_link(root)
        self.location = location if location is not None else root
        self._folders: set[str] = set()  # exist already, so that a chunk does not look for them again
        self._opened: OpenFolder | None = None

    def pin(self) -> None:
        """Keep reading the present directory; after it was replaced, an absent value is an error."""
        opened = OpenFolder(self.root)
        self._opened = opened if opened.is_open else None

    def _check_opened(self) -> None:
        if self._opened is not None:
            self._opened.check(self.location)

    def __getstate__(self) -> dict[str, Any]:
        # a file with many arrays has many folders, which would be sent along with each task
        return {**self.__dict__, "_folders": set()}

    def _path(self, key: str) -> str:
        if base.is_outside(key) or (os.sep == "\\" and "\\" in key):
            raise base.outside_error(key, self.location)
        return f"{self.root}/{key}"

    def get(self, key: str) -> bytes | None:
        opened = self._open(key)
        if opened is None:
            return None
        file, size = opened
        try:
            # almost all values take one call; a file object of Python would need several
            value = os.read(file, size + 1)
            if len(value) == size:
                return value
            # Linux reads at most 2 GiB in one call; or the value is just being written
            with open(file, "rb", buffering=0, closefd=False) as rest:
                return value + rest.readall()
        except OSError as error:
            raise base.disk_failure(error, self.location, key, "read") from error
        finally:
            base.close_read(file)

    def open_value(self, key: str) -> base.OpenValue | None:
        opened = self._open(key)
        return None if opened is None else base.OpenValue(*opened, key)

    def _open(self, key: str) -> tuple[int, int] | None:
        """Open the file of a value, and return it with its size."""
        file = self._descriptor(key)
        if file is None:
            return None
        try:
            with base.os_errors(self.location, "read", key):
                info = os.fstat(file)
            # a pipe would block, and a device may have no end
            if not stat.S_ISREG(info.st_mode):
                raise self._not_a_file(key)
            base.check_value_size(self, key, info.st_size)
        except BaseException:
            base.close_read(file)
            raise
        return file, info.st_size

    def _descriptor(self, key: str) -> int | None:
        path = self._path(key)
        try:
            if self._opened is None or not key:
                return os.open(path, READING)
            return self._opened.open(key, READING)
        except (OSError, UnicodeEncodeError) as error:
            if getattr(error, "errno", None) in _NO_FILE:
                raise self._not_a_file(key) from error
            self._raise_unless_absent(error, key, "read")
            self._check_opened()
            return None

    def _not_a_file(self, key: str) -> ZarrBackendError:
        kind = StoreError if base.is_document(key) or key.startswith(base.JOURNAL) else ChunkError
        problem = f"the key {key!r} is a folder, a pipe or a device, not a file"
        return kind(problem, store=self.location, path=base.node_of(key), remedy="Restore it from a copy.")

    def _raise_unless_absent(self, error: OSError | UnicodeEncodeError, key: str, doing: str) -> None:
        """Raise the error of a call that failed, unless the key does not exist, or no file can have its name."""
        if isinstance(error, OSError) and error.errno not in _ABSENT:
            raise base.disk_failure(error, self.location, key, doing) from error

    def get_ranges(self, key: str, ranges: Sequence[base.Range]) -> list[bytes] | None:
        descriptor = self._descriptor(key)
        if descriptor is None:
            return None
        try:
            with open(descriptor, "rb", buffering=0) as file:
                size = os.fstat(descriptor).st_size
                return [read_part(file, *slice(start, stop).indices(size)[:2]) for start, stop in ranges]
        except OSError as error:
            if error.errno in _NO_FILE:
                raise self._not_a_file(key) from error
            raise base.disk_failure(error, self.location, key, "read") from error

    def _set(self, key: str, value: bytes) -> None:
        path = self._path(key)
        partial = _partial(path) if self._replaces(key) else path
        # no context managers: they take a quarter of the time of a small value
        try:
            self._make_parent(path)
            file = create_file(partial)
            try:
                write_all(file, value)
                self._sync_file(file, key)
            finally:
                os.close(file)
            if partial != path:
                os.replace(partial, path)
        except BaseException as error:
            if partial != path:
                with suppress(OSError):
                    os.unlink(partial)
            if isinstance(error, OSError):
                raise base.disk_failure(error, self.location, key, "written") from error
            raise

    def _replaces(self, key: str) -> bool:
        """Return whether a value is written to another file first, and renamed."""
        return True

    def _sync_file(self, file: int, key: str) -> None:
        """Wait for the disk before a file at the root gets its name: else a power cut may leave a part of it."""
        if self.is_durable and "/" not in key:
            os.fsync(file)

    def _make_parent(self, path: str) -> None:
        parent = os.path.dirname(path)
        if parent not in self._folders:
            self._check_opened()
            if not self._folders:
                self._make_root()
            # one by one below the root: if somebody has removed the file meanwhile, makedirs would create half of one
            folder = self.root
            for name in parent.removeprefix(folder).split("/")[1:]:
                folder = f"{folder}/{name}"
                if folder not in self._folders:
                    # where a file has the name of the folder, creating the value below it raises the better error
                    try:
                        os.mkdir(folder)
                    except OSError:  # network file systems have other errors too for a folder that exists
                        if not os.path.lexists(folder):
                            raise
                    self._folders.add(folder)
            self._folders.add(parent)

    def _make_root(self) -> None:
        with suppress(FileExistsError):
            os.makedirs(self.root, exist_ok=True)

    @contextmanager
    def _stream(self, key: str) -> Iterator[base.Write]:
        path, owner = self._path(key), os.getpid()
        partial = _partial(path)
        errors = functools.partial(base.os_errors, self.location, "written", key)
        with errors():
            self._make_parent(path)
            file = io.FileIO(create_file(partial), "wb")

        def append(piece: bytes) -> None:
            with errors():
                write_all(file.fileno(), piece)

        try:
            yield append  # outside of `errors`: those of the caller's block are not of this file
            with errors():
                self._sync_file(file.fileno(), key)
                file.close()
                os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                file.close()
            # a fork that ends inside of the block must not delete what its parent is writing
            with suppress(OSError):
                if owner == os.getpid():
                    os.unlink(partial)
            raise

    def _delete(self, keys: Iterable[str]) -> None:
        parents: set[str] = set()
        for key in keys:
            path = self._path(key)
            try:
                os.unlink(path)
                parents.add(os.path.dirname(path))
            except (OSError, UnicodeEncodeError) as error:
                self._raise_unless_absent(error, key, "deleted")
        # a node that was removed would leave its folders, in which people look for it
        for parent in sorted(parents, reverse=True):
            folder = parent
            with suppress(OSError):  # it is not empty
                while folder != self.root:
                    os.rmdir(folder)
                    self._folders.discard(folder)
                    folder = os.path.dirname(folder)

    def list_documents(self) -> Iterator[str]:
        stack = [""]
        while stack:
            prefix = stack.pop()
            names = {entry.name: entry for entry in self._entries(prefix)}
            yield from (prefix + name for name in names if name in base.DOCUMENTS)
            is_array = ".zarray" in names  # an array may have a million chunks, and no documents below it
            # chunks of format 3 are below "c" or a number, which may also be names of members of a group
            if not is_array and "zarr.json" in names and any(name == "c" or name.isdigit() for name in names):
                with suppress(ValueError, RecursionError):  # of a document that is not JSON: reading it raises them
                    document = parse_fast(self.get(f"{prefix}zarr.json") or b"")
                    is_array = isinstance(document, dict) and document.get("node_type") == "array"
            if not is_array:
                stack.extend(f"{prefix}{name}/" for name, entry in names.items() if is_folder(entry))

    def sizes(self, prefix: str) -> dict[str, int]:
        return dict(self._sized(prefix))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return (key for key, _ in self._sized(prefix))  # who wants to know a few must not wait for a million

    def _sized(self, prefix: str) -> Iterator[tuple[str, int]]:
        files = ((key, size_of(entry)) for key, entry in self._walk(prefix))
        return ((key, size) for key, size in files if size is not None)

    def keys_outside(self, arrays: Collection[str]) -> Iterator[str]:
        yield from (key for key, _ in self._walk("", arrays))

    def _walk(self, path: str, closed: Collection[str] = ()) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield key and entry of all files below a path, except below ``closed``."""
        stack = [path] if path not in closed else []
        while stack:
            here = stack.pop()
            start = f"{here}/" if here else ""
            for entry in self._entries(here):
                key = start + entry.name
                if not is_folder(entry):
                    yield key, entry
                elif key not in closed:
                    stack.append(key)

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        folder = self._path(prefix)
        try:
            return list(os.scandir(folder))
        except (OSError, UnicodeEncodeError) as error:
            self._raise_unless_absent(error, prefix.rstrip("/"), "listed")
            return []

    def exists(self) -> bool:
        return os.path.lexists(self.root)

    def _delete_below(self, path: str) -> None:
        """Delete everything at and below ``path``; of a symbolic link the link itself, never its target."""
        top = self._path(path)
        self._folders.clear()
        with base.os_errors(self.location, "deleted", path):
            if os.path.islink(top):
                os.unlink(top)
                return
            for folder, folders, files in os.walk(top, topdown=False):
                for name in (*files, *(name for name in folders if os.path.islink(f"{folder}/{name}"))):
                    os.unlink(f"{folder}/{name}")
                with suppress(OSError):  # it is not empty
                    os.rmdir(folder)

    def _delete_unfinished(self, folders: Iterable[str], beginning: str = "") -> None:
        for prefix in (f"{folder}/" if folder else "" for folder in folders):
            for entry in self._entries(prefix):
                is_left = _PARTIAL.search(entry.name) or (beginning and entry.name.startswith(beginning))
                if is_left and entry.is_file(follow_symlinks=False):
                    self._delete([prefix + entry.name])

    def _copy_value(self, source: str, target: str) -> None:
        path, old = self._path(target), self._path(source)
        partial = _partial(path)
        try:
            # a relative symbolic link would have another target in another folder
            if stat.S_ISREG(os.lstat(old).st_mode):
                self._make_parent(path)
                os.link(old, partial)
                os.replace(partial, path)
                return
        except OSError:
            pass  # such as on exFAT, which has no hard links
        finally:
            # POSIX: rename does nothing if both names are the same file, and the first one stays
            with suppress(OSError):
                os.unlink(partial)
        super()._copy_value(source, target)

    def sync(self) -> None:
        if self.is_durable:
            with base.os_errors(self.location, "written"):
                sync_files(self.root)

    def is_empty_folder(self) -> bool:
        return os.path.isdir(self.root) and not self._entries("")

    def state(self, key: str) -> base.FileState | None:
        try:
            info = os.stat(self._path(key))
        except (OSError, UnicodeEncodeError) as error:
            self._raise_unless_absent(error, key, "read")
            return None
        return base.FileState(info.st_size, None, info.st_mtime_ns)

    def check_inside(self, names: Iterable[str], paths: Iterable[str]) -> None:
        names, paths = list(names), list(paths)
        super().check_inside(names, paths)
        root = os.path.realpath(self.root)
        for folder in {name.rpartition("/")[0] for name in names} | set(paths):
            try:
                real = os.path.realpath(os.path.join(self.root, folder))
            except UnicodeEncodeError as error:  # no file system has such a name
                raise base.outside_error(folder, self.location) from error
            if not f"{real}/".startswith(f"{root}/") or (folder in paths and real == root):
                problem = f"a symbolic link on the way to {folder!r} leads out of the store, or to its root"
                remedy = "If you made the link, put what it leads to in its place. Otherwise do not trust this file."
                raise StoreError(problem, store=self.location, remedy=remedy)


def _partial(path: str) -> str:
    return f"{path}.{uuid.uuid4().hex}.partial"


class OpenFolder:
    """A directory that is held open, so that reads never return content of another one that a rename put in its place.

    While a descriptor of a directory is open, the system does not reuse its number, and names are looked up in it
    wherever it was moved.
    """

    def __init__(self, root: str, identity: int | None = None) -> None:
        self._root, self._identity, self._descriptor = root, identity, -1
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_DIRECTORY"):
            return
        import resource  # exists on systems that can open directories

        # ValueError: not a path, such as one with a NUL
        with suppress(OSError, ValueError):
            self._descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._identity = os.fstat(self._descriptor).st_ino
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # half of the descriptors are for reading: a program may have hundreds of files open
        has_room = limit == resource.RLIM_INFINITY or self._descriptor <= limit // 2
        if self.is_open and (not has_room or identity not in (None, self._identity)):
            base.close_read(self._descriptor)
            self._identity, self._descriptor = identity, -1

    @property
    def is_open(self) -> bool:
        """Whether the directory exists, is the same, and not too many files are open."""
        return self._descriptor >= 0

    def __reduce__(self) -> tuple[object, ...]:
        # another process knows the directory by its number only, since machines number disks
        return OpenFolder, (self._root, self._identity)

    def __del__(self) -> None:
        if self.is_open:
            base.close_read(self._descriptor)

    def open(self, key: str, flags: int) -> int:
        """Open a file in the directory."""
        if not self.is_open:
            raise FileNotFoundError(errno.ENOENT, "", self._root)
        return os.open(key, flags, dir_fd=self._descriptor)

    def check(self, location: str) -> None:
        """Make sure that this directory still has its path."""
        with base.os_errors(location, "read"), suppress(FileNotFoundError):
            if self.is_open and os.path.samestat(os.stat(self._root), os.fstat(self._descriptor)):
                return
        problem = "the file was replaced or removed while it was open"
        raise StoreError(problem, store=location, remedy="Open it again.")


# ---- calls of the operating system -----------------------------------------------------------------------------------


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


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder to search; a link to a folder above itself would never end."""
    if not entry.is_symlink():
        return entry.is_dir()
    folder, above = os.path.realpath(entry.path), Path(entry.path).parents
    return os.path.isdir(folder) and not any(each.resolve().is_relative_to(folder) for each in above)


def size_of(entry: os.DirEntry[str]) -> int | None:
    """Return the size of a file in bytes; None for a folder, and for a symbolic link to nothing or to itself."""
    try:
        return None if entry.is_dir() else entry.stat().st_size
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR):
            return None
        raise


# ---- syncing to disk ------------------------------------------------------------------------------------------------


def sync_files(path: str) -> None:
    """Wait until all that was written to the file system of ``path`` is on its disk.

    This takes a few hundredths of the time of writing thousands of files; one call per file takes five times that time.
    """
    call = linux_call("syncfs")
    if call is None:
        # the journal of a durable writer may come from a system that has the call
        check_sync()
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if call(descriptor) != 0:
            raise last_error(path)
    finally:
        os.close(descriptor)


def check_sync() -> None:
    """Refuse to wait for the disk on a system that has no call for it."""
    if linux_call("syncfs") is None and not hasattr(os, "sync"):
        problem = "this system has no call that writes everything to disk"
        raise UsageError(problem, remedy="Leave out durable=True.", remedy_cli="Leave --durable out.")


def linux_call(name: str) -> Any:
    """Return a function of Linux's C library; None if it does not exist."""
    return getattr(ctypes.CDLL(None, use_errno=True), name, None) if sys.platform.startswith("linux") else None


def last_error(path: str) -> OSError:
    """Return the error of the last call of `linux_call`."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)
