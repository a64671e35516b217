"""What readers report while a change is interrupted, and what is kept of a new file whose writer died."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, compare, convert, repair, upgrade, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import ChunkError, JournalWarning, StoreNotFoundError
from tests import trees
from tests.smallfiles import hdf5_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a writer is killed by a signal")

ROWS, CHUNK = 1000, 40
EARLY = "from hdmf_zarr_backend.array import edits\nedits.WAITING_BYTES = 4000\n"
"""Lets values be written before the file is closed, as those of many megabytes are."""


def killed(code: str) -> None:
    lines = f"import os, signal\nfrom hdmf_zarr_backend import ZarrIO\n{code}\nos.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", lines], cwd=Path(__file__).parents[2], timeout=600, check=False)
    assert done.returncode == -9


_HALF = """
from hdmf.data_utils import DataChunkIterator
from tests import trees
def values():
    yield from range(1000)
    os.kill(os.getpid(), signal.SIGKILL)
data = DataChunkIterator(values(), buffer_size=100)
ZarrIO({!r}, "w").write_builder(trees.root(trees.dataset("x", data)))
"""
"""Lets a writer of a new file die in the middle of the values."""


def read(path: Path) -> np.ndarray:
    return trees.read_builder(path)["x"].data[:]


def ones(path: Path) -> Path:
    data = ZarrDataIO(np.ones(ROWS, "i8"), chunks=(CHUNK,), maxshape=(None,))
    return trees.write_builder(path, trees.root(trees.dataset("x", data)))


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = ones(tmp_path_factory.mktemp("half") / "a.zarr")
    killed(f"{EARLY}ZarrIO({str(path)!r}, 'r+').read_builder()['x'].data[:] = 0")
    return path.parent


@pytest.fixture
def half_assigned(half: Path, tmp_path: Path) -> Path:
    """A file of ones whose writer was killed while it assigned zeros."""
    return Path(shutil.copytree(half, tmp_path / "half")) / "a.zarr"


def _exported(path: Path) -> None:
    with ZarrIO(path, "r") as source, ZarrIO(path.with_name("b.zarr"), "w") as target:
        target.export(source)


def test_a_reader_is_warned_of_values_that_were_assigned_before_a_kill(half_assigned):
    acts = [lambda path: convert(path, path.with_suffix(".h5")), lambda path: compare(path, path), read, _exported]
    for use in acts:
        with pytest.warns(JournalWarning, match="may be new. Run `zarrio repair` first") as warned:
            use(half_assigned)
        assert str(half_assigned) in str(warned[0].message)


def test_a_dry_run_of_an_upgrade_warns_of_the_change_that_the_upgrade_undoes(half_assigned: Path) -> None:
    with pytest.warns(JournalWarning, match="was interrupted"):
        assert upgrade(half_assigned, dry_run=True).dry_run
    with pytest.warns(JournalWarning, match="has been undone"):
        upgrade(half_assigned)
    assert set(read(half_assigned)) == {1}


@pytest.mark.filterwarnings("always::hdmf_zarr_backend.errors.JournalWarning")
def test_commands_print_the_warning(half_assigned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["inspect"], ["compare", str(half_assigned)], ["upgrade", "--dry-run"]):
        assert main([*command, str(half_assigned)]) == 0
        assert "values that were assigned to existing arrays: they may be new" in capsys.readouterr().err


def test_repair_restores_values_that_were_assigned_before_a_kill(half_assigned: Path) -> None:
    with pytest.warns(JournalWarning):
        assert set(read(half_assigned)) == {0, 1}
    chunk = half_assigned / "x/0"
    chunk.unlink()
    chunk.mkdir()
    message = r"could not be undone .*'x/0' is a folder.*Remove it, and run `zarrio repair`"
    with pytest.raises(ChunkError, match=message):
        repair(half_assigned)
    chunk.rmdir()
    assert len(repair(half_assigned).done) == 1
    assert set(read(half_assigned)) == {1}
    assert verify(half_assigned).is_sound


def test_a_reader_is_not_warned_of_a_change_of_which_only_the_journal_is_left(tmp_path: Path) -> None:
    path = ones(tmp_path / "a.zarr")
    killed(f"""
