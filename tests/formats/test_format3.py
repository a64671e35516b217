"""Documents of format 3 <-> nodes, both ways, and what other writers were seen to write."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.formats import both, type_codes, zarr3, zarr3_attributes, zarr3_codecs, zarr3_fills, zarr3_types
from hdmf_zarr_backend.formats.registry import FORMATS, parse_array, parse_consolidated, parse_documents
from hdmf_zarr_backend.formats.zarr3_codecs import Chain
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy
from hdmf_zarr_backend.model.stored import Shards
from tests.documents import dataset_node
from tests.strategies import JSON

JSON2 = {"id": "json2"}
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
REFERENCE = {"source": ".", "path": "/target", "object_id": "id", "source_object_id": None}
OUR_REFERENCE = {"zarr_dtype": "object", "value": REFERENCE}
OUR_REGION = {"zarr_dtype": "region", "value": {**REFERENCE, "region": [{"slice": [0, 1, None]}]}}


LITTLE: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]


def array_document(**changes: Any) -> dict[str, Any]:
    """Return the document of an array as zarr-python writes it, with changes; None removes a key."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5, 3],
        "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": copy.deepcopy(LITTLE),
        "attributes": {"unit": "m"},
        "storage_transformers": [],
        **changes,
    }
    return {key: value for key, value in document.items() if value is not None}


def group_document(**changes: Any) -> dict[str, Any]:
    document = {"zarr_format": 3, "node_type": "group", "attributes": {}, **changes}
    return {key: value for key, value in document.items() if value is not None}


PAIR = {"shape": [2], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}}
"""Two elements in one chunk."""


# ---- documents -> nodes -> documents --------------------------------------------------------------------------------

DOCUMENTS = {
    "as zarr-python writes it": array_document(),
    "no attributes": array_document(attributes=None),
    "empty attributes": array_document(attributes={}),
    "no storage transformers": array_document(storage_transformers=None),
    "short chunk key encoding": array_document(chunk_key_encoding={"name": "default"}),
    "chunk key encoding as a name": array_document(chunk_key_encoding="v2"),
    "chunk keys of format 2": array_document(chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}}),
    "no fill value": array_document(fill_value=None),
    "names of dimensions": array_document(dimension_names=["time", None]),
    "an unknown key": array_document(other={"must_understand": False}),
    "an extra key in the grid": array_document(
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2, 3]}, "must_understand": True}
    ),
    "codecs as names": array_document(codecs=["bytes"]),
    "a scalar": array_document(shape=[], chunk_grid={"name": "regular", "configuration": {"chunk_shape": []}}),
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_an_array_is_written_as_it_was_read(document):
    documents = {"zarr.json": group_document(), "a/zarr.json": document}
    assert zarr3.encode_documents(zarr3.parse_documents(copy.deepcopy(documents))) == documents


def test_a_null_fill_value_stays_null():
    document = {**array_document(), "fill_value": None}
    assert zarr3.encode_node(zarr3.parse_node(copy.deepcopy(document), "a")) == document


def test_a_consolidated_document_is_written_as_it_was_read():
    block = {"kind": "inline", "must_understand": False, "metadata": {}}
    metadata = {
        "acquisition": group_document(consolidated_metadata=block),
        "acquisition/ts": group_document(attributes={"a": [1, {"b": None}]}),
        "acquisition/ts/data": array_document(),
    }
    document = group_document(
        attributes={".specloc": "specifications"},
        consolidated_metadata={"kind": "inline", "must_understand": False, "other": 1, "metadata": metadata},
    )
    found = zarr3.split_consolidated(json.loads(json.dumps(document)))
    assert found is not None
    assert zarr3.join_consolidated(*found) == document
    parsed = zarr3.parse_consolidated(document)
    assert parsed is not None
    assert [path for path, _ in parsed[0].walk()] == ["", *sorted(metadata)]


@pytest.mark.parametrize(
    "document", [group_document(), group_document(consolidated_metadata=None), {}, [], {"consolidated_metadata": 5}]
)
def test_a_document_without_a_consolidated_block(document):
    assert zarr3.parse_consolidated(document) is None


@pytest.mark.parametrize(
    ("encoding", "index", "name"),
    [
        ({"name": "default"}, (1, 2), "c/1/2"),
        ({"name": "default"}, (), "c"),
        ({"name": "default", "configuration": {"separator": "."}}, (1, 2), "c.1.2"),
        ({"name": "v2"}, (1, 2), "1.2"),
        ({"name": "v2", "configuration": {"separator": "/"}}, (1, 2), "1/2"),
        ("v2", (), "0"),
    ],
)
def test_keys_of_chunks(encoding, index, name):
    node = zarr3.parse_node(array_document(chunk_key_encoding=encoding), "a")
    assert isinstance(node, Dataset)
    assert node.stored.chunk_name(index) == name


VERIFY = "Run `zarrio verify` on the file."


