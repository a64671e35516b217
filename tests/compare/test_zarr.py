"""The comparing tool on two Zarr files: exactly the planted difference is found."""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import zarr

from hdmf_zarr_backend import convert, upgrade
from hdmf_zarr_backend.comparison import compare, open_content
from hdmf_zarr_backend.model.content import DatasetContent, NodeContent
from tests.compare.planted import places
from tests.compare.planted_zarr import PLANTED, changed, edit, write


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("zarr") / "a.zarr")


@pytest.mark.parametrize(("kind", "place", "plant"), PLANTED.values(), ids=PLANTED)
def test_the_planted_difference_alone_is_found(sample, tmp_path, kind, place, plant):
    other = write(tmp_path / "b.zarr", plant)
    found = compare(sample, other)
    assert places(found) == [(kind, place)], list(map(str, found))
    (mirrored,) = compare(other, sample)
    assert mirrored.kind == {"missing": "extra", "extra": "missing"}.get(kind, kind)
    assert compare(sample, other, ignore={kind}) == []


def test_the_same_tree_written_twice_is_equal(sample, tmp_path):
    assert compare(sample, write(tmp_path / "b.zarr")) == []


def test_no_chunk_is_read_for_the_structure_alone(sample, tmp_path):
    other = Path(shutil.copytree(sample, tmp_path / "b.zarr"))
    for key in other.glob("numbers/[0-9]*"):
        key.write_bytes(b"no chunk")
    assert compare(sample, other, values=False) == []
    (found,) = compare(sample, other)
    assert (found.path, found.kind, found.a) == ("/numbers", "unreadable", None)
    assert "cannot be decoded" in str(found.b)
    (mirrored,) = compare(other, sample)
    assert (mirrored.a, mirrored.b) == (found.b, None)


def dataset(node: NodeContent) -> DatasetContent:
    assert isinstance(node, DatasetContent)
    return node


def test_rows_that_do_not_fit_their_fields_are_told(sample, tmp_path):
    words = [{"name": "number", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    path = changed(sample, tmp_path, edit("table/.zattrs", "zarr_dtype", words))
    (found,) = compare(path, path)
    assert (found.path, found.kind) == ("/table", "unreadable")


def test_a_cached_specification_keeps_its_axis_in_format_3(tmp_path):
    """Only a file that records no type for it, of an old release of hdmf-zarr, may mean a scalar by one axis of one."""
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=3, attributes={".specloc": "specifications"})
    text = root.create_array("specifications/core/1.0.0/namespace", shape=(1,), dtype="string")
    text[:] = np.array(["{}"], dtype=object)
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    convert(tmp_path / "b.zarr", tmp_path / "c.zarr", zarr_format=3)
    convert(tmp_path / "a.zarr", tmp_path / "d.h5")
    upgrade(tmp_path / "b.zarr")
    for name in ("a.zarr", "b.zarr", "c.zarr", "d.h5"):
        with closing(open_content(tmp_path / name)) as content:
            assert dataset(content["/specifications/core/1.0.0/namespace"]).shape == (1,), name
    assert compare(tmp_path / "a.zarr", tmp_path / "c.zarr") == []
