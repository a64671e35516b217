"""Files of netcdf-c, in each form in which it has written them, and of its draft of 2018, as datasets of xarray."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from hdmf_zarr_backend.encoding.dtypes import zarr_type
from hdmf_zarr_backend.errors import ChunkError, MetadataError, NotZarrError
from hdmf_zarr_backend.interop import open_netcdf

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
    d.createVariable("x", "f8", ("x",))[:] = np.arange(5.0)
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


def test_what_netcdf_writes_is_read(written):
    mode, path = written
    groups = open_netcdf(path)
    root = groups["/"]
    assert root.attrs["title"] == "hello"
    for code in NUMBERS:
        result = groups["/g"][code]
        assert result.dtype == np.dtype(code)
        np.testing.assert_array_equal(result.values, np.arange(5))
        assert result.dims == ("x",)
    np.testing.assert_array_equal(root["shuffled"].values, np.arange(15).reshape(3, 5) * 1000)
    np.testing.assert_array_equal(root["char"].values, np.array([list("abcd")] * 5, "S1"))
    np.testing.assert_array_equal(root.coords["x"].values, np.arange(5.0))
    assert root["text"].values.tolist() == ["a\u00e4", "b", "", "dd", "e" * 20]
    assert (root["scalar"].dims, root["scalar"].values) == ((), 3.5)
    attributes = root["shuffled"].attrs
    assert (attributes["units"], list(attributes["s"])) == ("m", ["a", "bb"])
    if mode == "nczarr,file":
        np.testing.assert_array_equal(attributes["d"], [1.0, np.nan])  # in the other mode, NaN is text without a type
        assert (attributes["f"].dtype, attributes["l"].dtype) == (np.dtype("f4"), np.dtype("u1"))
        assert root.encoding["dimensions"] == {"t": 3, "x": 5, "n": 4}
        assert (root.encoding["unlimited_dims"], root.encoding["nczarr_version"]) == ({"t"}, "2.0.0")
    else:
        assert (root.encoding["dimensions"], root.encoding["nczarr_version"]) == ({}, None)
    assert xarray.DataTree.from_dict(groups)["g/i2"].sum().values == 10


def test_a_dimension_has_one_length_in_a_dataset():
    """A group may name a dimension as one above it, and a variable may have one dimension twice."""
    documents = {".zgroup": {"zarr_format": 2}, "g/.zgroup": {"zarr_format": 2}}
    for name, paths, shape in (("a", ["/x", "/g/x"], [2, 3]), ("b", ["/g/x", "/g/x"], [3, 3])):
        documents |= {
            f"g/{name}/.zarray": array("<i2", shape=shape, chunks=shape),
            f"g/{name}/.zattrs": {"_nczarr_array": {"dimension_references": paths}},
        }
    result = open_netcdf(store(documents, {}))["/g"]
    assert dict(result.sizes) == {"x": 2, "/g/x": 3, "/g/x_3": 3}
    assert (result["a"].dims, result["b"].dims) == (("x", "/g/x"), ("/g/x", "/g/x_3"))


def test_dimensions_that_another_program_wrote_are_no_reason_to_stop():
    documents = {
        ".zgroup": {"zarr_format": 2}, ".zattrs": {"_nczarr_group": {"dimensions": ["x"]}},
        "a/.zarray": array("<i2"), "a/.zattrs": {"_nczarr_array": {"scalar": 1}},
    }  # fmt: skip
    result = open_netcdf(store(documents, {}))["/"]
    assert (result["a"].shape, result.encoding["dimensions"]) == ((3,), {})


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
    root = open_netcdf(store(documents, {"v/0": np.arange(3, dtype="<i2").tobytes()}))["/"]
    assert (root.encoding["dimensions"], root.encoding["nczarr_version"]) == ({"x": 3}, "2.0.0")
    assert {name: value.dtype for name, value in root.attrs.items()} == {"a": np.dtype("i2")}
    assert root["v"].dims == ("x",)
    assert {name: value.dtype for name, value in root["v"].attrs.items()} == {"b": np.dtype("f4")}
    assert root["v"].values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("values", "expected"), [
    (np.array([True, False, True]), None), (np.array([1 + 2j, 0, 3], "<c8"), None),
    (np.array([b"ab", b"c", b""], "S2").view("V2"), None), (np.array([b"a", b"b", b"c"]), None),
    (np.array([b"a\xc3\xa4", b"c", b""], "S3"), ["a\u00e4", "c", ""]), (np.array(["a\u00e4", "c", ""], "<U3"), None),
    (np.array(["2026-01-02", "NaT", "2026-01-03"], "<M8[25s]"), None), (np.array([3, -1, "NaT"], "<m8[25s]"), None),
    (np.array([(True, 1j), (False, 2), (True, 0)], [("b", "?"), ("c", "<c8")]), None),
], ids=["bool", "complex", "opaque", "char", "string", "unicode", "date", "duration", "rows"])  # fmt: skip
def test_types_that_netcdf_does_not_have(values, expected):
    documents = {".zgroup": {"zarr_format": 2}, "v/.zarray": array(zarr_type(values.dtype))}
    result = open_netcdf(store(documents, {"v/0": values.tobytes()}))["/"]["v"]
    assert result.dims == ("_anonymous3",)
    assert result.dtype == (values.dtype if expected is None else np.dtype(object))
    assert result.values.tolist() == (values.tolist() if expected is None else expected)


def test_what_is_damaged_or_no_file_is_named():
    documents = {".zgroup": {"zarr_format": 2}, "v/.zarray": array("|S2")}
    result = open_netcdf(store(documents, {"v/0": b"ab\xff\xffcc"}))["/"]["v"]
    with pytest.raises(ChunkError, match=r"the text is not UTF-8.*\(/v\)"):
        _ = result.values
    attributes = {"a": "x", "_nczarr_attr": {"types": {"a": "<i2"}}}
    documents = {".zgroup": {"zarr_format": 2}, "g/.zgroup": {"zarr_format": 2}, "g/.zattrs": attributes}
    with pytest.raises(MetadataError, match=r"attribute 'a'.*\(/g\)"):
        open_netcdf(store(documents, {}))
    with pytest.raises(NotZarrError, match="an array, not a group"):
        open_netcdf(store({".zdataset": {}, ".zarray": array("<i16")}, {}))


def draft(documents: dict[str, Any], **chunks: Any) -> dict[str, Any]:
    root = {".zdataset": {"nczarr_version": "1.0.0"}, ".zgroup": {"zarr_format": 2}}
    return open_netcdf(store({**root, **documents}, {f"{name}/0": data.tobytes() for name, data in chunks.items()}))


def test_dimensions_of_the_draft():
    groups = draft({
        ".zdims": {"x": 3},
        "g/.zgroup": {},  # the format is the one of the root
        "g/.zdims": {"y": 1},
        "g/v/.zarray": array("<i16", dimensions=["/g/y", "/x"], shape=[1, 3], chunks=[1, 3]),
        "w/.zarray": array("<i16"),
    })  # fmt: skip
    assert groups["/"].encoding["nczarr_version"] == "1.0.0"
    assert [groups[path].encoding["dimensions"] for path in ("/", "/g")] == [{"x": 3}, {"y": 1}]
    assert (groups["/g"]["v"].dims, groups["/"]["w"].dims) == (("y", "x"), ("_anonymous3",))


def test_attributes_of_the_draft():
    values = {"n": 3, "char": "text", "real": "NaN", "flag": True, "of_a_type": [1, 2]}
    types = {"n": "<u64", "char": "<u8", "real": "<f8", "of_a_type": "/t"}
    groups = draft({
        ".zgroup": {"zarr_format": 2, ".zattrs": {"a": 7, "both": 1}}, ".zattrs": {"both": 2},
        ".zattr_type": {"a": "<u16"}, "g/.zgroup": {".zattrs": {"b": [1, 2]}}, "g/.zattr_type": {"b": "<i8"},
        "v/.zarray": array("<i16"), "v/.zattrs": values, "v/.zattr_type": types,
    })  # fmt: skip
    assert groups["/"].attrs == {"a": 7, "both": 2}
    assert groups["/"].attrs["a"].dtype == np.dtype("u2")
    assert (groups["/g"].attrs["b"].dtype, groups["/g"].attrs["b"].tolist()) == (np.dtype("i1"), [1, 2])
    attributes = groups["/"]["v"].attrs
    assert [np.asarray(attributes[name]).dtype for name in ("n", "real", "flag")] == [
        np.dtype(c) for c in ("u8", "f8", "?")
    ]
    assert np.isnan(attributes["real"])
    assert (attributes["char"], attributes["of_a_type"].tolist()) == ("text", [1, 2])


@pytest.mark.parametrize(("stated", "dtype"), [
    ("<i8", "i1"), ("<u8", "u1"), ("<i16", "<i2"), ("<u16", "<u2"), (">i32", ">i4"), ("<u32", "<u4"),
    ("<i64", "<i8"), ("<u64", "<u8"), ("<f4", "<f4"), ("<f8", "<f8"), ("<f32", "<f4"), ("<f64", "<f8"),
])  # fmt: skip
def test_types_of_the_draft_count_bits(stated, dtype):
    result = draft({"v/.zarray": array(stated)}, v=np.arange(3).astype(dtype))["/"]["v"]
    assert result.dtype == np.dtype(dtype)
    assert result.values.tolist() == [0, 1, 2]


def test_types_that_groups_of_the_draft_define():
    fields = [["id", "<i16"], ["flag", "<u8", [2]], ["name", "|S12"]]
    dtype = np.dtype([("id", "<i2"), ("flag", "u1", (2,)), ("name", "S12")])
    rows = np.array([(1, [2, 3], b"a"), (4, [5, 6], b"b"), (7, [8, 9], b"")], dtype)
    documents = {
        ".ztypedefs": {"o": "opaque(10)", "e": {"base": "<u8", "names": {"red": 1, "blue": 2}}},
        "g/.zgroup": {".zattrs": {"t.name": 12}},
        "g/.ztypedefs": {"t": fields},
        "v/.zarray": array(fields, typedef="/g/t"),
        "w/.zarray": array("<u8", typedef="/e"),
    }
    groups = draft(documents, v=rows, w=np.array([1, 2, 1], "u1"))
    root = groups["/"]
    assert root.encoding["typedefs"] == {"o": "|V10", "e": {"base": "|u1", "names": {"red": 1, "blue": 2}}}
    assert groups["/g"].encoding["typedefs"] == {"t": [["id", "<i2"], ["flag", "|u1", [2]], ["name", "|S12"]]}
    assert (root["v"].encoding["typedef"], root["w"].encoding["typedef"]) == ("/g/t", "/e")
    np.testing.assert_array_equal(root["v"].values, rows)


@pytest.mark.parametrize(("documents", "message"), [
    ({"g/.zgroup": {}, "g/.zdims": [3]}, r"\.zdims is not a JSON object.*\(/g\)"),
    ({".zgroup": {"zarr_format": 2, ".zattrs": 3}}, r"\.zattrs is not a JSON object.*\(/\)"),
    ({".zgroup": {"zarr_format": 3}}, "not a document of Zarr format 2"),
    ({"v/.zarray": {"shape": [3]}}, r"lacks chunks.*\(/v\)"),
    ({"v/.zarray": array("<i128")}, r"data type '<i128' is unknown.*\(/v\)"),
])  # fmt: skip
def test_damage_of_the_draft_is_named(documents, message):
    with pytest.raises(MetadataError, match=message):
        draft(documents)
