"""`zarrio report` and the views of notebooks: whole, self-contained, and safe with crafted names."""

import re
import shutil
import subprocess
import sys
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, report
from hdmf_zarr_backend.check.findings import DAMAGE, KINDS, REMARKS, REPAIRABLE
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.model.render import UNICODE
from tests.places import stored_files
from tests.samples import plain_nwbfile, read_zarr, write_zarr
from tests.servers import WebServer
from tests.trees import root, write_builder

VOID = {"meta", "br", "rect", "path", "img"}
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
        assert tag not in ("script", "link", "iframe", "object")
        loaded = {name: value or "" for name, value in attrs if name in LOADING}
        # pictures are in the page
        assert not loaded or (tag == "img" and loaded["src"].startswith("data:image/png;base64,") and len(loaded) == 1)
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
    return write_zarr(tmp_path_factory.mktemp("rich") / "rich.nwb.zarr")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_zarr(tmp_path_factory.mktemp("plain") / "plain.nwb.zarr", plain_nwbfile())


def write(path: Path, *datasets: DatasetBuilder, zarr_format: Any = 2) -> Path:
    write_builder(path, root(*datasets), zarr_format=zarr_format)
    return path


def test_the_page_says_what_is_in_the_file(rich: Path) -> None:
    text = report(rich)
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    for name in ("rich.nwb.zarr", "Zarr 2", "consolidated", "No damage found", "Valid", "Where the bytes are", "units"):
        assert name in page.text
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text


def test_a_file_of_both_formats(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zarr", DatasetBuilder("a", np.arange(3)), zarr_format="both")
    assert "Zarr 2 and 3" in Page(report(path)).text


def test_chunks_sizes_and_ratios_are_those_of_the_file(tmp_path: Path, zarr_format: int) -> None:
    data = ZarrDataIO(np.zeros((1000, 4), "i2"), chunks=(250, 4), compressor={"id": "zlib", "level": 1})
    path = write(tmp_path / "a.zarr", DatasetBuilder("zeros", data), zarr_format=zarr_format)
    names = {"zarr.json", ".zarray", ".zattrs"}
    stored = sum(len(value) for name, value in stored_files(path / "zeros").items() if name not in names)
    text = Page(report(path)).text
    assert f"1,000 {UNICODE.times} 4" in text
    assert f"250 {UNICODE.times} 4" in text
    assert f"{8000 / stored:.2f}" in text
    assert "8 kB" in text


def test_damage_is_on_the_page_and_what_is_alike_is_one_row(tmp_path: Path) -> None:
    numbers = [DatasetBuilder(f"a{number}", ZarrDataIO(np.arange(100), chunks=(10,))) for number in range(5)]
    path = write(tmp_path / "a.zarr", *numbers)
    for number in range(5):
        (path / f"a{number}" / "3").unlink()
    unchecked = Page(report(path)).text
    assert "5 problems" not in unchecked
    assert "Chunks were not checked" in unchecked
    text = report(path, level="chunks")
    assert "5 problems" in Page(text).text
    assert "not checked" not in Page(text).text
    assert text.count("<td>chunk-missing</td>") == 1
    assert "/a0 and 4 more" in text


def test_crafted_names_are_text(tmp_path: Path) -> None:
    data = DatasetBuilder("<img src=x onerror=alert(1)>", np.arange(3), attributes={"<script>": "</style><script>"})
    path = write(tmp_path / "<b>.zarr", data)
    assert "<img src=x onerror=alert(1)>" in Page(report(path)).text
    with ZarrIO(path, "r") as io:
        Page(io._repr_html_())


def test_arrays_with_similar_names_are_one_row_that_opens(tmp_path: Path) -> None:
    plain = ZarrDataIO(np.arange(10.0), compressor=False)
    like = [DatasetBuilder(f"trace_{number}", plain) for number in range(12)]
    few = [DatasetBuilder(f"few_{number}", np.arange(10.0)) for number in range(3)]
    text = report(write(tmp_path / "a.zarr", *like, *few, DatasetBuilder("trace_x", np.arange(10))))
    title = "/trace_0 ... trace_11, 12 arrays"
    assert f"<summary>{title}</summary><ul><li>/trace_0, 80 B</li><li>/trace_1, 80 B</li>" in text
    table = text[text.index("<tbody>") : text.index("</tbody>")]
    assert table.count("<tr>") == 1 + 3 + 1
    assert table.count("<li>") == 12
    assert "960 B" in table


def test_the_page_and_inspect_count_alike(rich: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(rich), "--depth", "0"]) == 0
    heading, _, _, root = capsys.readouterr().out.splitlines()
    counts = re.findall(r"[\d,]+ (?:groups|arrays|links)", heading)
    assert len(counts) == 3
    assert ", ".join(counts) in root
    text = report(rich)
    page = Page(text)
    assert ", ".join(counts) in page.text
    for count in counts:
        number, name = count.split()
        assert f"<b>{number}</b><span>{name}</span>" in text
        checks = page.text[page.text.index("Checks") : page.text.index("Where the bytes are")]
        assert set(re.findall(rf"([\d,]+) {name}", checks)) <= {number}


def test_advice_names_commands_and_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a b.zarr", DatasetBuilder("numbers", np.arange(10)))
    with ZarrIO(path, "r+") as io:
        io.read_builder().attributes["x"] = 1
    (path / ".zattrs").write_text('{"changed": 1}')
    text = report(path)
    assert "1 problem" in text
    assert f"Run <code>zarrio consolidate &#x27;{path}&#x27;</code> on the file, after damaged" in text
    assert f"<code>zarrio verify &#x27;{path}&#x27;</code>" in text


