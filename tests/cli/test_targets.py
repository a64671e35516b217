"""`zarrio convert`: what a target is called, where it goes, and when it is there already."""

from __future__ import annotations

import json
import os
import shutil
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.cli.convert import pairs_of
from hdmf_zarr_backend.cli.main import main
from tests.samples import plain_nwbfile, write_hdf5


def names_of(paths: list[str], folder: str, **options: object) -> list[str]:
    given = {"to": None, "zarr_format": None, **options}
    return [target for _, target in pairs_of(Namespace(paths=paths, output=folder, **given))]


@pytest.mark.parametrize("folder", ["s3://bucket", "s3://bucket/", "s3://bucket/a/b", "memory://x/"])
def test_a_folder_behind_a_url_is_not_made_here(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert names_of(["x/a.nwb"], folder) == [f"{folder.rstrip('/')}/a.nwb.zarr"]
    assert os.listdir() == []


def test_names_of_sources_behind_urls(tmp_path: Path) -> None:
    sources = ["https://host/x/a.nwb?token=a/b", "s3://bucket/b.nwb.zarr/", "simplecache::https://host/c.zarr"]
    assert names_of(sources, str(tmp_path)) == [str(tmp_path / name) for name in ("a.nwb.zarr", "b.nwb", "c.nwb")]


@pytest.mark.parametrize(
    ("source", "options", "target"),
    [
        ("a.nwb.zarr.zip", {}, "a.nwb"),
        ("a.nwb.zarr.json", {}, "a.nwb"),
        ("a.nwb.zarr", {"zarr_format": 3}, "a.nwb.zarr"),
        ("a.nwb.zarr.zip", {"to": "zarr"}, "a.nwb.zarr"),
        ("a.nwb", {"zarr_format": 3}, "a.nwb.zarr"),
        ("a.nwb", {"to": "hdf5"}, "a.nwb"),
        ("a.nwb", {"to": "virtual"}, "a.nwb.zarr.json"),
    ],
)
def test_the_name_follows_the_formats(source: str, options: dict[str, object], target: str, tmp_path: Path) -> None:
    assert names_of([source], str(tmp_path), **options) == [str(tmp_path / target)]


def test_a_folder_that_is_a_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("")
    for folder in ("out", "out/below"):
        assert main(["convert", "a.nwb", "-o", str(tmp_path / folder)]) == 2
        said = capsys.readouterr().err
        assert f"{tmp_path / 'out'}" in said
        assert "Name a folder." in said


def test_a_batch_of_zarr_files_becomes_one_of_the_other_format(
    nwb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(nwb), "-o", str(tmp_path / "two")]) == 0
    assert main(["convert", str(tmp_path / "two/a.nwb.zarr"), "-o", str(tmp_path / "three"), "--zarr-format", "3"]) == 0
    assert (tmp_path / "three/a.nwb.zarr/zarr.json").exists()
    assert capsys.readouterr().err == ""


def test_zarr_files_are_copied_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=3) as io:
        io.write_builder(GroupBuilder("root", datasets={"data": DatasetBuilder("data", np.arange(4))}))
    call = ["convert", str(tmp_path / "a.zarr"), f"{tmp_path}/copies/", "--to", "zarr", "--skip-existing"]
    assert main(call) == 0
    assert (tmp_path / "copies/a.zarr/zarr.json").exists()
    assert "skipped" not in capsys.readouterr().out
    assert main(call) == 0
    assert "skipped, a complete file exists" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a.zarr"), str(tmp_path / "copies/a.zarr")]) == 0


# ---- what is there already ------------------------------------------------------------------------------------------


@pytest.fixture
def nwb(tmp_path: Path) -> Path:
    return write_hdf5(tmp_path / "a.nwb", plain_nwbfile())


def skipped(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[bool]:
    assert main(["convert", "--skip-existing", "--json", *map(str, arguments)]) == 0
    return [document["skipped"] for document in json.loads(capsys.readouterr().out)]


def later(path: Path, seconds: float) -> None:
    """Let a file, or all below a folder, be of another time."""
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        found = file.stat()
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + int(seconds * 1e9)))


