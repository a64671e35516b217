"""Facts of Zarr files made by hand: references, links, regions, old files, damaged files."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend.array.content import ZarrContent
from hdmf_zarr_backend.comparison import compare, open_content, summarise
from hdmf_zarr_backend.errors import MetadataError, NotZarrError
from hdmf_zarr_backend.model.content import DatasetContent, NodeContent
from hdmf_zarr_backend.model.element import Target
from tests.places import store_files
from tests.smallfiles import edited_json


def dataset(node: NodeContent) -> DatasetContent:
    assert isinstance(node, DatasetContent)
    return node


def hand_made(path: Path, **attributes: Any) -> Path:
    array = {"chunks": [10, 4], "compressor": None, "dtype": "<i4", "fill_value": 3, "filters": None, "order": "C",
             "shape": [10, 4], "zarr_format": 2}  # fmt: skip
    groups = {key: {"zarr_format": 2} for key in (".zgroup", "group/.zgroup")}
    return store_files(path, {**groups, "group/data/.zarray": array, ".zattrs": attributes})


def stored(path: str, source: str = ".", **more: Any) -> dict[str, Any]:
    kind = "region" if "region" in more else "object"
    return {"zarr_dtype": kind, "value": {"source": source, "path": path, **more}}


def attribute(path: Path, name: str) -> Any:
    content = ZarrContent(path)["/"]
    assert not isinstance(content, DatasetContent)
    return content.attributes[name].value[()]  # type: ignore[union-attr]


@pytest.mark.parametrize(("region", "meant"), [
    ([{"slice": [0, 4, 1]}, {"slice": [0, 4, 2]}], (("slice", (0, 4, 1)), ("slice", (0, 3, 2)))),
    ([{"slice": [None, None, None]}, {"index": [1, 2, 3]}], (("slice", (0, 10, 1)), ("slice", (1, 4, 1)))),
    ([{"index": [0, 1, 5]}, {"slice": [1, 2, 1]}], (("index", (0, 1, 5)), ("slice", (1, 2, 1)))),
    ([{"slice": [4, 4, 1]}, {"slice": [0, 4, 1]}], (("none", ()),)),
    ({"points": [[1, 2], [0, 3]]}, (("points", ((1, 2), (0, 3))),)),
], ids=str)  # fmt: skip
def test_regions_have_one_spelling(tmp_path: Path, region: Any, meant: Any) -> None:
    path = hand_made(tmp_path / "a.zarr", part=stored("/group/data", region=region))
    assert attribute(path, "part") == Target("/group/data", meant)


@pytest.mark.parametrize(("reference", "meant"), [
    (stored("/group/data"), Target("/group/data")),
    (stored("group/data/"), Target("/group/data")),
    (stored("/"), Target("/")),
    (stored("/nothing"), Target("<dangling>")),
    (stored("/group/data/deeper"), Target("<dangling>")),
    (stored("/soft"), Target("/group/data")),
    (stored("/chain"), Target("/group/data")),
    (stored("/folder/data"), Target("/group/data")),
    (stored("/loop_a"), Target("<dangling>")),
    (stored("/outside/x"), Target("/there/x", None, "../b.zarr")),
    (stored("/x", "../b.zarr"), Target("/x", None, "../b.zarr")),
    (stored("/group", "a.zarr"), Target("/group")),  # as hdmf-zarr 0.10 named the file itself
    ({"zarr_dtype": "object", "value": {"source": "."}}, Target("<dangling>")),
], ids=lambda value: str(value["value"]) if isinstance(value, dict) else "")  # fmt: skip
def test_references_lead_through_links_and_never_astray(tmp_path: Path, reference: Any, meant: Target) -> None:
    links = [
        {"name": "soft", "source": ".", "path": "/group/data"},
        {"name": "chain", "source": ".", "path": "/soft"},
        {"name": "folder", "source": ".", "path": "/group"},
        {"name": "loop_a", "source": ".", "path": "/loop_b"},
        {"name": "loop_b", "source": ".", "path": "/loop_a"},
        {"name": "outside", "source": "../b.zarr", "path": "/there"},
    ]
    path = hand_made(tmp_path / "a.zarr", zarr_link=links, ref=reference)
    assert attribute(path, "ref") == meant
    assert str(ZarrContent(path)["/outside"]) == "external link to ../b.zarr:/there"
    assert compare(path, path) == []


def test_external_links_are_equal_by_text_or_by_the_file_meant(tmp_path: Path) -> None:
    def linked(path: Path, source: str) -> Path:
        return hand_made(path, zarr_link=[{"name": "link", "source": source, "path": "/x"}])

    a = linked(tmp_path / "a.zarr", "../other.zarr")
    moved = linked(tmp_path / "deep/b.zarr", "../other.zarr")
    rewritten = linked(tmp_path / "deep/c.zarr", "../../other.zarr")
    assert compare(a, moved) == []
    assert compare(a, rewritten) == []
    assert summarise(compare(moved, rewritten)) == {"link": 1}


def test_what_stands_among_text_does_not_look_like_empty_text(tmp_path: Path) -> None:
    import numcodecs

    values = np.empty(3, dtype=object)
    values[:] = ["", 5, {"a": 1}]
    path = hand_made(tmp_path / "a.zarr")
    with edited_json(path / "group/data/.zarray") as document:
        document.update(dtype="|O", shape=[3], chunks=[3], filters=[numcodecs.JSON().get_config()], fill_value=None)
    (path / "group/data/0").write_bytes(bytes(numcodecs.JSON().encode(values)))
    assert dataset(ZarrContent(path)["/group/data"]).read((slice(0, 3),)).tolist() == ["", "5", '{"a": 1}']


@pytest.mark.parametrize(("key", "text", "error", "said"), [
    (".zattrs", '{"zarr_link": 5}', MetadataError, "zarr_link"),
    (".zattrs", '{"zarr_link": [{"path": "/group"}]}', MetadataError, "no name"),
    ("group/data/.zattrs", '{"_nczarr_attr": {"types": {"x": "<i4"}}, "x": "word"}', MetadataError, "/group/data"),
    ("group/data/.zattrs", '{"_nczarr_attr": {"types": {"x": "<i4"}}, "x": 29.97}', MetadataError, "int32 .* 29.97"),
    ("group/data/.zattrs", '{"_nczarr_attr": {"types": {"x": "<f4"}}, "x": [1e300]}', MetadataError, "'x' .*overflow"),
    ("group/data/.zattrs", '{"_hdmf": {"attributes": {"x": {"dtype": "|b1"}}}, "x": 0.5}', MetadataError, "bool .*0.5"),
    ("group/data/.zattrs", '{"_hdmf": {"attributes": {"x": {"dtype": "<U1"}}}, "x": "ab"}', MetadataError, "<U1 .*ab"),
    ("group/data/.zattrs", '{"zarr_dtype": [{"name": "x", "dtype": "nonsense"}]}', None, ""),
    ("group/data/.zarray", "{}", MetadataError, "/group/data"),
])  # fmt: skip
def test_damage_is_told_with_file_and_node(tmp_path, key, text, error, said):
    path = hand_made(tmp_path / "a.zarr")
    (path / key).write_text(text)
    if error is None:
        assert compare(path, path) == []
    elif key == ".zattrs":  # of the root
        with pytest.raises(error, match=said) as caught:
            compare(path, path)
        assert str(path) in str(caught.value)
    else:
        (difference,) = compare(path, path)
        assert (difference.path, difference.kind) == ("/group/data", "unreadable")
        assert re.search(said, str(difference))


def test_zarr_is_known_by_its_documents(tmp_path: Path) -> None:
    path = hand_made(tmp_path / "a.zarr")
    (tmp_path / "zarr.json").write_text("{}")
    with pytest.raises(MetadataError, match="format 3"):
        open_content(tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        open_content(tmp_path / "absent")
    with pytest.raises(NotZarrError, match="not a Zarr hierarchy"):
        open_content(path / ".zgroup")