def test_remedies_are_commands() -> None:
    result = [item for kinds in (DAMAGE, REMARKS, REPAIRABLE, KINDS) for item in kinds.items()]
    # the kinds of verify(dandi=True) are not on the page
    for remedy in (remedy for kind, remedy in result if not re.match("dandi-|.*-external", kind)):
        assert not re.search(r"\w=|\w\(|\bmode\b|True|False|None", remedy), remedy
    assert all(text.endswith(".") for kinds in (DAMAGE, REMARKS, KINDS) for text in kinds.values())
    assert not DAMAGE.keys() & REMARKS.keys()


def test_findings_of_the_schema_are_on_the_page(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.nwb.zarr", plain_nwbfile())
    shutil.rmtree(path / "session_description")
    shutil.rmtree(path / "identifier")
    (path / ".zmetadata").unlink()
    text = report(path)
    assert "2 findings" in text
    assert "is missing. Add the missing object or attribute." in text
    assert "Valid" not in text


def test_a_file_whose_schema_is_damaged(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.nwb.zarr", plain_nwbfile())
    for one in (path / "specifications" / "core").glob("*/nwb.base"):
        shutil.rmtree(one)
    (path / ".zmetadata").unlink()
    text = report(path)
    assert "Not validated: the cached source" in text
    assert f"<code>zarrio validate --installed {path}</code> uses the installed schema." in text


def test_a_file_without_a_schema_where_pynwb_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NWBZarrIO(tmp_path / "a.nwb.zarr", "w") as io:
        io.write(plain_nwbfile(), cache_spec=False)
    assert 'Valid</span> <span class="soft">by the schema that is installed: core' in report(tmp_path / "a.nwb.zarr")
    monkeypatch.setitem(sys.modules, "pynwb", None)
    text = report(tmp_path / "a.nwb.zarr")
    assert "Not validated: its schema is not stored in it, and pynwb, which has one, is not installed." in text
    assert "<dt>Identifier</dt><dd>plain</dd>" in text


def test_a_deeply_nested_file_has_a_page(tmp_path: Path) -> None:
    top = group = GroupBuilder("root")
    for _ in range(400):
        child = GroupBuilder("g")
        group.set_group(child)
        group = child
    group.set_dataset(DatasetBuilder("numbers", np.arange(5)))
    assert "numbers" in Page(report(write_builder(tmp_path / "deep.zarr", top))).text


def test_two_files_are_compared(tmp_path: Path) -> None:
    a = write(tmp_path / "a.zarr", DatasetBuilder("same", np.arange(5)), DatasetBuilder("other", np.arange(7)))
    b = write(tmp_path / "b.zarr", DatasetBuilder("same", np.arange(5)), DatasetBuilder("other", np.arange(7) * 2))
    page = Page(report(a, b))
    assert "1 value" in page.text
    assert "/other" in page.text
    assert "none" in Page(report(a, a)).texts
    assert "none" in Page(report(a, b, values=False)).texts


def test_the_command_writes_a_page_and_replaces_none(plain, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(plain)]) == 0
    assert capsys.readouterr().out.strip() == "plain.nwb.zarr.html"
    Page((tmp_path / "plain.nwb.zarr.html").read_text(encoding="utf-8"))
    assert main(["report", str(plain)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["report", "https://host/plain.nwb.zarr?sig=letters"]) == 2  # the name has no signature
    assert capsys.readouterr().err.startswith("zarrio: plain.nwb.zarr.html: the page already exists")
    Path("host.html").touch()
    assert main(["report", "https://host/"]) == 2  # it has no path
    assert capsys.readouterr().err.startswith("zarrio: host.html: the page already exists")
    assert main(["report", str(plain), "--overwrite", "--level", "chunks"]) == 0
    assert main(["report", str(plain), "--no-check", "-o", "unchecked.html"]) == 0
    text = Path("unchecked.html").read_text(encoding="utf-8")
    assert "The file was not checked." in Page(text).text
    assert "No damage" not in text and "Valid" not in text
    assert main(["report", str(tmp_path / "absent.zarr"), "-o", "absent.html"]) == 2
    assert not (tmp_path / "absent.html").exists()


def test_an_open_io_shows_its_tree(rich: Path) -> None:
    io = NWBZarrIO(rich, "r")
    with io:
        io.read()
        page = Page(io._repr_html_())
        assert "Zarr format 2" in page.text
        assert "electrode_group" in page.text
    assert "nothing is open" in io._repr_html_()


def test_an_array_on_a_web_server_shows_what_is_known(web: WebServer) -> None:
    write_zarr(web.folder / "a.nwb.zarr", plain_nwbfile())
    shown = read_zarr(f"{web.url}/a.nwb.zarr").acquisition["trace"].data._repr_html_()
    assert "Chunk shape" in shown
    assert "unknown" in shown


MEASURE = """<!doctype html><iframe width="{width}" height="900" srcdoc="{page}"></iframe><p></p><script>
onload = () => {{
  const page = document.querySelector("iframe").contentDocument.documentElement;
  document.querySelector("p").textContent = `measured ${{page.scrollWidth}} of ${{page.clientWidth}}`;
}}
</script>"""


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_the_page_fits_its_window(width: int, rich: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    measured = tmp_path / "measured.html"
    measured.write_text(MEASURE.format(width=width, page=escape(report(rich))), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    answer = subprocess.run(
        [browser, *options, "--window-size=1600,1000", "--dump-dom", measured.as_uri()], capture_output=True,
        check=True, text=True, timeout=600,
    )  # fmt: skip
    size = re.search(r"measured (\d+) of (\d+)", answer.stdout)
    assert size is not None
    assert size[1] == size[2]
