"""Models of files: from stores and consolidated documents, from and to JSON, by the schemas, by pydantic-zarr."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from jsonschema import Draft202012Validator

from benchmarks.bench_zom import measured, write
from hdmf_zarr_backend import NWBZarrIO, ZarrIO, convert
from hdmf_zarr_backend.errors import (
    MetadataError,
    NameRefusedError,
    StoreExistsError,
    UnsupportedFileError,
    UsageError,
)
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.zom.api import (
    ArrayV2,
    ArrayV3,
    GroupV2,
    GroupV3,
    check,
    create,
    diff,
    dumps,
    find_problems,
    flat,
    from_consolidated,
    from_json,
    from_pydantic,
    json_schema,
    like,
    to_consolidated,
    to_json,
    to_pydantic,
    to_zom,
)
from tests import samples

# The two examples of ZEP 6 (CC0), as printed, slips included.
ZEP_3 = """
{"zarr_format": 3, "node_type": "group", "attributes": {"foo": 42, "bar": false}, "members": {"array": {
  "zarr_format": 3, "node_type": "array", "attributes": {"baz": [1, 2, 3]}, "shape": [1000, 1000], "data_type": "|u1",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000, 100]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0,
  "codecs": [{"name": "GZip", "configuration": {"level": 1}}], "storage_transformers": null,
  "dimension_names": ["rows", "columns"]}}}
"""
ZEP_2 = """
{"zarr_format": 2, "attributes": {"foo": 42, "bar": false}, "members": {"foo": {
  "zarr_format": 2, "shape": [1000, 1000], "chunks": [100, 100], "dtype": "|u1", "compressor": null, "fill_value": 0,
  "order": "C", "dimension_separator": "/", "filters": {}, "attributes": {"baz": true}}}}
