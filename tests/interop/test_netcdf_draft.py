"""What the draft of 2018 says of a file is read for its meaning, each of its objects and keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO
from hdmf_zarr_backend.errors import MetadataError, NotZarrError
from hdmf_zarr_backend.interop.netcdf import NetcdfDimension, NetcdfGroup, NetcdfType, open_netcdf
from tests import samples
from tests.interop.test_netcdf import array, store, variable

ROOT: dict[str, Any] = {".zdataset": {"nczarr_version": "1.0.0"}, ".zgroup": {"zarr_format": 2}}


def opened(documents: dict[str, Any], **chunks: Any) -> NetcdfGroup:
    """Open a file of the draft; ``chunks`` are the values of arrays of one chunk."""
    return open_netcdf(store({**ROOT, **documents}, {f"{name}/0": data.tobytes() for name, data in chunks.items()}))


def group_in(root: NetcdfGroup, path: str) -> NetcdfGroup:
    found = root[path]
    assert isinstance(found, NetcdfGroup)
    return found


def test_the_version():
    assert opened({}).version == "1.0.0"
    assert opened({".zdataset": {}}).version is None


def test_dimensions_of_groups_and_variables():
    documents = {
        ".zdims": {"x": 3},
        "g/.zgroup": {},
        "g/.zdims": {"y": 1},
        "g/v/.zarray": {**array("<i16", dimensions=["/g/y", "/x"]), "shape": [1, 3], "chunks": [1, 3]},
        "w/.zarray": array("<i16"),
    }
    root = opened(documents)
    assert root.dimensions == {"x": NetcdfDimension("x", 3)}
    assert group_in(root, "g").dimensions == {"y": NetcdfDimension("y", 1)}
    assert variable(root, "g/v").dimensions == ("/g/y", "/x")
    assert variable(root, "w").dimensions == ("/_anonymous3",)


def test_attributes_of_groups_are_inside_zgroup():
    documents = {
        ".zgroup": {"zarr_format": 2, ".zattrs": {"a": 7, "both": 1}},
        ".zattrs": {"both": 2},
        ".zattr_type": {"a": "<u16"},
        "g/.zgroup": {".zattrs": {"b": [1, 2]}},  # the format is the one of the root
        "g/.zattr_type": {"b": "<i8"},
    }
    root = opened(documents)
    assert root.attributes == {"a": 7, "both": 2}
    assert root.attributes["a"].dtype == np.dtype("u2")
    found = group_in(root, "g").attributes["b"]
    assert (found.dtype, found.tolist()) == (np.dtype("i1"), [1, 2])


def test_types_of_attributes():
    attributes = {"n": 3, "word": 3, "char": "text", "real": "NaN", "flag": True, "of_a_type": [1, 2]}
    types = {"n": "<u64", "word": "ushort", "char": "<u8", "real": "<f8", "of_a_type": "/t"}
    documents = {"v/.zarray": array("<i16"), "v/.zattrs": attributes, "v/.zattr_type": types}
    found = variable(opened(documents), "v").attributes
    assert [found[name].dtype for name in ("n", "word", "real", "flag")] == [
        np.dtype(code) for code in ("u8", "u2", "f8", "u1")
    ]
    assert np.isnan(found["real"])
    assert (found["char"], found["of_a_type"].tolist()) == ("text", [1, 2])


@pytest.mark.parametrize(
    ("stated", "dtype", "kind"),
    [
        ("<i8", "i1", "byte"),
        ("<u8", "u1", "ubyte"),
        ("<i16", "<i2", "short"),
        ("<u16", "<u2", "ushort"),
        (">i32", ">i4", "int"),
        ("<u32", "<u4", "uint"),
        ("<i64", "<i8", "int64"),
        ("<u64", "<u8", "uint64"),
        ("<f4", "<f4", "float"),
        ("<f8", "<f8", "double"),  # there is no number of eight bits
        ("<f32", "<f4", "float"),
        ("<f64", "<f8", "double"),
    ],
)
def test_types_count_bits(stated, dtype, kind):
    values = np.arange(3).astype(dtype)
    found = variable(opened({"v/.zarray": array(stated)}, v=values), "v")
    assert found.kind == kind
    assert found.read().dtype == np.dtype(dtype)
    assert found.read().tolist() == [0, 1, 2]


def test_types_that_groups_define():
    fields = [["id", "<i16"], ["flag", "<u8", [2]], ["name", "|S12"]]
    documents = {
        ".ztypedefs": {"o": "opaque(10)", "v": "|V4", "e": {"base": "<u8", "names": {"red": 1, "blue": 2}}},
        "g/.zgroup": {".zattrs": {"t.name": 12}},
        "g/.ztypedefs": {"t": fields, "odd": {"as": ["we", "like"]}},
        "v/.zarray": array(fields, typedef="/g/t"),
        "w/.zarray": array("<u8", typedef="/e"),
        "x/.zarray": array("<u8", typedef="/nowhere"),
    }
    dtype = np.dtype([("id", "<i2"), ("flag", "u1", (2,)), ("name", "S12")])
    rows = np.array([(1, [2, 3], b"a"), (4, [5, 6], b"b"), (7, [8, 9], b"")], dtype)
    root = opened(documents, v=rows, w=np.array([1, 2, 1], "u1"))
    assert root.typedefs == {
        "o": NetcdfType("/o", "opaque(10)", np.dtype("V10"), definition="|V10"),
        "v": NetcdfType("/v", "opaque(4)", np.dtype("V4"), definition="|V4"),
        "e": NetcdfType(
            "/e", "enum", np.dtype("u1"), {"red": 1, "blue": 2}, {}, {"base": "|u1", "names": {"red": 1, "blue": 2}}
        ),
    }
    types = group_in(root, "g").typedefs
    assert (types["t"].path, types["t"].kind, types["t"].dtype) == ("/g/t", "compound", dtype)
    assert types["t"].text_lengths == {"name": 12}
    assert (types["odd"].kind, types["odd"].dtype, types["odd"].definition) == ("", None, {"as": ["we", "like"]})
    found = variable(root, "v")
    assert (found.typedef, found.user_type, found.kind) == ("/g/t", types["t"], "compound")
    np.testing.assert_array_equal(found.read(), rows)
    assert variable(root, "w").user_type is root.typedefs["e"]
    assert (variable(root, "x").typedef, variable(root, "x").user_type) == ("/nowhere", None)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({"g/.zgroup": {}, "g/.zdims": [3]}, r"\.zdims is not a JSON object.*\(/g\)"),
        ({".zgroup": {"zarr_format": 2, ".zattrs": 3}}, r"\.zattrs is not a JSON object.*\(/\)"),
        ({".zgroup": {"zarr_format": 3}}, "not a document of Zarr format 2"),
        ({"v/.zarray": {"shape": [3]}}, r"lacks chunks.*\(/v\)"),
        ({"v/.zarray": array("<i128")}, r"data type '<i128' is unknown.*\(/v\)"),
    ],
)
def test_damage_is_named(documents, message):
    with pytest.raises(MetadataError, match=message):
        opened(documents)


def test_an_array_is_no_file():
    with pytest.raises(NotZarrError, match="an array, not a group"):
        open_netcdf(store({".zdataset": {}, ".zarray": array("<i16")}, {}))


# ---- as data of containers -----------------------------------------------------------------------------------------


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    path = tmp_path / "draft.zarr"
    documents = {**ROOT, "v/.zarray": array("<i8", dimensions=["/x"]), ".zdims": {"x": 3}}
    for name, document in documents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(json.dumps(document))
    (path / "v/0").write_bytes(np.array([1, -2, 3], "i1").tobytes())
    return path


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_link_into_it_would_be_read_as_other_numbers_so_they_are_copied(on_disk, tmp_path, wrapped):
    data = variable(open_netcdf(on_disk), "v").data
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_acquisition(
        TimeSeries(name="new", data=ZarrDataIO(data, link_data=True) if wrapped else data, unit="m", rate=1.0)
    )
    with NWBZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write(nwbfile)
    on_disk.rename(tmp_path / "gone.zarr")
    with NWBZarrIO(tmp_path / "a.zarr", "r") as io:
        found = io.read().acquisition["new"].data
        assert found.dtype == np.dtype("i1")
        assert found[:].tolist() == [1, -2, 3]


def test_zarr_itself_is_not_asked(on_disk):
    with pytest.raises(NotZarrError, match="types of the draft of 2018"):
        _ = variable(open_netcdf(on_disk), "v").data.metadata
