"""Commands for many files: a bad one among good ones, what is said of each, the sum, the exit code, JSON."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hdmf_zarr_backend import WriteOptions
from hdmf_zarr_backend.cli.main import main
from tests.cli.conftest import Terminal
from tests.smallfiles import hdf5_file

MANY = {
    "verify": "without damage", "consolidate": "consolidated", "upgrade": "are of format 3",
    "validate --installed --namespace hdmf-common": "valid",
}  # fmt: skip


@pytest.fixture
def files(small: Path) -> list[Path]:
    for index in range(3):
        (small / "data" / str(index)).write_bytes(bytes(24))
    paths = [small, small.with_name("bad.zarr"), small.with_name("gone.zarr"), small.with_name("z.zarr")]
    for path in (paths[1], paths[3]):
        shutil.copytree(small, path)
    (paths[1] / ".zmetadata").unlink()
    (paths[1] / ".zgroup").write_text("{")
    return paths


@pytest.mark.parametrize("command", MANY)
def test_a_bad_file_does_not_end_the_others_and_has_a_place_in_the_json(command, files, zarrio, monkeypatch):
    shown = zarrio(*command.split(), *files, code=2)
    told = {str(path): [line for line in shown.out.splitlines() if line.startswith(f"{path}: ")] for path in files}
    assert len(told[str(files[0])]) == len(told[str(files[3])]) == 1
    assert not told[str(files[2])]
    complaints = shown.err.splitlines()
    assert [line for line in complaints if str(files[2]) in line and "the file does not exist" in line]
    assert all(line.startswith("zarrio: ") for line in complaints)
    summed = shown.out[shown.out.index(" of 4 files ") - 1 :].splitlines()
    assert summed[0].endswith(MANY[command])
    assert any(line.startswith("  not ") and line.endswith(f" {files[2]}: the file does not exist") for line in summed)
    assert any(line.startswith(("  not ", "  problems found: ")) and f" {files[1]}" in line for line in summed)
    monkeypatch.chdir(files[0].parent)
    names = [file.name for file in files]
    documents = json.loads(zarrio(*command.split(), "--json", *names, code=2).out)
    assert [document["source"] for document in documents] == names
    assert "the file does not exist" in documents[2]["error"]
    assert documents[0]["error"] is documents[3]["error"] is None


def test_problems_remarks_and_files_that_cannot_be_read_are_told_apart(files, zarrio):
    (files[3] / "data" / "1").write_bytes(b"short")
    assert zarrio("verify", files[0], files[3], code=1).out.splitlines()[-2:] == [
        "1 of 2 files without damage",
        f"  problems found: {files[3]}",
    ]
    assert zarrio("verify", files[2], files[3], files[0], code=2).out.splitlines()[-3:] == [
        "1 of 3 files without damage",
        f"  problems found: {files[3]}",
        f"  not checked: {files[2]}: the file does not exist",
    ]
    good = Path(shutil.copytree(files[0], files[0].with_name("good.zarr")))
    (files[0] / "data" / "notes.txt").write_text("an unknown file")
    assert zarrio("verify", files[0], good).out.splitlines()[-1] == "2 of 2 files without damage"
    assert zarrio("verify", "--strict", good, files[0], code=1).out.splitlines()[-2:] == [
        "1 of 2 files without damage and remarks",
        f"  remarks found: {files[0]}",
    ]


def test_each_file_is_told_when_it_is_done(files, capsys, monkeypatch):
    from hdmf_zarr_backend.check import repair

    shown: list[str] = []
    monkeypatch.setattr(repair, "consolidate", lambda path, **_: shown.append(capsys.readouterr().out))
    assert main(["consolidate", str(files[0]), str(files[3])]) == 0
    assert shown == ["", f"{files[0]}: consolidated\n"]


def test_one_file_needs_no_sum_and_an_error_names_its_path_once_as_it_was_typed(files, zarrio, monkeypatch):
    assert zarrio("consolidate", files[0]).out == f"{files[0]}: consolidated\n"
    (done,) = json.loads(zarrio("consolidate", "--json", files[0]).out)
    assert done == {"source": str(files[0]), "error": None, "warnings": []}
    monkeypatch.chdir(files[0].parent)
    assert zarrio("verify", "./gone.zarr", code=2).err.startswith("zarrio: ./gone.zarr: the file does not exist")


@pytest.mark.parametrize("command", ["convert", "verify", "upgrade"])
@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5"])
def test_what_is_no_number_of_threads(command, jobs, zarrio):
    assert "give a whole number from 1" in zarrio(command, f"--jobs={jobs}", "a", "b", code=2).err


def test_the_threads_of_an_upgrade(files, monkeypatch):
    from hdmf_zarr_backend import upgrading

    asked = []

    def upgrade(path: str, *, write_options: WriteOptions, **_: object) -> upgrading.UpgradeReport:
        asked.append(write_options.executor)
        return upgrading.UpgradeReport(path)

    monkeypatch.setattr(upgrading, "upgrade", upgrade)
    assert main(["upgrade", str(files[0])]) == main(["upgrade", "--jobs", "2", str(files[0])]) == 0
    assert asked == ["threads", 2]


@pytest.mark.parametrize("command", [*MANY, "inspect"])
def test_a_terminal_shows_which_file_of_how_many(command, files, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main([*command.split(), *map(str, files[::3])]) in (0, 1)
    shown = terminal.getvalue()
    assert "1/2 a.zarr" in shown
    assert "2/2 z.zarr" in shown
    assert shown.rstrip(" ").endswith("\r")


def test_several_files_are_inspected(files, zarrio):
    shown = zarrio("inspect", *files, code=2)
    assert [line.split(": ")[0] for line in shown.out.splitlines() if ": Zarr format 2" in line] == [
        str(files[0]), str(files[3]),
    ]  # fmt: skip
    assert len(shown.err.splitlines()) == 2
    first, bad, gone, last = json.loads(zarrio("inspect", "--json", *files, code=2).out)
    assert (first["error"], first["location"], last["location"]) == (None, str(files[0]), str(files[3]))
    assert "the file does not exist" in gone["error"]
    assert bad["error"]
    assert "--model is about one file" in zarrio("inspect", "--model", *files, code=2).err


@pytest.mark.parametrize("command", [*MANY, "inspect"])
def test_a_folder_means_the_files_in_it(command, files, zarrio):
    """Folders in it are not searched, and a line says so; an error names a path once, as it was typed."""
    folder = files[0].parent
    code = int(command.startswith("validate"))  # these files are not valid
    (folder / "notes").mkdir()
    shutil.rmtree(files[1])
    documents = json.loads(zarrio(*command.split(), "--json", folder, code=code).out)
    assert [document["source"] for document in documents] == [str(files[0]), str(files[3])]
    advice = f"give the paths of folders too, such as {folder}/notes"
    assert zarrio(*command.split(), folder, code=code).err.splitlines() == [
        f"zarrio: warning: {folder}: 1 folder in it was not searched; {advice}"
    ]
    assert f"the folder has no files to {command.split()[0]}" in zarrio(*command.split(), folder / "notes", code=2).err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT between processes")
def test_what_was_converted_before_ctrl_c_is_in_the_json(tmp_path):
    """In a process of its own: Ctrl-C comes while the second file is converted."""
    hdf5_file(tmp_path / "a.h5", data=[1, 2, 3])
    hdf5_file(tmp_path / "b.h5", data=np.random.default_rng(0).integers(0, 200, (2000, 50_000), "u1"))
    # a shell that runs the tests in the background lets its processes ignore Ctrl-C
    run = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    run += "from hdmf_zarr_backend.cli.main import main; sys.exit(main())"
    call = [sys.executable, "-c", run, "convert", "--json", "--codec", "zlib", "--jobs", "1"]
    files = [f"{tmp_path}/{name}.h5" for name in "abc"]
    with subprocess.Popen(
        [*call, *files, "-o", f"{tmp_path}/out"], stdout=subprocess.PIPE, stderr=-1, text=True
    ) as process:
        while not any((tmp_path / "out").glob("*b.h5.zarr*/data/*")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    first, second = json.loads(out)
    assert (first["source"], first["error"], second["source"], second["state"]) == (
        files[0], None, files[1], "interrupted",
    )  # fmt: skip
    assert "--resume" in second["error"]
    assert f"zarrio: {second['error']}" in err
