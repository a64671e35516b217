"""HDF5 types, values and regions as JSON: what is decoded is what was encoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5s, h5t

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.hdf5.references import decode_region, encode_region
from hdmf_zarr_backend.hdf5.types import decode_type, encode_type, memory_type, type_of_dtype
from hdmf_zarr_backend.hdf5.values import decode_array, encode_array
from tests.everything import ASCII, ODD_ROW, PADDED_ROW, PLAIN_ROW, REF, REGION, UTF8, fixed_text, references


def of_numpy(dtype: Any) -> Any:
    return h5t.py_create(np.dtype(dtype), logical=True)


def opaque(size: int, tag: bytes) -> Any:
    tid = h5t.create(h5t.OPAQUE, size)
    tid.set_tag(tag)
    return tid


def enum(base: Any, **members: int) -> Any:
    tid = h5t.enum_create(base)
    for name, value in members.items():
        tid.enum_insert(name.encode(), value)
    return tid


def number(base: Any, *, precision: int, offset: int = 0, size: int | None = None, fields: Any = None) -> Any:
    tid = base.copy()
    if fields is not None:
        tid.set_fields(*fields[:5])
        tid.set_ebias(fields[5])
    tid.set_precision(precision)
    if size is not None:
        tid.set_size(size)
    tid.set_offset(offset)
    return tid


TYPES: dict[str, tuple[Any, Any]] = {
    **{code: (of_numpy(code), code) for code in ("|i1", "<i2", ">i4", "<u8", "|u1", "<f2", ">f4", "<f8")},
    "bool": (of_numpy("?"), "bool"),
    "wide bool": (enum(h5t.STD_I32LE, FALSE=0, TRUE=1), {"enum": [["FALSE", 0], ["TRUE", 1]], "base": "<i4"}),
    "enum": (enum(h5t.STD_I16BE, red=1, blue=-2), {"enum": [["red", 1], ["blue", -2]], "base": ">i2"}),
    "object": (of_numpy(REF), "object"),
    "region": (of_numpy(REGION), "region"),
    "utf-8": (of_numpy(UTF8), {"text": "utf-8"}),
    "ascii": (of_numpy(ASCII), {"text": "ascii"}),
    "fixed": (fixed_text(5, h5t.STR_SPACEPAD, h5t.CSET_UTF8), {"text": "utf-8", "size": 5, "pad": "spacepad"}),
    "opaque": (opaque(3, b"tag"), {"opaque": 3, "tag": "tag"}),
    "bits": (h5t.STD_B16BE, {"bitfield": ">u2"}),
    "time": (of_numpy(h5py.opaque_dtype("M8[s]")), {"opaque": 8, "tag": "NUMPY:<M8[s]"}),
    "complex": (of_numpy(">c8"), {"fields": [["r", ">f4"], ["i", ">f4"]]}),
    "array": (of_numpy(("<i2", (2, 3))), {"array": "<i2", "shape": [2, 3]}),
    "sequence": (of_numpy(h5py.vlen_dtype(REF)), {"sequence": "object"}),
    "12 bits": (
        number(h5t.STD_U16LE, precision=12, offset=2),
        {"number": "<u2", "precision": 12, "offset": 2},
    ),
    "bfloat16": (
        number(h5t.IEEE_F16LE, precision=16, fields=(15, 7, 8, 0, 7, 127)),
        {"number": "<f2", "precision": 16, "offset": 0, "fields": [15, 7, 8, 0, 7], "bias": 127},
    ),
    "padded": (
        of_numpy(PADDED_ROW),
        {"fields": [["a", "|i1"], ["b", "<f8"]], "offsets": [0, 8], "size": 16},
    ),
    "row": (
        of_numpy(ODD_ROW),
        {
            "fields": [
                ["target", "object"],
                ["triple", {"array": "<i2", "shape": [3]}],
                ["inner", {"fields": [["x", "<f8"], ["y", {"text": "ascii", "size": 3, "pad": "nullpad"}]]}],
                ["flag", "bool"],
                ["z", {"fields": [["r", "<f4"], ["i", "<f4"]]}],
                ["text", {"text": "ascii", "size": 4, "pad": "nullpad"}],
                ["name", {"text": "ascii"}],
            ]
        },
    ),
}


@pytest.mark.parametrize(("tid", "expected"), TYPES.values(), ids=TYPES)
def test_a_type_is_its_json_and_back(tid: Any, expected: Any) -> None:
    encoded = encode_type(tid)
    assert encoded == expected
    decoded = decode_type(json.loads(json.dumps(encoded)))
    assert decoded.equal(tid)
    assert memory_type(decoded, writing=True).get_size() == decoded.dtype.itemsize


@pytest.mark.parametrize("dtype", ["<i4", ">f8", "?", "S5", "V3", "<c16", ("<i2", (3,)), PLAIN_ROW])
def test_the_type_of_a_numpy_dtype_is_that_of_h5py(dtype: Any) -> None:
    assert decode_type(type_of_dtype(np.dtype(dtype))).equal(of_numpy(dtype))


@pytest.mark.parametrize("dtype", ["M8[s]", ">m8[10ms]", [("t", "M8[D]")]])
def test_hdf5_has_no_type_for_dates(dtype: Any) -> None:
    with pytest.raises(ValueRefusedError, match="HDF5 has no data type"):
        decode_type(type_of_dtype(np.dtype(dtype)))


@pytest.mark.parametrize("value", ["<f16", {"fields": [["a", "<f16"]]}])
def test_a_long_double_is_refused_with_what_to_do(value: Any) -> None:
    with pytest.raises(ValueRefusedError, match=r"16 bytes .* Convert the data to float64"):
        decode_type(value)


@pytest.mark.parametrize(
    "value",
    [
        *("<i3", "words", {}, {"text": "latin"}, {"opaque": 0, "tag": ""}, {"fields": []}, None, 3, ["a"]),
        {"text": "ascii", "size": 10**12, "pad": "nullpad"},
        {"enum": [["a", 1]], "base": "<f4"},
        {"fields": [["a", "<i4"], ["b", "<i4"]], "offsets": [0, 0], "size": 4},
        {"number": "<u2", "precision": 16},
    ],
)
def test_what_is_no_type_is_refused(value: Any) -> None:
    with pytest.raises(MetadataError, match="is not an HDF5 type"):
        decode_type(value)


def test_a_type_that_nests_without_end_is_refused() -> None:
    value: Any = "<i4"
    for _ in range(100):
        value = {"array": value, "shape": [1]}
    with pytest.raises(MetadataError, match="nested too deep"):
        decode_type(value)


def test_a_type_without_a_word_in_numpy_is_refused() -> None:
    with pytest.raises(ValueRefusedError, match="has no counterpart in NumPy"):
        encode_type(number(h5t.STD_I32LE, precision=20, size=3))


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Any:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["target"] = np.arange(60).reshape(6, 10)
        yield file


def test_rows_are_their_json_and_back(file: h5py.File) -> None:
    rows = np.zeros((2, 1), ODD_ROW)
    rows["target"][:, 0] = references(file["target"], None)
    rows["triple"], rows["z"], rows["inner"]["x"] = [1, 2, 3], 1 - 2j, np.nan
    rows["name"][:, 0] = [b"\xff", "å".encode()]
    rows["text"] = b"ab"
    kind = encode_type(of_numpy(ODD_ROW))
    encoded = encode_array(rows, kind, lambda ref: file[ref].name if ref else None)
    assert encoded[0][0] == [
        *("/target", [1, 2, 3], ["NaN", ""], False, [1.0, -2.0], "ab"),
        {"base64": "/w=="},
    ]
    assert encoded[1][0][0] is None
    decoded = decode_array(
        json.loads(json.dumps(encoded)), (2, 1), kind, ODD_ROW, lambda name: file[name].ref if name else None
    )
    assert file[decoded["target"][0, 0]] == file["target"]
    for name in ("triple", "z", "flag", "text", "name"):
        assert decoded[name].tolist() == rows[name].tolist(), name


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([1.5, np.nan, -np.inf, -0.0]), "<f8"),
        (np.array([2**63 - 1, -(2**63)]), "<i8"),
        (np.array([[True], [False]]), "bool"),
        (np.array([b"\0a\xff", b"b"], "V3"), {"opaque": 3, "tag": ""}),
        (np.arange(12, dtype="<i2").reshape(2, 2, 3), {"array": "<i2", "shape": [3]}),
        (np.array(b"text", object), {"text": "utf-8"}),
        (np.zeros((0, 2), "<f4"), "<f4"),
    ],
)
def test_values_are_their_json_and_back(values: Any, kind: Any) -> None:
    dtype = decode_type(kind).dtype
    encoded = json.loads(json.dumps(encode_array(values, kind, lambda ref: None), allow_nan=False))
    decoded = decode_array(encoded, values.shape[: values.ndim - len(dtype.shape)], kind, dtype, lambda ref: None)
    assert decoded.dtype == values.dtype
    assert decoded.tobytes() == values.tobytes() if not values.dtype.hasobject else decoded.tolist() == values.tolist()


def test_values_that_do_not_fit_their_type_are_refused() -> None:
    for value, kind in (
        ("text", "<f8"),
        ([1], {"fields": [["a", "<i4"], ["b", "<i4"]]}),
        ("a", {"opaque": 3, "tag": ""}),
    ):
        with pytest.raises(MetadataError, match="does not fit the HDF5 type"):
            decode_array(value, (), kind, decode_type(kind).dtype, lambda ref: None)


# ---- regions --------------------------------------------------------------------------------------------------------


def hyperslabs(*slabs: Any) -> Callable[[Any], None]:
    def select(space: Any) -> None:
        space.select_none()
        for slab in slabs:
            space.select_hyperslab(*slab, op=h5s.SELECT_OR)

    return select


REGIONS: dict[str, tuple[Callable[[Any], None], Any]] = {
    "all": (lambda space: space.select_all(), [{"slice": [0, 6, 1]}, {"slice": [0, 10, 1]}]),
    "nothing": (lambda space: space.select_none(), [{"index": []}, {"index": []}]),
    "points": (
        lambda space: space.select_elements(np.array([[3, 4], [0, 1]], "u8")),
        {"points": [[3, 4], [0, 1]]},
    ),
    "block": (hyperslabs(((1, 2), (1, 1), (1, 1), (3, 4))), [{"slice": [1, 4, 1]}, {"slice": [2, 6, 1]}]),
    "steps": (hyperslabs(((0, 1), (3, 3), (2, 3), (1, 1))), [{"slice": [0, 5, 2]}, {"slice": [1, 8, 3]}]),
    "wide steps": (
        hyperslabs(((0, 1), (3, 3), (2, 3), (1, 2))),
        [{"slice": [0, 5, 2]}, {"index": [1, 2, 4, 5, 7, 8]}],
    ),
    "rows": (
        hyperslabs(((0, 0), (1, 1), (1, 1), (1, 10)), ((3, 0), (1, 1), (1, 1), (2, 10))),
        [{"index": [0, 3, 4]}, {"slice": [0, 10, 1]}],
    ),
    "corners": (
        hyperslabs(((0, 1), (1, 1), (1, 1), (1, 2)), ((3, 5), (1, 1), (1, 1), (2, 1))),
        {"points": [[0, 1], [0, 2], [3, 5], [4, 5]]},
    ),
}


@pytest.mark.parametrize(("select", "expected"), REGIONS.values(), ids=REGIONS)
def test_a_region_is_its_json_and_back(file: h5py.File, select: Callable[[Any], None], expected: Any) -> None:
    space = file["target"].id.get_space()
    select(space)
    assert encode_region(space) == expected
    again = file["target"].id.get_space()
    decode_region(expected, again)
    assert encode_region(again) == expected
    assert again.get_select_npoints() == space.get_select_npoints()


def test_the_region_of_a_scalar_is_all_of_it(file: h5py.File) -> None:
    space = h5s.create(h5s.SCALAR)
    assert encode_region(space) == []
    decode_region([], space)
    assert space.get_select_npoints() == 1


def test_slices_of_regions_may_leave_out_what_python_lets_them(file: h5py.File) -> None:
    space = h5d.open(file.id, b"target").get_space()
    decode_region([{"slice": [None, 3, None]}, {"slice": [4, None, 2]}], space)
    assert encode_region(space) == [{"slice": [0, 3, 1]}, {"slice": [4, 9, 2]}]


@pytest.mark.parametrize(
    "region", [[{"slice": [0, 1, 1]}], {"points": [[9, 9]]}, {"x": 1}, 3, [{"index": [0, 7]}, {"index": [0]}], [{}, {}]]
)
def test_a_region_that_does_not_fit_is_refused(file: h5py.File, region: Any) -> None:
    with pytest.raises(MetadataError, match="does not fit its target"):
        decode_region(region, file["target"].id.get_space())