@pytest.mark.parametrize(
    ("document", "problem", "remedy"),
    [
        *(
            (document, "zarr.json is not a document of Zarr format 3", VERIFY)
            for document in ({**array_document(), "zarr_format": 2}, array_document(node_type="table"), [])
        ),
        (array_document(codecs=None, shape=None), "zarr.json lacks codecs, shape", VERIFY),
        (array_document(shape=[-1, 3]), "shape [-1, 3] is not a list of lengths", VERIFY),
        (array_document(shape=[True, 3]), "shape [True, 3] is not a list of lengths", VERIFY),
        (array_document(shape=[5]), "shape (5,) and chunks (2, 3) differ in length", VERIFY),
        (
            array_document(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0, 3]}}),
            "chunk_shape [0, 3] is not a list of lengths",
            VERIFY,
        ),
        (
            array_document(chunk_grid={"name": "rectangular"}),
            "the chunk grid {'name': 'rectangular'} is not regular",
            "Write it again with regular chunks.",
        ),
        (
            array_document(chunk_key_encoding={"name": "sha"}),
            "the chunk key encoding {'name': 'sha'} is unknown",
            VERIFY,
        ),
        (
            array_document(chunk_key_encoding={"name": "default", "configuration": {"separator": "-"}}),
            "the chunk key encoding {'name': 'default', 'configuration': {'separator': '-'}} is unknown",
            VERIFY,
        ),
        (array_document(codecs=[1]), "codecs [1] is not a list of codecs", VERIFY),
        (array_document(attributes=[]), "the attributes are not a JSON object", VERIFY),
        (
            array_document(codecs=[{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2],
                                                                                 "codecs": LITTLE}}]),
            "shards (2, 3) hold no whole chunks (2, 2)",
            "Run `zarrio verify`.",
        ),
        (
            array_document(data_type="string", fill_value=""),
            "elements of type 'string' are stored with 'bytes'",
            "Run `zarrio verify`.",
        ),
        (
            array_document(codecs=[*LITTLE, {"name": "blosc", "configuration": {"shuffle": [1]}}]),
            "the document contradicts itself (TypeError: unhashable type: 'list')",
            "Run `zarrio verify`.",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(document, problem, remedy):
    with pytest.raises(MetadataError) as caught:
        zarr3.parse_node(document, "group/a")
    assert str(caught.value) == f"{problem} (/group/a). {remedy}"


NODE_NAMES = st.text("abc", min_size=1, max_size=2)
OTHER_KEYS = st.dictionaries(st.sampled_from(["x", "y", "must_understand"]), JSON, max_size=2)


@given(
    members=st.dictionaries(NODE_NAMES, st.tuples(st.sampled_from(["group", "array"]), JSON, OTHER_KEYS), max_size=5),
)
def test_every_hierarchy_is_written_as_it_was_read(members):
    documents = {"zarr.json": group_document()}
    for name, (kind, value, other) in members.items():
        make = group_document if kind == "group" else array_document
        documents[f"{name}/zarr.json"] = {**make(attributes={"value": value}), **other}
    assert zarr3.encode_documents(zarr3.parse_documents(copy.deepcopy(documents))) == documents
    root = zarr3.parse_documents(documents).root
    assert isinstance(root, Group)
    assert root.members.keys() == members.keys()


# ---- nodes -> documents -> nodes ------------------------------------------------------------------------------------


def planned(**changes: Any) -> Dataset[Any]:
    """Return a node as the planner makes it."""
    base: dict[str, Any] = {
        "shape": (6, 2),
        "chunks": (3, 2),
        "data_type": "<i2",
        "attributes": {"zarr_dtype": "int16"},
    }
    return dataset_node(**{**base, **changes})


def stored(node: Dataset[Any], **widths: int) -> Dataset[Any]:
    node = replace(node, stored=replace(node.stored), attributes=copy.deepcopy(node.attributes))
    zarr3.store_in_format_3(node, widths)
    return node


def document(node: Dataset[Any]) -> dict[str, Any]:
    """Return the document of a node as it comes back from a store."""
    found: dict[str, Any] = json.loads(json.dumps(zarr3.encode_node(node)))
    return found


def back(node: Dataset[Any]) -> Dataset[Any]:
    parsed = zarr3.parse_node(document(node), "a")
    assert isinstance(parsed, Dataset)
    return replace(parsed, stored=replace(parsed.stored, original=None))


def scalar(data_type: str, **changes: Any) -> Dataset[Any]:
    return planned(shape=(1,), chunks=(1,), data_type=data_type, attributes={"zarr_dtype": "scalar"}, **changes)


def rows(*fields: tuple[str, Any], **changes: Any) -> Dataset[Any]:
    words = [{"name": name, "dtype": word} for name, word in fields]
    attributes = {"_hdmf": {"rows": True}, "zarr_dtype": words}
    made = {"shape": (4, len(fields)), "chunks": (4, len(fields)), "data_type": "|O", "filters": [JSON2], **changes}
    return planned(attributes=attributes, **made)


ARRAYS = {
    "numbers": planned(),
    "big-endian": planned(data_type=">f4", attributes={"zarr_dtype": "float32"}),
    "order F": planned(order="F"),
    "bool": planned(data_type="|b1", attributes={"zarr_dtype": "bool"}),
    "half": planned(data_type="<f2", attributes={"zarr_dtype": "float16"}, fill_value="NaN"),
    "complex": planned(data_type="<c8", attributes={"zarr_dtype": "complex64"}, fill_value=[1.0, "NaN"]),
    "dates": planned(data_type="<M8[10ns]", attributes={"zarr_dtype": "datetime64[10ns]"}, fill_value=7),
    "durations": planned(data_type="<m8", attributes={"zarr_dtype": "timedelta64"}),
    "bytes of fixed length": planned(data_type="|S5", attributes={"zarr_dtype": "bytes"}, fill_value="YWI="),
    "text of fixed length": planned(data_type="<U5", attributes={"zarr_dtype": "str160"}, fill_value="ab"),
    "opaque": planned(data_type="|V3", attributes={"zarr_dtype": "void24"}, fill_value="YWJj"),
    "fill value": planned(fill_value=-1),
    "filters": planned(
        filters=[{"id": "delta", "dtype": "<i2"}, {"id": "shuffle", "elementsize": 2}], compressor=BLOSC
    ),
    "zstd": planned(compressor={"id": "zstd", "level": 3}),
    "zstd with checksums": planned(compressor={"id": "zstd", "level": 3, "checksum": True}),
    "gzip": planned(compressor={"id": "gzip", "level": 3}),
    "zlib": planned(compressor={"id": "zlib", "level": 3}),
    "crc": planned(filters=[{"id": "zstd", "level": 3}], compressor={"id": "crc32c", "location": "end"}),
    "scalar": scalar("<f8"),
    "scalar text": scalar("|O", filters=[{"id": "vlen-utf8"}]),
    "scalar bytes": scalar("|O", filters=[{"id": "vlen-bytes"}]),
    "scalar row": planned(
        shape=(1,), chunks=(1,), data_type=[["x", "<f4"], ["y", "<f4"]],
        attributes={
            "zarr_dtype": [{"name": "x", "dtype": "float32"}, {"name": "y", "dtype": "float32"}],
            "_hdmf": {"scalar": True},
        },
    ),
    "scalar reference": planned(
        shape=(1,), chunks=(1,), data_type="|O", filters=[JSON2],
        attributes={"zarr_dtype": "object", "_hdmf": {"scalar": True}},
    ),
    "scalar opaque": planned(
        shape=(1,), chunks=(1,), data_type="|V3", attributes={"zarr_dtype": "void24", "_hdmf": {"scalar": True}}
    ),
    "text": planned(data_type="|O", filters=[{"id": "vlen-utf8"}], compressor=BLOSC, attributes={"zarr_dtype": "str"}),
    "ascii": planned(
        data_type="|O", filters=[{"id": "vlen-utf8"}], attributes={"zarr_dtype": "str", "_hdmf": {"text": "ascii"}}
    ),
    "bytes": planned(data_type="|O", filters=[{"id": "vlen-bytes"}], attributes={"zarr_dtype": "bytes"}),
    "references": planned(data_type="|O", filters=[JSON2], compressor=BLOSC, attributes={"zarr_dtype": "object"}),
    "regions": planned(data_type="|O", filters=[JSON2], attributes={"zarr_dtype": "region"}),
    "rows of numbers": planned(
        data_type=[["a", ">i4"], ["b", [["c", ">f8"], ["d", "|b1"]]]],
        attributes={
            "zarr_dtype": [
                {"name": "a", "dtype": "int32"},
                {"name": "b", "dtype": [{"name": "c", "dtype": "float64"}, {"name": "d", "dtype": "bool"}]},
            ]
        },
        fill_value="AAAABQAAAAAAAAAAAQ==",
    ),
    "rows of both byte orders": planned(
        data_type=[["a", "<i2"], ["b", ">i2"], ["c", "|i1"]],
        compressor=BLOSC,
        fill_value="AQAAAgM=",
        attributes={
            "zarr_dtype": [
                {"name": "a", "dtype": "int16"},
                {"name": "b", "dtype": "int16"},
                {"name": "c", "dtype": "int8"},
            ]
        },
    ),
    "rows with text of fixed length": planned(
        data_type=[["a", "<i4"], ["b", "<U5"]],
        attributes={"zarr_dtype": [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "str160"}]},
    ),
    "fields with axes": planned(
        data_type=[["a", "<i4", [3]], ["b", "|S2"]],
        attributes={"zarr_dtype": [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "bytes16"}]},
    ),
    "rows with references": rows(("start", "int32"), ("to", "object"), compressor=BLOSC),
    "rows with text": rows(("x", "float64"), ("text", "str")),
    "rows with everything": rows(
        ("x", "bool"), ("text", "isodatetime"), ("to", "region"), ("raw", "bytes"), ("o", "object")
    ),
    "rows without text": rows(("x", "float64"), ("y", "complex64")),
    "one row": rows(("x", "int8"), ("to", "object"), shape=(1, 2), chunks=(1, 2)),
    "shards": planned(shards=Shards((6, 2)), compressor=BLOSC),
    "shards with the index before them": planned(shards=Shards((6, 2), index_at_end=False, checksum=False)),
}  # fmt: skip


