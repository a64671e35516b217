"""What an array means: equal in every format, and as the format page decides where older rules disagreed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.build import GroupBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend import ZarrIO, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.comparison import open_content
from hdmf_zarr_backend.errors import MetadataError, UsageError, ValueRefusedError, ZarrBackendError
from hdmf_zarr_backend.formats.dtypes import dtype_of, element_of, zarr_type
from hdmf_zarr_backend.formats.elements import describe, describe_any, is_scalar, row_word, type_element, word_element
from hdmf_zarr_backend.formats.hdf5_types import noted_element
from hdmf_zarr_backend.formats.labels import codec_labels, type_label
from hdmf_zarr_backend.formats.new_datasets import Layout, new_dataset
from hdmf_zarr_backend.hdf5.types import type_of_dtype
from hdmf_zarr_backend.model.content import DatasetContent
from hdmf_zarr_backend.model.elements import UTF8, Element
from hdmf_zarr_backend.model.nodes import Dataset
from tests.documents import dataset_node
from tests.hdf5.random_files import RandomFile
from tests.samples import dataset_builders, reference_tree
from tests.strategies import PLAIN, STRUCTURED, raw_arrays
from tests.trees import dataset, root

Meaning = dict[str, tuple[Element, tuple[int, ...] | None]]


def meaning(path: Path, *, as_hdf5: bool = True) -> Meaning:
    """Return element and shape of every dataset of a file."""
    content = open_content(path, as_hdf5=as_hdf5)
    found = {name: content[name] for name in content}
    return {name: (node.dtype, node.shape) for name, node in found.items() if isinstance(node, DatasetContent)}


def in_each_format(folder: Path, builder: GroupBuilder) -> list[Meaning]:
    """Return the meaning of the same data written in format 2, in format 3, and in HDF5."""
    places = []
    for zarr_format in (2, 3):
        places.append(folder / f"{zarr_format}.zarr")
        with ZarrIO(places[-1], "w", zarr_format=zarr_format) as io:
            io.write_builder(builder)
    convert(places[0], folder / "a.h5")
    return [meaning(place) for place in (*places, folder / "a.h5")]


# ---- one meaning in every format ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: GroupBuilder(name="root", datasets=dataset_builders()), reference_tree])
def test_equal_data_mean_the_same_in_every_format(tmp_path, make):
    in_2, in_3, in_hdf5 = in_each_format(tmp_path, make())
    assert in_2 == in_3 == in_hdf5
    assert in_2


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_arrays_of_any_type_mean_the_same_in_both_formats(tmp_path_factory, data):
    arrays = data.draw(st.lists(raw_arrays(PLAIN | STRUCTURED), min_size=1, max_size=4))
    folder = tmp_path_factory.mktemp("a")
    builder = root(*(dataset(f"d{number}", array) for number, array in enumerate(arrays)))
    for zarr_format in (2, 3):
        with ZarrIO(folder / f"{zarr_format}.zarr", "w", zarr_format=zarr_format) as io:
            io.write_builder(builder)
    found = meaning(folder / "2.zarr")
    assert meaning(folder / "3.zarr") == found
    for number, array in enumerate(arrays):
        element, shape = found[f"/d{number}"]
        assert (element, shape) == (element_of(array.dtype), array.shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(100, 112))
def test_converted_hdf5_means_what_it_meant(tmp_path, seed):
    RandomFile(tmp_path / "a.h5", seed)
    expected = meaning(tmp_path / "a.h5")
    for zarr_format in (2, 3):
        convert(tmp_path / "a.h5", tmp_path / f"{zarr_format}.zarr", zarr_format=zarr_format)
        found = meaning(tmp_path / f"{zarr_format}.zarr")
        assert {path: found[path] for path in expected if path in found} == {
            path: expected[path] for path in expected if path in found
        }


def test_real_files_mean_the_same_in_every_format(tmp_path, some_nwbfiles):
    for number, path in enumerate(some_nwbfiles):
        expected = meaning(path)
        for zarr_format in (2, 3):
            target = tmp_path / f"{number}.{zarr_format}.zarr"
            convert(path, target, zarr_format=zarr_format, check=False)
            found = meaning(target)
            assert {key: expected[key] for key in found if key in expected} == {
                key: found[key] for key in found if key in expected
            }, path


@given(dtype=PLAIN | STRUCTURED)
def test_a_dtype_and_its_data_type_are_the_same_element(dtype):
    assert element_of(dtype) == type_element(zarr_type(dtype))
    node: Dataset[Any] = dataset_node((3,), (3,), zarr_type(dtype))
    found = describe(node)
    assert (found.stored, found.element, found.shape, found.form) == (element_of(dtype), found.stored, (3,), "plain")
    assert found.itemsize == dtype.itemsize


@given(dtype=PLAIN)
def test_a_type_of_a_field_is_read_as_it_is_written(dtype):
    element = element_of(dtype)
    found = word_element(row_word(element))
    assert found.kind == element.kind
    if element.kind != "text":
        assert dtype_of(found) == dtype_of(element)


@given(dtype=PLAIN | STRUCTURED)
def test_a_recorded_type_of_hdf5_is_the_element_that_it_was_made_from(dtype):
    if not any(kind in "mM" for kind in str(zarr_type(dtype))):  # HDF5 does not have dates
        assert noted_element(type_of_dtype(dtype)) == element_of(dtype)


INT, FLOAT = Element("int", 4, "<"), Element("float", 4, "<")


@pytest.mark.parametrize(
    ("recorded", "element"),
    [
        ("<i4", INT),
        (">u2", Element("uint", 2, ">")),
        ("|i1", Element("int", 1, "|")),
        ("bool", Element("bool", 1)),
        ("object", Element("reference")),
        ("region", Element("region")),
        ({"text": "utf-8"}, Element("text", encoding="utf-8")),
        ({"text": "ascii"}, Element("text", encoding="ascii")),
        ({"text": "ascii", "size": 3, "pad": "nullpad"}, Element("text", 3, encoding="ascii", detail="null-padded")),
        (
            {"text": "utf-8", "size": 4, "pad": "nullterm"},
            Element("text", 4, encoding="utf-8", detail="null-terminated"),
        ),
        ({"text": "ascii", "size": 5, "pad": "spacepad"}, Element("text", 5, encoding="ascii", detail="space-padded")),
        (
            {"enum": [["red", 1], ["blue", 2]], "base": ">u2"},
            Element("enum", 2, ">", detail="uint", members=(("red", 1), ("blue", 2))),
        ),
        ({"enum": [["FALSE", 0], ["TRUE", 1]], "base": "<i4"}, Element("bool", 4, "<")),
        (
            {"enum": [["TRUE", 1], ["FALSE", 0]], "base": "<i4"},
            Element("enum", 4, "<", detail="int", members=(("TRUE", 1), ("FALSE", 0))),
        ),
        ({"bitfield": ">u2"}, Element("bitfield", 2, ">")),
        ({"opaque": 5, "tag": "raw"}, Element("opaque", 5, detail="raw")),
        ({"opaque": 5}, Element("opaque", 5)),
        ({"opaque": 8, "tag": "NUMPY:<M8[5us]"}, Element("datetime", 8, "<", detail="datetime64[5us]")),
        ({"opaque": 8, "tag": "NUMPY:>m8[s]"}, Element("datetime", 8, ">", detail="timedelta64[s]")),
        ({"complex": ">f8"}, Element("complex", 16, ">", detail="native")),
        ({"fields": [["r", "<f4"], ["i", "<f4"]]}, Element("complex", 8, "<")),
        (
            {"fields": [["r", "<f4"], ["i", ">f4"]]},
            Element("compound", fields=(("r", FLOAT), ("i", replace(FLOAT, byte_order=">")))),
        ),
        ({"fields": [["r", "<i4"], ["i", "<i4"]]}, Element("compound", fields=(("r", INT), ("i", INT)))),
        ({"fields": [["i", "<f4"], ["r", "<f4"]]}, Element("compound", fields=(("i", FLOAT), ("r", FLOAT)))),
        ({"fields": [["a", "<f4"], ["b", "<f4"]]}, Element("compound", fields=(("a", FLOAT), ("b", FLOAT)))),
        ({"array": "<i4", "shape": [2, 3]}, Element("array", base=INT, shape=(2, 3))),
        (
            {"sequence": {"array": "<f4", "shape": [2]}},
            Element("sequence", base=Element("array", base=FLOAT, shape=(2,))),
        ),
        ({"number": "<i4", "precision": 12, "offset": 3}, Element("int", 4, "<", detail="12 bits from bit 3")),
        ({"number": ">u2", "precision": 16, "offset": 1}, Element("uint", 2, ">", detail="16 bits from bit 1")),
        ({"number": ">u2", "precision": 16, "offset": 0}, Element("uint", 2, ">")),
        ({"number": "|i1", "precision": 7, "offset": 0}, Element("int", 1, "|", detail="7 bits from bit 0")),
        (
            {"number": "<f4", "precision": 32, "offset": 0, "fields": [31, 23, 8, 0, 23], "bias": 100},
            Element("float", 4, "<", detail="sign, exponent and mantissa (31, 23, 8, 0, 23), bias 100"),
        ),
    ],
    ids=str,
)
def test_what_a_recorded_type_of_hdf5_is(recorded, element):
    assert noted_element(recorded) == element


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        ("<i3", "int does not have 3 bytes"),
        ({}, "'it has none of the keys of a type'"),
        ({"text": "ascii", "size": 3, "pad": "none"}, "'none'"),
        ({"text": "ascii", "size": 3}, "'pad'"),
    ],
    ids=str,
)
def test_what_is_not_a_type_of_hdf5(recorded, reason):
    with pytest.raises(MetadataError) as caught:
        noted_element(recorded)
    assert str(caught.value) == f"{recorded!r} is not an HDF5 type ({reason}). Run `zarrio verify` on the file."


@pytest.mark.parametrize("is_too_deep", [False, True])
def test_how_deep_a_recorded_type_is(is_too_deep):
    depth = 33 if is_too_deep else 32
    recorded: Any = "<i4"
    for _ in range(depth):
        recorded = {"sequence": recorded}
    if is_too_deep:
        with pytest.raises(MetadataError, match="nested too deep"):
            noted_element(recorded)
    else:
        assert noted_element(recorded).kind == "sequence"


@pytest.mark.parametrize(
    ("data_type", "note", "stored"),
    [
        ("<i4", {"enum": {"no": 0, "yes": 1}}, Element("enum", 4, "<", detail="int", members=(("no", 0), ("yes", 1)))),
        ("|u1", {"enum": {"no": 0}}, Element("enum", 1, "|", detail="uint", members=(("no", 0),))),
        ("<f4", {"enum": {"no": 0}}, FLOAT),
        ("<i4", {"enum": ["no"]}, INT),
        ("|S3", {"charset": "utf-8"}, Element("text", 3, encoding="utf-8", detail="null-padded")),
        ("|S3", {"charset": 5}, Element("text", 3, encoding="ascii", detail="null-padded")),
        ("<U3", {"charset": "ascii"}, Element("text", encoding="utf-8")),
        ("<i4", {"charset": "utf-8"}, INT),
    ],
    ids=str,
)
def test_what_is_recorded_of_numbers_and_text_of_fixed_length(data_type, note, stored):
    node: Dataset[Any] = dataset_node((3,), (3,), data_type, attributes={"_hdmf": {"hdf5": note}})
    assert describe(node).stored == stored


# ---- what the format page decides -----------------------------------------------------------------------------------


def write_array(
    folder: Path, values: Any, *, shape: list[int], data_type: Any, filters: Any = None, **attributes: Any
) -> Path:
    """Write a file of format 2 with one array of one chunk, ``data``, key by key."""
    path = folder / "a.zarr"
    (path / "data").mkdir(parents=True)
    document = {
        "zarr_format": 2, "shape": shape, "chunks": shape, "dtype": data_type, "compressor": None, "fill_value": None,
        "filters": filters, "order": "C",
    }  # fmt: skip
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / "data" / ".zarray").write_text(json.dumps(document))
    (path / "data" / ".zattrs").write_text(json.dumps(attributes))
    raw = values if isinstance(values, bytes) else np.asarray(values).tobytes()
    (path / "data" / ".".join("0" for _ in shape)).write_bytes(raw)
    return path


def shown(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[str, list[int]]:
    """Return the type and the shape that `zarrio inspect` shows."""
    assert main(["inspect", str(path), "--json"]) == 0
    (node,) = [node for node in json.loads(capsys.readouterr().out)[0]["nodes"] if node["path"] == "/data"]
    return node["dtype"], node["shape"]


def is_equal_in_hdf5(path: Path) -> bool:
    """Tell whether the file is equal to its conversion to HDF5, in chunks or not."""
    convert(path, path.with_suffix(".h5"))
    return main(["diff", str(path), str(path.with_suffix(".h5")), "--ignore", "chunks"]) == 0


def vlen(*texts: bytes) -> bytes:
    """Return the chunk of texts or bytes of variable length."""
    return b"".join([len(texts).to_bytes(4, "little"), *(len(text).to_bytes(4, "little") + text for text in texts)])


@pytest.mark.parametrize(
    "recorded", ["<i2", "<f4", {"bitfield": "<u4"}, "object", {"text": "utf-8"}, {"opaque": 4, "tag": "x"}], ids=str
)
def test_a_recorded_type_that_the_values_cannot_have_is_ignored(tmp_path, capsys, recorded):
    values = np.arange(3, dtype="<i4")
    path = write_array(tmp_path, values, shape=[3], data_type="<i4", _hdmf={"hdf5": {"type": recorded}})
    assert is_equal_in_hdf5(path)
    with h5py.File(path.with_suffix(".h5")) as file:
        assert file["data"].dtype == np.dtype("<i4")


@pytest.mark.parametrize("recorded", ["<i2", {"fields": [["a", "<i4"]]}], ids=str)
def test_text_is_not_of_a_recorded_number(tmp_path, capsys, recorded):
    path = write_array(
        tmp_path, vlen(b"one", b"two"), shape=[2], data_type="|O", filters=[{"id": "vlen-utf8"}], zarr_dtype="str",
        _hdmf={"hdf5": {"type": recorded}},
    )  # fmt: skip
    assert is_equal_in_hdf5(path)
    with h5py.File(path.with_suffix(".h5")) as file:
        assert file["data"].asstr()[:].tolist() == ["one", "two"]


def test_unicode_of_fixed_length_is_utf8_text(tmp_path, capsys):
    path = write_array(tmp_path, np.array(["a", "ßx"], "<U3"), shape=[2], data_type="<U3", zarr_dtype="str")
    assert shown(capsys, path) == ("text[3]", [2])
    assert is_equal_in_hdf5(path)
    with h5py.File(path.with_suffix(".h5")) as file:
        assert h5py.check_string_dtype(file["data"].dtype).encoding == "utf-8"


def test_text_of_fixed_length_has_the_recorded_charset(tmp_path, capsys):
    path = write_array(
        tmp_path, np.array([b"ab", b"c"], "S3"), shape=[2], data_type="|S3", _hdmf={"hdf5": {"charset": "utf-8"}}
    )
    assert shown(capsys, path) == ("text[3]", [2])
    assert is_equal_in_hdf5(path)


def test_bytes_of_variable_length_are_ascii_text(tmp_path, capsys):
    path = write_array(
        tmp_path, vlen(b"one", b"two"), shape=[2], data_type="|O", filters=[{"id": "vlen-bytes"}], zarr_dtype="bytes"
    )
    assert shown(capsys, path) == ("ascii", [2])
    with ZarrIO(path, "r") as io:
        assert io.read_builder()["data"].dtype == "ascii"
    assert is_equal_in_hdf5(path)


def test_a_scalar_of_bytes_is_text(tmp_path, capsys):
    path = write_array(
        tmp_path, vlen("größe".encode()), shape=[1], data_type="|O", filters=[{"id": "vlen-bytes"}], zarr_dtype="scalar"
    )
    assert shown(capsys, path) == ("text", [])
    with ZarrIO(path, "r") as io:
        builder = io.read_builder()["data"]
        assert (builder.data, builder.dtype) == ("größe", "utf8")
    assert is_equal_in_hdf5(path)


JSON = [{"id": "json2"}]
FIELDS = [{"name": "x", "dtype": "int32"}, {"name": "label", "dtype": "str"}]


def rows_chunk(*rows: list[Any]) -> bytes:
    """Return the chunk of rows as JSON."""
    return json.dumps([*rows, "|O", [len(rows), 2]]).encode()


@pytest.mark.parametrize("notes", [{}, {"rows": True}], ids=str)
def test_rows_with_an_axis_for_fields_are_one_axis(tmp_path, capsys, notes):
    path = write_array(
        tmp_path, rows_chunk([1, "a"], [2, "b"], [3, "c"]), shape=[3, 2], data_type="|O", filters=JSON,
        zarr_dtype=FIELDS, _hdmf=notes,
    )  # fmt: skip
    assert shown(capsys, path) == ("{x: int32, label: text}", [3])
    with ZarrIO(path, "r") as io:
        assert len(io.read_builder()["data"].data) == 3
    assert is_equal_in_hdf5(path)


@pytest.mark.parametrize("notes", [{"scalar": True}, {"scalar": True, "rows": True}], ids=str)
def test_one_row_that_is_marked_is_a_scalar(tmp_path, capsys, notes):
    path = write_array(
        tmp_path, rows_chunk([1, "a"]), shape=[1, 2], data_type="|O", filters=JSON, zarr_dtype=FIELDS, _hdmf=notes
    )
    assert shown(capsys, path) == ("{x: int32, label: text}", [])
    with ZarrIO(path, "r") as io:
        assert np.shape(io.read_builder()["data"].data) == ()
    assert is_equal_in_hdf5(path)


def test_structured_values_keep_all_axes_and_those_of_their_fields(tmp_path, capsys):
    dtype = np.dtype([("x", "<i4"), ("y", "<f8", (2,))])
    path = write_array(
        tmp_path, np.zeros((2, 3), dtype), shape=[2, 3], data_type=[["x", "<i4"], ["y", "<f8", [2]]],
        zarr_dtype=[{"name": "x", "dtype": "int32"}, {"name": "y", "dtype": "float64"}],
    )  # fmt: skip
    assert shown(capsys, path) == ("{x: int32, y: float64[2]}", [2, 3])
    assert is_equal_in_hdf5(path)


def test_an_element_that_was_an_array_has_its_axes_in_zarr_only(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", (4,), np.dtype(("<f8", (3,))))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert shown(capsys, tmp_path / "a.zarr") == ("float64", [4, 3])
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["data"].shape == (4,)
    assert main(["diff", str(tmp_path / "a.zarr"), str(tmp_path / "a.h5")]) == 0


def test_an_empty_dataspace_keeps_any_recorded_type(tmp_path):
    dtype = np.dtype([("a", h5py.ref_dtype), ("b", "S4")])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=h5py.Empty(dtype))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["data"].shape is None
        assert file["data"].dtype.names == ("a", "b")
    assert main(["diff", str(tmp_path / "a.h5"), str(tmp_path / "a.zarr")]) == 0


def test_fields_of_another_form_are_opaque(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dtype = np.dtype([("to", h5py.ref_dtype), ("raw", "V3")])
        file.create_dataset("data", (2,), dtype)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert shown(capsys, tmp_path / "a.zarr") == ("{to: reference, raw: opaque[3]}", [2])
    assert main(["diff", str(tmp_path / "a.h5"), str(tmp_path / "a.zarr")]) == 0


def test_structured_values_with_an_opaque_field_are_read_and_written_again(tmp_path):
    values = np.array([(b"abc", 1), (b"\0\1\2", 2)], [("raw", "V3"), ("n", "<i4")])
    with ZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write_builder(root(dataset("data", values)))
    with ZarrIO(tmp_path / "a.zarr", "r") as io:
        builder = io.read_builder()["data"]
        assert builder.dtype == [{"name": "raw", "dtype": "V3"}, {"name": "n", "dtype": "int32"}]
        with ZarrIO(tmp_path / "b.zarr", "w") as other:
            other.write_builder(root(dataset("data", builder.data, builder.dtype)), link_data=False)
    with ZarrIO(tmp_path / "b.zarr", "r") as io:
        np.testing.assert_array_equal(io.read_builder()["data"].data[:], values)


# ---- unknown types --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data_type",
    [
        *("nonsense", "<i3", "<c4", "<M8[x]", "<M8[0s]", "<m8[10000000000s]", 17, None, ["x"]),
        *([["x"]], [["x", "<i4", ["a"]]], [["x", "<M8[10000000000s]"]], [["", "<i4"]], [["a", [["", "<i4"]]]]),
    ],
    ids=str,
)
def test_an_unknown_data_type_is_refused(data_type):
    with pytest.raises(MetadataError, match="is unknown"):
        describe(dataset_node((1,), (1,), data_type))


def test_a_field_of_an_unknown_type_is_refused():
    node: Dataset[Any] = dataset_node((1, 1), (1, 1), "|O", attributes={"zarr_dtype": [{"name": "a", "dtype": "blue"}]})
    with pytest.raises(ValueRefusedError, match="'blue'"):
        describe(node)


def test_a_date_in_rows_whose_unit_numpy_does_not_have_is_refused():
    dtype = [{"name": "a", "dtype": "datetime64[10000000000s]"}, {"name": "b", "dtype": "object"}]
    node: Dataset[Any] = dataset_node((1, 2), (1, 2), "|O", attributes={"zarr_dtype": dtype})
    with pytest.raises(ValueRefusedError, match="10000000000s"):
        describe(node)


@pytest.mark.parametrize(
    "recorded", ["blue", 3, {}, {"text": "ascii", "size": 3, "pad": "none"}, {"array": "<i4"}], ids=str
)
def test_only_what_needs_a_recorded_type_refuses_one_that_is_damaged(recorded):
    node: Dataset[Any] = dataset_node((1,), (1,), "<i4", attributes={"_hdmf": {"hdf5": {"type": recorded}}})
    found = describe(node)
    assert found.stored == Element("int", 4, "<")
    assert not is_scalar(node)
    with pytest.raises(ZarrBackendError, match="is not an HDF5 type"):
        _ = found.element


# ---- words and forms of new arrays ----------------------------------------------------------------------------------

TEXT, REFERENCE = Element("text", encoding="utf-8"), Element("reference")


@pytest.mark.parametrize(
    ("word", "element", "back"),
    [
        ("utf8", TEXT, "str"),
        ("isodatetime", TEXT, "str"),
        ("any", TEXT, "str"),
        ("ascii", Element("text", encoding="ascii"), "bytes"),
        ("|S5", Element("text", encoding="ascii"), "bytes"),
        ("object", REFERENCE, "object"),
        ({"reftype": "object"}, REFERENCE, "object"),
        ("region", Element("region"), "region"),
        ({"reftype": "region"}, Element("region"), "region"),
        ("int", INT, "int32"),
        ("uint8", Element("uint", 1), "uint8"),
        ("bool", Element("bool", 1), "bool"),
        ("complex64", Element("complex", 8, "<"), "complex64"),
        ("datetime64[s]", Element("datetime", 8, "<", detail="datetime64[s]"), "datetime64[s]"),
        ("timedelta64[10ms]", Element("datetime", 8, "<", detail="timedelta64[10ms]"), "timedelta64[10ms]"),
        ("V3", Element("opaque", 3), "V3"),
    ],
    ids=str,
)
def test_words_of_fields(word, element, back):
    assert word_element(word) == element
    assert row_word(element) == back


_ASCII = Element("text", encoding="ascii")
_ROWS = Element("compound", fields=(("x", INT), ("to", REFERENCE)))
_WORDS = [{"name": "x", "dtype": "int32"}, {"name": "to", "dtype": "object"}]


@pytest.mark.parametrize(
    ("element", "shape", "options", "stored_shape", "codec", "word", "notes"),
    [
        (UTF8, (3,), {}, (3,), "vlen-utf8", "str", {}),
        (UTF8, (), {}, (1,), "vlen-utf8", "scalar", {}),
        (_ASCII, (2, 3), {}, (2, 3), "vlen-utf8", "str", {"text": "ascii"}),
        (_ASCII, (3,), {"as_bytes": True}, (3,), "vlen-bytes", "bytes", {}),
        (_ASCII, (), {"as_bytes": True}, (1,), "vlen-bytes", "scalar", {}),
        (REFERENCE, (3,), {}, (3,), "json2", "object", {}),
        (Element("region"), (), {}, (1,), "json2", "region", {"scalar": True}),
        (_ROWS, (5,), {}, (5, 2), "json2", _WORDS, {"rows": True}),
        (_ROWS, (), {}, (1, 2), "json2", _WORDS, {"rows": True, "scalar": True}),
        (np.dtype("<f4"), (2, 3), {}, (2, 3), None, "float32", {}),
        (np.dtype(">i2"), (), {}, (1,), None, "scalar", {}),
        (np.dtype("S3"), (4,), {}, (4,), None, "bytes", {}),
        (np.dtype([("a", "<i4")]), (4,), {}, (4,), None, [{"name": "a", "dtype": "int32"}], {}),
    ],
    ids=str,
)
def test_a_new_dataset_is_stored_as_the_format_page_says(element, shape, options, stored_shape, codec, word, notes):
    made, found = new_dataset(element, shape, Layout(), **options)
    assert made.stored.shape == stored_shape
    assert made.stored.first_filter.get("id") == codec
    assert made.attributes == {"zarr_dtype": word}
    assert found == notes
    assert (made.stored.compressor is None) == (shape == ())


_DTYPES = [*map(np.dtype, ("<f8", ">u2", "|b1", "<M8[s]", "S4", "<c16", "V3", "<i4,<f8"))]
ELEMENTS = st.sampled_from([UTF8, _ASCII, REFERENCE, Element("region"), _ROWS, *_DTYPES])


@given(ELEMENTS, st.lists(st.integers(0, 5), max_size=3))
def test_a_new_dataset_means_what_was_asked_for(element, lengths):
    shape = tuple(lengths[:1] if element == _ROWS else lengths)
    made, notes = new_dataset(element, shape, Layout())
    means = describe(made, notes)
    wanted = element_of(element) if isinstance(element, np.dtype) else element
    assert means.element == wanted
    assert means.shape == shape
    assert means.is_scalar == (shape == ())


@pytest.mark.parametrize("element", [INT, Element("text", 5, encoding="ascii"), Element("opaque", 2)], ids=str)
def test_an_element_that_needs_a_numpy_type_is_refused(element):
    with pytest.raises(ValueRefusedError, match="NumPy type"):
        new_dataset(element, (3,), Layout())


def test_chunks_of_another_number_of_axes_are_refused():
    with pytest.raises(UsageError, match="do not fit the shape"):
        new_dataset(np.dtype("<f4"), (2, 3), Layout(chunks=(2,)))


# ---- labels ---------------------------------------------------------------------------------------------------------


def described(data_type: Any, **more: Any) -> Dataset[Any]:
    """Return the node of an array of two elements."""
    return dataset_node(shape=(2,), chunks=(2,), data_type=data_type, attributes=more.pop("attributes", {}), **more)


@pytest.mark.parametrize(
    ("data_type", "more", "word"),
    [
        ("|S7", {}, "ascii[7]"),
        ("<U3", {}, "text[3]"),
        ("|V5", {}, "opaque[5]"),
        ("|O", {"filters": [{"id": "vlen-utf8"}]}, "text"),
        ("|O", {"filters": [{"id": "vlen-bytes"}]}, "ascii"),
        ("|O", {"attributes": {"zarr_dtype": "str", "_hdmf": {"text": "isodatetime"}}}, "isodatetime"),
        ("|O", {"attributes": {"zarr_dtype": "object"}, "filters": [{"id": "json2"}]}, "reference"),
        ("|O", {"attributes": {"zarr_dtype": "region"}}, "region"),
        ([["x", "<i4"], ["y", "<f8", [2]]], {}, "{x: int32, y: float64[2]}"),
        ([["x", "<i4"], ["y", "<f8", 2]], {}, "{x: int32, y: float64[2]}"),
        (
            [["idx_start", "<i4"], ["timeseries", "|O"]],
            {
                "attributes": {
                    "zarr_dtype": [{"name": "idx_start", "dtype": "int32"}, {"name": "timeseries", "dtype": "object"}]
                }
            },
            "{idx_start: int32, timeseries: reference}",
        ),
        (
            "|O",
            {"attributes": {"zarr_dtype": [{"name": "a", "dtype": "str_"}, {"name": "a", "dtype": "str_"}]}},
            "{a: text}",
        ),
        ("|O", {"attributes": {"zarr_dtype": [{"name": "a", "dtype": {"reftype": "region"}}]}}, "{a: region}"),
        # what no writer writes must not fail
        ("nonsense", {}, "nonsense"),
        (17, {}, "17"),
        ([["x"]], {}, "[['x']]"),
        ("|O", {"attributes": {"zarr_dtype": ["x", 3, {}]}}, "{}"),
    ],
    ids=str,
)
def test_the_label_of_a_type(data_type: Any, more: dict[str, Any], word: str) -> None:
    assert type_label(described(data_type, **more)) == word


@pytest.mark.parametrize("data_type", ["|O", [["x", "<i4"], ["y", "|O"]], "nonsense", None])
def test_types_of_variable_size_have_no_itemsize(data_type: Any) -> None:
    assert describe_any(described(data_type)).itemsize is None


@pytest.mark.parametrize(
    ("filters", "compressor", "words"),
    [
        (None, None, []),
        (None, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}, ["blosc lz4 5 shuffle"]),
        ([{"id": "vlen-utf8"}], {"id": "zstd", "level": 3}, ["vlen-utf8", "zstd 3"]),
        ([{"id": "shuffle", "elementsize": 4}], {"id": "zlib", "level": 4}, ["shuffle", "zlib 4"]),
        (None, {"id": "blosc", "shuffle": [1]}, ["blosc"]),
    ],
)
def test_the_labels_of_codecs(filters: Any, compressor: Any, words: list[str]) -> None:
    assert codec_labels(described("<i4", filters=filters, compressor=compressor).stored) == words
