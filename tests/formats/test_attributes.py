"""Attributes come back as they were: value, type and shape, through the text of the document."""

from __future__ import annotations

import copy
import datetime
import enum
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError, ReferenceTargetError, ValueRefusedError
from hdmf_zarr_backend.formats.attributes import (
    decode_attributes,
    encode_attributes,
    strict_attributes,
)
from hdmf_zarr_backend.formats.references import is_reference
from hdmf_zarr_backend.formats.reserved import DOC, NCZARR_ATTR, NOTES, RESERVED
from hdmf_zarr_backend.stores import json_text as jsontext
from tests.strategies import JSON, JSON_OBJECTS, NUMBERS, PLAIN, STRUCTURED, TEXT, TIMES, raw_arrays

STRICT = pytest.mark.parametrize("strict", [False, True], ids=["tokens", "strict"])

FLOATS = st.floats(width=64)
BYTES = st.binary(max_size=5)
SCALARS = st.booleans() | st.integers(-(2**80), 2**80) | FLOATS | TEXT | BYTES | st.complex_numbers()


def through_file(attributes: dict[str, Any], *, strict: bool = False, notes: dict[str, Any] | None = None) -> Any:
    """Return the attributes as they are after writing and reading the document."""
    document = encode_attributes(attributes, notes=notes if notes is not None else {}, strict=strict)
    text = jsontext.dump(document, strict=strict)
    read = json.loads(text, parse_constant=_refuse if strict else None)
    assert jsontext.load(text, key=".zattrs") == read or not strict
    return decode_attributes(jsontext.load(text, key=".zattrs"), resolve=lambda value: value)


def _refuse(token: str) -> Any:
    raise AssertionError(f"{token} is not strict JSON")


def assert_same(found: Any, wanted: Any) -> None:
    """Compare value, type and shape; NaN equals NaN, and -0.0 is not 0.0."""
    if isinstance(wanted, np.ndarray):
        assert isinstance(found, np.ndarray)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        if wanted.dtype.kind == "O":
            assert found.tolist() == wanted.tolist()
            assert [type(item) for item in found.flat] == [type(item) for item in wanted.flat]
        else:
            assert_same_numbers(found, wanted)
        return
    assert type(found) is type(wanted)
    if isinstance(wanted, np.generic):
        assert found.dtype == wanted.dtype
        assert_same_numbers(np.array(found), np.array(wanted))
    elif isinstance(wanted, (float, complex)):
        np.testing.assert_array_equal(found, wanted)
        assert str(found) == str(wanted)
    else:
        assert found == wanted


def assert_same_numbers(found: np.ndarray, wanted: np.ndarray) -> None:
    if wanted.dtype.names is not None:
        for name in wanted.dtype.names:
            assert_same_numbers(found[name], wanted[name])
        return
    np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.kind in "fc":
        parts = [(found.real, wanted.real), (found.imag, wanted.imag)]
        for one, other in parts:
            np.testing.assert_array_equal(np.signbit(one[~np.isnan(one)]), np.signbit(other[~np.isnan(other)]))


# ---- laws ----------------------------------------------------------------------------------------------------------


@STRICT
@given(array=raw_arrays(PLAIN))
def test_arrays_come_back(strict, array):
    assert_same(through_file({"x": array}, strict=strict)["x"], array)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # NumPy 2.0, comparing rows with NaN
@STRICT
@settings(max_examples=50)
@given(array=raw_arrays(STRUCTURED))
def test_rows_come_back(strict, array):
    assert_same(through_file({"x": array}, strict=strict)["x"], array)


@STRICT
@given(array=raw_arrays(NUMBERS | TIMES, shape=st.just(())))
def test_numpy_scalars_come_back_and_arrays_without_axes_as_scalars(strict, array):
    scalar = array[()]
    assert_same(through_file({"x": scalar}, strict=strict)["x"], scalar)
    assert_same(through_file({"x": array}, strict=strict)["x"], scalar)


@given(value=SCALARS)
def test_python_scalars_come_back(value):
    assert_same(through_file({"x": value})["x"], value)


