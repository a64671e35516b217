"""What HDF5 says and Zarr does not comes back in HDF5: one thing at a time, in both formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5, h5a, h5d, h5p, h5s, h5t

from hdmf_zarr_backend import convert

Back = Callable[[Callable[[h5py.File], Any]], h5py.File]
TRACKED = h5p.CRT_ORDER_TRACKED


@pytest.fixture(params=[2, 3])
def back(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a function that writes a file, converts it to Zarr and back, and returns what came back."""
    opened: list[h5py.File] = []

    def there_and_back(write: Callable[[h5py.File], Any], *, track_order: bool = False) -> h5py.File:
        with h5py.File(tmp_path / "a.h5", "w", track_order=track_order, libver=("v108", "latest")) as file:
            write(file)
        convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=request.param)
        convert(tmp_path / "a.zarr", tmp_path / "b.h5")
        opened.append(h5py.File(tmp_path / "b.h5"))
        return opened[-1]

    yield there_and_back
    for file in opened:
        file.close()


def raw(attribute: Any) -> bytes:
    """Return the bytes of an attribute as they lie in the file."""
    tid = attribute.get_type()
    values = np.zeros(attribute.shape, f"V{tid.get_size()}")
    attribute.read(values, tid)
    return values.tobytes()


@pytest.mark.parametrize("code", [">i2", ">i4", ">u8", ">f4", ">f8", "<i4"])
def test_sequences_of_big_endian_numbers(back, tmp_path, code):
    values = np.empty(2, object)
    values[:] = [np.array([1, 2, 515], code), np.array([7], code)]
    row = np.zeros(1, [("n", code), ("s", h5py.vlen_dtype(code))])
    row["s"][0] = values[0]

    def write(file: h5py.File) -> None:
        file.attrs.create("sequences", values, dtype=h5py.vlen_dtype(code))
        file.attrs.create("rows", row, dtype=row.dtype)

    found = (tmp_path / "b.h5", back(write))[0].read_bytes()
    assert found.count(values[0].tobytes()) >= 2  # the global heap has them as they are; h5py swaps what it reads


def nan(code: str, bits: int) -> np.ndarray[Any, Any]:
    dtype = np.dtype(code)
    return np.array([bits, 0, 1], f"{code[0]}u{dtype.itemsize}").view(dtype)


NANS = [("f2", 0x7E05), ("f2", 0xFE00), ("f4", 0x7FC00005), ("f4", 0x7F800001), ("f8", 0x7FF8000000000005),
        ("f8", 0xFFF0000000000001)]  # fmt: skip


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("code", "bits"), NANS)
def test_nan_payloads_in_attributes(back, code, bits, order):
    values = nan(order + code, bits)

    def write(file: h5py.File) -> None:
        file.attrs.create("array", values)
        file.attrs.create("scalar", values[0], dtype=values.dtype)
        if code != "f2":
            file.attrs.create("complex", np.repeat(values, 2).view(f"{order}c{2 * values.itemsize}"))

    attributes = back(write).attrs
    assert raw(attributes.get_id("array")) == values.tobytes()
    assert raw(attributes.get_id("scalar")) == values[:1].tobytes()
    if code != "f2":
        assert raw(attributes.get_id("complex")) == np.repeat(values, 2).tobytes()


def test_nan_payloads_in_sequences_and_rows_of_attributes(back):
    sequences = np.empty(1, object)
    sequences[0] = nan("<f8", 0x7FF8000000000005)
    row = np.zeros((), [("x", "<f4"), ("t", h5py.string_dtype())])
    row["x"], row["t"] = nan("<f4", 0xFFC00007)[0], "text"

    def write(file: h5py.File) -> None:
        file.attrs.create("sequences", sequences, dtype=h5py.vlen_dtype("<f8"))
        file.attrs.create("row", row, dtype=row.dtype)

    attributes = back(write).attrs
    assert attributes["sequences"][0].tobytes() == sequences[0].tobytes()
    assert attributes["row"]["x"].tobytes() == row["x"].tobytes()


