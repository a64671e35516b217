"""HDF5 -> Zarr and Zarr -> HDF5, with nothing lost on the way.

Both directions go straight from one format to the other, by a plan of the whole file; no containers and no builders
are made of what is converted. What Zarr has no word for (exact types and text encodings, chunks, filters, link kinds,
largest shapes) is kept in the notes of the Zarr file, so that HDF5 -> Zarr -> HDF5 gives the same file again.
"""

from __future__ import annotations

import os
import uuid
import warnings
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from hdmf.build.errors import BuildError, ConstructError, ContainerConfigurationError

from hdmf_zarr_backend.errors import (
    NotZarrError,
    StoreExistsError,
    StoreNotFoundError,
    UnsupportedFileError,
    UsageError,
    ZarrBackendError,
)
from hdmf_zarr_backend.hdf5.facts import is_hdf5
from hdmf_zarr_backend.hdf5.placement import ExternalLinks, Placement, ZarrFile
from hdmf_zarr_backend.hdf5.rawsource import forget_decoded
from hdmf_zarr_backend.hdf5.tree import Hdf5Tree
from hdmf_zarr_backend.hdf5.writer import Hdf5Writer
from hdmf_zarr_backend.mapping.reserved import NOTES
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.read.parser import is_hdmf_zarr, parse
from hdmf_zarr_backend.read.spectypes import unsigned_attributes
from hdmf_zarr_backend.storage.paths import check_apart
from hdmf_zarr_backend.storage.stores import local_path, open_keys
from hdmf_zarr_backend.write.from_hdf5 import Hdf5Planner
from hdmf_zarr_backend.write.plan import StorageOptions
from hdmf_zarr_backend.write.staging import replace, staged
from hdmf_zarr_backend.write.writer import MEMORY_BUDGET, Writer

__all__ = ["ConversionReport", "convert"]

Format = Literal["zarr", "hdf5"]

_SUFFIX = ".zarr"
_UNITS = ("B", "kB", "MB", "GB", "TB")

UNREADABLE = (
    ConstructError, BuildError, ContainerConfigurationError, ValueError, TypeError, LookupError, AttributeError,
    RuntimeError, OSError, ArithmeticError, AssertionError,
)  # fmt: skip
"""What pynwb and hdmf were seen to raise for files that they cannot read."""


