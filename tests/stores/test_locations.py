"""One file by all things that name it or hold it: each function takes each of them."""

from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr
import zarr.storage

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, compare, convert, report, validate, verify
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.outline import open_outline
from tests import samples, trees


def _upath(path: str, **options: Any) -> Any:
    return pytest.importorskip("upath", reason="universal_pathlib is not installed").UPath(path, **options)


PLACES = {
    "str": str,
    "url": Path.as_uri,
    "Path": Path,
    "UPath": lambda path: _upath(str(path)),
    "UPath of a URL": lambda path: _upath(f"file://{path}"),
    "OpenFile": lambda path: fsspec.open(str(path)),
    "LocalStore": zarr.storage.LocalStore,
    "StorePath": lambda path: zarr.storage.StorePath(zarr.storage.LocalStore(path.parent), path.name),
    "Group": lambda path: zarr.open_group(path, mode="r"),
}


@pytest.mark.parametrize("place_of", PLACES.values(), ids=PLACES)
def test_reading(place_of, tmp_path):
    path = tmp_path / "50% a.zarr"  # a name that is not the same in a URL
    samples.write_zarr(path, samples.plain_nwbfile())
    place = place_of(path)
    assert NWBZarrIO(place, "r").read().identifier == "plain"
    assert NWBZarrIO.can_read(place)
    assert compare(path, place) == compare(place, path) == []
    assert verify(place).is_sound
    assert not validate(place).findings
    assert open_outline(place, sizes=True).location == str(path)
    assert "50% a.zarr" in report(place, level="structure")
    convert(place, tmp_path / "a.nwb")
    assert not compare(path, tmp_path / "a.nwb", ignore=("chunks", "filters"))


@pytest.mark.parametrize("make", [name for name in PLACES if name != "Group"])
def test_convert_to_it(make, tmp_path):
    path = tmp_path / "a.zarr"
    samples.write_zarr(tmp_path / "source.zarr", samples.plain_nwbfile())
    convert(tmp_path / "source.zarr", PLACES[make](path), zarr_format=3)
    assert compare(tmp_path / "source.zarr", path) == []


NOT_ON_THE_DISK = {
    "UPath": lambda name: _upath(f"memory://{name}/a.zarr"),
    "OpenFile": lambda name: fsspec.open(f"memory://{name}/a.zarr"),
    "OpenFile in a folder": lambda name: fsspec.core.OpenFile(
        fsspec.filesystem("dir", path=f"/{name}", target_protocol="memory"), "a.zarr"),
    "FSMap": lambda name: fsspec.get_mapper(f"memory://{name}/a.zarr"),
    "dict": lambda name: {}, "MemoryStore": lambda name: zarr.storage.MemoryStore(),
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_ON_THE_DISK)
def test_places_that_are_not_on_the_disk(kind, tmp_path):
    samples.write_zarr(tmp_path / "a.zarr", samples.plain_nwbfile())
    convert(tmp_path / "a.zarr", tmp_path / "a.nwb")
    place = NOT_ON_THE_DISK[kind](f"test_locations_{kind.replace(' ', '_')}")
    convert(tmp_path / "a.nwb", place)
    assert compare(tmp_path / "a.zarr", place) == []
    with ZarrIO(place, "w", force_overwrite=True) as io:
        io.write_builder(trees.root(trees.dataset("data", np.arange(3))))
    assert ZarrIO(place, "r").read_builder()["data"].data[:].tolist() == [0, 1, 2]


def test_options_of_a_upath_are_used():
    with pytest.raises(UsageError, match="no storage option 'anom'"):
        NWBZarrIO(_upath("s3://b/a.zarr", anom=True), "r")


def test_a_virtual_conversion_needs_names(tmp_path):
    with pytest.raises(UsageError, match="Give paths or URLs"):
        convert(tmp_path / "a.nwb", {}, to="virtual")


@pytest.mark.parametrize("target", [{}, "s3://bucket/b.nwb"], ids=str)
def test_hdf5_is_written_to_a_local_path_only(tmp_path, target):
    samples.write_zarr(tmp_path / "a.zarr", samples.plain_nwbfile())
    with pytest.raises(UsageError, match="local"):
        convert(tmp_path / "a.zarr", target, to="hdf5")
