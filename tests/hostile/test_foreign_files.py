"""What somebody else planted beside a file, in it, or in what it names is neither read, overwritten nor deleted."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.common import DynamicTable, VectorData, get_manager

from hdmf_zarr_backend import ZarrIO, convert, verify
from hdmf_zarr_backend.errors import DamagedFileError, StoreError, StoreRefusedError, ZarrBackendError

posix = pytest.mark.skipif(os.name == "nt", reason="symbolic links and pipes as POSIX has them")
SECRET = b"not yours\n"


def table() -> DynamicTable:
    column = VectorData(name="numbers", description="x", data=list(range(1000)))
    return DynamicTable(name="root", description="x", columns=[column])


def write(path: Path, mode: str = "w") -> None:
    with ZarrIO(str(path), manager=get_manager(), mode=mode) as io:
        io.write(table())


def files_of(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def command(*arguments: str, seconds: int = 60) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", "from hdmf_zarr_backend.cli.main import main; main()", *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=seconds, check=False)


def bound(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "secret"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


# ---- lock files -----------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("mode", ["w", "a", "r+"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "folder", "socket", "foreign file"])
def test_what_is_planted_as_the_lock_file_stays_as_it_is(tmp_path, secret, kind, mode):
    path, lock = tmp_path / "a.zarr", tmp_path / ".a.zarr.lock"
    write(path)
    before = files_of(path)
    {
        "link": lambda: lock.symlink_to(secret),
        "dangling link": lambda: lock.symlink_to(secret.with_name("new")),
        "hard link": lambda: os.link(secret, lock),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
        "socket": lambda: bound(lock),
        "foreign file": lambda: lock.write_bytes(b"somebody's notes"),
    }[kind]()
    with pytest.raises(StoreRefusedError, match=r"lock file.*left as it is") as caught:
        write(path, mode)
    assert str(path) in str(caught.value)
    assert secret.read_bytes() == SECRET
    assert os.listdir(secret.parent) == ["secret"]
    assert os.path.lexists(lock)
    if kind == "foreign file":
        assert lock.read_bytes() == b"somebody's notes"
    assert files_of(path) == before


@posix
def test_a_planted_lock_file_does_not_stop_readers(tmp_path, secret):
    path = tmp_path / "a.zarr"
    write(path)
    (tmp_path / ".a.zarr.lock").symlink_to(secret)
    with ZarrIO(str(path), manager=get_manager(), mode="r") as io:
        assert len(io.read()["numbers"]) == 1000


def test_the_record_of_a_writer_that_died_is_replaced(tmp_path):
    path, lock = tmp_path / "a.zarr", tmp_path / ".a.zarr.lock"
    record = {"host": socket.gethostname(), "pid": 2**22 + 1, "since": "2026-01-01T00:00:00+00:00"}
    lock.write_bytes(b" " + json.dumps(record).encode())
    write(path)
    assert not verify(path).problems
    assert not lock.exists()


# ---- pages and what is left of conversions --------------------------------------------------------------------------


@posix
def test_a_report_does_not_write_through_a_dangling_link(tmp_path, secret):
    write(tmp_path / "a.zarr")
    page = tmp_path / "a.html"
    page.symlink_to(secret.with_name("new"))
    done = command("report", str(tmp_path / "a.zarr"), "-o", str(page))
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert not secret.with_name("new").exists()


@posix
@pytest.mark.parametrize("resume", [False, True])
def test_a_conversion_does_not_write_into_a_linked_folder(tmp_path, monkeypatch, resume):
    """The folder of an interrupted conversion has a name that others can tell beforehand."""
    source, target, foreign = tmp_path / "a.h5", tmp_path / "a.zarr", tmp_path / "elsewhere"
    with h5py.File(source, "w") as file:
        file["x"] = np.arange(10)

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(source, target, progress=Interrupted())  # type: ignore[arg-type]
    (left,) = tmp_path.glob(".a.zarr.*.conversion-*.partial")
    left.rename(foreign)
    left.symlink_to(foreign)
    before = files_of(foreign)
    convert(source, target, resume=resume)
    assert files_of(foreign) == before
    assert not target.is_symlink()
    assert not verify(target).problems


# ---- journals -------------------------------------------------------------------------------------------------------


def plant(path: Path, last: dict[str, Any] | None = None, **parts: Any) -> None:
    head = {
        "version": 1,
        "id": "0" * 32,
        "holder": {"host": "elsewhere", "pid": 1, "since": "2026-01-01T00:00:00+00:00"},
        "old": {},
        "absent": [],
        "below": [],
        "crc32": 0,
        **parts,
    }
    (path / ".hdmf_zarr_journal").write_bytes(json.dumps(head).encode() + b"\n")
    if last is not None:
        (path / ".hdmf_zarr_journal.commit").write_text(json.dumps({"version": 1, "id": "0" * 32, **last}))


def refused_as_it_is(path: Path, outside: Path) -> None:
    before = {**files_of(path), **{f"outside/{name}": value for name, value in files_of(outside).items()}}
    with pytest.raises((DamagedFileError, StoreError)) as caught:
        ZarrIO(str(path), manager=get_manager(), mode="a").open()
    assert str(path) in str(caught.value)
    assert {**files_of(path), **{f"outside/{name}": value for name, value in files_of(outside).items()}} == before


@pytest.mark.parametrize(
    "parts",
    [
        {"below": ["."]},
        {"below": ["./"]},
        {"below": ["/"]},
        {"below": [""]},
        {"below": ["./numbers"]},
        {"below": ["numbers/.."]},
        {"below": ["numbers//x"]},
        {"below": ["numbers/"]},
        {"below": ".zmetadata"},
        {"below": {"numbers": 1}},
        {"below": [1]},
        {"below": ["/absolute"]},
        {"below": ["../outside"]},
        {"absent": ["."]},
        {"absent": ["./.zmetadata"]},
        {"absent": ".zmetadata"},
        {"absent": [".hdmf_zarr_journal"]},
        {"old": {"numbers/../.zmetadata": 0}},
        {"old": {".zmetadata": -1}},
        {"old": {".zmetadata": "0"}},
        {"old": {".zmetadata": False}},
        {"aside": {"./numbers": 0}},
        {"aside": {"numbers/0": "0"}},
        {"id": "../x"},
        {"id": 1},
        {"holder": {"host": "x", "pid": "1", "since": "now"}},
        {"mark": {"documents": {".zattrs": 1}, "hidden": []}},
        {"mark": {"documents": {}, "hidden": ".zmetadata"}},
    ],
    ids=str,
)
def test_a_journal_names_keys_below_the_root(tmp_path, secret, parts):
    path = tmp_path / "a.zarr"
    write(path)
    plant(path, **parts)
    refused_as_it_is(path, secret.parent)


@pytest.mark.parametrize(
    "last",
    [
        {"final": {}, "delete": ["."]},
        {"final": {}, "delete": ["../elsewhere/secret"]},
        {"final": {}, "delete": ".zmetadata"},
        {"final": {}, "delete": [1]},
        {"final": {".zmetadata": 1}, "delete": []},
        {"final": {"./.zmetadata": None}, "delete": []},
    ],
    ids=str,
)
def test_the_last_note_of_a_journal_names_keys_below_the_root(tmp_path, secret, last):
    path = tmp_path / "a.zarr"
    write(path)
    plant(path, last)
    refused_as_it_is(path, secret.parent)


@posix
@pytest.mark.parametrize("leads", [".", "../a.zarr"])
def test_a_journal_does_not_name_the_root_through_a_link(tmp_path, secret, leads):
    path = tmp_path / "a.zarr"
    write(path)
    (path / "link").symlink_to(leads)
    plant(path, below=["link"])
    refused_as_it_is(path, secret.parent)


@posix
def test_undoing_deletes_links_and_not_what_they_lead_to(tmp_path, secret):
    path = tmp_path / "a.zarr"
    write(path)
    before = files_of(path)
    (path / "new").mkdir()
    (path / "new" / "link").symlink_to(secret.parent)
    plant(path, below=["new"])
    with pytest.warns(UserWarning, match="was undone"), ZarrIO(str(path), manager=get_manager(), mode="a"):
        pass
    assert secret.read_bytes() == SECRET
    assert files_of(path) == before
    assert not (path / "new").exists()