@dataclass(slots=True, frozen=True)
class ConversionReport:
    """What a conversion has done.

    Attributes
    ----------
    source, target : str
        Absolute paths.
    format : {"zarr", "hdf5"}
        Of the target.
    groups, datasets, links : int
        What the target holds; the cached namespaces count as well.
    nbytes : int
        Bytes of all values, uncompressed (8 for each text or reference).
    """

    source: str
    target: str
    format: Format
    groups: int
    datasets: int
    links: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.groups} groups, {self.datasets} datasets, {self.links} links, {_size(self.nbytes)}"


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if not unit else f"{size:.1f} {_UNITS[unit]}"


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: Format | None = None,
    force_overwrite: bool = False,
    check: bool = True,
    external_links: ExternalLinks = "keep",
    codec: Literal["keep"] | dict[str, Any] | bool = "keep",
    executor: Any = "threads",
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = SILENT,
) -> ConversionReport:
    """Convert an HDF5 file to Zarr, or a Zarr file to HDF5.

    Parameters
    ----------
    source : str or Path
        An HDF5 file (known by its signature) or a Zarr file of format 2 (a directory), written by any release of
        hdmf-zarr.
    target : str or Path
        What is made. It comes into being beside its place and is moved there when it is whole, so that a conversion
        that fails leaves nothing behind, and what was there stays until then.
    to : {"zarr", "hdf5"}, optional
        Format of the target; None: Zarr if its name ends in ``.zarr``, else HDF5.
    force_overwrite : bool
        Replace whatever is at ``target``. Without it only a file of the target's own kind is replaced: an HDMF Zarr
        file, or an HDF5 file.
    check : bool
        Refuse an NWB file that pynwb cannot read, before anything is written. Needs pynwb for more than the version.
        It also tells the types of unsigned attributes in files of hdmf-zarr, which kept none.
    external_links : {"keep", "copy"}
        Zarr to HDF5 only. ``"keep"``: what was an external link in HDF5, and a link to a Zarr neighbour
        ``../b.nwb.zarr``, becomes an external link to the HDF5 file, or to the HDF5 neighbour of the same stem
        (``b.nwb``, beside the target or beside the Zarr neighbour), if that is there and has the target of the link;
        changes made to a copy in the Zarr file since it was converted are then not in the new file. ``"copy"``, and
        where no such file is there: the target of the link is copied to its place.
    codec : "keep", dict or bool
        HDF5 to Zarr only. ``"keep"``: the chunks of large datasets are copied as they are, where Zarr has their
        filters; nothing is decoded. A codec's configuration, True (the default codec) or False (none): everything is
        encoded anew, without filters, as TensorStore wants it.
    executor : None, "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
        HDF5 to Zarr only. Who copies or encodes the chunks of large datasets; None: this thread.
    memory_budget : int
        HDF5 to Zarr only. Bytes of values that may be in flight.
    progress : Progress
        Is told of the bytes that are done.

    Returns
    -------
    ConversionReport
        What the target holds.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        The source is not there, or neither HDF5 nor Zarr.
    StoreExistsError
        The target is the source, holds it, or is something that is not to be replaced.
    UnsupportedFileError
        pynwb cannot read the NWB file, or HDF5 cannot open it.
    UsageError
        Source and target have the same format.
    DamagedFileError
        Something in the source cannot be read; the node is named.
    WriteError
        Something has no place in the target's format: sequences of variable length, a name with a backslash.

    Notes
    -----
    HDF5 -> Zarr: what an external link leads to is copied to the link's place, since a Zarr file cannot point into
    HDF5; where the other file is missing, the link is kept and a warning given. Further hard links of an object
    become soft links. Data in external raw files and virtual datasets become plain data. An undefined fill value
    becomes the default one.

    Zarr -> HDF5: datasets that never were in HDF5 are laid out as `hdf5.creation` describes: compressed numbers of
    more than 64 KiB in chunks with shuffle and gzip 4, everything else in one piece.
    """
    origin, place = local_path(source), local_path(target)
    found = _format_of(origin)
    wanted: Format = to or ("zarr" if place.endswith(_SUFFIX) else "hdf5")
    if wanted not in ("zarr", "hdf5"):
        raise UsageError(f"to={to!r} is no format", remedy="Use 'zarr' or 'hdf5'.")
    if found == wanted:
        raise UsageError(
            f"the source is {_NAMES[found]} already",
            store=origin,
            remedy=f"Let the name of the target end in {_SUFFIX!r} for Zarr, in something else for HDF5, or say to=.",
        )
    check_apart(origin, place)
    if wanted == "zarr":
        request = _ToZarr(force_overwrite, check, progress, codec, executor, memory_budget)
        return _to_zarr(origin, place, request)
    return _to_hdf5(origin, place, force=force_overwrite, check=check, progress=progress, external_links=external_links)


_NAMES = {"zarr": "Zarr", "hdf5": "HDF5"}


def _format_of(location: str) -> Format:
    if is_hdf5(location):
        return "hdf5"
    if os.path.isdir(location):
        return "zarr"
    if not os.path.lexists(location):
        raise StoreNotFoundError("nothing is there", store=location, remedy="Check the path.")
    raise NotZarrError("this is neither an HDF5 file nor a Zarr directory", store=location, remedy="Check the path.")


# ---- HDF5 -> Zarr ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class _ToZarr:
    force: bool
    check: bool
    progress: Progress
    codec: Any
    executor: Any
    memory_budget: int

    def options(self, path: str) -> StorageOptions:
        """Return how a dataset is stored."""
        return StorageOptions(compressor=None if self.codec == "keep" else self.codec)


def _to_zarr(source: str, target: str, request: _ToZarr) -> ConversionReport:
    keys = open_keys(target)
    if keys.exists() and not request.force and not is_hdmf_zarr(keys):
        raise StoreExistsError(
            "what is there is no HDMF Zarr file, and is not replaced",
            store=target,
            remedy="Choose another path, or pass force_overwrite=True if it may be deleted.",
        )
    if request.check:
        _check_hdf5(source)
    with closing(Hdf5Tree(source, target)) as tree:
        plan = Hdf5Planner(tree, options=request.options, keep_codecs=request.codec == "keep").plan_file()
        with staged(target) as new:
            Writer(
                new,
                plan,
                progress=request.progress,
                executor=request.executor,
                memory_budget=request.memory_budget,
            ).write()
        forget_decoded()
        kinds = [placed.kind for placed in tree.nodes]
        return ConversionReport(
            source,
            target,
            "zarr",
            groups=kinds.count("group"),
            datasets=kinds.count("dataset"),
            links=len(tree.links),
            nbytes=sum(_bytes_of(planned.node) for planned in plan.arrays.values()),
        )


def _bytes_of(node: Any) -> int:
    from hdmf_zarr_backend.storage.codecs import numpy_dtype

    return int(node.size) * numpy_dtype(node.data_type).itemsize


