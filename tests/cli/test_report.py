"""`zarrio report`: what is refused before anything is read; the page itself is tested in tests/report."""

import pytest


@pytest.mark.parametrize(("arguments", "said"), [
    (["-o", "gone/a.html"], "the folder gone does not exist. Create it first"),
    (["-o", "."], "is a folder. Name a file in it"),
    (["-o", "s3://bucket/a.html"], "written to a local path. Upload it afterwards"),
    (["--structure"], "--structure is about two files. Name a second file"),
    (["b.zarr", "--level", "chunks"], "--level is about one file"),
    (["b.zarr", "--no-check"], "--no-check is about one file"),
    (["--no-check", "--level", "chunks"], "not allowed with argument"),
])  # fmt: skip
def test_a_page_that_cannot_be_made_is_told_at_once(arguments, said, tmp_path, monkeypatch, zarrio):
    monkeypatch.chdir(tmp_path)
    assert said in zarrio("report", "a.zarr", *arguments, code=2).err
    assert list(tmp_path.iterdir()) == []
