"""What HDF5 says and Zarr does not comes back in HDF5: one thing at a time, in both formats."""

import errno
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import numpy as np
import pytest
from h5py import h5a, h5d, h5o, h5p, h5s, h5t
from hdmf.backends.warnings import BrokenLinkWarning

from hdmf_zarr_backend import ZarrDataIO, compare, convert, repair, verify
from hdmf_zarr_backend.encoding.elements import to_hdmf
from hdmf_zarr_backend.encoding.hdf5_types import to_hdf5, to_note
from hdmf_zarr_backend.errors import ResourceError, ValueRefusedError
from hdmf_zarr_backend.hdf5.tree import Hdf5Tree
from hdmf_zarr_backend.model.element import Unknown
from hdmf_zarr_backend.options import ReadOptions
from tests.everything import bfloat16, fixed_text, low_level
from tests.hdf5.independent_comparison import differences
from tests.smallfiles import edited_json
from tests.trees import dataset, read_builder, root, write_builder

Write = Callable[[h5py.File], Any]
TEXT = h5py.string_dtype()


def there_and_back(folder: Path, write: Write, zarr_format: int = 2, *, track_order: bool = False) -> Path:
    with h5py.File(folder / "a.h5", "w", track_order=track_order, libver=("v108", "latest")) as file:
        write(file)
    convert(folder / "a.h5", folder / "a.zarr", zarr_format=zarr_format)
    convert(folder / "a.zarr", folder / "b.h5")
    return folder / "b.h5"


def sequences(*values: Any) -> np.ndarray[Any, Any]:
    result = np.empty(len(values), object)
    result[:] = values
    return result


def nan(code: str, bits: int) -> np.ndarray[Any, Any]:
    dtype = np.dtype(code)
    return np.array([bits, 0, 1], f"{code[0]}u{dtype.itemsize}").view(dtype)


def big_endian_sequences(code: str) -> Write:
    def write(file: h5py.File) -> None:
        row = np.zeros(1, [("n", code), ("s", h5py.vlen_dtype(code))])
        row["s"][0] = np.array([1, 2, 515], code)
        values = sequences(np.array([1, 2, 515], code), np.array([7], code))
        file.attrs.create("sequences", values, dtype=h5py.vlen_dtype(code))
        file.attrs.create("rows", row, dtype=row.dtype)

    return write


def nan_payload(code: str, bits: int) -> Write:
    def write(file: h5py.File) -> None:
        values = nan(code, bits)
        file.attrs.create("array", values)
        file.attrs.create("scalar", values[0], dtype=values.dtype)
        if values.itemsize > 2:
            file.attrs.create("complex", np.repeat(values, 2).view(f"{code[0]}c{2 * values.itemsize}"))

    return write


def names_of_fields(file: h5py.File) -> None:
    """Write sequences of letters as MATLAB does, each of them text with a terminator for which it has no room."""
    names = [np.frombuffer(name, "S1") for name in (b"time", b"x")]
    pointers = np.array([(name.size, name.ctypes.data) for name in names], "u8, u8")
    tid = h5t.vlen_create(h5t.C_S1)
    h5a.create(file.id, b"MATLAB_fields", tid, h5s.create_simple((2,))).write(pointers, tid)
    assert np.concatenate(file.attrs["MATLAB_fields"]).tobytes() == b"timex"


def nan_payloads_in_sequences_and_rows(file: h5py.File) -> None:
    row = np.zeros((), [("x", "<f4"), ("t", TEXT)])
    row["x"], row["t"] = nan("<f4", 0xFFC00007)[0], "text"
    file.attrs.create("sequences", sequences(nan("<f8", 0x7FF8000000000005)), dtype=h5py.vlen_dtype("<f8"))
    file.attrs.create("row", row, dtype=row.dtype)


def fill_of_scalar(code: str) -> Write:
    value = np.ones((), code) if code != "S4" else np.array(b"ab", code)
    return lambda file: file.create_dataset("x", data=np.zeros((), code), fillvalue=value)


def fill_of_zero(file: h5py.File) -> None:
    for code in ("<i2", ">f4", "?", "S3", "i4,>f8"):
        for shape in ((4,), ()):
            for fill in (np.zeros((), code)[()], None):
                file.create_dataset(f"{code} {shape} {fill is None}", shape, code, fillvalue=fill)


