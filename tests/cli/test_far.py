"""Commands on files in a bucket and behind a web server, with and without the options that these need."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hdmf_zarr_backend.cli.main import main
from tests.samples import plain_nwbfile, write_hdf5
from tests.servers import S3Server, WebServer


@pytest.fixture
def nwb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # what a command makes by mistake is found there
    return write_hdf5(tmp_path / "a.nwb", plain_nwbfile())


def options(s3: S3Server) -> list[str]:
    return [f"-O{name}={json.dumps(value)}" for name, value in s3.options.items()]


def test_a_batch_goes_into_a_bucket(s3: S3Server, nwb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nwb.parent / "bad.nwb").write_text("none")
    sources = [str(nwb), str(nwb.parent / "bad.nwb")]
    for folder in (s3.url(""), s3.url("below/two")):
        assert main(["convert", *options(s3), *sources, "-o", folder]) == 2
        shown = capsys.readouterr()
        assert f"-> {folder.rstrip('/')}/a.nwb.zarr: " in shown.out
        assert "1 of 2 files converted" in shown.out
        assert len(shown.err.splitlines()) == 1
        assert main(["convert", *options(s3), str(nwb), "-o", folder, "--skip-existing"]) == 0
        assert "skipped" in capsys.readouterr().out
    assert os.listdir() == []
    assert ".zmetadata" in s3.contents("a.nwb.zarr")
    assert ".zmetadata" in s3.contents("below/two/a.nwb.zarr")


def test_two_files_are_compared_with_the_options_of_the_one_that_is_far(
    s3: S3Server, nwb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = s3.url("a.nwb.zarr")
    assert main(["convert", *options(s3), str(nwb), url]) == 0
    assert main(["convert", str(nwb), "here.nwb.zarr"]) == 0
    capsys.readouterr()
    for pair in ((str(nwb), url), (url, "here.nwb.zarr"), (url, url)):
        assert main(["compare", *options(s3), *pair]) == 0
        assert main(["compare", *options(s3), "--structure", *pair]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["report", *options(s3), url, "here.nwb.zarr", "-o", "two.html"]) == 0
    assert ">none<" in Path("two.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [["compare", "--structure"], ["compare"], ["report"]], ids=" ".join)
def test_without_the_options_it_is_told_that_they_are_missing(
    command: list[str], s3: S3Server, nwb: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["convert", str(nwb), "here.nwb.zarr"]) == 0
    capsys.readouterr()
    s3.proxy.fault = lambda method, path, number: "403"
    assert main([*command, *options(s3), "here.nwb.zarr", s3.url("a.nwb.zarr")]) == 2
    said = capsys.readouterr().err
    assert "AccessDenied" in said or "Access Denied" in said or "403" in said
    assert "-O anon=true" in said
    assert "storage_options" not in said


def test_a_bucket_that_refuses_to_tell_what_is_not_there(
    s3: S3Server, nwb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Amazon does where a key is not there and the bucket may not be listed."""
    url = s3.url("a.nwb.zarr")
    assert main(["convert", *options(s3), str(nwb), url]) == 0
    s3.proxy.fault = lambda method, path, number: "403" if "zarr.json" in path or ".zarray" in path else None
    assert main(["compare", *options(s3), "--structure", str(nwb), url]) == 0
    assert capsys.readouterr().err == ""


def test_a_bucket_that_is_not_there_is_told(s3: S3Server, nwb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *options(s3), str(nwb), "s3://no-such-bucket-here/a.zarr"]) == 2
    assert "there is no such bucket" in capsys.readouterr().err


def test_what_is_no_file_that_can_be_compared_far_away(
    web: WebServer, nwb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (web.folder / "b.nwb").write_bytes(nwb.read_bytes())
    assert main(["compare", str(nwb), f"{web.url}/b.nwb"]) == 2
    assert "download it first" in capsys.readouterr().err


def test_an_hdf5_file_far_away_is_not_planned(web: WebServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dry-run", f"{web.url}/b.nwb"]) == 2
    assert "Download it first" in capsys.readouterr().err
