"""Makes the tables of ``docs/format/test-vectors.md`` of the results of `tests.vectors`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

from generated import ROOT, code_list, table, with_parts

PAGE = ROOT / "docs" / "format" / "test-vectors.md"
FOLDER = ROOT / "docs" / "format" / "vectors"
OURS = "this package"
OF_ARRAYS = ("TensorStore", "zarrita")
"""Readers that are asked for arrays only."""


def generator() -> ModuleType:
    """Return the module that makes the vectors."""
    spec = importlib.util.spec_from_file_location("make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def results() -> dict[str, dict[str, int]]:
    """Return ``{reader: {vector: 1 if it was read as stated}}``; this package reads all, which its tests check."""
    found: dict[str, dict[str, int]] = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    return {OURS: dict.fromkeys(next(iter(found.values())), 1), **found}


def vectors(folder: str, subject: str) -> list[str]:
    """Return the names of the vectors in a folder about a subject."""
    made = [name for name, _ in generator().SUBJECTS[subject]()]
    return [name for name in made if (FOLDER / folder / f"{name}.json").exists()]


def has_arrays(folder: str, name: str) -> bool:
    """Return whether a vector has datasets: a reader of arrays says nothing about the others."""
    statement = json.loads((FOLDER / folder / f"{name}.json").read_text(encoding="utf-8"))
    stack = [statement["root"]]
    while stack:
        group = stack.pop()
        if group["datasets"]:
            return True
        stack += group["groups"].values()
    return False


def reads(folder: str, found: dict[str, int]) -> bool:
    """Return whether a reader opens files of a format at all: more than what must be refused."""
    return any(is_read for place, is_read in found.items() if place.startswith(f"{folder}/") and "broken" not in place)


def read_by(reader: str, folder: str, found: dict[str, int], names: list[str]) -> tuple[list[str], list[str]]:
    """Return the vectors that a reader reads as stated, and the others, of those that are about what it reads."""
    about = [name for name in names if reader.partition(" ")[0] not in OF_ARRAYS or has_arrays(folder, name)]
    good = [name for name in about if found[f"{folder}/{name}"]]
    return good, [name for name in about if name not in good]


def matrix(folder: str) -> str:
    """Return the table of a format: subjects by readers."""
    known = {name: found for name, found in results().items() if reads(folder, found)}
    rows = []
    for subject in generator().SUBJECTS:
        names = vectors(folder, subject)
        cells = [read_by(reader, folder, found, names) for reader, found in known.items()]
        if names:
            rows.append((subject, *(f"{len(good)} of {len(good + bad)}" if good + bad else "-" for good, bad in cells)))
    return table(["subject", *known], rows)


def exceptions(folder: str) -> str:
    """Return a list of the vectors that each reader does not read as stated."""
    lines = []
    for reader, found in results().items():
        names = [name for subject in generator().SUBJECTS for name in vectors(folder, subject)]
        bad = read_by(reader, folder, found, names)[1]
        if not reads(folder, found):
            lines.append(f"- {reader}: does not open this format.")
        elif bad:
            lines.append(f"- {reader}: {code_list(bad)}.")
    return "\n".join(lines)


def files() -> dict[Path, str]:
    """Return ``{path: text}`` of the page as it should be."""
    folders = ("format-2", "format-3", "format-both")
    count = {folder: len(list((FOLDER / folder).glob("*.json"))) for folder in folders}
    texts = {
        "count": f"{sum(count.values())} stores: {count['format-2']} of format 2, {count['format-3']} of format 3, and "
        f"{count['format-both']} with both formats.",
        **{folder: f"{matrix(folder)}\n\nNot read as stated:\n\n{exceptions(folder)}" for folder in folders},
    }
    return {PAGE: with_parts(PAGE.read_text(encoding="utf-8"), texts)}


def main() -> None:
    """Rewrite what is generated."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