def fill_with_payload(file: h5py.File) -> None:
    file.create_dataset("x", (4, 4), ">f4", chunks=(2, 2), fillvalue=nan(">f4", 0x7FC00005)[:1].reshape(()))


def fill_times(file: h5py.File) -> None:
    for time in (h5d.FILL_TIME_ALLOC, h5d.FILL_TIME_NEVER):
        for layout in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
            for fill in (0, 7):
                created = h5p.create(h5p.DATASET_CREATE)
                created.set_layout(layout)
                created.set_fill_value(np.array(fill, "i4"))
                created.set_fill_time(time)
                if layout == h5d.CHUNKED:
                    created.set_chunk((4,))
                name = f"{time}-{layout}-{fill}".encode()
                node = h5d.create(file.id, name, h5t.STD_I32LE, h5s.create_simple((6,)), created)
                node.write(h5s.ALL, h5s.ALL, np.full(6, fill, "i4"))


def padded_text(padding: int, charset: int) -> Write:
    def write(file: h5py.File) -> None:
        tid = fixed_text(h5t.VARIABLE, padding, charset)
        h5d.create(file.id, b"array", tid, h5s.create_simple((2,)))
        h5d.create(file.id, b"scalar", tid, h5s.create(h5s.SCALAR))
        h5a.create(file.id, b"text", tid, h5s.create(h5s.SCALAR)).write(np.array("a", TEXT))

    return write


def chunks_of_nothing(file: h5py.File) -> None:
    """Write datasets without rows, for which h5py chooses chunks that are longer than they can ever be."""
    for shape in ((0,), (0, 3)):
        file.create_dataset(f"numbers {shape}", shape, "f8", compression="gzip")
        file.create_dataset(f"text {shape}", shape, TEXT, compression="gzip")


def orders(file: h5py.File) -> None:
    for name in ("z", "m", "a"):
        file.create_group(name, track_order=name == "m")
    file["soft"] = h5py.SoftLink("/a")
    file["external"] = h5py.ExternalLink("elsewhere.h5", "/x")
    file["hard"] = file["a"]
    for node in (file, file["m"], file.create_dataset("data", data=np.arange(3), track_order=True)):
        for number, name in enumerate(("last", "first", "middle", *"zyxwvutsrq")):
            node.attrs[name] = number
    for name in "qwertzuiop":
        file["m"][name] = 1


def bits(kind: Any, precision: int, offset: int) -> Any:
    tid = kind.copy()
    tid.set_precision(precision)
    tid.set_offset(offset)
    return tid


def few_bits(form: str, place: str) -> Write:
    def write(file: h5py.File) -> None:
        tid = twelve = bits(h5t.STD_U32LE, 12, 2)
        if form == "field":
            tid = h5t.create(h5t.COMPOUND, 4)
            tid.insert(b"a", 0, twelve)
        elif form == "array":
            tid = h5t.array_create(twelve, (2,))
        elif form == "sequence":
            tid = h5t.vlen_create(twelve)
        if place == "dataset":
            h5d.create(file.id, b"x", tid, h5s.create_simple((2,)))
        elif place == "type":
            tid.copy().commit(file.id, b"x")
        else:
            h5a.create(file.id, b"x", tid, h5s.create(h5s.NULL) if "null" in place else h5s.create_simple((0,)))

    return write


def named_types(file: h5py.File) -> None:
    file["types/row"] = np.dtype([("a", "<i4"), ("b", ">f8")])
    file["alias"] = file["types/row"]
    file.create_dataset("data", (3,), file["types/row"])
    file.attrs.create("x", np.zeros(1, file["types/row"].dtype), dtype=file["types/row"])
    file["types/row"].attrs.create("own", h5py.Empty("<u2"))
    file["reference"] = file["types/row"].ref


def rows_with_gaps(file: h5py.File) -> None:
    row = h5t.create(h5t.COMPOUND, 12)
    row.insert(b"a", 4, h5t.STD_B16BE)
    row.insert(b"b", 8, h5t.IEEE_F32BE)
    h5d.create(file.id, b"x", h5t.array_create(row, (2, 2)), h5s.create_simple((3,)))


