"""Axes have the same names whether a file was written by NWBZarrIO, converted or exported."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from hdmf.common import DynamicTable, VectorData
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, convert
from tests import samples
from tests.documents import arrays, document
from tests.smallfiles import edited_json, hdf5_file

FORMATS = (2, 3)


def nwbfile() -> NWBFile:
    made = NWBFile("x", "y", samples.START)
    made.add_acquisition(TimeSeries(name="raw", data=np.zeros((50, 4)), unit="V", timestamps=np.arange(50.0)))
    for start in (0.0, 1.0, 2.0):
        made.add_trial(start_time=start, stop_time=start + 1)
    for times in ([0.1, 0.2], [0.3], [0.4, 0.5]):
        made.add_unit(spike_times=times)
    table = DynamicTable(name="table", description="x", columns=[VectorData(name="z", description="x", data=[1, 2])])
    table.add_column(name="a", description="x", data=[1, 2, 3], index=[1, 3])
    made.add_scratch(table)
    return made


def names(path: Path) -> dict[str, Any]:
    """Return the names of the axes of each array, by path, without those of the cached namespaces."""
    nodes = [node for node in arrays(path) if not node.startswith("specifications")]
    return {node: document(path, f"{node}/.zattrs").get("_ARRAY_DIMENSIONS") for node in nodes}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    with NWBHDF5IO(made / "a.nwb", "w") as io:
        io.write(nwbfile())
    for zarr_format in FORMATS:
        samples.write_zarr(made / f"{zarr_format}.zarr", nwbfile(), zarr_format=zarr_format)
    return made


@pytest.mark.parametrize("check", [True, False])
def test_a_converted_file_has_the_names_of_a_written_one(folder, tmp_path, zarr_format, check):
    convert(folder / "a.nwb", tmp_path / "a.zarr", zarr_format=zarr_format, check=check)
    axes = names(tmp_path / "a.zarr")
    assert axes == names(folder / f"{zarr_format}.zarr")
    assert axes["acquisition/raw/timestamps"] == ["num_times"]
    assert axes["units/spike_times_index"] == ["num_rows"]
    with xr.open_zarr(tmp_path / "a.zarr", group="acquisition/raw", zarr_format=zarr_format) as opened:
        assert opened["data"].dims[0] == opened["timestamps"].dims[0] == "num_times"


def test_an_export_one_of_the_other_format_and_references_to_hdf5_chunks_have_them_too(folder, tmp_path, zarr_format):
    with NWBHDF5IO(folder / "a.nwb", "r") as source, NWBZarrIO(tmp_path / "a.zarr", "w", zarr_format=zarr_format) as io:
        io.export(src_io=source)
    convert(folder / f"{5 - zarr_format}.zarr", tmp_path / "b.zarr", zarr_format=zarr_format)
    for name in ("a.zarr", "b.zarr"):
        assert names(tmp_path / name) == names(folder / f"{zarr_format}.zarr")
    place = tmp_path / "a.nwb.zarr.json"
    convert(folder / "a.nwb", place, to="virtual", zarr_format=zarr_format)
    references = json.loads(place.read_text())["refs"]
    key = "acquisition/raw/timestamps/" + (".zattrs" if zarr_format == 2 else "zarr.json")
    stated = references[key] if isinstance(references[key], dict) else json.loads(references[key])
    assert stated["_ARRAY_DIMENSIONS" if zarr_format == 2 else "dimension_names"] == ["num_times"]


def test_names_that_an_old_conversion_left_out_come_with_the_next_one(folder, tmp_path, zarr_format):
    convert(folder / "a.nwb", tmp_path / "old.zarr", zarr_format=5 - zarr_format)
    for key in (tmp_path / "old.zarr").rglob(".zattrs"):
        stated = json.loads(key.read_text())
        if "_ARRAY_DIMENSIONS" in stated:
            stated["_ARRAY_DIMENSIONS"] = [f"_anonymous{i}" for i, _ in enumerate(stated["_ARRAY_DIMENSIONS"])]
            key.write_text(json.dumps(stated))
    for key in (tmp_path / "old.zarr").rglob("zarr.json"):
        with edited_json(key) as stated:
            stated.pop("consolidated_metadata", None)
            if "dimension_names" in stated:
                stated["dimension_names"] = [f"_anonymous{i}" for i, _ in enumerate(stated["dimension_names"])]
    (tmp_path / "old.zarr/.zmetadata").unlink(missing_ok=True)
    convert(tmp_path / "old.zarr", tmp_path / "a.zarr", zarr_format=zarr_format)
    assert names(tmp_path / "a.zarr")["acquisition/raw/timestamps"] == ["num_times"]


def test_plain_hdf5_and_files_without_a_schema_have_no_names(folder, tmp_path, zarr_format):
    hdf5_file(tmp_path / "plain.h5", data=np.zeros((3, 4)))
    convert(tmp_path / "plain.h5", tmp_path / "plain.zarr", zarr_format=zarr_format)
    assert names(tmp_path / "plain.zarr") in ({"data": ["_anonymous3", "_anonymous4"]}, {"data": [None, None]})


def typed(name: str, *datasets: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"neurodata_type_def": name, "datasets": list(datasets), "doc": "x", **more}


def named(name: str, *dims: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "dims": list(dims), "doc": "x", **more}


def convert_with_schema(
    folder: Path, *groups: Any, schema: Any = ({"source": "types"},), **others: Any
) -> dict[str, Any]:
    """Convert a file that has cached ``groups`` as namespace ``own``; return the names of its axes."""
    namespaces = {"own": (schema, {"groups": groups}), **others}
    with h5py.File(folder / "a.h5", "w") as file:
        for name, (entries, document) in namespaces.items():
            cached = file.create_group(f"specifications/{name}/1.0")
            header = {"name": name, "version": "1.0", "doc": "x", "schema": entries}
            cached["namespace"] = json.dumps({"namespaces": [header]})
            cached["types"] = document if isinstance(document, str) else json.dumps(document)
        file.attrs[".specloc"] = file["specifications"].ref
        file["it/data"], file["it/table"], file["it/below/data"] = np.zeros(7), np.zeros((2, 3)), np.zeros(5)
        file["it"].attrs.update(namespace="own", neurodata_type="Own")
        file["it/table"].attrs.update(namespace="own", neurodata_type="Table")
    convert(folder / "a.h5", folder / "a.zarr", check=False)
    return names(folder / "a.zarr")


def test_the_schema_is_read_with_what_its_types_inherit_and_include(tmp_path):
    table = typed("Table", dims=[["row"], ["row", "column"]], shape=[[None], [None, None]])
    base = typed("Base", named("data", "time"), {"neurodata_type_inc": "Table", "quantity": "*", "doc": "x"})
    below = {"name": "below", "datasets": [{"name": "data", "neurodata_type_inc": "Length", "doc": "x"}], "doc": "x"}
    own = typed("Own", {"name": "data", "doc": "x"}, groups=[below], neurodata_type_inc="Base")
    schema = [{"namespace": "other", "neurodata_types": ["Base"]}, {"source": "types"}]
    datasets = [table, typed("Length", shape=[None])]
    other = ([{"source": "types"}], {"groups": [base], "datasets": datasets})
    found = convert_with_schema(tmp_path, own, schema=schema, other=other)
    assert found == {"it/data": ["time"], "it/table": ["row", "column"], "it/below/data": ["dim_0"]}


@pytest.mark.parametrize("groups", [
    pytest.param([5], id="a number"),
    pytest.param([typed("Own", "data")], id="text"),
    pytest.param([typed("Own", named("data", "time"), neurodata_type_inc=["Base"])], id="a list of parents"),
    pytest.param([typed("Own", named("data", "time"), named(["data"], "time"))], id="a list of names"),
    pytest.param([typed("Own", neurodata_type_inc="Base"), typed("Base", neurodata_type_inc="Own")], id="cycle"),
    pytest.param([typed("Own", named("data", "time", "space"))], id="another number of axes"),
    pytest.param([typed("Own", named("data", dims=3))], id="a number of axes"),
    pytest.param([typed("Own", named("data", shape=["x"]))], id="a length that is text"),
    pytest.param([typed("Own", links=[{"name": "data", "target_type": "Own", "doc": "x"},
                                      {"name": "below", "target_type": "Own", "doc": "x"}])], id="links"),
])  # fmt: skip
def test_a_damaged_schema_or_one_for_other_content_gives_no_names(tmp_path, groups):
    assert convert_with_schema(tmp_path, *groups)["it/data"] == ["_anonymous7"]


@pytest.mark.parametrize(("schema", "types"), [
    ([{"source": "types"}], '{"groups": ['),
    ([{"source": "types"}], "[" * 100_000),
    ([{"source": "missing"}], {}),
    ([{"source": ["types"]}], {}),
    ([{"namespace": "missing"}, {"source": "types"}], {"groups": [typed("Own", named("data", "time"))]}),
    ([{"namespace": "own"}], {}),
    ([{}], {}),
    (5, {}),
])  # fmt: skip
def test_damaged_namespaces_give_no_names(tmp_path, schema, types):
    found = convert_with_schema(tmp_path, own=(schema, types))
    assert found["it/data"] == ["_anonymous7"]
