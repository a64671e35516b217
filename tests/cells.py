"""The cells in which tests run: the formats of Zarr x the kinds of store, for tests that are about neither.

The tests of `MODULES` write new files in the format of their cell, where they do not say in which, and put them into
the fixture `folder` (or `shared_folder`, for files that a module makes once), which is a folder of the cell's kind of
store. Which cells those are:

* A test that takes `folder` or `shared_folder`, by itself or through a fixture, runs in all eight: formats 2 and 3,
  on a local disk, in zip files, in memory, and on an S3 server. One that takes neither is about local files or about
  no file at all, and runs in the two local ones. What is about one format (`OF_FORMAT_2`) leaves out the others.
* What a kind of store cannot do is a cell as well: a test says what it needs with ``@pytest.mark.needs("append")``,
  and in a cell that cannot (`REFUSALS`) it passes where it ends in the error that is named there, and in no other;
  pytest lists it as an expected failure, with the reason.
* Without the tests that are marked ``slow``, each runs in its local cells, and every eighth one in one of the others:
  which ones, and where, a hash of its name and parameters decides, so that it is the same each time and no cell is left
  out. All the rest is marked ``slow``; both together are the full product.
"""

import itertools
import subprocess
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hdmf_zarr_backend.encoding import registry
from hdmf_zarr_backend.errors import IncompleteStoreError, ReadOnlyStoreError
from tests.places import Place, Url, ZipFolder
from tests.servers import S3Server

FORMATS = (2, 3)
KINDS = ("local", "zip", "memory", "s3")

MODULES = frozenset(
    {
        "tests.test_io", "tests.contract.test_1_append", "tests.contract.test_2_links_and_references",
        "tests.contract.test_3_region_references", "tests.contract.test_4_types",
        "tests.contract.test_5_dimension_labels", "tests.contract.test_6_iterators", "tests.contract.test_7_specs",
        "tests.contract.test_8_neighbours", "tests.contract.test_append_conflicts", "tests.contract.test_append_tables",
        "tests.contract.test_conversions", "tests.contract.test_as_with_hdf5io", "tests.contract.test_lazy",
        "tests.contract.test_refusals", "tests.contract.test_roundtrip_property",
    }
)  # fmt: skip
"""Modules whose tests run in cells."""

_ON_DISK = "looks at files and documents by their names in format 2"
_IDS = "in format 3 a reference in a dataset is a path and no more"
_OLD = "changes a file into an older form, which was of format 2"

OF_FORMAT_2 = {
    "test_specloc_in_its_old_forms": _OLD,
    "test_a_cached_specification_that_is_not_json_is_an_error": _ON_DISK,
    "test_a_reference_in_a_dataset_to_another_object_than_was_meant": _IDS,
}
"""Tests of those modules that are about format 2, with the reason."""


class Refusal(NamedTuple):
    """Why a kind of store cannot do something, and the error that it raises."""

    reason: str
    error: type[Exception]


_NO_STAGING = Refusal("a file is replaced key by key, and marked as incomplete until it is whole", IncompleteStoreError)

REFUSALS: dict[str, dict[str, Refusal]] = {
    "local": {},
    "zip": {"append": Refusal("a zip file is written in one pass", ReadOnlyStoreError)},
    "memory": {"staging": _NO_STAGING, "processes": Refusal("memory is one process's", subprocess.CalledProcessError)},
    "s3": {"staging": _NO_STAGING},
}
"""What a kind of store cannot do."""


class Cell(NamedTuple):
    zarr_format: int
    kind: str

    def __str__(self) -> str:
        return f"{self.zarr_format}-{self.kind}"


_ALL = tuple(itertools.starmap(Cell, itertools.product(FORMATS, KINDS)))
_EVERY = 8
_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def cell(request: pytest.FixtureRequest) -> Iterator[Cell | None]:
    """The cell that a test runs in; module fixtures that write files take it, and so run once per cell.

    It is for all tests, since pytest forgets a parameter of a fixture that a test does not ask for.
    """
    result: Cell | None = getattr(request, "param", None)
    if result is None:
        yield None
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "DEFAULT_FORMAT", result.zarr_format)
        if result.kind == "s3":
            server: S3Server = request.getfixturevalue("_s3_session")
            for name, value in {**server.environment, "AWS_ENDPOINT_URL": server.endpoint}.items():
                patch.setenv(name, value)
        yield result


def _folder(cell: Cell, path: Path, request: pytest.FixtureRequest) -> Place:
    if cell.kind == "local":
        return path
    if cell.kind == "zip":
        return ZipFolder(path)
    if cell.kind == "memory":
        return Url(f"memory://cells/{next(_numbers)}")
    bucket = f"cell-{uuid.uuid4()}"  # of its own: moto goes through all keys of a bucket to list some
    request.getfixturevalue("_s3_session").make_bucket(bucket)
    return Url(f"s3://{bucket}")


@pytest.fixture
def folder(cell: Cell, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """Where the files of a test are; of a local cell, ``tmp_path``."""
    return _folder(cell, tmp_path, request)


@pytest.fixture(scope="module")
def shared_folder(cell: Cell, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Place:
    """Where the files are that several tests of a module read."""
    return _folder(cell, tmp_path_factory.mktemp("shared"), request)


# ---- which cells ---------------------------------------------------------------------------------------------------
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__ not in MODULES:
        return
    name = metafunc.function.__name__
    is_of_2 = name in OF_FORMAT_2 or "peer013" in metafunc.fixturenames
    is_anywhere = not {"folder", "shared_folder"}.isdisjoint(metafunc.fixturenames)
    cells = [cell for cell in _ALL if (cell.zarr_format == 2 or not is_of_2) and (cell.kind == "local" or is_anywhere)]
    metafunc.parametrize("cell", cells, indirect=True, ids=str)


def _is_often(nodeid: str, cell: Cell) -> bool:
    if cell.kind == "local":
        return True
    others = [other for other in _ALL if other.kind != "local"]
    test = nodeid.replace(str(cell), "", 1)
    return zlib.crc32(test.encode()) % (_EVERY * len(others)) == others.index(cell)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark slow tests, and expect the error of a kind of store that cannot do what a test needs."""
    cell = getattr(item, "callspec", None) and item.callspec.params.get("cell")  # type: ignore[attr-defined] # a function's
    if not isinstance(cell, Cell):
        return
    if not _is_often(item.nodeid, cell):
        item.add_marker(pytest.mark.slow)
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            if refusal := REFUSALS[cell.kind].get(need):
                item.add_marker(pytest.mark.xfail(raises=refusal.error, strict=True, reason=refusal.reason))