def small_floats_in_rows(*names: str) -> Write:
    """Write rows with a float that NumPy has only in a larger type, whose fields h5py would let overlap."""

    def write(file: h5py.File) -> None:
        types = {"small": bfloat16(), "number": h5t.STD_I32LE}
        row = h5t.create(h5t.COMPOUND, 6)
        for name in names:
            row.insert(name.encode(), 0 if name == names[0] else types[names[0]].get_size(), types[name])
        values = np.zeros(2, [(name, "<f4" if name == "small" else "<i4") for name in names])
        values["small"], values["number"] = [1.5, -2], [3, 4]
        low_level(file, "rows", row, values)
        h5a.create(file.id, b"rows", row, h5s.create_simple((2,))).write(values)

    return write


def float24() -> Any:
    """Return the type of floats of 3 bytes, which NumPy has only in a larger type."""
    tid = h5t.IEEE_F32LE.copy()
    tid.set_fields(23, 15, 8, 0, 15)
    tid.set_precision(24)
    tid.set_size(3)
    return tid


def float20() -> Any:
    """Return the type of floats of 20 bits in the middle of 4 bytes, as an Nbit filter keeps them."""
    tid = h5t.IEEE_F32BE.copy()
    tid.set_fields(26, 20, 6, 7, 13)
    tid.set_ebias(31)
    tid.set_offset(7)
    tid.set_precision(20)
    return tid


def small_floats_with_fill(make: Callable[[], Any], fill: float) -> Write:
    def write(file: h5py.File) -> None:
        chunked = h5p.create(h5p.DATASET_CREATE)
        chunked.set_chunk((2,))
        chunked.set_fill_value(np.array(fill, "f4"))
        h5d.create(file.id, b"data", make(), h5s.create_simple((4,), (h5s.UNLIMITED,)), chunked)
        h5a.create(file.id, b"number", make(), h5s.create(h5s.SCALAR)).write(np.array(fill, "f4"))

    return write


def tagged(tag: bytes) -> Write:
    """Write opaque values, with a tag that may name a type of NumPy which their bytes are not."""

    def write(file: h5py.File) -> None:
        opaque = h5t.create(h5t.OPAQUE, 4)
        opaque.set_tag(tag)
        row = h5t.create(h5t.COMPOUND, 4)
        row.insert(b"a", 0, opaque)
        values = np.array([b"\xff" * 4, b"d", b"\0a"], "V4")
        for name, tid in {"plain": opaque, "row": row, "array": h5t.array_create(opaque, (1,))}.items():
            low_level(file, name, tid, values, tid)
            h5a.create(file.id, name.encode(), tid, h5s.create_simple((3,))).write(values, tid)
        h5d.create(file.id, b"scalar", opaque, h5s.create(h5s.SCALAR)).write(h5s.ALL, h5s.ALL, values[:1], opaque)
        h5a.create(file.id, b"scalar", opaque, h5s.create(h5s.SCALAR)).write(values[:1].reshape(()), opaque)

    return write


def bools_from_true_to_false(file: h5py.File) -> None:
    """Write enumerations of which h5py makes a bool too, although TRUE is their first member."""
    for name, base in {"one byte": h5t.STD_U8LE, "like h5py": h5t.STD_I8LE, "big-endian": h5t.STD_I16BE}.items():
        tid = h5t.enum_create(base)
        tid.enum_insert(b"TRUE", 1)
        tid.enum_insert(b"FALSE", 0)
        low_level(file, name, tid, np.array([True, False]), h5t.py_create(np.dtype("?"), logical=True))
        h5a.create(file.id, name.encode(), tid, h5s.create(h5s.SCALAR))


def opaque_numbers(file: h5py.File) -> None:
    """Write numbers that h5py stores as opaque values with a tag that names their type."""
    for name, code in {"int": "<i4", "float": ">f8", "bool": "?", "complex": "<c8"}.items():
        file[name] = values = np.array([1, 0, 1], code).astype(h5py.opaque_dtype(np.dtype(code)))
        file[name].attrs["opaque"] = values


def opaque_numbers_in_sequences_and_rows(code: str) -> Write:
    """Write numbers that are opaque in HDF5, with their byte order in the tag, where a note has them as JSON."""

    def write(file: h5py.File) -> None:
        opaque = h5py.opaque_dtype(np.dtype(code))
        values = np.array([1, 2, 515], "i8").astype(code)
        sequence = np.empty(1, h5py.vlen_dtype(opaque))
        sequence[0] = values.view(opaque)
        file.attrs.create("sequences", sequence, dtype=sequence.dtype)
        rows = np.zeros(3, [("text", TEXT), ("number", opaque)])
        rows["text"], rows["number"] = "text", values
        file.attrs.create("rows", rows)
        file["rows"] = rows

    return write


