"""The block of small values in the consolidated document: who consolidates with another program drops it, no more."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import zarr

from hdmf_zarr_backend import NWBZarrIO, consolidate, verify
from hdmf_zarr_backend.comparison import compare
from tests import samples

DOCUMENTS = {2: ".zmetadata", 3: "zarr.json"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_file_that_zarr_consolidated_again_reads_the_same(tmp_path: Path, zarr_format: Any) -> None:
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile(), zarr_format=zarr_format)
    copy = shutil.copytree(path, tmp_path / "b.nwb.zarr")
    document = path / DOCUMENTS[zarr_format]
    assert b"hdmf_inline" in document.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are not in the specification of format 3
        zarr.consolidate_metadata(str(path), zarr_format=zarr_format)
    assert b"hdmf_inline" not in document.read_bytes()
    assert json.loads(document.read_bytes())
    assert verify(path).is_sound
    assert [str(found) for found in compare(path, copy)] == []
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_scratch([1.0, 2.0], name="more", description="later")
        io.write(nwbfile)
    for _ in range(2):
        with NWBZarrIO(path, "r") as io:
            assert list(io.read().scratch["more"].data) == [1.0, 2.0]
        consolidate(path)
        assert b"hdmf_inline" in document.read_bytes()
        assert verify(path).is_sound
