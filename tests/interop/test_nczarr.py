"""netcdf-c itself, by the wheel of netCDF4, opens files with the attributes of NCZarr; all else stays as it was."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.data_utils import DataChunkIterator
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, convert, dry_run
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.encoding import nczarr
from hdmf_zarr_backend.errors import ReadOnlyStoreError, UsageError
from hdmf_zarr_backend.interop import add_nczarr, open_netcdf
from hdmf_zarr_backend.options import WriteOptions
from tests import samples
from tests.documents import arrays, metadata
from tests.trees import dataset, group, read_builder, root, write_builder

pytest.importorskip("netCDF4")

NCZARR = WriteOptions(nczarr=True)

READ = """
import json, sys
import netCDF4
import numpy as np

def attributes(node):
    return {name: plain(node.getncattr(name)) for name in node.ncattrs()}

def plain(value):
    array = np.asarray(value)
    if not array.size:
        return []
    return [array.dtype.str, array.tolist()] if array.dtype.kind in "iuf" else value

reported = {"arrays": {}, "groups": {}}
def visit(group):
    path = group.path.rstrip("/")
    sizes = {name: [len(d), d.isunlimited()] for name, d in group.dimensions.items()}
    reported["groups"][path or "/"] = [attributes(group), sizes]
    for name, variable in group.variables.items():
        variable.set_auto_maskandscale(False)
        values = np.asarray(variable[...])
        reported["arrays"][f"{path}/{name}"] = {
            "dims": list(variable.dimensions), "dtype": values.dtype.str, "shape": list(values.shape),
            "values": values.reshape(-1).tolist() if values.size < 10000 else float(values.sum()),
            "attributes": attributes(variable)}
    for child in group.groups.values():
        visit(child)

with netCDF4.Dataset(f"file://{sys.argv[1]}#mode={sys.argv[2]}") as file:
    visit(file)
    reported["properties"] = file.getncattr("_NCProperties")
