"""`zarrio convert`: what a target is called, where it goes, and when it is there already."""

import json
import os
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend.cli.changes import pairs_of
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.model.links import HDF5_SUFFIXES
from tests.places import stored_files
from tests.smallfiles import hdf5_file
from tests.trees import dataset, root, write_builder


def names_of(paths: list[str], folder: str | None, **options: object) -> list[str]:
    given = {"to": None, "zarr_format": None, **options}
    return [target for _, target in pairs_of(Namespace(paths=paths, output=folder, **given))]


@pytest.mark.parametrize("folder", ["s3://bucket", "s3://bucket/", "s3://bucket/a/b", "memory://x/"])
def test_a_folder_behind_a_url_is_not_made_here(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert names_of(["x/a.nwb"], folder) == [f"{folder.rstrip('/')}/a.nwb.zarr"]
    assert os.listdir() == []
    assert names_of(["https://host/x/a.nwb.zarr?token=b"], None) == ["a.nwb"]  # into the current folder


@pytest.mark.parametrize(("source", "options", "target"), [
    ("a.nwb.zarr.zip", {}, "a.nwb"), ("a.nwb.zarr.json", {}, "a.nwb"), ("a.nwb.zarr", {"zarr_format": 3}, "a.nwb.zarr"),
    ("a.nwb.zarr.zip", {"to": "zarr"}, "a.nwb.zarr"), ("a.nwb", {"zarr_format": 3}, "a.nwb.zarr"),
    ("a.nwb", {"to": "hdf5"}, "a.nwb"), ("a.nwb", {"to": "virtual"}, "a.nwb.zarr.json"),
    ("https://host/x/a.nwb?token=a/b", {}, "a.nwb.zarr"), ("s3://bucket/b.nwb.zarr/", {}, "b.nwb"),
    ("simplecache::https://host/c.zarr", {}, "c.nwb"),
])  # fmt: skip
def test_the_name_follows_the_formats(source, options, target, tmp_path):
    assert names_of([source], str(tmp_path), **options) == [str(tmp_path / target)]


def test_the_folder_of_one_new_file_is_made_as_that_of_a_batch_and_one_that_is_a_file_is_told(nwb, tmp_path, zarrio):
    (tmp_path / "out").write_text("")
    for folder in ("out", "out/below"):
        said = zarrio("convert", "a.nwb", "-o", tmp_path / folder, code=2).err
        assert f"{tmp_path / 'out'}" in said
        assert "Name a folder." in said
    zarrio("convert", nwb, tmp_path / "new" / "below" / "a.nwb.zarr")
    assert (tmp_path / "new" / "below" / "a.nwb.zarr" / ".zgroup").exists()
    (tmp_path / "file").write_text("")
    assert "Name a folder." in zarrio("convert", nwb, tmp_path / "file" / "a.nwb.zarr", code=2).err


def test_a_batch_of_zarr_files_becomes_one_of_the_other_format(nwb, tmp_path, capsys):
    assert main(["convert", str(nwb), "-o", str(tmp_path / "two")]) == 0
    assert main(["convert", str(tmp_path / "two/a.nwb.zarr"), "-o", str(tmp_path / "three"), "--zarr-format", "3"]) == 0
    assert (tmp_path / "three/a.nwb.zarr/zarr.json").exists()
    assert capsys.readouterr().err == ""


def test_zarr_files_are_copied_into_a_folder(tmp_path, zarrio):
    path = write_builder(tmp_path / "a.zarr", root(dataset("data", np.arange(4))), zarr_format=3)
    call = ["convert", path, f"{tmp_path}/copies/", "--to", "zarr", "--skip-existing"]
    assert "skipped" not in zarrio(*call).out
    assert (tmp_path / "copies/a.zarr/zarr.json").exists()
    assert "skipped, a complete file exists" in zarrio(*call).out
    zarrio("compare", path, tmp_path / "copies/a.zarr")


@pytest.fixture
def skipped(zarrio: Callable[..., Any]) -> Callable[..., list[bool]]:
    def run(*arguments: object) -> list[bool]:
        documents = json.loads(zarrio("convert", "--skip-existing", "--json", *arguments).out)
        return [document["skipped"] for document in documents]

    return run


def later(path: Path, seconds: float) -> None:
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        result = file.stat()
        os.utime(file, ns=(result.st_atime_ns, result.st_mtime_ns + int(seconds * 1e9)))


def test_files_that_are_there_are_left_out_and_told(nwb, tmp_path, zarrio, skipped):
    other = Path(shutil.copy(nwb, tmp_path / "b.nwb"))
    out = tmp_path / "out"
    assert main(["convert", str(nwb), "-o", str(out)]) == 0
    before = (out / "a.nwb.zarr/.zmetadata").stat().st_mtime_ns
    lines = zarrio("convert", "--skip-existing", nwb, other, "-o", out).out.splitlines()
    assert lines[0] == f"{nwb} -> {out}/a.nwb.zarr: skipped, a complete file exists"
    assert lines[-1] == "1 of 2 files converted, 1 skipped"
    assert (out / "a.nwb.zarr/.zmetadata").stat().st_mtime_ns == before
    assert skipped(nwb, other, "-o", out) == [True, True]
    assert skipped(nwb, out / "a.nwb.zarr", "--overwrite") == [True]


def test_what_has_shards_by_its_settings_is_complete_in_format_3(nwb, tmp_path, skipped):
    hdf5_file(tmp_path / "b.h5", data=np.arange(4))
    out = tmp_path / "out"
    call = (nwb, tmp_path / "b.h5", "-o", out, "--set", "acquisition/**: shards=auto")  # of which b.h5 has none
    assert skipped(*call) == [False, False]
    assert ((out / "a.nwb.zarr/zarr.json").exists(), (out / "b.h5.zarr/zarr.json").exists()) == (True, False)
    assert skipped(*call) == [True, True]


def test_a_source_that_has_changed_is_converted(nwb, tmp_path, zarrio, skipped):
    zarr, back = tmp_path / "z.zarr", tmp_path / "back.nwb"
    assert skipped(nwb, zarr) == skipped(zarr, back) == [False]
    later(nwb, 60)
    said = "the target exists and is older than its source: it was not skipped. Use --overwrite to replace it."
    assert said in zarrio("convert", "--skip-existing", nwb, zarr, code=2).err
    assert skipped(nwb, zarr, "--overwrite") == [False]
    later(zarr, 120)
    assert skipped(nwb, zarr) == [True]
    assert skipped(zarr, back, "--overwrite") == [False]
    later(back, 240)
    assert skipped(zarr, back) == [True]
    later(zarr / "acquisition/trace/data/0.0", 480)  # a chunk alone
    assert skipped(zarr, back, "--overwrite") == [False]


def test_with_force_what_is_not_complete_or_of_another_kind_is_made_anew(nwb, tmp_path, zarrio, skipped):
    zarr, back, again = tmp_path / "z.zarr", tmp_path / "back.nwb", ("convert", "--skip-existing")
    assert skipped(nwb, zarr) == [False]
    assert skipped(nwb, zarr, "--overwrite", "--zarr-format", "3") == [False]
    assert skipped(nwb, zarr, "--overwrite", "--zarr-format", "3") == [True]
    assert "has another Zarr format: it was not skipped" in zarrio(*again, nwb, zarr, code=2).err
    assert skipped(nwb, zarr, "--overwrite") == [False]
    document = json.loads((zarr / ".zattrs").read_text())
    document["_hdmf"] = {**document.get("_hdmf", {}), "writing": {"changing": False}}
    (zarr / ".zattrs").write_text(json.dumps(document))
    (zarr / ".zmetadata").unlink()
    assert "is incomplete: it was not skipped" in zarrio(*again, nwb, zarr, code=2).err
    assert skipped(nwb, zarr, "--overwrite") == [False]
    assert (zarr / ".zmetadata").exists()
    assert skipped(zarr, back) == [False]
    back.write_bytes(back.read_bytes()[:-100])
    assert "is not a complete HDF5 file: it was not skipped" in zarrio(*again, zarr, back, code=2).err
    assert skipped(zarr, back, "--overwrite") == [False]
    assert skipped(zarr, back) == [True]
    back.write_bytes(bytes(512) + back.read_bytes())  # a user block
    assert skipped(zarr, back) == [True]


def test_a_file_of_references_is_there_and_a_source_that_is_gone_is_told(nwb, tmp_path, zarrio, skipped):
    target = tmp_path / "a.nwb.zarr.json"
    assert skipped("--to", "virtual", nwb, target) == [False]
    assert skipped("--to", "virtual", nwb, target) == [True]
    target.write_text("{}")
    assert main(["convert", "--skip-existing", "--overwrite", "--to", "virtual", str(nwb), str(target)]) == 0
    assert len(target.read_text()) > 100
    assert skipped(nwb, tmp_path / "z.zarr") == [False]
    nwb.unlink()
    assert "the file does not exist" in zarrio("convert", "--skip-existing", nwb, tmp_path / "z.zarr", code=2).err


@pytest.fixture
def folder(nwb: Path) -> Path:
    path = nwb.parent / "recordings"
    (path / "more").mkdir(parents=True)
    for name in ("a.nwb", "b.nwb", "more/c.nwb"):
        shutil.copy(nwb, path / name)
    (path / "notes.txt").write_text("x")
    return path


@pytest.fixture
def made(zarrio: Callable[..., Any]) -> Callable[..., list[tuple[str, str]]]:
    def run(*arguments: object) -> list[tuple[str, str]]:
        documents = json.loads(zarrio("convert", "--json", *arguments).out)
        return [(document["source"], document["target"]) for document in documents]

    return run


def test_a_folder_means_the_files_in_it(folder, made):
    sources = [str(folder / name) for name in ("a.nwb", "b.nwb")]
    assert made(folder) == [(source, f"{source}.zarr") for source in sources]
    for target in (folder.parent / "new", f"{folder.parent}/other/"):
        assert [target for _, target in made(f"{folder}/", target)] == [
            os.path.join(target, name) for name in ("a.nwb.zarr", "b.nwb.zarr")
        ]
    assert made(folder.parent / "new") == [  # of a folder of Zarr files
        (str(folder.parent / f"new/{name}.zarr"), str(folder.parent / f"new/{name}")) for name in ("a.nwb", "b.nwb")
    ]
    assert made(folder, "--to", "hdf5", "-o", folder.parent / "back") == [
        (f"{source}.zarr", str(folder.parent / "back" / os.path.basename(source))) for source in sources
    ]


@pytest.mark.parametrize("suffix", HDF5_SUFFIXES)
def test_files_of_a_folder_have_one_of_these_suffixes(suffix, nwb, tmp_path):
    (tmp_path / "recordings").mkdir()
    shutil.copy(nwb, tmp_path / f"recordings/x{suffix}")
    target = tmp_path / f"out/x{suffix}.zarr"
    assert names_of([str(tmp_path / "recordings")], str(tmp_path / "out")) == [str(target)]


def test_several_sources_and_a_folder_as_with_cp_and_a_folder_does_not_become_one_file(folder, zarrio, made):
    sources = [folder / "a.nwb", folder / "b.nwb"]
    out = folder.parent / "out"
    assert "is not a folder" in zarrio("convert", *sources, out, code=2).err
    assert not out.exists()
    out.mkdir()
    wanted = [(str(source), str(out / f"{source.name}.zarr")) for source in sources]
    assert made(*sources, out) == wanted
    assert made("--overwrite", *sources, f"{out}/") == wanted
    shown = zarrio("convert", folder, folder.parent / "all.zarr", code=2).err
    assert "all.zarr, is not a folder. Give one file" in shown
    assert not (folder.parent / "all.zarr").exists()


def test_a_batch_leaves_what_is_there_and_goes_on(nwb, tmp_path, zarrio):
    other = Path(shutil.copy(nwb, tmp_path / "b.nwb"))
    assert main(["convert", str(nwb), "-o", str(tmp_path / "out")]) == 0
    before = stored_files(tmp_path / "out")
    first, second = json.loads(zarrio("convert", "--json", nwb, other, "-o", tmp_path / "out", code=2).out)
    assert "exists" in first["error"]
    assert second["error"] is None
    assert before.items() <= stored_files(tmp_path / "out").items()


def test_a_pattern_has_to_match_in_one_file_of_a_batch(tmp_path, zarrio):
    for name in ("a", "b"):
        write_builder(tmp_path / f"{name}.zarr", root(dataset(f"data_{name}", np.arange(4)), dataset("all", [1, 2])))
    files, out = (tmp_path / "a.zarr", tmp_path / "b.zarr"), tmp_path / "out"
    call = ("convert", *files, "-o", out, "--to", "zarr", "--set", "all: codec=zstd", "--set", "data_b: codec=zlib")
    mistyped = zarrio(*call, "--set", "al: codec=zlib", code=2)
    assert ["no dataset" in line and "'al'" in line for line in mistyped.err.splitlines()] == [True] * 2
    assert "0 of 2 files converted" in mistyped.out
    assert not list(out.iterdir())
    converted = zarrio(*call)
    assert "2 of 2 files converted" in converted.out
    assert f"warning: {files[0]}: no dataset matches 'data_b'" in converted.err
    arrays = [json.loads((out / name / ".zarray").read_text()) for name in ("a.zarr/all", "b.zarr/data_b")]
    assert [array["compressor"]["id"] for array in arrays] == ["zstd", "zlib"]
    assert "Did you mean 'data_a'" in zarrio(*call[:2], tmp_path / "c.zarr", *call[-2:], code=2).err
    (out / "a.zarr").rename(tmp_path / "moved")
    again = zarrio(*call, "--skip-existing")  # of the skipped file the patterns are known to be right
    assert "1 of 2 files converted, 1 skipped" in again.out
    assert f"warning: {files[0]}: no dataset matches 'data_b'" in again.err


def test_shards_without_an_effect_are_remarked(nwb, tmp_path, zarrio):
    for name, option in (("a", ["--shards", "auto"]), ("b", ["--set", "**: shards=auto"])):
        shown = zarrio("convert", nwb, tmp_path / f"{name}.zarr", "--zarr-format", "3", *option).out
        assert "no array has shards: auto is for 64 MiB and more" in shown
