"""`zarrio report` and the views of notebooks: whole, self-contained, and safe with crafted names."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.model.render import UNICODE
from hdmf_zarr_backend.report.page import report
from tests.samples import plain_nwbfile, rich_nwbfile, write_zarr
from tests.servers import WebServer

VOID = {"meta", "br", "rect", "path"}
LOADING = {"src", "href", "srcset", "action", "data", "poster", "xlink:href"}


class Page(HTMLParser):
    """Reads a page; fails where elements do not close as they were opened, or something would be loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "img", "object")
        assert not LOADING & {name for name, _ in attrs}
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rich") / "rich.nwb.zarr"
    with NWBZarrIO(path, "w") as io:
        io.write(rich_nwbfile())
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "plain.nwb.zarr"
    with NWBZarrIO(path, "w") as io:
        io.write(plain_nwbfile())
    return path


def write(path: Path, *datasets: DatasetBuilder, zarr_format: int = 2) -> Path:
    with ZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write_builder(GroupBuilder("root", datasets={dataset.name: dataset for dataset in datasets}))
    return path


def test_the_page_says_what_is_in_the_file(rich: Path) -> None:
    text = report(rich)
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    for word in ("rich.nwb.zarr", "Zarr 2", "consolidated", "sound", "Where the bytes are", "electrode_group", "units"):
        assert word in page.text
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text


def test_a_file_of_both_formats(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ZarrIO(path, "w", zarr_format="both") as io:
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", np.arange(3))}))
    assert "Zarr 2 and 3" in Page(report(path)).text


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_sizes_and_ratios_are_those_of_the_file(tmp_path: Path, zarr_format: int) -> None:
    data = ZarrDataIO(np.zeros((1000, 4), "i2"), chunks=(250, 4), compressor={"id": "zlib", "level": 1})
    path = write(tmp_path / "a.zarr", DatasetBuilder("zeros", data), zarr_format=zarr_format)
    names = {"zarr.json", ".zarray", ".zattrs"}
    chunks = [found for found in (path / "zeros").rglob("*") if found.is_file() and found.name not in names]
    stored = sum(found.stat().st_size for found in chunks)
    text = Page(report(path)).text
    assert f"1,000 {UNICODE.times} 4" in text
    assert f"250 {UNICODE.times} 4" in text
    assert f"{8000 / stored:.2f}" in text
    assert "8 kB" in text


def test_damage_is_on_the_page(tmp_path: Path) -> None:
    data = ZarrDataIO(np.arange(100), chunks=(10,))
    path = write(tmp_path / "a.zarr", DatasetBuilder("numbers", data))
    (path / "numbers" / "3").unlink()
    assert "1 problem" not in Page(report(path)).text
    page = Page(report(path, level="chunks"))
    assert "1 problem" in page.text
    assert "chunk-missing" in page.text
    assert "/numbers" in page.text


def test_crafted_names_are_text(tmp_path: Path) -> None:
    data = DatasetBuilder("<img src=x onerror=alert(1)>", np.arange(3), attributes={"<script>": "</style><script>"})
    path = write(tmp_path / "<b>.zarr", data)
    page = Page(report(path))
    assert "<img src=x onerror=alert(1)>" in page.text
    with ZarrIO(path, "r") as io:
        Page(io._repr_html_())


def test_a_file_of_many_objects_makes_a_page_of_bounded_size(tmp_path: Path) -> None:
    datasets = [DatasetBuilder(f"trace_{number:04}", np.arange(9.0)) for number in range(1600)]
    text = report(write(tmp_path / "many.zarr", *datasets))
    page = Page(text)
    assert "1,597 more like these: trace_0003 to trace_1599" in page.text
    assert "1,575 smaller ones are in the tree" in page.text
    assert len(text) < 400_000


def test_a_deeply_nested_file_has_a_page(tmp_path: Path) -> None:
    root = GroupBuilder("root")
    group = root
    for _ in range(400):
        child = GroupBuilder("g")
        group.set_group(child)
        group = child
    group.set_dataset(DatasetBuilder("numbers", np.arange(5)))
    with ZarrIO(tmp_path / "deep.zarr", "w") as io:
        io.write_builder(root)
    assert "numbers" in Page(report(tmp_path / "deep.zarr")).text


def test_two_files_are_compared(tmp_path: Path) -> None:
    a = write(tmp_path / "a.zarr", DatasetBuilder("same", np.arange(5)), DatasetBuilder("other", np.arange(7)))
    b = write(tmp_path / "b.zarr", DatasetBuilder("same", np.arange(5)), DatasetBuilder("other", np.arange(7) * 2))
    page = Page(report(a, b))
    assert "1 value" in page.text
    assert "/other" in page.text
    assert "none" in Page(report(a, a)).texts
    assert "none" in Page(report(a, b, values=False)).texts


def test_the_command_writes_a_page_and_replaces_none(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(plain)]) == 0
    assert capsys.readouterr().out.strip() == "plain.nwb.zarr.html"
    made = (tmp_path / "plain.nwb.zarr.html").read_text(encoding="utf-8")
    Page(made)
    assert main(["report", str(plain)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["report", str(plain), "--overwrite", "--level", "chunks"]) == 0
    assert main(["report", str(tmp_path / "absent.zarr"), "-o", "absent.html"]) == 2
    assert not (tmp_path / "absent.html").exists()


# ---- notebooks ----------------------------------------------------------------------------------------------------


def test_an_open_io_shows_its_tree(rich: Path) -> None:
    io = NWBZarrIO(rich, "r")
    with io:
        io.read()
        page = Page(io._repr_html_())
        assert "Zarr format 2" in page.text
        assert "electrode_group" in page.text
    assert "nothing is open" in io._repr_html_()


def test_an_array_shows_how_it_is_stored(rich: Path) -> None:
    with NWBZarrIO(rich, "r") as io:
        data = next(iter(io.read().acquisition.values())).data
        shown = data._repr_html_()
    for word in ("Chunk shape", "Compressor", "Stored size", "Compression ratio"):
        assert word in shown


def test_an_array_on_a_web_server_shows_what_is_known(web: WebServer) -> None:
    write_zarr(web.folder / "a.nwb.zarr", plain_nwbfile())
    with NWBZarrIO(f"{web.url}/a.nwb.zarr", "r") as io:
        shown = io.read().acquisition["trace"].data._repr_html_()
    assert "Chunk shape" in shown
    assert "unknown" in shown


# ---- a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["rich", "many"])
def test_a_real_browser_draws_the_page(which: str, rich: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    source = rich
    if which == "many":
        datasets = [DatasetBuilder(f"trace_{number:04}", np.arange(9.0)) for number in range(1600)]
        source = write(tmp_path / "many.zarr", *datasets)
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(report(source), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    drawn = subprocess.run(
        [browser, *options, f"--screenshot={picture}", "--window-size=1100,1600", page.as_uri()],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert drawn.returncode == 0, drawn.stderr
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 20_000
    found = subprocess.run(
        [browser, *options, "--dump-dom", page.as_uri()], capture_output=True, check=False, text=True, timeout=120
    )
    assert "Where the bytes are" in found.stdout
    assert "</footer>" in found.stdout
