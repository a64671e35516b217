"""`zarrio dry-run`: the options that say how a file is stored, as `zarrio convert` has them."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend import dry_run
from hdmf_zarr_backend.errors import UnsupportedFileError, UsageError
from hdmf_zarr_backend.model.render import size_text


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        values = np.arange(2**20, dtype="i4").reshape(-1, 64)
        file.create_dataset("values", data=values, chunks=(2**11, 64), compression="gzip", shuffle=True)
    return path


@pytest.mark.parametrize("options", [
    "", *(f"--codec {codec}" for codec in ("zstd", "blosc", "none")), "--zarr-format both", "--zarr-format 3",
    "--zarr-format 3 --chunk-key-encoding v2", "--zarr-format 3 --shards 8192,64", "--shards auto --zarr-format 3",
    "--nczarr",
])  # fmt: skip
def test_a_plan_is_what_a_conversion_with_these_options_makes(source, options, zarrio):
    target = Path(f"{source}.zarr")
    (planned,) = json.loads(zarrio("dry-run", "--json", *options.split(), source).out)
    model = zarrio("dry-run", "--model", *options.split(), source).out
    zarrio("convert", *options.split(), source, target)
    (result,) = json.loads(zarrio("inspect", "--json", target).out)
    assert planned["zarr_format"] == result["zarr_format"]
    assert planned["objects"] == sum(path.is_file() for path in target.rglob("*"))
    (array,), node = planned["arrays"], next(node for node in result["nodes"] if node["path"] == "/values")
    for name in ("chunks", "shards", "codecs", "chunk_key_encoding"):
        assert array[name] == node[name], name
    assert ("as Zarr formats 2 and 3" in zarrio("dry-run", *options.split(), source).out) == ("both" in options)
    assert ("_nczarr" in model) == ("nczarr" in options)


def test_small_chunks_are_joined_unless_they_are_kept(source, zarrio):
    with h5py.File(source, "a") as file:
        file.create_dataset("small", data=np.arange(1000), chunks=(10,))
    for options, length in (([], 1000), (["--chunks", "keep"], 10)):
        arrays = json.loads(zarrio("dry-run", "--json", *options, source).out)[0]["arrays"]
        assert [array["chunks"] for array in arrays if array["path"] == "/small"] == [[length]]
    with pytest.raises(UsageError, match="chunks='kept' is unknown"):
        dry_run(source, chunks="kept")
    with pytest.raises(UsageError) as caught:
        dry_run(source, chunks=(5, 2))
    assert "settings={'acquisition/*/data': {'chunks': (5, 2)}}" in caught.value.remedy


def test_an_nwb_file_is_checked_as_a_conversion_checks_it(source, zarrio):
    with h5py.File(source, "a") as file:
        file.attrs.update(neurodata_type="NWBFile", nwb_version=["2.0", "2.1"])
    said = "pynwb cannot read this file: it gives its NWB version as an array"
    for command in ("convert", "dry-run"):
        shown = zarrio(command, source, code=2)
        assert said in shown.err and "--no-check" in shown.err
        zarrio(command, "--no-check", source)
    with pytest.raises(UnsupportedFileError, match=f"{said}.*check=False"):
        dry_run(source)
    assert dry_run(source, check=False).arrays


@pytest.mark.parametrize(("options", "said"), [
    ("--set values/*:codec=zstd", "If not, leave the pattern out (--set)."),
    ("--nczarr --zarr-format 3", "Leave --nczarr out"),
    ("--chunk-key-encoding v2", "--zarr-format 3"),
    ("--zarr-format 2 --shards auto", "leave --shards out"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_options(source, options, said, zarrio):
    assert said in zarrio("dry-run", *options.split(), source, code=2).err


def test_several_files_and_folders_have_a_total(source, zarrio):
    shutil.copy(source, source.with_name("b.h5"))
    (source.parent / "more").mkdir()
    shutil.copy(source, source.parent / "more/c.h5")
    documents = json.loads(zarrio("dry-run", "--json", source.parent, source.parent / "more").out)
    assert [Path(document["source"]).name for document in documents] == ["a.h5", "b.h5", "c.h5"]
    shown = zarrio("dry-run", source.parent, source.with_name("gone.h5"), "--depth", "0", code=2)
    assert shown.out.splitlines()[-3:] == [
        "2 of 3 files can be converted",
        f"  cannot be converted: {source.with_name('gone.h5')}: the file does not exist",
        f"objects: {2 * documents[0]['objects']:,}; on disk: about {size_text(2 * documents[0]['stored_bytes'])}",
    ]
    assert "1 folder in it was not searched" in shown.err
    set_for_one = ("dry-run", source.parent, "--no-estimate", "--set", "all: codec=zstd")
    assert zarrio(*set_for_one, code=2).err.count(f"{source}: ") == 1
    assert "--model is about one file" in zarrio("dry-run", "--model", source.parent, code=2).err
