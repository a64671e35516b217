"""Tables of the README, on performance, on versions and of the comparison agree with the benchmark and the tests."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "figures"


@pytest.mark.parametrize("name", ["figures", "compatibility"])
def test_pages_are_as_the_script_makes_them(script, name):
    pages = importlib.import_module(name)
    assert pages.README in pages.files()
    for path, text in pages.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run: python docs/_scripts/{name}.py"


def test_every_line_has_figures_of_this_package_and_of_013(script):
    for work in script.WORKS:
        assert {script.OURS, script.OLD} <= script.ratios(work).keys(), work.label


def test_what_is_shown_by_a_test_is_shown_by_one_that_exists(script):
    for reader in importlib.import_module("compatibility").READERS:
        if reader.client or set(reader.opens) == {"not tested"}:
            continue
        path, _, name = reader.shown.partition(":")
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), reader.name


def test_the_readme_fits_on_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_every_drawing_follows_the_dark_theme():
    drawings = [path for path in (ROOT / "docs").rglob("*.svg") if not {"_build", "auto_gallery"} & set(path.parts)]
    assert len(drawings) > 5
    assert [path.name for path in drawings if "prefers-color-scheme: dark" not in path.read_text("utf-8")] == []


def test_every_test_that_a_feature_names_exists():
    page = (ROOT / "docs" / "reference" / "features.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w./]+)`", page))
    assert len(named) > 40
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
