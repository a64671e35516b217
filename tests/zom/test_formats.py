"""The model of a file in the other format of Zarr, from its metadata alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert, upgrade
from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.zom.api import (
    ArrayV3,
    GroupV3,
    Model,
    diff,
    find_problems,
    flat,
    from_consolidated,
    from_json,
    to_format,
    to_zom,
)
from tests import samples, trees


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_zarr(tmp_path_factory.mktemp("rich") / "rich.nwb.zarr")


@pytest.fixture(scope="module")
def rich3(rich: Path) -> Path:
    convert(rich, rich.with_name("rich3.nwb.zarr"), zarr_format=3)
    return rich.with_name("rich3.nwb.zarr")


def differences(a: Model, b: Model, *ignored: str) -> list[str]:
    return [str(found) for found in diff(a, b) if found.name not in ignored]


def test_it_is_the_model_of_the_file_that_is_upgraded(rich, tmp_path):
    path = shutil.copytree(rich, tmp_path / "a.nwb.zarr")
    mapped = to_format(to_zom(path), 3)
    upgrade(path)
    assert differences(mapped.model, to_zom(path)) == []
    assert find_problems(mapped.model) == []


def test_it_is_the_model_of_the_file_that_is_converted(rich, rich3, tmp_path):
    names = ("attributes._ARRAY_DIMENSIONS", "dimension_names", "attributes._hdmf")  # rewritten in a copy
    assert differences(to_format(to_zom(rich), 3).model, to_zom(rich3), "chunk_key_encoding", *names) == []
    convert(rich3, tmp_path / "back.nwb.zarr", zarr_format=2)
    assert differences(to_format(to_zom(rich3), 2).model, to_zom(tmp_path / "back.nwb.zarr"), *names) == []


def test_there_and_back_is_the_same(rich, rich3):
    for path, other in ((rich, 3), (rich3, 2)):
        model = to_zom(path)
        back = to_format(to_format(model, other).model, model.zarr_format).model
        assert differences(model, back, *(["chunk_key_encoding"] if other == 2 else [])) == []


def test_no_value_is_read(rich, monkeypatch):
    document = json.loads((rich / ".zmetadata").read_text())
    shutil.copy(rich / ".zmetadata", rich.with_name("alone.json"))
    monkeypatch.setattr(LocalStore, "get", lambda self, key: pytest.fail(f"{key} was read"))
    assert to_format(from_consolidated(document), 3).model.zarr_format == 3


def test_which_chunks_stay(rich, rich3):
    model = to_zom(rich)
    chunks = to_format(model, 3).chunks
    assert chunks.keys() == {path for path, node in flat(model).items() if hasattr(node, "shape")}
    assert chunks["/acquisition/raw/data"] == "kept"
    assert chunks["/general/experimenter"] == "kept"
    assert chunks["/intervals/trials/timeseries"] == "encoded"
    back = to_format(to_zom(rich3), 2).chunks
    assert back["/acquisition/raw/data"] == "moved"
    assert back["/intervals/trials/timeseries"] == "encoded"
    assert to_format(model, 2).model is model
    assert set(to_format(model, 2).chunks.values()) == {"kept"}


def problems_of(root: GroupBuilder, number: int, other: int, tmp_path: Path, **options: Any) -> dict[str, list[str]]:
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=number) as io:
        io.write_builder(root)
    found: dict[str, list[str]] = {}
    for problem in to_format(to_zom(tmp_path / "a.zarr"), other).problems:  # type: ignore[arg-type]
        found.setdefault(problem.path, []).append(problem.kind)
    return found


def test_what_format_3_cannot_express_is_reported(tmp_path):
    target = trees.dataset("target", np.arange(3))
    fields = [{"name": "n", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    root = trees.root(
        target,
        trees.dataset("references", [target], "object"),
        trees.dataset("rows", [(1, target)], fields),
        trees.dataset("filtered", ZarrDataIO(np.arange(9, dtype="i4"), filters=[{"id": "shuffle", "elementsize": 4}])),
    )
    found = problems_of(root, 2, 3, tmp_path)
    assert found == {"/references": ["object-ids"], "/rows": ["values"]}


def test_codecs_in_an_order_that_format_3_does_not_have():
    array = {
        "zarr_format": 2, "shape": [8], "chunks": [8], "dtype": "<i4", "fill_value": None, "order": "C",
        "filters": [{"id": "shuffle", "elementsize": 4}, {"id": "delta", "dtype": "<i4"}], "attributes": {},
        "compressor": {"id": "zlib", "level": 1}, "colour": "red",
    }  # fmt: skip
    mapped = to_format(from_json({"zarr_format": 2, "attributes": {}, "members": {"a": array}}), 3)
    assert [(problem.path, problem.kind) for problem in mapped.problems] == [("/a", "unknown-key"), ("/a", "codecs")]
    assert mapped.chunks == {"/a": "encoded"}


def test_what_format_2_cannot_express_is_reported(tmp_path):
    data = ZarrDataIO(np.arange(100, dtype="i4"), chunks=(10,), shards=(50,))
    assert problems_of(trees.root(trees.dataset("sharded", data)), 3, 2, tmp_path) == {"/sharded": ["shards"]}


def test_the_attributes_for_netcdf_are_left_out_and_reported(tmp_path):
    samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile())
    add_nczarr(tmp_path / "a.nwb.zarr")
    mapped = to_format(to_zom(tmp_path / "a.nwb.zarr"), 3)
    assert [problem.kind for problem in mapped.problems] == ["nczarr"]
    assert not [path for path, node in flat(mapped.model).items() if "_nczarr_group" in node.attributes]


def test_links_and_references_of_both_conventions(tmp_path):
    root = {
        "zarr_format": 2,
        "attributes": {
            "zarr_link": [{"name": "l", "source": "../b.zarr", "path": "/x"}],
            "to": {"zarr_dtype": "object", "value": {"source": ".", "path": "/a"}},
        },
        "members": {},
    }
    made = to_format(from_json(root), 3).model
    assert made.attributes["_LINKS"] == [{"name": "l", "source": "../b.zarr", "path": "/x"}]
    assert made.attributes["to"]["_REFERENCE"]["path"] == "/a"
    back = to_format(made, 2).model
    assert back.attributes["zarr_link"] == root["attributes"]["zarr_link"]
    assert back.attributes["to"]["value"]["path"] == "/a"


@pytest.mark.parametrize("number", [1, "3", None])
def test_there_are_two_formats(rich, number):
    with pytest.raises(UsageError, match="no Zarr format"):
        to_format(to_zom(rich), number)


def test_a_short_form_is_not_an_unknown_key():
    array: ArrayV3[Any] = ArrayV3(
        attributes={},
        shape=[4],
        data_type="int32",
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [4]}},
        chunk_key_encoding={"name": "v2"},
        fill_value=0,
        codecs=["bytes"],
    )
    assert to_format(GroupV3(attributes={}, members={"a": array}), 2).problems == []


def test_a_codec_that_nobody_knows():
    array: ArrayV3[Any] = ArrayV3(
        attributes={},
        shape=[4],
        data_type="int32",
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [4]}},
        chunk_key_encoding={"name": "default", "configuration": {"separator": "/"}},
        fill_value=0,
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "unheard"}],
    )
    with pytest.raises(MetadataError, match="unheard") as caught:
        to_format(GroupV3(attributes={}, members={"a": array}), 2)
    assert caught.value.path == "/a"


def test_a_huge_array_takes_no_time():
    array = {
        "zarr_format": 2, "shape": [2**40], "chunks": [2**20], "dtype": "|O", "fill_value": None, "order": "C",
        "filters": [{"id": "vlen-bytes"}], "compressor": None, "attributes": {"zarr_dtype": "bytes"},
    }  # fmt: skip
    mapped = to_format(from_json({"zarr_format": 2, "attributes": {}, "members": {"a": array}}), 3)
    assert [problem.kind for problem in mapped.problems] == ["values"]