def large_attributes(file: h5py.File) -> None:
    file["data"] = np.arange(3)
    file["data"].attrs["large"] = np.arange(20_000)
    file.attrs["large"] = ["text" * 10] * 5000


NANS = [("f2", 0x7E05), ("f2", 0xFE00), ("f4", 0x7FC00005), ("f4", 0x7F800001), ("f8", 0x7FF8000000000005),
        ("f8", 0xFFF0000000000001)]  # fmt: skip
PADDINGS = (h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD)

FILES: dict[str, Write] = {
    **{f"sequences of {code}": big_endian_sequences(code) for code in (">i2", ">i4", ">u8", ">f4", ">f8", "<i4")},
    **{f"NaN {bits:x} of {order}{code}": nan_payload(order + code, bits) for code, bits in NANS for order in "<>"},
    "names of fields of MATLAB": names_of_fields,
    "NaN in sequences and rows of attributes": nan_payloads_in_sequences_and_rows,
    **{f"fill value of a scalar {code}": fill_of_scalar(code) for code in ("<i4", ">f8", "|u1", "?", "S4")},
    "fill value of zero": fill_of_zero,
    "fill value with a payload": fill_with_payload,
    "fill times": fill_times,
    **{f"text padded by {padding} of {charset}": padded_text(padding, charset)
       for padding in PADDINGS for charset in (h5t.CSET_ASCII, h5t.CSET_UTF8)},
    **{f"few bits: {form}, {place}": few_bits(form, place)
       for form in ("plain", "field", "array", "sequence")
       for place in ("attribute", "null attribute", "dataset", "type")
       if (form, place) != ("sequence", "dataset")},  # which is refused
    "named types of datasets and attributes": named_types,
    "arrays of rows with gaps": rows_with_gaps,
    "rows that begin with small floats": small_floats_in_rows("small", "number"),
    "rows that end with small floats": small_floats_in_rows("number", "small"),
    **{f"{make.__name__} with the fill value {fill}": small_floats_with_fill(make, fill)
       for make in (bfloat16, float20, float24) for fill in (np.nan, -np.nan, 1.5)},
    **{f"opaque values with the tag {tag.decode()}": tagged(tag)
       for tag in (b"some tag", b"NUMPY:<U1", b"NUMPY:|S4", b"NUMPY:i2,i2", b"NUMPY:(2,)i2")},
    "bools from TRUE to FALSE": bools_from_true_to_false,
    "opaque numbers": opaque_numbers,
    **{f"opaque numbers {code} in sequences and rows": opaque_numbers_in_sequences_and_rows(code)
       for code in (">i8", "<i8", ">f4", ">c8", "?", "<M8[s]", ">M8[s]", "S3")},
    "large attributes": large_attributes,
    "chunks of nothing": chunks_of_nothing,
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_it_comes_back(tmp_path, name, zarr_format):
    assert differences(tmp_path / "a.h5", there_and_back(tmp_path, FILES[name], zarr_format)) == []
    assert compare(tmp_path / "a.h5", tmp_path / "a.zarr") == []
    assert verify(tmp_path / "a.zarr").problems == []
    assert repair(tmp_path / "a.zarr", drop_links=True).done == []


@pytest.mark.parametrize("dtype", [
    h5py.vlen_dtype("longdouble"),  # h5py reads it, and cannot create the type of its elements
    h5py.opaque_dtype("S3"),
], ids=str)  # fmt: skip
def test_files_are_compared_whose_types_zarr_lacks(tmp_path, dtype):
    for name, value in {"a": 1, "b": 2, "again": 1}.items():
        values = np.array([value]).astype("S3").astype(dtype)
        if dtype.hasobject:
            values[0] = np.array([value], "longdouble")
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("data", data=values, dtype=dtype)
            file.attrs.create("attribute", values, dtype=dtype)
    assert compare(tmp_path / "a.h5", tmp_path / "again.h5") == []
    assert [each.path for each in compare(tmp_path / "a.h5", tmp_path / "b.h5")] == ["/", "/data"]


def test_a_fill_value_that_does_not_come_back_is_a_remark(tmp_path):
    path, number, reference = tmp_path / "a.h5", h5t.STD_U64LE.encode()[2:], h5t.STD_REF_OBJ.encode()[2:]
    with h5py.File(path, "w") as file:
        address = h5o.get_info(file.create_group("target").id).addr
        file.create_dataset("numbers", data=np.zeros(2, "<u4"), fillvalue=7)
        file.create_dataset("null", (2,), "<u8", fillvalue=0)
        file.create_dataset("cells", (2,), "<u8", fillvalue=address)
    # h5py cannot make a fill value that is a reference
    path.write_bytes(path.read_bytes().replace(number, reference.ljust(len(number), b"\0")))
    (remark,) = convert(path, tmp_path / "a.zarr").remarks
    assert remark.startswith("a copy in HDF5 will not have the fill value of 1 dataset")
    assert remark.endswith(": /cells")
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert [(each.path, each.kind) for each in compare(path, tmp_path / "b.h5")] == [("/cells", "fill")]


def test_references_of_a_type_that_h5py_lacks_are_refused_by_its_name(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        h5d.create(file.id, b"x", h5t.decode(b"\x03\0G\x12\0\0@\0\0\0"), h5s.create_simple((2,)))
    with pytest.raises(ValueRefusedError, match=r"H5T_STD_REF, .* Store them as H5T_STD_REF_OBJ"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr")


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_references_in_attributes_to_a_deleted_object_are_null(tmp_path, zarr_format):
    def write(file: h5py.File) -> None:
        deleted = file.create_dataset("deleted", data=[1])
        file.attrs["scalar"] = deleted.ref
        file.attrs.create("array", np.array([deleted.ref, file.ref], object), dtype=h5py.ref_dtype)
        del file["deleted"]

    with h5py.File(there_and_back(tmp_path, write, zarr_format)) as file:
        assert not file.attrs["scalar"]
        null, other = file.attrs["array"]
        assert not null
        assert file[other].name == "/"


def test_a_reference_in_an_attribute_is_resolved_once(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_group("group").attrs["to"] = file.create_dataset("outside", data=[1]).ref
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group"] = h5py.ExternalLink("other.h5", "/group")
    with pytest.warns(BrokenLinkWarning, match="/outside.* not part of the new file") as caught:
        convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert len(caught) == 1
    stored = json.loads((tmp_path / "a.zarr" / "group" / ".zattrs").read_text())["to"]["value"]
    assert (stored["source"], stored["path"]) == ("../other.h5", "/outside")


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
@pytest.mark.parametrize("track_order", [True, False])
def test_orders_of_creation(tmp_path, track_order, zarr_format):
    back = there_and_back(tmp_path, orders, zarr_format, track_order=track_order)
    assert differences(tmp_path / "a.h5", back) == []


def test_a_file_without_orders_keeps_none(tmp_path, zarr_format):
    back = there_and_back(tmp_path, lambda file: file.create_dataset("group/data", data=[1]), zarr_format)
    assert differences(tmp_path / "a.h5", back) == []
    with h5py.File(back) as file:
        assert not file["group"].id.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
    assert "_order" not in (tmp_path / "a.zarr" / (".zmetadata" if zarr_format == 2 else "zarr.json")).read_text()


def enumeration(base: Any, *names: bytes) -> Any:
    tid = h5t.enum_create(base)
    for number, name in enumerate(names):
        tid.enum_insert(name, number)
    return tid


def padded(kind: Any) -> Any:
    tid = h5t.create(h5t.COMPOUND, 24)
    tid.insert(b"r", 0, kind)
    tid.insert(b"i", 12, kind)
    return tid


@pytest.mark.parametrize(("make", "note"), [
    (lambda: enumeration(h5t.STD_I8LE, b"FALSE", b"TRUE"), {}),
    (lambda: enumeration(h5t.STD_U8LE, b"FALSE", b"TRUE"),
     {"enum": {"FALSE": 0, "TRUE": 1}, "type": {"enum": [["FALSE", 0], ["TRUE", 1]], "base": "|u1"}}),
    (lambda: enumeration(h5t.STD_I16BE, b"red"), {"enum": {"red": 0}}),
    (lambda: h5t.STD_B16BE, {"type": {"bitfield": ">u2"}}),
    (lambda: bits(h5t.STD_U16LE, 12, 2), {"type": {"number": "<u2", "precision": 12, "offset": 2}}),
    (lambda: padded(h5t.IEEE_F64LE),
     {"type": {"fields": [["r", "<f8"], ["i", "<f8"]], "offsets": [0, 12], "size": 24}}),
    (lambda: h5t.py_create(h5py.opaque_dtype("<M8[D]"), logical=True),
     {"type": {"opaque": 8, "tag": "NUMPY:<M8[D]"}}),
], ids=["bool", "bool-of-another-size", "enumeration", "bit-field", "bits", "padded-complex", "dates"])  # fmt: skip
def test_the_note_of_a_dataset_names_the_type_that_zarr_lacks(tmp_path, make, note):
    def write(file: h5py.File) -> None:
        h5d.create(file.id, b"data", make(), h5s.create_simple((3,)))

    back = there_and_back(tmp_path, write)
    assert json.loads((tmp_path / "a.zarr" / "data" / ".zattrs").read_text())["_hdmf"]["hdf5"] == note
    with h5py.File(back) as file:
        assert file["data"].id.get_type() == make()


@pytest.mark.parametrize("function", [to_note, to_hdf5, to_hdmf])
def test_an_element_of_an_unknown_kind_is_no_reference(function):
    with pytest.raises(ValueRefusedError, match=r"for unknown \(f8e4\)"):
        function(Unknown("f8e4"))


def test_opaque_numbers_are_compared_by_value(tmp_path):
    for name in ("a.h5", "b.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            opaque_numbers(file)
    with h5py.File(tmp_path / "b.h5", "a") as file:
        values = file["int"][()]
        values[1] = 7
        file["int"][...] = values
    (result,) = compare(tmp_path / "a.h5", tmp_path / "b.h5")
    assert (result.path, result.kind, result.place, result.a, result.b) == ("/int", "value", "[1]", 0, 7)


@pytest.mark.parametrize("size", [2, 16, 4096])
def test_opaque_values_with_a_tag_of_numbers_of_another_size(tmp_path, size):
    """h5py takes the tag at its word, and HDF5 would write the bytes beyond the end of the array."""
    path = tmp_path / "a.h5"
    tid = h5t.create(h5t.OPAQUE, size)
    tid.set_tag(b"NUMPY:<i4")
    with h5py.File(path, "w") as file:
        low_level(file, "x", tid, np.ones(100, f"V{size}"), tid)
    assert compare(path, path) == []
    with pytest.raises(ValueRefusedError, match=f"of class 5 and {size} bytes has no counterpart in NumPy"):
        convert(path, tmp_path / "a.zarr", check=False)


def test_an_attribute_that_was_changed_in_zarr_has_its_new_value(tmp_path):
    there_and_back(tmp_path, nan_payload("<f8", 0x7FF8000000000005))
    with edited_json(tmp_path / "a.zarr" / ".zattrs") as attributes:
        attributes["array"][2] = 5.0
    (tmp_path / "a.zarr" / ".zmetadata").unlink()
    convert(tmp_path / "a.zarr", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as file:
        assert file.attrs["array"][1:].tolist() == [0.0, 5.0]


def test_a_missing_chunk_is_stored_where_hdf5_does_not_fill(tmp_path):
    def write(file: h5py.File) -> None:
        created = h5p.create(h5p.DATASET_CREATE)
        created.set_chunk((2**16,))
        created.set_fill_time(h5d.FILL_TIME_NEVER)
        node = h5d.create(file.id, b"x", h5t.STD_I64LE, h5s.create_simple((2**18,)), created)
        node.write(h5s.ALL, h5s.ALL, np.arange(2**18))

    there_and_back(tmp_path, write)
    (tmp_path / "a.zarr" / "x" / "1").unlink()
    convert(tmp_path / "a.zarr", tmp_path / "c.h5", read_options=ReadOptions(missing_chunks="fill"))
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["x"].id.get_num_chunks() == 4
        assert file["x"].id.get_create_plist().get_fill_time() == h5d.FILL_TIME_NEVER
        assert not file["x"][2**16 : 2**17].any()


@pytest.mark.parametrize("filters", [
    [[1, 0, [999]]], [[4, 1, []]], [[4, 1, [4, 0]]], [[307, 0, [77]]], [[32000, 0, []]], [[1, 1, [4] * 300]],
    [[2, 1, [2]], [2, 0, []]],
], ids=str)  # fmt: skip
def test_filters_that_fail_do_not_end_the_process(tmp_path, filters):
    """HDF5 crashes when it closes a file with a chunk that a mandatory filter refuses."""
    values = np.random.default_rng(0).integers(0, 2**16, 40, "u2")
    there_and_back(tmp_path, lambda file: file.create_dataset("x", data=values, chunks=(16,)))
    with edited_json(tmp_path / "a.zarr" / "x" / ".zattrs") as attributes:
        attributes["_hdmf"]["hdf5"]["filters"] = filters
    (tmp_path / "a.zarr" / ".zmetadata").unlink()
    convert(tmp_path / "a.zarr", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["x"][()].tolist() == values.tolist()


def test_text_of_another_program_that_is_json_remains_what_it_is(tmp_path, zarr_format):
    """Values that HDF5 has no type for are text in a compound of one field; others may have such text."""
    row = np.dtype([("json", TEXT)])
    like = ["[1, 2]", "[1, 2.5]", "[true, false]", '["a", "b"]', "[NaN]", "[[1, 2], [3, 4]]", '["\\u0000"]', '"a"', "5"]

    def write(file: h5py.File) -> None:
        for number, text in enumerate([*like, '[1, "a"]']):
            file.attrs.create(f"x{number}", np.array((text,), row), dtype=row)

    assert differences(tmp_path / "a.h5", there_and_back(tmp_path, write, zarr_format)) == []
    assert read_builder(tmp_path / "a.zarr").attributes == {f"x{len(like)}": [1, "a"]}


def test_a_nan_payload_in_rows_with_text_is_reported(tmp_path):
    row = np.zeros(2, [("x", "<f8"), ("t", TEXT)])
    row["x"], row["t"] = nan("<f8", 0x7FF8000000000005)[:2], "text"
    with pytest.warns(UserWarning, match="table: a NaN in rows with text or references loses its sign and payload"):
        there_and_back(tmp_path, lambda file: file.create_dataset("table", data=row))


def test_an_object_whose_id_cannot_be_read_is_an_error_each_time(tmp_path: Path) -> None:
    h5py.File(tmp_path / "a.h5", "w").close()
    with closing(Hdf5Tree(str(tmp_path / "a.h5"), str(tmp_path / "a.zarr"))) as tree:
        for _ in range(2):
            with pytest.raises(KeyError):
                tree.object_id(tree.main, b"/missing")


def test_a_neighbour_that_the_system_cannot_read_now_is_no_missing_one(tmp_path, monkeypatch):
    for name in ("a", "b"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_group("x")
        convert(tmp_path / f"{name}.h5", tmp_path / f"{name}.zarr")
    attributes = tmp_path / "a.zarr" / ".zattrs"
    link = {"name": "y", "source": "../b.zarr", "path": "/x"}
    attributes.write_text(json.dumps({**json.loads(attributes.read_text()), "zarr_link": [link]}))
    (tmp_path / "a.zarr" / ".zmetadata").unlink()

    refusing = Mock(side_effect=OSError(errno.EMFILE, "too many open files"))
    monkeypatch.setattr(h5py.File, "__contains__", refusing)
    with pytest.raises(ResourceError):
        convert(tmp_path / "a.zarr", tmp_path / "c.h5")


@pytest.mark.parametrize("codec", ["zstd", "blosc", "zlib"])
def test_data_of_zarr_need_no_plug_in_in_hdf5(codec: str, tmp_path: Path) -> None:
    values = ZarrDataIO(np.arange(60_000, dtype="i4"), chunks=(20_000,), compressor=codec)
    convert(write_builder(tmp_path / "a.zarr", root(dataset("x", values))), tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        created = file["x"].id.get_create_plist()
        filters = {created.get_filter(number)[0] for number in range(created.get_nfilters())}
        assert h5py.h5z.FILTER_DEFLATE in filters
        assert filters <= {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}
        assert file["x"][-1] == 59_999


def test_floats_of_16_bytes_without_a_word_for_their_type(tmp_path: Path) -> None:
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<f16", "compressor": None, "filters": None}
    (tmp_path / "a.zarr" / "x").mkdir(parents=True)
    (tmp_path / "a.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "a.zarr" / "x" / ".zarray").write_text(json.dumps({**array, "order": "C", "fill_value": 0}))
    (tmp_path / "a.zarr" / "x" / "0").write_bytes(bytes(range(32)))
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert (tmp_path / "b.zarr" / "x" / "0").read_bytes() == bytes(range(32))
    for target, options in (("c.zarr", {"zarr_format": 3}), ("c.h5", {})):
        with pytest.raises(ValueRefusedError, match="Convert the data to float64"):
            convert(tmp_path / "a.zarr", tmp_path / target, **options)