def test_files_that_are_there_are_left_out_and_told(
    nwb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copy(nwb, tmp_path / "b.nwb"))
    out = tmp_path / "out"
    assert main(["convert", str(nwb), "-o", str(out)]) == 0
    before = (out / "a.nwb.zarr/.zmetadata").stat().st_mtime_ns
    capsys.readouterr()
    assert main(["convert", "--skip-existing", str(nwb), str(other), "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{nwb} -> {out}/a.nwb.zarr: skipped, a complete file exists"
    assert lines[-1] == "1 of 2 files converted, 1 skipped"
    assert (out / "a.nwb.zarr/.zmetadata").stat().st_mtime_ns == before
    assert skipped(capsys, nwb, other, "-o", out) == [True, True]
    assert skipped(capsys, nwb, out / "a.nwb.zarr", "--overwrite") == [True]


def test_a_source_that_has_changed_is_converted(nwb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zarr, back = tmp_path / "z.zarr", tmp_path / "back.nwb"
    assert skipped(capsys, nwb, zarr) == skipped(capsys, zarr, back) == [False]
    later(nwb, 60)
    assert main(["convert", "--skip-existing", str(nwb), str(zarr)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert skipped(capsys, nwb, zarr, "--overwrite") == [False]
    later(zarr, 120)
    assert skipped(capsys, nwb, zarr) == [True]
    assert skipped(capsys, zarr, back, "--overwrite") == [False]
    later(back, 240)
    assert skipped(capsys, zarr, back) == [True]
    later(zarr / "acquisition/trace/data/0.0", 480)  # a chunk alone
    assert skipped(capsys, zarr, back, "--overwrite") == [False]


def test_with_force_what_is_not_complete_or_of_another_kind_is_made_anew(
    nwb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zarr, back = tmp_path / "z.zarr", tmp_path / "back.nwb"
    assert skipped(capsys, nwb, zarr) == [False]
    assert skipped(capsys, nwb, zarr, "--overwrite", "--zarr-format", "3") == [False]
    assert skipped(capsys, nwb, zarr, "--overwrite", "--zarr-format", "3") == [True]
    assert skipped(capsys, nwb, zarr, "--overwrite") == [False]
    document = json.loads((zarr / ".zattrs").read_text())
    document["_hdmf"] = {**document.get("_hdmf", {}), "writing": {"changing": False}}
    (zarr / ".zattrs").write_text(json.dumps(document))
    (zarr / ".zmetadata").unlink()
    assert skipped(capsys, nwb, zarr, "--overwrite") == [False]
    assert (zarr / ".zmetadata").exists()
    assert skipped(capsys, zarr, back) == [False]
    back.write_bytes(back.read_bytes()[:-100])
    assert skipped(capsys, zarr, back, "--overwrite") == [False]
    assert skipped(capsys, zarr, back) == [True]


def test_a_file_of_references_is_there(nwb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a.nwb.zarr.json"
    assert skipped(capsys, "--to", "virtual", nwb, target) == [False]
    assert skipped(capsys, "--to", "virtual", nwb, target) == [True]
    target.write_text("{}")
    assert main(["convert", "--skip-existing", "--overwrite", "--to", "virtual", str(nwb), str(target)]) == 0
    assert len(target.read_text()) > 100


def test_a_source_that_is_gone_is_told(nwb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert skipped(capsys, nwb, tmp_path / "z.zarr") == [False]
    nwb.unlink()
    assert main(["convert", "--skip-existing", str(nwb), str(tmp_path / "z.zarr")]) == 2
    assert "the file does not exist" in capsys.readouterr().err


# ---- folders --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(nwb: Path) -> Path:
    """A folder with two HDF5 files, another file, and a folder that is not searched."""
    path = nwb.parent / "recordings"
    (path / "more").mkdir(parents=True)
    for name in ("a.nwb", "b.nwb", "more/c.nwb"):
        shutil.copy(nwb, path / name)
    (path / "notes.txt").write_text("x")
    return path


def made(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[tuple[str, str]]:
    assert main(["convert", "--json", *map(str, arguments)]) == 0
    return [(document["source"], document["target"]) for document in json.loads(capsys.readouterr().out)]


def test_a_folder_means_the_files_in_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [str(folder / name) for name in ("a.nwb", "b.nwb")]
    assert made(capsys, folder) == [(source, f"{source}.zarr") for source in sources]
    for target in (folder.parent / "new", f"{folder.parent}/other/"):
        assert [target for _, target in made(capsys, f"{folder}/", target)] == [
            os.path.join(target, name) for name in ("a.nwb.zarr", "b.nwb.zarr")
        ]
    assert made(capsys, folder.parent / "new") == [  # of a folder of Zarr files
        (str(folder.parent / f"new/{name}.zarr"), str(folder.parent / f"new/{name}")) for name in ("a.nwb", "b.nwb")
    ]
    assert made(capsys, folder, "--to", "hdf5", "-o", folder.parent / "back") == [
        (f"{source}.zarr", str(folder.parent / "back" / os.path.basename(source))) for source in sources
    ]


def test_a_folder_does_not_become_one_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(folder), str(folder.parent / "all.zarr")]) == 2
    assert "is the name of one file. Give a folder" in capsys.readouterr().err
    assert not (folder.parent / "all.zarr").exists()


def test_several_sources_and_a_folder_as_with_cp(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [folder / "a.nwb", folder / "b.nwb"]
    out = folder.parent / "out"
    assert main(["convert", *map(str, sources), str(out)]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert not out.exists()
    out.mkdir()
    wanted = [(str(source), str(out / f"{source.name}.zarr")) for source in sources]
    assert made(capsys, *sources, out) == wanted
    assert made(capsys, "--overwrite", *sources, f"{out}/") == wanted


def test_a_url_without_a_target_goes_into_the_current_folder() -> None:
    given = {"to": None, "zarr_format": None, "output": None}
    assert pairs_of(Namespace(paths=["https://host/x/a.nwb.zarr?token=b"], **given)) == [
        ("https://host/x/a.nwb.zarr?token=b", "a.nwb")
    ]


def test_a_folder_without_files_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["convert", str(tmp_path / "empty")]) == 2
    assert str(tmp_path / "empty") in capsys.readouterr().err
