"""The check of links that ends `nox -s docs` finds what it should; links of the README and the like lead to files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "docs" / "_scripts"
PAGES = {
    "index.html": "<a href='a/one.html#here'>1</a> <a href='https://example.org/x'>2</a> <img src='no.png'>",
    "a/one.html": "<p id='here'><a href='two.html?q=1#there'>3</a> <a href='#nowhere'>4</a>",
    "a/two.html": "<p id='there'><a href='../three.html'>5</a>",
    "three.html": "",
}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module("links")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PAGES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_links_that_lead_nowhere_are_found(script, folder):
    expected = ["index.html: no.png leads nowhere", "one.html: #nowhere leads nowhere"]
    assert sorted(script.broken(script.read(folder))) == expected


def test_pages_that_are_three_clicks_away_are_found(script, folder):
    assert script.distant(script.read(folder), folder / "index.html") == ["three.html is not reached in 2 clicks"]


def test_links_of_the_markdown_files_at_the_root_lead_to_files(script):
    assert script.broken_in_markdown() == []
