"""The block of small values in the consolidated document: who consolidates with another program drops it, no more."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import zarr

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate, verify
from hdmf_zarr_backend.comparison import compare
from tests import samples, trees

DOCUMENTS = {2: ".zmetadata", 3: "zarr.json"}


def test_a_file_that_zarr_consolidated_again_reads_the_same(tmp_path: Path, zarr_format: Any) -> None:
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile(), zarr_format=zarr_format)
    copy = shutil.copytree(path, tmp_path / "b.nwb.zarr")
    document = path / DOCUMENTS[zarr_format]
    assert b"hdmf_inline" in document.read_bytes()
    with warnings.catch_warnings(action="ignore"):  # consolidated metadata are not in the specification of format 3
        zarr.consolidate_metadata(str(path), zarr_format=zarr_format)
    assert b"hdmf_inline" not in document.read_bytes()
    assert json.loads(document.read_bytes())
    assert verify(path).is_sound
    assert [str(entry) for entry in compare(path, copy)] == []
    with samples.edit_zarr(path) as nwbfile:
        nwbfile.add_scratch([1.0, 2.0], name="more", description="later")
    for _ in range(2):
        assert list(samples.read_zarr(path).scratch["more"].data) == [1.0, 2.0]
        consolidate(path)
        assert b"hdmf_inline" in document.read_bytes()
        assert verify(path).is_sound


@pytest.mark.parametrize("zarr_format", [2, 3, "both"])
@pytest.mark.parametrize("is_written", [True, False], ids=["written", "closed"])
def test_a_small_value_that_is_cut_off_leaves_the_block(tmp_path: Path, zarr_format: Any, is_written: bool) -> None:
    path = tmp_path / "a.zarr"
    texts = ZarrDataIO(["one"], maxshape=(None,))
    trees.write_builder(path, trees.root(trees.dataset("texts", texts, dtype="utf8")), zarr_format=zarr_format)
    document = path / DOCUMENTS[3 if zarr_format == 3 else 2]
    assert b"hdmf_inline" in document.read_bytes()
    with ZarrIO(path, "r+") as io:
        root = io.read_builder()
        root["texts"].data.resize(0)
        if is_written:
            io.write_builder(root)
    assert b"hdmf_inline" not in document.read_bytes()
    assert verify(path).problems == []
    with ZarrIO(path, "r+") as io:
        io.read_builder()["texts"].data.append(["two"])
    assert list(trees.read_builder(path)["texts"].data[:]) == ["two"]
    assert verify(path).problems == []
