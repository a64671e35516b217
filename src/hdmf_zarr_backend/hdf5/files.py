"""HDF5 files that are read: `SourceFile`, opened by h5py; `FileBytes` and `RemoteFile`, read without the HDF5 library.

A `RemoteFile` is read in blocks by ranged requests, by h5py or by offset. h5py makes many small reads that are mostly
close together, so recently used blocks are kept, and the index of a file takes few requests.

The values of a dataset can be in other files: raw files ("external storage") and the sources of virtual datasets. Any
file can be a raw file, and HDF5 blocks on a pipe. Therefore a raw file is read by default only if it is inside the
folder of the HDF5 file. The source of a virtual dataset must be an HDF5 file, and is treated as an external link is.

Source: HDF5 reference manual, `H5Pset_external`, `H5Pset_virtual`, `H5Pset_alloc_time`.
"""

from __future__ import annotations

import glob
import math
import os
import re
import threading
import weakref
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import quote

import h5py
from h5py import h5d, h5g, h5l, h5o, h5z

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache
from hdmf_zarr_backend.encoding.hdf5_types import text_of
from hdmf_zarr_backend.errors import at, warn
from hdmf_zarr_backend.hdf5.filters import filters_of
from hdmf_zarr_backend.model.links import is_url, leads_up, resolve_source, why_not
from hdmf_zarr_backend.model.nodes import gc_paused, grid_of
from hdmf_zarr_backend.options import ExternalLinks, ReadOptions
from hdmf_zarr_backend.store.base import FileState, os_errors, resource_failure
from hdmf_zarr_backend.store.opening import open_parent
from hdmf_zarr_backend.store.zip import RangeFile

Address: TypeAlias = tuple[int, int]  # number of an open file, and the address of an object in it
_Source = tuple[str, int]  # a file, and the address of a dataset in it

# what h5py and NumPy raise for errors of HDF5, and for sizes, types and names of damaged files
H5_ERRORS = (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError, MemoryError)
BLOCK = 2**18  # bytes of one request
_BLOCKS = 128
_FORM = "bytes"
_LONGEST_CHAIN = 64
# what the first part of a file in several parts has at its start, the driver: problem and remedy
_IN_PARTS = {
    b"NCSAfami": (
        "this is one part of a family of HDF5 files",
        "Join them first, as by `h5repart -family_to_sec2 name%d.h5 whole.h5` for name0.h5, name1.h5 and so on.",
    ),
    b"NCSAmult": (
        "this is one part of an HDF5 file that was written in several",
        "Join them first, as by `h5repack name whole.h5` for name-m.h5 and name-r.h5.",
    ),
}
_PARTS = re.compile(b"|".join(_IN_PARTS))

_lock = threading.Lock()
_known: weakref.WeakValueDictionary[str, RemoteFile] = weakref.WeakValueDictionary()


def changed(location: str) -> errors.StoreError:
    """Return the error for a file that is not as it was."""
    problem = "the source has changed since the copy was planned"
    return errors.StoreError(problem, store=location, remedy="Wait until no program writes to it, and start again.")


def _ends_early(path: str, byte: int) -> errors.ChunkError:
    return errors.ChunkError(f"the file ends before byte {byte}", store=path, remedy="It is damaged: restore a copy.")


