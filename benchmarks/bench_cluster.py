"""A dask cluster of two workers converts invented HDF5 to an S3 server of this machine; workers and clients are killed.

``python benchmarks/bench_cluster.py`` makes 20 GB of int16 in chunks of 4 MiB with gzip, and serves S3 with moto. It
measures the wall time of a conversion by a cluster of two workers with one thread each, and of two processes that
convert half of the data each at the same time; and the memory that a worker takes beyond what it had.
Then a worker is killed when a third of the chunks are there, and the process that converts at two thirds; its lock is
broken, and ``--resume`` has to send only what is missing. Each object is compared with the chunk that it must be, by
its MD5. ``--gigabytes`` and ``--rounds`` change the size; ``--quick`` takes 64 MB once, and kills nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import h5py
import numpy as np

CHUNK = (32_768, 64)
CHUNK_BYTES = 2 * CHUNK[0] * CHUNK[1]
PATTERNS = 16
"""Different chunks, which repeat: making 20 GB of noise would take longer than converting it."""
BUCKET, DATASET = "recordings", "raw"
CONVERT = [sys.executable, "-m", "hdmf_zarr_backend", "convert", "--no-check", "--json"]


def chunks() -> list[bytes]:
    """Return chunks as gzip stores them: a slow signal with noise of 7 bits."""
    random, slow = np.random.default_rng(0), np.arange(CHUNK[0])[:, None] // 64
    noise = (random.integers(-64, 64, CHUNK, dtype="i2") for _ in range(PATTERNS))
    return [zlib.compress((slow + each).astype("i2").tobytes(), 1) for each in noise]


def make(path: Path, count: int, patterns: list[bytes]) -> None:
    """Write a file with so many chunks."""
    with h5py.File(path, "w") as file:
        shape = (count * CHUNK[0], CHUNK[1])
        dataset = file.create_dataset(DATASET, shape, "i2", chunks=CHUNK, compression="gzip", compression_opts=1)
        for number in range(count):
            dataset.id.write_direct_chunk((number * CHUNK[0], 0), patterns[number % PATTERNS])


@contextmanager
def process(*command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, and end it."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


class Servers:
    """The S3 server, the scheduler and its workers."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        endpoint = f"http://127.0.0.1:{port}"
        stack.enter_context(process(sys.executable, "-m", "moto.server", "-p", str(port)))
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip
        self.s3 = boto3.client("s3", endpoint_url=endpoint)
        wait_for(lambda: socket.create_connection(("127.0.0.1", port), 1).close())
        self.s3.create_bucket(Bucket=BUCKET)
        written = folder / "scheduler.json"
        self._dask("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(written))
        self.address: str = wait_for(lambda: json.loads(written.read_text())["address"]).removeprefix("tcp://")
        self.workers = [self.worker(), self.worker()]

    def _dask(self, tool: str, *arguments: str) -> subprocess.Popen[bytes]:
        code = f"import sys; from distributed.cli.{tool} import main; sys.exit(main())"
        return self._stack.enter_context(process(sys.executable, "-c", code, "--no-dashboard", *arguments))

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker with one thread."""
        return self._dask(
            "dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder)
        )

    def objects(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the objects of the chunks of a file."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{name}/{DATASET}/")
        listed = {each["Key"].rpartition("/")[2]: each for page in pages for each in page.get("Contents", [])}
        return {key: each for key, each in listed.items() if not key.startswith(".")}

    def delete(self, name: str) -> None:
        """Delete a file."""
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{name}/"):
            keys = [{"Key": each["Key"]} for each in page.get("Contents", [])]
            if keys:
                self.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": keys})


def wait_for(condition: Any, seconds: float = 120) -> Any:
    """Return what a condition returns, when it raises nothing any more."""
    end = time.monotonic() + seconds
    while True:
        try:
            return condition()
        except (OSError, ValueError, KeyError, AssertionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def timed(*commands: list[str]) -> float:
    """Return the wall time of commands that run at the same time."""
    start = time.perf_counter()
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert [each.wait() for each in running] == [0] * len(running)
    return time.perf_counter() - start


def memory(pid: int, field: str) -> float:
    """Return a field of the memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def check(servers: Servers, name: str, count: int, patterns: list[bytes]) -> None:
    """Compare each object with the chunk that it must be."""
    sums = [hashlib.md5(each).hexdigest() for each in patterns]  # noqa: S324 - the ETag of S3
    found = {key: each["ETag"].strip('"') for key, each in servers.objects(name).items()}
    assert found == {f"{number}.0": sums[number % PATTERNS] for number in range(count)}, "the copy differs"


def killed(servers: Servers, source: Path, count: int) -> tuple[int, int, float]:
    """Kill a worker and then the conversion, and resume; return chunks there, chunks sent, and seconds of the rest."""
    target = f"s3://{BUCKET}/killed.zarr"
    command = [*CONVERT, str(source), target, "--scheduler", servers.address]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def reached(part: float) -> None:
        if running.poll() is not None:
            raise RuntimeError("the conversion ended before it was killed: take more --gigabytes")
        assert len(servers.objects("killed.zarr")) >= part * count

    wait_for(lambda: reached(1 / 3), 3600)
    servers.workers[0].kill()
    wait_for(lambda: reached(2 / 3), 3600)
    running.kill()
    running.wait()
    time.sleep(2)  # what its workers were doing ends
    servers.workers[0] = servers.worker()
    before = servers.objects("killed.zarr")
    subprocess.run([*CONVERT[:3], "repair", "--break-lock", target], stdout=subprocess.DEVNULL, check=False)
    seconds = timed([*command, "--resume"])
    after = servers.objects("killed.zarr")
    assert all(after[key]["LastModified"] == each["LastModified"] for key, each in before.items()), "sent twice"
    return len(before), len(after) - len(before), seconds


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20, help="size of the values")
    parser.add_argument("--rounds", type=int, default=1, help="how often each conversion is measured")
    parser.add_argument("--quick", action="store_true", help="64 MB, once, and no kills")
    arguments = parser.parse_args()
    size, rounds = (0.064, 1) if arguments.quick else (arguments.gigabytes, arguments.rounds)
    count = max(12, round(size * 1e9 / CHUNK_BYTES) // 2 * 2)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, patterns = Path(name), chunks()
        whole, half = folder / "whole.h5", folder / "half.h5"
        make(whole, count, patterns)
        make(half, count // 2, patterns)
        servers = Servers(folder, stack)
        cluster, apart, extra = [], [], []
        for _ in range(rounds):
            before = [memory(each.pid, "VmRSS") for each in servers.workers]
            for each in servers.workers:
                Path(f"/proc/{each.pid}/clear_refs").write_text("5")
            target = f"s3://{BUCKET}/a.zarr"
            cluster.append(timed([*CONVERT, str(whole), target, "--scheduler", servers.address]))
            peaks = [memory(each.pid, "VmHWM") for each in servers.workers]
            extra.append(max(peak - there for peak, there in zip(peaks, before, strict=True)))
            check(servers, "a.zarr", count, patterns)
            servers.delete("a.zarr")
            halves = [[*CONVERT, str(half), f"s3://{BUCKET}/{part}.zarr", "-j", "1"] for part in "bc"]
            apart.append(timed(*halves))
            check(servers, "b.zarr", count // 2, patterns)
            servers.delete("b.zarr")
            servers.delete("c.zarr")
        if not arguments.quick:
            there, sent, seconds = killed(servers, whole, count)
            check(servers, "killed.zarr", count, patterns)
    values = count * CHUNK_BYTES / 1e6
    one, two = statistics.median(cluster), statistics.median(apart)
    print(f"{values / 1e3:.1f} GB of values, {sum(map(len, patterns)) / PATTERNS / CHUNK_BYTES:.2f} of that stored")
    print(
        f"cluster of two workers: {one:.1f} s, {values / one:.0f} MB/s; extra memory of a worker {max(extra):.0f} MiB"
    )
    print(f"two processes, half each: {two:.1f} s, {values / two:.0f} MB/s; the cluster takes {one / two:.2f} of that")
    if not arguments.quick:
        print(f"killed: {there} of {count} chunks were there, {sent} were sent by --resume, in {seconds:.1f} s")
    return int(one > 1.2 * two and not arguments.quick)


if __name__ == "__main__":
    sys.exit(main())
