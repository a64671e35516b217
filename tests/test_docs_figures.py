"""Tables of the README, on performance, on versions and of the comparison agree with the benchmark and the tests."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "docs" / "_scripts"


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield {name: importlib.import_module(name) for name in ("figures", "compatibility", "generated")}


@pytest.mark.parametrize("name", ["figures", "compatibility"])
def test_pages_are_as_the_script_makes_them(scripts, name):
    made = scripts[name].files()
    assert scripts[name].README in made
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run: python docs/_scripts/{name}.py"


def test_every_line_has_figures_of_this_package_and_of_013(scripts):
    figures = scripts["figures"]
    for work in figures.WORKS:
        assert {figures.OURS, figures.OLD} <= figures.ratios(work).keys(), work.label


def test_a_row_that_the_benchmark_does_not_have_is_an_error(scripts):
    figures = scripts["figures"]
    for wrong in (figures.Work("x", "no such target"), figures.Work("x", cell=("W2a", "sing", "1"))):
        with pytest.raises(LookupError):
            figures.ratios(wrong)


def test_a_page_without_the_part_is_an_error(scripts):
    with pytest.raises(ValueError, match="no part speed"):
        scripts["generated"].with_part("a page", "speed", "text")


def test_ratios_are_those_of_the_page(scripts):
    figures = scripts["figures"]
    text = figures.FIGURES.read_text(encoding="utf-8")
    slices = next(work for work in figures.WORKS if work.target == "200 random one-second slices")
    row = next(line for line in text.splitlines() if line.startswith("| 200 random one-second slices | "))
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    expected = {figures.OLD: 1.0, figures.OURS: float(cells[1].split()[0])}
    expected |= {figures.NEW: float(cells[4]), figures.HDF5: float(cells[5])}
    assert figures.ratios(slices) == expected


def test_what_is_shown_by_a_test_is_shown_by_one_that_exists(scripts):
    for reader in scripts["compatibility"].READERS:
        if reader.client or set(reader.opens) == {"not tested"}:
            continue
        path, _, name = reader.shown.partition(":")
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), reader.name


def test_a_client_that_fails_is_not_said_to_work(scripts, monkeypatch):
    compatibility = scripts["compatibility"]
    monkeypatch.setattr(
        compatibility,
        "results",
        lambda: {
            ("dandi", "format 2"): {"a": True, "b": True},
            ("dandi", "format 3"): {"a": True, "b": False},
            ("dandi", "both formats"): {"a": False, "b": False},
        },
    )
    monkeypatch.setattr(compatibility, "READERS", [compatibility.Reader("dandi", client="dandi")])
    assert "| dandi | yes | all but `b` | no |" in compatibility.compatibility()


def test_the_readme_fits_on_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_test_that_a_feature_names_exists():
    page = (ROOT / "docs" / "reference" / "features.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w./]+)`", page))
    assert len(named) > 40
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