@dataclass(frozen=True)
class FileBytes:
    """A local file that must not change while it is read, of `plain_file`. It can be sent to another process."""

    path: str
    size: int
    mtime_ns: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, (self.path, self.size, self.mtime_ns)

    @cached_property
    def _descriptor(self) -> int:
        descriptor = os.open(self.path, os.O_RDONLY)
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``. Threads may read concurrently."""
        if offset + size > self.size:
            raise _ends_early(self.path, offset + size)
        with os_errors(self.path, "read"):
            if hasattr(os, "pread"):
                data = os.pread(self._descriptor, size, offset)
                # Linux returns at most 2 GiB for one read, whatever is asked for
                while len(data) < size and (more := os.pread(self._descriptor, size - len(data), offset + len(data))):
                    data += more
                state = os.fstat(self._descriptor)
            else:  # Windows
                with open(self.path, "rb") as file:
                    file.seek(offset)
                    data, state = file.read(size), os.fstat(file.fileno())
        if (state.st_size, state.st_mtime_ns) != (self.size, self.mtime_ns):
            raise changed(self.path)
        return data


# All readers of a file share one descriptor: a file of thousands of datasets would need more than the system allows.
_open: weakref.WeakValueDictionary[tuple[str, int, int], FileBytes] = weakref.WeakValueDictionary()


def _shared(*state: Any) -> FileBytes:
    return _open.setdefault(state, FileBytes(*state))


class RemoteFile:
    """A file at a URL, ``path`` in messages, which must not change while it is read: size, ETag and time stay."""

    def __init__(self, location: str, options: Mapping[str, Any], state: FileState | None = None) -> None:
        self.path = location
        self.options = dict(options)
        self._store, self._name = open_parent(location, self.options)
        present = self._store.state(self._name)
        if present is None:
            remedy = "Check the URL, which must be that of an HDF5 file."
            raise errors.StoreNotFoundError("the file does not exist", store=location, remedy=remedy)
        if state is not None and present != state:
            raise changed(location)
        self.state = present
        self._blocks = ChunkCache(_BLOCKS * BLOCK, largest=BLOCK)
        with _lock:
            _known[repr(self)] = self

    def __repr__(self) -> str:
        # h5py uses the repr of a file object as the name of the file, which must be ASCII
        return quote(self.path, safe="/:?&=%+,;@~!$'()*#[]")

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_other_process, (self.path, self.options, self.state)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.state.size

    def check(self) -> None:
        """Check that the file is still in the recorded state."""
        if self._store.state(self._name) != self.state:
            raise changed(self.path)

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``. Threads may read concurrently."""
        data = self.read_up_to(offset, size)
        if len(data) < size:
            raise _ends_early(self.path, offset + size)
        return data

    def read_up_to(self, offset: int, size: int) -> bytes:
        """Return at most ``size`` bytes from ``offset``, fewer at the end of the file."""
        size = max(0, min(size, self.size - offset))
        if size >= 4 * BLOCK:
            return self._request(offset, offset + size)
        first, last = offset // BLOCK, (offset + size - 1) // BLOCK
        blocks: list[memoryview] = []
        for number in range(first, last + 1):
            block = self._blocks.get(str(number), _FORM)
            if block is None:
                block = memoryview(self._request(number * BLOCK, min((number + 1) * BLOCK, self.size)))
                self._blocks.put(str(number), block, _FORM)
            blocks.append(block)
        return b"".join(blocks)[offset - first * BLOCK :][:size]

    def _request(self, start: int, stop: int) -> bytes:
        # HDF5 holds its lock while it waits for these bytes. If the garbage collector frees an h5py object meanwhile,
        # in a thread of the store, both wait forever (h5py issue 2019).
        with gc_paused():
            data = self._store.get_range(self._name, start, stop)
        if data is None:
            raise errors.StoreNotFoundError("it was deleted while it was read", store=self.path, remedy="Start again.")
        return data


