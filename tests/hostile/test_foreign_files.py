"""What somebody else planted beside a file, in it, or in what it names is neither read, overwritten nor deleted."""

import json
import os
import socket
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.common import DynamicTable, VectorData, get_manager

from hdmf_zarr_backend import ReadOptions, WriteOptions, ZarrIO, convert, verify
from hdmf_zarr_backend.errors import DamagedFileError, LinkRefusedError, StoreError, StoreRefusedError, ZarrBackendError
from tests.hostile.files import GIGABYTES, bomb
from tests.places import stored_files
from tests.smallfiles import hdf5_dataset, hdf5_file
from tests.watching import Interrupted

posix = pytest.mark.skipif(os.name == "nt", reason="symbolic links and pipes as POSIX has them")
SECRET = b"not yours\n"


def write(path: Path, mode: str = "w") -> None:
    column = VectorData(name="numbers", description="x", data=list(range(1000)))
    with ZarrIO(str(path), manager=get_manager(), mode=mode) as io:
        io.write(DynamicTable(name="root", description="x", columns=[column]))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", "from hdmf_zarr_backend.cli.main import main; raise SystemExit(main())", *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=600, check=False)


def bound(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as result:
            result.bind(path.name)
    finally:
        os.chdir(here)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "secret"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


FOREIGN = (b"notes", b'x{"host": "h"}', b" {", b' {"host": "elsewhere", "pid": "x", "since": 3}', b" " * 10_000)
KINDS = ("link", "dangling link", "hard link", "pipe", "folder", "socket", *FOREIGN)


@posix
@pytest.mark.parametrize("mode", ["w", "a", "r+"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind)[:20])
def test_what_is_planted_as_the_lock_file_stays_as_it_is(tmp_path, secret, kind, mode):
    path, lock = tmp_path / "a.zarr", tmp_path / ".a.zarr.lock"
    write(path)
    before = stored_files(path)
    {
        "link": lambda: lock.symlink_to(secret), "dangling link": lambda: lock.symlink_to(secret.with_name("new")),
        "hard link": lambda: os.link(secret, lock), "pipe": lambda: os.mkfifo(lock), "folder": lock.mkdir,
        "socket": lambda: bound(lock),
    }.get(kind, lambda: lock.write_bytes(kind))()  # fmt: skip
    is_file = kind in (*FOREIGN, "hard link")
    problem = "something other than the record of a lock" if is_file else "is not a regular file"
    with ZarrIO(path, manager=get_manager()) as io:
        assert len(io.read()["numbers"]) == 1000  # it does not stop readers
    with pytest.raises(StoreRefusedError, match=rf"lock file .*{problem}, and is left as it is") as caught:
        write(path, mode)
    remedy = "This package did not make it. Look at it, and move or delete it before you write here."
    assert caught.value.remedy == remedy
    assert str(path) in str(caught.value)
    assert str(lock) in caught.value.problem
    assert secret.read_bytes() == SECRET
    assert os.listdir(secret.parent) == ["secret"]
    assert os.path.lexists(lock)
    if kind in FOREIGN:
        assert lock.read_bytes() == kind
        lock.unlink()
        write(path, "w")
    else:
        assert stored_files(path) == before


@posix
@pytest.mark.parametrize("resume", [False, True])
def test_a_conversion_does_not_write_into_a_linked_folder(tmp_path, monkeypatch, resume):
    """The folder of an interrupted conversion has a name that others can tell beforehand."""
    source, target, foreign = tmp_path / "a.h5", tmp_path / "a.zarr", tmp_path / "elsewhere"
    hdf5_file(source, x=np.arange(10))

    with pytest.raises(KeyboardInterrupt):
        convert(source, target, write_options=WriteOptions(progress=Interrupted()))
    (left,) = tmp_path.glob(".a.zarr.*.conversion-*.partial")
    left.rename(foreign)
    left.symlink_to(foreign)
    before = stored_files(foreign)
    convert(source, target, resume=resume)
    assert stored_files(foreign) == before
    assert not target.is_symlink()
    assert not verify(target).problems


def plant(path: Path, last: dict[str, Any] | None = None, **parts: Any) -> None:
    holder = {"host": "elsewhere", "pid": 1, "since": "2026-01-01T00:00:00+00:00"}
    head = {"version": 2, "id": "0" * 32, "holder": holder, "old": {}, "absent": [], "below": [], "crc32": 0, **parts}
    (path / ".hdmf_zarr_journal").write_bytes(json.dumps(head).encode() + b"\n")
    if last is not None:
        last = {"version": 2, "id": "0" * 32, "final": {}, "root": {}, "delete": [], "crc32": 0, **last}
        (path / ".hdmf_zarr_journal.commit").write_text(json.dumps(last) + "\n")


OUT = ("../elsewhere/secret", "/elsewhere/secret", "out/secret")
JOURNALS: list[dict[str, Any]] = [
    *({"below": below} for below in (
        ["."], ["./"], ["/"], [""], ["./numbers"], ["numbers/.."], ["numbers//x"], ["numbers/"], ".zmetadata",
        {"numbers": 1}, [1], ["../elsewhere"], ["out"], ["out/deeper"], ["here"], ["also here"])),
    *({"absent": absent} for absent in (
        ["."], ["./.zmetadata"], ".zmetadata", [".hdmf_zarr_journal"], *([key] for key in OUT))),
    *({"old": old} for old in (
        *({key: 0} for key in OUT), {"numbers/../.zmetadata": 0}, *({".zmetadata": n} for n in (-1, "0", False)))),
    *({"aside": aside} for aside in ({"./numbers": 0}, {"numbers/0": "0"}, *({key: 0} for key in OUT))),
    {"id": "../x"}, {"id": 1}, {"id": "/../../elsewhere", "aside": {"numbers/0": 0}},
    {"holder": {"host": "x", "pid": "1", "since": "now"}},
    *({"root": ["numbers/.zarray"]}, {"root": "x"}),
    *({"last": {"root": root}} for root in ({"../x": None}, {".zmetadata": -5}, [1])),
    *({"last": {"delete": delete}} for delete in (["."], *([key] for key in OUT), ".zmetadata", [1])),
    *({"last": {"final": final}} for final in ({".zmetadata": 1}, {"./.zmetadata": None})),
]  # fmt: skip


@posix
@pytest.mark.parametrize("parts", JOURNALS, ids=str)
def test_a_journal_names_keys_below_the_root(tmp_path, secret, parts):
    path = tmp_path / "a.zarr"
    write(path)
    for name, leads in {"here": ".", "also here": "../a.zarr", "out": "../elsewhere"}.items():
        (path / name).symlink_to(leads)
    plant(path, **parts)
    before = [stored_files(path), stored_files(secret.parent)]
    with pytest.raises((DamagedFileError, StoreError)) as caught:
        ZarrIO(str(path), manager=get_manager(), mode="a").open()
    assert str(path) in str(caught.value)
    assert [stored_files(path), stored_files(secret.parent)] == before


@posix
def test_undoing_deletes_links_and_not_what_they_lead_to(tmp_path, secret):
    path = tmp_path / "a.zarr"
    write(path)
    before = stored_files(path)
    (path / "new").mkdir()
    (path / "new" / "link").symlink_to(secret.parent)
    plant(path, below=["new"])
    with pytest.warns(UserWarning, match="has been undone"), ZarrIO(str(path), manager=get_manager(), mode="a"):
        pass
    assert secret.read_bytes() == SECRET
    assert stored_files(path) == before
    assert not (path / "new").exists()


@pytest.mark.parametrize(("stated", "said"), [(GIGABYTES, "max_document_bytes"), (100, "cannot be read")])
def test_a_document_in_a_zip_file_that_becomes_gigabytes(tmp_path, stated, said):
    with pytest.raises(ZarrBackendError, match=said):
        ZarrIO(bomb(".zmetadata", stated)(tmp_path), "r").read_builder()


CHAINS = (
    "{}", "file://{}", "FILE://{}", "local://{}", "simplecache::file://{}", "filecache::file://{}",
    "blockcache::file://{}", "cached::file://{}", "dir::file://{}", "simplecache::{}", "simplecache::filecache::{}",
    "simplecache::local://{}", "zip://secret::file://{}.zip", "zip://secret::simplecache::file://{}.zip",
    "tar://secret::{}.tar", "dir://{}", "reference://::{}", "git://{}/..:main@secret", "libarchive://secret::file://{}.zip",
)  # fmt: skip


def referring(path: Path, url: str, size: int) -> None:
    array = {"zarr_format": 2, "shape": [size], "chunks": [size], "dtype": "|u1", "fill_value": 0, "order": "C"}
    document = json.dumps({**array, "compressor": None, "filters": None})
    references = {".zgroup": '{"zarr_format": 2}', "x/.zarray": document, "x/0": [url], "y/.zarray": document,
                  "y/0": [url, 0, size]}  # fmt: skip
    path.write_text(json.dumps({"version": 1, "refs": references}))


@posix
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("policy", [None, "within", "never"])
def test_a_file_of_references_reads_no_local_file(tmp_path, secret, chain, policy):
    with zipfile.ZipFile(f"{secret}.zip", "w") as archive:
        archive.write(secret, secret.name)
    location, options = tmp_path / "theirs" / "a.zarr.json", ReadOptions(external_links=policy)
    location.parent.mkdir()
    referring(location, chain.format(secret), len(SECRET))
    problems = verify(location, level="chunks", read_options=options).problems
    assert not any("checksum" in problem.kind for problem in problems)
    with ZarrIO(str(location), manager=get_manager(), mode="r", read_options=options) as io:
        for name in ("x", "y"):
            with pytest.raises((LinkRefusedError, StoreError), match="refused"):
                io.read_builder()[name].data[:]
    assert secret.read_bytes() == SECRET


def with_raw_file(path: Path, raw: str, size: int = 8) -> None:
    path.parent.mkdir(exist_ok=True)
    hdf5_dataset(path, "x", shape=(size,), dtype="u1", external=[(raw, 0, size)])


@posix
@pytest.mark.parametrize("kind", ["file", "link", "pipe", "linked pipe", "device"])
@pytest.mark.parametrize("policy", [None, "within", "never", "follow"])
def test_raw_files_out_of_the_folder(tmp_path, secret, kind, policy):
    source, target = tmp_path / "lab" / "a.h5", tmp_path / "a.zarr"
    source.parent.mkdir()
    raw = {"file": secret, "device": Path("/dev/zero")}.get(kind, source.parent / "raw")
    if kind == "link":
        raw.symlink_to(secret)
    if kind == "pipe":
        os.mkfifo(raw)
    if kind == "linked pipe":
        os.mkfifo(secret.with_name("pipe"))
        raw.symlink_to(secret.with_name("pipe"))
    with_raw_file(source, str(raw))
    if policy == "follow" and kind in ("file", "link"):
        with pytest.warns(UserWarning, match="raw file"):
            convert(source, target, read_options=ReadOptions(external_links=policy))
        return
    with pytest.raises(LinkRefusedError, match="refused") as caught:
        convert(source, target, read_options=ReadOptions(external_links=policy))
    assert str(source) in str(caught.value)
    assert "/x" in str(caught.value)
    assert not target.exists()


def test_a_raw_file_in_the_folder_is_followed_with_a_note(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "a.zarr"
    (tmp_path / "raw.bin").write_bytes(bytes(range(8)))
    with_raw_file(source, str(tmp_path / "raw.bin"))
    with pytest.warns(UserWarning, match=r"raw file .*raw\.bin"):
        convert(source, target)
    assert (target / "x" / "0").exists()
    with pytest.raises(LinkRefusedError, match="refused"):
        convert(source, tmp_path / "b.zarr", read_options=ReadOptions(external_links="never"))


@posix
@pytest.mark.parametrize("arguments", [("convert", "{source}", "{target}"), ("compare", "{source}", "{source}"),
                                       ("convert", "{source}", "{target}.json", "--to", "virtual")])  # fmt: skip
@pytest.mark.parametrize("raw", ["pipe", "/dev/zero"])
def test_no_command_waits_for_a_pipe(tmp_path, arguments, raw):
    source, target = tmp_path / "a.h5", tmp_path / "a.zarr"
    if raw == "pipe":
        raw = str(tmp_path / "pipe")
        os.mkfifo(raw)
    with_raw_file(source, raw)
    done = command(*(part.format(source=source, target=target) for part in arguments))
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stderr
    assert "refused" in done.stderr


@posix
def test_the_option_of_the_command_line(tmp_path, secret):
    source, target = tmp_path / "lab" / "a.h5", tmp_path / "a.zarr"
    with_raw_file(source, str(secret))
    done = command("convert", str(source), str(target))
    assert done.returncode != 0
    assert "Use --external-links follow" in done.stderr
    assert command("convert", str(source), str(target), "--external-links", "follow").returncode == 0
    assert target.exists()


@posix
@pytest.mark.parametrize("policy", [None, "within", "never"])
def test_the_source_of_a_virtual_dataset_and_a_raw_file_behind_it(tmp_path, secret, policy):
    folder, options = tmp_path / "lab", ReadOptions(external_links=policy)
    with_raw_file(folder / "raw.h5", str(secret))
    virtual(folder / "a.h5", "raw.h5")
    with pytest.raises(LinkRefusedError, match="refused"):
        convert(folder / "a.h5", tmp_path / "a.zarr", read_options=options)
    hdf5_file(tmp_path / "out.h5", x=np.arange(8, dtype="u1"))
    virtual(folder / "b.h5", "../out.h5")
    with pytest.raises(LinkRefusedError, match="refused") if policy else nullcontext():
        convert(folder / "b.h5", tmp_path / "b.zarr", read_options=options)


def virtual(path: Path, source: str) -> None:
    layout = h5py.VirtualLayout((8,), "u1")
    layout[:] = h5py.VirtualSource(source, "x", (8,))
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset("x", layout)


@posix
@pytest.mark.parametrize("kind", ["pipe", "virtual pipe"])
def test_a_link_to_a_pipe(tmp_path, kind):
    source = tmp_path / "a.h5"
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(source, "w") as file:
        file["y"] = 1
        if kind == "pipe":
            file["x"] = h5py.ExternalLink("pipe", "/x")
    if kind == "virtual pipe":
        virtual(source, "pipe")
    done = command("convert", str(source), str(tmp_path / "a.zarr"))
    assert (done.returncode == 0) == (kind == "pipe")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("of_two_files", [False, True])
def test_a_virtual_dataset_that_reads_itself_is_refused(tmp_path: Path, of_two_files: bool) -> None:
    virtual(tmp_path / "a.h5", "b.h5" if of_two_files else ".")
    virtual(tmp_path / "b.h5", "a.h5")
    with pytest.raises(DamagedFileError, match=r"a\.h5: .*takes its values from itself.*\(/x\)"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr", check=False)
    assert not (tmp_path / "a.zarr").exists()
