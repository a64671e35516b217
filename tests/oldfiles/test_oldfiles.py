"""Files of released writers, kept as data: each is read and compared with the content that all of them wrote."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from hdmf_zarr_backend import NWBZarrIO
from tests.oldfiles import content

FOLDER = Path(__file__).parent
FILES = ("hdmf-zarr-0.13.0", "hdmf-zarr-0.14.0", "version-1.0")


def test_each_file_is_listed():
    assert sorted(path.stem for path in FOLDER.glob("*.zip")) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_an_old_file_has_the_content_that_was_written(name, tmp_path):
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        archive.extractall(tmp_path / "old.nwb.zarr")
    with NWBZarrIO(str(tmp_path / "old.nwb.zarr"), mode="r", load_namespaces=False) as io:
        nwbfile = io.read()
        assert nwbfile.session_description == content.SESSION
        assert nwbfile.session_start_time == content.START
        first, linked = nwbfile.acquisition["first"], nwbfile.acquisition["linked"]
        assert first.data.dtype == np.dtype("i2")
        assert np.asarray(first.data).tolist() == content.RATES
        assert np.asarray(first.timestamps).tolist() == content.TIMES
        assert first.unit == "mV"
        assert np.asarray(linked.data).tolist() == [0.0, 1.0, 2.0]
        assert np.asarray(linked.timestamps).tolist() == content.TIMES
        assert linked.timestamp_link is not None
        assert list(nwbfile.electrodes["location"][:]) == content.LOCATIONS
        shank = nwbfile.electrode_groups["shank"]
        assert all(group is shank for group in nwbfile.electrodes["group"][:])
        assert shank.device is nwbfile.devices["probe"]
        spikes = [np.asarray(nwbfile.units["spike_times"][row]).tolist() for row in range(len(content.SPIKES))]
        assert spikes == content.SPIKES
        targets = nwbfile.get_scratch("targets", convert=False)["target"]
        assert targets[0] is shank
        assert targets[1] is first
        cells = nwbfile.processing["ophys"]["segmentation"]["cells"]
        assert cells.imaging_plane is nwbfile.imaging_planes["plane"]
        masks = [[list(pixel) for pixel in cells["pixel_mask"][row]] for row in range(len(content.PIXELS))]
        assert masks == content.PIXELS
