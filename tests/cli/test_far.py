"""Commands on files in a bucket and behind a web server, with and without the options that these need."""

import json
import os
from pathlib import Path

import pytest

from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.store.opening import open_store
from tests.places import put
from tests.samples import plain_nwbfile, write_hdf5
from tests.servers import S3Server


@pytest.fixture
def nwb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # what a command makes by mistake is found there
    return write_hdf5(tmp_path / "a.nwb", plain_nwbfile())


def options(s3: S3Server) -> list[str]:
    return [f"-O{name}={json.dumps(value)}" for name, value in s3.options.items()]


def test_a_batch_goes_into_a_bucket(s3, nwb, zarrio):
    (nwb.parent / "bad.nwb").write_text("none")
    sources = [str(nwb), str(nwb.parent / "bad.nwb")]
    for folder in (s3.url(""), s3.url("below/two")):
        shown = zarrio("convert", *options(s3), *sources, "-o", folder, code=2)
        assert f"-> {folder.rstrip('/')}/a.nwb.zarr: " in shown.out
        assert "1 of 2 files converted" in shown.out
        assert len(shown.err.splitlines()) == 1
        assert "skipped" in zarrio("convert", *options(s3), nwb, "-o", folder, "--skip-existing").out
    assert os.listdir() == []
    assert ".zmetadata" in s3.contents("a.nwb.zarr")
    assert ".zmetadata" in s3.contents("below/two/a.nwb.zarr")


def test_the_options_of_a_batch_are_for_its_files_at_urls(web, nwb, zarrio):
    write_hdf5(web.folder / "b.nwb", plain_nwbfile())
    given = ('-Oheaders={"X-Name": "x"}', nwb)
    assert "2 files converted" in zarrio("convert", *given, f"{web.url}/b.nwb", "-o", "out").out
    assert "2 files can be converted" in zarrio("dry-run", *given, f"{web.url}/b.nwb").out
    for command in (["convert", *given, "c.nwb.zarr"], ["dry-run", *given]):
        assert "storage_options are for URLs" in zarrio(*command, code=2).err


def test_two_files_are_compared_with_the_options_of_the_one_that_is_far(s3, nwb, zarrio):
    url = s3.url("a.nwb.zarr")
    zarrio("convert", *options(s3), nwb, url)
    zarrio("convert", nwb, "here.nwb.zarr")
    for pair in ((str(nwb), url), (url, "here.nwb.zarr"), (url, url)):
        zarrio("compare", *options(s3), *pair)
        assert zarrio("compare", *options(s3), "--structure", *pair).out.startswith("no differences (")
    zarrio("report", *options(s3), url, "here.nwb.zarr", "-o", "two.html")
    assert ">none<" in Path("two.html").read_text(encoding="utf-8")


def test_a_folder_in_a_bucket_is_not_searched(s3, nwb, zarrio):
    zarrio("convert", *options(s3), nwb, "-o", s3.url("folder"))
    for command in ("verify", "inspect", "validate"):
        said = zarrio(command, *options(s3), s3.url("folder/"), code=2).err
        assert "Folders at a URL are not searched: give the URL of each file." in said


@pytest.mark.parametrize("command", [["compare", "--structure"], ["compare"], ["report"]], ids=" ".join)
def test_without_the_options_it_is_told_that_they_are_missing(command, s3, nwb, monkeypatch, zarrio):
    zarrio("convert", nwb, "here.nwb.zarr")
    s3.proxy.fault = lambda method, path, number: "403"
    said = zarrio(*command, *options(s3), "here.nwb.zarr", s3.url("a.nwb.zarr"), code=2).err
    assert "AccessDenied" in said or "Access Denied" in said or "403" in said
    assert "-O anon=true" in said
    assert "storage_options" not in said


def test_a_bucket_that_refuses_to_tell_what_is_not_there(s3, nwb, zarrio):
    """As Amazon does where a key is not there and the bucket may not be listed."""
    url = s3.url("a.nwb.zarr")
    assert main(["convert", *options(s3), str(nwb), url]) == 0
    s3.proxy.fault = lambda method, path, number: "403" if "zarr.json" in path or ".zarray" in path else None
    assert zarrio("compare", *options(s3), "--structure", nwb, url).err == ""


def test_an_hdf5_file_far_away_is_compared(web, nwb, zarrio):
    (web.folder / "b.nwb").write_bytes(nwb.read_bytes())
    assert zarrio("compare", nwb, f"{web.url}/b.nwb").out.startswith("no differences (")
    (web.folder / "b.txt").write_bytes(b"text")
    assert "b.txt: the file does not exist" in zarrio("compare", nwb, f"{web.url}/b.txt", code=2).err


def test_hdf5_files_far_away_are_planned_and_converted(s3, nwb, zarrio):
    for name in ("b.nwb", "c.nwb"):
        put(open_store(s3.url(""), s3.options), name, nwb.read_bytes())
    urls = [s3.url("b.nwb"), s3.url("c.nwb")]
    planned = json.loads(zarrio("dry-run", *options(s3), *urls, "--json").out)
    assert {document["objects"] for document in planned} == {planned[0]["objects"]}
    shown = zarrio("convert", *options(s3), *urls, s3.url("missing.nwb"), "-o", "new", "--codec", "zstd", code=2)
    assert "2 of 3 files converted" in shown.out
    assert "missing.nwb: the file does not exist" in shown.err
    for name in ("b", "c"):
        folder = Path("new", f"{name}.nwb.zarr")
        assert planned[0]["objects"] == sum(file.is_file() for file in folder.rglob("*"))
        zarrio("compare", nwb, folder)
    said = zarrio("convert", *options(s3), urls[0], "here.nwb", code=2).err
    assert "download an HDF5 file with other tools" in said
