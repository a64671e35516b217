"""The terms in which files are compared: texts of types, filters, values and selections in one form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend.model.content import (
    AttributeContent,
    FilterStep,
    LinkContent,
    canonical_region,
    hdf5_filter,
    plain_values,
    text_of,
)
from hdmf_zarr_backend.model.elements import Element, Reference

INT = Element("int", 4, "<")
TEXT = Element("text", encoding="utf-8")


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (INT, "int32 little-endian"),
        (Element("float", 8, ">"), "float64 big-endian"),
        (Element("uint", 1), "uint8"),
        (Element("reference"), "reference"),
        (TEXT, "variable-length utf-8 text"),
        (Element("text", 3, encoding="ascii", detail="null-padded"), "3-byte ascii text (null-padded)"),
        (Element("opaque", 5, detail="raw"), "opaque40 (raw)"),
        (
            Element("enum", 1, detail="uint", members=(("no", 0), ("yes", 1))),
            "enum8 {no=0, yes=1} (uint)",
        ),
        (Element("compound", fields=(("a", INT), ("b", Element("bool", 1)))), "{a: int32 little-endian, b: bool8}"),
        (Element("array", base=INT, shape=(2, 3)), "array[2, 3] of int32 little-endian"),
        (Element("sequence", base=INT), "sequence of int32 little-endian"),
        (Reference("/a"), "reference to /a"),
        (Reference("/a", source="/b.h5"), "reference to /b.h5:/a"),
        (Reference("/a", (("slice", (0, 2, 1)),)), "reference to /a {0: ('slice', (0, 2, 1))}"),
        (FilterStep("deflate", (4,)), "deflate(4)"),
        (FilterStep("nbit", (1, 2)), "nbit(1, 2)"),
        (LinkContent("soft", "/a"), "soft link to /a"),
        (LinkContent("external", "/a", "b.h5", "/x/b.h5"), "external link to b.h5:/a"),
        (AttributeContent(INT, (2,), np.array([1, 2])), "[1, 2] (int32 little-endian, shape (2,))"),
        (AttributeContent(INT, None, None), "None (int32 little-endian, shape None)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_texts_of_findings(element, text):
    assert str(element) == text


@pytest.mark.parametrize(
    ("code", "options", "itemsize", "step"),
    [
        (1, (4,), 4, FilterStep("deflate", (4,))),
        (2, (4,), 4, FilterStep("shuffle")),
        (2, (4,), None, FilterStep("shuffle")),
        (2, (2,), 4, FilterStep("shuffle", (2,))),
        (2, (4,), 2, FilterStep("shuffle", (4,))),
        (3, (), None, FilterStep("fletcher32")),
        (1, (4,), None, FilterStep("deflate", (4,))),
        (32015, (3,), 8, FilterStep("zstd", (3,))),
        (40000, (1, 2), 8, FilterStep("hdf5-40000", (1, 2))),
    ],
)
def test_steps_of_a_pipeline(code, options, itemsize, step):
    assert hdf5_filter(code, options, itemsize) == step


@pytest.mark.parametrize(
    ("item", "text"), [("ä", "ä"), ("ä".encode(), "ä"), (b"a\xff", "a\udcff"), (0, ""), (None, "")]
)
def test_elements_of_text(item, text):
    assert text_of(item) == text


def resolve(item: Any) -> Reference:
    return Reference(f"/{item}")


def objects(*items: Any) -> Any:
    """Return an object array of one axis."""
    made = np.empty(len(items), object)
    made[:] = items
    return made


def test_values_in_one_form():
    assert plain_values(objects("a", b"b", 0), TEXT, resolve).tolist() == ["a", "b", ""]
    for kind in ("reference", "region"):
        assert plain_values(objects("x", "y"), Element(kind), resolve).tolist() == [Reference("/x"), Reference("/y")]
    opaque = Element("opaque", 2)
    assert plain_values(np.array([b"ab", b"\0c"], "V2"), opaque, resolve).tolist() == [b"ab", b"\0c"]
    assert plain_values(objects(0), opaque, resolve).tolist() == [b"\0\0"]  # never written
    numbers = np.arange(6, dtype="<i4").reshape(2, 3)
    assert plain_values(numbers, INT, resolve) is numbers
    assert plain_values(numbers, Element("array", base=INT, shape=(3,)), resolve) is numbers
    texts = plain_values(np.array([[b"a", b"b"]], object), Element("array", base=TEXT, shape=(2,)), resolve)
    assert (texts.shape, texts.tolist()) == ((1, 2), [["a", "b"]])


def test_sequences_have_the_byte_order_of_their_type():
    stored = np.array([1, 2], ">i4").view("=i4")  # as h5py returns it
    found = plain_values(objects(stored, 0), Element("sequence", base=Element("int", 4, ">")), resolve)
    assert [part.tolist() for part in found] == [[1, 2], []]
    single = plain_values(objects(np.array([1], "u1")), Element("sequence", base=Element("uint", 1)), resolve)
    assert single[0].tolist() == [1]


def test_rows_keep_the_axes_of_their_fields():
    rows = np.zeros((2, 1), [("n", "<i4", (3,)), ("to", object), ("name", "S3")])
    rows["n"], rows["to"], rows["name"] = [1, 2, 3], "x", b"abc"
    fields = (("n", Element("array", base=INT, shape=(3,))), ("to", Element("reference")), ("name", TEXT))
    found = plain_values(rows, Element("compound", fields=fields), resolve)
    assert found.shape == (2, 1)
    assert found.dtype == np.dtype([("n", "<i4", (3,)), ("to", object), ("name", object)])
    assert found["n"].tolist() == [[[1, 2, 3]]] * 2
    assert found["to"].tolist() == [[Reference("/x")]] * 2
    assert found["name"].tolist() == [["abc"]] * 2


@pytest.mark.parametrize(
    ("region", "shape", "meant"),
    [
        (None, (4,), None),
        ([{"slice": [0, 4, 2]}], None, (("slice", (0, 3, 2)),)),
        ([{"slice": [1, 3, None]}], None, (("slice", (1, 3, 1)),)),
        ([{"slice": [1, 9, 1]}], (4,), (("slice", (1, 4, 1)),)),
        ([{"slice": [None, -1, None]}], (4,), (("slice", (0, 3, 1)),)),
        ([{"slice": [2, 3, 5]}], (4,), (("slice", (2, 3, 1)),)),
        ([{"index": [2]}], None, (("slice", (2, 3, 1)),)),
        ([{"index": [1, 3, 5]}], None, (("slice", (1, 6, 2)),)),
        ([{"index": [3, 1]}], None, (("index", (3, 1)),)),
        ([{"index": []}], None, (("none", ()),)),
        ([{"slice": [3, 3, 1]}, {"index": [0]}], (4, 4), (("none", ()),)),
        ({"points": []}, (4,), (("none", ()),)),
        ({"points": [[1, 2], [0, 0]]}, (4, 4), (("points", ((1, 2), (0, 0))),)),
        ([{"slice": [None, 2, 1]}], None, (("unknown", ('[{"slice": [null, 2, 1]}]',)),)),
        ([{"b": 1, "a": 2}], (4,), (("unknown", ('[{"a": 2, "b": 1}]',)),)),
        ({"points": [5]}, (4,), (("unknown", ('{"points": [5]}',)),)),
    ],
    ids=str,
)  # fmt: skip
def test_selections_have_one_form(region, shape, meant):
    assert canonical_region(region, shape) == meant