class _Stream(RangeFile):
    """A `RemoteFile` for h5py, which takes its ``repr`` as the name of the file."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__(lambda start, stop: file.read_up_to(start, stop - start), file.size)
        self._file = file

    def __repr__(self) -> str:
        return repr(self._file)


def plain_file(dataset: Any) -> FileBytes | RemoteFile | None:
    """Return the file of ``dataset`` if the HDF5 library has that file open and it is not being written."""
    file = dataset.file
    if file.driver == "fileobj":
        with _lock:
            return _known.get(str(file.filename))
    if file.driver != "sec2" or file.mode != "r" or file.swmr_mode:
        return None
    path = os.path.abspath(file.filename)
    try:
        state = os.stat(path)
        # another file may be there by now: this one was replaced, or its name is relative to a former working directory
        if os.name == "posix" and not os.path.samestat(state, os.fstat(file.id.get_vfd_handle())):
            return None
    except OSError:
        return None
    return _shared(path, state.st_size, state.st_mtime_ns)


def _in_other_process(location: str, options: Mapping[str, Any], state: FileState) -> RemoteFile:
    """Return the file in another process, where all datasets share one, with its blocks."""
    same = (file for file in list(_known.values()) if (file.path, file.state) == (location, state))
    return next(same, None) or RemoteFile(location, options, state)


# ---- errors ---------------------------------------------------------------------------------------------------------


class UnreadableHdf5Error(errors.DamagedFileError, OSError):
    """HDF5 cannot read a file, or a node of it. Also an ``OSError``, as h5py raises one."""


@contextmanager
def reading(location: str, path: str | None, dataset: Any = None) -> Iterator[None]:
    """Turn errors of h5py into errors of this package that name the file and the node."""
    try:
        yield
    except errors.ZarrBackendError as error:
        error.locate(location, path)
        raise
    except H5_ERRORS as error:
        if lack := resource_failure(error, "read", store=location, path=path):
            raise lack from error
        created = None if dataset is None else dataset.get_create_plist()
        names = [] if created is None else _raw_names(created)
        missing = [name for name in names if not os.path.exists(_raw_location(name, location))]
        if missing:
            problem = f"its values are in the external file {missing[0]!r}, which does not exist"
            remedy = "Restore that file. HDF5 looks for a relative name in the working directory, or in the folder "
            remedy += "that the variable HDF5_EXTFILE_PREFIX names."
            raise errors.DamagedFileError(problem, store=location, path=path, remedy=remedy) from error
        filters = [] if created is None else [number for number, _, _ in filters_of(created)]
        if lacking := [number for number in filters if not h5z.filter_avail(number)]:
            problem, remedy = f"HDF5 filter {lacking[0]} is not installed", "Install hdf5plugin."
            raise errors.UnsupportedFileError(problem, store=location, path=path, remedy=remedy) from error
        problem = f"HDF5 cannot read this ({str(error).strip(chr(39)) or type(error).__name__})"
        remedy = "If a filter is missing, install hdf5plugin; otherwise the file is damaged there (h5dump says more)."
        raise UnreadableHdf5Error(problem, store=location, path=path, remedy=remedy) from error


def warn_broken(message: str) -> None:
    """Warn of a link or reference without a target."""
    # on use: hdmf is slow to import, and most files need none of it
    from hdmf.backends.warnings import BrokenLinkWarning

    warn(message, BrokenLinkWarning)


def check_depth(rules: ReadOptions, location: str, path: str) -> None:
    """Check that a group is not nested too deep."""
    depth = 0 if path == "/" else path.count("/")
    with at(location, f"{path[:200]}..."):
        rules.limits.check("max_depth", depth, f"groups are nested {depth:,} deep or deeper")


# ---- other files ----------------------------------------------------------------------------------------------------


def external_link(name: str, origin: str, policy: ExternalLinks | None) -> tuple[str, str]:
    """Return the location to which an external link leads, and why it is not followed there; ``""`` if it is."""
    if not is_url(origin):
        location = os.path.abspath(os.path.join(os.path.dirname(origin), name))
        refused = why_not(location, origin, policy, free=True)
        if refused is None and os.path.exists(location) and not os.path.isfile(location):
            return location, "it is not a regular file"  # HDF5 blocks on a pipe
        return location, "" if refused is None else refused[0]
    is_elsewhere = is_url(name) or name.startswith("/")
    location = resolve_source(name if is_elsewhere else f"../{name}", origin)
    if is_elsewhere or leads_up(name):  # a file on a server may name any other
        return location, "links of a file on a server out of its folder are not followed"
    return location, "links to other files are not followed" if policy == "never" else ""


def check_other_files(dataset: Any, location: str, path: str, policy: ExternalLinks | None) -> None:
    """Refuse a dataset with values in files that the policy does not allow, before any of them is opened."""
    # HDF5 follows the sources of virtual datasets to any depth, opens any file, and crashes where a dataset takes its
    # values from itself. So all of them are visited here, before HDF5 reads one value.
    done: set[_Source] = set()

    def follow(dataset: Any, origin: str, trail: tuple[_Source, ...]) -> None:
        """Check the files of a dataset and of its virtual sources; ``trail`` has the datasets that led to it."""
        created = dataset.get_create_plist()
        for name in dict.fromkeys(_raw_names(created)):
            raw_file = _raw_location(name, origin)
            _check(raw_file, origin, path, policy, free=False)
            if os.path.isfile(raw_file):
                warn(f"{location}: the values of {path} are read from the raw file {name!r}.")
        if created.get_layout() != h5d.VIRTUAL:
            return
        here = (origin if is_url(origin) else os.path.realpath(origin)), h5o.get_info(dataset).addr
        if here in trail or len(trail) >= _LONGEST_CHAIN:
            problem = "this virtual dataset takes its values from itself, or from too long a chain of virtual datasets"
            remedy = "Do not trust the file: HDF5 crashes when it reads this."
            raise errors.DamagedFileError(problem, store=location, path=path, remedy=remedy)
        if here in done:
            return
        for target, inner in _sources(created, origin):
            if target != origin:
                _check(target, origin, path, policy, free=True)
            with _opened(dataset, origin, target, inner) as source:
                if source is not None:
                    follow(source, target, (*trail, here))
        done.add(here)

    follow(dataset, location, ())


def _check(target: str, origin: str, path: str, policy: ExternalLinks | None, *, free: bool) -> None:
    """Refuse a file with values that the policy does not allow, or that is a pipe or a device: HDF5 blocks on these."""
    refused = why_not(os.path.realpath(target), origin, policy, free=free, kind="files with values")
    if refused is None and os.path.exists(target) and not os.path.isfile(target):
        refused = "it is not a regular file", {}
    if refused is not None:
        why, remedies = refused
        problem = f"its values are in the file {target!r}, which is refused: {why}"
        remedies = remedies or {"remedy": "Do not trust the file."}
        raise errors.LinkRefusedError(problem, store=origin, path=path, **remedies)


def _sources(created: Any, origin: str) -> Iterator[tuple[str, bytes]]:
    """Yield file and path of the sources of a virtual dataset, for each location where HDF5 may look for them."""
    here = os.path.dirname(origin)
    prefix = os.environ.get("HDF5_VDS_PREFIX", "").replace("${ORIGIN}", here)
    for number in range(created.get_virtual_count()):
        name, path = created.get_virtual_filename(number), os.fsencode(created.get_virtual_dsetname(number))
        if name == ".":
            locations = [origin]
        elif is_url(origin):
            locations = [os.path.abspath(name)]
        else:
            # only here: the working directory may not exist any more
            folders = (*([prefix] if prefix else []), here, os.path.dirname(os.path.realpath(origin)), os.getcwd())
            locations = list(dict.fromkeys(os.path.join(folder, name) for folder in folders))
            if "%" in name:  # "%b" is the number of a block and "%%" is "%": any file with a matching name may be read
                parts = (map(glob.escape, each.split("%%")) for each in locations)
                patterns = ("%".join(part.replace("%b", "*") for part in each) for each in parts)
                locations = [match for pattern in patterns for match in glob.glob(pattern)]
            else:
                locations = [each for each in locations if os.path.lexists(each)] or locations[:1]
        for location in locations:
            yield location, path


@contextmanager
def _opened(dataset: Any, origin: str, target: str, path: bytes) -> Iterator[Any]:
    """Open the source of a virtual dataset; None if HDF5 does not find one, and would read fill values."""
    is_same = target == origin
    file = h5py.File(h5py.h5i.get_file_id(dataset)) if is_same else opened_file(target)
    with nullcontext() if is_same or file is None else file:
        node = None
        with suppress(*H5_ERRORS):
            node = None if file is None else file.get(path)
        yield node.id if isinstance(node, h5py.Dataset) else None


def opened_file(location: str) -> Any:
    """Return an HDF5 file, opened; None for a URL, a missing file, or one that HDF5 cannot open."""
    if is_url(location) or not os.path.isfile(location):
        return None
    try:
        return h5py.File(location, "r")
    except H5_ERRORS as error:
        if lack := resource_failure(error, "opened", store=location):
            raise lack from error
        return None


def _raw_names(created: Any) -> list[str]:
    return [os.fsdecode(created.get_external(number)[0]) for number in range(created.get_external_count())]


def _raw_location(name: str, location: str) -> str:
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", os.path.dirname(location))
    return os.path.abspath(os.path.join(prefix, name))


# ---- values that were never written ---------------------------------------------------------------------------------
# HDF5 allocates a dataset when it is written, so a file of a few kilobytes can declare terabytes of fill values. A copy
# stores all chunks, and would write them all.


def check_allocated(dataset: Any, rules: ReadOptions) -> None:
    """Check that filling the unwritten values of a dataset, if it declares many, stays within the limit."""
    element = dataset.id.get_type().get_size()
    if not dataset.shape or dataset.is_virtual or dataset.id.get_create_plist().get_external_count():
        return
    if dataset.chunks is None:
        absent = 0 if dataset.id.get_storage_size() else dataset.size * element
        what = f"none of the {absent:,} bytes of its values was ever written"
    else:
        chunk = math.prod(dataset.chunks) * element
        stated = math.prod(grid_of(dataset.shape, dataset.chunks))
        if stated * chunk <= rules.limits.max_unwritten_bytes:
            return
        count = stated - dataset.id.get_num_chunks()
        absent = count * chunk
        what = f"{count:,} of its {stated:,} chunks were never written, and would be {absent:,} bytes of fill values"
    with at(dataset.file.filename, dataset.name):
        rules.limits.check("max_unwritten_bytes", absent, what)


# ---- open files ------------------------------------------------------------------------------------------------------


class OpenGroups:
    """The groups above the object that was opened last, kept open."""

    # HDF5 resolves each path from its start, so opening nested groups by path takes time in the square of the depth.

    def __init__(self, file_id: Any) -> None:
        self._file_id = file_id
        self._groups: list[tuple[bytes, Any]] = []

    def within(self, raw: bytes) -> tuple[Any, bytes]:
        """Return the open parent group of the object at an absolute path, and its name in that group."""
        parent, _, name = raw.rpartition(b"/")
        if not parent:
            return self._file_id, raw
        while self._groups and not parent.startswith(self._groups[-1][0] + b"/") and parent != self._groups[-1][0]:
            self._groups.pop()
        known, group = self._groups[-1] if self._groups else (b"", self._file_id)
        for step in parent[len(known) + 1 :].split(b"/") if known != parent else ():
            known += b"/" + step
            group = h5g.open(group, step)
            self._groups.append((known, group))
        return group, name


class SourceFile(OpenGroups):
    """One open HDF5 file."""

    def __init__(self, location: str, options: Mapping[str, Any] | None = None) -> None:
        self.location = location
        self.remote = RemoteFile(location, options or {}) if is_url(location) else None
        try:
            self.file: Any = h5py.File(location if self.remote is None else _Stream(self.remote), "r")
        except H5_ERRORS as error:
            if isinstance(error, errors.ZarrBackendError):  # an error of the server
                raise
            if lack := resource_failure(error, "opened", store=location, what="the HDF5 file"):
                raise lack from error
            problem = f"HDF5 cannot open this file ({error})"
            if "unable to lock" in str(error):
                remedy = "Another program has it open for writing: close it there, or give a copy."
                raise errors.StoreLockedError(problem, store=location, remedy=remedy) from error
            remedy = "It may be cut short: compare its size with the original, and download or copy it again."
            with suppress(OSError), _Stream(self.remote) if self.remote else open(location, "rb") as file:
                if driver := _PARTS.search(file.read(1024)):
                    problem, remedy = _IN_PARTS[driver[0]]
            raise errors.UnsupportedFileError(problem, store=location, remedy=remedy) from error
        super().__init__(self.file.id)
        # the object that was opened last: HDF5 keeps its cache of decoded chunks with it
        self._last: tuple[bytes, Any] | None = None

    def state(self) -> list[Any]:
        """Return the size, and the time of the last change in nanoseconds or the tag of the server."""
        if self.remote is not None:
            return [self.remote.size, self.remote.state.etag or self.remote.state.mtime_ns]
        with os_errors(self.location, "read"):
            state = os.stat(self.location)
        return [state.st_size, state.st_mtime_ns]

    def open(self, raw: bytes) -> Any:
        """Return the low-level object at a path. The last one stays open, and with it HDF5's cache of its chunks."""
        if self._last is None or self._last[0] != raw:
            with reading(self.location, text_of(raw)):
                self._last = (raw, h5o.open(*self.within(raw)))
        return self._last[1]

    def walk(self, top: bytes, known: Container[Address]) -> Iterator[tuple[bytes, int, Any]]:
        """Yield the object at a path and everything below it, depth first, sorted by name. Links are not followed."""
        pending = [top]
        while pending:
            raw = pending.pop()
            with reading(self.location, text_of(raw)):
                group, name = self.within(raw)
                form = h5l.TYPE_HARD if raw == top else group.links.get_info(name).type
                info = h5o.get_info(group, name) if form == h5l.TYPE_HARD else None
                if info is not None and info.type == h5o.TYPE_GROUP and (info.fileno, info.addr) not in known:
                    prefix = raw.rstrip(b"/") + b"/"
                    pending += [prefix + name for name in sorted(h5g.open(group, name), reverse=True)]
            yield raw, form, info

    def close(self) -> None:
        """Close the file."""
        self._last = None
        self._groups.clear()
        # all values are read, so an error of the system does not matter
        with suppress(*H5_ERRORS):
            self.file.close()
