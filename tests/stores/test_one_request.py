"""The format that a caller names: what is read where there are both, or the other; requests to follow a link."""

import itertools
import shutil
from typing import Any

import pytest
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from hdmf_zarr_backend.errors import UsageError
from tests import samples, trees


def test_of_both_formats_the_one_that_is_named_is_read_and_the_one_that_everybody_reads_is_changed(tmp_path):
    for zarr_format in (2, 3):
        tree = trees.root(note=str(zarr_format))
        trees.write_builder(tmp_path / f"{zarr_format}.zarr", tree, zarr_format=zarr_format)
    both = shutil.copytree(tmp_path / "2.zarr", tmp_path / "3.zarr", dirs_exist_ok=True)
    for mode, (named, found) in itertools.product(("r", "r-"), ((None, "3"), (2, "2"), (3, "3"))):
        assert trees.read_builder(both, mode, zarr_format=named).attributes["note"] == found
    for mode in ("r+", "a"):
        with pytest.raises(UsageError, match="has Zarr format 3"):
            ZarrIO(both, mode, zarr_format=2)


# likely one of format 3 as well; where metadata of both are there, those of format 3 count: so both are asked for
@pytest.mark.parametrize(("own", "linked", "requests"), [(3, 3, 1), (3, 2, 2), (2, 2, 2), (2, 3, 2)])
def test_the_file_that_a_link_leads_to(web, own, linked, requests):
    first = samples.write_zarr(web.folder / "first.nwb.zarr", samples.plain_nwbfile("first"), zarr_format=linked)
    second = samples.plain_nwbfile("second")
    with NWBZarrIO(first, "r") as source, NWBZarrIO(web.folder / "second.nwb.zarr", "w", zarr_format=own) as io:
        linked_data = source.read().acquisition["trace"].data
        second.add_acquisition(TimeSeries(name="linked", data=linked_data, unit="m", rate=1.0))
        io.write(second)
    web.requests = 0
    data: Any = samples.read_zarr(f"{web.url}/second.nwb.zarr", zarr_format=own).acquisition["linked"].data
    assert data.location == f"{web.url}/first.nwb.zarr"
    assert web.requests == 1 + requests
    assert data[0].tolist() == [0, 1, 2]