@pytest.mark.parametrize("node", ARRAYS.values(), ids=ARRAYS)
def test_an_array_both_ways(node):
    made = stored(node)
    assert back(made) == made


@pytest.mark.parametrize("node", ARRAYS.values(), ids=ARRAYS)
def test_an_unchanged_array_is_written_as_it_was(node):
    first = document(stored(node))
    again = zarr3.parse_node(copy.deepcopy(first), "a")
    assert isinstance(again, Dataset)
    assert document(again) == first
    again.attributes = {**again.attributes, "more": 1}
    assert document(again) == {**first, "attributes": {**first["attributes"], "more": 1}}


EXACT = Path(__file__).with_name("documents_of_format_3.json")
"""The documents of these arrays, as every version writes them; a change of one is a change of the format."""


def test_each_array_has_exactly_this_document():
    assert {name: document(stored(node)) for name, node in ARRAYS.items()} == json.loads(EXACT.read_text("utf-8"))


def test_a_scalar_has_no_axes():
    found = document(stored(scalar("<f8")))
    assert (found["shape"], found["chunk_grid"]["configuration"]["chunk_shape"]) == ([], [])
    assert found["attributes"] == {"_DTYPE": "float64"}
    assert stored(scalar("<f8")).stored.chunk_name((0,)) == "c"


def test_rows_are_records():
    node = stored(rows(("start", "int32"), ("to", "object"), ("text", "str")), to=3, text=600)
    found = document(node)
    assert found["shape"] == [4]
    assert node.stored.chunk_name((2, 0)) == "c/2"
    assert found["data_type"] == {
        "name": "struct",
        "configuration": {
            "fields": [
                {"name": "start", "data_type": "int32"},
                {"name": "to", "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 2048}}},
                {"name": "text", "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 2400}}},
            ]
        },
    }
    assert found["fill_value"] == {"start": 0, "to": "", "text": ""}
    assert found["codecs"] == [{"name": "bytes", "configuration": {"endian": "little"}}]
    assert found["attributes"] == {"_REFERENCE_FIELDS": ["to"]}


def test_references_are_text():
    found = document(stored(ARRAYS["references"]))
    assert found["data_type"] == "string"
    assert found["attributes"] == {"_DTYPE": "object_reference"}
    assert found["codecs"][0] == {"name": "vlen-utf8", "configuration": {}}


def test_no_key_of_a_note_is_one_that_014_takes_for_a_reference():
    for node in ARRAYS.values():
        note = document(stored(node))["attributes"].get("_hdmf", {})
        assert not {"zarr_dtype", "_REFERENCE"} & note.keys()


def test_dimensions_are_stored_in_both_places():
    found = document(stored(planned(attributes={"zarr_dtype": "int16", "_ARRAY_DIMENSIONS": ["time", "x"]})))
    assert found["attributes"]["_ARRAY_DIMENSIONS"] == found["dimension_names"] == ["time", "x"]
    without = {**found, "attributes": {}}
    parsed = parse_array({"zarr.json": without}, "a")
    assert parsed is not None
    assert parsed.attributes["_ARRAY_DIMENSIONS"] == ["time", "x"]


def test_mixed_byte_orders_become_one():
    found = document(stored(ARRAYS["rows of both byte orders"]))
    assert [field["data_type"] for field in found["data_type"]["configuration"]["fields"]] == ["int16", "int16", "int8"]
    assert found["codecs"][0] == {"name": "bytes", "configuration": {"endian": "little"}}
    assert found["fill_value"] == {"a": 1, "b": 2, "c": 3}
    assert found["attributes"]["_hdmf"] == {"type": [["a", "<i2"], ["b", ">i2"], ["c", "|i1"]]}


# ---- attributes -----------------------------------------------------------------------------------------------------

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.just(OUR_REFERENCE)
    | st.just(OUR_REGION)
    | st.just([OUR_REFERENCE, OUR_REFERENCE])
    | st.lists(st.integers(0, 3), max_size=3)
    | st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=2)
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "unit", "_nczarr_attr"]), VALUES),
    st.lists(
        st.fixed_dictionaries({"name": st.text(max_size=3), "path": st.just("/a"), "source": st.just("../b.zarr")})
    ),
)
def test_attributes_of_a_group_both_ways(attributes, links):
    ours = {**attributes, **({"zarr_link": links} if links else {})}
    assert zarr3_attributes.decode_values(zarr3_attributes.encode_values(ours)) == ours


def test_attributes_of_format_3():
    ours = {"a": OUR_REFERENCE, "b": [OUR_REGION], "zarr_link": [{"name": "x", "source": ".", "path": "/a"}], "c": [{}]}
    assert zarr3_attributes.encode_values(ours) == {
        "a": {"_REFERENCE": REFERENCE},
        "b": [{"_REFERENCE": OUR_REGION["value"]}],
        "c": [{}],
        "_LINKS": [{"name": "x", "source": ".", "path": "/a"}],
    }


@pytest.mark.parametrize(
    "value",
    [{"zarr_dtype": "int8"}, {"_REFERENCE": 1}, {"_REFERENCE": {"path": "/a"}}, {**OUR_REFERENCE, "of a user": 1}],
)
def test_json_of_a_user_is_not_a_reference(value):
    """0.14 takes an object with such a key for a reference, and fails; so it is stored as text."""
    ours = {"a": value, "_hdmf": {"attributes": {"a": {"dtype": "json"}}}}
    encoded = zarr3_attributes.encode_values(ours)
    assert encoded == {"a": json.dumps(value), "_hdmf": {"attributes": {"a": {"dtype": "json", "text": True}}}}
    assert zarr3_attributes.decode_values(encoded) == encoded


# ---- files of both formats ------------------------------------------------------------------------------------------