# ---- Zarr -> HDF5 ---------------------------------------------------------------------------------------------------


def _to_hdf5(
    source: str, target: str, *, force: bool, check: bool, progress: Progress, external_links: ExternalLinks
) -> ConversionReport:
    if os.path.lexists(target) and not force and not is_hdf5(target):
        raise StoreExistsError(
            "what is there is no HDF5 file, and is not replaced",
            store=target,
            remedy="Choose another path, or pass force_overwrite=True if it may be deleted.",
        )
    main = _open_zarr(source)
    typed = _check_zarr(main) if check else {}
    placement = Placement(main, target, _open_zarr, external_links=external_links)
    arrays = [placed.node for placed in placement.nodes if hasattr(placed.node, "shape")]
    nbytes = sum(map(_bytes_of, arrays))
    partial = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{uuid.uuid4().hex}.partial")
    progress.start(nbytes)
    try:
        Hdf5Writer(partial, placement, typed=typed, advance=progress.advance).write()
        replace(partial, target)
    except BaseException:
        if os.path.lexists(partial):
            os.unlink(partial)
        raise
    progress.finish()
    return ConversionReport(
        source,
        target,
        "hdf5",
        groups=len(placement.nodes) - len(arrays),
        datasets=len(arrays),
        links=len(placement.links),
        nbytes=nbytes,
    )


def _open_zarr(location: str) -> ZarrFile:
    keys = open_keys(location)
    return ZarrFile(keys, parse(keys).hierarchy, location)


# ---- is it a file that pynwb reads? ---------------------------------------------------------------------------------


def _check_hdf5(source: str) -> None:
    """Refuse an NWB file that pynwb cannot read."""
    import h5py

    try:
        with h5py.File(source, "r") as file:
            kind, version = _text(file.attrs.get("neurodata_type")), file.attrs.get("nwb_version")
            old = file.get("nwb_version")  # a dataset in NWB 1.x
            if version is None and isinstance(old, h5py.Dataset):
                version = old[()]
    except OSError as error:
        raise UnsupportedFileError(
            f"HDF5 cannot open this file ({error})",
            store=source,
            remedy="It may be cut short, or be open for writing elsewhere.",
        ) from error
    if kind != "NWBFile" and version is None:
        return
    _check_version(source, version)
    if find_spec("pynwb") is None:
        return
    from pynwb import NWBHDF5IO

    def read() -> None:
        with NWBHDF5IO(source, mode="r") as io:
            io.read()

    _check_read(source, read)


def _check_zarr(main: ZarrFile) -> dict[str, dict[str, Any]]:
    """Refuse an NWB file that pynwb cannot read; return the attributes whose types only the schema knows."""
    attributes = main.hierarchy.root.attributes
    version = attributes.get("nwb_version")
    if attributes.get("neurodata_type") != "NWBFile" and version is None:
        return {}
    _check_version(main.location, version)
    if find_spec("pynwb") is None:
        return {}
    from hdmf_zarr_backend.nwb import NWBZarrIO

    typed: dict[str, dict[str, Any]] = {}

    def read() -> None:
        with NWBZarrIO(main.location, mode="r") as io:
            io.read()
            if NOTES not in attributes:  # hdmf-zarr kept no types
                typed.update(unsigned_attributes(io.read_builder()))

    _check_read(main.location, read)
    return typed


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _check_version(source: str, value: Any) -> None:
    """Refuse what pynwb refuses at once: no version, a version that is no text, and NWB 1.x."""
    version = _text(value)
    if not isinstance(version, str):
        said = "has no NWB version" if version is None else "gives its NWB version as an array"
        raise UnsupportedFileError(
            f"pynwb cannot read this file: it {said}",
            store=source,
            remedy="Pass check=False to convert it all the same.",
        )
    if version.strip().removeprefix("NWB-").startswith("1."):
        raise UnsupportedFileError(
            f"pynwb cannot read this file: it is of NWB version {version}, and NWB 2 is the first that pynwb reads",
            store=source,
            remedy="Pass check=False to convert it all the same.",
        )


def _check_read(source: str, read: Any) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what concerns the conversion is warned of by the conversion
            read()
    except UNREADABLE as error:
        if isinstance(error, ZarrBackendError) and not isinstance(error, ConstructError):
            raise  # it says itself what is wrong
        reason = " ".join(str(error).split())
        raise UnsupportedFileError(
            f"pynwb cannot read this file ({type(error).__name__}: {reason[:300]})",
            store=source,
            remedy="Pass check=False to convert it all the same.",
        ) from error
