"""A job of which the system refuses any one call, or memory: the old file or the new one, one error of ours, no hang.

The calls are those of the whole process, HDF5's and the zip module's among them: a library that is loaded first, and
compiled here, refuses them.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hdmf_zarr_backend import ZarrIO, verify
from tests.faults.refused import JOBS, REFUSED, prepare, state, work

CODES = [errno.EIO, errno.EPERM, errno.ENOSPC]
HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloads a library as Linux does")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) on this machine")
    made = tmp_path_factory.mktemp("refusing") / "refusing.so"
    command = [compiler, "-shared", "-fPIC", "-w", "-o", str(made), str(HERE / "refusing.c"), "-ldl"]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder)
    return folder


Run = Callable[..., SimpleNamespace]
"""Does a job, and tells how it ended: its ``code``, ``stderr``, and how many ``calls`` it made."""


@contextmanager
def running(library: Path | None = None) -> Iterator[Run]:
    """Give what does a job in a fork of a process, into which the library is loaded first."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.refused"]
    everything = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if library is not None:
        command.append(str(library))
        everything["LD_PRELOAD"] = str(library)
    with subprocess.Popen(
        command, cwd=HERE.parents[1], env=everything, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(job: str, folder: Path, **refused: Any) -> SimpleNamespace:
            process.stdin.write(json.dumps({"job": job, "folder": str(folder), **refused}) + "\n")
            process.stdin.flush()
            return SimpleNamespace(**json.loads(process.stdout.readline()))

        yield run
        process.stdin.close()
        assert process.wait(timeout=600) == 0


def _copied(prepared: Path, tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / name, symlinks=True))


def _try(run: Run, job: str, folder: Path, step: int, code: int, *, on: bool) -> None:
    """Refuse one call, and look at what is left."""
    done = run(job, folder, step=step, code=code, on=on)
    what = f"{job}, call {step}, {errno.errorcode[code]}{' and on' if on else ''}: {done.stderr[-2000:]}"
    assert done.code in (0, REFUSED), what
    if on and job == "append" and done.code == REFUSED:
        repaired = run(job, folder)  # an undo that was refused as well is done by the next one who opens the file
        assert repaired.code == 0, repaired.stderr
        assert state(job, folder) == "new", what
    elif done.code == 0:
        assert state(job, folder) == "new", what
    else:
        assert state(job, folder) in ("old", "new"), what
    if job != "append":
        again = run(job, folder)
        is_there = done.code == 0 and job in ("to-hdf5", "from-hdf5")  # a conversion replaces nothing
        assert again.code == (REFUSED if is_there else 0), f"{what}; then {again.stderr}"
        assert state(job, folder) == "new", what
    shutil.rmtree(folder)


def _count(run: Run, job: str, folder: Path) -> int:
    done = run(job, folder)
    assert done.code == 0, done.stderr
    assert state(job, folder) == "new"
    return done.calls


@pytest.mark.parametrize("job", JOBS)
def test_any_call_may_be_refused(job: str, library: Path, prepared: Path, tmp_path: Path) -> None:
    """A sample of the calls."""
    with running(library) as run:
        count = _count(run, job, _copied(prepared, tmp_path, "counted"))
        assert count > 20
        chance = random.Random(job)  # noqa: S311 - a sample that is the same each time
        for code in CODES:
            for on in (False, True):
                step = chance.randint(1, count)
                _try(run, job, _copied(prepared, tmp_path, "one"), step, code, on=on)


@pytest.mark.slow
@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("job", JOBS)
def test_every_call_may_be_refused(job, code, on, library, prepared, tmp_path):
    with running(library) as run:
        count = _count(run, job, _copied(prepared, tmp_path, "counted"))
        for step in range(1, count + 1):
            _try(run, job, _copied(prepared, tmp_path, "one"), step, code, on=on)


@pytest.mark.parametrize("job", [pytest.param(job, marks=[pytest.mark.slow] * (job != "write")) for job in JOBS])
def test_memory_that_runs_out_loses_nothing(job: str, prepared: Path, tmp_path: Path) -> None:
    """The address space ends while something is written."""
    with running() as run:
        for extra in (1, 4, 16, 64):
            folder = _copied(prepared, tmp_path, str(extra))
            done = run(job, folder, memory=extra * 2**20)
            # libraries of the oldest set, which runs on Python 3.11, crash without memory; that is as good as a kill
            crashed = (-signal.SIGSEGV, -signal.SIGABRT) if sys.version_info < (3, 12) else ()
            assert done.code in (0, REFUSED, *crashed), done.stderr
            assert state(job, folder) in (("new",) if done.code == 0 else ("old", "new"))


@pytest.mark.parametrize("job", [pytest.param(job, marks=[pytest.mark.slow] * (job != "append")) for job in JOBS])
def test_a_clock_that_goes_back_changes_nothing(job: str, library: Path, prepared: Path, tmp_path: Path) -> None:
    folder = _copied(prepared, tmp_path, "back")
    with running(library) as run:
        done = run(job, folder, back=3600)
    assert done.code == 0, done.stderr
    assert state(job, folder) == "new"
    hidden = {name for name in os.listdir(prepared) if name.startswith(".") and job != "follow"}
    assert {name for name in os.listdir(folder) if name.startswith(".")} == hidden


@pytest.mark.parametrize("text", [
    b"", b' {"host": "elsewhere", "pid": 1, "since": "2999-01-01T00:00:00+00:00"}',
    b' {"host": "elsewhere", "pid": 1, "since": "2026-01-01T00:00:00+00:00", "task": "append"}',
])  # fmt: skip
def test_a_lock_file_that_was_left_blocks_nobody(text: bytes, prepared: Path, tmp_path: Path) -> None:
    """Where the system has locks, what is written in the file of a dead writer decides nothing."""
    folder = _copied(prepared, tmp_path, "stale")
    (folder / ".old.zarr.lock").write_bytes(text)
    work("append", folder)
    assert state("append", folder) == "new"
    assert not (folder / ".old.zarr.lock").exists()


@pytest.mark.parametrize("text", [b"", b' {"host": "elsewhere", "pid": 1, "since": "2026-01-01T00:00:00+00:00"}'])
def test_a_file_that_was_left_aside_is_given_back(text: bytes, prepared: Path, tmp_path: Path) -> None:
    """Its writer died between two renames; what its lock file says, if anything, decides nothing."""
    folder = _copied(prepared, tmp_path, "aside")
    (folder / ".left.zarr.lock").write_bytes(text)
    assert not (folder / "left.zarr").exists()
    ZarrIO(folder / "left.zarr", "r+").close()
    assert state("follow", folder) == "old"
    # the new file was not put in place: its values are kept until the next write, as they may exist nowhere else
    (kept,) = (name for name in os.listdir(folder) if name.endswith(".partial"))
    (remark,) = (found for found in verify(folder / "left.zarr", "structure").remarks if found.path == "/")
    assert (remark.kind, kept in remark.message) == ("write-unfinished", True)
    work("follow", folder)
    assert state("follow", folder) == "new"
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
