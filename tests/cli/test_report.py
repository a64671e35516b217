"""`zarrio report`: what is refused before anything is read; the page itself is tested in tests/report."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdmf_zarr_backend.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "gone/a.html"], "the folder gone does not exist. Create it first"),
        (["-o", "."], "is a folder. Name a file in it"),
        (["-o", "s3://bucket/a.html"], "written to a local path. Upload it afterwards"),
        (["--structure"], "--structure is about two files. Name a second file"),
        (["b.zarr", "--level", "chunks"], "--level is about one file"),
        (["b.zarr", "--no-check"], "--no-check is about one file"),
        (["--no-check", "--level", "chunks"], "not allowed with argument"),
    ],
)
def test_a_page_that_cannot_be_made_is_told_at_once(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "a.zarr", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
