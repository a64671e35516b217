"""Files of both kinds, made once for all tests here: what we make of the real files, and what hdmf-zarr 0.13 makes."""

import os
import warnings
from pathlib import Path

import pytest
from hdmf.backends.warnings import BrokenLinkWarning

from hdmf_zarr_backend.conversion import convert
from hdmf_zarr_backend.errors import UnsupportedFileError
from hdmf_zarr_backend.options import WriteOptions
from tests import samples
from tests.interop.exchange import SWITCH, converted
from tests.peers import Peer

NO_NWB_2 = {
    "matnwb__ecephys_tutorial_old": "decode",
    "matnwb__link_test": "decode",
    "matnwb__membrane_potential": "decode",
    "nwbexplorer__nwb_test_file": "Missing NWB version",
}
"""Files that pynwb itself does not read: attributes that are arrays of one element, NWB 1.2."""

CANNOT_BUILD = {"pynapple__sub-4_ses-4_ecephys+image": r"electrodes_index|VectorIndex"}
"""Files whose containers pynwb reads, but cannot build again, not from HDF5 either."""

CANNOT_READ = {"ndxpose__test_pose": r"SkeletonInstance object due to: .*incorrect type for 'id'"}
"""Files that hdmf-zarr cannot read however they are written: it loses that an attribute is unsigned."""

CANNOT_CONVERT = {**NO_NWB_2, **CANNOT_BUILD, "rich": "0-dimensional"}
"""Files that 0.13 cannot convert, and what it says; the last one has a row in one piece (`ElectrodeGroup.position`)."""


NAMED = {
    *CANNOT_CONVERT, "dandi__sub-anm369963_ses-20170228", "dandi__sub-anm372793_ses-20170508", "ndxpose__test_pose",
    "neuroconv__doric_fiber_photometry", "neuroconv__mock_ttl_examples", "nwbexplorer__test_SweepTable",
    "nwbexplorer__test_TimeIntervals", "nwbexplorer__test_Units", "pynwb__1.5.1_timeintervals_non_ndtype_tsref",
    "pynwb__3.0.0_ophys_devices_extension",
}  # fmt: skip
"""Files about which the tests say something by name: they are always tried. Of the others the fast set takes some,
and all with the variable ``HDMF_ZARR_BACKEND_EVERY_FILE``, which the nox sessions `interop` and `slow` set."""


@pytest.fixture(scope="session")
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """HDF5 files by name: two rich ones, and the real ones where there are some."""
    folder = tmp_path_factory.mktemp("sources")
    result = {
        "rich": samples.write_hdf5(folder / "rich.nwb"),
        "rich_without_positions": samples.write_hdf5(
            folder / "rich_without_positions.nwb", samples.rich_nwbfile(positions=False)
        ),
    }
    if os.environ.get("HDMF_ZARR_BACKEND_NWBFILES"):
        real = {path.stem: path for path in request.getfixturevalue("nwbfiles")}
        if not os.environ.get("HDMF_ZARR_BACKEND_EVERY_FILE"):
            real = {name: path for number, (name, path) in enumerate(real.items()) if name in NAMED or number % 6 == 0}
        result |= real
    return result


@pytest.fixture(scope="session")
def ours(sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All of them converted by us, and one that was written by us; every other one has the attributes of NCZarr."""
    folder = tmp_path_factory.mktemp("ours")
    result = {"rich_as_written": samples.write_zarr(folder / "rich_as_written.nwb.zarr")}
    refused = set()
    for number, (name, source) in enumerate(sources.items()):
        target = folder / f"{name}.nwb.zarr"
        try:
            with warnings.catch_warnings():  # a file that is refused may have a broken link, which is listed before
                warnings.simplefilter("ignore", BrokenLinkWarning)
                convert(source, target, write_options=WriteOptions(nczarr=number % 2 == 0))
        except UnsupportedFileError:
            refused.add(name)
        else:
            result[name] = target
    assert refused == NO_NWB_2.keys() & sources.keys()
    return result


@pytest.fixture(scope="session")
def theirs(sources: dict[str, Path], peer013: Peer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All that 0.13 converts, with its switch on: references and rows are pickles."""
    return converted(peer013, sources, tmp_path_factory.mktemp("theirs"), CANNOT_CONVERT, **SWITCH)
