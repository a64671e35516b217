"""`repair` and `consolidate`: what is mended, and what is left alone because it may be the only copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import zarr

from hdmf_zarr_backend import ZarrIO, consolidate, repair, verify
from hdmf_zarr_backend.errors import MetadataError, ReadOnlyStoreError, StoreNotFoundError
from tests.verification.test_verify import attributes_of, change_attributes, found, is_v3, links_of, store, written

__all__ = ["store", "written"]


def keys_of(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_nothing_to_repair(store):
    before = keys_of(store)
    repairs = repair(store)
    assert (repairs.done, repairs.left) == ([], [])
    assert keys_of(store) == before


def test_consolidating_a_whole_file_changes_nothing(store):
    before = keys_of(store)
    consolidate(store)
    assert {key: json.loads(value) for key, value in keys_of(store).items() if key.endswith(("json", "metadata"))} == {
        key: json.loads(value) for key, value in before.items() if key.endswith(("json", "metadata"))
    }


def test_a_change_of_another_program_is_seen_after_consolidating(store):
    group = zarr.open_group(store, mode="r+", use_consolidated=False)
    group.create_group("new").attrs["x"] = 5
    group["box"].attrs["y"] = 6
    with ZarrIO(store) as io:
        assert "new" not in io.read_builder().groups
    assert not verify(store).is_sound
    consolidate(store)
    assert verify(store).is_sound
    with ZarrIO(store) as io:
        root = io.read_builder()
        assert root["new"].attributes["x"] == 5
        assert root["box"].attributes["y"] == 6


def test_a_stale_consolidated_document_is_made_anew(store):
    path = attributes_of(store, "box")
    document = json.loads(path.read_text())
    (document["attributes"] if is_v3(store) else document)["new"] = 1
    path.write_text(json.dumps(document))
    assert not verify(store, "structure").is_sound
    repairs = repair(store)
    assert repairs.done == ["made the consolidated document anew"]
    assert repairs.left == []
    assert verify(store).is_sound
    with ZarrIO(store) as io:
        assert io.read_builder()["box"].attributes["new"] == 1


def test_links_to_nothing_are_dropped_on_request_only(store):
    change_attributes(store, "", lambda attributes: links_of(attributes)[0].update(path="/gone"))
    assert repair(store).done == []
    assert found(verify(store, "links")) == {("/link", "link-dangling")}
    repairs = repair(store, drop_links=True)
    assert repairs.done[0] == "removed 1 link to nothing from /"
    assert verify(store, "links").is_sound
    with ZarrIO(store) as io:
        assert not io.read_builder().links


def test_a_document_that_only_the_consolidated_one_has_is_not_lost(store):
    """The chunks of the array are there: to consolidate would make the file forget it."""
    before = json.loads((store / ("zarr.json" if is_v3(store) else ".zmetadata")).read_text())
    for name in (".zarray", ".zattrs", "zarr.json"):
        (store / "texts" / name).unlink(missing_ok=True)
    repairs = repair(store)
    assert repairs.done == []
    assert "document-missing" in {problem.kind for problem in repairs.left}
    assert json.loads((store / ("zarr.json" if is_v3(store) else ".zmetadata")).read_text()) == before


def test_a_node_that_is_wholly_gone_is_forgotten(store):
    shutil.rmtree(store / "texts")
    assert repair(store).done == ["made the consolidated document anew"]
    assert verify(store).is_sound


def test_damaged_documents_stop_a_repair(store):
    attributes_of(store, "box").write_text("{")
    before = keys_of(store)
    repairs = repair(store, drop_links=True)
    assert repairs.done == []
    assert ("/box", "document-damaged") in {(problem.path, problem.kind) for problem in repairs.left}
    assert keys_of(store) == before
    with pytest.raises(MetadataError):
        consolidate(store)
    assert keys_of(store) == before


def test_what_cannot_be_repaired(tmp_path):
    with pytest.raises(StoreNotFoundError):
        repair(tmp_path / "nothing.zarr")
    with ZarrIO(tmp_path / "a.zarr.zip", "w") as io:
        from tests import trees

        io.write_builder(trees.root(trees.dataset("a", [1])))
    with pytest.raises(ReadOnlyStoreError):
        consolidate(tmp_path / "a.zarr.zip")
