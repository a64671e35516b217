"""Selections of region references <-> JSON."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import RegionReference
from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.formats.regions import decode_region, encode_region


@pytest.mark.parametrize(
    ("selection", "region"),
    [
        (slice(1, 5), [{"slice": [1, 5, None]}]),
        (slice(None, None, 2), [{"slice": [None, None, 2]}]),
        (slice(np.int8(1), np.int16(5), np.int32(2)), [{"slice": [1, 5, 2]}]),
        (3, [{"index": [3]}]),
        (np.uint8(3), [{"index": [3]}]),
        ((slice(0, 2), [1, 3]), [{"slice": [0, 2, None]}, {"index": [1, 3]}]),
        ((np.array([True, False, True]),), [{"index": [0, 2]}]),
        ([np.array([4, 2], "u2"), 0], [{"index": [4, 2]}, {"index": [0]}]),
        ([{"slice": [0, 1, None]}, {"index": [2]}], [{"slice": [0, 1, None]}, {"index": [2]}]),
        ({"points": [[1, 2], [3, 4]]}, {"points": [[1, 2], [3, 4]]}),
        ({"points": np.array([1, 2])}, {"points": [[1], [2]]}),
        ({"points": []}, {"points": []}),
        ({"points": np.empty((0, 2))}, {"points": []}),
    ],
)
def test_what_a_selection_is_in_json(selection, region):
    found = encode_region(selection)
    assert json.loads(json.dumps(found)) == region
    assert encode_region(found) == region


@pytest.mark.parametrize(
    ("selection", "problem", "remedy"),
    [
        ({"point": [[1]]}, "{'point': [[1]]} is not a region", 'Give {"points": [[...], ...]}.'),
        *(
            ({"points": points}, f"{points!r} are not points", 'Give {"points": [[...], ...]}.')
            for points in (5, [[1], [1, 2]], [[1.5]], ["a"], [[[1]]])
        ),
        *(
            ((part,), f"{part!r} is not a selection on an axis", "Give a slice, an integer or a list of integers.")
            for part in (1.5, "a", [1.5], [[1]], [[1], [2, 3]], None, {"slice": [1], "index": [1]})
        ),
    ],
    ids=str,
)
def test_what_is_not_a_selection_is_refused(selection, problem, remedy):
    with pytest.raises(UsageError) as caught:
        encode_region(selection)
    assert str(caught.value) == f"{problem}. {remedy}"


@pytest.mark.parametrize(
    "region", [5, [5], ["a"], [{"a": 1}], [{"index": "a"}], [{"slice": [1, 2, 3, 4]}], {"points": 5}, {}], ids=str
)
def test_what_is_not_a_region_is_damage(region):
    with pytest.raises(MetadataError) as caught:
        decode_region(region)
    assert str(caught.value) == f"{region!r} is not a region. Run `zarrio verify` on the file."


DATA = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize(
    ("region", "values"),
    [
        ([{"slice": [0, 2, None]}, {"index": [1, 3]}], [[1, 3], [5, 7]]),
        ([{"index": [2, 0]}], [[8, 9, 10, 11], [0, 1, 2, 3]]),
        ({"points": [[0, 1], [2, 3]]}, [1, 11]),
        ({"points": []}, []),
    ],
    ids=str,
)
def test_only_the_selected_values_are_read(region, values):
    builder: Any = SimpleNamespace(name="data", data=DATA)
    reference = RegionReference(builder, region)
    found = reference.read()
    assert (found.dtype, found.tolist()) == (DATA.dtype, values)
    assert reference[()].tolist() == values
    assert [reference[index].tolist() for index in range(len(values))] == values
    assert np.asarray(reference, "f4").dtype == np.float32
    assert repr(reference) == f"<RegionReference 'data' {region}>"


def test_points_of_data_without_a_type_are_objects():
    class Texts(dict):
        """Values by position, without a data type."""

    texts: Any = Texts({(0,): "a", (2,): "b"})
    found = RegionReference(SimpleNamespace(name="data", data=texts), {"points": [[2], [0]]}).read()
    assert (found.dtype, found.tolist()) == (np.dtype(object), ["b", "a"])
