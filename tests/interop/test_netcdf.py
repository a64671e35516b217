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
from hdmf_zarr_backend.errors import ChunkError, MetadataError
from hdmf_zarr_backend.formats.attributes import encode_attributes
from hdmf_zarr_backend.formats.dtypes import zarr_type
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
        assert root.version == "2.0.0"
    else:
        assert root.dimensions == {}
        assert root.version is None


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
    assert root.version == "2.0.0"
    found = variable(root, "v")
    assert found.dimensions == ("/x",)
    assert {name: value.dtype for name, value in found.attributes.items()} == {"b": np.dtype("f4")}
    assert found.read().tolist() == [0, 1, 2]


# ---- types that netCDF does not have -------------------------------------------------------------------------------

OPAQUE = np.array([b"ab", b"c", b""], "S2").view("V2")
COMPLEX = np.array([1 + 2j, 0, 3], "<c8")
PAIRS = np.array([(1, 2), (0, 0), (3, 0)], [("r", "f4"), ("i", "f4")])
DAYS = ["2026-01-02", "2026-01-03", "NaT"]
MOMENTS = ["2026-01-02T00:00:00", "2026-01-02T00:00:25", "NaT"]
ROWS = np.array([(True, 1j), (False, 2), (True, 0)], [("b", "?"), ("c", "<c8")])


def objects(*values: str) -> Any:
    return np.array(values, object)


@pytest.mark.parametrize(
    ("values", "kind", "expected", "units"),
    [
        (np.array([True, False, True]), "ubyte", np.array([1, 0, 1], "u1"), None),
        (COMPLEX, "_Complex", PAIRS, None),
        (OPAQUE, "opaque(2)", OPAQUE, None),
        (np.array([b"a", b"b", b"c"]), "char", np.array([b"a", b"b", b"c"]), None),
        (np.array([b"a\xc3\xa4", b"c", b""], "S3"), "string", objects("a\u00e4", "c", ""), None),
        (np.array(["a\u00e4", "c", ""], "<U3"), "string", objects("a\u00e4", "c", ""), None),
        (np.array(DAYS, "<M8[D]"), "string", objects(*DAYS), "D"),
        (np.array(MOMENTS, "<M8[25s]"), "string", objects(*MOMENTS), "25s"),
        (np.array([3, -1, "NaT"], "<m8[25s]"), "string", objects("3", "-1", "NaT"), "25s"),
        (ROWS, "compound", ROWS.view([("b", "u1"), ("c", [("r", "<f4"), ("i", "<f4")])]), None),
    ],
    ids=["bool", "complex", "opaque", "char", "string", "unicode", "date", "datetime", "timedelta", "rows"],
)
def test_types_that_netcdf_does_not_have(values, kind, expected, units):
    found = variable(open_netcdf(one_array(values)), "v")
    assert found.kind == kind
    assert found.dimensions == ("/_anonymous3",)
    made = found.read()
    assert made.dtype == expected.dtype
    assert made.tolist() == expected.tolist()
    assert found.attributes.get("units") == units


def one_array(values: Any, name: str = "v") -> dict[str, bytes]:
    documents = {".zgroup": {"zarr_format": 2}, f"{name}/.zarray": array(zarr_type(values.dtype))}
    return store(documents, {f"{name}/0": values.tobytes()})


def test_units_of_the_file_count():
    documents = {".zgroup": {"zarr_format": 2}, "v/.zarray": array("<m8[s]"), "v/.zattrs": {"units": "ticks"}}
    assert variable(open_netcdf(store(documents, {})), "v").attributes["units"] == "ticks"


def test_complex_numbers_are_of_one_type():
    root = open_netcdf({**one_array(COMPLEX), **one_array(COMPLEX.astype("<c16"), "w")})
    assert root.typedefs.keys() == {"_Complex"}
    made = root.typedefs["_Complex"]
    assert (made.path, made.kind) == ("/_Complex", "compound")
    assert made.dtype == np.dtype([("r", "f8"), ("i", "f8")])
    for name in "vw":
        found = variable(root, name)
        assert (found.typedef, found.user_type) == ("/_Complex", made)
        assert found.read().dtype == made.dtype
        assert found.read().tolist() == PAIRS.tolist()
    assert open_netcdf(one_array(OPAQUE)).typedefs == {}


def test_attributes_of_types_that_netcdf_does_not_have():
    values = {
        "flag": np.bool_(True),
        "flags": np.array([True, False]),
        "when": np.array(MOMENTS, "M8[25s]"),
        "span": np.timedelta64(3, "h"),
        "z": COMPLEX,
        "words": np.array([b"ab", b"c"]),
        "opaque": OPAQUE,
    }
    documents = {".zgroup": {"zarr_format": 2}, ".zattrs": {**encode_attributes(values, notes={}), "plain": True}}
    found = open_netcdf(store(documents, {})).attributes
    assert {name: found[name] for name in ("flag", "plain", "span", "span.units", "when.units")} == {
        "flag": 1, "plain": 1, "span": "3", "span.units": "h", "when.units": "25s",
    }  # fmt: skip
    assert [found[name].dtype for name in ("flag", "plain", "flags")] == [np.dtype("u1")] * 3
    assert found["flags"].tolist() == [1, 0]
    assert found["when"].tolist() == MOMENTS
    assert found["z"].tolist() == PAIRS.tolist()
    assert found["words"].tolist() == ["ab", "c"]
    assert found["opaque"].dtype == np.dtype("V2")


def test_text_that_is_not_utf8_is_named():
    found = variable(open_netcdf(one_array(np.array([b"ab", b"\xff\xfe", b""], "S2"))), "v")
    with pytest.raises(ChunkError, match=r"element 1 of the text is not UTF-8.*\(/v\)"):
        found.read()


def test_an_attribute_that_does_not_fit_its_type_is_named():
    attributes = {"a": "x", "_nczarr_attr": {"types": {"a": "<i2"}}}
    documents = {".zgroup": {"zarr_format": 2}, "g/.zgroup": {"zarr_format": 2}, "g/.zattrs": attributes}
    with pytest.raises(MetadataError, match=r"attribute 'a'.*\(/g\)"):
        open_netcdf(store(documents, {}))
