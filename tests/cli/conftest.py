"""Files for the tests of the command line, and the command itself."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend.cli.main import main
from tests.places import store_files
from tests.samples import plain_nwbfile, write_hdf5


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def nwb(tmp_path: Path) -> Path:
    return write_hdf5(tmp_path / "a.nwb", plain_nwbfile())


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A Zarr file with a link, a reference and a compound, made without any of the libraries."""
    links = [{"name": "link", "source": ".", "path": "/data"}]
    reference = {"zarr_dtype": "object", "value": {"source": ".", "path": "/data"}}
    array = {"chunks": [2], "compressor": None, "dtype": [["a", "<i4"], ["b", "<f8"]], "fill_value": None,
             "filters": None, "order": "C", "shape": [5], "zarr_format": 2}  # fmt: skip
    documents = {
        ".zgroup": {"zarr_format": 2}, ".zattrs": {"zarr_link": links, "ref": reference}, "data/.zarray": array,
        "data/.zattrs": {"zarr_dtype": [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "float64"}]},
    }  # fmt: skip
    consolidated = {"zarr_consolidated_format": 1, "metadata": documents}
    return store_files(tmp_path / "a.zarr", {**documents, ".zmetadata": consolidated})


@pytest.fixture
def zarrio(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command, check its exit code, and return what it prints: ``out`` and ``err``."""

    def run(*arguments: object, code: int = 0) -> Any:
        capsys.readouterr()
        assert main(list(map(str, arguments))) == code
        return capsys.readouterr()

    return run
