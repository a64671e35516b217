"""`verify`: each kind of damage is planted, found at its place, and nothing else is."""

import copy
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.build import GroupBuilder, LinkBuilder, ReferenceBuilder
from pynwb import NWBHDF5IO, TimeSeries
from pynwb.testing.mock.file import mock_NWBFile

from hdmf_zarr_backend import Limits, NWBZarrIO, ZarrDataIO, ZarrIO, consolidate, convert, upgrade, validate, verify
from hdmf_zarr_backend.check.findings import Report
from hdmf_zarr_backend.errors import ChunkError, NotZarrError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.options import ReadOptions, WriteOptions
from hdmf_zarr_backend.store.base import Abilities
from hdmf_zarr_backend.store.local import LocalStore
from tests import documents, samples, trees
from tests.smallfiles import edited_json
from tests.zarrs import needs_zarr_3, open_group

FORMATS = (2, 3)


def tree() -> GroupBuilder:
    target = trees.dataset("target", np.arange(6.0), attributes={"object_id": "t-1"})
    box = trees.group("box", target, object_id="b-1")
    numbers = np.arange(24, dtype="i2").reshape(6, 4)
    root = trees.root(box, trees.dataset("numbers", ZarrDataIO(numbers, chunks=(2, 4))), object_id="r-1")
    root.set_dataset(trees.dataset("texts", ["a", "bc", "d"]))
    root.set_dataset(trees.dataset("scalar", 3.5))
    root.set_dataset(trees.dataset("references", [ReferenceBuilder(target), ReferenceBuilder(box)], "object"))
    words = [{"name": "n", "dtype": "int32"}, {"name": "to", "dtype": {"target_type": "X", "reftype": "object"}}]
    root.set_dataset(trees.dataset("rows", [(1, ReferenceBuilder(target)), (2, ReferenceBuilder(box))], words))
    root.set_attribute("to", ReferenceBuilder(target))
    root.set_link(LinkBuilder(builder=box, name="link"))
    return root


@pytest.fixture(scope="module", params=FORMATS, ids=lambda n: f"format {n}")
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "file.zarr"
    trees.write_builder(path, tree(), zarr_format=request.param)
    return path


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "file.zarr"))


def found(report: Report) -> set[tuple[str, str]]:
    return {(problem.path, problem.kind) for problem in report.problems}


def is_v3(store: Path) -> bool:
    return (store / "zarr.json").exists()


def chunk(store: Path, array: str, *index: int) -> Path:
    folder = store / array
    return folder / "c" / "/".join(map(str, index)) if is_v3(store) else folder / ".".join(map(str, index))


def scalar_of(store: Path) -> Path:
    return chunk(store, "scalar") if is_v3(store) else chunk(store, "scalar", 0)


def attributes_of(store: Path, node: str) -> Path:
    return store / node / ("zarr.json" if is_v3(store) else ".zattrs")


