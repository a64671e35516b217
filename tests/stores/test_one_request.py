"""A file whose format is known is opened with one request, and a wrong guess costs one more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from hdmf_zarr_backend.errors import StoreNotFoundError, StoreRefusedError, UsageError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.stores.opening import open_store
from tests import samples, trees

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])

FIRST = {2: ".zmetadata", 3: "zarr.json"}
"""The document of each format in which all others are."""


def other(zarr_format: int) -> int:
    return 5 - zarr_format


@FORMATS
def test_over_http(web, zarr_format):
    samples.write_zarr(web.folder / "a.nwb.zarr", samples.plain_nwbfile(), zarr_format=zarr_format)
    web.requests = 0
    with NWBZarrIO(f"{web.url}/a.nwb.zarr", "r", zarr_format=zarr_format) as io:
        assert io.read().identifier == "plain"
        assert io.zarr_format == zarr_format
    assert web.requests == 1
    web.requests = 0
    with NWBZarrIO(f"{web.url}/a.nwb.zarr", "r", zarr_format=other(zarr_format)) as io:
        assert io.read().identifier == "plain"
        assert io.zarr_format == zarr_format
    assert web.requests == 2


@FORMATS
def test_on_s3(s3, zarr_format):
    with NWBZarrIO(s3.url("a.nwb.zarr"), "w", storage_options=s3.options, zarr_format=zarr_format) as io:
        io.write(samples.plain_nwbfile())
    s3.proxy.requests.clear()
    with NWBZarrIO(s3.url("a.nwb.zarr"), "r", storage_options=s3.options, zarr_format=zarr_format) as io:
        assert io.read().identifier == "plain"
    assert s3.count() == s3.count("GET") == 1


@FORMATS
def test_what_is_not_there_may_be_refused(s3, zarr_format):
    """A bucket that may be read and not be listed answers 403 to a key that it does not have."""
    with ZarrIO(s3.url("a.zarr"), "w", storage_options=s3.options, zarr_format=zarr_format) as io:
        io.write_builder(trees.root(note="x"))
    absent = FIRST[other(zarr_format)]
    s3.proxy.fault = lambda method, path, number: "403" if path.endswith(absent) else None
    for named in (2, 3, None):
        with ZarrIO(s3.url("a.zarr"), "r", storage_options=s3.options, zarr_format=named) as io:
            assert io.read_builder().attributes["note"] == "x"
    s3.proxy.fault = lambda method, path, number: "403"
    with pytest.raises(StoreRefusedError):
        ZarrIO(s3.url("a.zarr"), "r", storage_options=s3.options, zarr_format=zarr_format)


@FORMATS
@pytest.mark.parametrize("mode", ["r", "r-"])
def test_without_a_consolidated_document(tmp_path, zarr_format, mode):
    with ZarrIO(
        tmp_path / "a.zarr", "w", zarr_format=zarr_format, write_options=WriteOptions(consolidate_metadata=False)
    ) as io:
        io.write_builder(trees.root(trees.group("g", note="x")))
    for named in (2, 3, None):
        with ZarrIO(tmp_path / "a.zarr", mode, zarr_format=named) as io:
            assert io.read_builder().groups["g"].attributes["note"] == "x"
            assert io.zarr_format == zarr_format


@pytest.mark.parametrize("named", [2, 3, None])
def test_nothing_is_there(web, tmp_path, named):
    for place in (f"{web.url}/a.zarr", tmp_path / "a.zarr"):
        with pytest.raises(StoreNotFoundError) as caught:
            ZarrIO(place, "r", zarr_format=named)
        assert caught.value.store == str(place)


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A folder with a file of each format in it; a note says which one it is."""
    for zarr_format in (2, 3):
        with ZarrIO(tmp_path / f"{zarr_format}.zarr", "w", zarr_format=zarr_format) as io:
            io.write_builder(trees.root(note=str(zarr_format)))
    shutil.copytree(tmp_path / "2.zarr", tmp_path / "3.zarr", dirs_exist_ok=True)
    return tmp_path / "3.zarr"


@pytest.mark.parametrize("mode", ["r", "r-"])
def test_of_both_formats_the_one_that_is_named(both, mode):
    for named, found in ((None, "3"), (2, "2"), (3, "3")):
        with ZarrIO(both, mode, zarr_format=named) as io:
            assert io.read_builder().attributes["note"] == found


@pytest.mark.parametrize("mode", ["r+", "a"])
def test_a_change_is_made_to_what_everybody_reads(both, mode):
    with pytest.raises(UsageError, match="of Zarr format 3"):
        ZarrIO(both, mode, zarr_format=2)


# ---- neighbours -----------------------------------------------------------------------------------------------------


def write_pair(folder: Path, own: int, linked: int) -> None:
    """Write a file, and one of format ``own`` with a link to it."""
    first = samples.write_zarr(folder / "first.nwb.zarr", samples.plain_nwbfile("first"), zarr_format=linked)
    second = samples.plain_nwbfile("second")
    with NWBZarrIO(first, "r") as source, NWBZarrIO(folder / "second.nwb.zarr", "w", zarr_format=own) as io:
        data = source.read().acquisition["trace"].data
        second.add_acquisition(TimeSeries(name="linked", data=data, unit="V", rate=1.0))
        io.write(second)


@pytest.mark.parametrize(
    ("own", "linked", "requests"),
    [
        (3, 3, 1),  # likely one of format 3 as well
        (3, 2, 2),
        (2, 2, 2),  # where metadata of both formats are there, those of format 3 count: so both are asked for
        (2, 3, 2),
    ],
)
def test_the_file_that_a_link_leads_to(web, own, linked, requests):
    write_pair(web.folder, own, linked)
    web.requests = 0
    with NWBZarrIO(f"{web.url}/second.nwb.zarr", "r", zarr_format=own) as io:
        data: Any = io.read().acquisition["linked"].data
        assert data.location == f"{web.url}/first.nwb.zarr"
        assert web.requests == 1 + requests
        assert data[0].tolist() == [0, 1, 2]


@FORMATS
def test_what_is_asked_for(tmp_path, zarr_format, monkeypatch):
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=zarr_format) as io:
        io.write_builder(trees.root(note="x"))
    keys = open_store(tmp_path / "a.zarr")
    asked: list[str] = []
    get = keys.get

    def counted(key: str) -> bytes | None:
        asked.append(key)
        return get(key)

    monkeypatch.setattr(keys, "get", counted)
    for hint, expected in (
        (None, ["zarr.json", ".zmetadata"]),
        (zarr_format, [FIRST[zarr_format]]),
        (other(zarr_format), [FIRST[other(zarr_format)], FIRST[zarr_format]]),
    ):
        asked.clear()
        assert parse(keys, hint=hint).zarr_format == zarr_format
        assert asked == expected
