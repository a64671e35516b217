"""Builders made from a pattern are those that hdmf's constructors make."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO, convert
from hdmf_zarr_backend.builders import assembler
from hdmf_zarr_backend.builders.assembler import make_dataset, make_group
from hdmf_zarr_backend.errors import MetadataError

ATTRIBUTES = {"namespace": "core", "neurodata_type": "TimeSeries", "rate": 3.0}
ARRAY = {
    "data": np.arange(3),
    "dtype": np.dtype("i8"),
    "maxshape": (None, 3),
    "dimension_labels": ("time", None),
    "chunks": True,
}


def state(builder: Any) -> dict[str, Any]:
    """Return all that a builder holds but its parent and members."""
    held = {key: value for key, value in vars(builder).items() if not key.endswith("parent")}
    return {**held, **{f"[{key}]": value for key, value in dict.items(builder) if key not in ("groups", "datasets")}}


@pytest.mark.parametrize(
    "values",
    [
        ARRAY,
        {"data": "text", "dtype": "utf8"},
        {"data": None, "dtype": [{"name": "a", "dtype": "int"}]},
        {"data": 0, "dtype": None},
    ],
    ids=["array", "text", "rows", "untyped"],
)
def test_a_dataset_is_the_one_that_the_constructor_makes(values):
    ours = make_dataset("a", attributes=ATTRIBUTES, source="/x", **values)
    theirs = DatasetBuilder(name="a", attributes=ATTRIBUTES, source="/x", **values)
    assert type(ours) is DatasetBuilder
    assert state(ours) == state(theirs)
    assert list(state(ours)) == list(state(theirs))
    assert ours.path == theirs.path == "a"


def test_a_group_is_the_one_that_the_constructor_makes():
    def members(dataset):
        return {"data": dataset}, {"inner": GroupBuilder(name="inner", source="/x")}

    datasets, groups = members(make_dataset("data", attributes={}, source="/x", **ARRAY))
    ours = make_group("g", groups=groups, datasets=datasets, attributes=ATTRIBUTES, source="/x")
    datasets, groups = members(DatasetBuilder(name="data", source="/x", **ARRAY))
    theirs = GroupBuilder(name="g", groups=groups, datasets=datasets, attributes=ATTRIBUTES, source="/x")
    assert state(ours) == state(theirs)
    assert ours["data"].path == theirs["data"].path == "g/data"
    assert ours["inner"].parent is ours
    assert list(ours.keys()) == list(theirs.keys())


def test_builders_share_nothing():
    one, other = (make_group("g", groups={}, datasets={}, attributes={"a": 1}, source="/x") for _ in range(2))
    one.set_attribute("b", 2)
    one.set_dataset(make_dataset("d", data=1, dtype=None, attributes={"u": 1}, source="/x"))
    assert other.attributes == {"a": 1}
    assert not other.datasets
    assert other.obj_type == {"a": "attributes"}
    assert one["d"].attributes == {"u": 1}
    assert make_dataset("d", data=1, dtype=None, attributes={}, source="/x").attributes == {}


def test_a_name_is_used_once():
    dataset = make_dataset("a", data=1, dtype=None, attributes={}, source="/x")
    with pytest.raises(MetadataError, match="'a' is that of an attribute and of a member"):
        make_group("g", groups={}, datasets={"a": dataset}, attributes={"a": 1}, source="/x")


def test_this_hdmf_is_understood():
    assert assembler._GROUP._is_understood
    assert assembler._DATASET._is_understood


def test_an_hdmf_that_keeps_its_arguments_elsewhere_makes_its_builders_itself():
    class Elsewhere(dict):
        def __init__(self, name, source):
            super().__init__(attributes={})
            self.words = [name, source]

    pattern = assembler._Pattern(Elsewhere, name="one", source="other")
    assert pattern.copy(name="a", source="b").words == ["a", "b"]


def test_a_reference_may_not_have_the_name_of_a_member(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("group")
        file["data"] = [1]
        file.attrs["group"] = group.ref
        file["data"].attrs["data"] = group.ref  # of a dataset, that is not a member
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", check=False)
    said = r"'group' is that of an attribute and of a member.*\(/\)"
    with ZarrIO(tmp_path / "a.zarr", "r") as io, pytest.raises(MetadataError, match=said):
        io.read_builder()
