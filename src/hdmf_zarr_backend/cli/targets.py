"""Which file a conversion makes, and whether it is there already."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.model.locations import ZARR_SUFFIXES, is_url, split_chain

_ZARR = ".zarr"
_VIRTUAL = ".zarr.json"
_ZARR_FILES = (_ZARR, ".zarr.zip", _VIRTUAL, ".zip")
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HDF5_SUFFIXES = frozenset({".nwb", ".h5", ".hdf5"})
_ZARR_MARKS = frozenset({".zgroup", ".zmetadata", "zarr.json"})
_DEFAULT_FORMAT = 2


def pairs_of(arguments: Namespace) -> list[tuple[str, str]]:
    """Return what is converted to what; the folder of the targets exists afterwards.

    A target that is an existing folder, other than a Zarr file, or that ends in a slash, is the folder of the target,
    as with ``--output``. Without a target the new file is made beside its source.

    Parameters
    ----------
    arguments : Namespace
        With ``paths``, ``output``, ``to``, ``zarr_format`` and ``virtual``.

    Raises
    ------
    UsageError
        The paths are no source and target, or two sources would become one target, or the folder is a file.
    """
    paths, folder = arguments.paths, arguments.output
    if folder is None:
        if len(paths) > 2:
            raise UsageError(
                f"{len(paths)} paths are given",
                remedy="Give a source and a target, or any number of sources and --output FOLDER.",
            )
        source, target = paths[0], paths[-1]
        if len(paths) == 1:
            return [(source, _beside(source, arguments))]
        if not _is_folder(target):
            return [(source, target)]
        paths, folder = [source], target
    pairs: dict[str, str] = {}
    for source in paths:
        target = _joined(folder, _target_name(source, arguments))
        if target in pairs:
            raise UsageError(
                f"{pairs[target]} and {source} would both become {target}", remedy="Convert them to different folders."
            )
        pairs[target] = source
    _make_folder(folder)
    return [(source, target) for target, source in pairs.items()]


def _beside(source: str, arguments: Namespace) -> str:
    if is_url(source):
        raise UsageError(
            "no target is given, and the source is a URL",
            store=source,
            remedy="Give a target, or a folder with --output FOLDER.",
        )
    return os.path.join(os.path.dirname(source.rstrip("/")), _target_name(source, arguments))


def _is_folder(target: str) -> bool:
    """Tell whether a target is the folder of the new file, not the new file itself."""
    if target.rstrip("/").endswith((*ZARR_SUFFIXES, ".json")):
        return False
    if target.endswith(("/", os.sep)):
        return is_url(target) or not _is_zarr(target)
    return not is_url(target) and os.path.isdir(target) and not _is_zarr(target)


def _is_zarr(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in _ZARR_MARKS)


def _joined(folder: str, name: str) -> str:
    if is_url(folder):
        return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"
    return os.path.join(folder, name)


def _make_folder(folder: str) -> None:
    """Make a local folder; below a URL there are none, only names with slashes."""
    if is_url(folder):
        return
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{error.filename} is a file", remedy="Name a folder.") from error


def _target_name(source: str, arguments: Namespace) -> str:
    name = name_of(source)
    if arguments.virtual:
        return f"{name}{_VIRTUAL}"
    suffix = next((suffix for suffix in _ZARR_FILES if name.endswith(suffix)), "")
    is_zarr = bool(suffix) or os.path.isdir(source)
    stem = name.removesuffix(suffix)
    if arguments.to == "zarr" or arguments.zarr_format is not None or (arguments.to is None and not is_zarr):
        return stem + _ZARR
    return stem if Path(stem).suffix else f"{stem}.nwb"


def name_of(source: str) -> str:
    """Return the last part of a path or of a URL, without what is behind a question mark there."""
    return PurePosixPath(urlsplit(split_chain(source)[1]).path).name if is_url(source) else Path(source).name


def check_source(source: str) -> None:
    """Refuse a folder of HDF5 files, of which each would be a source.

    Raises
    ------
    UsageError
        Naming the files.
    """
    if not os.path.isdir(source):
        return
    names = sorted(os.listdir(source))
    suffixes = {os.path.splitext(name)[1] for name in names} & _HDF5_SUFFIXES
    if suffixes and not _ZARR_MARKS & set(names):
        raise UsageError(
            "this is a folder of HDF5 files",
            store=source,
            remedy=f"Give the files themselves, {os.path.join(source, '*' + min(suffixes))}, and --output FOLDER.",
        )


# ---- what is there already ------------------------------------------------------------------------------------------


def is_done(source: str, target: str, arguments: Namespace, storage_options: dict[str, object]) -> bool:
    """Tell whether the target is a complete file of the format that is wanted, and not older than the source.

    The times of local files are compared, not those of URLs. Of the chunks of a Zarr file nothing is read.

    Raises
    ------
    StoreRefusedError, StoreUnreachableError
        A server does not let it be told.
    """
    to_zarr = arguments.virtual or target.rstrip("/").endswith(ZARR_SUFFIXES)
    wanted = arguments.to or ("zarr" if to_zarr else "hdf5")
    if wanted == "hdf5":
        is_whole = _is_hdf5(target)
    else:
        # here and not above: NumPy takes longer to start than the rest of the command line
        from hdmf_zarr_backend.files.parser import is_whole as is_whole_zarr

        is_whole = is_whole_zarr(target, arguments.zarr_format or _DEFAULT_FORMAT, storage_options)
    if not is_whole or is_url(source) or is_url(target):
        return is_whole
    return os.path.lexists(source) and _made(target) >= _changed(source)


def _is_hdf5(target: str) -> bool:
    if is_url(target) or not os.path.isfile(target):
        return False
    with open(target, "rb") as stream:
        if stream.read(len(_HDF5_SIGNATURE)) != _HDF5_SIGNATURE:
            return False
    from hdmf_zarr_backend.comparison import open_facts

    try:
        open_facts(target).close()
    except (ZarrBackendError, OSError):
        return False
    return True


def _changed(source: str) -> int:
    """Return when a file, or the last one below a folder, was changed."""
    times = [os.stat(source).st_mtime_ns] if os.path.isfile(source) else _times(source)
    return max(times, default=0)


def _made(target: str) -> int:
    """Return when a file was made; a folder, when the first document of its root was written."""
    if os.path.isfile(target):
        return os.stat(target).st_mtime_ns
    with os.scandir(target) as entries:
        return min((entry.stat().st_mtime_ns for entry in entries if entry.is_file()), default=0)


def _times(folder: str) -> list[int]:
    return [os.stat(os.path.join(place, name)).st_mtime_ns for place, _, names in os.walk(folder) for name in names]
