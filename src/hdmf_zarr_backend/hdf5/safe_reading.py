"""Safe reading of HDF5 files: errors of h5py as package errors, and checks before values are read.

The values of a dataset can be in other files: raw files ("external storage") and the sources of virtual datasets. Any
file can be a raw file, and HDF5 blocks on a pipe. Therefore a raw file is read by default only if it is inside the
folder of the HDF5 file. The source of a virtual dataset must be an HDF5 file, and is treated as an external link is.

HDF5 allocates a dataset when it is written, so a file of some kilobytes can declare terabytes of fill values. A copy
stores all chunks, and would write all of them.

Source: HDF5 reference manual, `H5Pset_external`, `H5Pset_virtual`, `H5Pset_alloc_time`.
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
from h5py import h5d, h5o

from hdmf_zarr_backend.errors import DamagedFileError, LinkRefusedError, ZarrBackendError, at, warn
from hdmf_zarr_backend.model.link_sources import is_url, why_not
from hdmf_zarr_backend.options import ExternalLinks, ReadOptions
from hdmf_zarr_backend.stores.base import resource_failure

H5_ERRORS = (OSError, RuntimeError, LookupError, ValueError, TypeError, OverflowError, MemoryError)
"""What h5py and NumPy raise for errors of HDF5, and for sizes, types and names of damaged files."""

_LETTERS = 200
"""Characters of a too deep path that a message shows."""

_LONGEST_CHAIN = 64
_Source = tuple[str, int]
"""A file, and the address of a dataset in it."""


# ---- errors ---------------------------------------------------------------------------------------------------------


class UnreadableHdf5Error(DamagedFileError, OSError):
    """HDF5 cannot read a file, or a node of it. Also an ``OSError``, as h5py raises one."""


@contextmanager
def reading(location: str, path: str | None, dataset: Any = None) -> Iterator[None]:
    """Turn errors of h5py into errors of this package that name the file and the node."""
    try:
        yield
    except ZarrBackendError as error:
        error.locate(location, path)
        raise
    except H5_ERRORS as error:
        lack = resource_failure(error, "read", store=location, path=path)
        if lack is not None:
            raise lack from error
        names = [] if dataset is None else _raw_names(dataset.get_create_plist())
        missing = [name for name in names if not os.path.exists(_raw_place(name, location))]
        if missing:
            raise DamagedFileError(
                f"its values are in the external file {missing[0]!r}, which does not exist",
                store=location,
                path=path,
                remedy="Restore that file. HDF5 looks for a relative name in the working directory, or in the folder "
                "that the variable HDF5_EXTFILE_PREFIX names.",
            ) from error
        problem = f"HDF5 cannot read this ({str(error).strip(chr(39)) or type(error).__name__})"
        remedy = "If a filter is missing, install hdf5plugin; otherwise the file is damaged there (h5dump says more)."
        raise UnreadableHdf5Error(problem, store=location, path=path, remedy=remedy) from error


def warn_broken(message: str) -> None:
    """Warn of a link or reference without a target. Imports HDMF only in this case."""
    from hdmf.backends.warnings import BrokenLinkWarning

    warn(message, BrokenLinkWarning, stacklevel=3)


# ---- depth ----------------------------------------------------------------------------------------------------------


def check_depth(rules: ReadOptions, location: str, path: str) -> None:
    """Check that a group is not nested too deep."""
    depth = 0 if path == "/" else path.count("/")
    with at(location, f"{path[:_LETTERS]}..."):
        rules.limits.check("max_depth", depth, f"groups are nested {depth:,} deep or deeper")


# ---- other files ----------------------------------------------------------------------------------------------------


def check_other_files(dataset: Any, location: str, path: str, policy: ExternalLinks | None) -> None:
    """Refuse a dataset with values in files that the policy does not allow, before any of them is opened."""
    done: set[_Source] = set()

    def follow(dataset: Any, origin: str, trail: tuple[_Source, ...]) -> None:
        """Check the files of a dataset and of its virtual sources; ``trail`` has the datasets that led to it."""
        created = dataset.get_create_plist()
        for name in dict.fromkeys(_raw_names(created)):
            place = _raw_place(name, origin)
            _check(place, origin, path, policy, free=False)
            if os.path.isfile(place):
                warn(f"{location}: the values of {path} are read from the raw file {name!r}.", stacklevel=4)
        if created.get_layout() != h5d.VIRTUAL:
            return
        here = (origin if is_url(origin) else os.path.realpath(origin)), h5o.get_info(dataset).addr
        if here in trail or len(trail) >= _LONGEST_CHAIN:
            problem = "this virtual dataset takes its values from itself, or from too long a chain of virtual datasets"
            remedy = "Do not trust the file: HDF5 crashes when it reads this."
            raise DamagedFileError(problem, store=location, path=path, remedy=remedy)
        if here in done:
            return
        for place, inner in _sources(created, origin):
            if place != origin:
                _check(place, origin, path, policy, free=True)
            with _opened(dataset, origin, place, inner) as source:
                if source is not None:
                    follow(source, place, (*trail, here))
        done.add(here)

    follow(dataset, location, ())


def _check(place: str, origin: str, path: str, policy: ExternalLinks | None, *, free: bool) -> None:
    refused = why_not(os.path.realpath(place), origin, policy, free=free, kind="files with values")
    if refused is None and os.path.lexists(place) and os.path.exists(place) and not os.path.isfile(place):
        refused = "it is not a regular file", {}
    if refused is not None:
        problem, remedies = refused
        problem = f"its values are in the file {place!r}, which is refused: {problem}"
        raise LinkRefusedError(problem, store=origin, path=path, **remedies or {"remedy": "Do not trust the file."})


def _sources(created: Any, origin: str) -> Iterator[tuple[str, bytes]]:
    """Yield file and path of the sources of a virtual dataset, for each place where HDF5 may look for them."""
    for number in range(created.get_virtual_count()):
        name = created.get_virtual_filename(number)
        for place in [origin] if name == "." else _source_places(name, origin):
            yield place, os.fsencode(created.get_virtual_dsetname(number))


@contextmanager
def _opened(dataset: Any, origin: str, place: str, path: bytes) -> Iterator[Any]:
    """Open the source of a virtual dataset; None if HDF5 does not find one, and would read fill values."""
    if place == origin:
        yield _dataset_in(h5py.File(h5py.h5i.get_file_id(dataset)), path)
        return
    file = opened_file(place)
    if file is None:
        yield None
        return
    with file:
        yield _dataset_in(file, path)


def opened_file(location: str) -> Any:
    """Return an HDF5 file, opened; None for a URL, a missing file, or one that HDF5 cannot open."""
    if is_url(location) or not os.path.isfile(location):
        return None
    try:
        return h5py.File(location, "r")
    except H5_ERRORS as error:
        lack = resource_failure(error, "opened", store=location)
        if lack is not None:
            raise lack from error
        return None


def _dataset_in(file: Any, path: bytes) -> Any:
    try:
        node = file.get(path)
    except H5_ERRORS:
        return None
    return node.id if isinstance(node, h5py.Dataset) else None


def _source_places(name: str, origin: str) -> list[str]:
    """Return the paths where HDF5 may look for the source of a virtual dataset; ``%b`` matches numbers."""
    if is_url(origin):
        return [os.path.abspath(name)]
    folders = [os.path.dirname(origin), os.path.dirname(os.path.realpath(origin)), os.getcwd()]
    prefix = os.environ.get("HDF5_VDS_PREFIX", "").replace("${ORIGIN}", os.path.dirname(origin))
    places = dict.fromkeys(os.path.join(folder, name) for folder in (*([prefix] if prefix else []), *folders))
    if "%" not in name:
        return [place for place in places if os.path.lexists(place)] or list(places)[:1]
    return [
        found
        for place in places
        for found in glob.glob("%".join(glob.escape(part).replace("%b", "*") for part in place.split("%%")))
    ]


def _raw_names(created: Any) -> list[str]:
    return [os.fsdecode(created.get_external(number)[0]) for number in range(created.get_external_count())]


def _raw_place(name: str, location: str) -> str:
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", os.path.dirname(location))
    return os.path.abspath(os.path.join(prefix, name))


# ---- values that were never written ---------------------------------------------------------------------------------


def check_allocated(dataset: Any, rules: ReadOptions) -> None:
    """Check that filling the unwritten values of a dataset stays within the limit.

    Storage is inspected only if the dataset declares more than the limit in total.
    """
    element = dataset.id.get_type().get_size()
    if not dataset.shape or dataset.is_virtual or dataset.id.get_create_plist().get_external_count():
        return
    if dataset.chunks is None:
        absent = 0 if dataset.id.get_storage_size() else dataset.size * element
        what = f"no byte of the {absent:,} of its values was ever written"
    else:
        chunk = math.prod(dataset.chunks) * element
        stated = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
        if stated * chunk <= rules.limits.max_unwritten_bytes:
            return
        count = stated - dataset.id.get_num_chunks()
        absent = count * chunk
        what = f"{count:,} of its {stated:,} chunks were never written, and would be {absent:,} bytes of fill values"
    with at(dataset.file.filename, dataset.name):
        rules.limits.check("max_unwritten_bytes", absent, what)
