"""A dask cluster that runs already, of processes of its own, used by the address of its scheduler."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend import WriteOptions, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import UsageError, WorkerLostError
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.write import tasks
from hdmf_zarr_backend.write.tasks import opened
from tests.places import stored_files

pytest.importorskip("distributed")

VALUES = np.random.default_rng(0).integers(-50, 50, (200_000, 16), dtype="i2")


@contextmanager
def running(tool: str, *arguments: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of dask's servers as users do, and end it."""
    code = f"import sys; from distributed.cli.{tool} import main; sys.exit(main())"
    command, nowhere = [sys.executable, "-c", code, *arguments], subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, stdout=nowhere, stderr=nowhere)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    told = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told))
    with running("dask_scheduler", *options, folder=folder) as process:
        while not told.exists() or not told.read_text().endswith("}"):
            assert process.poll() is None
            time.sleep(0.05)
        yield json.loads(told.read_text())["address"].removeprefix("tcp://"), process
        told.unlink()


@contextmanager
def worker(address: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
    with running("dask_worker", address, *options, folder=folder) as process:
        yield process


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("group/x", data=VALUES, chunks=(1024, 16), compression="gzip", compression_opts=9)
        file["contiguous"] = VALUES
        file["text"] = ["a", "b"]
    return path


def test_a_cluster_of_processes_makes_the_same_file(source, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tasks, "SECONDS", 600)  # for workers to start on a busy machine
    with scheduler(tmp_path) as (address, _), worker(address, tmp_path), worker(address, tmp_path):
        call = ["convert", "--scheduler", address, "--codec", "zlib", str(source), str(tmp_path / "a.zarr")]
        assert main(call) == 0, capsys.readouterr().err
    convert(source, tmp_path / "b.zarr", codec={"id": "zlib", "level": 4}, write_options=WriteOptions(executor=None))
    assert stored_files(tmp_path / "a.zarr") == stored_files(tmp_path / "b.zarr")
    assert "2 groups, 3 datasets" in capsys.readouterr().out


class Stopping(Progress):
    """Kills a process when the first bytes of a large dataset are told."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def advance(self, path: str, done: int) -> None:
        if path == "/group/x" and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.mark.slow
def test_a_cluster_that_is_gone_is_told_and_what_is_done_goes_on_without_it(source, tmp_path):
    import dask

    folder = tmp_path / "out"
    folder.mkdir()
    codec = {"id": "zlib", "level": 9}
    here = WriteOptions(memory_budget=500_000)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s", "distributed.comm.retry.count": 0}),
        scheduler(tmp_path) as (address, process),
        worker(address, tmp_path),
        pytest.raises(WorkerLostError, match=r"\(/.*resume=True"),
    ):
        far = WriteOptions(executor=f"tcp://{address}", progress=Stopping(process), memory_budget=500_000)
        convert(source, folder / "a.zarr", codec=codec, write_options=far)
    assert not (folder / "a.zarr").exists()
    convert(source, folder / "a.zarr", codec=codec, resume=True, write_options=here)
    convert(source, folder / "b.zarr", codec=codec, write_options=here)
    assert stored_files(folder / "a.zarr") == stored_files(folder / "b.zarr")


def test_a_scheduler_that_does_not_answer(source, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tasks, "SECONDS", 1)
    with socket.socket() as taken:  # nobody listens there
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["convert", "--scheduler", address, str(source), str(tmp_path / "a.zarr")]) == 2
    assert f"the dask scheduler at tcp://{address} does not answer within 1 s" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_without_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "SECONDS", 5)  # to answer, which it does, and for a worker to come
    with (
        scheduler(tmp_path) as (address, _),
        pytest.raises(WorkerLostError, match="has no workers"),
        opened(f"tcp://{address}"),
    ):
        pass


def test_an_address_that_is_none_and_a_library_that_is_missing(source, tmp_path, monkeypatch):
    threads = threading.enumerate()
    with pytest.raises(UsageError, match="not an address of a dask scheduler"):
        convert(source, tmp_path / "a.zarr", write_options=WriteOptions(executor="carrier-pigeon://loft"))
    assert threading.enumerate() == threads  # no half-open client, which could stop the next one for ten seconds
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'hdmf-zarr-backend\[dask\]'"):
        convert(source, tmp_path / "a.zarr", write_options=WriteOptions(executor="tcp://127.0.0.1:8786"))


def test_workers_that_are_paused_are_not_waited_for(source, tmp_path):
    """Dask pauses a worker that needs 80 percent of its memory, which one of 50 MB does before it has a task."""
    with scheduler(tmp_path) as (address, _):
        limit = ("--memory-limit", "50MB", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path))
        with running("dask_worker", address, *limit, folder=tmp_path):
            options = WriteOptions(executor=f"tcp://{address}")
            with pytest.raises(WorkerLostError, match="all workers of the cluster are paused for lack of memory"):
                convert(source, tmp_path / "a.zarr", codec="zlib", write_options=options)
    assert not (tmp_path / "a.zarr").exists()
