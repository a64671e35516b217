"""Fixtures that need something outside the repository: the peers and real NWB files."""

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from hypothesis import settings

from tests.cells import cell, folder, pytest_generate_tests, pytest_itemcollected, shared_folder
from tests.clouds import _azurite, _fake_gcs, _google_front, adlfs, azure, gcsfs, google
from tests.peers import RECIPES, Peer, PeerUnavailableError, obtain_peer
from tests.sampling import pytest_collection_modifyitems, pytest_pyfunc_call
from tests.servers import _s3_endpoint, _s3_session, s3, web, web_proxy
from tests.storekinds import store
from tests.zarrs import pytest_pycollect_makemodule

# Where netCDF4 comes first, HDF5 finds its plugins by the path that it sets, and they are of another HDF5 than h5py's.
with suppress(ModuleNotFoundError):
    import_module("hdf5plugin")

__all__ = [
    "_azurite", "_fake_gcs", "_google_front", "_s3_endpoint", "_s3_session", "adlfs", "azure", "cell", "folder",
    "gcsfs", "google", "pytest_collection_modifyitems", "pytest_generate_tests", "pytest_itemcollected",
    "pytest_pycollect_makemodule", "pytest_pyfunc_call", "s3", "shared_folder", "store", "web", "web_proxy",
]  # fmt: skip
"""Fixtures and hooks for all tests."""

_DECISIVE = os.environ.get("HDMF_ZARR_BACKEND_CI") == "1"

# No deadline: how long one example takes on a shared machine proves nothing. By default each run tries the same
# examples; HDMF_ZARR_BACKEND_HYPOTHESIS=random tries new ones, as `nox -s slow` does. A test keeps one that failed as
# an `@example`.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HDMF_ZARR_BACKEND_HYPOTHESIS", "fixed"))


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> int:
    """Either format of Zarr; a test that names its formats takes those."""
    return int(request.param)


@pytest.fixture(scope="module", autouse=True)
def _closes_its_files() -> Iterator[None]:
    """Collect garbage at the end of each module: what it did not close fails there, not in a later module."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The script of the documentation that a module names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[1] / "docs" / "_scripts")
        yield import_module(request.module.SCRIPT)


@pytest.fixture(scope="session")
def peer013() -> Peer:
    return _obtain("0.13")


@pytest.fixture(scope="session")
def peer014() -> Peer:
    return _obtain("0.14")


@pytest.fixture(scope="session")
def nwbfiles() -> list[Path]:
    """Real NWB files in HDF5, sorted by name: those below the folder that ``HDMF_ZARR_BACKEND_NWBFILES`` names."""
    folder = os.environ.get("HDMF_ZARR_BACKEND_NWBFILES")
    if not folder:
        pytest.skip("HDMF_ZARR_BACKEND_NWBFILES names no folder of NWB files")
    files = sorted(Path(folder).expanduser().absolute().glob("**/*.nwb"))
    if not files:
        pytest.fail(f"HDMF_ZARR_BACKEND_NWBFILES: there is no *.nwb below {folder}")
    return files


@pytest.fixture(scope="session")
def some_nwbfiles(nwbfiles: list[Path]) -> list[Path]:
    """Every sixth of them in the fast set; all with ``HDMF_ZARR_BACKEND_EVERY_FILE``, as in the session `interop`."""
    return nwbfiles if os.environ.get("HDMF_ZARR_BACKEND_EVERY_FILE") else nwbfiles[::6]


@pytest.fixture(scope="session")
def lindi() -> Peer:
    return _obtain("lindi")


@pytest.fixture(scope="session")
def zarr315() -> Peer:
    return _obtain("zarr 3.1.5")


@pytest.fixture(scope="session")
def zarrs() -> Peer:
    """zarr 3.4 with the codecs of zarrs."""
    return _obtain("zarrs")


def _obtain(name: str) -> Peer:
    try:
        return obtain_peer(RECIPES[name])
    except PeerUnavailableError as error:
        absent(str(error))


def absent(reason: str) -> NoReturn:
    """Skip, but not where the tests are run to decide something: there, what cannot be tested has failed."""
    if _DECISIVE:
        pytest.fail(reason)
    pytest.skip(reason)
