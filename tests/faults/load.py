"""Writers, readers and an appender on one file at the same time, each a process, for a number of turns and of seconds.

Everything in the file says which version it is: its number, the writer that made it, and how often it was appended to.
Each turn that comes to its end is put down, with what the writer found and what it left, in the order of the lock. So
what was written is told from what was lost, and a reader that finds parts of two versions stops the test.

The second append to a version adds so many rows that their array gets larger chunks, for which the file cannot be read
for a moment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import IncompleteStoreError, StoreError, StoreLockedError
from tests import trees

ROWS, WIDTH = 64, 8
MANY = 64
WAIT_SECONDS, LONGEST_WAIT = 0.005, 300
OUTDATED = {
    "the file was replaced or removed while it was open": "replaced",
    "the array was given other chunks while it was open": "given other chunks",
}
"""What a reader is told of a file that has changed under it, and has to open again."""


def write(path: Any, version: int, zarr_format: Any = None) -> int:
    """Write a version, and return a time at which the lock was held."""
    data = ZarrDataIO(np.full((ROWS, WIDTH), version, "i8"), chunks=(4, WIDTH))
    rows = ZarrDataIO(np.full(3, version, "i8"), chunks=(4,), maxshape=(None,))
    with ZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write_builder(
            trees.root(trees.group("g", trees.dataset("data", data), trees.dataset("rows", rows)), version=version)
        )
        return time.monotonic_ns()


def add(io: ZarrIO, version: int, count: int) -> int:
    """Append rows and a group to a version that was appended to so often; return a time at which the lock was held."""
    root = io.read_builder()
    root.groups["g"].datasets["rows"].data.append([version] * _rows_of(count))
    root.set_group(trees.group(f"n{count}", trees.dataset("x", np.full(5, version, "i8"))))
    io.write_builder(root)
    return time.monotonic_ns()


class Lost(AssertionError):
    """A reader has found parts of two versions."""


def check(io: ZarrIO) -> tuple[int, int]:
    """Return the version of a file, and how often it was appended to; all of it has to be of that version."""
    root = io.read_builder()
    group = root.groups["g"]
    version = int(root.attributes["version"])
    rows = group.datasets["rows"].data[:].tolist()
    data = group.datasets["data"].data[:]
    count = len(root.groups) - 1
    if not (data == version).all() or rows != [version] * (3 + sum(map(_rows_of, range(count)))):
        raise Lost(f"version {version}: data {np.unique(data)}, rows {rows}, groups {sorted(root.groups)}")
    for name, child in root.groups.items():
        if name != "g" and child.datasets["x"].data[:].tolist() != [version] * 5:
            raise Lost(f"version {version}: {name} has {child.datasets['x'].data[:].tolist()}")
    return version, count


def _rows_of(count: int) -> int:
    """Return how many rows an append adds to a version that was appended to so often."""
    return MANY if count == 1 else 1


def write_turns(path: str, number: int, turns: int, seconds: float) -> dict[str, Any]:
    done: list[dict[str, Any]] = []
    refused = Counter[str]()
    end = time.monotonic() + seconds
    while len(done) < turns or time.monotonic() < end:
        version = number * 1_000_000 + len(done) + 1
        while True:
            try:
                done.append({"at": write(path, version), "left": [version, 0]})
                break
            except StoreLockedError as error:
                refused[_reason(error)] += 1
                time.sleep(0.002 * number)
        time.sleep(0.001 * (len(done) % 7 + number))
    return {"done": done, "refused": refused}


def append_turns(path: str, number: int, turns: int, seconds: float) -> dict[str, Any]:
    done: list[dict[str, Any]] = []
    refused = Counter[str]()
    end = time.monotonic() + seconds
    while len(done) < turns or time.monotonic() < end:
        try:
            with ZarrIO(path, "r+") as io:
                version, count = check(io)
                at = add(io, version, count)
            done.append({"at": at, "found": [version, count], "left": [version, count + 1]})
        except StoreLockedError as error:
            refused[_reason(error)] += 1
        time.sleep(0.002 * number)
    return {"done": done, "refused": refused}


def read_turns(path: str, number: int, until: str) -> dict[str, Any]:
    """Read the file again and again, until another file is there; wait where the file says that it is being changed."""
    told, seen = Counter[str](), set()
    last = time.monotonic()
    while not os.path.exists(until):
        try:
            with ZarrIO(path) as io:
                time.sleep(0.003 * (number % 3))  # between opening and reading
                seen.add(check(io))
            told["reads"] += 1
            last = time.monotonic()
            time.sleep(0.002)
        except IncompleteStoreError as error:
            if not error.remedy.startswith("Wait a moment") or time.monotonic() - last > LONGEST_WAIT:
                raise
            told["told to wait"] += 1
            time.sleep(WAIT_SECONDS)
        except StoreError as error:
            if error.problem not in OUTDATED:
                raise
            told[OUTDATED[error.problem]] += 1
    return {**told, "versions": len(seen)}


def _reason(error: StoreLockedError) -> str:
    return "named" if f"process {os.getpid()} " not in error.problem and "process " in error.problem else str(error)


def main(arguments: list[str]) -> None:
    """Run two writers, eight readers and an appender.

    The arguments are a folder, and how often and for how many seconds each is to work at least.
    """
    folder, turns, seconds = arguments[0], int(arguments[1]), float(arguments[2])
    path, until = f"{folder}/a.zarr", f"{folder}/end"
    write(path, 0)
    working = [_started(folder, name, job, path, number, turns, seconds) for number, (name, job) in enumerate(
        [("writer", write_turns), ("writer", write_turns), ("appender", append_turns)], start=1)]  # fmt: skip
    reading = [_started(folder, "reader", read_turns, path, number, until) for number in range(8)]
    codes = [_code(pid) for pid in working]
    Path(until).touch()
    codes += [_code(pid) for pid in reading]
    sys.exit(max(codes))


def _code(pid: int) -> int:
    return abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _started(folder: str, name: str, job: Any, *arguments: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    answer = job(*arguments)  # what it raises ends this process, and is told there
    Path(f"{folder}/{name}-{arguments[1]}.json").write_text(json.dumps(answer))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
