"""What spoiled files have brought to light, each in its smallest form: another error, a crash, or no end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

from hdmf_zarr_backend import ZarrIO, verify
from hdmf_zarr_backend.errors import ChunkError, LimitError, MetadataError, ZarrBackendError
from tests.hostile.child import LIMITS, use
from tests.hostile.seeds import Files, listed, written


def change(files: Files, key: str, change: Callable[[dict[str, Any]], Any]) -> Files:
    document = json.loads(files[key])
    change(document)
    files[key] = json.dumps(document).encode()
    return files


def look(files: Files | Path) -> tuple[str, set[str]]:
    """Read and verify a file; return the name of the error and the kinds of findings."""
    try:
        use(files)
        outcome = ""
    except ZarrBackendError as error:
        outcome = type(error).__name__
    return outcome, {problem.kind for problem in verify(files, limits=LIMITS).problems}


# ---- documents that say something of another kind -------------------------------------------------------------------


@pytest.mark.parametrize("encoding", [{"name": ["default"]}, {"name": {}}, [], 5, {"name": "v2", "configuration": [1]}])
def test_the_encoding_of_chunk_keys(encoding):
    files = change(listed(3), "plain/zarr.json", lambda d: d.update(chunk_key_encoding=encoding))
    outcome, kinds = look(files)
    assert outcome == "MetadataError"
    assert "document-damaged" in kinds


@pytest.mark.parametrize("separator", [[], {}, None, 0])
def test_the_separator_of_chunk_keys(separator):
    encoding = {"name": "default", "configuration": {"separator": separator}}
    files = change(listed(3), "plain/zarr.json", lambda d: d.update(chunk_key_encoding=encoding))
    assert look(files)[0] == "MetadataError"


@pytest.mark.parametrize("fill", [["a"], [[1]], [-1], [256], [1.5], [None]])
def test_a_fill_value_that_is_a_list(fill):
    files = change(listed(3), "plain/zarr.json", lambda d: d.update(fill_value=fill))
    outcome, kinds = look(files)
    assert outcome == "MetadataError"
    assert "document-damaged" in kinds


@pytest.mark.parametrize("shuffle", [{}, [], [1], 7, None])
def test_the_shuffle_of_blosc(shuffle):
    codecs = [{"name": "bytes"}, {"name": "blosc", "configuration": {"shuffle": shuffle}}]
    files = change(listed(3), "plain/zarr.json", lambda d: d.update(codecs=codecs))
    assert look(files)[0] == "MetadataError"


@pytest.mark.parametrize("inner", [[4, 3], [8, 4], [2**40, 4], [0, 4]])
def test_shards_that_hold_no_whole_chunks(inner):
    codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": inner, "codecs": [{"name": "bytes"}]}}]
    files = change(listed(3), "plain/zarr.json", lambda d: d.update(codecs=codecs))
    assert look(files)[0] == "MetadataError"


@pytest.mark.parametrize("index", [5, [5], {"name": "bytes"}, [{"name": "bytes", "configuration": []}] * 9])
def test_an_index_of_shards_of_another_kind(index):
    configuration = {"chunk_shape": [2, 4], "codecs": [{"name": "bytes"}], "index_codecs": index}
    codecs = [{"name": "sharding_indexed", "configuration": configuration}]
    files = change(listed(3), "plain/zarr.json", lambda d: d.update(codecs=codecs))
    assert look(files)[0] == "MetadataError"


@pytest.mark.parametrize("fields", [[{"a": 1}], [["n"]], [[["x"], "|O"]], ["|O"], [5]])
def test_fields_of_another_kind(fields):
    files = change(listed(2), "rows/.zarray", lambda d: d.update(dtype=fields))
    assert look(files)[0] in ("MetadataError", "ChunkError", "")


@pytest.mark.parametrize("word", [[{"name": "n", "dtype": []}], [{"name": [], "dtype": "int32"}], [5], [{}]])
def test_words_of_fields_of_another_kind(word):
    look(change(listed(2), "rows/.zattrs", lambda d: d.update(zarr_dtype=word)))


# ---- chunks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(17))
def test_a_frame_of_blosc_that_is_all_header(length):
    frame = bytes(numcodecs.Blosc().encode(np.arange(6, dtype="i2")))[:length]
    files = listed(2)
    files["squeezed/0.0"] = frame
    assert "chunk-damaged" in look(files)[1]
    with ZarrIO(files) as io, pytest.raises(ChunkError):
        io.read_builder()["squeezed"].data[0]


def test_a_frame_of_blosc_with_a_negative_length():
    files = change(listed(2), "texts/.zarray", lambda d: d.update(compressor={"id": "blosc"}))
    files["texts/0"] = b"\2\1\1\1" + b"\xff\xff\xff\xff" + b"\0\0\4\0" + (40).to_bytes(4, "little") + bytes(24)
    assert "chunk-damaged" in look(files)[1] or "limit" in look(files)[1]


# ---- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [[2**63, 4], [2**64, 4], [10**30, 4], [2**62, 2**62]])
def test_shapes_beyond_what_an_index_can_be(shape):
    files = change(listed(2), "plain/.zarray", lambda d: d.update(shape=shape))
    with ZarrIO(files, limits=LIMITS) as io:
        data = io.read_builder()["plain"].data
        for key in ((), slice(None), (slice(None), 0), Ellipsis):
            with pytest.raises(LimitError):
                data[key]
        assert data[1, 0] == 4
        assert data[1:2, :4].tolist() == [[4, 5, 6, 7]]


@pytest.mark.parametrize("name", ["plain", "references", "rows"])
def test_a_grid_of_a_trillion_chunks_takes_no_time(name):
    files = change(listed(2), f"{name}/.zarray", lambda d: d.update(
        shape=[2**40, *d["shape"][1:]], chunks=[1, *d["chunks"][1:]]))  # fmt: skip
    start = time.process_time()
    look(files)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["references", "rows"])
def test_elements_of_a_table_beyond_what_an_index_can_be(name):
    files = change(listed(2), f"{name}/.zarray", lambda d: d.update(shape=[2**64, *d["shape"][1:]]))
    assert look(files)[0] in ("", "LimitError", "ChunkError", "MetadataError")


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "x" * 300, "x/" * 400 + "y"])
def test_names_that_no_file_system_has(name, tmp_path):
    path = tmp_path / "file.zarr"
    files = written(2)
    document = json.loads(files[".zmetadata"])
    for key in (".zarray", ".zattrs"):
        document["metadata"][f"{name}/{key}"] = document["metadata"][f"scalar/{key}"]
    files[".zmetadata"] = json.dumps(document).encode()
    for key, value in files.items():
        (path / key).parent.mkdir(parents=True, exist_ok=True)
        (path / key).write_bytes(value)
    assert look(path)[0] in ("", "StoreError", "MetadataError")


def test_a_thousand_groups_inside_of_each_other():
    files = written(3)
    document = json.loads(files["zarr.json"])
    metadata = document["consolidated_metadata"]["metadata"]
    for depth in range(1, 1500):
        metadata["/".join("g" * depth)] = {"zarr_format": 3, "node_type": "group"}
    files["zarr.json"] = json.dumps(document).encode()
    with pytest.raises((MetadataError, ZarrBackendError)):
        use(files)
