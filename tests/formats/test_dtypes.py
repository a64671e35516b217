"""The table of data types, in every direction."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest
from hypothesis import given

from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.formats.dtypes import (
    NUMPY_OF_WORD,
    OPEN_WORDS,
    WORDS,
    dtype_of,
    from_zarr_type,
    kind_of,
    number_name,
    numpy_dtype,
    numpy_of,
    plain,
    word_of,
    zarr_type,
)
from hdmf_zarr_backend.formats.elements import hdmf_type, type_element
from hdmf_zarr_backend.formats.type_codes import NUMBERS as TABLE
from hdmf_zarr_backend.formats.zarr3_types import decode_type, encode_type
from tests.strategies import NUMBERS as NUMBER_TYPES
from tests.strategies import PLAIN, STRUCTURED, TIMES


@given(PLAIN | STRUCTURED)
def test_a_type_comes_back_from_what_the_file_calls_it(dtype):
    data_type = json.loads(json.dumps(zarr_type(dtype)))
    assert from_zarr_type(data_type) == dtype
    assert numpy_dtype(data_type) == dtype
    assert plain(dtype) == dtype


@given(NUMBER_TYPES | TIMES)
def test_the_name_of_a_number_leads_back_to_it(dtype):
    name = number_name(dtype)
    assert kind_of(name) == "number"
    assert numpy_of(name) == dtype.newbyteorder("=")
    assert word_of(dtype) == name


@pytest.mark.parametrize(
    ("dtype", "data_type"),
    [
        ("i1", "|i1"),
        ("u1", "|u1"),
        ("?", "|b1"),
        ("<f4", "<f4"),
        (">f4", ">f4"),
        ("S0", "|S1"),
        ("U0", "<U1"),
        ("M8[ns]", "<M8[ns]"),
        ([("a", "i1"), ("b", "<f4", (2, 3))], [["a", "|i1"], ["b", "<f4", [2, 3]]]),
        ([("a", [("b", ">u2")])], [["a", [["b", ">u2"]]]]),
    ],
)
def test_what_a_file_calls_a_type(dtype, data_type):
    assert zarr_type(np.dtype(dtype)) == data_type


@pytest.mark.parametrize("dtype", ["O", "g", "G", "V0", [("a", "O")], [("a", "g")], np.dtypes.StringDType()])
def test_types_that_zarr_does_not_have_are_refused(dtype):
    with pytest.raises(ValueRefusedError) as caught:
        zarr_type(np.dtype(dtype))
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [("g", "Convert the data to float64 or complex128."), ("G", "Convert the data to float64 or complex128.")],
)
def test_the_advice_for_numbers_that_zarr_does_not_have(dtype, remedy):
    with pytest.raises(ValueRefusedError) as caught:
        zarr_type(np.dtype(dtype))
    assert str(caught.value) == f"Zarr has no data type for {np.dtype(dtype)}. {remedy}"


def test_plain_types_have_no_padding_no_metadata_and_no_empty_text():
    h5py = pytest.importorskip("h5py")
    padded = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})
    assert plain(padded) == np.dtype([("a", "i1"), ("b", "f8")])
    enum = h5py.enum_dtype({"no": 0, "yes": 1}, basetype="u1")
    assert plain(enum) == np.dtype("u1")
    assert plain(enum).metadata is None
    assert plain(np.dtype([("e", enum), ("s", "S0")])) == np.dtype([("e", "u1"), ("s", "S1")])
    assert plain(h5py.string_dtype()) == np.dtype(object)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *((word, "number") for word in NUMPY_OF_WORD),
        *WORDS.items(),
        *((word, None) for word in sorted(OPEN_WORDS)),
        ("<f4", "number"),
        ("datetime64[ns]", "number"),
        ("S5", "bytes"),
        ("<U5", "text"),
        ("V5", "compound"),
        ("O", None),
        ("|O", None),
    ],
)
def test_kinds_of_type_names(word, kind):
    assert kind_of(word) == kind


@pytest.mark.parametrize("word", ["nonsense", "", "(1,", "f4,(", "int33"])
def test_an_unknown_type_name_is_refused(word):
    with pytest.raises(ValueRefusedError, match="not a data type"):
        kind_of(word)


class RefSpec:
    def __init__(self, reftype: str) -> None:
        self.reftype = reftype


@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        (None, None),
        ("int32", "int32"),
        (str, "utf8"),
        (bytes, "ascii"),
        (np.str_, "utf8"),
        (np.bytes_, "ascii"),
        (int, "int64"),
        (float, "float64"),
        (bool, "bool"),
        (np.uint8, "uint8"),
        (object, None),
        (datetime.datetime, None),
        (np.dtype("O"), None),
        (np.dtype("S3"), "ascii"),
        (np.dtype("U3"), "utf8"),
        (np.dtype([("a", "i4")]), None),
        ({"reftype": "object", "target_type": "X"}, "object"),
        ({"reftype": "region"}, "region"),
        (RefSpec("object"), "object"),
        ([{"name": "a", "dtype": "int"}], [{"name": "a", "dtype": "int"}]),
    ],
)
def test_type_names_of_builders(dtype, word):
    assert word_of(dtype) == word


def test_a_dtype_of_another_kind_is_refused():
    with pytest.raises(ValueRefusedError, match="not a data type"):
        word_of(5)


def test_type_names_have_the_widths_of_the_specification():
    assert {word: NUMPY_OF_WORD[word].str for word in ("int", "float", "long", "double", "uint", "short")} == {
        "int": "<i4",
        "float": "<f4",
        "long": "<i8",
        "double": "<f8",
        "uint": "<u4",
        "short": "<i2",
    }


@pytest.mark.parametrize("name", TABLE)
def test_both_formats_have_each_number_of_the_table(name):
    number = TABLE[name]
    for order, endian in (("<", "little"), (">", "big")):
        dtype = np.dtype(name).newbyteorder(order)
        data_type = zarr_type(dtype)
        element = type_element(data_type)
        assert data_type == number.ordered(order)
        assert numpy_dtype(data_type) == dtype
        assert (element.kind, element.size, hdmf_type(element)) == (number.kind, number.size, name)
        assert dtype_of(element) == np.dtype(name)
        assert encode_type(data_type) == name
        assert decode_type(name, endian) == data_type
    assert numpy_of(name) == np.dtype(name)