def test_rows_have_a_type_that_older_programs_know():
    node = stored(planned(data_type=[["a", "<i4"], ["b", "|u1"]], attributes={}))
    before = document(node)
    both.use_structured(node)
    after = document(node)
    assert after["data_type"] == {"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", "uint8"]]}}
    assert after["fill_value"] == "AAAAAAA="
    assert {**after, "data_type": before["data_type"], "fill_value": before["fill_value"]} == before
    assert both.use_struct(node.stored)
    assert document(node) == before
    assert not both.use_struct(node.stored)


def test_rows_with_a_fill_value_and_other_arrays_keep_their_type():
    filled = stored(planned(data_type=[["a", "<i4"]], attributes={}, fill_value="BwAAAA=="))
    for node in (filled, stored(planned()), stored(ARRAYS["text"])):
        before = document(node)
        both.use_structured(node)
        assert document(node) == before
        assert not both.use_struct(node.stored)
    assert document(filled)["fill_value"] == {"a": 7}


def test_the_note_shows_which_document_is_newer():
    text = both.sealed(json.dumps(both.with_note(group_document(attributes={"_hdmf": {"x": 1}}), b"two")).encode())
    note = json.loads(text)["attributes"]["_hdmf"]
    assert note["x"] == 1
    assert note["both"]["zmetadata"] == hashlib.sha256(b"two").hexdigest()
    unsealed = text.replace(note["both"]["zarr.json"].encode(), b"0" * 64)
    assert note["both"]["zarr.json"] == hashlib.sha256(unsealed).hexdigest()

    def state(changed: bytes, consolidated: bytes | None) -> str | None:
        texts = {"zarr.json": changed, ".zmetadata": consolidated}
        return both.state_of({key: value for key, value in texts.items() if value is not None})

    other = text.replace(b'"x": 1', b'"x": 2')
    assert state(text, b"two") == "alike"
    assert state(text, b"three") == state(text, None) == "2 is newer"
    assert state(other, b"two") == "3 is newer"
    assert state(other, b"three") == "both are newer"
    assert both.state_of({".zmetadata": b"two"}) is None
    assert state(json.dumps(group_document()).encode(), b"two") is None
    again = both.renewed(text, b"three")
    assert state(again, b"three") == "alike"
    assert again != text
    assert not both.is_hiding(text)
    assert not both.is_hiding(None)
    hiding = both.sealed(json.dumps(both.hiding_document()).encode())
    assert both.is_hiding(hiding)
    assert state(hiding, b"two") == "2 is newer"
    assert both.without_note(json.loads(text)["attributes"]) == {"_hdmf": {"x": 1}}
    for function in (both.sealed, lambda plain: both.renewed(plain, b"")):
        with pytest.raises(ValueError, match="the document has no note"):
            function(b"{}")


# ---- what others write ----------------------------------------------------------------------------------------------


def foreign(**changes: Any) -> Dataset[Any]:
    """Return the parsed node of an array that hdmf-zarr 0.14 wrote, with changes; None removes a key."""
    codecs = [{"name": "vlen-utf8", "configuration": {}}, {"name": "zstd", "configuration": {"level": 0}}]
    text = {**PAIR, "data_type": "string", "fill_value": "", "codecs": codecs, "attributes": {}}
    found = parse_array({"zarr.json": array_document(**{**text, "storage_transformers": None, **changes})}, "a")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({"_DTYPE": "object_reference"}, "object"),
        ({"_DTYPE": "object"}, "object"),
        ({"zarr_dtype": "object"}, "object"),
        ({"_DTYPE": "str"}, "str"),
        ({"_DTYPE": "nonsense"}, "str"),
        ({}, "str"),
        ({"_DTYPE": "region"}, "region"),
    ],
)
def test_texts_and_references(attributes, word):
    found = foreign(attributes=attributes)
    assert found.attributes == {"zarr_dtype": word}
    assert found.stored.filters == [{"id": "vlen-utf8" if word == "str" else "references"}]
    assert found.stored.compressor == {"id": "zstd", "level": 0}


@pytest.mark.parametrize("said", ["<f8", "float", "int", "nonsense", None])
def test_numbers_are_what_their_type_says(said):
    attributes = {} if said is None else {"_DTYPE": said}
    found = foreign(data_type="float64", codecs=LITTLE, fill_value=0.0, attributes=attributes)
    assert (found.stored.data_type, found.attributes) == ("<f8", {"zarr_dtype": "float64"})
    assert found.stored.fill_value is None


