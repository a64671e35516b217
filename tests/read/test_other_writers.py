"""Whole files of format 3 as other writers store them: Zindi, of September 2026, and the MATLAB port of hdmf-zarr.

``other-writers.tar.xz`` has one small NWB file as each of them was seen to write it: a file of references beside the
data of one dataset, and a directory of the draft of the convention.
"""

import math
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import NWBHDF5IO

from hdmf_zarr_backend import NWBZarrIO, convert
from tests.samples import read_zarr

DATA = np.arange(12, dtype="i2").reshape(6, 2)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    with tarfile.open(Path(__file__).with_name("other-writers.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return {"zindi": tmp_path / "zindi" / "session.nwb.zarr.json", "matlab": tmp_path / "matlab" / "session.nwb.zarr"}


@pytest.fixture(params=["zindi", "matlab"])
def written(request: pytest.FixtureRequest, files: dict[str, Path]) -> Path:
    return files[request.param]


def check(nwbfile: Any) -> None:
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
    check(read_zarr(written))


def test_nan_that_is_a_text_is_a_number(files):
    assert '\\"resolution\\": \\"NaN\\"' in files["zindi"].read_text()
    assert math.isnan(read_zarr(files["zindi"]).acquisition["raw"].resolution)


@pytest.mark.parametrize("options", [{"zarr_format": 2}, {"zarr_format": 3}, {}, "convert"], ids=str)
def test_it_is_exported_and_converted(written, tmp_path, options):
    backend, path = NWBZarrIO if options else NWBHDF5IO, tmp_path / "b.nwb"
    if options == "convert":
        convert(written, path, to="zarr", zarr_format=2)
    else:
        with NWBZarrIO(written, "r") as source, backend(path, "w", **options) as io:
            io.export(source, write_args={"link_data": False})
    with backend(path, "r") as io:
        check(io.read())
