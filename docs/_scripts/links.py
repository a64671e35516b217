"""Checks the built documentation: local links lead somewhere, and each page is at most two clicks from the first one.

``python docs/_scripts/links.py docs/_build/html`` runs at the end of ``nox -s docs``. Links of the Markdown files at
the root of the repository are checked as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from generated import ROOT

CLICKS = 2
_MADE_BY_SPHINX = {"search.html", "genindex.html", "py-modindex.html", "sg_execution_times.html"}
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what an element links to, and its id."""
        found = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := found.get(name)) and tag != "link"]
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}


def read(folder: Path) -> dict[Path, _Page]:
    """Return all pages of a folder."""
    found = (path for path in folder.resolve().rglob("*.html") if not {"_static", "_modules"} & set(path.parts))
    return {path: _Page(path.read_text(encoding="utf-8")) for path in found}


def local_links(path: Path, page: _Page) -> Iterator[tuple[str, Path, str]]:
    """Yield ``(link, file, anchor)`` of the links that lead to files of the documentation."""
    for link in page.links:
        if urlsplit(link).scheme or link.startswith("//"):
            continue
        place, anchor = urldefrag(link)
        place = place.partition("?")[0]
        yield link, (path.parent / unquote(place)).resolve() if place else path, unquote(anchor)


def broken(pages: dict[Path, _Page]) -> list[str]:
    """Return the links that lead to no file or to no anchor."""
    found = []
    for path, page in pages.items():
        for link, target, anchor in local_links(path, page):
            known = pages.get(target)
            if not target.exists() or (known and anchor and anchor not in known.anchors):
                found.append(f"{path.name}: {link} leads nowhere")
    return found


def distant(pages: dict[Path, _Page], first: Path) -> list[str]:
    """Return the pages that are more than `CLICKS` clicks from the first one."""
    reached = {first}
    for _ in range(CLICKS):
        reached |= {target for path in reached & pages.keys() for _, target, _ in local_links(path, pages[path])}
    return [f"{path.name} is not reached in {CLICKS} clicks" for path in pages if path not in reached]


def broken_in_markdown() -> list[str]:
    """Return the links of README.md and the like that lead to no file."""
    return [
        f"{path.name}: {match['target']} leads nowhere"
        for path in ROOT.glob("*.md")
        for match in _LINK.finditer(path.read_text(encoding="utf-8"))
        if not urlsplit(match["target"]).scheme
        and not (ROOT / unquote(urldefrag(match["target"])[0] or path.name)).exists()
    ]


def main() -> int:
    """Print what is wrong; the exit code is 1 if there is something."""
    folder = Path(sys.argv[1]).resolve()
    pages = {path: page for path, page in read(folder).items() if path.name not in _MADE_BY_SPHINX}
    found = [*broken(pages), *distant(pages, folder / "index.html"), *broken_in_markdown()]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
