"""Whole files of format 3 as other writers store them, made by hand: Zindi's and those of the MATLAB port."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import NWBHDF5IO

from hdmf_zarr_backend import NWBZarrIO, convert
from tests.smallnwb import DATA, write_matlab, write_zindi


@pytest.fixture(params=[write_zindi, write_matlab], ids=["zindi", "matlab"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The small file of each writer."""
    path: Path = request.param(tmp_path)
    return path


def check(nwbfile: Any) -> None:
    """Make sure that it is the small file."""
    assert (nwbfile.identifier, nwbfile.session_description) == ("small", "größer als ∑")
    assert nwbfile.session_start_time.isoformat() == "2024-02-29T12:34:56.789012-05:00"
    shank = nwbfile.electrode_groups["shank"]
    assert shank.device is nwbfile.devices["probe"]
    assert np.asarray(shank.position).reshape(-1)[0].tolist() == (1.5, 2.5, -3.0)
    electrodes = nwbfile.electrodes
    assert electrodes["location"][:].tolist() == ["CA1", "CA3"]
    assert electrodes["group"][0] is electrodes["group"][1] is shank
    raw = nwbfile.acquisition["raw"]
    np.testing.assert_array_equal(raw.data[:], DATA)
    assert raw.electrodes.table is electrodes
    assert (raw.starting_time, raw.rate, raw.offset, raw.comments) == (0.25, 30000.0, 0.5, "NaN")
    trials = nwbfile.trials
    assert [text.decode() if isinstance(text, bytes) else text for text in trials["label"][:]] == ["go", "no go"]
    for number, expected in enumerate([(0, 4), (2, 3)]):
        (row,) = trials["timeseries"][number]
        assert (row.idx_start, row.count) == expected
        assert row.timeseries is raw


def test_it_is_read(written):
    with NWBZarrIO(written, "r") as io:
        check(io.read())


def test_nan_that_is_a_text_is_a_number(tmp_path):
    path = write_zindi(tmp_path)
    assert '\\"resolution\\": \\"NaN\\"' in path.read_text()
    with NWBZarrIO(path, "r") as io:
        assert math.isnan(io.read().acquisition["raw"].resolution)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_it_is_exported(written, tmp_path, zarr_format):
    with NWBZarrIO(written, "r") as source, NWBZarrIO(tmp_path / "b.zarr", "w", zarr_format=zarr_format) as io:
        io.export(source, write_args={"link_data": False})
    with NWBZarrIO(tmp_path / "b.zarr", "r") as io:
        check(io.read())


def test_it_is_exported_to_hdf5(written, tmp_path):
    with NWBZarrIO(written, "r") as source, NWBHDF5IO(tmp_path / "b.nwb", "w") as io:
        io.export(source, write_args={"link_data": False})
    with NWBHDF5IO(tmp_path / "b.nwb", "r") as io:
        check(io.read())


def test_it_is_converted(written, tmp_path):
    convert(written, tmp_path / "b.zarr", zarr_format=2)
    with NWBZarrIO(tmp_path / "b.zarr", "r") as io:
        check(io.read())


def test_a_part_of_it_is_what_these_writers_say(tmp_path):
    """So that the test does not pass with a file in our own words."""
    zindi = json.loads(write_zindi(tmp_path).read_text())["refs"]
    (tmp_path / "m").mkdir()
    matlab = write_matlab(tmp_path / "m")
    rows = json.loads(zindi["intervals/trials/timeseries/zarr.json"])
    assert rows["data_type"]["name"] == "structured"
    assert isinstance(rows["fill_value"], str)
    label = json.loads(zindi["intervals/trials/label/zarr.json"])
    assert label["data_type"]["name"] == "null_terminated_bytes"
    rows = json.loads((matlab / "intervals/trials/timeseries/zarr.json").read_text())
    assert rows["attributes"]["zarr_dtype"][2] == {"name": "timeseries", "dtype": "object"}
    assert "_REFERENCE_FIELDS" not in rows["attributes"]
    chunk = (matlab / "intervals/trials/timeseries/c/0").read_bytes()
    assert len(chunk) == 2 * (4 + 4 + 2048)
    assert '{"source": ".", "path": "/acquisition/raw"'.encode("utf-32-le") in chunk
    assert "zarr_link" in (matlab / "general/extracellular_ephys/shank/zarr.json").read_text()
