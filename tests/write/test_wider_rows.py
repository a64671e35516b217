"""Text and references of rows that outgrow their fields, which have a length in format 3, make the fields wider."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrIO, verify
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.options import Limits, ReadRules
from tests.peers import Peer
from tests.smallfiles import edited_json
from tests.trees import dataset, group, read_builder, root, write_builder

FIELDS = [{"name": "i", "dtype": "int32"}, {"name": "text", "dtype": "text"}]


def written(path: Path, builder: GroupBuilder) -> Path:
    return write_builder(path, builder, zarr_format=3)


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in read_builder(path)["rows"].data[:]]


def text_bytes(path: Path, name: str = "rows") -> list[int]:
    fields = json.loads((path / name / "zarr.json").read_text())["data_type"]["configuration"]["fields"]
    types = [field["data_type"] for field in fields]
    return [kind["configuration"]["length_bytes"] for kind in types if isinstance(kind, dict)]


@pytest.mark.parametrize(("length", "width"), [(600, 600), (601, 1200), (1200, 1200), (1500, 1500)])
def test_a_longer_text_of_rows_makes_its_field_twice_as_long_at_least(tmp_path, length, width):
    rows = [(1, "a" * 600), (2, "b")]
    path = written(tmp_path / "a.zarr", root(dataset("rows", rows, FIELDS)))
    with ZarrIO(path, "r+") as io:
        table = io.read_builder()["rows"].data
        table.append((3, "ä" * length))
        assert [tuple(row) for row in table[:]] == [*rows, (3, "ä" * length)]
    assert rows_of(path) == [*rows, (3, "ä" * length)]
    assert text_bytes(path) == [4 * width]
    with ZarrIO(path, "r+") as io:  # the field is wide enough now
        io.read_builder()["rows"].data.append((4, "d" * width))
    assert text_bytes(path) == [4 * width]
    assert rows_of(path)[3] == (4, "d" * width)
    assert verify(path, "chunks").problems == []


@pytest.mark.parametrize(
    ("row", "message"), [((2, "b" * 20_000), "which holds 512"), ((object(), object()), "cannot be stored")]
)
def test_text_that_makes_a_chunk_too_large_and_other_values_are_refused(tmp_path, row, message):
    path = written(tmp_path / "a.zarr", root(dataset("rows", [(1, "a")] * 5, FIELDS)))
    with pytest.raises(ValueRefusedError, match=message), ZarrIO(path, "r+") as io:
        io._store.read_rules = ReadRules(limits=Limits(max_object_bytes=100_000))
        io.read_builder()["rows"].data.append(row)
    assert rows_of(path) == [(1, "a")] * 5


def test_references_of_rows_outgrow_their_field(tmp_path):
    deep = group("g" * 250, group("h" * 250, group("i" * 250)))
    fields = [{"name": "i", "dtype": "int32"}, {"name": "to", "dtype": {"reftype": "object", "target_type": "Data"}}]
    near = group("near")
    path = written(tmp_path / "a.zarr", root(near, deep, dataset("rows", [(1, ReferenceBuilder(near))], fields)))
    with ZarrIO(path, "r+") as io:
        builder = io.read_builder()
        target = builder["g" * 250]["h" * 250]["i" * 250]
        builder["rows"].data.append((2, target))
    assert text_bytes(path) == [4 * 1024]
    data = read_builder(path)["rows"].data
    assert [data[n][1].name for n in range(2)] == ["near", "i" * 250]


def test_rows_of_other_writers_become_wider_and_keep_unknown_metadata(tmp_path):
    path = tmp_path / "a.zarr"
    written(path, root(dataset("rows", [(1, "a"), (2, "b")], FIELDS)))
    with edited_json(path / "rows/zarr.json") as document:  # rows of a few characters
        field = {"name": "text", "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}}}
        document["data_type"]["configuration"]["fields"][1] = field
        document["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        document["theirs"] = {"must_understand": False, "word": 1}
        document["attributes"]["their_note"] = "kept"
    (path / "rows/c/0").write_bytes(np.array([(1, "a"), (2, "b")], [("i", "<i4"), ("text", "<U4")]).tobytes())
    with edited_json(path / "zarr.json") as whole:
        del whole["consolidated_metadata"]
    for row, width in (((3, "äöü"), 16), ((4, "abcdefg"), 32)):
        with ZarrIO(path, "r+") as io:
            io.read_builder()["rows"].data.append(row)
        assert text_bytes(path) == [width]
    document = json.loads((path / "rows/zarr.json").read_text())
    assert document["theirs"] == {"must_understand": False, "word": 1}
    assert document["attributes"]["their_note"] == "kept"
    assert rows_of(path) == [(1, "a"), (2, "b"), (3, "äöü"), (4, "abcdefg")]


_ROWS_OF_PEER = """
import json, sys, warnings
warnings.simplefilter("ignore")
from hdmf_zarr import ZarrIO
from hdmf.common import get_manager
with ZarrIO(sys.argv[1], "r", manager=get_manager()) as io:
    rows = io.read_builder()["rows"].data[:]
    print(json.dumps([[int(row[0]), str(row[1])] for row in rows]))
"""


@pytest.mark.peer
def test_hdmf_zarr_014_reads_rows_that_became_wider(tmp_path, peer014: Peer):
    path = written(tmp_path / "a.zarr", root(dataset("rows", [(1, "a"), (2, "b")], FIELDS)))
    with ZarrIO(path, "r+") as io:
        io.read_builder()["rows"].data.append((3, "c" * 513))
    assert peer014.run(_ROWS_OF_PEER, path) == [[1, "a"], [2, "b"], [3, "c" * 513]]
