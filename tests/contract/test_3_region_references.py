"""The contract: region references."""

from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.encoding.references import RegionReference, ZarrReference
from hdmf_zarr_backend.errors import UsageError
from tests.documents import document
from tests.places import Place
from tests.trees import dataset, read_builder, root, write_builder
from tests.watching import watching

VALUES = np.arange(60).reshape(12, 5)

REGIONS: dict[str, tuple[Any, Any, Any]] = {
    "slices": ((slice(1, 9, 2), slice(0, 2)), [{"slice": [1, 9, 2]}, {"slice": [0, 2, None]}], VALUES[1:9:2, 0:2]),
    "open slices": ((slice(None), slice(3, None)), [{"slice": [None] * 3}, {"slice": [3, None, None]}], VALUES[:, 3:]),
    "an index": (([4], slice(None)), [{"index": [4]}, {"slice": [None] * 3}], VALUES[[4]]),
    "index lists": (([0, 7, 11], [1, 4]), [{"index": [0, 7, 11]}, {"index": [1, 4]}], VALUES[[0, 7, 11]][:, [1, 4]]),
    "points": ({"points": [[0, 0], [11, 4]]}, {"points": [[0, 0], [11, 4]]}, np.array([0, 59])),
    "as JSON": ([{"slice": [0, 2, 1]}, {"index": [3]}], [{"slice": [0, 2, 1]}, {"index": [3]}], VALUES[0:2, [3]]),
}


def tree() -> GroupBuilder:
    references = {name: ZarrReference(".", "/values", region=region) for name, (region, _, _) in REGIONS.items()}
    values = dataset("values", ZarrDataIO(VALUES, chunks=(3, 5)))
    regions = dataset("regions", list(references.values()), "region")
    single = DatasetBuilder("single", data=references["slices"], dtype="region")
    untold = DatasetBuilder("untold", references["slices"])
    return root(values, regions, single, untold, several=list(references.values()), **references)


@pytest.fixture(scope="module")
def file(shared_folder: Place) -> Place:
    return write_builder(shared_folder / "file.zarr", tree())


@pytest.mark.parametrize("name", REGIONS)
def test_stored_form_in_an_attribute(file, name):
    stored = document(file, ".zattrs")[name]
    assert stored["zarr_dtype"] == "region"
    assert stored["value"]["region"] == REGIONS[name][1]
    assert (stored["value"]["source"], stored["value"]["path"]) == (".", "/values")


def test_they_are_read_back_and_indexing_goes_on_in_the_selection(file):
    builder = read_builder(file)
    attributes, regions = builder.attributes, builder["regions"].data
    for position, (name, (_, _, values)) in enumerate(REGIONS.items()):
        for reference in (attributes[name], regions[position], attributes["several"][position]):
            assert isinstance(reference, RegionReference), name
            assert reference.builder is builder["values"]
            assert np.array_equal(reference[()], values), name
    for name in ("single", "untold"):
        assert isinstance(builder[name].data, RegionReference)
        assert np.array_equal(builder[name].data[()], REGIONS["slices"][2])
    reference = attributes["slices"]
    assert reference[1].tolist() == VALUES[3, 0:2].tolist()
    assert reference[0, 1] == VALUES[1, 1]
    assert np.asarray(reference).tolist() == REGIONS["slices"][2].tolist()
    assert "values" in repr(reference)


def test_just_the_selection_is_read(cell, tmp_path):
    """Two of four chunks, and none of the others."""
    names = {2: ("0.0", "1.0", "3.0"), 3: ("c/0/0", "c/1/0", "c/3/0")}
    first, second, last = names[cell.zarr_format]
    path = write_builder(tmp_path / "file.zarr", tree())
    with ZarrIO(path) as io:
        builder = io.read_builder()
        with watching(path) as watched:
            builder.attributes["points"].read()
        assert sorted(set(watched.reads)) == [f"values/{first}", f"values/{last}"]
        with watching(path) as watched:
            builder.attributes["an index"].read()
        assert watched.reads == [f"values/{second}"]


@pytest.mark.parametrize("region", [
    "text", (slice(None), 1.5), {"rows": [1]}, [[[1, 2]]], slice(0.9, 2.9), True, (np.bool_(True),),
])  # fmt: skip
def test_invalid_regions_are_refused(region):
    with pytest.raises(UsageError):
        ZarrReference(".", "/values", region=region)
