"""`zarrio compare`: what it prints and how it ends; what it finds is tested in tests/compare."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from pynwb import NWBFile

from hdmf_zarr_backend import NWBZarrIO, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.comparison import compare
from tests import trees
from tests.samples import START, write_zarr
from tests.smallfiles import edited_json


@pytest.fixture
def a(small: Path) -> Path:
    return small


@pytest.fixture
def b(a: Path) -> Path:
    copy = Path(shutil.copytree(a, a.with_name("b.zarr")))
    with edited_json(copy / ".zmetadata") as document:
        document["metadata"]["data/.zarray"]["chunks"] = [5]
        document["metadata"][".zattrs"]["unit"] = float("nan")
    (copy / "data/0").write_bytes(np.ones(5, [("a", "<i4"), ("b", "<f8")]).tobytes())
    return copy


def test_differences_are_lines_and_a_sum_or_json(a, b, zarrio):
    lines = zarrio("compare", a, b, code=1).out.splitlines()
    assert lines[0].startswith("/ attribute 'unit': None | ")
    assert lines[1] == "/data chunks: (2,) | (5,)"
    assert lines[2] == "/data value[0]['a'] (5 elements, largest difference 1): 0 | 1"
    assert lines[3] == "3 differences: 1 attribute, 1 chunks, 1 value"
    document = json.loads(zarrio("compare", a, b, "--json", code=1).out)
    assert document["counts"] == {"attribute": 1, "chunks": 1, "value": 1}
    assert document["differences"][1] == {
        "path": "/data", "attribute": None, "kind": "chunks", "place": "", "count": 1, "a": [2], "b": [5],
    }  # fmt: skip
    assert main(["compare", str(a), str(a), "--json"]) == 0


def test_an_export_keeps_the_encoding_of_its_times(tmp_path, zarr_format, zarrio):
    """pynwb writes times as ASCII, also as single values."""
    write_zarr(tmp_path / "a.zarr", NWBFile("text", "id", START), zarr_format=zarr_format)
    with NWBZarrIO(tmp_path / "a.zarr", "r") as source, NWBZarrIO(tmp_path / "b.zarr", "w") as io:
        io.export(source)
    out = zarrio("compare", tmp_path / "a.zarr", tmp_path / "b.zarr").out
    assert re.fullmatch(r"no differences \(\d+ groups, \d+ datasets\)\n", out)
    out = zarrio("compare", tmp_path / "a.zarr", tmp_path / "b.zarr", "--structure").out
    assert out.endswith(" datasets; values were not compared)\n")


def test_kinds_can_be_left_out_and_the_structure_alone_reads_no_chunk(a, b, zarrio):
    assert main(["compare", str(a), str(b), "--ignore", "chunks,value", "--ignore", "attribute"]) == 0
    assert "colour" in zarrio("compare", a, b, "--ignore", "colour", code=2).err
    (b / "data/0").write_bytes(b"damaged")
    assert "value" not in zarrio("compare", a, b, "--structure", code=1).out


def test_a_damaged_chunk_is_one_line_and_the_others_are_compared(a, b, zarrio):
    for path in (a, b):
        shutil.copytree(path / "data", path / "another")
        with edited_json(path / ".zmetadata") as document:
            documents = document["metadata"]
            documents |= {key.replace("data/", "another/"): text for key, text in documents.items() if "data/" in key}
    (b / "another/0").write_bytes(b"damaged")
    captured = zarrio("compare", a, b, "--ignore", "chunks,attribute", code=1)
    lines = captured.out.splitlines()
    assert lines[0].startswith("/another unreadable: readable | the chunk '0 [0:5]' cannot be decoded")
    assert lines[1:] == [
        "/data value[0]['a'] (5 elements, largest difference 1): 0 | 1",
        "2 differences: 1 unreadable, 1 value",
    ]
    assert captured.err == ""


@pytest.mark.parametrize(("limit", "lines"), [("1", 3), ("0", 4), ("3", 4)])
def test_the_number_of_lines_is_limited(a, b, zarrio, limit, lines):
    shown = zarrio("compare", a, b, "--limit", limit, code=1).out.splitlines()
    assert len(shown) == lines
    assert ("... and 2 more; --limit 0 shows them all" in shown) == (limit == "1")


def _trial(path: Path, changed: int) -> Path:
    spikes, events = np.arange(500) / 4, np.arange(20, dtype="i8")
    spikes[3 : 3 + changed] += 0.5
    spikes[400] += 4.0 * bool(changed)
    events[7] += bool(changed)
    gone = np.where(spikes > 100, np.nan, spikes)
    arrays = {"spikes1": spikes, "spikes2": spikes, "events": events, "nan": gone}
    datasets = [trees.dataset(name, data) for name, data in arrays.items()]
    datasets += [trees.dataset(name, 1, attributes={"unit": f"V{changed}", "object_id": path.stem}) for name in "xy"]
    trees.write_builder(path.with_suffix(".zarr"), trees.root(*datasets))
    if path.suffix == ".h5":
        convert(path.with_suffix(".zarr"), path, check=False)
    return path


@pytest.mark.parametrize("suffixes", [(".zarr", ".zarr"), (".h5", ".h5"), (".zarr", ".h5")])
def test_each_dataset_has_a_line(tmp_path, suffixes, zarrio):
    a, b = _trial(tmp_path / f"a{suffixes[0]}", 0), _trial(tmp_path / f"b{suffixes[1]}", 100)
    assert zarrio("compare", a, b, code=1).out.splitlines() == [
        "/events value[7]: 7 | 8", "/nan value[3] (101 elements, largest difference 0.5): 0.75 | 1.25",
        "/spikes1 value[3] (101 elements, largest difference 4.0): 0.75 | 1.25",
        "/spikes2 value[3] (101 elements, largest difference 4.0): 0.75 | 1.25", "/x attribute 'object_id': 'a' | 'b'",
        "/x attribute 'unit': 'V0' | 'V100'", "/y attribute 'object_id': 'a' | 'b'",
        "/y attribute 'unit': 'V0' | 'V100'", "8 differences: 2 attribute, 2 object_id, 4 value",
    ]  # fmt: skip
    differences = json.loads(zarrio("compare", a, b, "--json", code=1).out)["differences"]
    assert differences[0] == {"path": "/events", "attribute": None, "kind": "value", "place": "[7]", "count": 1,
                              "largest": 1, "a": 7, "b": 8}  # fmt: skip
    assert [(one["path"], one["count"], one["largest"]) for one in differences[1:4]] == [
        ("/nan", 101, 0.5), ("/spikes1", 101, 4.0), ("/spikes2", 101, 4.0),
    ]  # fmt: skip
    assert [(one.path, one.count, one.largest) for one in compare(a, b)][:2] == [("/events", 1, 1), ("/nan", 101, 0.5)]


@pytest.mark.parametrize(("a", "b", "largest"), [
    (np.array([2**63 - 1], "i8"), np.array([-(2**63)], "i8"), 2**64 - 1),
    (np.array([2**64 - 1], "u8"), np.array([1], "u8"), 2**64 - 2), (np.array([True]), np.array([False]), 1),
    (np.array([1.0, np.inf]), np.array([2.0, 0.0]), np.inf), (np.array([np.nan, 1.0]), np.array([0.0, 1.5]), 0.5),
    (np.array([np.nan]), np.array([1.0]), None), (np.array([3 + 4j]), np.array([0j]), 5.0),
    (np.array([1.5], "f4"), np.array([3.0], "f8"), 1.5), (["a"], ["b"], None),
], ids=str)  # fmt: skip
def test_the_largest_difference(tmp_path, a, b, largest):
    for name, data in (("a", a), ("b", b)):
        trees.write_builder(tmp_path / name, trees.root(trees.dataset("x", data)))
    differences = [one for one in compare(tmp_path / "a", tmp_path / "b") if one.kind == "value"]
    assert [(one.largest, type(one.largest)) for one in differences] == [(largest, type(largest))]


@pytest.mark.parametrize("content", [None, b"", b"\x89HDF\r\n\x1a\nxxxx"], ids=["absent", "unknown", "damaged"])
def test_what_cannot_be_compared_is_told_in_one_line(a, tmp_path, zarrio, content):
    other = tmp_path / "other"
    if content is not None:
        other.write_bytes(content)
    for pair in ((a, other), (other, a)):
        captured = zarrio("compare", *pair, code=2)
        assert captured.err.count("\n") == 1
        assert str(other) in captured.err
