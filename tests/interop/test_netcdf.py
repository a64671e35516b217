"""Files of netcdf-c: dimensions, types and values, in each of the forms in which it has written them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.interop.nczarr import add_nczarr
from hdmf_zarr_backend.interop.netcdf import NetcdfDimension, NetcdfGroup, NetcdfVariable, open_netcdf
from tests import samples

NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")

WRITE = """
import sys
import netCDF4
import numpy as np

path, mode, *numbers = sys.argv[1:]
with netCDF4.Dataset(f"file://{path}#mode={mode}", "w") as d:
    d.createDimension("t", None)
    d.createDimension("x", 5)
    d.createDimension("n", 4)
    d.title = "hello"
    g = d.createGroup("g")
    for code in numbers:
        g.createVariable(code, code, ("x",))[:] = np.arange(5).astype(code)
    shuffled = d.createVariable("shuffled", "i4", ("t", "x"), zlib=True, shuffle=True)
    shuffled[:] = np.arange(15).reshape(3, 5) * 1000
    shuffled.setncatts({"units": "m", "f": np.float32(2.5), "l": np.array([1, 2], "u1"), "s": ["a", "bb"],
                        "d": np.array([1.0, np.nan])})
    d.createVariable("char", "S1", ("x", "n"))[:] = np.array([list("abcd")] * 5, "S1")
    d.createVariable("text", str, ("x",))[:] = np.array(["a\\u00e4", "b", "", "dd", "e" * 20], object)
    d.createVariable("scalar", "f8", ())[...] = 3.5
