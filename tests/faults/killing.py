"""Whole writes that are killed at any of their steps, each in a fork of one process, and what is found afterwards.

A step is a call by which a file system or a server is changed; the bytes of a file are written in two, so that files of
half their length are found as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hdmf_zarr_backend import ReadOptions, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.errors import IncompleteStoreError, StoreNotFoundError
from hdmf_zarr_backend.store import files as store_files
from hdmf_zarr_backend.store import local as local_store
from hdmf_zarr_backend.store import zip as zip_store
from tests import trees
from tests.faults.appending import VARIANTS, append
from tests.options import arguments

ROOT = Path(__file__).parents[2]
OLD, NEW = 1, 2
"""What all values of the old file are, and of the new one."""


def write(place: Any, value: int, chunks: int, **options: Any) -> None:
    """Write a file in which everything is ``value``: attributes, text, scalars, and an array in so many chunks."""
    numbers = ZarrDataIO(np.full((chunks * 4, 3), value, "i2"), chunks=(4, 3))
    texts = trees.group("texts", trees.dataset("words", [str(value)] * 5), trees.dataset("one", str(value)), is_=value)
    with ZarrIO(place, "w", **options) as io:
        io.write_builder(trees.root(trees.group("deep", trees.group("g", trees.dataset("n", numbers))), texts, v=value))


def write_hdf5(path: Path, value: int, chunks: int) -> None:
    """Write the same as HDF5, and many small datasets, since small chunks of one become a single one."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["v"] = value
        file.create_dataset("deep/g/n", data=np.full((chunks * 4, 3), value, "i2"), chunks=(4, 3), compression="gzip")
        texts = file.create_group("texts")
        texts.attrs["is_"] = value
        texts["words"], texts["one"] = [str(value)] * 5, str(value)
        for number in range(chunks):
            file.create_dataset(f"many/{number}", data=[value])


def state(place: Any, chunks: int, **options: Any) -> str:
    """Return what a reader finds: ``"nothing"``, ``"incomplete"``, ``"old"`` or ``"new"``; a mixture is an error."""
    try:
        with ZarrIO(place, **options, read_options=ReadOptions(missing_chunks="error")) as io:
            root = io.read_builder()
            texts = root.groups["texts"]
            array = root.groups["deep"].groups["g"].datasets["n"].data[:]
            words = [*texts.datasets["words"].data[:], texts.datasets["one"].data]
            many = root.groups.get("many")
            found = set() if many is None else {int(dataset.data[0]) for dataset in many.datasets.values()}
            assert many is None or len(many.datasets) == chunks
            found |= {*array.ravel().tolist(), *map(int, words)}
            found |= {int(texts.attributes["is_"]), int(root.attributes["v"])}
    except StoreNotFoundError:
        return "nothing"
    except IncompleteStoreError:
        return "incomplete"
    assert array.shape == (chunks * 4, 3)
    assert len(words) == 6
    assert len(found) == 1, f"a mixture of {found}"
    return {OLD: "old", NEW: "new"}[found.pop()]


# ---- killed ---------------------------------------------------------------------------------------------------------
class Steps:
    """Kills this process at the step of a number.

    Parameters
    ----------
    last : int
        The number; 0: never.
    """

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last
        self._order = threading.Lock()

    def step(self) -> None:
        with self._order:  # requests are sent by several threads
            self.count += 1
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)

    def stepping(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function, between two steps."""
        self.step()
        answer = function(*arguments, **options)
        self.step()
        return answer

    def on_disk(self) -> None:
        """Let all that changes local files be a step."""
        write_all = local_store.write_all

        def halves(file: int, value: bytes) -> None:
            for half in (value[: len(value) // 2], value[len(value) // 2 :]):
                write_all(file, half)
                self.step()

        local_store.write_all = halves
        for name in ("replace", "rename", "unlink", "rmdir", "mkdir", "link"):
            setattr(os, name, partial(self.stepping, getattr(os, name)))
        # the module of zip files holds its own names of nothing that is patched here
        zip_file: Any = zip_store.zipfile.ZipFile
        writestr = zip_file.writestr
        zip_file.writestr = lambda *arguments, **options: self.stepping(writestr, *arguments, **options)
        store_files._renameat2 = partial(self.stepping, store_files._renameat2)


@contextmanager
def killed(
    what: str, place: str, chunks: int, options: dict[str, Any], points: int
) -> Iterator[tuple[int, Iterator[int]]]:
    """Give the number of steps, and an iterator that kills at the next one and gives its number."""
    command = [sys.executable, "-m", "tests.faults.killing", what, place, str(chunks), repr(options), str(points)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def steps() -> Iterator[int]:
            while True:
                try:
                    process.stdin.write("\n")
                    process.stdin.flush()
                except BrokenPipeError:
                    return
                line = process.stdout.readline()
                if not line:
                    return
                step, code = map(int, line.split())
                assert code == -9 or options.get("executor")  # threads may take some steps less
                yield step

        yield int(process.stdout.readline()), steps()


def main(arguments: list[str]) -> None:
    """Change files, in a fork each, and kill them at their steps.

    The arguments are: what is done (``write``, ``convert``, or a variant of an append), the file (``{}`` stands for a
    step; 0 is the one that is not killed), the number of chunks, options of the io as Python's literal, and how many
    steps to take. Each line of the answer is a step and how the process ended, the first one how many steps there are.
    Before a step is taken a line is read: the old file, which belongs to the step, is made by whoever asks.
    """
    what, place, chunks, options, points = arguments

    def run(step: int) -> int:
        def body() -> int:
            steps = Steps(step)
            steps.on_disk()
            with suppress(UserWarning):
                act(what, place.format(step), int(chunks), literal_eval(options))
            return steps.count

        return in_fork(body)

    count = run(0)
    _tell(count)
    for step in spread(count, int(points)):
        sys.stdin.readline()
        _tell(step, run(step))


def in_fork(function: Callable[[], int]) -> int:
    """Return what a function returns in a fork of this process, or the negative number of the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.write(writing, str(function()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code <= 0, "the append has failed by itself"
    return code or int(text)


def spread(count: int, points: int) -> list[int]:
    """Return so many of the numbers from 1 to ``count``, the first and the last among them; 0: all."""
    if not 1 < points < count:
        return list(range(1, count + 1))
    return [1 + number * (count - 1) // (points - 1) for number in range(points)]


def act(what: str, place: str, chunks: int, options: dict[str, Any]) -> None:
    if what in VARIANTS:
        append(place, what, **options)
    elif what == "write":
        write(place, NEW, chunks, **options)
    else:
        given = arguments(**{"executor": None, **options})
        convert(Path(place).parent / "source.h5", place, check=False, overwrite=os.path.lexists(place), **given)


def _tell(*numbers: int) -> None:
    sys.stdout.write(" ".join(map(str, numbers)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
