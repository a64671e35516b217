"""`repair` and `consolidate`: what is mended, and what is left alone because it may be the only copy."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from hdmf_zarr_backend import consolidate, convert, errors, repair, verify
from hdmf_zarr_backend.errors import ConflictError, MetadataError, NotZarrError, ReadOnlyStoreError, StoreError
from tests import trees
from tests.checks.test_strays import KINDS
from tests.checks.test_verify import attributes_of, change_attributes, found, is_v3, links_of, scalar_of, store, written
from tests.documents import forget_consolidated
from tests.places import stored_files
from tests.smallfiles import edited_json, hdf5_file

__all__ = ["store", "written"]


def content_of(path: Path) -> dict[str, Any]:
    names = (".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json")
    return {key: json.loads(text) if key.endswith(names) else text for key, text in stored_files(path).items()}


def add_attribute(store: Path) -> None:
    """Change an attribute as a program does that knows nothing of the consolidated document."""
    with edited_json(attributes_of(store, "box")) as document:
        (document["attributes"] if is_v3(store) else document)["new"] = 1


def spoil_copy(store: Path, key: str) -> None:
    with edited_json(store / ("zarr.json" if is_v3(store) else ".zmetadata")) as document:
        (document["consolidated_metadata"] if is_v3(store) else document)["hdmf_inline"]["chunks"][key] = "eHg="


def test_a_whole_file_is_not_changed(store):
    files, content = stored_files(store), content_of(store)
    repairs = repair(store)
    assert (repairs.done, repairs.left) == ([], [])
    assert stored_files(store) == files
    consolidate(store)
    assert content_of(store) == content
    with pytest.raises(errors.StoreNotFoundError):
        repair(store.with_name("nothing.zarr"))
    with pytest.raises(ReadOnlyStoreError):
        consolidate(trees.write_builder(store.with_name("a.zarr.zip"), trees.root()))


def test_a_change_of_another_program_is_seen_after_consolidating(store):
    group = zarr.open_group(store, mode="r+", use_consolidated=False)
    group.create_group("new").attrs["x"] = 5
    group["box"].attrs["y"] = 6
    assert "new" not in trees.read_builder(store).groups
    assert not verify(store).is_sound
    consolidate(store)
    assert verify(store).is_sound
    root = trees.read_builder(store)
    assert root["new"].attributes["x"] == 5
    assert root["box"].attributes["y"] == 6


def test_a_stale_consolidated_document_is_made_anew(store):
    add_attribute(store)
    assert found(verify(store, "structure")) == {("/box", "consolidated-stale")}
    repairs = repair(store)
    assert (repairs.done, repairs.left) == (["wrote a new consolidated document"], [])
    assert verify(store).is_sound
    assert trees.read_builder(store)["box"].attributes["new"] == 1


def test_a_missing_consolidated_document_is_named_and_not_written(store):
    forget_consolidated(store)  # also what a copy lacks that stopped
    before, repairs = stored_files(store), repair(store)
    assert (repairs.done, repairs.left, [remark.kind for remark in repairs.kept]) == ([], [], ["not-consolidated"])
    assert "If no object is missing, run `zarrio consolidate`." in str(repairs)
    assert "nothing to repair" not in str(repairs)
    assert stored_files(store) == before
    consolidate(store)
    assert not repair(store).kept


def test_links_to_nothing_are_dropped_on_request_only(store):
    change_attributes(store, "", lambda attributes: links_of(attributes)[0].update(path="/gone"))
    assert repair(store).done == []
    assert found(verify(store, "links")) == {("/link", "link-dangling")}
    assert repair(store, drop_links=True).done[0] == "removed 1 link without a target from /"
    assert verify(store, "links").is_sound
    assert not trees.read_builder(store).links


def test_damaged_documents_stop_a_repair(store):
    attributes_of(store, "box").write_text("{")
    before = stored_files(store)
    repairs = repair(store, drop_links=True)
    assert repairs.done == []
    assert ("/box", "document-damaged") in {(problem.path, problem.kind) for problem in repairs.left}
    assert stored_files(store) == before
    with pytest.raises(MetadataError):
        consolidate(store)
    assert stored_files(store) == before


def test_a_damaged_document_is_saved_by_a_conversion_while_there_is_a_good_copy(store, tmp_path):
    attributes_of(store, "box").write_text("{")
    for problems in (verify(store).problems, repair(store).left):
        (remedy,) = [problem.remedy for problem in problems if problem.kind == "document-damaged"]
        assert "zarrio convert OLD NEW" in remedy
    convert(store, tmp_path / "new.zarr", check=False)
    assert verify(tmp_path / "new.zarr").is_sound
    assert trees.read_builder(tmp_path / "new.zarr")["box"].attributes["object_id"] == "b-1"
    forget_consolidated(store)
    for problems in (verify(store).problems, repair(store).left):
        (remedy,) = [problem.remedy for problem in problems if problem.kind == "document-damaged"]
        assert remedy == "Restore it from a copy."


@pytest.mark.parametrize(("codec", "kind"), [
    ({"id": "delta", "dtipe": "<i4"}, "document-damaged"), ({"id": "dolta", "dtype": "<i4"}, "library-missing"),
], ids=["option", "name"])  # fmt: skip
def test_a_document_whose_codec_does_not_exist_does_not_replace_the_good_copy(store, codec, kind):
    with edited_json(store / "texts" / ("zarr.json" if is_v3(store) else ".zarray")) as document:
        if is_v3(store):
            configuration = {key: value for key, value in codec.items() if key != "id"}
            document["codecs"].append({"name": f"numcodecs.{codec['id']}", "configuration": configuration})
        else:
            document["compressor"] = codec
    before, texts = stored_files(store), trees.read_builder(store)["texts"].data[:].tolist()
    for level in ("structure", "chunks"):
        assert [problem.kind for problem in verify(store, level).problems] == [kind]
    repairs = repair(store)
    assert (repairs.done, [problem.kind for problem in repairs.left]) == ([], [kind])
    if kind == "document-damaged":
        assert "zarrio convert OLD NEW" in repairs.left[0].remedy
        with pytest.raises(ConflictError, match=r"/texts: the codec configuration .*--forget"):
            consolidate(store)
    assert stored_files(store) == before
    assert trees.read_builder(store)["texts"].data[:].tolist() == texts
    consolidate(store, forget=True)
    with pytest.raises(MetadataError):
        trees.read_builder(store)["texts"].data[:]


# ---- what only the consolidated document has ------------------------------------------------------------------------

LOST = {
    "the attributes of a group": ("box/.zattrs", "box/zarr.json"), "a group": ("box/.zgroup", "box/zarr.json"),
    "an array": ("texts/.zarray", "texts/zarr.json"), "the attributes of an array": ("rows/.zattrs", "rows/zarr.json"),
    "a scalar": ("scalar/.zarray", "scalar/zarr.json"), "the chunk of a scalar": ("scalar/0", "scalar/c"),
    "the chunk of a few texts": ("texts/0", "texts/c/0"), "the root": (".zgroup", ""),
    "the attributes of the root": (".zattrs", ""),
}  # fmt: skip
"""What is lost -> its key in both formats, of which the second has the root in the consolidated document itself."""


@pytest.mark.parametrize("what", LOST)
def test_what_only_the_consolidated_document_has_is_written_back(store, what):
    key = LOST[what][is_v3(store)]
    if not key:
        pytest.skip("the root of format 3 is the consolidated document")
    before = content_of(store)
    (store / key).unlink()
    spoiled = stored_files(store)
    kind = "chunk-missing" if "chunk" in what else "document-missing"
    report = verify(store)
    assert ("/" + key.rpartition("/")[0].removesuffix("/c"), kind) in found(report)
    assert "`zarrio repair`" in next(p.remedy for p in report.problems if p.kind == kind)
    with pytest.raises(ConflictError, match="zarrio consolidate --forget") as caught:
        consolidate(store)
    assert repr(key) in str(caught.value) or "the chunk" in str(caught.value)
    assert stored_files(store) == spoiled
    repairs = repair(store)
    assert repairs.done == [f"wrote back from the consolidated document: {key}"]
    assert repairs.left == []
    assert content_of(store) == before
    assert verify(store).is_sound


SPOILED = {"cut": lambda data: data[:-1], "empty": lambda data: b"", "longer": lambda data: data + b"x" * 9}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_the_spoiled_chunk_of_a_scalar_is_written_back(store, spoil):
    location = scalar_of(store)
    before = location.read_bytes()
    location.write_bytes(spoil(before))
    assert found(verify(store)) == {("/scalar", "chunk-damaged")}
    with pytest.raises(ConflictError):
        consolidate(store)
    assert repair(store).left == []
    assert location.read_bytes() == before
    assert verify(store).is_sound


@pytest.mark.parametrize("make", KINDS)
def test_a_folder_or_a_pipe_in_the_place_of_a_value_is_left_and_the_rest_repaired(tmp_path, make):
    path = trees.write_builder(tmp_path / "a.zarr", trees.root(trees.dataset("s", "text"), trees.dataset("u", "text")))
    for name in ("s", "u"):
        (path / name / "0").unlink()
    make(path / "s/0")
    assert {problem.path: problem.is_repairable for problem in verify(path).problems} == {"/s": False, "/u": True}
    repairs = repair(path)
    assert (len(repairs.done), [problem.path for problem in repairs.left]) == (1, ["/s"])
    assert (path / "u/0").is_file()
    make(path / ".hdmf_zarr_journal")
    with pytest.raises(StoreError, match=r"'\.hdmf_zarr_journal' is a folder, a pipe or a device"):
        repair(path)


def test_a_value_that_both_have_otherwise_is_not_decided(store):
    """A bit that flipped looks the same as a change of another program."""
    location = scalar_of(store)
    location.write_bytes(np.array(4.5).tobytes())
    add_attribute(store)
    repairs = repair(store)
    assert repairs.done == ["wrote a new consolidated document"]
    assert [(problem.path, problem.kind) for problem in repairs.left] == [("/scalar", "inlined-stale")]
    root = trees.read_builder(store)
    assert (root["scalar"].data, root["box"].attributes["new"]) == (3.5, 1)
    assert repair(store).done == []
    location.unlink()
    assert repair(store).left == []
    assert np.frombuffer(location.read_bytes()) == 3.5
    location.write_bytes(np.array(4.5).tobytes())
    consolidate(store)
    assert trees.read_builder(store)["scalar"].data == 4.5
    assert verify(store).is_sound


def test_a_stale_copy_of_a_whole_value_is_made_anew_and_a_value_that_is_whole_nowhere_is_left(store):
    spoil_copy(store, "scalar/c" if is_v3(store) else "scalar/0")
    assert found(verify(store)) == {("/scalar", "inlined-stale")}
    assert repair(store).done == ["wrote a new consolidated document"]
    assert verify(store).is_sound
    location = scalar_of(store)
    location.write_bytes(b"x")
    spoil_copy(store, str(location.relative_to(store)))
    before = stored_files(store)
    repairs = repair(store)
    assert repairs.done == []
    assert [(problem.path, problem.kind) for problem in repairs.left] == [("/scalar", "chunk-damaged")]
    assert stored_files(store) == before


@pytest.mark.parametrize("name", ["texts", "scalar"])
def test_a_node_that_is_wholly_gone_comes_back_but_for_chunks_that_are_lost(store, name):
    before = content_of(store)
    shutil.rmtree(store / name)
    assert repair(store).left == []
    assert content_of(store) == before
    assert verify(store).is_sound
    shutil.rmtree(store / "numbers")
    assert found(verify(store)) == {("/numbers", "document-missing")}
    assert repair(store).left == []
    assert found(verify(store)) == {("/numbers", "chunk-missing")}


def test_what_is_new_is_seen_when_what_is_lost_is_back(store):
    zarr.open_group(store, mode="r+", use_consolidated=False).create_group("new")
    shutil.rmtree(store / "texts")
    assert repair(store).done[1:] == ["wrote a new consolidated document"]
    assert verify(store).is_sound
    assert {"new", "box"} == set(trees.read_builder(store).groups)


def test_what_was_removed_on_purpose_is_forgotten_on_request(store):
    shutil.rmtree(store / "texts")
    with pytest.raises(ConflictError):
        consolidate(store)
    consolidate(store, forget=True)
    assert verify(store).is_sound
    assert "texts" not in trees.read_builder(store).datasets


def test_nothing_is_written_back_to_another_node(store):
    if is_v3(store):
        pytest.skip("a node of format 3 has one document")
    (store / "rows" / ".zattrs").unlink()
    document = json.loads((store / "rows" / ".zarray").read_text())
    (store / "rows" / ".zarray").write_text(json.dumps({**document, "fill_value": 5}))
    (store / "texts" / ".zarray").unlink()
    (store / "texts" / ".zgroup").write_text('{"zarr_format": 2}')
    (store / "box" / ".zgroup").unlink()
    (store / "box" / ".zarray").write_text(json.dumps(document))
    before = stored_files(store)
    repairs = repair(store)
    assert repairs.done == []
    messages = {problem.path: problem.message for problem in repairs.left if problem.kind == "document-missing"}
    assert messages["/rows"].endswith("the node has changed")
    assert messages["/texts"].endswith("the node has another kind now")
    assert messages["/box/target"].endswith("an array is now above it")
    assert stored_files(store) == before


@pytest.mark.parametrize("name", [
    "../../outside/{}", "/outside/{}", "box//new/{}", "box/./target/{}", "texts/in/{}", "new/.zmetadata"
])  # fmt: skip
def test_nothing_is_written_where_no_node_can_be(store, name):
    with edited_json(store / ("zarr.json" if is_v3(store) else ".zmetadata")) as document:
        if is_v3(store):
            metadata = document["consolidated_metadata"]["metadata"]
            if name.endswith(".zmetadata"):
                pytest.skip("it is a node of format 3 as any other")
            metadata[name.format("").rstrip("/")] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        else:
            document["metadata"][name.format(".zgroup")] = {"zarr_format": 2}
    before = {str(path) for path in store.parent.rglob("*")}
    with warnings.catch_warnings(action="ignore"):
        assert "consolidated-stale" in {problem.kind for problem in verify(store).problems}
        assert repair(store).done == ["wrote a new consolidated document"]
    assert {str(path) for path in store.parent.rglob("*") if path.name != ".file.zarr.lock"} == before
    assert verify(store).is_sound


def test_nothing_is_written_behind_a_symbolic_link(store):
    shutil.move(store / "texts", store.parent / "outside")
    (store / "texts").symlink_to(store.parent / "outside")
    name = "zarr.json" if is_v3(store) else ".zarray"
    (store.parent / "outside" / name).unlink()
    with pytest.raises(StoreError, match="a symbolic link on the way to 'texts' leads out of the store"):
        repair(store)
    assert not (store.parent / "outside" / name).exists()


@pytest.mark.parametrize("repair_", [repair, consolidate])
def test_an_hdf5_file_is_not_repaired(tmp_path, repair_):
    path = tmp_path / "a.nwb"
    hdf5_file(path, x=np.arange(1000))
    before = path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(NotZarrError, match="If it is cut short, download or copy it again") as caught:
        repair_(path)
    assert "convert" not in str(caught.value)
    assert path.stat().st_size == before
