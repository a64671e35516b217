"""Which suites there are, which of their tests run, and which may fail for a reason."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class ExpectedFailure:
    """Tests of a suite that cannot pass here.

    Parameters
    ----------
    reason : str
        Why no backend for Zarr could pass them, or should.
    failure : re.Pattern
        What the failure has to say; any other failure of these tests is one.
    tests : tuple of str
        Ids, with ``*`` for any text.
    is_choice : bool
        Whether a backend for Zarr could pass them, and this one does otherwise on purpose.
    """

    reason: str
    failure: re.Pattern[str]
    tests: tuple[str, ...]
    is_choice: bool = False

    def covers(self, test: str) -> bool:
        """Tell whether a test is one of these."""
        return any(fnmatchcase(test, pattern) for pattern in self.tests)


@dataclass(frozen=True)
class Suite:
    """A suite of another project.

    Parameters
    ----------
    name : str
        What it is called here; ``exceptions/<name>.toml`` lists its expected failures.
    distribution, release : str
        Whose tests they are.
    plugin : str
        The plugin of pytest that puts this project's classes in their place.
    paths : tuple of str
        Modules and folders to run.
    sample : tuple of str
        Modules and classes that a change is checked with; a minute at most.
    left_out : tuple of (str, str)
        Modules and folders that are not run, each with the reason.
    same_release_installed : bool
        Whether the tests need that release of the distribution to be installed.
    least_zarr : str
        The oldest release of zarr that the distribution takes.
    """

    name: str
    distribution: str
    release: str
    plugin: str
    paths: tuple[str, ...]
    sample: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    same_release_installed: bool = True
    least_zarr: str = "0"

    def expected_failures(self) -> list[ExpectedFailure]:
        """Read the list of expected failures."""
        document = tomllib.loads((_HERE / "exceptions" / f"{self.name}.toml").read_text(encoding="utf-8"))
        return [
            ExpectedFailure(
                entry["reason"],
                re.compile(entry["failure"], re.DOTALL),
                tuple(entry["tests"]),
                is_choice=entry.get("choice", False),
            )
            for entry in document["exception"]
        ]


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "pynwb",
            "pynwb",
            "4.2.0",
            "zarr_in_place_of_hdf5",
            paths=("tests/integration/hdf5", "tests/integration/io", "tests/integration/utils", "tests/unit"),
            sample=(
                "tests/integration/hdf5/test_base.py",
                "tests/integration/hdf5/test_io.py::TestH5DataIO",
                "tests/integration/hdf5/test_modular_storage.py",
            ),
            left_out=(
                ("tests/back_compat", "reads HDF5 files that come with the suite"),
                ("tests/integration/ros3", "reads HDF5 files over the network with a driver of HDF5"),
                ("tests/read_dandi", "reads HDF5 files over the network"),
                ("tests/validation", "validates HDF5 files that come with the suite, most through the command line"),
            ),
        ),
        Suite(
            "hdmf",
            "hdmf",
            "6.2.0",
            "zarr_in_place_of_hdf5",
            paths=(
                "tests/unit/test_io_hdf5_h5tools.py",
                "tests/unit/test_io_hdf5.py",
                "tests/unit/test_hdf5_roundtrip_extensions.py",
                "tests/unit/test_container.py",
                "tests/unit/build_tests/test_io_map_data.py",
                "tests/unit/common",
                "tests/unit/validator_tests",
            ),
            sample=(
                "tests/unit/test_io_hdf5_h5tools.py::TestExport",
                "tests/unit/test_io_hdf5_h5tools.py::TestMultiWrite",
                "tests/unit/common/test_table.py::TestSelectionH5Dataset",
            ),
            left_out=(
                ("tests/unit/back_compat_tests", "reads HDF5 files that come with the suite"),
                ("tests/unit/test_io_hdf5_streaming.py", "reads HDF5 files over the network with a driver of HDF5"),
            ),
        ),
        Suite(
            "hdmf_zarr",
            "hdmf-zarr",
            "0.13.0",
            "hdmf_zarr_is_ours",
            paths=("tests/unit",),
            sample=(
                "tests/unit/test_zarrio.py::TestZarrWriterDefaultStore",
                "tests/unit/test_zarrio.py::TestExportZarrToZarrDefaultStore",
                "tests/unit/test_zarrdataio.py",
            ),
            left_out=(
                (
                    "tests/unit/test_fsspec_streaming.py",
                    "reads files of public servers over the network; two of its six tests ask for zarr 2's stores",
                ),
            ),
            same_release_installed=False,
        ),
        Suite(
            "hdmf_zarr_014",
            "hdmf-zarr",
            "0.14.0",
            "hdmf_zarr_014_is_ours",
            paths=("tests/unit",),
            sample=(
                "tests/unit/test_zarrio.py::TestZarrWriterLocalStore",
                "tests/unit/test_nwbzarrio.py",
                "tests/unit/test_zarrdataio.py",
            ),
            left_out=(
                ("tests/unit/test_fsspec_streaming.py", "reads files of public servers over the network"),
                ("tests/unit/test_zindi_interop.py", "is about files of zindi, which is installed from its repository"),
            ),
            same_release_installed=False,
            least_zarr="3.4.0",
        ),
    )
}
