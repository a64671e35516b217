"""Keys of chunks without folders in format 3: everything that writes can make them, and everything reads them."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from hdmf_zarr_backend import WriteOptions, ZarrDataIO, ZarrIO, compare, convert, dry_run, repair, upgrade, verify
from hdmf_zarr_backend.errors import ChunkError, UsageError
from tests import samples, trees
from tests.places import stored_files

V2 = {"name": "v2", "configuration": {"separator": "."}}


def encodings(path: Path) -> dict[str, Any]:
    documents = [json.loads(key.read_bytes()) for key in path.rglob("zarr.json")]
    return {json.dumps(one["chunk_key_encoding"]) for one in documents if one["node_type"] == "array"}


def chunk_keys(path: Path) -> list[str]:
    arrays = {key.parent for key in path.rglob("zarr.json") if b'"array"' in key.read_bytes()[:60]}
    return [str(key.relative_to(array)) for array in arrays for key in array.rglob("*") if key.name != "zarr.json"]


def tree() -> Any:
    grid = ZarrDataIO(np.arange(24.0).reshape(4, 6), chunks=(2, 3))
    shards = ZarrDataIO(np.arange(24.0).reshape(4, 6), chunks=(1, 3), shards=(2, 6))
    return trees.root(trees.dataset("grid", grid), trees.dataset("shards", shards), trees.dataset("scalar", 3))


def test_written_read_and_changed(tmp_path):
    path = tmp_path / "a.zarr"
    trees.write_builder(path, tree(), zarr_format=3, write_options=WriteOptions(chunk_key_encoding="v2"))
    assert encodings(path) == {json.dumps(V2)}
    assert sorted(path.name for path in (path / "grid").iterdir()) == ["0.0", "0.1", "1.0", "1.1", "zarr.json"]
    with trees.edit_builder(path) as builder:
        builder["grid"].data[3, 5] = -1
        builder["shards"].data[3, 5] = -1
        builder.set_dataset(trees.dataset("new", np.arange(3)))
    assert encodings(path) == {json.dumps(V2)}, "a new array has keys as the others of the file have"
    assert verify(path).problems == []
    root = zarr.open_group(path, mode="r")
    assert root["grid"][3].tolist() == root["shards"][3].tolist() == [18, 19, 20, 21, 22, -1]
    assert (root["scalar"][()], root["new"][:].tolist()) == (3, [0, 1, 2])
    (path / "grid" / "0.7").write_bytes(b"stray")
    assert [problem.path for problem in verify(path).remarks + verify(path).problems if "0.7" in str(problem)]
    repair(path)
    assert ZarrIO(path, "r").read_builder()["grid"].data[3, 5] == -1


@pytest.mark.parametrize("source", ["hdf5", "zarr"])
def test_converted(tmp_path, source):
    samples.write_zarr(tmp_path / "a.zarr", samples.plain_nwbfile())
    convert(tmp_path / "a.zarr", tmp_path / "a.nwb")
    path = tmp_path / "b.zarr"
    given = tmp_path / ("a.nwb" if source == "hdf5" else "a.zarr")
    convert(given, path, zarr_format=3, write_options=WriteOptions(chunk_key_encoding="v2"))
    assert encodings(path) == {json.dumps(V2)}
    assert not any("/" in key for key in chunk_keys(path))
    assert compare(given, path) == []
    assert verify(path).is_sound


def test_upgraded(tmp_path):
    """Chunks that are encoded anew have other keys than the old ones, which are there until the end."""
    path = tmp_path / "a.zarr"
    trees.write_builder(path, samples.reference_tree())
    shutil.copytree(path, tmp_path / "b.zarr")
    upgrade(path, write_options=WriteOptions(chunk_key_encoding="v2"))
    assert chunk_keys(path)
    assert not any("/" in key for key in chunk_keys(path))
    assert any(key.startswith("c.") for key in chunk_keys(path))
    assert verify(path).is_sound
    assert compare(tmp_path / "b.zarr", path) == []


@pytest.mark.parametrize("encoding", ["default", "v2"])
@pytest.mark.parametrize("damaged", ["references/0", "rows/0.0"])
@pytest.mark.parametrize("is_gone", [False, True], ids=["damaged", "gone"])
def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path, damaged, encoding, is_gone):
    path = tmp_path / "a.zarr"
    trees.write_builder(path, samples.reference_tree())
    chunk = path / "inner" / "deep" / damaged
    chunk.unlink() if is_gone else chunk.write_bytes(b"damaged")
    before = stored_files(path)
    with pytest.raises(ChunkError, match=damaged.partition("/")[0]):
        upgrade(path, write_options=WriteOptions(chunk_key_encoding=encoding))
    assert stored_files(path) == before


def test_refused(tmp_path):
    path = samples.write_zarr(tmp_path / "b.zarr", samples.plain_nwbfile())
    options = WriteOptions(chunk_key_encoding="v2")
    for zarr_format in (2, None, "both"):
        given = {"zarr_format": zarr_format, "write_options": options}
        with pytest.raises(UsageError, match="chunk_key_encoding"):
            ZarrIO(tmp_path / "a.zarr", "w", **given)
        with pytest.raises(UsageError, match="chunk_key_encoding"):
            dry_run(path, **given)
    with pytest.raises(UsageError, match="chunk_key_encoding"):
        convert(path, tmp_path / "c.nwb", write_options=options)
    with pytest.raises(UsageError, match="chunk_key_encoding='v3' is unknown"):
        WriteOptions(chunk_key_encoding="v3")
    assert sorted(place.name for place in tmp_path.iterdir()) == ["b.zarr"]