"""


@pytest.fixture(scope="module", params=[2, 3], ids=["format2", "format3"])
def rich(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rich") / "rich.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=request.param) as io:
        io.write(samples.rich_nwbfile())
    return path


def consolidated_of(path: Path) -> dict[str, Any]:
    """Return the consolidated document without the values in it."""
    name = ".zmetadata" if (path / ".zmetadata").exists() else "zarr.json"
    document: dict[str, Any] = json.loads((path / name).read_text())
    document.pop("hdmf_inline", None)
    document.get("consolidated_metadata", {}).pop("hdmf_inline", None)
    return document


def without_rows(model: Any) -> Any:
    """Return a model without arrays of rows, which zarr 3.1.6 and pydantic-zarr do not know in format 3."""
    if model.zarr_format == 3:
        for node in list(flat(model).values()):
            for name, member in list(getattr(node, "members", {}).items()):
                if isinstance(getattr(member, "data_type", ""), dict) and member.data_type["name"] == "struct":
                    del node.members[name]
    return model


def array(**properties: Any) -> ArrayV2[Any]:
    given: dict[str, Any] = {"attributes": {}, "shape": [4], "chunks": [2], "dtype": "<i2", "compressor": None}
    return ArrayV2(**{**given, **properties})


def group(**members: Any) -> GroupV2[Any, Any]:
    return GroupV2(attributes={}, members=members)


def is_valid(document: Any, zarr_format: Any) -> bool:
    return bool(Draft202012Validator(json_schema(zarr_format)).is_valid(document))


# ---- files ---------------------------------------------------------------------------------------------------------


def test_the_model_says_what_the_documents_say(rich):
    model = to_zom(rich)
    nodes = flat(model)
    documents = consolidated_of(rich)
    if model.zarr_format == 2:
        arrays = {
            key.removesuffix("/.zarray"): d for key, d in documents["metadata"].items() if key.endswith(".zarray")
        }
        for path, document in arrays.items():
            said = to_json(nodes[f"/{path}"])
            assert {key: said[key] for key in document} == document
            assert said["attributes"] == documents["metadata"][f"{path}/.zattrs"]
    else:
        members = documents["consolidated_metadata"]["metadata"]
        arrays = {path: document for path, document in members.items() if document["node_type"] == "array"}
        for path, document in arrays.items():
            assert to_json(nodes[f"/{path}"]) == document
    assert len(arrays) > 60
    assert nodes.keys() >= {f"/{path}" for path in arrays}


def test_consolidated_to_model_to_consolidated_is_the_identity(rich):
    document = consolidated_of(rich)
    model = from_consolidated(document)
    assert to_consolidated(model) == document
    assert to_consolidated(from_consolidated(json.dumps(document))) == document
    if model.zarr_format == 2:
        assert model == to_zom(rich)


def test_json_and_back(rich):
    model = to_zom(rich)
    text = dumps(model)
    again = from_json(text)
    assert diff(again, model) == []
    assert dumps(again) == text
    assert find_problems(model) == []
    check(model)


def test_every_model_is_valid_by_the_schema(rich):
    model = to_zom(rich)
    Draft202012Validator.check_schema(json_schema(model.zarr_format))
    assert list(Draft202012Validator(json_schema(model.zarr_format)).iter_errors(to_json(model))) == []
    assert not is_valid(to_json(model), 5 - model.zarr_format)


def test_an_open_io_and_a_path_and_a_listing_give_one_model(rich):
    model = to_zom(rich)
    with NWBZarrIO(rich, "r") as io:
        assert to_zom(io) == model
    with NWBZarrIO(rich, "r-") as io:
        assert diff(to_zom(io), model) == []


def test_a_mapping_a_group_of_zarr_and_a_url_give_one_model(tmp_path, web):
    import zarr

    datasets = {"a": DatasetBuilder("a", np.arange(3), attributes={"unit": "V"})}
    memory: dict[str, bytes] = {}
    for place in (memory, tmp_path / "a.zarr", web.folder / "a.zarr"):
        with ZarrIO(place, "w") as io:
            io.write_builder(GroupBuilder("root", groups={"g": GroupBuilder("g", datasets=datasets)}))
    models = [
        to_zom(place)
        for place in (memory, tmp_path / "a.zarr", zarr.open_group(tmp_path / "a.zarr"), f"{web.url}/a.zarr")
    ]
    assert all(model == models[0] for model in models)
    assert models[0].members["g"].members["a"].attributes["unit"] == "V"
    place: dict[str, bytes] = {}
    create(models[0], place)
    assert to_zom(place) == models[0]


def test_an_io_that_has_written_nothing_has_no_model(tmp_path):
    with ZarrIO(tmp_path / "a.zarr", "w") as io, pytest.raises(UsageError, match="neither read nor written"):
        to_zom(io)


def test_a_consolidated_file_takes_one_round_of_requests(rich, monkeypatch):
    asked: list[str] = []
    get = LocalStore.get

    def counted(self: LocalStore, key: str) -> Any:
        asked.append(key)
        return get(self, key)

    monkeypatch.setattr(LocalStore, "get", counted)
    monkeypatch.setattr(LocalStore, "list_documents", None)
    to_zom(rich)
    assert set(asked) <= {"zarr.json", ".zmetadata"}
    assert len(asked) <= 2


def test_a_file_without_attributes_and_with_unknown_keys_stays_what_it_is():
    metadata = {
        ".zgroup": {"zarr_format": 2},
        ".zattrs": {},
        "a/.zarray": {
            "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<f4", "compressor": None, "fill_value": "NaN",
            "order": "F", "filters": [], "dimension_separator": ".", "unknown": {"kept": True},
        },
        "b/.zgroup": {"zarr_format": 2},
        "b/c/.zarray": {
            "zarr_format": 2, "shape": [], "chunks": [], "dtype": [["x", "<i4", [2]], ["y", "|S3"]],
            "compressor": {"id": "zlib", "level": 1}, "fill_value": None, "order": "C", "filters": None,
        },
        "b/c/.zattrs": {"a": float("inf")},
    }  # fmt: skip
    document = {"metadata": metadata, "zarr_consolidated_format": 1}
    model = from_consolidated(document)
    assert to_consolidated(model) == document
    assert to_json(model)["members"]["a"]["unknown"] == {"kept": True}
    assert is_valid(to_json(model), 2)


def test_short_forms_and_unknown_keys_of_format_3_stay_what_they_are():
    codecs = ["bytes", {"name": "gzip", "configuration": {"level": 1}}]
    node = {
        "zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "uint8", "codecs": codecs, "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": "default",
        "dimension_names": [None], "something": {"must_understand": False},
    }  # fmt: skip
    inner = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    block = {"kind": "inline", "must_understand": False, "metadata": {"a": node, "g": inner}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"x": 1}, "consolidated_metadata": block}
    model = from_consolidated(document)
    assert to_consolidated(model) == document
    assert "consolidated_metadata" not in to_json(model)
    assert is_valid(to_json(model), 3)


# ---- the ZEP -------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_zep_are_read_as_they_stand():
    model = from_json(ZEP_3)
    assert isinstance(model, GroupV3)
    assert isinstance(model.members["array"], ArrayV3)
    assert to_json(model) == json.loads(ZEP_3)  # the values of documents are nobody's to change
    older = from_json(ZEP_2)
    assert isinstance(older, GroupV2)
    assert older.members["foo"].filters is None
    mended = json.loads(ZEP_2)
    mended["members"]["foo"]["filters"] = None
    assert to_json(older) == mended
    assert is_valid(to_json(model), 3)
    assert is_valid(to_json(older), 2)


def test_the_version_may_be_called_version_as_in_the_schema_of_the_zep():
    text = ZEP_2.replace("zarr_format", "zarr_version")
    assert from_json(text) == from_json(ZEP_2)
    bare = {"attributes": {}, "members": {"a": {"shape": [1], "chunks": [1], "dtype": "|u1"}}}
    assert from_json({"zarr_version": 2, **bare}) == from_json(bare)


def test_colliding_members_get_an_underscore():
    for keys, name in (({"members": 1}, "_members"), ({"members": 1, "_members": 2}, "__members")):
        metadata = {"a/zarr.json": {}, "zarr.json": {"zarr_format": 3, "node_type": "group", **keys}}
        document = {**metadata["zarr.json"], "consolidated_metadata": {"kind": "inline", "metadata": {}}}
        model = from_consolidated(document)
        said = to_json(model)
        assert said["members"] == {}
        assert said[name] == 1
        assert is_valid(said, 3)
        again = from_json(said)
        assert dict(again.extra) == keys
        assert to_consolidated(model) == document
    older = from_consolidated(
        {"metadata": {".zgroup": {"zarr_format": 2, "members": 5}}, "zarr_consolidated_format": 1}
    )
    assert to_json(older) == {"zarr_format": 2, "attributes": {}, "members": {}, "_members": 5}


@pytest.mark.parametrize(
    "document",
    [
        "[]",
        '{"zarr_format": 4, "attributes": {}, "members": {}}',
        '{"zarr_format": 2, "attributes": [], "members": {}}',
        '{"zarr_format": 2, "attributes": {}}',
        '{"zarr_format": 2, "attributes": {}, "members": {"a/b": {}}}',
        '{"zarr_format": 2, "attributes": {}, "members": {"a": 5}}',
        '{"zarr_format": 2, "members": {"a": {"zarr_format": 3, "node_type": "group"}}}',
        '{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "order": "A"}',
    ],
)
def test_what_is_no_model_is_refused(document):
    with pytest.raises(MetadataError):
        from_json(document)


# ---- the schemas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"zarr_format": 3},
        {"shape": [-1]},
        {"chunks": [0]},
        {"dtype": "float"},
        {"dtype": ["<f4"]},
        {"dtype": [["x", "<f4", [2], 1]]},
        {"compressor": {"level": 1}},
        {"filters": {}},
        {"order": "A"},
        {"dimension_separator": "-"},
        {"attributes": None},
    ],
)
def test_the_schema_of_format_2_refuses(change):
    document = to_json(array(dtype=[["x", "<f4", [2]], ["y", [["z", "|u1"]]]]))
    assert is_valid(document, 2)
    assert not is_valid({**document, **change}, 2)
    assert not is_valid(to_json(group(a=array())) | {"members": {"a": {**document, **change}}}, 2)


@pytest.mark.parametrize(
    "change",
    [{"zarr_format": 2}, {"node_type": "group"}, {"shape": ["a"]}, {"codecs": [{"configuration": {}}]}, {"codecs": [5]},
     {"chunk_grid": {"name": "regular", "x": 1}}, {"dimension_names": [5]}, {"data_type": 5}],
)  # fmt: skip
def test_the_schema_of_format_3_refuses(change):
    document = json.loads(ZEP_3)["members"]["array"]
    assert is_valid(document, 3)
    assert not is_valid({**document, **change}, 3)


def test_there_is_no_other_schema():
    with pytest.raises(UsageError, match="no Zarr format"):
        json_schema(4)  # type: ignore[arg-type]


# ---- static and value-dependent rules ------------------------------------------------------------------------------

XARRAY = """
    from dataclasses import dataclass
    from typing import Any, List, Union

    from hdmf_zarr_backend.zom.models import ArrayV2, GroupV2

    @dataclass
    class XAttrs:
        _ARRAY_DIMENSIONS: List[str]

    XArray = ArrayV2[XAttrs]
    XGroup = GroupV2[Any, Union[XArray, GroupV2[Any, XArray]]]

    valid = XGroup(attributes={}, members={'array_0': XArray(
        shape=[10, 10], attributes=XAttrs(_ARRAY_DIMENSIONS=['a', 'b']), dtype='|u1', chunks=[10, 10], compressor=None,
        dimension_separator='.')})