from hdmf_zarr_backend.store.local import LocalStore
delete = LocalStore._delete
def die(store, keys):
    keys = list(keys)
    if ".hdmf_zarr_journal" in keys:
        os.kill(os.getpid(), signal.SIGKILL)
    delete(store, keys)
LocalStore._delete = die
with ZarrIO({str(path)!r}, "r+") as io:
    io.read_builder()["x"].data.append([2, 3])
""")
    assert (path / ".hdmf_zarr_journal").exists()
    for _ in range(2):
        assert read(path)[-3:].tolist() == [1, 2, 3]
        assert not (path / ".hdmf_zarr_journal").exists() or "was complete" in repair(path).done[0]


def test_verify_does_not_call_the_chunks_of_a_change_unknown_files(tmp_path: Path) -> None:
    path = ones(tmp_path / "a.zarr")
    values = f"numpy.zeros({ROWS}, 'i8')"
    killed(f"{EARLY}import numpy\nZarrIO({str(path)!r}, 'r+').read_builder()['x'].data.append({values})")
    assert len(list((path / "x").iterdir())) > ROWS // CHUNK + 5
    report = verify(path)
    assert [(problem.kind, "was interrupted" in problem.message) for problem in report.problems] == [
        ("change-interrupted", True)
    ]
    assert "unknown-file" not in {remark.kind for remark in report.remarks}
    repair(path)
    assert verify(path).is_sound
    assert set(read(path)) == {1}


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dead")
    for name in ("a.zarr", "a.zarr.zip"):
        (folder / name).mkdir()
        killed(_HALF.format(str(folder / name / name)))
    return folder


@pytest.fixture(params=["a.zarr", "a.zarr.zip"])
def unfinished(request: pytest.FixtureRequest, dead: Path, tmp_path: Path) -> Path:
    """The path of a file whose only writer was killed before the file was complete."""
    return Path(shutil.copytree(dead / request.param, tmp_path / "dead")) / request.param


def _partial(path: Path) -> Path:
    (found,) = path.parent.glob(".*.partial")
    return found


def test_a_new_file_whose_writer_died_is_named_and_kept(unfinished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = _partial(unfinished)
    changes = [] if unfinished.suffix == ".zip" else ["repair"]  # a zip file is never changed
    for command in ("inspect", "verify", "validate", "convert", *changes):
        assert main([command, str(unfinished)]) == 2
        problem = capsys.readouterr().err
        assert "the file does not exist; a write of it is under way or did not finish: " in problem
        assert repr(kept.name) in problem
        assert "the next write deletes it" in problem
    for call in (verify, lambda path: compare(path, path), lambda path: ZarrIO(path, "r")):
        with pytest.raises(StoreNotFoundError, match=re.escape(kept.name)):
            call(unfinished)
    assert kept.exists()


@pytest.mark.parametrize("is_converted", [False, True], ids=["write", "conversion"])
def test_the_next_write_deletes_what_a_dead_writer_left(unfinished: Path, tmp_path: Path, is_converted: bool) -> None:
    source = tmp_path / "source.h5"
    hdf5_file(source, x=[1, 2, 3])
    convert(source, unfinished) if is_converted else trees.write_builder(unfinished, trees.root(note="new"))
    assert sorted(os.listdir(unfinished.parent)) == [unfinished.name]


def test_verify_and_repair_name_an_unfinished_replacement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.zarr"
    trees.write_builder(path, trees.root(note="old"))
    killed(_HALF.format(str(path)))
    kept = _partial(path)
    report = verify(path)
    assert report.is_sound
    assert [remark.kind for remark in report.remarks] == ["write-unfinished"]
    repairs = repair(path)
    assert (repairs.done, repairs.left) == ([], [])
    assert kept.name in repairs.kept[0].message
    assert main(["repair", str(path)]) == 0
    assert "remark: /: write-unfinished: " in capsys.readouterr().out
    with ZarrIO(path, "a") as io:  # a change of the old file keeps it as well
        io.write_builder(io.read_builder())
    assert kept.exists()