@given(value=SCALARS)
@example(float("nan"))
@example(complex("nan"))
def test_python_scalars_come_back_strictly(value):
    found = through_file({"x": value}, strict=True)["x"]
    if isinstance(value, float) and not np.isfinite(value):
        value = np.float64(value)  # typed text needs a type
    assert_same(found, value)


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=4))
@example([2**63, -1])
@example([2**63, 2**64 - 1])
@example([-(2**63), 2**63 - 1])
def test_lists_of_integers_come_back_as_integers(values):
    found = through_file({"x": values})["x"]
    assert found.tolist() == values
    small = all(-(2**63) <= value < 2**63 for value in values)
    unsigned = all(0 <= value < 2**64 for value in values)
    assert found.dtype == ("i8" if small else "u8" if unsigned else object)


@STRICT
@given(st.lists(FLOATS | st.integers(-9, 9), min_size=1, max_size=4).filter(lambda v: any(type(n) is float for n in v)))
def test_lists_of_numbers_come_back_as_arrays(strict, values):
    assert_same(through_file({"x": values}, strict=strict)["x"], np.array(values, "f8"))


@given(st.sampled_from([TEXT, BYTES, BYTES.filter(lambda b: b > b"\x80")]).flatmap(lambda s: st.lists(s, max_size=4)))
def test_lists_of_text_and_bytes_come_back_as_arrays_of_objects(values):
    found = through_file({"x": values, "t": tuple(values)})
    if not values:
        assert found == {"x": [], "t": []}
        return
    wanted = np.empty(len(values), object)
    wanted[:] = values
    assert_same(found["x"], wanted)
    assert_same(found["t"], wanted)


@given(
    st.sampled_from([TEXT, BYTES]).flatmap(
        lambda leaf: st.integers(1, 3).flatmap(
            lambda n: st.lists(st.lists(leaf, min_size=n, max_size=n), min_size=1, max_size=3)
        )
    )
)
def test_nested_lists_and_object_arrays_of_text_and_bytes_keep_their_shape(rows):
    wanted = np.empty((len(rows), len(rows[0])), object)
    for index in np.ndindex(wanted.shape):
        wanted[index] = rows[index[0]][index[1]]
    found = through_file({"list": rows, "array": wanted})
    assert_same(found["list"], wanted)
    assert_same(found["array"], wanted)


@STRICT
@given(value=JSON.filter(lambda value: isinstance(value, dict)))
def test_json_comes_back_as_it_is(strict, value):
    assert_same(through_file({"x": value}, strict=strict)["x"], value)


@given(value=JSON.filter(lambda value: value is not None))
def test_what_was_decoded_can_be_encoded_again(value):
    once = decode_attributes({"x": value}, resolve=lambda reference: reference)
    again = through_file(once)
    assert again.keys() == once.keys()
    for name, found in again.items():
        assert_same(found, once[name])


@given(
    st.dictionaries(
        st.sampled_from([*sorted(RESERVED), "user_zarr_dtype", "user_hdmf", "user_hdmf_", DOC, "x"]) | TEXT,
        st.integers(),
    )
)
def test_names_that_are_reserved_come_back(attributes):
    notes: dict[str, Any] = {"version": "1.0"}
    encoded = encode_attributes(attributes, notes=notes)
    assert not (set(encoded) - {NOTES}) & RESERVED
    assert decode_attributes(encoded, resolve=lambda value: value) == attributes
    assert encoded[NOTES]["version"] == "1.0"


@given(JSON_OBJECTS, JSON, JSON)
def test_any_document_gives_values_or_our_error(attributes, types, note):
    attributes = {**attributes, NCZARR_ATTR: {"types": types}, NOTES: {"attributes": note, "escaped": note}}
    try:
        decode_attributes(attributes, resolve=lambda value: value)
    except MetadataError as error:
        assert error.remedy


_WORDS = st.sampled_from(["<f4", ">i2", "|b1", "|S3", "<U2", "<M8[s]", "|O", "str", "bytes", "list", "complex", "json",
                          "|V9999999999", "(1,", "<c8", "T", "<f2"])  # fmt: skip