@pytest.mark.parametrize(
    ("data_type", "fill"),
    [
        (
            {"name": "struct", "configuration": {"fields": [
                {"name": "i", "data_type": "int32"},
                {"name": "r", "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 60}}},
            ]}},
            {"i": 0, "r": ""},
        ),
        (
            {"name": "structured", "configuration": {"fields": [
                ["i", "int32"], ["r", {"name": "fixed_length_utf32", "configuration": {"length_bytes": 60}}],
            ]}},
            "AAAA",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "attributes",
    [
        {"_REFERENCE_FIELDS": ["r"]},
        {"zarr_dtype": [{"name": "i", "dtype": "int32"}, {"name": "r", "dtype": "object"}]},
    ],
)
@pytest.mark.parametrize("codecs", [LITTLE, [{"name": "bytes"}], ["bytes"]])
def test_rows_with_references(data_type, fill, attributes, codecs):
    found = foreign(data_type=data_type, fill_value=fill, attributes=attributes, codecs=codecs)
    assert (found.stored.shape, found.stored.chunks, found.stored.stored_axes) == ((2, 2), (2, 2), 1)
    assert found.attributes["zarr_dtype"] == [{"name": "i", "dtype": "int32"}, {"name": "r", "dtype": "object"}]
    assert found.stored.filters == [{"id": "struct", "fields": [["i", "<i4", "number"], ["r", "<U15", "reference"]]}]
    assert found.attributes["_hdmf"] == {"rows": True}


def test_a_scalar_without_axes():
    found = foreign(shape=[], chunk_grid={"name": "regular", "configuration": {"chunk_shape": []}})
    assert (found.stored.shape, found.stored.chunks, found.attributes) == ((1,), (1,), {"zarr_dtype": "scalar"})


@pytest.mark.parametrize("mark", [{"zarr_dtype": "scalar"}, {"_SCALAR": True}])
def test_a_scalar_of_older_drafts(mark):
    found = foreign(shape=[1], attributes=mark)
    assert (found.stored.shape, found.attributes) == ((1,), {"zarr_dtype": "scalar"})


@pytest.mark.parametrize(
    ("codec", "config"),
    [
        ({"name": "numcodecs.zlib", "configuration": {"level": 4}}, {"id": "zlib", "level": 4}),
        ({"name": "numcodecs.blosc", "configuration": BLOSC | {"id": "blosc"}}, BLOSC),
        (
            {"name": "blosc", "configuration": {"typesize": 2, "cname": "zstd", "clevel": 1, "shuffle": "bitshuffle",
                                                "blocksize": 0}},
            {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": 0},
        ),
        ("crc32c", {"id": "crc32c", "location": "end"}),
    ],
)  # fmt: skip
def test_codecs(codec, config):
    assert foreign(data_type="int16", codecs=[*LITTLE, codec], fill_value=0).stored.compressor == config


@pytest.mark.parametrize(
    ("value", "data_type", "fill"),
    [
        ("0x7fc00000", "float32", "NaN"),
        ("0x3f800000", "float32", 1.0),
        ("-Infinity", "float64", "-Infinity"),
        (None, "float64", None),
        (-0.0, "float64", -0.0),
        ([0.0, 0.0], "complex64", None),
        (True, "bool", True),
        ("0", "string", "0"),
        (-(2**63), {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, -(2**63)),
    ],
)
def test_fill_values(value, data_type, fill):
    codecs = LITTLE if data_type != "string" else [{"name": "vlen-utf8"}]
    assert repr(foreign(data_type=data_type, fill_value=value, codecs=codecs).stored.fill_value) == repr(fill)


@pytest.mark.parametrize("value", [{"_REFERENCE": "/a"}, {"_REFERENCE": {"path": "/a", "more": 1}}])
def test_references_in_attributes(value):
    found = zarr3_attributes.decode_values({"x": value, ".specloc": {"_REFERENCE": {"source": ".", "path": "/specs"}}})
    assert found["x"]["zarr_dtype"] == "object"
    assert found["x"]["value"]["path"] == "/a"
    assert found["x"]["value"]["source"] == "."
    assert found[".specloc"] == "/specs"


def test_links_of_older_drafts():
    links = [{"name": "a", "source": ".", "path": "/b"}]
    assert zarr3_attributes.decode_values({"zarr_link": links}) == {"zarr_link": links}
    assert zarr3_attributes.decode_values({"_LINKS": links, "zarr_link": []}) == {"zarr_link": links}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"data_type": "int4"}, "data type"),
        ({"data_type": {"name": "struct", "configuration": {"fields": []}}}, "data type"),
        ({"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 3}}}, "data type"),
        ({"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "]"}}}, "data type"),
        ({"codecs": []}, "make no bytes"),
        ({"codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, *LITTLE]}, "transposition"),
        ({"codecs": [*LITTLE, {"name": "zstandard"}]}, "zstandard"),
        ({"codecs": [{"name": "gzip"}]}, "gzip"),
        ({"codecs": [{"name": 5}]}, "no name"),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]}, "middle"),
        ({"data_type": "string", "codecs": LITTLE}, "stored with 'bytes'"),
        ({"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [0], "codecs": LITTLE}}]}, "shards"),
        (
            {"fill_value": {"i": 0}, "data_type": {"name": "struct", "configuration": {"fields": [["a", "int8"]]}}},
            "fill",
        ),
    ],
)
def test_an_unsupported_document_is_reported(changes, problem):
    with pytest.raises(MetadataError, match=problem):
        foreign(**{"data_type": "int16", "codecs": LITTLE, "fill_value": 0, **changes})


DELTA = {"name": "numcodecs.delta", "configuration": {"dtype": "<i2"}}
GZIP = {"name": "gzip", "configuration": {"level": 4}}


def sharded(*codecs: Any, **changes: Any) -> dict[str, Any]:
    """Return the codec of shards of four chunks of 2 x 3, with changes of its configuration."""
    configuration = {
        "chunk_shape": [2, 3], "codecs": [*LITTLE, *codecs], "index_codecs": [*LITTLE, {"name": "crc32c"}],
        "index_location": "end", **changes,
    }  # fmt: skip
    return {"name": "sharding_indexed", "configuration": configuration}


CHAINS: dict[str, tuple[list[Any], Chain]] = {
    "numbers": (LITTLE, Chain(None, None, "little")),
    "big-endian": ([{"name": "bytes", "configuration": {"endian": "big"}}], Chain(None, None, "big")),
    "bytes": ([{"name": "bytes"}], Chain(None, None, None)),
    "columns": (
        [{"name": "transpose", "configuration": {"order": [1, 0]}}, *LITTLE, GZIP],
        Chain(None, {"id": "gzip", "level": 4}, "little", "F"),
    ),
    "filters": (
        [DELTA, *LITTLE, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}}, GZIP],
        Chain(
            [{"id": "delta", "dtype": "<i2"}, {"id": "shuffle", "elementsize": 2}],
            {"id": "gzip", "level": 4},
            "little",
        ),
    ),
    "text": ([{"name": "vlen-utf8", "configuration": {}}], Chain([{"id": "vlen-utf8"}], None, None)),
    "checksum": ([*LITTLE, {"name": "crc32c"}], Chain(None, {"id": "crc32c", "location": "end"}, "little")),
    "zstd": (
        [*LITTLE, {"name": "zstd", "configuration": {"level": 3, "checksum": True}}],
        Chain(None, {"id": "zstd", "level": 3, "checksum": True}, "little"),
    ),
    "shards": (
        [sharded(GZIP)],
        Chain(None, {"id": "gzip", "level": 4}, "little", "C", (2, 3), Shards((), index_at_end=True, checksum=True)),
    ),
    "shards with the index first": (
        [sharded(index_location="start", index_codecs=LITTLE)],
        Chain(None, None, "little", "C", (2, 3), Shards((), index_at_end=False, checksum=False)),
    ),
    "columns in shards": (
        [sharded(codecs=[{"name": "transpose", "configuration": {"order": [1, 0]}}, DELTA, *LITTLE])],
        Chain([{"id": "delta", "dtype": "<i2"}], None, "little", "F", (2, 3), Shards(())),
    ),
}


@pytest.mark.parametrize(("codecs", "chain"), CHAINS.values(), ids=CHAINS)
def test_codecs_both_ways(codecs, chain):
    assert zarr3_codecs.decode_codecs(codecs, 2) == chain
    is_text = chain.filters == [{"id": "vlen-utf8"}]
    axes = zarr3_codecs.axes_in_order(chain.order, 2)
    encoded = zarr3_codecs.encode_codecs(
        chain.filters, chain.compressor, is_object=is_text, axes=axes, endian=chain.endian, itemsize=2
    )
    if chain.shards is not None:
        assert chain.chunks is not None
        encoded = zarr3_codecs.encode_sharded(chain.chunks, encoded, chain.shards)
    assert encoded == codecs


@pytest.mark.parametrize(
    ("orders", "order"),
    [
        ([[0, 1, 2]], "C"),
        ([[2, 1, 0]], "F"),
        (["F"], "F"),
        (["C"], "C"),
        ([[1, 2, 0]], (1, 2, 0)),
        ([[1, 2, 0], [1, 2, 0]], (2, 0, 1)),
        ([[1, 2, 0], [2, 0, 1]], "C"),
        ([[1, 0, 2], "F"], (2, 0, 1)),
    ],
    ids=str,
)
def test_transpositions_follow_one_another(orders, order):
    steps = [{"name": "transpose", "configuration": {"order": stated}} for stated in orders]
    assert zarr3_codecs.decode_codecs([*steps, *LITTLE], 3).order == order


@pytest.mark.parametrize(
    ("config", "codec"),
    [
        ({"id": "gzip"}, {"name": "gzip", "configuration": {"level": 1}}),
        ({"id": "zstd"}, {"name": "zstd", "configuration": {"level": 0, "checksum": False}}),
        ({"id": "crc32c"}, {"name": "crc32c"}),
        ({"id": "crc32c", "location": "start"}, {"name": "numcodecs.crc32c", "configuration": {"location": "start"}}),
        ({"id": "zlib", "level": 4}, {"name": "numcodecs.zlib", "configuration": {"level": 4}}),
        (
            {"id": "blosc"},
            {"name": "blosc", "configuration": {"typesize": 2, "cname": "lz4", "clevel": 5, "shuffle": "shuffle",
                                                "blocksize": 0}},
        ),
        (
            {"id": "blosc", "cname": "zstd", "clevel": 9, "shuffle": 0, "blocksize": 256},
            {"name": "blosc", "configuration": {"typesize": 2, "cname": "zstd", "clevel": 9, "shuffle": "noshuffle",
                                                "blocksize": 256}},
        ),
        ({"id": "blosc", "typesize": 4}, {"name": "numcodecs.blosc", "configuration": {"typesize": 4}}),
    ],
    ids=str,
)  # fmt: skip
def test_compressors_of_format_3(config, codec):
    def encoded(itemsize: int, **changes: Any) -> Any:
        return zarr3_codecs.encode_codecs(
            None, {**config, **changes}, is_object=False, axes=[0], endian="little", itemsize=itemsize
        )

    assert encoded(2) == [*LITTLE, codec]
    if codec["name"] == "blosc":  # -1 is a shuffle of bits for bytes, and of bytes for others
        shuffles = [encoded(size, shuffle=-1)[1]["configuration"]["shuffle"] for size in (1, 2)]
        assert shuffles == ["bitshuffle", "shuffle"]


@pytest.mark.parametrize(
    ("codec", "config"),
    [
        ({"name": "gzip"}, {"id": "gzip", "level": 1}),
        ({"name": "zstd"}, {"id": "zstd", "level": 0}),
        ({"name": "zstd", "configuration": {"level": 2, "checksum": False}}, {"id": "zstd", "level": 2}),
        ({"name": "crc32c", "configuration": {}}, {"id": "crc32c", "location": "end"}),
        ({"name": "blosc"}, {"id": "blosc", "shuffle": 0, "blocksize": 0}),
        ({"name": "numcodecs.delta", "configuration": {"dtype": "<i2"}}, {"id": "delta", "dtype": "<i2"}),
        ("crc32c", {"id": "crc32c", "location": "end"}),
    ],
    ids=str,
)
def test_codecs_without_all_of_their_settings(codec, config):
    assert zarr3_codecs.decode_codec(codec) == config


@pytest.mark.parametrize(
    ("codecs", "problem"),
    [
        ([], "the codecs [] make no bytes"),
        ([DELTA], f"the codecs {[DELTA]!r} make no bytes"),
        ([GZIP], "the codec 'gzip' is unknown in this place"),
        ([{"name": 5}], "the codec {'name': 5} has no name"),
        ([{"name": "bytes", "configuration": []}, "gzip", {"configuration": {}}],
         "the codec {'configuration': {}} has no name"),
        ([{"name": "bytes", "configuration": [1]}], "the codec {'name': 'bytes', 'configuration': [1]} has no name"),
        ([{"name": "bytes", "configuration": {"endian": "middle"}}], "the byte order 'middle' is unknown"),
        ([*LITTLE, {"name": "lz9"}], "the codec 'lz9' is not one that this package decodes"),
        ([*LITTLE, {"name": "blosc", "configuration": {"shuffle": 1}}], "Blosc knows no shuffle 1"),
        *(
            ([{"name": "transpose", "configuration": {"order": order}}, *LITTLE],
             f"the transposition {order!r} is not an order of 2 axes")
            for order in (None, "A", [0], [0, 0], [1, 2], [False, True], [0, 1, 2])
        ),
        *(
            ([sharded(**change)], f"the shards {sharded(**change)['configuration']!r} have no chunks")
            for change in ({"chunk_shape": [2]}, {"chunk_shape": [2, 0]}, {"chunk_shape": [2, 3.0]},
                           {"chunk_shape": 2}, {"codecs": None})
        ),
        ([sharded(index_location="middle")], "the index of shards has no place 'middle'"),
        ([sharded(codecs=[sharded()])], "shards inside of shards are not supported"),
        ([sharded(index_codecs=[{"name": "gzip"}])], "an index of shards stored with ['gzip'] is not supported"),
        ([sharded(index_codecs=[{"name": "bytes", "configuration": {"endian": "big"}}])],
         "an index of shards stored with ['bytes'] is not supported"),
        ([sharded(index_codecs=["bytes"] * 2)], "an index of shards stored with ['bytes', 'bytes'] is not supported"),
    ],
    ids=str,
)  # fmt: skip
def test_codecs_that_are_refused(codecs, problem):
    with pytest.raises(MetadataError) as caught:
        zarr3_codecs.decode_codecs(codecs, 2)
    assert str(caught.value) == f"{problem}. Convert the array with the program that wrote it."


def test_shards_have_defaults():
    shards = sharded()
    del shards["configuration"]["index_location"], shards["configuration"]["index_codecs"]
    assert zarr3_codecs.decode_codecs([shards], 2).shards == Shards((), index_at_end=True, checksum=True)
    shards["configuration"]["index_codecs"] = ["bytes"]
    assert zarr3_codecs.decode_codecs([shards], 2).shards == Shards((), index_at_end=True, checksum=False)


def test_what_format_3_has_no_place_for():
    with pytest.raises(UsageError, match="pickle"):
        zarr3.encode_node(planned(data_type="|O", filters=[{"id": "pickle"}], zarr_format=3))
    assert not zarr3_codecs.is_expressible([{"id": "zlib"}], {"id": "delta"})
    assert zarr3_codecs.is_expressible([{"id": "delta"}], {"id": "zlib"})


# ---- types ----------------------------------------------------------------------------------------------------------

SIMPLE = st.sampled_from(
    ["|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "|S3", "<U2", "|V5",
     "<M8[ns]", "<m8[3s]", "<M8"]
)  # fmt: skip
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: [[f"f{n}", k] for n, k in enumerate(kinds)]
    ),
    max_leaves=6,
)


@given(TYPES)
def test_types_both_ways(data_type):
    stored = zarr3_types.encode_type(data_type)
    assert zarr3_types.decode_type(stored, "little") == data_type
    assert zarr3_fills.decode_fill(zarr3_fills.default_fill(stored), data_type, stored) is None


def named(name: str, **configuration: Any) -> dict[str, Any]:
    """Return a data type with a configuration."""
    return {"name": name, "configuration": configuration}


@pytest.mark.parametrize(
    ("stored", "little", "big"),
    [
        ("int16", "<i2", ">i2"),
        ("int8", "|i1", "|i1"),
        ("bool", "|b1", "|b1"),
        ({"name": "float64"}, "<f8", ">f8"),
        ("r16", "|V2", "|V2"),
        ("r8", "|V1", "|V1"),
        (named("raw_bytes", length_bytes=5), "|V5", "|V5"),
        (named("null_terminated_bytes", length_bytes=3), "|S3", "|S3"),
        (named("fixed_length_utf32", length_bytes=12), "<U3", ">U3"),
        (named("numpy.datetime64", unit="s"), "<M8[s]", ">M8[s]"),
        (named("numpy.datetime64", unit="ns", scale_factor=10), "<M8[10ns]", ">M8[10ns]"),
        (named("numpy.timedelta64", unit="μs", scale_factor=1), "<m8[us]", ">m8[us]"),
        (named("numpy.timedelta64", unit="generic", scale_factor=1), "<m8", ">m8"),
        (named("struct", fields=[{"name": "a", "data_type": "int8"}, {"name": "b", "data_type": "float32"}]),
         [["a", "|i1"], ["b", "<f4"]], [["a", "|i1"], ["b", ">f4"]]),
        (named("structured", fields=[["a", named("struct", fields=[{"name": "b", "data_type": "uint16"}])]]),
         [["a", [["b", "<u2"]]]], [["a", [["b", ">u2"]]]]),
    ],
)  # fmt: skip
def test_what_a_type_is_in_each_byte_order(stored, little, big):
    assert zarr3_types.decode_type(stored, "little") == little
    assert zarr3_types.decode_type(stored, "big") == big
    assert zarr3_types.decode_type(stored, None) == little


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ("int4", "'int4'"),
        ("r12", "'r12'"),
        (named("fixed_length_utf32", length_bytes=3), "it is not a whole number of characters"),
        (named("raw_bytes", length_bytes=-1), "-1 is not a length"),
        (named("raw_bytes", length_bytes=2**31), "2147483648 is not a length"),
        (named("raw_bytes", length_bytes=True), "True is not a length"),
        (named("numpy.datetime64", unit="]"), "']' is not a unit"),
        (named("struct", fields=[]), "it is not a list of fields"),
        (named("struct", fields={}), "it is not a list of fields"),
        (named("struct", fields=[[5, "int8"]]), "5 is not a name"),
    ],
    ids=str,
)
def test_types_that_are_refused(stored, reason):
    with pytest.raises(MetadataError) as caught:
        zarr3_types.decode_type(stored)
    remedy = "Convert the array with the program that wrote it."
    assert str(caught.value) == f"the data type {stored!r} is unknown ({reason}). {remedy}"


