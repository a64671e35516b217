"""A local directory as keys and bytes.

It is done with the operating system's own calls, since a node of an NWB file is a few hundred bytes and a detour
through an event loop costs ten times that.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.model.nodes import join
from hdmf_zarr_backend.stores.base import (
    DOCUMENTS,
    KeyStore,
    Range,
    check_value_size,
    is_outside,
    refuse_outside,
)
from hdmf_zarr_backend.stores.disk import (
    READING,
    create_file,
    disk_failure,
    followed,
    is_folder,
    make_folder,
    read_part,
    read_rest,
    size_of,
    told,
    write_all,
    write_file,
)
from hdmf_zarr_backend.stores.durable import sync_files
from hdmf_zarr_backend.stores.file_state import FileState
from hdmf_zarr_backend.stores.json_text import parse_fast
from hdmf_zarr_backend.stores.open_value import OpenValue
from hdmf_zarr_backend.stores.pinned import PinnedFolder

_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")


class LocalKeys(KeyStore):
    """A local directory.

    Parameters
    ----------
    root : str
        Absolute path of the directory. It need not exist. A symbolic link is followed, once.
    replace : bool
        Write each key beside its place and rename it there (for files that others may be reading). In a directory that
        nobody knows of yet this is not needed.
    location : str, optional
        What links and messages name, if it is not ``root`` (a directory that will be renamed).
    """

    opens_values = True
    streams_values = True

    def __init__(self, root: str, *, replace: bool = True, location: str | None = None) -> None:
        self.root = self.folder = followed(root)
        self.location = location if location is not None else root
        self._replace = replace
        self._made: set[str] = set()
        self._pinned: PinnedFolder | None = None

    def __repr__(self) -> str:
        return f"LocalKeys({self.root!r})"

    def pin(self) -> None:
        """Read from the directory that is there now; a value that is gone since it was replaced is an error then."""
        self._pinned = PinnedFolder.at(self.root)

    def _check_pinned(self) -> None:
        if self._pinned is not None:
            self._pinned.check(self.location)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": set()}  # which folders there are is not sent along with each task

    def _path(self, key: str) -> str:
        if is_outside(key) or (os.sep == "\\" and "\\" in key):
            raise StoreError(f"the key {key!r} leads out of the store", store=self.location, remedy="Do not trust it.")
        return f"{self.root}/{key}"

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        found = self._open(key)
        if found is None:
            return None
        file, size = found
        try:
            value = os.read(file, size + 1)
            if len(value) == size:
                return value
            return value + read_rest(file)  # it is larger than one call reads, or is being written
        except OSError as error:
            raise disk_failure(error, self.location, key, "read") from error
        finally:
            os.close(file)

    def open_value(self, key: str) -> OpenValue | None:
        """Return the value of ``key``, open, to read parts of it; None where it is not there."""
        found = self._open(key)
        return None if found is None else OpenValue(*found)

    def _open(self, key: str) -> tuple[int, int] | None:
        """Open the file of a value, and return it with its size."""
        file = self._descriptor(key)
        if file is None:
            return None
        try:
            info = os.fstat(file)
            if not stat.S_ISREG(info.st_mode):
                what = "a directory" if stat.S_ISDIR(info.st_mode) else "no plain file"
                raise StoreError(f"the key {key!r} is {what}", store=self.location, remedy="Restore it from a copy.")
            check_value_size(self, key, info.st_size)
        except BaseException:
            os.close(file)
            raise
        return file, info.st_size

    def _descriptor(self, key: str) -> int | None:
        path = self._path(key)
        try:
            if self._pinned is None or not key:
                return os.open(path, READING)
            return self._pinned.open(key, READING)
        except (FileNotFoundError, NotADirectoryError, UnicodeEncodeError):
            self._check_pinned()
            return None  # a surrogate is in no name
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return None  # nobody can have set it
            raise disk_failure(error, self.location, key, "read") from error

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        found = self._descriptor(key)
        if found is None:
            return None
        try:
            with open(found, "rb", buffering=0) as file:
                size = os.fstat(found).st_size
                return [read_part(file, *slice(start, stop).indices(size)[:2]) for start, stop in ranges]
        except OSError as error:
            raise disk_failure(error, self.location, key, "read") from error

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``."""
        path = self._path(key)
        try:
            self._make_parent(path)
            if self._replaces(key):
                self._write_beside(path, value)
            else:
                write_file(path, value, exclusive=False)
        except OSError as error:
            raise disk_failure(error, self.location, key, "written") from error

    def _make_parent(self, path: str) -> None:
        parent = os.path.dirname(path)
        if parent not in self._made:
            self._check_pinned()
            make_folder(parent, inside=self.root if self._made else "")
            self._made.add(parent)

    @staticmethod
    def _write_beside(path: str, value: bytes) -> None:
        partial = f"{path}.{uuid.uuid4().hex}.partial"
        try:
            write_file(partial, value)
            os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise

    @contextmanager
    def stream(self, key: str) -> Iterator[Callable[[bytes], None]]:
        """Give what appends to a new value of ``key``, which is set when the block ends without an error."""
        path, owner = self._path(key), os.getpid()
        partial = f"{path}.{uuid.uuid4().hex}.partial"

        def append(piece: bytes) -> None:
            with told(self.location, "written", key):
                write_all(file, piece)

        try:
            with told(self.location, "written", key):
                self._make_parent(path)
                file = create_file(partial)
            try:  # what the block raises does not come from here
                yield append
            finally:
                os.close(file)
            with told(self.location, "written", key):
                os.replace(partial, path)
        except BaseException:
            if owner == os.getpid():  # a fork that ends has not failed
                with suppress(OSError):
                    os.unlink(partial)
            raise

    def _replaces(self, key: str) -> bool:
        """Tell whether a value is written beside its place first."""
        return self._replace

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        for key in keys:
            try:
                os.unlink(self._path(key))
            except (FileNotFoundError, NotADirectoryError, UnicodeEncodeError):
                pass
            except OSError as error:
                raise disk_failure(error, self.location, key, "deleted") from error

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents; arrays are not searched for chunks."""
        stack = [""]
        while stack:
            prefix = stack.pop()
            names = {entry.name: entry for entry in self._entries(prefix)}
            yield from (prefix + name for name in names if name in DOCUMENTS)
            if ".zarray" not in names and not self._has_chunks(prefix, names):
                stack.extend(f"{prefix}{name}/" for name, entry in names.items() if is_folder(entry))

    def _has_chunks(self, prefix: str, names: Iterable[str]) -> bool:
        """Tell whether folders below a document of format 3 are those of chunks; a group may have a member ``c``."""
        if "zarr.json" not in names or not any(name == "c" or name.isdigit() for name in names):
            return False
        try:
            document = parse_fast(self.get(f"{prefix}zarr.json") or b"")
        except (ValueError, RecursionError):
            return False  # whoever reads it will say so
        return isinstance(document, dict) and document.get("node_type") == "array"

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        start = f"{prefix}/" if prefix else ""
        found: dict[str, int] = {}
        stack = [start]
        while stack:
            here = stack.pop()
            for entry in self._entries(here):
                if is_folder(entry):
                    stack.append(f"{here}{entry.name}/")
                elif (size := size_of(entry)) is not None:
                    found[here + entry.name] = size
        return found

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        try:
            return list(os.scandir(f"{self.root}/{prefix}"))
        except (FileNotFoundError, NotADirectoryError, UnicodeEncodeError):
            return []
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return []
            raise disk_failure(error, self.location, prefix.rstrip("/"), "listed") from error

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        return os.path.lexists(self.root)

    def delete_below(self, path: str) -> None:
        """Delete everything at and below ``path``; of a symbolic link the link itself, never what it leads to."""
        top = self._path(path)
        self._made.clear()
        with told(self.location, "deleted", path):
            if os.path.islink(top):
                os.unlink(top)
                return
            for folder, folders, files in os.walk(top, topdown=False):
                for name in (*files, *(name for name in folders if os.path.islink(f"{folder}/{name}"))):
                    os.unlink(f"{folder}/{name}")
                with suppress(OSError):  # something came to be in it
                    os.rmdir(folder)

    def delete_unfinished(self, folders: Iterable[str]) -> None:
        """Delete the files in ``folders`` that were being written when their writer died."""
        for folder in folders:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{self.root}/{folder}") as entries:
                for entry in entries:
                    if _PARTIAL.search(entry.name) and entry.is_file(follow_symlinks=False):
                        os.unlink(entry.path)

    def link_value(self, source: str, target: str) -> bool:
        """Give the value of ``source`` a second key by a hard link; return whether the file system made one."""
        if is_outside(source):
            return False
        try:
            if not stat.S_ISREG(os.lstat(f"{self.root}/{source}").st_mode):
                return False  # a symbolic link may lead somewhere else from another place
            os.link(f"{self.root}/{source}", f"{self.root}/{target}")
        except OSError:
            return False  # not every file system has such links
        return True

    def sync(self) -> None:
        """Wait until everything that was set is on the disk."""
        with told(self.location, "written"):
            sync_files(self.root)

    def is_empty_folder(self) -> bool:
        """Return whether the folder is there, and nothing in it that could be lost."""
        if not os.path.isdir(self.root):
            return False
        with told(self.location, "read"), os.scandir(self.root) as entries:
            return next(entries, None) is None

    def state(self, key: str) -> FileState | None:
        """Return size and time of a file, None where it is not there."""
        try:
            found = os.stat(os.path.join(self.root, key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileState(found.st_size, None, found.st_mtime_ns)

    def keys_outside(self, arrays: Collection[str]) -> Iterator[str]:
        """Yield the keys that are not below an array; the folders of arrays are not searched."""
        stack = [] if "" in arrays else [""]
        while stack:
            here = stack.pop()
            for entry in self._entries(here):
                path = join(here, entry.name)
                if not is_folder(entry):
                    yield path
                elif path not in arrays:
                    stack.append(path)

    def names_without_values(self, path: str) -> Iterator[str]:
        """Yield the names below ``path/`` that have no value but a folder, a pipe or a device."""
        stack = [path]
        while stack:
            here = stack.pop()
            for entry in self._entries(here):
                place = join(here, entry.name)
                if is_folder(entry):
                    stack.append(place)
                if size_of(entry) is None and self.is_blocked(place):
                    yield place[len(path) + 1 if path else 0 :]

    def is_blocked(self, key: str) -> bool:
        """Return whether a folder, a pipe or a device is where the value of a key would be."""
        if is_outside(key):
            return False
        try:
            return not stat.S_ISREG(os.stat(f"{self.root}/{key}").st_mode)
        except (OSError, ValueError):
            return False  # nothing is there, or nothing can be called so

    def check_inside(self, names: Iterable[str], paths: Iterable[str]) -> None:
        """Refuse keys and paths of nodes that lead out of the folder, by their name or by a symbolic link."""
        names, paths = list(names), list(paths)
        super().check_inside(names, paths)
        root = os.path.realpath(self.root)
        for folder in {name.rpartition("/")[0] for name in names} | set(paths):
            real = self._real(folder)
            if not f"{real}/".startswith(f"{root}/") or (folder in paths and real == root):
                refuse_outside([folder], self.location)

    def _real(self, folder: str) -> str:
        try:
            return os.path.realpath(os.path.join(self.root, folder))
        except UnicodeEncodeError:  # no file system has such a name
            return ""
