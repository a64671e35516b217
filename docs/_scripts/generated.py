"""Parts of a page that a script writes, so that they cannot drift from the code.

A part stands between two comments, ``% generated: NAME`` and ``% end: NAME``; everything else on the page is written by
people and is never touched. The tests compare the parts on the page with what the scripts make of the code now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""

_PART = re.compile(r"^% generated: (?P<name>\S+)\n(?P<text>.*?)^% end: (?P=name)$", re.DOTALL | re.MULTILINE)


def parts(page: str) -> dict[str, str]:
    """Return ``{name: text}`` of the generated parts of a page."""
    return {match["name"]: match["text"].strip("\n") for match in _PART.finditer(page)}


def with_parts(page: str, texts: Mapping[str, str]) -> str:
    """Return ``page`` with the text of each generated part.

    Raises
    ------
    ValueError
        The page has other parts than ``texts``.
    """
    if parts(page).keys() != texts.keys():
        raise ValueError(f"the page has the parts {sorted(parts(page))}, and there are texts for {sorted(texts)}")
    return _PART.sub(
        lambda match: f"% generated: {match['name']}\n\n{texts[match['name']]}\n\n% end: {match['name']}", page
    )


def with_part(page: str, name: str, text: str) -> str:
    """Return ``page`` with the text between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``.

    The README has these comments, since ``%`` is one in the documentation only.

    Raises
    ------
    ValueError
        The page has no such part.
    """
    start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    if start not in page or end not in page:
        raise ValueError(f"the page has no part {name}")
    before, _, rest = page.partition(start)
    return f"{before}{start}\n{text}\n{end}{rest.partition(end)[2]}"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; ``|`` in a cell is escaped."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code_list(words: Iterable[str]) -> str:
    """Return words as code, separated by commas."""
    return ", ".join(f"`{word}`" for word in words)
