"""Jobs on files in a folder, each in a fork of one process, of which the system refuses a call, or memory.

A job ends with 0 when it is done, and with 3 and the words of the error when one of ours says that it is not.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import hdf5plugin  # noqa: F401 - all is loaded before the first fork
import numpy as np

from hdmf_zarr_backend import ZarrBackendError, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.store.files import partial_path
from tests import trees

JOBS = ("write", "append", "zip", "to-hdf5", "from-hdf5", "follow")
NAMES = {"zip": "old.zarr.zip", "to-hdf5": "made.h5", "from-hdf5": "made.zarr", "follow": "left.zarr"}
REFUSED = 3
HANG_SECONDS = 300
"""A job that takes longer is ended by SIGALRM."""


def _write(path: Path, note: str, value: int) -> None:
    data = ZarrDataIO(np.full((6, 4), value), chunks=(2, 4), maxshape=(None, 4))
    trees.write_builder(path, trees.root(trees.group("g", trees.dataset("x", data)), note=note))


def prepare(folder: Path) -> None:
    _write(folder / "old.zarr", "old", 1)
    _write(folder / "old.zarr.zip", "old", 1)
    _write(folder / "source.zarr", "new", 2)
    convert(folder / "source.zarr", folder / "source.h5")
    _write(folder / "left.zarr", "old", 1)
    partial = partial_path(str(folder / "left.zarr"))
    os.rename(folder / "left.zarr", f"{partial}.old")
    shutil.copytree(folder / "source.zarr", partial)
    (folder / ".left.zarr.lock").write_text(' {"host": "elsewhere", "pid": 1, "since": "2026-01-01T00:00:00+00:00"}')


def work(job: str, folder: Path) -> None:
    if job == "write":
        _write(folder / "old.zarr", "new", 2)
    elif job == "append":
        with ZarrIO(folder / "old.zarr", "r+") as io:
            root = io.read_builder()
            root["g/x"].data.append(np.full((3, 4), 1))
            root.set_group(trees.group("more", trees.dataset("y", np.arange(3))))
            io.write_builder(root)
    elif job == "follow":  # a writer that died between two renames
        _write(folder / "left.zarr", "new", 2)
    elif job == "zip":
        _write(folder / "old.zarr.zip", "new", 2)
    elif job == "to-hdf5":
        convert(folder / "source.zarr", folder / "made.h5")
    else:
        convert(folder / "source.h5", folder / "made.zarr")


def state(job: str, folder: Path) -> str:
    """Return ``"old"`` or ``"new"``, read without faults; anything else is an error."""
    path = folder / NAMES.get(job, "old.zarr")
    if job == "follow" and not path.exists():
        ZarrIO(path, "r+").close()
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


def main(library: str = "") -> None:
    """Read requests, a line of JSON each, and write what became of them.

    A request is a job, its folder, and what is refused: ``step``, ``code`` and ``on`` for a call (``refusing.c``), and
    ``memory``, so many bytes more than the process has; ``back``, seconds, is what the clock does. An answer has how
    the job ended, what it said of errors, and how many calls it made. Calls and the clock need the library.
    """
    calls = mmap.mmap(-1, mmap.PAGESIZE)
    counter = ctypes.c_long.from_buffer(calls)
    faults = ctypes.CDLL(library) if library else None
    gc.collect()
    gc.freeze()  # what a fork collects is its own
    for line in sys.stdin:
        request = json.loads(line)
        counter.value = 0
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if not child:
                os.dup2(said.fileno(), sys.stderr.fileno())
                _child(request, faults, counter)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            text = said.read().decode(errors="replace")
        sys.stdout.write(json.dumps({"code": code, "stderr": text, "calls": counter.value}) + "\n")
        sys.stdout.flush()


def _child(request: dict[str, Any], faults: ctypes.CDLL | None, counter: ctypes.c_long) -> None:
    signal.alarm(HANG_SECONDS)
    job, folder = request["job"], request["folder"]
    if faults is not None:
        faults.turn_back(ctypes.c_long(request.get("back", 0)))
        step, code, on = request.get("step", 0), request.get("code", 0), request.get("on", False)
        faults.refuse(os.fsencode(folder), ctypes.c_long(step), code, int(on), ctypes.byref(counter))
    if "memory" in request:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + request["memory"],) * 2)
    ended = 0
    try:
        work(job, Path(folder))
    except (ZarrBackendError, MemoryError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        ended = REFUSED
    if ended and "memory" in request:
        os._exit(ended)
    # as an interpreter that ends, but without taking all modules apart; HDF5 closes what is still open
    gc.collect()
    atexit._run_exitfuncs()
    ctypes.CDLL(None).exit(ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