@given(
    JSON,
    _WORDS | JSON,
    st.fixed_dictionaries(
        {}, optional={"dtype": _WORDS | JSON, "shape": JSON, "base64": JSON, "null": JSON, "text": JSON}
    ),
)
def test_any_type_beside_any_value_gives_a_value_or_our_error(value, kind, remark):
    attributes = {"x": value, NCZARR_ATTR: {"types": {"x": kind}}, NOTES: {"attributes": {"x": remark}}}
    try:
        decode_attributes(attributes, resolve=lambda reference: reference)
    except MetadataError as error:
        assert "'x'" in str(error)


# ---- cases ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "encoded", "kind"),
    [
        (np.uint8(3), 3, "<u1"),
        (np.int64(-3), -3, "<i8"),
        (np.float32(0.5), 0.5, "<f4"),
        (np.arange(2, dtype=">i2"), [0, 1], ">i2"),
        (np.zeros((2, 1), "f8"), [[0.0], [0.0]], "<f8"),
    ],
)
def test_numbers_have_the_name_that_nczarr_gives_their_type(value, encoded, kind):
    assert encode_attributes({"x": value}, notes={}) == {"x": encoded, NCZARR_ATTR: {"types": {"x": kind}}}


@pytest.mark.parametrize("value", ["text", 5, 2.5, True, ["a", "b"]])
def test_what_json_knows_needs_no_more(value):
    assert encode_attributes({"x": value}, notes={}) == {"x": value}


def signalling(dtype: str) -> Any:
    """Return an array of 1 and a NaN with a payload."""
    array = np.array([1, np.nan], dtype)
    array.view("u1").reshape(2, -1)[1, 0] = 1
    return array


@pytest.mark.parametrize(
    ("value", "encoded", "kind", "remark"),
    [
        (np.float16(0.5), 0.5, None, {"dtype": "<f2"}),
        (np.bool_(True), True, None, {"dtype": "|b1"}),
        (np.array([True, False]), [True, False], None, {"dtype": "|b1"}),
        (np.zeros((0, 2), "?"), [], None, {"dtype": "|b1", "shape": [0, 2]}),
        (np.int8(-1), -1, "<i1", None),
        (np.array([1, 2], ">u2"), [1, 2], ">u2", None),
        (np.zeros(0, "<i4"), [], "<i4", None),
        (np.zeros((2, 0), "<i4"), [[], []], "<i4", {"dtype": "<i4", "shape": [2, 0]}),
        (signalling("<f4"), [1.0, math.nan], "<f4", {"dtype": "<f4", "bits": "AACAPwEAwH8="}),
        (1 + 2j, [1.0, 2.0], None, {"dtype": "complex"}),
        (np.complex64(1 + 2j), [1.0, 2.0], None, {"dtype": "<c8", "shape": []}),
        (np.array([[1j]], ">c16"), [[[0.0, 1.0]]], None, {"dtype": ">c16", "shape": [1, 1]}),
        (np.datetime64(7, "s"), 7, None, {"dtype": "<M8[s]", "shape": []}),
        (np.array([1, 2], "<m8[ms]"), [1, 2], None, {"dtype": "<m8[ms]", "shape": [2]}),
        (np.array([(1, 2)], [("a", "|u1"), ("b", "<u2")]), "AQIA", None,
         {"dtype": [["a", "|u1"], ["b", "<u2"]], "shape": [1], "base64": True}),
        (b"text", "text", None, {"dtype": "bytes"}),
        (b"\xff", "/w==", None, {"dtype": "bytes", "shape": [], "base64": True}),
        ([b"a", b"\xff"], ["YQ==", "/w=="], None, {"dtype": "bytes", "shape": [2], "base64": True}),
        ([[b"a"], [b"b"]], [["a"], ["b"]], None, {"dtype": "bytes"}),
        (np.array([b"ab", b"c"], "S3"), ["ab", "c"], None, {"dtype": "|S3"}),
        (np.array([b"\xff"], "S2"), "/wA=", None, {"dtype": "|S2", "shape": [1], "base64": True}),
        (np.array([["ä"]], "<U2"), [["ä"]], None, {"dtype": "<U2"}),
        (np.zeros((0, 3), "<U2"), [], None, {"dtype": "<U2", "shape": [0, 3]}),
        (np.array([], object), [], None, {"dtype": "str", "shape": [0]}),
        (np.array(["a"], object), ["a"], None, None),
        ([2**63, -1], [2**63, -1], None, {"dtype": "|O"}),
        ([2**63, 0], [2**63, 0], "<u8", None),
        ([-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1], "<i8", None),
        ([], [], None, {"dtype": "list"}),
        ([[], []], [[], []], None, {"dtype": "json"}),
        ([1, "a"], [1, "a"], None, {"dtype": "json"}),
        ([[1], [2, 3]], [[1], [2, 3]], None, {"dtype": "json"}),
        ([True, 1], [True, 1], None, {"dtype": "json"}),
        ([1.5, 2], [1.5, 2.0], "<f8", None),
        ({"a": [1, None]}, {"a": [1, None]}, None, {"dtype": "json"}),
        (datetime.date(2024, 2, 29), "2024-02-29", None, None),
        ([[datetime.date(2024, 2, 29)]], [["2024-02-29"]], None, None),
        ({1, 2} - {1}, [2], "<i8", None),
    ],
)  # fmt: skip
def test_what_a_value_is_in_the_document(value, encoded, kind, remark):
    document = {
        "x": encoded,
        **({NCZARR_ATTR: {"types": {"x": kind}}} if kind else {}),
        **({NOTES: {"attributes": {"x": remark}}} if remark else {}),
    }
    assert repr(encode_attributes({"x": value}, notes={})) == repr(document)


