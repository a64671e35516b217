"""Ceph's S3 server, radosgw, from Debian's packages, which are extracted to a folder and not installed.

The first test that wants it fetches the packages with apt, to where the environments of the peers are. One monitor,
one OSD that holds everything in memory, and the gateway run on this machine's loopback, without a manager, without
encryption between them, and without replicas.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from tests.peers import cache_folder
from tests.servers import answers

PACKAGES = (
    "radosgw",
    "ceph-mon",
    "ceph-osd",
    "ceph-common",
    "python3-rados",
    "python3-ceph-argparse",
    "python3-prettytable",
)
ACCESS_KEY, SECRET_KEY = "tester", "secret"

_OURS = ("lib", "ceph", "python3-", "radosgw")  # the others are services of a system that they are installed in
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_WAIT = 120.0


class CephUnavailableError(Exception):
    """Ceph cannot be had; the message says why."""


def obtain() -> Path:
    """Return the folder of the extracted packages, which are fetched where they are not there yet.

    Raises
    ------
    CephUnavailableError
        This is not Debian, or its packages cannot be had.
    """
    folder = cache_folder() / "ceph"
    with FileLock(f"{folder}.lock"):
        if not (folder / "root").exists():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    """Download the packages with all that they need and this system lacks, and extract them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise CephUnavailableError("apt-get and dpkg-deb are not here")
    packages, root = folder / "packages", folder / "root"
    packages.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", *_lacking()], cwd=packages, check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise CephUnavailableError(f"apt-get download: {error.stderr.decode()[-500:]}") from error
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, packages / "root"], check=True)
    (packages / "root").rename(root)
    shutil.rmtree(packages)


def _lacking() -> list[str]:
    """Return the packages that are to be downloaded: all that are needed, without those that are installed."""
    unwanted = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    command = ["apt-cache", "depends", "--recurse", *(f"--no-{word}" for word in unwanted), *PACKAGES]
    needed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    names = {line for line in needed if line and not line.startswith((" ", "<", "|"))}
    query = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n"], capture_output=True, text=True, check=True
    )
    installed = {line.split()[0] for line in query.stdout.splitlines() if line.split()[1:] == ["ii"]}
    return sorted(name for name in names - installed if name.startswith(_OURS))


class _Cluster:
    """The three processes, and the commands that set them up."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.ports = dict(zip(("mon", "gateway"), _free_ports(2), strict=True))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.fsid, self.osd = str(uuid.uuid4()), str(uuid.uuid4())
        paths = [root / _LIBRARIES, root / _LIBRARIES / "ceph", root / "usr/lib/ceph", root / "lib/x86_64-linux-gnu"]
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(map(str, paths)),
            "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"),
            "CEPH_CONF": str(folder / "ceph.conf"),
        }
        for name in ("mon", "osd", "run", "rgw"):
            (folder / name).mkdir()
        (folder / "ceph.conf").write_text(self._settings())

    def _settings(self) -> str:
        libraries = self.root / _LIBRARIES
        settings = {
            "fsid": self.fsid,
            "mon host": f"v1:127.0.0.1:{self.ports['mon']}",
            "auth cluster required": "none",
            "auth service required": "none",
            "auth client required": "none",
            "ms mon cluster mode": "crc",
            "ms mon service mode": "crc",
            "ms mon client mode": "crc",
            "ms cluster mode": "crc",
            "ms service mode": "crc",
            "ms client mode": "crc",
            "public addr": "127.0.0.1",
            "cluster addr": "127.0.0.1",
            "mon data": self.folder / "mon",
            "osd data": self.folder / "osd",
            "rgw data": self.folder / "rgw",
            "osd objectstore": "memstore",
            "memstore device bytes": 2**31,
            "osd class dir": self.root / "usr/lib/x86_64-linux-gnu/rados-classes",
            "erasure code dir": libraries / "ceph/erasure-code",
            "plugin dir": libraries / "ceph",
            "osd pool default size": 1,
            "osd pool default min size": 1,
            "osd pool default pg num": 1,
            "osd pool default pgp num": 1,
            "osd crush chooseleaf type": 0,
            "mon allow pool size one": "true",
            "mon max pg per osd": 2000,
            "mon data avail crit": 0,
            "mon data avail warn": 0,
            "run dir": self.folder / "run",
            "admin socket": self.folder / "run/$name.asok",
            "pid file": "",
            "log file": self.folder / "$name.log",
            "log to stderr": "false",
            "setuser match path": "",
            "crash dir": self.folder / "run",
        }
        return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())

    def run(self, program: str, *arguments: str) -> str:
        """Run a program to its end; return what it prints."""
        path = self.root / "usr/bin" / program
        command = ["/usr/bin/python3", str(path)] if program == "ceph" else [str(path)]
        done = subprocess.run(
            [*command, *arguments], check=False, env=self.environment, capture_output=True, text=True, timeout=_WAIT
        )
        if done.returncode:
            raise CephUnavailableError(f"{program} {' '.join(arguments)}: {done.stderr[-500:]}")
        return done.stdout

    def start(self, program: str, *arguments: str) -> None:
        """Start a program that goes on."""
        command = [str(self.root / "usr/bin" / program), "-f", *arguments]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen(command, env=self.environment, **silent))

    def up(self) -> str:
        """Start all; return the address of the gateway."""
        address = f"127.0.0.1:{self.ports['mon']}"
        monmap = str(self.folder / "monmap")
        self.run("monmaptool", "--create", "--clobber", "--fsid", self.fsid, "--addv", "a", f"[v1:{address}]", monmap)
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        self.start("ceph-mon", "-i", "a")
        self.run("ceph", "--connect-timeout", "60", "osd", "new", self.osd)
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", self.osd)
        self._start_osd()
        self.run("radosgw-admin", "user", "create", "--uid", "tester", "--display-name", "tester",
                 "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY)  # fmt: skip
        endpoint = f"http://127.0.0.1:{self.ports['gateway']}"
        frontend = f"beast endpoint=127.0.0.1:{self.ports['gateway']}"
        self.start("radosgw", "-n", "client.rgw", "--rgw-frontends", frontend)
        self._wait_for(endpoint)
        return endpoint

    def _start_osd(self) -> None:
        """Start the daemon of the disk, again where it ended: it may ask the monitor before it knows its cluster."""
        end = time.monotonic() + _WAIT
        self.start("ceph-osd", "-i", "0")
        while "1 up" not in self.run("ceph", "--connect-timeout", "60", "osd", "stat"):
            if time.monotonic() > end:
                raise CephUnavailableError(f"ceph-osd is not up after {_WAIT:.0f} s; see {self.folder}")
            if self.processes[-1].poll() is not None:
                self.processes.pop()
                self.start("ceph-osd", "-i", "0")
            time.sleep(0.2)

    def _wait_for(self, endpoint: str) -> None:
        end = time.monotonic() + _WAIT
        while time.monotonic() < end:
            if answers(endpoint):
                return
            time.sleep(0.2)
        raise CephUnavailableError(f"radosgw does not answer after {_WAIT:.0f} s; see {self.folder}")

    def down(self) -> None:
        """End all."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [found.getsockname()[1] for found in sockets]


@contextlib.contextmanager
def radosgw(extracted: Path, folder: Path) -> Iterator[str]:
    """Give the address of a gateway that runs from what `fetch` extracted, with its files in an empty folder."""
    root = extracted / "root"
    if not (root / "usr/bin/radosgw").exists():
        raise CephUnavailableError(f"{extracted} holds no Ceph")
    cluster = _Cluster(root, folder)
    try:
        yield cluster.up()
    finally:
        cluster.down()