def test_an_attribute_that_was_changed_in_zarr_has_its_new_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["x"] = nan("<f8", 0x7FF8000000000005)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=2)
    document = tmp_path / "a.zarr" / ".zattrs"
    attributes = json.loads(document.read_text())
    attributes["x"][2] = 5.0
    document.write_text(json.dumps(attributes))
    (tmp_path / "a.zarr" / ".zmetadata").unlink()
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file.attrs["x"][1:].tolist() == [0.0, 5.0]


def test_a_nan_payload_in_rows_with_text_is_reported(tmp_path):
    row = np.zeros(2, [("x", "<f8"), ("t", h5py.string_dtype())])
    row["x"], row["t"] = nan("<f8", 0x7FF8000000000005)[:2], "text"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("table", data=row)
    with pytest.warns(UserWarning, match="table: a NaN in rows with text or references loses its sign and payload"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr")


@pytest.mark.parametrize("code", ["<i4", ">f8", "|u1", "?", "S4"])
def test_fill_values_of_scalars(back, code):
    value = np.ones((), code) if code != "S4" else np.array(b"ab", code)
    found = back(lambda file: file.create_dataset("x", data=np.zeros((), code), fillvalue=value))
    assert found["x"].fillvalue == value


def test_a_fill_value_with_a_payload(back):
    fill = nan(">f4", 0x7FC00005)[:1].reshape(())
    found = back(lambda file: file.create_dataset("x", (4, 4), ">f4", chunks=(2, 2), fillvalue=fill))
    kept = np.zeros((), ">f4")
    found["x"].id.get_create_plist().get_fill_value(kept)
    assert kept.tobytes() == fill.tobytes()
    assert found["x"][:1, 0].tobytes() == fill.tobytes()


@pytest.mark.parametrize("padding", [h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD])
@pytest.mark.parametrize("charset", [h5t.CSET_ASCII, h5t.CSET_UTF8])
def test_padding_of_text_of_variable_length(back, padding, charset):
    tid = h5t.C_S1.copy()
    tid.set_size(h5t.VARIABLE)
    tid.set_strpad(padding)
    tid.set_cset(charset)

    def write(file: h5py.File) -> None:
        h5d.create(file.id, b"array", tid, h5s.create_simple((2,)))
        h5d.create(file.id, b"scalar", tid, h5s.create(h5s.SCALAR))
        attribute = h5a.create(file.id, b"text", tid, h5s.create(h5s.SCALAR))
        attribute.write(np.array("a", h5py.string_dtype()))

    found = back(write)
    for node in (found["array"].id, found["scalar"].id, found.attrs.get_id("text")):
        assert node.get_type().equal(tid)
        assert node.get_type().get_strpad() == padding


def order_of_links(group: h5py.Group) -> list[bytes]:
    names: list[bytes] = []
    group.id.links.iterate(names.append, idx_type=h5.INDEX_CRT_ORDER)
    return names


def order_of_attributes(node: Any) -> list[bytes]:
    names: list[bytes] = []
    h5a.iterate(node.id, names.append, index_type=h5.INDEX_CRT_ORDER)
    return names


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_orders_of_creation(back):
    def write(file: h5py.File) -> None:
        for name in ("z", "m", "a"):
            file.create_group(name, track_order=name == "m")
        file["soft"] = h5py.SoftLink("/a")
        file["external"] = h5py.ExternalLink("elsewhere.h5", "/x")
        file["hard"] = file["a"]
        data = file.create_dataset("data", data=np.arange(3), track_order=True)
        for node in (file, file["m"], data):
            for number, name in enumerate(("last", "first", "middle", *"zyxwvutsrq")):
                node.attrs[name] = number
        for name in "qwertzuiop":
            file["m"][name] = 1

    found = back(write, track_order=True)
    assert order_of_links(found) == [b"z", b"m", b"a", b"soft", b"external", b"hard", b"data"]
    assert order_of_links(found["m"]) == [name.encode() for name in "qwertzuiop"]
    assert [node.decode() for node in order_of_attributes(found)][:4] == ["last", "first", "middle", "z"]
    assert order_of_attributes(found["m"]) == order_of_attributes(found["data"]) == order_of_attributes(found)
    assert found["z"].id.get_create_plist().get_link_creation_order() == 0
    assert found["hard"] == found["a"]
    assert found["data"][:].tolist() == [0, 1, 2]


def test_a_file_without_orders_keeps_none(back, tmp_path):
    found = back(lambda file: file.create_group("group").create_dataset("data", data=[1]))
    for node in (found["/"], found["group"]):
        assert node.id.get_create_plist().get_link_creation_order() == 0
    assert "_order" not in "".join(path.read_text() for path in tmp_path.rglob("*zmetadata"))
    assert "_order" not in "".join(path.read_text() for path in tmp_path.rglob("zarr.json"))


def twelve_bits() -> Any:
    tid = h5t.STD_U32LE.copy()
    tid.set_precision(12)
    tid.set_offset(2)
    return tid


@pytest.mark.parametrize("form", ["plain", "field", "array", "sequence"])
@pytest.mark.parametrize("place", ["attribute", "null attribute", "dataset", "type"])
def test_types_that_use_few_of_their_bits(back, form, place):
    tid = twelve_bits()
    if form == "field":
        tid = h5t.create(h5t.COMPOUND, 4)
        tid.insert(b"a", 0, twelve_bits())
    elif form == "array":
        tid = h5t.array_create(tid, (2,))
    elif form == "sequence":
        if place == "dataset":
            pytest.skip("refused")
        tid = h5t.vlen_create(tid)

    def write(file: h5py.File) -> None:
        if place == "dataset":
            h5d.create(file.id, b"x", tid, h5s.create_simple((2,)))
        elif place == "type":
            tid.copy().commit(file.id, b"x")
        else:
            h5a.create(
                file.id, b"x", tid, h5s.create(h5s.NULL) if place == "null attribute" else h5s.create_simple((0,))
            )

    found = back(write)
    node = found["x"].id if place in ("dataset", "type") else found.attrs.get_id("x")
    assert (node if place == "type" else node.get_type()).equal(tid)


def test_named_types_stay_the_types_of_datasets_and_attributes(back):
    def write(file: h5py.File) -> None:
        file["types/row"] = np.dtype([("a", "<i4"), ("b", ">f8")])
        file["alias"] = file["types/row"]
        file.create_dataset("data", (3,), file["types/row"])
        file.attrs.create("x", np.zeros(1, file["types/row"].dtype), dtype=file["types/row"])
        file["types/row"].attrs.create("own", h5py.Empty("<u2"))
        file["reference"] = file["types/row"].ref

    found = back(write)
    address = h5py.h5o.get_info(found["types/row"].id).addr
    for tid in (found["data"].id.get_type(), found.attrs.get_id("x").get_type()):
        assert tid.committed()
        assert h5py.h5o.get_info(tid).addr == address
    assert h5py.h5o.get_info(found["alias"].id).addr == address
    assert found["types/row"].attrs["own"] == h5py.Empty("<u2")
    assert found[found["reference"][()]] == found["types/row"]


def test_arrays_of_rows_with_gaps(back):
    row = h5t.create(h5t.COMPOUND, 12)
    row.insert(b"a", 4, h5t.STD_B16BE)
    row.insert(b"b", 8, h5t.IEEE_F32BE)
    tid = h5t.array_create(row, (2, 2))
    found = back(lambda file: h5d.create(file.id, b"x", tid, h5s.create_simple((3,))))
    assert found["x"].shape == (3,)
    assert found["x"].id.get_type().equal(tid)
