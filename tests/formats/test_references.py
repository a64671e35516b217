"""References and links <-> their dicts in documents; other JSON is an error of ours."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.links import Link, decode_links, encode_link, link_or_copy
from hdmf_zarr_backend.formats.references import (
    Reference,
    decode_attribute_reference,
    decode_reference,
    encode_attribute_reference,
    encode_reference,
    is_reference,
)
from hdmf_zarr_backend.model.nodes import absolute
from tests.strategies import JSON, NAMES, TEXT

PATHS = st.lists(NAMES, max_size=3).map("/".join).map(absolute)
REGIONS = st.none() | st.sampled_from(
    [
        [{"slice": [0, 4, 1]}],
        [{"slice": [0, 4, 2]}, {"index": [3, 1]}],
        {"points": [[0, 1], [2, 3]]},
    ]
)
REFERENCES = st.builds(
    Reference,
    st.sampled_from([".", "../b.zarr", "s3://x/b.zarr"]) | TEXT,
    PATHS,
    st.none() | TEXT,
    st.none() | TEXT,
    REGIONS,
)


@given(REFERENCES)
def test_a_reference_comes_back(reference):
    assert decode_reference(json.loads(json.dumps(encode_reference(reference)))) == reference
    encoded = encode_attribute_reference(reference)
    assert is_reference(encoded)
    assert encoded["zarr_dtype"] == ("object" if reference.region is None else "region")
    assert decode_attribute_reference(json.loads(json.dumps(encoded))) == reference


@given(st.lists(st.builds(Link, NAMES, REFERENCES), max_size=3))
def test_links_come_back_in_their_order(links):
    attributes = {"zarr_link": [encode_link(link) for link in links]}
    assert decode_links(json.loads(json.dumps(attributes))) == links


def test_a_reference_says_what_the_specification_lists():
    reference = Reference(".", "a/b", "id", "root-id")
    assert encode_reference(reference) == {
        "source": ".",
        "path": "/a/b",
        "object_id": "id",
        "source_object_id": "root-id",
    }
    assert reference.node_path == "a/b"
    assert encode_link(Link("n", reference)) == {"name": "n", **encode_reference(reference)}


def test_old_entries_have_source_and_path_only_and_unknown_keys_are_ignored():
    assert decode_reference({"source": "../b.zarr", "path": "/a", "new": 1}) == Reference("../b.zarr", "/a")
    assert decode_reference({"path": "/a", "object_id": 5}) == Reference(".", "/a")
    assert decode_links({}) == []


@given(JSON)
def test_any_json_is_a_reference_or_our_error(value):
    for given_value in (value, {"path": "/a", "region": value}, {"path": value}):
        try:
            decode_reference(given_value)
        except MetadataError as error:
            assert error.remedy
    try:
        decode_links({"zarr_link": value})
    except MetadataError as error:
        assert error.remedy


@pytest.mark.parametrize("entries", [5, {}, [5], [{}], [{"name": 1, "path": "/a"}], [{"name": "a"}]])
def test_invalid_link_entries_are_refused(entries):
    with pytest.raises(MetadataError):
        decode_links({"zarr_link": entries})


# ---- link or copy --------------------------------------------------------------------------------------------------

SOURCE, TARGET, OTHER = "/src.zarr", "/dst.zarr", "/other.zarr"


@pytest.mark.parametrize(
    ("data", "path", "export", "link_data", "decision"),
    [
        (TARGET, "g/a", None, True, "soft"),
        (TARGET, "g/b", None, True, "soft"),
        (OTHER, "g/a", None, True, "external"),
        (SOURCE, "g/a", SOURCE, True, "copy"),  # to its own place
        (SOURCE, "g/b", SOURCE, True, "soft"),
        (OTHER, "g/a", SOURCE, True, "external"),
        (TARGET, "g/a", SOURCE, True, "external"),
    ],
)
def test_whether_a_stored_array_is_linked(data, path, export, link_data, decision):
    found = link_or_copy(
        data_location=data,
        data_path=path,
        own_location=TARGET,
        own_path="g/a",
        export_location=export,
        link_data=link_data,
    )
    assert found == decision


def test_nothing_is_linked_unless_requested():
    for data, path, export in itertools.product((SOURCE, TARGET, OTHER), ("g/a", "a"), (None, SOURCE)):
        found = link_or_copy(
            data_location=data,
            data_path=path,
            own_location=TARGET,
            own_path="g/a",
            export_location=export,
            link_data=False,
        )
        assert found == "copy"
