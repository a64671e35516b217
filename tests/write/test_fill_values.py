"""Fill values of every kind of element: as given, after a resize, in both formats, from HDF5 and back."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hdmf.backends.hdf5 import H5DataIO
from hdmf.data_utils import DataChunkIterator

from hdmf_zarr_backend import WriteOptions, ZarrDataIO, ZarrIO, convert, verify
from hdmf_zarr_backend.errors import ValueRefusedError
from tests.documents import document, forget_consolidated
from tests.smallfiles import hdf5_dataset
from tests.trees import dataset, edit_builder, read_builder, root, write_builder
from tests.zarrs import IS_ZARR_2

PAIR, NESTED = [("a", "<i4"), ("b", "S3")], [("a", "<i4"), ("b", [("c", "<f8")])]
ROW = np.array((7, b"xy"), PAIR)[()]
OBJECTS = np.dtype(object)

GIVEN: dict[str, tuple[Any, Any]] = {
    "text": (["a", "b"], "n/a"),
    "text that is not ASCII": (["a", "b"], "ü"),
    "text by bytes": (["a", "b"], b"n/a"),
    "ASCII": ([b"a", b"b"], b"n/a"),
    "bytes": ([b"a", b"\xff"], b"\xfe\x01"),
    "bytes after text": ([b"a", b"b"], b"\xfe"),
    "array of text": (np.array(["a", "bcd"]), "a longer text"),
    "bytes of fixed length": (np.array([b"a", b"bcd"]), b"x"),
    "numbers": (np.array([1.5, 2.5]), np.nan),
    "infinite": (np.array([1.5, 2.5], "f4"), -np.inf),
    "complex": (np.array([1.5, 2.5], "c8"), complex(1.5, np.inf)),
    "truth": (np.array([False, False]), True),
    "dates": (np.array(["2020-01-01"] * 2, "M8[s]"), np.datetime64("2021-01-01", "s")),
    "dates of another unit": (np.array(["2020-01-01"] * 2, "M8[s]"), np.datetime64("2021-01-01")),
    "dates by a number": (np.array(["2020-01-01"] * 2, "M8[s]"), 5),
    "dates that are none": (np.array(["2020-01-01"] * 2, "M8[s]"), np.datetime64("NaT", "s")),
    "rows": (np.array([(1, b"a")] * 2, PAIR), ROW),
}


def grown(path: Path, more: int = 5) -> list[Any]:
    """Return what a dataset has beyond its end after a resize: inside its last chunk, and in new ones."""
    with edit_builder(path) as builder:
        data = builder["d"].data
        length = len(data)
        data.resize((length + more,))
    found = read_builder(path)["d"].data[length:].tolist()
    assert len(found) == more
    return list(found)


def expected(fill: Any, data: Any) -> Any:
    item = np.asarray(fill, data.dtype)[()].item() if isinstance(data, np.ndarray) and data.dtype.kind != "U" else fill
    return item.decode() if isinstance(item, bytes) and isinstance(data[0], str) else item


def equal(found: list[Any], item: Any) -> bool:
    return all(one == item or str(one) == str(item) == "nan" for one in found)


@pytest.mark.parametrize("wrapper", [ZarrDataIO, H5DataIO])
@pytest.mark.parametrize("kind", GIVEN)
def test_a_fill_value_that_is_given(tmp_path, kind, wrapper, zarr_format):
    data, fill = GIVEN[kind]
    wrapped = wrapper(data, fillvalue=fill, maxshape=(None,), chunks=(3,))
    path = write_builder(tmp_path / "a.zarr", root(dataset("d", wrapped)), zarr_format=zarr_format)
    read = read_builder(path)["d"].data
    assert read[:].tolist() == np.asarray(data).tolist()
    if not IS_ZARR_2:
        assert repr(read.fill_value) == repr(zarr.open_array(path / "d", mode="r").fill_value)
    convert(path, tmp_path / "other.zarr", zarr_format=5 - zarr_format, check=False)
    convert(path, tmp_path / "both.zarr", zarr_format="both", check=False)
    if not kind.startswith("dates"):
        convert(path, tmp_path / "a.h5", check=False)
        with h5py.File(tmp_path / "a.h5") as file:
            assert equal([file["d"].fillvalue], fill.encode() if isinstance(fill, str) else fill)
        convert(tmp_path / "a.h5", tmp_path / "again.zarr", zarr_format=zarr_format, check=False)
    for name in tmp_path.glob("*.zarr"):
        assert equal(grown(name), expected(fill, data)), name


H5: dict[str, dict[str, Any]] = {
    "text": {"dtype": h5py.string_dtype(), "fillvalue": "ü"},
    "ASCII": {"dtype": h5py.string_dtype("ascii"), "fillvalue": b"n/a"},
    "bytes": {"dtype": h5py.string_dtype("ascii"), "fillvalue": b"\xff"},
    "text of fixed length": {"dtype": h5py.string_dtype("utf-8", 5), "fillvalue": "ü".encode()},
    "ASCII of fixed length": {"dtype": "S4", "fillvalue": b"n/a"},
    "an enumeration": {"dtype": h5py.enum_dtype({"A": 0, "B": 3}), "fillvalue": 3},
    "truth": {"dtype": bool, "fillvalue": True},
    "complex": {"dtype": "c8", "fillvalue": 1 + 2j},
    "rows": {"dtype": PAIR, "fillvalue": ROW},
    "rows of rows": {"dtype": NESTED, "fillvalue": np.array((7, (8.0,)), NESTED)[()]},
}


@pytest.mark.parametrize("kind", H5)
def test_a_resized_copy_has_the_fill_value_of_hdf5(tmp_path, kind, zarr_format):
    hdf5_dataset(tmp_path / "a.h5", "d", shape=(3,), maxshape=(None,), chunks=(2,), **H5[kind])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["d"].resize((8,))
        wanted = file["d"][3:].tolist()
        fill = file["d"].fillvalue
        file["d"].resize((3,))
    path = tmp_path / "a.zarr"
    convert(tmp_path / "a.h5", path, zarr_format=zarr_format, check=False)
    found = grown(path)
    assert [one.encode() if isinstance(one, str) else one for one in found] == wanted
    convert(path, tmp_path / "b.h5", check=False)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["d"].fillvalue == fill
        assert file["d"][3:].tolist() == wanted


def test_text_of_fixed_length_in_hdf5(tmp_path):
    """It has variable length there, and h5py cannot write a fill value of records with such text."""
    path, records = tmp_path / "a.zarr", np.array([(1, "a")] * 2, [("n", "i4"), ("text", "U3")])
    filled = ZarrDataIO(records, fillvalue=np.array((7, "xy"), records.dtype)[()], chunks=(3,))
    write_builder(path, root(dataset("records", filled)), zarr_format=2)
    forget_consolidated(path)
    formats = {} if IS_ZARR_2 else {"zarr_format": 2}
    given: dict[str, Any] = {"shape": (2,), "chunks": (2,), "dtype": "<U3", "fill_value": "xy", **formats}
    zarr.open_array(str(path / "texts"), mode="w", **given)[:] = np.array(["a", "b"])
    convert(path, tmp_path / "a.h5", check=False)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["texts"].fillvalue == b"xy"
        assert file["texts"][:].tolist() == [b"a", b"b"]
        assert file["records"][:].tolist() == [(1, b"a")] * 2


@pytest.mark.parametrize(
    ("values", "dtype", "fill"),
    [
        (["a", None, "b"], OBJECTS, "n/a"), ([b"a", None, b"b"], OBJECTS, b"n/a"),
        ([b"a", None, b"\xff"], OBJECTS, b"n/a"), ([1, None, 2], np.dtype("i4"), -1),
    ],
    ids=["text", "ASCII", "bytes", "numbers"],
)  # fmt: skip
def test_what_an_iterator_leaves_out(tmp_path, zarr_format, values, dtype, fill):
    iterator = DataChunkIterator(data=iter(values), dtype=dtype, maxshape=(None,))
    wrapped = ZarrDataIO(iterator, fillvalue=fill, chunks=(2,))
    path = write_builder(tmp_path / "a.zarr", root(dataset("d", wrapped)), zarr_format=zarr_format)
    assert read_builder(path)["d"].data[:].tolist() == [values[0], fill, values[2]]
    assert equal(grown(path), fill)


@pytest.mark.parametrize("kind", ["text", "bytes", "bytes of fixed length", "rows", "dates"])
@pytest.mark.parametrize("wrap", [lambda data: data, partial(ZarrDataIO, chunks=(1,))], ids=["plain", "wrapped"])
def test_a_copy_of_a_stored_array_keeps_it(tmp_path, kind, wrap, zarr_format):
    data, fill = GIVEN[kind]
    wrapped = ZarrDataIO(data, fillvalue=fill, maxshape=(None,))
    path = write_builder(tmp_path / "a.zarr", root(dataset("d", wrapped)), zarr_format=zarr_format)
    with ZarrIO(path) as io:
        tree = root(dataset("d", wrap(io.read_builder()["d"].data), maxshape=(None,)))
        write_builder(tmp_path / "b.zarr", tree, zarr_format=zarr_format, link_data=False)
    assert equal(grown(tmp_path / "b.zarr"), expected(fill, data))


def test_the_forms_on_disk(tmp_path):
    """Bytes are in Base64 in both formats, as zarr-python 3 has them."""
    for number, name in ((2, "d/.zarray"), (3, "d/zarr.json")):
        for fill, data, form in (("ü", ["a"], "ü"), (b"\xff", [b"a"], "/w==")):
            tree = root(dataset("d", ZarrDataIO(data, fillvalue=fill)))
            path = write_builder(tmp_path / f"{number}{form[0] == '/'}.zarr", tree, zarr_format=number)
            assert json.loads((path / name).read_text())["fill_value"] == form


@pytest.mark.parametrize("wrapper", [ZarrDataIO, H5DataIO])
@pytest.mark.parametrize(("data", "word", "fill"), [
    (["a"], None, 5),
    (["a"], None, b"\xff"),
    ([b"a"], None, 5),
    ([(1, "a")], [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "utf8"}], (7, "n/a")),
], ids=["number", "binary", "number for bytes", "rows with text"])  # fmt: skip
def test_a_fill_value_of_another_kind_is_refused(tmp_path, data, word, fill, wrapper):
    with pytest.raises(ValueRefusedError, match=r"fill value.*\(/d\)"):
        write_builder(tmp_path / "a.zarr", root(dataset("d", wrapper(data, fillvalue=fill), word)))
    assert list(tmp_path.iterdir()) == []


def test_text_that_other_programs_declare_for_bytes(tmp_path):
    """zarr-python 2 and hdmf-zarr wrote text, or 0, as the fill value of bytes."""
    for given, item in (("not Base64!", b"not Base64!"), ("", b""), (0, b""), ("bi9h", b"n/a")):
        tree = root(dataset("d", [b"\xff"], maxshape=(None,)))
        path = write_builder(tmp_path / f"{item!r}.zarr", tree, zarr_format=2)
        array = document(path, "d/.zarray") | {"fill_value": given}
        (path / "d" / ".zarray").write_text(json.dumps(array))
        (path / ".zmetadata").unlink()
        assert equal(grown(path), item)


@pytest.mark.parametrize("kind", ["float", "complex"])
def test_tokens_that_are_not_json_do_not_get_into_other_documents(tmp_path, kind):
    data = np.array([1.5, 2.5], "f4" if kind == "float" else "c8")
    path = write_builder(tmp_path / "a.zarr", root(dataset("d", data)))
    array = document(path, "d/.zarray") | {"fill_value": np.nan if kind == "float" else [np.nan, np.inf]}
    (path / "d/.zarray").write_text(json.dumps(array))
    forget_consolidated(path)
    for zarr_format in (2, 3):
        copy = tmp_path / f"{zarr_format}.zarr"
        convert(path, copy, zarr_format=zarr_format)
        for file in copy.rglob("*"):
            if file.name in (".zarray", ".zmetadata", "zarr.json"):
                json.loads(file.read_bytes(), parse_constant=pytest.fail)
        grown(copy)
    with edit_builder(path, write_options=WriteOptions(strict_json=True)) as builder:
        builder.attributes["new"] = 1
    assert verify(path).is_sound


def test_tokens_in_the_fill_value_of_rows_do_not_stay(tmp_path):
    path = write_builder(tmp_path / "a.zarr", root(dataset("d", np.array([(1, 2.0)], [("n", "<i4"), ("x", "<f8")]))),
                         zarr_format=3)  # fmt: skip
    array = json.loads((path / "d/zarr.json").read_bytes()) | {"fill_value": {"n": 0, "x": np.nan}}
    (path / "d/zarr.json").write_text(json.dumps(array))
    forget_consolidated(path)
    with edit_builder(path, write_options=WriteOptions(strict_json=True)) as builder:
        builder.attributes["new"] = 1
    assert read_builder(path).attributes["new"] == 1


def test_a_nan_with_a_payload_is_a_nan_in_format_2(tmp_path):
    path = write_builder(tmp_path / "a.zarr", root(dataset("d", np.array([1.5, 2.5]))), zarr_format=3)
    array = json.loads((path / "d/zarr.json").read_bytes()) | {"fill_value": "0x7ff8000000000001"}
    (path / "d/zarr.json").write_text(json.dumps(array))
    forget_consolidated(path)
    convert(path, tmp_path / "b.zarr", zarr_format=2)
    assert np.isnan(zarr.open_array(str(tmp_path / "b.zarr" / "d"), mode="r").fill_value)
    convert(path, tmp_path / "c.zarr", zarr_format=3)
    assert json.loads((tmp_path / "c.zarr/d/zarr.json").read_bytes())["fill_value"] == "0x7ff8000000000001"