"""
INVALID = """
    invalid = XGroup(attributes={}, members={'array_0': XArray(
        shape=[10, 10], attributes={'foo': 10}, dtype='|u1', chunks=[10, 10], compressor=None,
        dimension_separator='/')})
"""


def test_mypy_tells_what_follows_a_convention_and_what_does_not(tmp_path):
    """The example of ZEP 6, with what is missing or undefined in it supplied."""
    pytest.importorskip("mypy")
    answers = {}
    for name, code in (("valid", XARRAY), ("invalid", XARRAY + INVALID)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", f"{name}.py"]
        answers[name] = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answers["valid"].returncode, answers["valid"].stdout) == (0, "")
    assert answers["invalid"].returncode == 1
    (line,) = answers["invalid"].stdout.splitlines()
    assert 'Argument "attributes" to "ArrayV2" has incompatible type "dict[str, int]"; expected "XAttrs"' in line


def test_attributes_may_have_a_type_of_their_own(tmp_path):
    namespace: dict[str, Any] = {}
    exec(textwrap.dedent(XARRAY), namespace)  # noqa: S102 - the code above
    model = namespace["valid"]
    assert to_json(model)["members"]["array_0"]["attributes"] == {"_ARRAY_DIMENSIONS": ["a", "b"]}
    check(model)
    model.members["array_0"].attributes._ARRAY_DIMENSIONS.append("c")
    with pytest.raises(MetadataError, match="3 names for 2 axes"):
        check(model)
    with pytest.raises(MetadataError, match="3 names for 2 axes"):
        create(model, tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()


def named(*names: Any, shape: Any = None) -> ArrayV2[Any]:
    lengths = [4] * len(names) if shape is None else shape
    return array(shape=lengths, chunks=[1] * len(lengths), attributes={"_ARRAY_DIMENSIONS": list(names)})


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (group(a=named("x", "y")), []),
        (group(a=array(shape=[4, 4])), ["rank"]),
        (group(a=array(chunks=[0])), ["chunks"]),
        (group(a=array(shape=[-1])), ["shape"]),
        (group(a=named("x", shape=[4, 4])), ["dimensions"]),
        (group(a=named("x", "x")), ["dimensions"]),
        (group(a=named("x", 5)), ["dimensions"]),
        (group(a=array(attributes={"_ARRAY_DIMENSIONS": "x"})), ["dimensions"]),
        (group(a=named("x"), b=named("x", shape=[5])), ["dimensions"]),
        (group(a=named("x"), b=group(c=named("x", shape=[5]))), []),
    ],
)
def test_rules_that_depend_on_values(model, kinds):
    found = find_problems(model)
    assert [problem.kind for problem in found] == kinds
    assert all(problem.path in ("/a", "/") for problem in found)


def test_dimension_names_of_format_3_are_held_to_the_shape():
    document = json.loads(ZEP_3)
    document["members"]["array"]["dimension_names"] = ["rows"]
    (problem,) = find_problems(from_json(document))
    assert str(problem) == "/array: dimension_names has 1 names for 2 axes [dimensions]"


def test_a_rule_of_ones_own():
    def has_unit(node: Any) -> Any:
        if isinstance(node, ArrayV2) and "unit" not in node.attributes:
            yield "unit", "there is no unit"

    model = group(a=array(attributes={"unit": "V"}), b=array())
    assert [problem.path for problem in find_problems(model, rules=[has_unit])] == ["/b"]


# ---- differences ---------------------------------------------------------------------------------------------------


def test_differences_are_named(rich):
    model, other = to_zom(rich), from_json(dumps(to_zom(rich)))
    assert diff(model, other) == []
    members = other.members["acquisition"].members  # type: ignore[union-attr]
    gone = next(iter(members))
    del members[gone]
    other.attributes["nwb_version"] = "x"  # type: ignore[union-attr]
    other.attributes["new"] = True  # type: ignore[union-attr]
    units = other.members["units"].members  # type: ignore[union-attr]
    units["id"].shape = [99]
    found = {(d.path, d.name): (d.a, d.b) for d in diff(model, other)}
    assert found == {
        (f"/acquisition/{gone}", "only in a"): (None, None),
        ("/", "attributes.nwb_version"): (model.attributes["nwb_version"], "x"),
        ("/", "attributes.new"): (None, True),
        ("/units/id", "shape"): (list(flat(model)["/units/id"].shape), [99]),  # type: ignore[union-attr]
    }
    assert {d.name for d in diff(other, model)} == {"only in b", "attributes.nwb_version", "attributes.new", "shape"}


def test_like():
    a, b = group(x=array(attributes={"unit": "V"})), group(x=array(attributes={"unit": "A"}, chunks=[4]))
    assert not like(a, b)
    assert like(a, b, exclude={"attributes", "chunks"})
    assert like(a, b, include={"shape", "dtype"})
    assert not like(a, b, include={"attributes.unit"})
    assert not like(a, group(), include={"shape"})
    assert like(a, group(), exclude={"members"})
    assert not like(group(x=array(attributes={"n": 1})), group(x=array(attributes={"n": True})))
    assert like(group(x=array(attributes={"n": float("nan")})), group(x=array(attributes={"n": float("nan")})))
    (found,) = diff(group(x=array()), group(x=group(y=array())))
    assert str(found) == "/x: node type: 'array' != 'group'"


# ---- empty files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("consolidate", [True, False])
def test_an_empty_file_is_made_of_a_model(rich, tmp_path, consolidate):
    import zarr

    model = without_rows(to_zom(rich))
    place = tmp_path / "empty.zarr"
    create(model, place, consolidate=consolidate)
    assert diff(to_zom(place), model) == []
    assert (place / ".zmetadata").exists() == (consolidate and model.zarr_format == 2)
    nodes = dict(zarr.open_group(place, mode="r", use_consolidated=consolidate).members(max_depth=None))
    assert {f"/{path}" for path in nodes} | {"/"} == flat(model).keys()
    with pytest.raises(StoreExistsError):
        create(model, place)
    create(group(a=array()), place, overwrite=True)
    assert diff(to_zom(place), group(a=array())) == []


def test_formats_do_not_mix(tmp_path):
    model = group(a=from_json(ZEP_3).members["array"])  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="a node of format 3"):
        create(model, tmp_path / "a.zarr")
    with pytest.raises(UsageError, match="not a node of a model"):
        to_consolidated(group(a=5))


NOT_STORED = ["", ".", "..", "a/b", "/", "..\\x", "a\\b", "a\0b", ".zarray", ".zgroup", ".zattrs", ".zmetadata",
              "zarr.json", ".hdmf_zarr_journal", "\udcff"]  # fmt: skip


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", NOT_STORED, ids=ascii)
def test_names_that_no_store_holds_are_refused_before_anything_is_written(tmp_path, name, zarr_format):
    made = GroupV2 if zarr_format == 2 else GroupV3
    member = array() if zarr_format == 2 else from_json(ZEP_3).members["array"]  # type: ignore[union-attr]
    for bad in (member, made(attributes={}, members={})):
        model = made(attributes={}, members={"inner": made(attributes={}, members={name: bad})})
        with pytest.raises(NameRefusedError, match=r"cannot be stored|not UTF-8") as caught:
            create(model, tmp_path / "x" / "a.zarr")
        assert caught.value.path == "/inner"
        with pytest.raises(NameRefusedError):
            to_consolidated(model)
    assert list(tmp_path.iterdir()) == []


# ---- pydantic-zarr -------------------------------------------------------------------------------------------------


def plain(spec: Any) -> Any:
    """Return a spec as JSON: the configurations of codecs hold tuples where zarr made them."""
    return json.loads(spec.model_dump_json())


def test_typed_objects_equal_those_of_pydantic_zarr(rich, tmp_path):
    pytest.importorskip("pydantic_zarr")
    import zarr

    model = without_rows(to_zom(rich))
    if model.zarr_format == 3:
        create(model, tmp_path / "a.zarr")
        rich = tmp_path / "a.zarr"
    if model.zarr_format == 2:
        from pydantic_zarr.v2 import GroupSpec
    else:
        from pydantic_zarr.v3 import GroupSpec  # type: ignore[assignment]
    spec = to_pydantic(model)
    theirs = GroupSpec.from_zarr(zarr.open_group(rich, mode="r"))
    assert type(spec) is type(theirs)
    assert plain(spec) == plain(theirs)
    assert plain(to_pydantic(from_pydantic(spec))) == plain(spec)


def test_a_separator_that_is_not_there_is_a_dot():
    pytest.importorskip("pydantic_zarr")
    document = {"zarr_format": 2, "attributes": {}, "members": {"a": {
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "compressor": None, "fill_value": None,
        "order": "C", "filters": None, "attributes": {}}}}  # fmt: skip
    assert to_pydantic(from_json(document)).members["a"].dimension_separator == "."


def test_a_file_without_references_is_equal_as_it_is(tmp_path):
    pytest.importorskip("pydantic_zarr")
    import zarr
    from pydantic_zarr.v2 import GroupSpec

    datasets = {f"a{n}": DatasetBuilder(f"a{n}", np.arange(n + 1)) for n in range(5)}
    with ZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write_builder(GroupBuilder("root", groups={"g": GroupBuilder("g", datasets=datasets)}))
    spec = to_pydantic(to_zom(tmp_path / "a.zarr"))
    assert spec == GroupSpec.from_zarr(zarr.open_group(tmp_path / "a.zarr", mode="r"))


@pytest.mark.slow
def test_a_model_of_five_thousand_nodes_is_equal_and_cheap(tmp_path):
    """How cheap exactly, ``benchmarks/bench_zom.py`` says; here a machine may be busy."""
    pytest.importorskip("pydantic_zarr")
    import zarr
    from pydantic_zarr.v2 import GroupSpec

    write(tmp_path / "a.zarr", 1000)
    model = to_zom(tmp_path / "a.zarr")
    assert len(flat(model)) == 5001
    ours = measured(lambda: to_zom(tmp_path / "a.zarr"))
    theirs = measured(lambda: GroupSpec.from_zarr(zarr.open_group(tmp_path / "a.zarr", mode="r")))
    assert ours < 0.2 * theirs
    assert to_pydantic(model) == GroupSpec.from_zarr(zarr.open_group(tmp_path / "a.zarr", mode="r"))


@pytest.mark.corpus
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_all_of_it_for_the_real_files(some_nwbfiles, tmp_path, zarr_format):
    number = 0
    for source in some_nwbfiles:
        path = tmp_path / f"{source.stem}.nwb.zarr"
        try:
            convert(source, path, zarr_format=zarr_format)
        except UnsupportedFileError:
            continue
        document, model = consolidated_of(path), to_zom(path)
        assert to_consolidated(from_consolidated(document)) == document
        assert diff(from_json(dumps(model)), model) == []
        assert is_valid(to_json(model), zarr_format)
        assert find_problems(model) == []
        number += 1
    assert number > 0.75 * len(some_nwbfiles)