@pytest.mark.parametrize("depth", [33, 34])
def test_how_deep_rows_are_nested(depth):
    stored: Any = "int8"
    for _ in range(depth):
        stored = named("struct", fields=[["a", stored]])
    if depth == 33:
        assert zarr3_types.encode_type(zarr3_types.decode_type(stored))["name"] == "struct"
    else:
        with pytest.raises(MetadataError, match="it is not a list of fields"):
            zarr3_types.decode_type(stored)


@pytest.mark.parametrize(
    ("data_type", "endian", "is_mixed"),
    [
        ("<i2", "little", False),
        (">i2", "big", False),
        ("|i1", None, False),
        ("|b1", None, False),
        ("|S3", None, False),
        ("|V3", None, False),
        (">U3", "big", False),
        ("<M8[s]", "little", False),
        ([["a", "|S3"], ["b", ">f8"]], "big", False),
        ([["a", "<i2"], ["b", ">f8"]], None, True),
        ([["a", "<i2", [2]], ["b", ">f8"]], "big", False),
        ([["a", [["b", "<i2"]]], ["c", ">i2"]], None, True),
    ],
    ids=str,
)
def test_the_byte_order_of_a_type(data_type, endian, is_mixed):
    assert zarr3_types.endian_of(data_type) == endian
    assert zarr3_types.is_mixed(data_type) == is_mixed


