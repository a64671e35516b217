"""Parts of pages: tables, rows of similar items that open, and commands of `zarrio` about a file."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from hdmf_zarr_backend.model.render import RUN, escape, natural

T = TypeVar("T")

_LISTED = 2000  # members of a row that opens


def alike(items: Iterable[T], key: Callable[[T], Hashable], least: int = RUN) -> list[list[T]]:
    """Return the rows of a table: those of at least ``least`` items with the same key, and single items."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    rows: list[list[T]] = []
    for group in groups.values():
        rows += [group] if len(group) >= least else [[item] for item in group]
    return rows


def opening(title: str, lines: Sequence[str]) -> str:
    """Return a title that opens a list; title and lines are HTML."""
    listed = "".join(f"<li>{line}</li>" for line in lines[:_LISTED])
    more = f"<li>and {len(lines) - _LISTED:,} more</li>" if len(lines) > _LISTED else ""
    return f"<details><summary>{title}</summary><ul>{listed}{more}</ul></details>"


def range_text(paths: Iterable[str]) -> str:
    """Return the first and the last of similar paths: ``/acquisition/trace_1 ... trace_9``."""
    ordered = sorted(paths, key=natural)
    first, last = ordered[0], ordered[-1]
    return f"{first} ... {posixpath.relpath(last, posixpath.commonpath([first, last]))}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML cells; a title with ``#`` before it is that of a column of numbers."""
    titles = "".join(
        f'<th class="number">{title[1:]}</th>' if title.startswith("#") else f"<th>{title}</th>" for title in head
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def path_cell(text: str) -> str:
    """Return the cell of a path."""
    return f'<td class="path">{escape(text)}</td>'


def paths_cell(paths: Sequence[str]) -> str:
    """Return the cell of one path, or of several that open."""
    if len(paths) == 1:
        return path_cell(paths[0])
    title = f"{escape(paths[0])} and {len(paths) - 1:,} more"
    return f'<td class="path">{opening(title, list(map(escape, paths)))}</td>'


def and_more(count: int, where: str = "") -> str:
    """Return a line about items that are left out; empty if there are none."""
    return f'<p class="soft">and {count:,} more{where}</p>' if count else ""


# ---- commands -------------------------------------------------------------------------------------------------------


def command(name: str, location: str, options: str = "") -> str:
    """Return a command of `zarrio` about a file."""
    words = " ".join(filter(None, ["zarrio", name, options, shlex.quote(location)]))
    return f"<code>{escape(words)}</code>"


def advice(text: str, location: str) -> str:
    """Return a remedy; the commands in it, in backticks, get the location of the file."""
    start, *parts = re.split(r"`zarrio (\S+?)((?: [^`]*)?)`", text)
    commands = zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
    return escape(start) + "".join(
        command(name, location, options.strip()) + escape(rest) for name, options, rest in commands
    )
