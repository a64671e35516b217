"""`zarrio verify`, `repair` and `consolidate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hdmf_zarr_backend.cli.main import main


@pytest.fixture
def whole(small: Path) -> Path:
    for index in range(3):
        (small / "data" / str(index)).write_bytes(bytes(24))
    return small


def test_a_sound_file(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(whole)]) == 0
    out = capsys.readouterr().out
    assert (
        out.splitlines()[-1]
        == f"{whole}: no damage found (1 group, 1 array, 1 link, 1 reference, 3 chunks); 3 of 3 chunks have no "
        "checksum, so changed bytes in them cannot be noticed"
    )
    assert len(out.splitlines()) == 1
    assert main(["verify", str(whole), "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "remark: /: unchecked: 3 of 3 chunks have no checksum" in out
    assert "Write with a codec that has a checksum" in out
    assert main(["verify", str(whole), "--level", "links"]) == 0
    assert capsys.readouterr().out == (
        f"{whole}: no damage found (1 group, 1 array, 1 link, 1 reference); chunks were not checked\n"
    )


def test_damage_is_told_with_a_remedy(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole / "data" / "1").write_bytes(b"short")
    assert main(["verify", str(whole), "--jobs", "1"]) == 1
    out = capsys.readouterr().out
    assert "/data: chunk-damaged: the chunk '1' cannot be decoded" in out
    assert "Restore it from a copy." in out
    assert f"{whole}: 1 problem (" in out


def test_json(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole / "data" / "1").unlink()
    assert main(["verify", str(whole), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["sound"] is True
    assert report["counts"] == {"unwritten": 1, "unchecked": 1}
    assert report["remarks"][0].keys() == {"path", "kind", "message", "remedy"}
    assert report["looked_at"]["chunks"] == 2


def test_what_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "no.zarr")]) == 2
    assert "the file does not exist" in capsys.readouterr().err


def test_repair_and_consolidate(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((whole / ".zattrs").read_text())
    (whole / ".zattrs").write_text(json.dumps({**document, "new": 1}))
    assert main(["verify", str(whole), "--level", "structure"]) == 1
    assert main(["repair", str(whole)]) == 0
    out = capsys.readouterr().out
    assert "wrote a new consolidated document\nChunks were not checked; run `zarrio verify`" in out
    assert main(["repair", str(whole)]) == 0
    assert capsys.readouterr().out == (
        "nothing to repair in the metadata\n"
        "Chunks were not checked; run `zarrio verify` to check them. A damaged chunk must be restored from a copy of "
        "the file, or the source must be converted again.\n"
    )
    (whole / ".zmetadata").write_text("{")
    assert main(["consolidate", str(whole)]) == 0
    assert main(["verify", str(whole), "--level", "structure"]) == 0


def test_repair_says_what_is_left(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((whole / ".zattrs").read_text())
    document["zarr_link"][0]["path"] = "/gone"
    (whole / ".zattrs").write_text(json.dumps(document))
    (whole / "data" / ".zattrs").write_text("{")
    assert main(["repair", str(whole), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["done"] == []
    assert report["left"][0]["kind"] == "document-damaged"


def test_what_only_the_consolidated_document_has_is_given_up_if_asked(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (whole / ".zattrs").unlink()
    assert main(["consolidate", str(whole)]) == 2
    said = capsys.readouterr().err
    assert "`zarrio consolidate --forget`" in said
    assert "forget=" not in said
    assert main(["consolidate", "--forget", str(whole)]) == 0
    assert "ref" not in json.loads((whole / ".zmetadata").read_text())["metadata"].get(".zattrs", {})
