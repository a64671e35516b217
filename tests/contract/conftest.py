"""Files that the modules of the contract begin with, wherever their cell puts them."""

import pytest

from tests import samples
from tests.places import Place


@pytest.fixture
def plain(folder: Place) -> Place:
    return samples.write_zarr(folder / "plain.nwb.zarr", samples.plain_nwbfile())


@pytest.fixture(scope="module")
def rich(shared_folder: Place) -> Place:
    return samples.write_zarr(shared_folder / "rich.nwb.zarr")