print(json.dumps(reported))
"""


def netcdf(path: Path, mode: str = "nczarr,file") -> dict[str, Any]:
    """Return what netcdf-c says of a file; in a process of its own, which it may end."""
    command = [sys.executable, "-c", READ, str(path), mode]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]
    reported: dict[str, Any] = json.loads(answer.stdout)
    return reported


def assert_equal_values(reported: dict[str, Any], path: Path) -> None:
    builder = read_builder(path)
    for name, array in reported["arrays"].items():
        expected = np.asarray(builder[name.strip("/")].data)
        result = np.array(array["values"], array["dtype"])
        np.testing.assert_array_equal(result, expected.reshape(-1), err_msg=name)
        assert result.dtype.newbyteorder("=") == expected.dtype.newbyteorder("="), name


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_zarr(tmp_path_factory.mktemp("nczarr") / "rich.nwb.zarr", write_options=NCZARR)


def numbers_of(path: Path) -> set[str]:
    kinds = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
    return {f"/{location}" for location, node in arrays(path).items() if str(node.stored.data_type)[1:] in kinds}


@pytest.mark.parametrize("mode", ["nczarr,file", "nczarr,file,consolidated"])
def test_netcdf_opens_a_whole_file_and_every_array_of_numbers(rich, mode):
    reported = netcdf(rich, mode)
    assert reported["arrays"].keys() == numbers_of(rich)
    assert len(reported["arrays"]) > 80
    assert len(reported["groups"]) > 40
    assert_equal_values(reported, rich)


def test_dimensions_attributes_and_types(tmp_path):
    data = ZarrDataIO(np.arange(12, dtype="i2").reshape(6, 2), maxshape=(None, 2), chunks=(4, 2))
    attributes = {
        "gain": np.float32(0.5), "counts": np.array([1, 2], "u1"), "unit": "V", "none": [], "mixed": [1, 2.5], "names":
        ["a", "long name"], "word": "\u00e4\u4e2d", "nan": float("nan"), "big": np.uint64(2**63 + 5),
    }  # fmt: skip
    datasets = [
        dataset("a", data, attributes=attributes, dimension_labels=("time", "channel")),
        dataset("b", np.arange(6.0), dimension_labels=("time",)),
        dataset("n", 5),
        dataset("empty", np.zeros((0, 3))),
        dataset("text", ["x", "y"]),
    ]
    write_builder(tmp_path / "a.zarr", root(group("g", *datasets, colnames=[])), write_options=NCZARR)
    reported = netcdf(tmp_path / "a.zarr")
    assert reported["arrays"].keys() == {"/g/a", "/g/b", "/g/n", "/g/empty"}
    a = reported["arrays"]["/g/a"]
    assert (a["dims"], a["shape"], a["dtype"]) == (["time", "channel"], [6, 2], "<i2")
    assert reported["arrays"]["/g/n"]["dims"] == []
    assert reported["groups"]["/g"][1] == {
        "time": [6, True], "channel": [2, False], "_anonymous0": [0, False], "_anonymous3": [3, False],
    }  # fmt: skip
    assert {name: a["attributes"][name] for name in attributes if name != "nan"} == {
        "gain": ["<f4", 0.5], "counts": ["|u1", [1, 2]], "unit": "V", "none": [], "mixed": ["<f8", [1.0, 2.5]],
        "names": ["a", "long name"], "word": "\u00e4\u4e2d", "big": ["<u8", 2**63 + 5],
    }  # fmt: skip
    assert_equal_values(reported, tmp_path / "a.zarr")
    result = read_builder(tmp_path / "a.zarr")["g/a"].attributes
    assert list(result["names"]) == ["a", "long name"]
    assert list(result["none"]) == []


def test_who_wrote_it_is_in_the_root(rich):
    document = json.loads((rich / ".zattrs").read_text())
    assert document["_NCProperties"] == "version=2,hdmf_zarr_backend=1,nczarr=2.0.0"
    assert document["_nczarr_superblock"] == {"version": "2.0.0"}
    assert netcdf(rich)["properties"] == document["_NCProperties"]
    below = [path.read_text() for path in rich.rglob(".zattrs") if path.parent != rich]
    assert not any(name in text for text in below for name in ("_NCProperties", "_nczarr_superblock"))


def change(document: Path, **values: Any) -> None:
    """Change a document of a node, as a program without a consolidated document does."""
    document.write_text(json.dumps({**json.loads(document.read_text()), **values}))


def test_a_name_has_one_length_in_a_group(tmp_path):
    """hdmf-zarr writes the names of the schema as they are, whatever the lengths."""
    path = tmp_path / "a.zarr"
    data = {
        "a": np.arange(3), "b": np.arange(5.0), "c": np.arange(15).reshape(5, 3),
        "d": ZarrDataIO(np.arange(4), maxshape=(None,), chunks=(2,)), "e": np.arange(6).reshape(2, 3),
        "f": np.arange(4).reshape(2, 2),
    }  # fmt: skip
    labels = {"a": ["x"], "b": ["x"], "c": ["x", "x"], "d": ["x"], "e": ["x", "a/b"], "f": ["a_b", "(y)\t"]}
    write_builder(path, root(*(dataset(name, values) for name, values in data.items())))
    for name, names in labels.items():
        change(path / name / ".zattrs", _ARRAY_DIMENSIONS=names)
    (path / ".zmetadata").unlink()
    assert add_nczarr(path) == [f"/{name}" for name in labels]
    reported = netcdf(path)
    assert {name: array["dims"] for name, array in reported["arrays"].items()} == {
        "/a": ["x"], "/b": ["x_5"], "/c": ["x_5", "x"], "/d": ["x_4"], "/e": ["x_2", "a_b"],
        "/f": ["a_b_2", "_(y)_"],
    }  # fmt: skip
    assert reported["groups"]["/"][1] == {
        "x": [3, False], "x_5": [5, False], "x_4": [4, True], "x_2": [2, False], "a_b": [3, False],
        "a_b_2": [2, False], "_(y)_": [2, False],
    }  # fmt: skip
    assert_equal_values(reported, path)
    opened = open_netcdf(path)["/"]
    assert {name: list(opened[name].dims) for name in data} == {
        name[1:]: array["dims"] for name, array in reported["arrays"].items()
    }
    for name, names in labels.items():  # to others they are what they were
        assert json.loads((path / name / ".zattrs").read_text())["_ARRAY_DIMENSIONS"] == names


@pytest.mark.parametrize(("document", "key", "value"), [
    (".zattrs", "odd", [1, "x"]), (".zattrs", "_ARRAY_DIMENSIONS", [None]), (".zarray", "filters", []),
], ids=["list", "nameless", "filters"])  # fmt: skip
def test_what_ends_the_process_of_netcdf_is_not_listed(tmp_path, document, key, value):
    path = tmp_path / "a.zarr"
    write_builder(path, root(*(dataset(name, np.arange(3), attributes={"odd": 1}) for name in "ab")))
    change(path / "a" / document, **{key: value})
    (path / ".zmetadata").unlink()
    assert add_nczarr(path) == ["/b"]
    assert netcdf(path)["arrays"].keys() == {"/b"}


@pytest.mark.parametrize("name", ["(a)", "-70 mV", ".a", " a", "a ", "a\tb", "a\x7f"])
def test_names_that_netcdf_does_not_take(tmp_path, name):
    """It refuses the whole file for one of them."""
    path = tmp_path / "a.zarr"
    labelled = dataset("labelled", np.arange(6).reshape(2, 3), dimension_labels=(name, "a: b, c|d\u00e4"))
    hidden = group(name, dataset("a", np.arange(3)))
    kept = group("kept \u4e2d", *(dataset(n, np.arange(3)) for n in (name, "1 a.b:c|(d)")))
    write_builder(path, root(hidden, kept, labelled), write_options=NCZARR)
    reported = netcdf(path)
    assert reported["arrays"].keys() == {"/labelled", "/kept \u4e2d/1 a.b:c|(d)"}
    assert reported["arrays"]["/labelled"]["shape"] == [2, 3]
    assert reported["arrays"]["/labelled"]["dims"][1] == "a: b, c|d\u00e4"
    assert_equal_values(reported, path)


def test_what_is_added_is_what_a_write_adds(rich, tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.rich_nwbfile())
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    listed = add_nczarr(path)
    assert set(listed) == numbers_of(path) == netcdf(path)["arrays"].keys()
    changed = {file.name for file, data in before.items() if file.read_bytes() != data}
    assert changed == {".zattrs", ".zmetadata"}
    assert added(path) == added(rich)
    document = (path / ".zmetadata").read_bytes()
    assert add_nczarr(path) == listed
    assert (path / ".zmetadata").read_bytes() == document


def added(path: Path) -> dict[str, Any]:
    documents = {key: json.loads(text) for key, text in metadata(path).items()}
    return {(key, name): documents[key][name] for key in documents for name in nczarr.ADDED if name in documents[key]}


def test_an_iterator_has_its_length_and_an_append_keeps_it_true(tmp_path):
    nwbfile = samples.plain_nwbfile()
    data = DataChunkIterator((np.arange(3) for _ in range(7)), dtype=np.dtype("i8"))
    nwbfile.add_acquisition(TimeSeries(name="grows", data=data, unit="V", rate=1.0))
    path = samples.write_zarr(tmp_path / "a.zarr", nwbfile, write_options=NCZARR)
    reported = netcdf(path)
    assert reported["arrays"]["/acquisition/grows/data"]["shape"] == [7, 3]
    assert reported["arrays"].keys() == numbers_of(path)
    with samples.edit_zarr(path) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=np.arange(5), unit="V", rate=1.0))
        inside = TimeSeries(name="inside", data=np.arange(4.0), unit="V", rate=1.0)
        nwbfile.create_processing_module("added", "a module").add(inside)
    reported = netcdf(path)
    assert reported["arrays"].keys() == numbers_of(path)
    assert {"/acquisition/new/data", "/processing/added/inside/data"} <= reported["arrays"].keys()
    with NWBZarrIO(path, "r+") as io:  # without a write: the change of an array is written on closing
        io.read().acquisition["new"].data.append(np.arange(5, 9))
    reported = netcdf(path)
    assert reported["arrays"]["/acquisition/new/data"]["values"] == list(range(9))
    assert_equal_values(reported, path)


def test_format_3_has_no_such_attributes_and_a_zip_file_is_written_so_and_not_made_so(tmp_path):
    with pytest.raises(UsageError, match="format 3"):
        write_builder(tmp_path / "a.zarr", root(), zarr_format=3, write_options=NCZARR)
    with pytest.raises(UsageError, match="format 3"):
        add_nczarr(write_builder(tmp_path / "a.zarr", root(), zarr_format=3))
    path = write_builder(tmp_path / "a.zarr.zip", root(dataset("a", np.arange(3))), write_options=NCZARR)
    attributes = json.loads(metadata(path)[".zattrs"])
    assert attributes["_nczarr_group"] == {"dimensions": {"_anonymous3": 3}, "arrays": ["a"], "groups": []}
    with pytest.raises(ReadOnlyStoreError, match="cannot be changed"):
        add_nczarr(write_builder(tmp_path / "b.zarr.zip", root()))


def test_a_conversion_gives_the_attributes_that_are_added_later(tmp_path):
    samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    convert(tmp_path / "a.nwb", tmp_path / "a.nwb.zarr", write_options=NCZARR)
    convert(tmp_path / "a.nwb", tmp_path / "b.nwb.zarr")
    listed = add_nczarr(tmp_path / "b.nwb.zarr")
    assert metadata(tmp_path / "a.nwb.zarr") == metadata(tmp_path / "b.nwb.zarr")
    reported = netcdf(tmp_path / "a.nwb.zarr")
    assert sorted(reported["arrays"]) == listed
    assert_equal_values(reported, tmp_path / "a.nwb.zarr")
    assert compare(tmp_path / "a.nwb", tmp_path / "a.nwb.zarr") == []
    for source in (tmp_path / "a.nwb", samples.plain_nwbfile()):
        planned = dry_run(source, write_options=NCZARR, estimate=False)
        assert "_nczarr_array" in metadata(planned.hierarchy)["acquisition/trace/data/.zattrs"]
    planned = dry_run(tmp_path / "a.nwb", tmp_path / "a.nwb.zarr", write_options=NCZARR, estimate=False)
    assert metadata(planned.hierarchy) == metadata(tmp_path / "a.nwb.zarr")


def test_a_file_of_format_3_becomes_one_that_netcdf_opens(tmp_path, capsys):
    samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile(), zarr_format=3)
    arguments = ["--zarr-format", "2", "--nczarr", str(tmp_path / "a.nwb.zarr"), str(tmp_path / "b.nwb.zarr")]
    assert main(["convert", *arguments]) == 0
    assert "/acquisition/trace/data" in netcdf(tmp_path / "b.nwb.zarr")["arrays"]
    assert capsys.readouterr().err == ""