@pytest.mark.parametrize(
    ("value", "encoded", "kind", "remark"),
    [
        (math.inf, "Infinity", "<f8", None),
        (np.float32(-math.inf), "-Infinity", "<f4", None),
        ([1.0, math.nan], [1.0, "NaN"], "<f8", None),
        (np.float16(math.nan), "NaN", None, {"dtype": "<f2"}),
        (complex(0, math.inf), [0.0, "Infinity"], None, {"dtype": "complex"}),
        ({"a": math.nan}, '{"a": NaN}', None, {"dtype": "json", "text": True}),
        ([math.inf, "a"], '[Infinity, "a"]', None, {"dtype": "json", "text": True}),
        (1.5, 1.5, None, None),
    ],
)
def test_what_a_value_is_in_a_document_of_strict_json(value, encoded, kind, remark):
    types = {NCZARR_ATTR: {"types": {"x": kind}}} if kind else {}
    notes = {NOTES: {"attributes": {"x": remark}}} if remark else {}
    strict = encode_attributes({"x": value}, notes={}, strict=True)
    assert strict == {"x": encoded, **types, **notes}
    later = strict_attributes(encode_attributes({"x": value}, notes={}))
    assert {key: part for key, part in later.items() if part not in ({"types": {}}, {"attributes": {}})} == strict


def test_attributes_that_are_strict_json_stay_what_they_are():
    attributes = encode_attributes({"x": np.float32(1), "y": {"a": 1}}, notes={"version": "1.0"})
    assert strict_attributes(attributes) is attributes
    before = encode_attributes({"x": np.float32(math.nan), "y": {"a": 1}, "z": math.inf}, notes={"version": "1.0"})
    kept = copy.deepcopy(before)
    assert strict_attributes(before) == {
        "x": "NaN", "y": {"a": 1}, "z": "Infinity", NCZARR_ATTR: {"types": {"x": "<f4", "z": "<f8"}},
        NOTES: {"version": "1.0", "attributes": {"y": {"dtype": "json"}}},
    }  # fmt: skip
    assert repr(before) == repr(kept)


