"""A process with little memory that reads spoiled files, and hears of everything that it should not do.

``python -m tests.hostile.child FIRST COUNT`` prints one JSON document. It is run by the tests, which also know what it
means when it does not come back.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from hdmf_zarr_backend import Limits, ZarrIO, verify
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.builders.datasets import BuilderReferences, BuilderTable
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.options import ReadOptions
from tests.hostile.mutate import mutated
from tests.hostile.seeds import seeds

MEMORY = 2**30
"""Bytes of address space beyond what the process has when it begins."""

_JUMP_KIB = 50 * 1024
SECONDS = 20.0
"""The longest that one file may take."""

_ON_DISK = 10  # each so many files is a folder, the others are in memory
_REFUSED = ("exec", "compile", "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn",
            "socket.connect", "socket.getaddrinfo", "pickle.find_class", "ctypes.dlopen", "shutil.rmtree", "os.remove",
            "os.rename", "os.mkdir", "os.symlink", "os.chmod", "urllib.Request", "webbrowser.open")  # fmt: skip
LIMITS = Limits(
    max_document_bytes=2**22, max_documents=5000, max_depth=500, max_stored_bytes=2**24, max_chunk_bytes=2**25,
    max_object_bytes=2**24, max_read_bytes=2**26, max_read_chunks=20_000, max_links=40, max_files=20,
)  # fmt: skip


class TooLongError(BaseException):
    """One file takes too long."""


class Ear:
    """Hears what Python tells of code that is run and files that are opened."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.place = ""
        self.is_listening = False
        self.heard: list[str] = []

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what may not be."""
        if not self.is_listening:
            return
        if event == "compile" and isinstance(args[0], bytes) and args[0].isdigit():
            return  # NumPy asks `ast` what the digits in a data type mean
        if event in _REFUSED or (event == "open" and not self._may_open(args)):
            self.heard.append(f"{event} {args!r:.200}")

    def _may_open(self, args: tuple[Any, ...]) -> bool:
        path, flags = args[0], args[2] if len(args) > 2 else 0
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return False
        if not isinstance(path, str):
            return isinstance(path, int)
        is_code = path.startswith((sys.prefix, sys.base_prefix)) or path.endswith((".py", ".pyc"))
        # a relative path is one in the directory that is held open: the working directory of this process is empty
        return is_code or (
            self.folder is not None and os.path.realpath(os.path.join(self.place, path)).startswith(self.folder)
        )


def use(place: Any) -> None:
    """Read everything that is in a file, as a program would that knows nothing of it."""
    with ZarrIO(place, "r", read_options=ReadOptions(limits=LIMITS, external_links="within")) as io:
        stack = [io.read_builder()]
        seen: set[int] = set()
        while stack:
            builder = stack.pop()
            if id(builder) in seen:
                continue
            seen.add(id(builder))
            repr(builder.attributes)[:100]
            for members in (getattr(builder, "groups", {}), getattr(builder, "datasets", {})):
                stack.extend(members.values())
            stack.extend(link.builder for link in getattr(builder, "links", {}).values())
            if hasattr(builder, "data"):
                touch(builder.data)


def touch(data: Any) -> None:
    """Read the values of a dataset, whole and in part."""
    steps = [lambda: data[()] if isinstance(data, LazyArray) else data[:], lambda: data[0], lambda: data[-1:]]
    if not isinstance(data, (LazyArray, BuilderReferences, BuilderTable)):
        return
    for step in steps:
        try:
            found = step()
        except (ZarrBackendError, IndexError):
            continue
        if isinstance(found, np.ndarray) and found.dtype.hasobject:
            repr(found.reshape(-1)[:5].tolist())


def _misbehave(number: int) -> None:
    """Do what no file may lead to, each in turn."""
    if number == 0:
        os.system("true")  # noqa: S605 - to be heard
    elif number == 1:
        raise RuntimeError
    elif number == 2:
        bytearray(4 * MEMORY)
    else:
        with open("/etc/passwd", "rb"):
            pass


def run(first: int, count: int, *, misbehaves: bool = False) -> dict[str, Any]:
    """Read ``count`` spoiled files and return what happened."""
    ear = Ear()
    originals = seeds()
    folder = os.path.realpath(tempfile.mkdtemp(prefix="hostile"))
    for files in originals:  # whatever is imported on first use is by now
        _case(files, Path(folder) / "warm" / "file.zarr")
        _case(files, None)
    empty = Path(folder) / "empty"
    empty.mkdir()
    os.chdir(empty)
    sys.addaudithook(ear)
    signal.signal(signal.SIGALRM, _too_long)
    _limit_memory()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most, jumps = before, []
    outcomes: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    for number in range(first, first + count):
        files = mutated(originals, number)
        place = Path(folder) / str(number) / "file.zarr" if number % _ON_DISK == 0 else None
        if place is not None:
            _put(files, place)
        os.pwrite(sys.stderr.fileno(), f"{number:<12}\n".encode(), 0) if sys.stderr.seekable() else None
        outcome = _judged(ear, files, place, number if misbehaves else None)
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if now - most > _JUMP_KIB:
            jumps.append((number, round((now - most) / 1024)))
        most = max(most, now)
        outcomes[outcome["kind"]] += 1
        if outcome["kind"].startswith("!"):
            failures.append({"number": number, **outcome})
        if place is not None:
            shutil.rmtree(place.parent, ignore_errors=True)
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        "cases": count,
        "outcomes": dict(outcomes),
        "failures": failures,
        "megabytes": round(peak, 1),
        "jumps": jumps,
    }


def _judged(ear: Ear, files: dict[str, bytes], place: Path | None, misdeed: int | None = None) -> dict[str, Any]:
    """Read one file; the kind of the outcome begins with ``!`` if it must not be."""
    ear.heard, ear.folder, ear.place = [], None if place is None else str(place.parent), str(place or "")
    ear.is_listening = True
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        if misdeed is not None:
            _misbehave(misdeed)
        kind = _case(files, place, is_there=True)
        trace = ""
    except TooLongError:
        ear.is_listening = False  # a traceback compiles the lines that it shows
        kind, trace = "!too long", traceback.format_exc(limit=-6)
    except Exception as error:  # noqa: BLE001 - what it is, is what is asked
        ear.is_listening = False
        kind, trace = f"!{type(error).__name__}", traceback.format_exc(limit=-8)
    finally:
        ear.is_listening = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    if ear.heard:
        kind, trace = "!heard", "; ".join(ear.heard[:5])
    return {"kind": kind, "trace": trace}


def _case(files: dict[str, bytes], place: Path | None, *, is_there: bool = False) -> str:
    """Read and verify one file; return what came of reading it."""
    if place is not None and not is_there:
        _put(files, place)
    source: Any = files if place is None else place
    outcome = "read"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            use(source)
        except ZarrBackendError as error:
            str(error)
            outcome = type(error).__name__
        try:
            verify(source, "chunks", read_options=ReadOptions(limits=LIMITS, external_links="within"))
        except ZarrBackendError as error:
            str(error)
    return outcome


def _put(files: dict[str, bytes], place: Path) -> None:
    for key, value in files.items():
        path = Path(f"{place}/{key}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(value)
        except (OSError, ValueError):  # no file system holds such a key
            continue


def _limit_memory() -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _too_long(*_: Any) -> None:
    raise TooLongError


if __name__ == "__main__":
    json.dump(run(int(sys.argv[1]), int(sys.argv[2]), misbehaves="misbehave" in sys.argv), sys.stdout)