def change_attributes(store: Path, node: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the attributes of a node, in its own document and in the consolidated one."""
    with edited_json(attributes_of(store, node)) as document:
        change(document["attributes"] if is_v3(store) else document)
    top = store / ("zarr.json" if is_v3(store) else ".zmetadata")
    whole = json.loads(top.read_text())
    if is_v3(store):
        if node:
            change(whole["consolidated_metadata"]["metadata"][node]["attributes"])
            top.write_text(json.dumps(whole))
    else:
        change(whole["metadata"][f"{node}/.zattrs" if node else ".zattrs"])
        top.write_text(json.dumps(whole))


def links_of(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return attributes["_LINKS"] if "_LINKS" in attributes else attributes["zarr_link"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("executor", [None, 2, "threads"])
def test_a_whole_file_is_sound(store, executor):
    report = verify(store, executor=executor)
    assert report.is_sound
    assert not report.problems
    assert (report.groups, report.arrays, report.links) == (2, 6, 1)
    assert report.references == 1 + 2 + 2
    assert report.chunks == 3 + 5
    assert report.nbytes > 0
    assert {remark.kind for remark in report.remarks} <= {"unchecked"}


def test_levels_look_at_more_and_more(store):
    report = verify(store, "schema")
    assert report.is_sound
    assert "no-schema" in report.counts  # a file without cached namespaces is not validated
    chunk(store, "numbers", 0, 0).write_bytes(b"no chunk")
    assert verify(store, "structure").is_sound
    assert verify(store, "links").is_sound
    assert not verify(store, "chunks").is_sound
    assert verify(store, executor="processes").problems == verify(store).problems
    with pytest.raises(UsageError, match="level 'everything'"):
        verify(store, "everything")


# ---- chunks ---------------------------------------------------------------------------------------------------------
def test_a_chunk_that_is_gone(store):
    """In other libraries it reads as zeros, and passes validation."""
    chunk(store, "numbers", 1, 0).unlink()
    report = verify(store)
    assert found(report) == {("/numbers", "chunk-missing")}
    (problem,) = report.problems
    assert "a chunk is missing, although all were stored" in problem.message
    assert chunk(store, "numbers", 1, 0).name[-1] in problem.message
    assert trees.read_builder(store)["numbers"].data[:][2].tolist() == [0, 0, 0, 0]
    with ZarrIO(store, read_options=ReadOptions(missing_chunks="error")) as io:
        data = io.read_builder()["numbers"].data
        with pytest.raises(ChunkError, match="is not stored") as caught:
            data[:]
        assert caught.value.path == "/numbers"
        assert data[0].tolist() == [0, 1, 2, 3]
    # where nobody said that it was stored, it is not missing
    change_attributes(store, "", lambda attributes: attributes["_hdmf"].pop("chunks"))
    report = verify(store)
    assert report.is_sound
    assert ("/numbers", "unwritten") in {(remark.path, remark.kind) for remark in report.remarks}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-1], "empty": lambda data: b"", "longer": lambda data: data + b"x" * 9,
    "other": lambda data: b"??",
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("array", ["numbers", "texts"])
def test_a_chunk_that_does_not_decode(store, array, damage):
    location = chunk(store, array, *((0, 0) if array == "numbers" else (0,)))
    data = damage(location.read_bytes())
    location.write_bytes(data)
    kinds = {kind for path, kind in found(verify(store)) if path == f"/{array}"}
    if data.endswith(b"x" * 9):  # Blosc knows where a chunk ends
        assert kinds <= {"chunk-damaged", "inlined-stale"}
    else:
        assert "chunk-damaged" in kinds


def test_a_bit_that_flips_is_found_where_there_is_a_checksum(tmp_path, zarr_format):
    """Zstd frames have one, whatever the document says."""
    path = tmp_path / "file.zarr"
    values = np.random.default_rng(1).integers(0, 2**15, 5000).astype("i2")
    trees.write_builder(
        path, trees.root(trees.dataset("a", ZarrDataIO(values, compressor=numcodecs.Zstd(1)))), zarr_format=zarr_format
    )
    document = (path / "a" / ("zarr.json" if zarr_format == 3 else ".zarray")).read_text()
    assert '"checksum":true' not in document or zarr_format == 3
    report = verify(path)
    assert report.is_sound
    assert "unchecked" not in report.counts
    location = chunk(path, "a", 0)
    data = bytearray(location.read_bytes())
    data[len(data) // 2] ^= 4
    location.write_bytes(data)
    assert found(verify(path)) == {("/a", "chunk-damaged")}


@pytest.mark.parametrize("zarr_format", [2, 3, "both"])
def test_chunks_without_a_checksum_are_told_of(tmp_path, zarr_format):
    report = verify(trees.write_builder(tmp_path / "file.zarr", tree(), zarr_format=zarr_format))
    (remark,) = (remark for remark in report.remarks if remark.kind == "unchecked")
    assert remark.message.startswith(f"{report.unchecked:,} of {report.chunks:,} chunks have no checksum")
    assert 0 < report.unchecked <= report.chunks
    assert zarr_format != "both" or report.unchecked == report.chunks


def sharded(path: Path) -> Path:
    group = open_group(path, mode="w", zarr_format=3)
    group.create_array("a", shape=(16, 8), chunks=(2, 4), shards=(8, 8), dtype="i4")[:] = 7
    return path


def test_shards(tmp_path):
    path = sharded(tmp_path / "file.zarr")
    report = verify(path)
    assert report.is_sound
    assert report.chunks == 16
    shard = path / "a" / "c" / "1" / "0"
    shard.write_bytes(shard.read_bytes()[:-3])
    report = verify(path)
    assert found(report) == {("/a", "chunk-damaged")}
    shard.unlink()
    assert "unwritten" in verify(path).counts


@needs_zarr_3
@pytest.mark.parametrize("executor", [None, "threads"])
def test_a_damaged_index_of_a_shard_is_one_problem(tmp_path, executor):
    path = sharded(tmp_path / "file.zarr")
    for row in (0, 1):
        shard = path / "a" / "c" / str(row) / "0"
        data = bytearray(shard.read_bytes())
        data[-5] ^= 0xFF  # in the index
        shard.write_bytes(data)
    report = verify(path, executor=executor)
    assert [(problem.path, problem.kind) for problem in report.problems] == [("/a", "chunk-damaged")] * 2
    assert ["a/c/0/0" in report.problems[0].message, "a/c/1/0" in report.problems[1].message] == [True, True]


def test_nothing_is_gone_after_an_append(tmp_path):
    path = trees.write_builder(tmp_path / "file.zarr", tree())
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["numbers"].data
        data.resize((20, 4))
        data[19] = 5
    report = verify(path)
    assert report.problems == []
    assert report.chunks == 10 + 5


# ---- links and references -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("change", "kind", "said"), [
    ({"path": "/gone"}, "link-dangling", "/gone"), ({"source": "../gone.zarr"}, "link-dangling", "gone.zarr"),
    ({"path": "/link"}, "link-circular", ""),
])  # fmt: skip
def test_a_link_to_nothing(store, change, kind, said):
    change_attributes(store, "", lambda attributes: links_of(attributes)[0].update(**change))
    report = verify(store, "links")
    assert found(report) == {("/link", kind)}
    assert said in report.problems[0].message


def test_a_link_to_another_object_and_one_that_is_none(store):
    change_attributes(store, "box", lambda attributes: attributes.update(object_id="b-2"))
    kinds = found(verify(store, "links"))
    assert ("/link", "link-wrong-target") in kinds or is_v3(store)
    assert kinds
    assert {kind for _, kind in kinds} <= {"link-wrong-target", "reference-wrong-target"}
    change_attributes(store, "", lambda attributes: links_of(attributes).append({"path": 3}))
    assert {kind for _, kind in found(verify(store, "links"))} & {"link-damaged", "document-damaged"}


def test_references_to_nothing(store):
    shutil.rmtree(store / "box" / "target")
    with edited_json(store / ("zarr.json" if is_v3(store) else ".zmetadata")) as document:
        metadata = document["consolidated_metadata"]["metadata"] if is_v3(store) else document["metadata"]
        for key in [key for key in metadata if key.startswith("box/target")]:
            del metadata[key]
    report = verify(store, "links")
    assert found(report) == {
        ("/", "reference-dangling"), ("/references", "reference-dangling"), ("/rows", "reference-dangling")
    }  # fmt: skip
    assert "'/box/target'" in report.problems[0].message


def test_links_to_other_files_by_policy(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    for path in (tmp_path / "far.zarr", folder / "near.zarr"):
        trees.write_builder(path, trees.root(trees.group("box")))
    path = trees.write_builder(folder / "file.zarr", trees.root(trees.dataset("a", [1])))
    entries = (("near", "../near.zarr"), ("far", "../../far.zarr"))
    links = [{"name": name, "source": source, "path": "/box"} for name, source in entries]
    documents.change_attributes(path, "", lambda attributes: attributes.update(zarr_link=links))
    assert verify(path).is_sound
    for policy, refused in (("follow", set()), ("within", {"/far"}), ("never", {"/near", "/far"})):
        report = verify(path, read_options=ReadOptions(external_links=policy))
        assert report.is_sound
        assert {remark.path for remark in report.remarks if remark.kind == "link-refused"} == refused


# ---- documents ------------------------------------------------------------------------------------------------------
def test_a_consolidated_document_that_does_not_parse(store):
    if is_v3(store):
        document = json.loads((store / "zarr.json").read_text())
        (store / "zarr.json").write_text(json.dumps({**document, "consolidated_metadata": {}}))
    else:
        (store / ".zmetadata").write_text("{")
    assert found(verify(store, "structure")) == {("/", "consolidated-damaged")}


def test_what_zarr_consolidates_is_not_stale(store):
    """It says more of each array than the array's document does, and nothing else."""
    if is_v3(store) and not hasattr(zarr.dtype, "Struct"):
        pytest.skip("this release of zarr knows no rows in format 3")
    with warnings.catch_warnings(action="ignore"):
        zarr.consolidate_metadata(str(store))
    assert verify(store, "structure").problems == []


@needs_zarr_3
def test_what_zarr_adds_to_a_short_document_is_not_stale(tmp_path):
    """It writes the defaults, which TensorStore leaves out."""
    path = tmp_path / "a.zarr"
    zarr.create_group(path, zarr_format=3).create_array("x", data=np.arange(3))
    document = json.loads((path / "x/zarr.json").read_text())
    short = {key: value for key, value in document.items() if key not in ("attributes", "storage_transformers")}
    (path / "x/zarr.json").write_text(json.dumps({**short, "chunk_key_encoding": {"name": "default"}}))
    with warnings.catch_warnings(action="ignore"):
        zarr.consolidate_metadata(path)
    assert verify(path, "structure").problems == []


@needs_zarr_3
@pytest.mark.parametrize("change", [{"fill_value": None}, {"codecs": [{"name": "bytes"}]}], ids=["fill", "codecs"])
def test_a_copy_that_lacks_what_the_document_has_is_stale(tmp_path, change):
    path = tmp_path / "a.zarr"
    zarr.create_group(path, zarr_format=3).create_array("x", data=np.arange(3), compressors=None)
    with warnings.catch_warnings(action="ignore"):
        zarr.consolidate_metadata(path)
    with edited_json(path / "zarr.json") as document:
        document["consolidated_metadata"]["metadata"]["x"].update(change)
    assert [problem.kind for problem in verify(path, "structure").problems] == ["consolidated-stale"]


def test_what_zarr_consolidates_of_both_formats_is_not_stale(tmp_path):
    """It calls rows `struct`, which are `structured` in their own documents, and writes their fill values otherwise."""
    if not hasattr(zarr.dtype, "Struct"):
        pytest.skip("this release of zarr has no other name for rows")
    root = tree()
    root.set_dataset(trees.dataset("records", np.array([(1, b"x")], [("n", "i4"), ("s", "S2")])))
    path = trees.write_builder(tmp_path / "file.zarr", root, zarr_format="both")
    with warnings.catch_warnings(action="ignore"):
        zarr.consolidate_metadata(str(path), zarr_format=3)
    assert found(verify(path, "structure")) == {("/", "formats-differ")}


def test_nodes_that_only_one_of_them_has(store):
    shutil.copytree(store / "box", store / "box2")
    shutil.rmtree(store / "texts")
    kinds = found(verify(store, "structure"))
    assert {("/box2", "consolidated-stale"), ("/box2/target", "consolidated-stale")} <= kinds
    assert {kind for path, kind in kinds if path == "/texts"} == {"document-missing", "chunk-missing"}


def test_a_limit_a_file_that_is_being_written_and_a_single_array(store, tmp_path):
    shutil.copytree(store / "numbers", tmp_path / "alone.zarr")
    with pytest.raises(NotZarrError, match=r"alone\.zarr: this is a single Zarr array"):
        verify(tmp_path / "alone.zarr")
    report = verify(store, read_options=ReadOptions(limits=Limits(max_document_bytes=100)))
    assert found(report) == {("/", "limit")}
    assert "max_document_bytes" in report.problems[0].message
    assert found(verify(store, read_options=ReadOptions(limits=Limits(max_chunk_bytes=10)))) >= {("/numbers", "limit")}
    change_attributes(store, "", lambda attributes: attributes["_hdmf"].update(writing={"pid": 1}))
    assert ("/", "incomplete") in found(verify(store, "structure"))


def test_without_a_consolidated_document(tmp_path):
    path = trees.write_builder(tmp_path / "a.zarr", tree(), write_options=WriteOptions(consolidate_metadata=False))
    report = verify(path)
    assert report.is_sound
    assert "not-consolidated" in report.counts
    (path / "box" / ".zgroup").unlink()  # only its members imply it
    assert ("/box", "group-implied") in found(verify(path, "structure"))


# ---- the schema, and other stores -----------------------------------------------------------------------------------
def cached_source(path: Path, name: str) -> zarr.Array:
    (version,) = Path(path, "specifications/core").glob("[0-9]*")
    return open_group(path, mode="r+")[f"specifications/core/{version.name}/{name}"]


def test_a_file_is_checked_against_its_cached_schema_not_the_installed_one(tmp_path):
    path = samples.write_zarr(tmp_path / "file.zarr", samples.plain_nwbfile())
    source = cached_source(path, "nwb.file")
    document = json.loads(source[...].item())
    (root,) = (group for group in document["groups"] if group.get("neurodata_type_def") == "NWBFile")
    root["attributes"].append({"name": "planted", "dtype": "text", "doc": "required"})
    source[...] = json.dumps(document)
    consolidate(path)
    (problem,) = verify(path, "schema").problems
    assert (problem.path, problem.kind) == ("/", "schema")
    assert "planted" in problem.message
    assert [finding.path for finding in validate(path).findings] == ["/"]
    assert validate(path, use_cached=False).is_valid


def test_what_the_schema_asks_for_is_missing_unless_a_cached_source_of_it_is(tmp_path):
    path = samples.write_zarr(tmp_path / "file.nwb.zarr")
    report = verify(path, "schema")
    assert report.problems == []
    assert report.references > 10
    shutil.rmtree(path / "session_description")
    consolidate(path, forget=True)
    assert verify(path, "chunks").is_sound
    report = verify(path, "schema")
    assert {problem.kind for problem in report.problems} == {"schema"}
    assert "session_description" in report.problems[0].message
    shutil.rmtree(path / cached_source(path, "nwb.misc").path)
    consolidate(path, forget=True)
    (problem,) = verify(path, "schema").problems
    assert problem.kind == "schema-damaged"
    assert problem.path.endswith("/nwb.misc")
    assert "zarrio validate --installed" in problem.remedy
    assert verify(path, "chunks").is_sound


class Unlisted(LocalStore):
    """A web server: it gives what is asked for by name."""

    abilities = Abilities(write=False, change=False, listing=False, why="it is read-only")

    def list_documents(self) -> Iterator[str]:
        raise AssertionError

    def sizes(self, prefix: str) -> dict[str, int]:
        raise AssertionError


def test_a_store_that_cannot_list(store):
    report = verify(Unlisted(str(store)))
    assert report.is_sound
    assert "not-listed" in report.counts
    assert (report.chunks, report.references) == (3 + 5, 5)
    chunk(store, "numbers", 1, 0).unlink()
    chunk(store, "numbers", 2, 0).write_bytes(b"no chunk")
    assert found(verify(Unlisted(str(store)))) == {("/numbers", "chunk-missing"), ("/numbers", "chunk-damaged")}


@pytest.mark.parametrize("count", [1, 2])
def test_messages_agree_with_their_numbers(tmp_path, count):
    path = tmp_path / "file.zarr"
    data = ZarrDataIO(np.arange(2 * count), chunks=(2,), compressor=False)
    trees.write_builder(path, trees.root(trees.dataset("a", data)))
    for number in range(count):
        (path / "a" / f"stray{number}").write_bytes(b"x")
    messages = {remark.kind: remark.message for remark in verify(path).remarks}
    stray = "1 key is not a chunk" if count == 1 else "2 keys are not chunks"
    some, them = ("1 of 1 chunk has", "it") if count == 1 else ("2 of 2 chunks have", "them")
    assert messages["unknown-file"].startswith(f"{stray}: stray0")
    assert messages["unchecked"] == f"{some} no checksum, so changed bytes in {them} cannot be noticed"
    assert str(upgrade(path, dry_run=True)).startswith("would have Zarr format 3: 1 array unchanged, 0 encoded again, ")
    assert str(upgrade(path)).startswith("Zarr format 3 now: 1 array unchanged, 0 encoded again, ")


def test_a_zip_file_is_a_file_and_what_is_none_is_an_error(tmp_path):
    with pytest.raises(StoreNotFoundError):
        verify(tmp_path / "nothing.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotZarrError):
        verify(tmp_path / "folder")
    report = verify(trees.write_builder(tmp_path / "a.zarr.zip", tree()))
    assert (report.problems, report.chunks) == ([], 8)


# ---- what is lost, and saving the rest ------------------------------------------------------------------------------
def damaged(path: Path, **form: Any) -> tuple[Path, np.ndarray]:
    numbers = np.arange(1, 321, dtype="i2").reshape(40, 8)
    shards = {"shards": (20, 4)} if form.get("zarr_format") == 3 else {}
    trees.write_builder(
        path, trees.root(trees.dataset("numbers", ZarrDataIO(numbers, chunks=(10, 4), **shards))), **form
    )
    if shards:
        shard = path / "numbers" / "c" / "0" / "1"
        shard.write_bytes(bytes(20) + shard.read_bytes()[20:])  # in its first chunk
        (path / "numbers" / "c" / "1" / "0").unlink()
        numbers[:10, 4:] = numbers[20:, :4] = 0
    else:
        chunk(path, "numbers", 3, 1).write_bytes(chunk(path, "numbers", 3, 1).read_bytes()[:-9])
        chunk(path, "numbers", 2, 0).unlink()
        numbers[30:, 4:] = numbers[20:30, :4] = 0
    return path, numbers


LOST = {
    2: ("2 of 8 chunks", {"chunk-missing": ("2.0 [20:30, 0:4]",), "chunk-damaged": ("3.1 [30:40, 4:8]",)}),
    3: ("3 of 8 chunks", {"chunk-missing": ("c/1/0 [20:40, 0:4]",), "chunk-damaged": ("c/0/1 [0:10, 4:8]",)}),
}
"""By format, that with shards: what is filled, and the chunks of each finding."""


@pytest.mark.parametrize("zarr_format", LOST)
def test_a_finding_names_the_chunk_and_what_it_holds(tmp_path, zarr_format):
    path, _ = damaged(tmp_path / "file.zarr", zarr_format=zarr_format)
    problems = verify(path).problems
    assert {problem.kind: problem.chunks for problem in problems} == LOST[zarr_format][1]
    assert all(problem.chunks[0] in problem.message for problem in problems)
    assert all(problem.as_json()["chunks"] == list(problem.chunks) for problem in problems)
    assert all("zarrio convert --missing-chunks fill" in problem.remedy for problem in problems)


def test_all_missing_chunks_are_listed_and_a_few_are_in_the_message(tmp_path):
    path = tmp_path / "file.zarr"
    trees.write_builder(path, trees.root(trees.dataset("a", ZarrDataIO(np.ones(1200, "i1"), chunks=(1,)))))
    for index in range(1, 15):
        (path / "a" / str(index)).unlink()
    (problem,) = verify(path).problems
    assert problem.message.endswith(": 1 [1:2], 2 [2:3], 3 [3:4], 4 [4:5], 5 [5:6] and 9 more")
    assert problem.chunks == tuple(f"{n} [{n}:{n + 1}]" for n in range(1, 15))
    for index in range(15, 1200):
        (path / "a" / str(index)).unlink()
    (problem,) = verify(path).problems
    assert problem.message.startswith("1,199 chunks are missing")
    assert len(problem.chunks) == 1000


@pytest.mark.parametrize("target", ["saved.zarr", "saved.h5"])
@pytest.mark.parametrize(("zarr_format", "settings"), [(2, {}), (3, {}), (3, {"numbers": {"chunks": (40, 2)}})])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_conversion_saves_the_rest_and_names_what_it_filled(tmp_path, zarr_format, settings, target, executor):
    """The damaged chunk too, which would be copied or end the conversion; also where chunks are encoded again."""
    path, left = damaged(tmp_path / "file.zarr", zarr_format=zarr_format)
    fill, writing = ReadOptions(missing_chunks="fill"), WriteOptions(executor=executor)
    with pytest.raises(ChunkError, match=r"is not stored|cannot be decoded") as caught:
        convert(path, tmp_path / target, settings=settings)
    assert "`zarrio convert --missing-chunks fill`" in caught.value.cli_text()
    report = convert(path, tmp_path / target, settings=settings, read_options=fill, write_options=writing)
    count, lost = LOST[zarr_format]
    assert report.remarks[0] == f"{count} of /numbers were filled: {', '.join(one for (one,) in lost.values())}"
    assert verify(tmp_path / target).is_sound
    again = tmp_path / "again.zarr"
    convert(tmp_path / target, again)
    assert np.array_equal(trees.read_builder(again)["numbers"].data[:], left)
    whole = convert(tmp_path / "again.zarr", tmp_path / "whole.zarr", read_options=fill)
    assert whole.remarks == ()


def test_chunks_of_a_linked_file_are_not_those_that_this_file_has_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, first in (("one", 1.0), ("other", 1001.0)):
        nwbfile, data = mock_NWBFile(), ZarrDataIO(np.arange(first, first + 100), chunks=(50,))
        nwbfile.add_acquisition(TimeSeries(name="s", data=data, unit="m", rate=1.0))
        with NWBZarrIO("one.zarr") if name == "other" else nullcontext() as one, NWBZarrIO(f"{name}.zarr", "w") as io:
            if one is not None:
                linked = one.read().acquisition["s"].data
                nwbfile.add_acquisition(TimeSeries(name="linked", data=linked, unit="m", rate=1.0))
            io.write(nwbfile)
    chunk(tmp_path / "other.zarr", "acquisition/s/data", 0).write_bytes(b"??")
    fill = ReadOptions(missing_chunks="fill")
    (remark,) = convert("other.zarr", "saved.nwb", read_options=fill, link_data=False).remarks
    assert remark.startswith("1 of 2 chunks of /acquisition/s/data was filled: 0 ")
    with NWBHDF5IO("saved.nwb", "r") as io:
        acquisition = io.read().acquisition
        assert acquisition["s"].data[[0, 50]].tolist() == [0, 1051]
        assert acquisition["linked"].data[:3].tolist() == [1, 2, 3]


def test_a_scalar_is_saved_from_the_consolidated_document(store, tmp_path):
    scalar_of(store).write_bytes(b"??")
    report = convert(store, tmp_path / "saved.zarr", read_options=ReadOptions(missing_chunks="fill"))
    assert report.remarks == ()
    assert trees.read_builder(tmp_path / "saved.zarr")["scalar"].data == 3.5


@pytest.mark.parametrize("io", [NWBZarrIO, NWBHDF5IO])
def test_two_objects_with_one_id_have_a_remark(tmp_path: Path, io: type) -> None:
    nwbfile = mock_NWBFile()
    first = TimeSeries(name="twice", data=[1.0], unit="V", rate=1.0)
    nwbfile.add_stimulus(copy.deepcopy(first))
    nwbfile.add_acquisition(first)
    with io(tmp_path / "a.nwb", "w") as file:
        file.write(nwbfile)
    report = verify(tmp_path / "a.nwb", "links")
    assert report.is_sound
    (remark,) = [each for each in report.remarks if each.kind == "id-shared"]
    assert remark.path == "/stimulus/presentation/twice"
    assert remark.message == f"/acquisition/twice has the same object_id, {first.object_id}"