@pytest.mark.parametrize(
    "kind",
    [">S1", "|S1", "|J0", "json", "<V4", 5, None, ["<f4"]],
)
def test_types_that_name_no_number_leave_the_value_to_json(kind):
    attributes = {"x": "abc", NCZARR_ATTR: {"types": {"x": kind}}}
    assert decode_attributes(attributes, resolve=lambda value: value) == {"x": "abc"}


def test_a_lone_surrogate_is_kept_and_the_document_stays_utf8():
    attributes = {"broken": "latin \udcb5", "names": ["\udcff", "ok"]}  # as h5py reads text that is not UTF-8
    text = jsontext.dump(encode_attributes(attributes, notes={}))
    assert text.decode("utf-8")
    found = through_file(attributes)
    assert found["broken"] == attributes["broken"]
    assert found["names"].tolist() == attributes["names"]


def test_nul_inside_and_at_the_end_of_text_is_kept():
    attributes = {"x": "a\0b\0", "y": ["\0", "a\0"], "z": [["a\0"], ["\0\0"]], "b": b"\0a\0", "c": [[b"\0"]]}
    found = through_file(attributes)
    assert found["x"] == "a\0b\0"
    assert found["y"].tolist() == ["\0", "a\0"]
    assert found["z"].tolist() == [["a\0"], ["\0\0"]]
    assert found["b"] == b"\0a\0"
    assert found["c"].tolist() == [[b"\0"]]


@pytest.mark.parametrize("value", [complex(1, float("inf")), np.complex64(complex(float("inf"), -0.0))])
@STRICT
def test_infinite_complex_numbers_come_back(value, strict):
    assert_same(through_file({"x": value}, strict=strict)["x"], value)


def test_a_dict_with_nan_is_strict_json_as_text():
    value = {"a": [float("inf")], "b": 1}
    assert through_file({"x": value}, strict=True)["x"] == value


def test_dates_come_back_as_text():
    when = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    found = through_file({"x": when, "y": when.date(), "z": [when, when]})
    assert found["x"] == "2024-02-29T12:00:00+00:00"
    assert found["y"] == "2024-02-29"
    assert found["z"].tolist() == [found["x"]] * 2


def test_padding_between_the_fields_of_a_row_is_dropped():
    padded = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})
    rows = np.zeros(2, padded)
    rows["b"] = [1.5, 2.5]
    found = through_file({"x": rows, "row": rows[1]})
    assert found["x"].dtype == np.dtype([("a", "i1"), ("b", "f8")])
    assert found["x"]["b"].tolist() == [1.5, 2.5]
    assert found["row"]["b"] == 2.5


def test_text_of_numpy_comes_back_as_text():
    words = np.array(["a", "größer"], dtype=np.dtypes.StringDType())
    found = through_file({"T": words, "U": np.str_("ü"), "S": np.bytes_(b"s"), "0-d": np.array("abc")})
    assert found["T"].dtype == object
    assert found["T"].tolist() == ["a", "größer"]
    assert (found["U"], found["S"], found["0-d"]) == ("ü", b"s", "abc")


def test_subclasses_are_what_they_derive_from():
    class Color(str, enum.Enum):  # noqa: UP042 - not every enumeration is a StrEnum
        RED = "red"

    class Level(enum.IntEnum):
        LOW = 1

    assert through_file({"c": Color.RED, "n": Level.LOW}) == {"c": "red", "n": 1}


def test_an_hdf5_attribute_without_a_value_keeps_its_type():
    h5py = pytest.importorskip("h5py")
    found = through_file({"x": h5py.Empty("f4"), "t": h5py.Empty(h5py.string_dtype())})
    assert (found["x"].dtype, found["x"].shape) == (np.dtype("f4"), (0,))
    assert found["t"].dtype == object


class Thing:
    pass