"""


@pytest.fixture(scope="module", params=["nczarr,file", "zarr,file"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    pytest.importorskip("netCDF4")
    path = tmp_path_factory.mktemp("netcdf") / "a.zarr"
    command = [sys.executable, "-c", WRITE, str(path), request.param, *NUMBERS]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return request.param, path


def variable(root: NetcdfGroup, path: str) -> NetcdfVariable:
    found = root[path]
    assert isinstance(found, NetcdfVariable)
    return found


def test_what_netcdf_writes_is_read(written):
    mode, path = written
    root = open_netcdf(path)
    assert root.attributes["title"] == "hello"
    for code in NUMBERS:
        found = variable(root, f"g/{code}")
        assert found.read().dtype == np.dtype(code)
        np.testing.assert_array_equal(found.read(), np.arange(5))
        assert found.dimension_names == ("x",)
    shuffled = variable(root, "shuffled")
    np.testing.assert_array_equal(shuffled.read(), np.arange(15).reshape(3, 5) * 1000)
    np.testing.assert_array_equal(variable(root, "char").read(), np.array([list("abcd")] * 5, "S1"))
    assert variable(root, "text").read().tolist() == ["a\u00e4", "b", "", "dd", "e" * 20]
    assert variable(root, "scalar").read() == 3.5
    assert variable(root, "scalar").dimensions == ()
    assert [variable(root, name).kind for name in ("char", "text", "shuffled", "g/u1", "g/i8", "g/f4")] == [
        "char", "string", "int", "ubyte", "int64", "float",
    ]  # fmt: skip
    attributes = shuffled.attributes
    assert (attributes["units"], list(attributes["s"])) == ("m", ["a", "bb"])
    if mode == "nczarr,file":
        np.testing.assert_array_equal(attributes["d"], [1.0, np.nan])  # in the other mode, NaN is text without a type
        assert attributes["f"].dtype == np.dtype("f4")
        assert attributes["l"].dtype == np.dtype("u1")
        assert root.dimensions == {
            "t": NetcdfDimension("t", 3, unlimited=True), "x": NetcdfDimension("x", 5), "n": NetcdfDimension("n", 4),
        }  # fmt: skip
        assert variable(root, "g/i2").dimensions == ("/x",)
    else:
        assert root.dimensions == {}


def test_a_time_series_takes_its_data_from_there(written, tmp_path):
    _, path = written
    data = variable(open_netcdf(path), "shuffled").data
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_acquisition(TimeSeries(name="copied", data=data, unit="m", rate=1.0))
    with NWBZarrIO(tmp_path / "copy.zarr", "w") as io:
        io.write(nwbfile, link_data=False)
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_acquisition(TimeSeries(name="linked", data=data, unit="m", rate=1.0))
    with NWBZarrIO(tmp_path / "link.zarr", "w") as io:
        io.write(nwbfile)
    assert not (tmp_path / "link.zarr/acquisition/linked/data").exists()
    for name, place in (("copied", "copy.zarr"), ("linked", "link.zarr")):
        with NWBZarrIO(tmp_path / place, "r") as io:
            found = io.read().acquisition[name].data[:]
            np.testing.assert_array_equal(found, np.arange(15).reshape(3, 5) * 1000)


def test_our_own_files(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.rich_nwbfile())
    listed = add_nczarr(path)
    root = open_netcdf(path)
    for place in listed:
        found = variable(root, place)
        sizes = {}
        for name in found.dimensions:
            holder, _, last = name.rpartition("/")
            group = root[holder] if holder else root
            assert isinstance(group, NetcdfGroup)
            sizes[name] = group.dimensions[last].size
        assert tuple(sizes.values()) == (found.data.shape if found.dimensions else ())


# ---- older forms ---------------------------------------------------------------------------------------------------


def array(dtype: Any, **more: Any) -> dict[str, Any]:
    return {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": dtype, "compressor": None, "fill_value": None,
            "order": "C", "filters": None, **more}  # fmt: skip


def store(documents: dict[str, Any], chunks: dict[str, bytes]) -> dict[str, bytes]:
    return {**{key: json.dumps(value).encode() for key, value in documents.items()}, **chunks}


@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_the_keys_of_4_8_and_4_9(case):
    keys = {name: case(f"_nczarr_{name}") for name in ("group", "array", "attr", "superblock")}
    group = {"dims": {"x": 3}, "vars": ["v"], "groups": []}
    documents = {
        ".zgroup": {"zarr_format": 2, keys["group"]: group, keys["superblock"]: {"version": "2.0.0"}},
        ".zattrs": {"a": 1, keys["attr"]: {"types": {"a": "<i2"}}},
        "v/.zarray": array("<i2", **{keys["array"]: {"dimrefs": ["/x"], "storage": "chunked"}}),
        "v/.zattrs": {"b": 1.5, keys["attr"]: {"types": {"b": "<f4"}}},
    }
    root = open_netcdf(store(documents, {"v/0": np.arange(3, dtype="<i2").tobytes()}))
    assert root.dimensions == {"x": NetcdfDimension("x", 3)}
    assert {name: value.dtype for name, value in root.attributes.items()} == {"a": np.dtype("i2")}
    found = variable(root, "v")
    assert found.dimensions == ("/x",)
    assert {name: value.dtype for name, value in found.attributes.items()} == {"b": np.dtype("f4")}
    assert found.read().tolist() == [0, 1, 2]


def test_the_draft_of_2018():
    documents = {
        ".zgroup": {"zarr_format": 2}, ".zattrs": {"a": 7}, ".zattr_type": {"a": "<u16"}, ".zdims": {"x": 3},
        ".zdataset": {"nczarr_version": "1.0.0"}, ".ztypedefs": {"t": []},
        "v/.zarray": array("<i16", dimensions=["/x"], typedef="/t"), "v/.zattrs": {"b": [1, 2]},
        "v/.zattr_type": {"b": "<i8"},
    }  # fmt: skip
    root = open_netcdf(store(documents, {"v/0": np.arange(3, dtype="<i2").tobytes()}))
    assert root.dimensions == {"x": NetcdfDimension("x", 3)}
    assert root.attributes["a"].dtype == np.dtype("u2")
    found = variable(root, "v")
    assert (found.dimensions, found.typedef, found.kind) == (("/x",), "/t", "short")
    assert found.attributes["b"].dtype == np.dtype("i1")
    assert found.read().tolist() == [0, 1, 2]


# ---- types that netCDF does not have -------------------------------------------------------------------------------

OPAQUE = np.array([b"ab", b"c", b""], "S2").view("V2")


@pytest.mark.parametrize(
    ("values", "dtype", "kind", "expected"),
    [
        (np.array([True, False, True]), "|b1", "ubyte", np.array([1, 0, 1], "u1")),
        (np.array([1 + 2j, 0, 3], "<c8"), "<c8", "_Complex",
         np.array([(1, 2), (0, 0), (3, 0)], [("r", "f4"), ("i", "f4")])),
        (OPAQUE, "|V2", "opaque(2)", OPAQUE),
        (np.array([b"a", b"b", b"c"]), "|S1", "char", np.array([b"a", b"b", b"c"])),
        (np.array([b"ab", b"c", b""], "S2"), "|S2", "string", np.array(["ab", "c", ""], object)),
        (np.array(["2026-01-02", "2026-01-03", "2026-01-04"], "<M8[D]"), "<M8[D]", "string",
         np.array(["2026-01-02", "2026-01-03", "2026-01-04"], object)),
    ],
    ids=["bool", "complex", "opaque", "char", "string", "date"],
)  # fmt: skip
def test_types_that_netcdf_does_not_have(values, dtype, kind, expected):
    documents = {".zgroup": {"zarr_format": 2}, "v/.zarray": array(dtype)}
    found = variable(open_netcdf(store(documents, {"v/0": values.tobytes()})), "v")
    assert found.kind == kind
    assert found.dimensions == ("/_anonymous3",)
    made = found.read()
    assert made.dtype == expected.dtype
    assert made.tolist() == expected.tolist()
    assert found.attributes.get("units") == ("D" if dtype.startswith("<M") else None)
