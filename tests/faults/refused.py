"""One job on files in a folder, in a process of which the system refuses a call.

Arguments: the job and the folder. It ends with 0 when the job is done, and with 3 and the words of the error when one
of ours says that it is not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.errors import ZarrBackendError
from tests import trees

JOBS = ("write", "append", "zip", "to-hdf5", "from-hdf5")
REFUSED = 3


def _tree(note: str, value: int) -> Any:
    data = ZarrDataIO(np.full((6, 4), value), chunks=(2, 4), maxshape=(None, 4))
    return trees.root(trees.group("g", trees.dataset("x", data)), note=note)


def _write(path: Path, note: str, value: int) -> None:
    with ZarrIO(path, "w") as io:
        io.write_builder(_tree(note, value))


def prepare(folder: Path) -> None:
    """Write what the jobs begin with."""
    _write(folder / "old.zarr", "old", 1)
    _write(folder / "old.zarr.zip", "old", 1)
    _write(folder / "source.zarr", "new", 2)
    convert(folder / "source.zarr", folder / "source.h5")


def work(job: str, folder: Path) -> None:
    """Do a job."""
    if job == "write":
        _write(folder / "old.zarr", "new", 2)
    elif job == "append":
        with ZarrIO(folder / "old.zarr", "r+") as io:
            root = io.read_builder()
            root["g/x"].data.append(np.full((3, 4), 1))
            root.set_group(trees.group("more", trees.dataset("y", np.arange(3))))
            io.write_builder(root)
    elif job == "zip":
        _write(folder / "old.zarr.zip", "new", 2)
    elif job == "to-hdf5":
        convert(folder / "source.zarr", folder / "made.h5")
    else:
        convert(folder / "source.h5", folder / "made.zarr")


def state(job: str, folder: Path) -> str:
    """Return ``"old"`` or ``"new"``, read without faults; anything else is an error."""
    name = {"zip": "old.zarr.zip", "to-hdf5": "made.h5", "from-hdf5": "made.zarr"}.get(job, "old.zarr")
    path = folder / name
    if job in ("to-hdf5", "from-hdf5") and not path.exists():
        return "old"
    if job == "to-hdf5":
        import h5py

        with h5py.File(path, "r") as file:
            assert (file["g/x"][:] == 2).all()
            return str(file.attrs["note"])
    with ZarrIO(path, "r") as io:
        root = io.read_builder()
        data, note = root["g/x"].data[:], str(root.attributes["note"])
        if job == "append":
            assert (data == 1).all()
            assert (len(data), "more" in root.groups) in ((6, False), (9, True))
            return "new" if len(data) == 9 else "old"
        assert data.shape == (6, 4)
        assert (data == (2 if note == "new" else 1)).all()
        return note


def main(job: str, folder: str) -> None:
    """Do a job, all of it already loaded, so that only its own calls are counted."""
    try:
        work(job, Path(folder))
    except (ZarrBackendError, MemoryError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(REFUSED)


if __name__ == "__main__":
    main(*sys.argv[1:])