@pytest.mark.parametrize(
    "value",
    [
        Thing(),
        np.array([Thing()], dtype=object),
        np.array([1.5, "a"], dtype=object),
        np.array(["a", None], dtype=object),
        [Thing(), Thing()],
        [1, Thing()],
        {"a": Thing()},
        {1: "a"},
        {"a": [np.int8(1)]},
        {"a": {"b": {2}}},
        ["a", b"b"],
        [1, datetime.date(2024, 1, 1)],
        [np.True_, np.int8(1)],
        np.longdouble(1),
        np.zeros(2, "V0"),
        np.zeros(2, [("a", "i4"), ("b", "O")]),
        range(3),
        memoryview(b"x"),
    ],
)
def test_what_has_no_form_is_refused_by_name(value):
    with pytest.raises(ValueRefusedError, match="the attribute 'bad' cannot be stored") as caught:
        encode_attributes({"good": 1, "bad": value}, notes={})
    assert "dataset" in str(caught.value)


# ---- references ----------------------------------------------------------------------------------------------------

REFERENCE = {"zarr_dtype": "object", "value": {"source": ".", "path": "/a"}}


def _reference(value: Any) -> dict[str, Any] | None:
    return REFERENCE if isinstance(value, Thing) else None


def test_references_are_encoded_and_resolved_everywhere():
    attributes = {"one": Thing(), "list": [Thing(), Thing()], "array": np.array([Thing()], dtype=object)}
    encoded = encode_attributes(attributes, notes={}, reference=_reference)
    assert encoded == {"one": REFERENCE, "list": [REFERENCE, REFERENCE], "array": [REFERENCE]}
    found = decode_attributes(encoded, resolve=lambda value: value["value"]["path"])
    assert found == {"one": "/a", "list": ["/a", "/a"], "array": ["/a"]}


def test_a_list_that_mixes_references_with_values_is_refused():
    with pytest.raises(ValueRefusedError, match="mixes references"):
        encode_attributes({"x": [Thing(), 5]}, notes={}, reference=_reference)


def test_a_dict_that_looks_like_a_reference_is_a_dict():
    assert through_file({"x": dict(REFERENCE)})["x"] == REFERENCE
    assert is_reference(REFERENCE)
    assert not is_reference({"zarr_dtype": "object", "value": "/a"})
    assert not is_reference({"zarr_dtype": "text", "value": {}})


def test_an_error_of_the_resolver_is_not_taken_for_damage():
    def resolve(value: Any) -> Any:
        raise ReferenceTargetError("the file does not exist")

    with pytest.raises(ReferenceTargetError):
        decode_attributes({"x": REFERENCE}, resolve=resolve)


# ---- old and foreign files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ([1, 2.5], np.array([1.0, 2.5])),
        ([True, False], np.array([True, False])),
        ([True, 1], [True, 1]),
        ([1, "a"], [1, "a"]),
        ([[1], [1, 2]], [[1], [1, 2]]),
        ([["a"], ["b", "c"]], [["a"], ["b", "c"]]),
        ([], []),
        ([None, 1], [None, 1]),
        ({"a": 1}, {"a": 1}),
        (2**64, 2**64),
    ],
)
def test_json_of_others(value, decoded):
    found = decode_attributes({"x": value, "gone": None}, resolve=lambda reference: reference)
    assert list(found) == ["x"]
    assert_same(found["x"], decoded)


@pytest.mark.parametrize("kind", ["<i4", "<u1"])
def test_a_value_that_does_not_fit_its_type_is_named(kind):
    attributes = {"x": "not a number", NCZARR_ATTR: {"types": {"x": kind}}}
    with pytest.raises(MetadataError, match="'x' does not fit its type"):
        decode_attributes(attributes, resolve=lambda value: value)


def test_a_type_of_any_size_takes_no_memory():
    attributes = {"x": ["a"], NOTES: {"attributes": {"x": {"dtype": "|S9000000000"}}}}
    with pytest.raises(MetadataError, match="'x'"):
        decode_attributes(attributes, resolve=lambda value: value)


@pytest.mark.parametrize("note", [None, "text", 5, [], {"escaped": ["a"]}, {"escaped": {"other": "b"}}], ids=str)
def test_a_note_of_another_kind_hides_and_renames_nothing(note):
    assert decode_attributes({"a": 1, NOTES: note}, resolve=lambda value: value) == {"a": 1}
