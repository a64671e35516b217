"""Cached namespaces: the newest version is the newest by version order, and texts come back."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from hdmf_zarr_backend.builders.specs import TextSpecReader, TextSpecWriter
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.namespaces import newest_version, spec_location, version_key
from tests.strategies import JSON

IN_ORDER = [
    ["2.9.0-alpha", "2.9.0", "2.10.0", "2.11.0"],
    ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
     "1.0.0"],  # SemVer 2.0, section 11
    ["1.0.dev1", "1.0a1.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0+local", "1.0.post1.dev2", "1.0.post1",
     "1.1.dev0"],  # PEP 440
    ["None", "latest", "0.0.1", "0.1", "0.1.1", "v0.2", "0.10"],
    ["2.0b", "2.0.0", "2.0.1"],
    ["unversioned", "²", "9" * 5000 + "0", "9" * 5000 + "1", "1" + "0" * 6000],
]  # fmt: skip


@pytest.mark.parametrize("versions", IN_ORDER, ids=lambda versions: versions[0])
def test_versions_in_order(versions):
    for older, newer in itertools.combinations(versions, 2):
        assert version_key(older) < version_key(newer), (older, newer)
    assert newest_version(reversed(versions)) == versions[-1]


PEP440 = st.builds(
    lambda release, suffix: ".".join(map(str, release)) + suffix,
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.sampled_from(
        ["", "", ".dev1", "a1", "a10", "b2", "rc1", ".post1", ".post2", "a1.dev3", "+abc", "-beta", "-alpha.1"]
    ),
)


@given(PEP440, PEP440)
def test_the_order_is_that_of_python_packages(one, other):
    keys, versions = [version_key(v) for v in (one, other)], [Version(v) for v in (one, other)]
    assert (keys[0] < keys[1]) == (versions[0] < versions[1])
    assert (keys[0] == keys[1]) == (versions[0] == versions[1])


@given(st.lists(st.text("0129.-+abrcv²", max_size=8) | PEP440, min_size=1, max_size=6))
def test_any_names_have_a_newest_whatever_their_order(names):
    assert newest_version(names) == newest_version(reversed(names)) in names


def test_texts_come_back():
    writer = TextSpecWriter()
    writer.write_spec({"groups": [{"doc": "größer"}]}, "nwb.base")
    writer.write_namespace({"name": "core", "version": "2.9.0"}, "namespace")
    reader = TextSpecReader("/a.zarr", writer.texts.__getitem__)
    assert reader.read_spec("nwb.base") == {"groups": [{"doc": "größer"}]}
    assert reader.read_namespace("namespace") == [{"name": "core", "version": "2.9.0"}]
    assert json.loads(writer.texts["namespace"]) == {"namespaces": [{"name": "core", "version": "2.9.0"}]}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "nul"])
def test_invalid_json_is_an_error_that_names_the_source(text):
    reader = TextSpecReader("/a.zarr", lambda name: text)
    with pytest.raises(MetadataError, match=r"'nwb\.base' is not JSON") as caught:
        reader.read_spec("nwb.base")
    assert "load_namespaces=False" in caught.value.remedy


@given(JSON)
def test_any_namespace_document_is_a_list_or_our_error(document):
    reader = TextSpecReader("/a.zarr", lambda name: json.dumps(document))
    with pytest.raises(MetadataError, match="lists no namespaces"):
        reader.read_namespace("namespace")
    reader = TextSpecReader("/a.zarr", lambda name: json.dumps({"namespaces": [document]}))
    assert reader.read_namespace("namespace") == [document]


@pytest.mark.parametrize(
    ("value", "location"),
    [
        ("/specifications", "specifications"),
        ("specifications", "specifications"),
        ({"source": ".", "path": "/specifications"}, "specifications"),
        ({"zarr_dtype": "object", "value": {"source": ".", "path": "/specs"}}, "specs"),
        ("/", None),
        ("", None),
        (None, None),
        (5, None),
        ({}, None),
        ({"path": ["a"]}, None),
        ({"value": {"path": {}}}, None),
    ],
)
def test_where_the_specifications_are(value, location):
    assert spec_location(value) == location
