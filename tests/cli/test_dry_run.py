"""`zarrio dry-run`: the options that say how a file is stored, as `zarrio convert` has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend.cli.main import main


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        values = np.arange(2**20, dtype="i4").reshape(-1, 64)
        file.create_dataset("values", data=values, chunks=(2**11, 64), compression="gzip", shuffle=True)
    return path


def planned(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["dry-run", "--json", *map(str, arguments)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("codec", "word"), [("keep", "zlib"), ("zstd", "zstd"), ("blosc", "blosc"), ("none", None)])
def test_the_codec(source, codec, word, capsys):
    (array,) = planned(capsys, source, "--codec", codec)["arrays"]
    words = [text.split()[0] for text in array["codecs"]]
    assert words[-1:] == ([] if word is None else [word])
    assert main(["convert", "--codec", codec, str(source), f"{source}.zarr"]) == 0
    document = json.loads(Path(f"{source}.zarr/values/.zarray").read_text())
    assert (document["compressor"] or {"id": None})["id"] == word


def test_nczarr(source, zarrio):
    assert "_nczarr" in zarrio("dry-run", "--nczarr", "--model", source).out
    assert "Leave --nczarr out" in zarrio("dry-run", "--nczarr", "--zarr-format", "3", source, code=2).err


def test_both_formats(source, capsys, zarrio):
    found = planned(capsys, source, "--zarr-format", "both")
    assert main(["convert", "--zarr-format", "both", str(source), f"{source}.zarr"]) == 0
    files = [path for path in Path(f"{source}.zarr").rglob("*") if path.is_file()]
    assert (found["zarr_format"], found["objects"]) == ("both", len(files))
    capsys.readouterr()
    assert "as Zarr formats 2 and 3" in zarrio("dry-run", "--zarr-format", "both", source).out


def test_keys_of_chunks(source, capsys, zarrio):
    for given, expected in (
        ([], {"name": "v2", "separator": "."}),
        (["--zarr-format", "both"], {"name": "v2", "separator": "."}),
        (["--zarr-format", "3"], {"name": "default", "separator": "/"}),
        (["--zarr-format", "3", "--chunk-key-encoding", "v2"], {"name": "v2", "separator": "."}),
    ):
        (array,) = planned(capsys, source, *given)["arrays"]
        assert array["chunk_key_encoding"] == expected
    assert "--zarr-format 3" in zarrio("dry-run", "--chunk-key-encoding", "v2", source, code=2).err


def test_what_is_wrong_is_said_in_options(source, zarrio):
    said = zarrio("dry-run", "--zarr-format", "2", "--shards", "auto", source, code=2).err
    assert "--zarr-format 3" in said
    assert "leave --shards out" in said


def test_shards(source, capsys):
    (array,) = planned(capsys, source, "--shards", "auto")["arrays"]
    assert array["shards"] is None  # it is small
    chunks = array["chunks"]
    shape = [2 * length for length in chunks]
    (array,) = planned(capsys, source, "--zarr-format", "3", "--shards", ",".join(map(str, shape)))["arrays"]
    assert (array["chunks"], array["shards"]) == (chunks, shape)
