"""What is in a file beside its nodes and chunks: chunks without a document, and what has the name of a chunk."""

import os
import shutil
import socket
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate, convert, verify
from hdmf_zarr_backend.errors import ChunkError, MetadataError
from hdmf_zarr_backend.options import WriteOptions
from tests import trees
from tests.checks.test_verify import FORMATS, chunk, found, is_v3, tree
from tests.places import stored_files


@pytest.fixture(scope="module", params=FORMATS, ids=lambda n: f"format {n}")
def listed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("listed") / "file.zarr"
    trees.write_builder(path, tree(), zarr_format=request.param, write_options=WriteOptions(consolidate_metadata=False))
    return path


@pytest.fixture
def store(listed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(listed, tmp_path / "file.zarr"))


def lose(store: Path, array: str) -> None:
    for name in (".zarray", ".zattrs", "zarr.json"):
        (store / array / name).unlink(missing_ok=True)


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
@pytest.mark.parametrize("array", ["numbers", "texts", "scalar", "box/target"])
def test_an_array_whose_document_is_gone(store, array):
    lose(store, array)
    in_memory = stored_files(store)
    for report in (verify(store, "structure"), verify(in_memory, "structure")):
        assert found(report) == {(f"/{array}", "document-missing")}
        assert "zarr.json" in report.problems[0].message if is_v3(store) else ".zarray" in report.problems[0].message
        assert "copy is likely incomplete" in report.problems[0].remedy
    out = store.with_name("out.zarr")
    for source in (store, in_memory):
        with pytest.raises(MetadataError, match=rf"no document, as in a copy that stopped.*/{array}.*Copy it again"):
            convert(source, out, check=False)
        with (
            ZarrIO(source, "r") as read,
            ZarrIO(out, "w") as io,
            pytest.raises(MetadataError, match="copy that stopped"),
        ):
            io.export(read)
    assert not out.exists()
    consolidate(store)  # go on without it
    convert(store, out, check=False)
    assert not (out / array).exists()


def test_a_group_whose_documents_are_gone(store):
    lose(store, "box")
    (store / "box/.zgroup").unlink(missing_ok=True)
    (problem,) = verify(store, "structure").problems
    assert (problem.path, problem.kind) == ("/box", "group-implied")
    assert "Copy it again" in problem.remedy
    with pytest.raises(MetadataError, match=r"as in a copy that stopped.*/box"):
        convert(store, store.with_name("out.zarr"), check=False)
    # where its attributes are there, nothing is lost
    if not is_v3(store):
        (store / "box/.zattrs").write_text("{}")
        assert "zarrio repair" in verify(store, "structure").problems[0].remedy
        convert(store, store.with_name("out.zarr"), check=False)


def test_attributes_of_nothing_and_of_an_array_that_is_gone(tmp_path):
    """Format 3 has them in one document."""
    path = trees.write_builder(tmp_path / "a.zarr", tree(), write_options=WriteOptions(consolidate_metadata=False))
    (path / "texts" / ".zarray").unlink()
    (path / "more").mkdir()
    (path / "more" / ".zattrs").write_text("{}")
    said = {problem.path: (problem.kind, problem.message) for problem in verify(path, "structure").problems}
    assert said.keys() == {"/texts", "/more"}
    assert said["/texts"] == ("document-missing", "there is no .zarray or .zgroup, but there are .zattrs, 0")
    assert said["/more"][0] == "document-missing"


def test_many_chunks_without_a_document_are_one_finding(tmp_path):
    many = trees.dataset("many", ZarrDataIO(np.zeros((30, 2), "i1"), chunks=(1, 2)))
    options = WriteOptions(consolidate_metadata=False)
    path = trees.write_builder(tmp_path / "file.zarr", trees.root(many), write_options=options)
    lose(path, "many")
    (problem,) = verify(path).problems
    assert problem.message.endswith(", ...")
    assert problem.message.count("0") == 5


def test_the_document_of_an_array_with_slashes_in_its_keys(tmp_path):
    path = tmp_path / "file.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    encoding = {"name": "v2", "separator": "/"}
    group.create_array("0", shape=(4, 4), chunks=(2, 2), dtype="i4", chunk_key_encoding=encoding)[:] = 7
    group.create_group("1").create_array("2", shape=(4,), chunks=(2,), dtype="i4")[:] = 7
    assert verify(path).is_sound
    (path / "0" / ".zarray").unlink()
    (path / "0" / ".zattrs").unlink(missing_ok=True)
    assert found(verify(path)) == {("/0", "document-missing")}


@pytest.mark.parametrize("place", ["mapping", "local"])
def test_nothing_is_found_in_groups_and_arrays_that_numbers_name(tmp_path, zarr_format, place):
    target: Any = {} if place == "mapping" else tmp_path / "file.zarr"
    inner = trees.group("1", trees.dataset("2", np.arange(4)), trees.group("c", trees.dataset("c", 5)))
    tree = trees.root(trees.group("0", inner), trees.dataset("3.0", [1]))
    options = WriteOptions(consolidate_metadata=False)
    trees.write_builder(target, tree, zarr_format=zarr_format, write_options=options)
    report = verify(target)
    assert (report.problems, "not-consolidated" in report.counts) == ([], True)
    assert trees.read_builder(target)["0/1/c/c"].data == 5


def test_a_file_beside_the_nodes_is_no_chunk(store):
    for name in ("notes.txt", "box/readme.md", "1.txt", "box/5"):
        (store / name).write_text("words")
    assert verify(store).problems == []


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, chdir(path.parent):  # a path of a socket has at most 107 characters
        made.bind(path.name)


KINDS = [Path.mkdir] + [os.mkfifo, make_socket] * hasattr(os, "mkfifo")


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("array", ["numbers", "scalar"])
def test_something_else_is_in_the_place_of_a_chunk(store, make, array):
    location = chunk(store, array, *([1, 0] if array == "numbers" else [] if is_v3(store) else [0]))
    location.unlink()
    make(location)
    # a folder is listed by what is in it
    report = verify(store)
    assert found(report) == {(f"/{array}", "chunk-missing" if make is Path.mkdir else "chunk-damaged")}
    key = location.relative_to(store / array).as_posix()
    assert array == "scalar" or f"{key} [2:4, 0:4]" in report.problems[0].message
    with ZarrIO(store) as io, pytest.raises(ChunkError, match="is a folder, a pipe or a device, not a file") as caught:
        io.read_builder()[array].data[:]
    assert caught.value.path == f"/{array}"
    assert caught.value.store == str(store)


@pytest.mark.parametrize("make", KINDS)
def test_something_else_is_in_the_place_of_a_shard_or_of_a_large_chunk(tmp_path, make):
    data = ZarrDataIO(np.arange(20), chunks=(5,), shards=(10,))
    path = trees.write_builder(tmp_path / "file.zarr", trees.root(trees.dataset("x", data)), zarr_format=3)
    (path / "x/c/1").unlink()
    make(path / "x/c/1")
    with ZarrIO(path) as io, pytest.raises(ChunkError, match="'x/c/1' is a folder, a pipe or a device"):
        io.read_builder()["x"].data[12]
    # of a large chunk only the blocks are read that are wanted, from the file itself
    large = trees.dataset("a", ZarrDataIO(np.zeros((2**19, 4), "i2"), chunks=(2**19, 4)))
    path = trees.write_builder(tmp_path / "large.zarr", trees.root(large))
    (path / "a" / "0.0").unlink()
    make(path / "a" / "0.0")
    with ZarrIO(path) as io, pytest.raises(ChunkError, match=r"a/0\.0'"):
        io.read_builder()["a"].data[5]
