"""`report`: one page about a file, or about two, that opens in any browser and needs nothing else.

No script, no picture and no style from elsewhere: the page can be mailed, and it tells nobody that it was opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any, Literal

from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.files.html_tree import TREE_STYLE, tree_html
from hdmf_zarr_backend.files.outline import open_outline
from hdmf_zarr_backend.report.comparison import differences_section, sizes_section
from hdmf_zarr_backend.report.sections import (
    FileFigures,
    arrays_section,
    cards,
    findings_section,
    links_section,
    treemap_section,
)
from hdmf_zarr_backend.verification.files import verify

__all__ = ["Level", "report"]

Level = Literal["structure", "links", "chunks", "schema"]


def report(
    source: str | os.PathLike[str],
    other: str | os.PathLike[str] | None = None,
    *,
    level: Level = "links",
    values: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Return an HTML page about a Zarr file: sizes, chunks, tree, links, problems.

    Parameters
    ----------
    source : str or PathLike
        The file: a directory, a zip file, or a URL of a store that can be listed.
    other : str or PathLike, optional
        A second one; the page then compares the two.
    level : {"links", "structure", "chunks", "schema"}
        How far to look for problems, as of `verify`; ``"chunks"`` decodes all there are.
    values : bool
        Compare the values of datasets of the two files too.
    storage_options : mapping, optional
        For URLs.

    Returns
    -------
    str
        The whole document, in HTML 5.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        There is no file that can be described.

    Source: issue "For people", part 3.
    """
    figures = FileFigures(open_outline(source, sizes=True, storage_options=storage_options))
    if other is not None:
        return _of_two(source, other, figures, values=values, storage_options=storage_options)
    found = verify(source, level, storage_options=storage_options, executor="threads")
    name = os.path.basename(figures.outline.location.rstrip("/"))
    body = [
        f'<h1>{escape(name)}</h1><p class="soft">{escape(figures.outline.location)}</p>',
        cards(figures),
        findings_section(found),
        treemap_section(figures),
        arrays_section(figures),
        links_section(figures),
        f"<h2>Tree</h2>{tree_html(figures.outline)}",
    ]
    return _page(name, body)


def _of_two(
    source: str | os.PathLike[str],
    other: str | os.PathLike[str],
    figures: FileFigures,
    *,
    values: bool,
    storage_options: Mapping[str, Any] | None,
) -> str:
    second = FileFigures(open_outline(other, sizes=True, storage_options=storage_options))
    found = compare(source, other, values=values, storage_options=storage_options)
    body = ["<h1>Two files</h1>"]
    for word, one in (("first", figures), ("second", second)):
        body.append(f"<h2>{word}: {escape(one.outline.location)}</h2>{cards(one)}")
    body += [sizes_section(figures, second), differences_section(found)]
    return _page("Two files", body)


def _page(title: str, body: list[str]) -> str:
    style = files("hdmf_zarr_backend.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}{TREE_STYLE}</style></head><body>{''.join(body)}"
        "<footer>made by <code>zarrio report</code></footer></body></html>\n"
    )
