"""JSON text, with orjson and without it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.stores import json_text as jsontext
from tests.strategies import JSON


def _load(text: bytes, *, fast: bool) -> object:
    kept = jsontext._loads
    if not fast:
        jsontext._loads = None
    try:
        return jsontext.load(text, key="k")
    finally:
        jsontext._loads = kept


@given(JSON, st.booleans())
def test_values_come_back_and_the_document_is_strict_utf8(value, fast):
    text = jsontext.dump(value, strict=True)
    assert json.loads(text.decode("utf-8")) == value
    found = _load(text, fast=fast)
    assert found == value
    assert repr(found) == repr(value)  # 1 is not 1.0, 0.0 is not -0.0


@given(st.integers() | st.integers(2**63 - 2, 2**64 + 2) | st.integers(-(2**63) - 2, -(2**63) + 2), st.booleans())
def test_integers_of_any_size_stay_integers(number, fast):
    found = _load(jsontext.dump([number, {"x": number}]), fast=fast)
    assert found == [number, {"x": number}]
    assert type(found[0]) is int


@given(st.floats(), st.booleans())
def test_numbers_come_back_to_the_last_bit(number, fast):
    found = _load(jsontext.dump(number), fast=fast)
    assert repr(found) == repr(number)


# a high surrogate before a low one is a character, and comes back as that
LONE = st.text(
    st.characters(categories=["Cs"], max_codepoint=0xDBFF) | st.characters(exclude_categories=["Cs"]), max_size=5
)
ESCAPED = st.text(
    st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF) | st.characters(codec="latin-1"), max_size=5
)


@given(LONE | ESCAPED, st.booleans())
def test_surrogates_without_a_partner_come_back_and_the_document_is_utf8(text, fast):
    document = jsontext.dump({text: text})
    assert json.loads(document.decode("utf-8")) == {text: text}
    assert _load(document, fast=fast) == {text: text}


def test_the_text_is_compact_and_not_escaped():
    assert jsontext.dump({"größe": [1, None, True]}) == '{"größe":[1,null,true]}'.encode()


def test_tokens_are_written_unless_asked_to_be_strict():
    text = jsontext.dump([math.nan, math.inf, -math.inf])
    assert text == b"[NaN,Infinity,-Infinity]"
    assert [str(value) for value in jsontext.load(text, key="k")] == ["nan", "inf", "-inf"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsontext.dump([math.nan], strict=True)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"nul", b"\xff", b'"\xff"', b"[1,]", b"9" * 5000, b"[" * 10**6, b'{"a":1}x']
)
@pytest.mark.parametrize("fast", [True, False])
def test_what_is_no_json_names_the_document(text, fast):
    with pytest.raises(MetadataError, match="'k' is not JSON"):
        _load(text, fast=fast)


@pytest.mark.parametrize("encoding", ["utf-8", "UTF_8", "latin-1", "utf-16"])
def test_text_in_other_encodings(encoding):
    assert jsontext.parse_fast('["größe"]'.encode(encoding), encoding=encoding) == ["größe"]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("text", ['{"a":' * 1001 + "NaN" + "}" * 1001, "[" * 5000 + "]" * 5000, "[" * 2000])
def test_what_is_nested_too_deep_is_refused_whatever_python_could_read(text, fast):
    with pytest.raises(MetadataError, match="RecursionError"):
        _load(text.encode(), fast=fast)


@pytest.mark.parametrize("fast", [True, False])
def test_many_brackets_are_no_depth(fast):
    value = {"text": "[{" * 3000, "quoted": '"[' * 3000, "many": [[{}]] * 3000, "nan": 0.5}
    text = jsontext.dump(value).replace(b"0.5", b"NaN")
    found = _load(text, fast=fast)
    assert isinstance(found, dict)
    assert {**found, "nan": 0.5} == value
