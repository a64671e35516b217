"""`nothing_to_read`: what is said of a path without a Zarr file, which names what is there, was left or was meant."""

from __future__ import annotations

import os
from contextlib import suppress

from hdmf_zarr_backend.errors import MetadataError, NotZarrError, StoreNotFoundError, ZarrBackendError
from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.model.link_sources import ZARR_SUFFIXES, inside_of, is_url
from hdmf_zarr_backend.model.render import size_text
from hdmf_zarr_backend.stores.base import DOCUMENTS, Store
from hdmf_zarr_backend.stores.files import conversions, unfinished
from hdmf_zarr_backend.stores.opening import is_of_hdf5

PATH_OF_FILE = "Give the path of the file, not of an array in it."
"""What to do with the path of an array."""


def nothing_to_read(store: Store) -> ZarrBackendError:
    """Return the error for a store without the documents of a file."""
    if not store.read_rules.is_linked and is_of_hdf5(store):  # the target of a link is not opened for a message
        remedy = "Open it with HDF5IO or NWBHDF5IO, or convert it with `zarrio convert` first."
        cli = "Convert it with `zarrio convert` first."
        if is_url(store.location):
            remedy = cli = "Run `zarrio convert --to virtual` and open the file that it makes, or download this one."
        return NotZarrError("this is an HDF5 file, not a Zarr file", remedy=remedy, remedy_cli=cli)
    if not store.exists():
        local = store.folder or store.zip_file
        if local is not None:
            return not_found(local, store.location)
        return StoreNotFoundError("the file does not exist", remedy="Check the path.")
    if store.get(zarr2.ARRAY) is not None:
        return NotZarrError("this is a single Zarr array", remedy=PATH_OF_FILE)
    # the target of a link is not looked at for a message
    nodes = [] if store.folder is None or store.read_rules.is_linked else _folders_of_files(store.folder)
    files = [name for name in nodes if name.endswith(ZARR_SUFFIXES)]
    if files:
        return NotZarrError(
            "this is a folder of Zarr files", remedy=f"Give the path of one file, such as {files[0]!r}."
        )
    if nodes:
        problem = f"the root has neither .zgroup nor zarr.json, but {nodes[0]!r} below it has metadata"
        return MetadataError(problem, path="/", remedy="Restore the document of the root from a copy of the file.")
    return NotZarrError(
        "this is not a Zarr hierarchy: it has neither .zgroup nor zarr.json",
        remedy="HDF5 files are read with HDF5IO or NWBHDF5IO, and converted with `zarrio convert`.",
        remedy_cli="Give a Zarr file; `zarrio convert` makes one of an HDF5 file.",
    )


def _folders_of_files(folder: str) -> list[str]:
    """Return the names of the folders directly in ``folder`` that have a metadata document."""
    folders: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(
        each for each in folders if any(os.path.isfile(os.path.join(folder, each, name)) for name in DOCUMENTS)
    )


def not_found(target: str, location: str) -> StoreNotFoundError:
    """Return the error for a local file that does not exist; it names what is there or was left."""
    problem, remedy = _what_is_there(target)
    left = unfinished_write(target)
    if left is not None:
        problem = f"{problem}; {left}"
        remedy = (
            "If that writer is running, wait. If it has died, copy what you need from there and write the file again: "
            "the next write deletes it."
        )
    with suppress(OSError):  # the folder cannot be listed
        if any(map(os.path.isdir, conversions(target))):
            remedy = (
                "A conversion to it was interrupted: run `zarrio convert --resume` again, or convert with resume=True."
            )
    return StoreNotFoundError(problem, store=location, remedy=remedy)


def _what_is_there(target: str) -> tuple[str, str]:
    """Return the problem of a path without a file, and a remedy: the name of a file that was probably meant."""
    from difflib import get_close_matches  # imported here: for this message only

    problem, name = "the file does not exist", os.path.basename(target)
    folder = os.path.dirname(target)
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder, name = os.path.split(folder)
    if folder != os.path.dirname(target):
        problem += f": there is no {name!r} in {folder!r}"
    if (inside := inside_of(target)) is not None:
        return problem, ". ".join(inside).replace("this is", "This is", 1)
    names: list[str] = []
    with suppress(OSError):  # the folder cannot be listed
        names = [other for other in os.listdir(folder) if not other.startswith(".")]
    similar = get_close_matches(name, names, n=1)
    return problem, f"Check the path. Did you mean {similar[0]!r}?" if similar else "Check the path."


def unfinished_write(target: str) -> str | None:
    """Describe the new files beside ``target`` whose writers are running or have died; None if there are none."""
    found = [f"{size_text(_size_below(path))} in {os.path.basename(path)!r}" for path in unfinished(target)]
    return f"a write of it is under way or did not finish: {' and '.join(found)} beside it" if found else None


def _size_below(path: str) -> int:
    """Return the bytes of a file, or of all files in a folder; what disappears meanwhile counts as nothing."""
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    total = 0
    for file in files if os.path.isdir(path) else [path]:
        with suppress(OSError):
            total += os.lstat(file).st_size
    return total