ROWS = [["n", "<i2"], ["x", "<f4"], ["c", "<c8"], ["s", "|S2"], ["v", "|V2"], ["t", "<M8[s]"], ["a", "<i2", [2]],
        ["b", "|b1"], ["r", [["i", "|u1"]]]]  # fmt: skip
FILL = {"n": -2, "x": 0.5, "c": [1.0, -2.0], "s": "YWI=", "v": "AQI=", "t": -7, "a": "AQACAA==", "b": True,
        "r": {"i": 200}}  # fmt: skip


def test_the_fill_value_of_rows_has_all_fields():
    stored = zarr3_types.encode_type(ROWS)
    row = zarr3_fills.decode_fill(FILL, ROWS, stored)
    expected = struct.pack("<hfff2s2sqhh?B", -2, 0.5, 1, -2, b"ab", b"\1\2", -7, 1, 2, True, 200)
    assert base64.b64decode(row) == expected
    assert zarr3_fills.encode_fill(row, ROWS, stored) == FILL


def test_numbers_that_json_does_not_have_are_named_in_the_fill_value_of_rows():
    data_type = [["x", "<f8"], ["c", "<c16"]]
    stored = zarr3_types.encode_type(data_type)
    raw = base64.b64encode(struct.pack("<ddd", math.nan, math.inf, -math.inf)).decode()
    assert zarr3_fills.encode_fill(raw, data_type, stored) == {"x": "NaN", "c": ["Infinity", "-Infinity"]}


@pytest.mark.parametrize(
    ("data_type", "fill"),
    [
        ("|b1", False),
        ("<i4", 0),
        ("<f4", 0.0),
        ("<c8", [0.0, 0.0]),
        ("|S3", ""),
        ("<U3", ""),
        ("<M8[s]", 0),
        ("|V3", "AAAA"),
        ([["a", "|u1"], ["b", [["c", "<f8"]]]], {"a": 0, "b": {"c": 0.0}}),
    ],
    ids=str,
)
def test_the_fill_value_without_one(data_type, fill):
    stored = zarr3_types.encode_type(data_type)
    assert repr(zarr3_fills.encode_fill(None, data_type, stored)) == repr(fill)
    zero = fill if isinstance(stored, dict) else 0  # zarr 2 declared 0 for all types
    assert repr(zarr3_fills.encode_fill(0, data_type, stored)) == repr(zero)


