"""`zarrio verify`, `repair` and `consolidate`."""

import json
import shutil
from os.path import relpath
from pathlib import Path

import pytest

from hdmf_zarr_backend.cli.main import main
from tests import documents, trees


@pytest.fixture
def whole(small: Path) -> Path:
    for index in range(3):
        (small / "data" / str(index)).write_bytes(bytes(24))
    return small


def test_a_sound_file(whole, zarrio):
    out = zarrio("verify", whole).out
    assert (
        out.splitlines()[-1]
        == f"{whole}: no damage found (1 group, 1 array, 1 link, 1 reference, 3 chunks); 3 of 3 chunks have no "
        "checksum, so changed bytes in them cannot be noticed"
    )
    assert len(out.splitlines()) == 1
    out = zarrio("verify", whole, "--verbose").out
    assert "remark: /: unchecked: 3 of 3 chunks have no checksum" in out
    assert "Write with a codec that has a checksum" in out
    assert zarrio("verify", whole, "--level", "links").out == (
        f"{whole}: no damage found (1 group, 1 array, 1 link, 1 reference); chunks were not checked\n"
    )


def test_json(whole, zarrio):
    (whole / "data" / "1").unlink()
    (report,) = json.loads(zarrio("verify", whole, "--json").out)
    assert report["sound"] is True
    assert report["counts"] == {"unwritten": 1, "unchecked": 1}
    assert report["remarks"][0].keys() == {"path", "kind", "message", "remedy", "chunks"}
    assert report["looked_at"]["chunks"] == 2


def test_strict_fails_for_remarks(whole, tmp_path, zarrio):
    zarrio("verify", whole, "--strict")  # chunks without a checksum do not count
    other = trees.write_builder(tmp_path / "other" / "file.zarr", trees.root(trees.dataset("a", [1])))
    links = [{"name": "far", "source": relpath(other, whole), "path": "/a"}]
    documents.change_attributes(whole, "", lambda attributes: attributes.update(zarr_link=links))
    zarrio("consolidate", whole)
    refusing = ["verify", str(whole), "--external-links", "never"]
    assert main(refusing) == 0
    assert "remark: /far: link-refused" in zarrio(*refusing, "--strict", code=1).out
    zarrio("verify", whole, "--strict")


def test_strict_counts_folders_that_are_not_searched(whole, tmp_path, zarrio):
    folder, hidden = whole.parent, whole.parent / "day2"
    hidden.mkdir()
    zarrio("verify", folder)
    assert f"  not searched: {hidden}" in zarrio("verify", folder, "--strict", code=1).out.splitlines()
    *_, last = json.loads(zarrio("verify", folder, "--strict", "--json", code=1).out)
    assert last == {"source": str(hidden), "error": "this folder was not searched", "warnings": []}
    shutil.copytree(whole, hidden / "b.zarr")
    assert "not searched" not in str(zarrio("verify", folder, hidden, "--strict"))


def test_repair_and_consolidate(whole, zarrio):
    (whole / ".zattrs").write_text(json.dumps({**json.loads((whole / ".zattrs").read_text()), "new": 1}))
    assert main(["verify", str(whole), "--level", "structure"]) == 1
    out = zarrio("repair", whole).out
    assert "wrote a new consolidated document\nChunks were not checked; run `zarrio verify`" in out
    assert zarrio("repair", whole).out == (
        "nothing to repair in the metadata\nChunks were not checked; run `zarrio verify` to check them.\n"
    )
    (whole / ".zmetadata").write_text("{")
    assert main(["consolidate", str(whole)]) == 0
    assert main(["verify", str(whole), "--level", "structure"]) == 0


def test_repair_says_what_is_left(whole, zarrio):
    document = json.loads((whole / ".zattrs").read_text())
    document["zarr_link"][0]["path"] = "/gone"
    (whole / ".zattrs").write_text(json.dumps(document))
    (whole / "data" / ".zattrs").write_text("{")
    report = json.loads(zarrio("repair", whole, "--json", code=1).out)
    assert report["done"] == []
    assert report["left"][0]["kind"] == "document-damaged"


def test_what_only_the_consolidated_document_has_is_given_up_if_asked(whole, zarrio):
    (whole / ".zattrs").unlink()
    said = zarrio("consolidate", whole, code=2).err
    assert "`zarrio consolidate --forget`" in said
    assert "forget=" not in said
    assert main(["consolidate", "--forget", str(whole)]) == 0
    assert "ref" not in json.loads((whole / ".zmetadata").read_text())["metadata"].get(".zattrs", {})