@pytest.mark.parametrize(
    ("value", "data_type", "stored", "fill"),
    [
        ("0x3c00", "<f2", "float16", 1.0),
        ("0xc000000000000000", "<f8", "float64", -2.0),
        ("0xff800000", "<f4", "float32", "-Infinity"),
        ("0x10", "<U4", named("fixed_length_utf32", length_bytes=16), "0x10"),
        ("AAA=", "|V2", named("raw_bytes", length_bytes=2), None),
        ("AAE=", "|V2", named("raw_bytes", length_bytes=2), "AAE="),
        ([0, 0], "|V2", "r16", None),
        ([0, 255], "|V2", "r16", "AP8="),
        ([0.0, 1.0], "<c8", "complex64", [0.0, 1.0]),
        ("AAAA", "|O", "string", "AAAA"),
        (False, "|b1", "bool", None),
        (0, "<i4", "int32", None),
        (-0.0, "<f4", "float32", -0.0),
        ("", "|O", "string", None),
    ],
    ids=str,
)
def test_fill_values_of_others(value, data_type, stored, fill):
    assert repr(zarr3_fills.decode_fill(value, data_type, stored)) == repr(fill)


@pytest.mark.parametrize(
    ("value", "data_type", "stored", "problem"),
    [
        ("0x1ffffffff", "<f4", "float32", "the fill value '0x1ffffffff' does not fit <f4"),
        ([0, 256], "|V2", "r16", "the fill value [0, 256] is not a list of bytes"),
        ([0, True], "|V2", "r16", "the fill value [0, True] is not a list of bytes"),
        ({"b": 1}, [["a", "|u1"]], named("struct", fields=[["a", "uint8"]]),
         "the fill value {'b': 1} does not fit [['a', '|u1']] ('a')"),
        ({}, "<f4", "float32", "the fill value {} does not fit '<f4' (an object is the fill value of rows only)"),
        ({"a": 1}, "|O", "string",
         "the fill value {'a': 1} does not fit '|O' (an object is the fill value of rows only)"),
        ({"a": {"b": 1}}, [["a", "|u1"]], named("struct", fields=[["a", "uint8"]]),
         "the fill value {'a': {'b': 1}} does not fit [['a', '|u1']] (an object is the fill value of rows only)"),
    ],
    ids=str,
)  # fmt: skip
def test_fill_values_that_are_refused(value, data_type, stored, problem):
    with pytest.raises(MetadataError) as caught:
        zarr3_fills.decode_fill(value, data_type, stored)
    assert str(caught.value) == f"{problem}. Run `zarrio verify` on the file."


def test_a_field_may_have_a_length_as_its_shape():
    as_length, as_list = ([["x", "<f4", shape], ["y", "|u1"]] for shape in (3, [3]))
    assert type_codes.itemsize(as_length) == type_codes.itemsize(as_list) == 13
    assert zarr3_types.encode_type(as_length) == zarr3_types.encode_type(as_list)


# ---- documents ------------------------------------------------------------------------------------------------------


def test_the_root_is_set_last_and_holds_everything():
    inner = Group(members={"a": stored(planned())})
    hierarchy = Hierarchy(Group({"x": OUR_REFERENCE}, {"g": inner}), zarr_format=3)
    kind = FORMATS[3]
    single = {key: document for path, node in hierarchy.walk() for key, document in kind.documents(path, node)}
    assert single.keys() == {"g/zarr.json", "g/a/zarr.json"}
    last = kind.last(hierarchy, {"g/a/c/0": b"abc"}, consolidate=True)
    assert last.keys() == {"zarr.json"}
    block = last["zarr.json"]["consolidated_metadata"]
    assert block["must_understand"] is False
    assert block["metadata"]["g/a"] == single["g/a/zarr.json"]
    assert block["metadata"]["g"]["consolidated_metadata"] == {
        "kind": "inline",
        "must_understand": False,
        "metadata": {},
    }
    found = parse_consolidated(json.loads(json.dumps(last)))
    assert found is not None
    assert found[1] == {"g/a/c/0": b"abc"}
    alone = {**single, **kind.last(hierarchy, {}, consolidate=False)}
    assert "consolidated_metadata" not in alone["zarr.json"]
    for parsed in (found[0], parse_documents(json.loads(json.dumps(alone)))):
        assert parsed.zarr_format == 3
        assert parsed.root.attributes == {"x": OUR_REFERENCE}
        node = parsed.get("g/a")
        assert isinstance(node, Dataset)
        assert replace(node, stored=replace(node.stored, original=None)) == inner.members["a"]


# ---- forms that many arrays share -----------------------------------------------------------------------------------


def numbers(**changes: Any) -> dict[str, Any]:
    """Return the document of an array of float64."""
    document = array_document(data_type="float64", attributes={"_DTYPE": "float64"}, **PAIR)
    return {**document, "fill_value": 0.0, **changes}


@pytest.mark.parametrize("_", range(2))  # worked out, and remembered
def test_arrays_that_differ_in_the_fill_value_only_keep_theirs(_):
    fills = [0.0, -0.0, 1, 1.0, True, "NaN", "Infinity", None]
    nodes = [parse_array({"zarr.json": numbers(fill_value=fill)}, "a") for fill in fills]
    assert [repr(node.stored.fill_value) for node in nodes if node is not None] == list(map(repr, [None, *fills[1:]]))


def test_what_arrays_share_is_not_changed_by_one_of_them():
    texts = [document(stored(ARRAYS["text"])) for _ in range(2)]
    one, other = (parse_array({"zarr.json": text}, "a") for text in texts)
    assert one is not None
    one.stored.filters, one.attributes["unit"], one.stored.fill_value = [{"id": "changed"}], "V", "x"
    assert parse_array({"zarr.json": texts[1]}, "a") == other
    assert other is not None
    assert other.stored.filters == [{"id": "vlen-utf8"}]
    assert document(stored(ARRAYS["text"])) == texts[0]


def test_text_and_references_of_the_same_form_stay_apart():
    for name in ("text", "references", "text"):
        node = stored(ARRAYS[name])
        assert back(node).stored.filters == node.stored.filters


def test_the_type_in_a_note_is_of_its_array_alone():
    for name in ("fields with axes", "rows of both byte orders", "rows of numbers", "fields with axes"):
        node = stored(ARRAYS[name])
        assert back(node).stored.data_type == node.stored.data_type


@pytest.mark.parametrize("key", ["fill_value", "data_type", "codecs"])
def test_a_document_that_is_nested_too_deeply_is_reported(key):
    deep: Any = 0
    for _ in range(20_000):
        deep = [deep] if key == "fill_value" else {"name": "struct", "configuration": {"fields": [["a", deep]]}}
    with pytest.raises(MetadataError):
        zarr3.parse_node(numbers(**{key: [deep] if key == "codecs" else deep}), "a")


def test_groups_of_any_depth():
    depth = 3000
    above = "g/" * depth
    documents = {f"{above}zarr.json": group_document(attributes={"_LINKS": []}), f"{above}x/zarr.json": numbers()}
    found = list(zarr3.parse_documents(documents).walk())
    assert len(found) == depth + 2
    assert found[-2][1].attributes == {"zarr_link": []}
    assert found[-1][1].attributes["zarr_dtype"] == "float64"


def test_damage_in_a_group_names_its_array():
    with pytest.raises(MetadataError, match="float128") as caught:
        zarr3.parse_documents({"zarr.json": group_document(), "a/x/zarr.json": numbers(data_type="float128")})
    assert caught.value.path == "/a/x"
