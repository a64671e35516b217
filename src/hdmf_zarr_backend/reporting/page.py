"""`report`: one HTML page about a file, or about two, that opens in any browser without other files.

All text of a file is escaped, because a file may be crafted. Advice names commands of `zarrio`, with the location.

Source: HTML Living Standard; SVG 2.
"""

from __future__ import annotations

import math
import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

from hdmf_zarr_backend.check.findings import Finding, Problem
from hdmf_zarr_backend.check.verify import Level, verify
from hdmf_zarr_backend.comparison import Difference, compare, summarise
from hdmf_zarr_backend.encoding.reserved import SPECLOC
from hdmf_zarr_backend.errors import ZarrBackendError, known_arguments, without_secrets
from hdmf_zarr_backend.model.links import without_query
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.model.render import RUN, counted, escape, natural, pattern, size_text
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.outline import TREE_STYLE, Outline, lengths_text, tree_html
from hdmf_zarr_backend.reporting.data import DataView, NodeReader, Remark, opened, treemap_svgs
from hdmf_zarr_backend.store.opening import FileSource

T = TypeVar("T")

# longest tables: a browser needs seconds for a page of some MB
_ARRAYS = 25
_LEAST_PART = 0.01  # of the stored bytes, for a row of arrays
_DIFFERENCES = 300
_FINDINGS = 200
_MEMBERS = 2000  # of a row that opens


@known_arguments
def report(
    source: FileSource,
    other: FileSource | None = None,
    *,
    level: Level = "links",
    values: bool = True,
    check: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
) -> str:
    """Return an HTML page about a file, in Zarr or HDF5: session, data, sizes, problems, chunks, tree.

    The page shows a part of the data: the least and greatest values of series, spikes, first images, first rows of
    tables. At most 64 MB of values are read for that, 16 MB of a file at a URL; the page
    gives the number.

    Parameters
    ----------
    source : str or PathLike
        The file. In Zarr: a directory, a zip file, or a URL of a store that can be listed. In HDF5: a local file or a
        URL.
    other : str or PathLike, optional
        A second file; the page then compares the two.
    level : {"links", "structure", "chunks", "schema"}
        How much to check for damage, as in `verify`: ``"structure"`` the metadata, ``"links"`` also links and
        references, ``"chunks"`` also all chunks, ``"schema"`` also the schema.
    values : bool
        Also compare the values of datasets of the two files.
    check : bool
        Check the file for damage and against its schema. False: leave both out.
    storage_options : mapping, optional
        Options for URLs, with the names of fsspec or obstore.
    read_options : ReadOptions, optional
        Limits for the files, and other files that they may lead to.

    Returns
    -------
    str
        The document, in HTML 5.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        The file does not exist or cannot be described.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hdmf_zarr_backend import report
    >>> size = Path("session.html").write_text(report("session.nwb.zarr"), encoding="utf-8")
    """
    reading: dict[str, Any] = {"storage_options": storage_options, "read_options": read_options}
    if other is not None:
        with opened(source, **reading) as one, opened(other, **reading) as two:
            first, second = _FileFigures(one.outline), _FileFigures(two.outline)
        return _page("Two files", _comparison(first, second, compare(source, other, values=values, **reading)))
    with opened(source, **reading) as reader:
        figures = _FileFigures(reader.outline)
        location = figures.outline.location
        name = os.path.basename(without_query(location).rstrip("/"))
        view = DataView(reader)
        session, sections = view.session(), view.sections()  # in this order, since both read values
        damage, schema = _command("verify", location), _command("validate", location)
        checks = f"<p>The file was not checked. Run {damage} to look for damage, and {schema} to check the schema.</p>"
        if check:
            checks = _checks(reader, source, level, reading)
    amount = f"{size_text(reader.read_bytes)} of values were read for this page, of at most {size_text(reader.most)}."
    body = [
        f'<h1>{escape(name)}</h1><p class="soft path">{escape(without_secrets(location))}</p>',
        session,
        _remarks(view.remarks),
        *sections,
        f'<p class="soft">{amount}</p>',
        f"<h2>File</h2>{_cards(figures)}",
        f"<h2>Checks</h2>{checks}",
        f"<h2>Where the bytes are</h2>{treemap_svgs(figures.tree)}",
        _arrays_section(figures),
        f"<h2>Tree</h2>{tree_html(figures.tree, figures.outline.columns)}",
    ]
    return _page(name, body)


def _page(title: str, body: list[str]) -> str:
    style = files("hdmf_zarr_backend.reporting").joinpath("page.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # the style is in the page: one file can be mailed, and opened without a network
        f"<style>{style}{TREE_STYLE}</style></head><body>{''.join(body)}"
        "<footer>made by <code>zarrio report</code></footer></body></html>\n"
    )


class _FileFigures:
    """The figures of a file; those of the ``document`` are without the cached specifications, ``stored`` bytes with."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.document = outline.document()
        arrays = (node for node in self.document["nodes"] if node["kind"] == "array")
        # stored bytes, which a user pays for, and not the size of the values
        self.arrays = sorted(arrays, key=lambda node: -int(node["stored_bytes"]))
        self.stored = sum((outline.stored or {}).values())
        # without the cached specifications: in many files they would hide the data
        self.tree = outline.tree()
        self.specifications = self.stored - self.tree.sum.stored


def _cards(figures: _FileFigures) -> str:
    """Return the numbers about the complete file, and what they leave out."""
    document, arrays = figures.document, figures.arrays
    counts = Counter(node["kind"] for node in document["nodes"])
    counts["chunk"] = _total(arrays, "chunk_count")
    shown = [("HDF5", "format")]
    if not figures.outline.is_hdf5:
        number = "2 and 3" if figures.outline.has_both else document["zarr_format"]
        shown = [(f"Zarr {number}", "consolidated" if document["consolidated"] else "not consolidated")]
    words = ("group", "array", "chunk", "link")
    shown += [(f"{counts[word]:,}", word if counts[word] == 1 else f"{word}s") for word in words]
    # text and references have no size before compression, so the ratio is that of numbers alone
    sized = [array for array in arrays if array["bytes"] is not None]
    size, numbers = _total(sized, "bytes"), _total(sized, "stored_bytes")
    shown += [(size_text(figures.stored), "stored in all"), (size_text(numbers), "of it numbers")]
    if rest := figures.stored - numbers - figures.specifications:
        shown.append((size_text(rest), "of it text and references"))
    if figures.specifications:
        shown.append((size_text(figures.specifications), "of it the cached schema"))
    if size and numbers:
        shown += [(size_text(size), "numbers, uncompressed"), (f"{size / numbers:.2f}", "compression ratio of numbers")]
    note = "HDF5 does not tell the stored bytes of text of variable length." if figures.outline.is_hdf5 else ""
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{label}</span></div>' for value, label in shown)
    return f'<div class="cards">{boxes}</div><p class="soft">{note}</p>'


def _arrays_section(figures: _FileFigures) -> str:
    """Return the table of the largest arrays; arrays with similar names are one row, with their totals."""
    # a file of sweeps has thousands of arrays that differ in a number in the name: one row, which opens
    groups = _alike(figures.arrays, lambda array: (pattern(array["path"]), array["dtype"], *array["codecs"]))
    groups.sort(key=lambda arrays: -_total(arrays, "stored_bytes"))
    rows = []
    least = _LEAST_PART * (figures.stored - figures.specifications)
    groups = [arrays for arrays in groups if _total(arrays, "stored_bytes") >= least]
    for arrays in groups[:_ARRAYS]:
        first, stored = arrays[0], _total(arrays, "stored_bytes")
        size = None if first["bytes"] is None else _total(arrays, "bytes")
        shapes = sorted((array["shape"] for array in arrays), key=math.prod)
        texts = dict.fromkeys(lengths_text(shape) or "scalar" for shape in (shapes[0], shapes[-1]))
        names = escape(first["path"])
        if len(arrays) > 1:
            # sorted as people count: trace_2 before trace_10
            ordered = sorted(arrays, key=lambda array: natural(array["path"]))
            lines = [f"{escape(array['path'])}, {size_text(array['stored_bytes'])}" for array in ordered]
            start, end = ordered[0]["path"], ordered[-1]["path"]
            extent = f"{start} ... {posixpath.relpath(end, posixpath.commonpath([start, end]))}"
            names = _opening(f"{escape(extent)}, {len(arrays):,} arrays", lines)
        chunks = set()
        for array in arrays:
            shards = f" in shards of {lengths_text(array['shards'])}" if array["shards"] else ""
            whole = "whole array" if array["shape"] else ""
            chunks.add(whole if array["chunk_count"] == 1 else lengths_text(array["chunks"]) + shards)
        form = (escape(first["dtype"]), " to ".join(texts), chunks.pop() if len(chunks) == 1 else "different")
        number, codecs = f"{_total(arrays, 'chunk_count'):,}", escape(", ".join(first["codecs"]))
        ratio = f"{size / stored:.2f}" if stored and size else ""
        rows.append((names, *form, number, codecs, "" if size is None else size_text(size), size_text(stored), ratio))
    columns = {"array": "path", "type": "", "shape": "length", "chunk shape": "length", "chunks": "number"}
    columns |= {"codecs": "codecs", "size": "number", "stored": "number", "ratio": "number"}
    rest = len(figures.arrays) - sum(map(len, groups[:_ARRAYS]))
    more = f'<p class="soft">{rest:,} smaller arrays are in the tree below.</p>' if rest else ""
    return f"<h2>Largest arrays</h2>{_table(columns, rows)}{more}" if rows else ""


def _total(arrays: Sequence[dict[str, Any]], name: str) -> int:
    return sum(array[name] or 0 for array in arrays)


def _comparison(a: _FileFigures, b: _FileFigures, differences: Sequence[Difference]) -> list[str]:
    """Return the numbers of both files, their stored sizes by the groups of the root, and their differences."""
    body = ["<h1>Two files</h1>"]
    for ordinal, figures in (("first", a), ("second", b)):
        body.append(f"<h2>{ordinal}: {escape(without_secrets(figures.outline.location))}</h2>{_cards(figures)}")
    sizes = {"all": [a.stored, b.stored]}
    members = [{f"/{item.name}": item.sum.stored for item in each.tree.members if item.sum.stored} for each in (a, b)]
    by_path = {path: [each.get(path, 0) for each in members] for path in {*members[0], *members[1]}}
    sizes |= sorted(by_path.items(), key=lambda item: (-max(item[1]), item[0]))
    rows = [
        (escape(path), size_text(one), size_text(other), f"{other / one:.2f}" if one else "")
        for path, (one, other) in sizes.items()
    ]
    columns = {"": "path", "first": "number", "second": "number", "second / first": "number"}
    body.append(f"<h2>Stored bytes</h2>{_table(columns, rows)}")
    if not differences:
        return [*body, '<h2>Differences</h2><p class="good">none</p>']
    counts = ", ".join(f"{count:,} {kind}" for kind, count in summarise(differences).items())
    texts = [(escape(each.path), escape(each.kind), escape(each.text)) for each in differences[:_DIFFERENCES]]
    more = _and_more(len(differences) - len(texts), "; <code>zarrio compare</code> lists them all")
    table = _table({"node": "path", "kind": "", "first | second": ""}, texts)
    return [*body, f"<h2>Differences</h2><p>{escape(counts)}</p>{table}{more}"]


# ---- the results of `verify` and `validate` --------------------------------------------------------------------------


def _checks(reader: NodeReader, source: FileSource, level: Level, reading: dict[str, Any]) -> str:
    """Return the results of `verify` and `validate`, and what they checked."""
    report = verify(source, level, executor="threads", **reading)
    command = _command("verify", report.source)
    # no number of groups and arrays: verify counts those of the cached schema, and the page does not
    targets = f"in the metadata, {counted(report.links, 'link')} and {counted(report.references, 'reference')}"
    if level == "structure":
        checked = f"in the metadata. Links, references and chunks were not checked; {command} checks them."
    elif not report.checks_chunks:
        checked = f"{targets}. Chunks were not checked; {command} decodes them."
    else:
        checked = f"{targets}, and all chunks."
    remarks = ""
    if report.remarks:
        title = f"{counted(len(report.remarks), 'remark')}, not damage"
        remarks = f"<details><summary>{title}</summary>{_problems(report.remarks, report.source)}</details>"
    return (
        f"<h3>Damage</h3><p>{_verdict(len(report.problems), 'problem', 'No damage found')} "
        f'<span class="soft">{checked}</span></p>{_problems(report.problems, report.source)}{remarks}'
        f"<h3>Schema</h3>{_schema(reader)}"
    )


def _remarks(remarks: Sequence[Remark]) -> str:
    """Return a box with what a reader should know; remarks with the same text are one line."""
    lines = []
    for group in _alike(remarks, lambda remark: remark[0], 2):
        places = [escape(", ".join(filter(None, [absolute(path), detail]))) for _, path, detail in group]
        text = f"<b>{escape(group[0][0])}</b>"
        more = f"{text}: {places[0]} and {len(group) - 1:,} more"
        lines.append(f"{text}: {places[0]}" if len(group) == 1 else _opening(more, places))
    items = "".join(f"<li>{line}</li>" for line in lines)
    where = "What to do: the guide <i>Look at a file, and compare files</i> of hdmf-zarr-backend, <i>Remarks</i>."
    return f'<div class="remarks"><h2>Remarks</h2><ul>{items}</ul><p>{where}</p></div>' if items else ""


def _verdict(count: int, noun: str, good: str) -> str:
    return f'<span class="bad">{counted(count, noun)}</span>' if count else f'<span class="good">{good}</span>'


def _problems(findings: Sequence[Problem | Finding], location: str, name: str = "verify") -> str:
    """Return a table of the findings of a command; those that are alike are one row."""
    groups = _alike(findings, lambda each: (each.kind, each.message, each.remedy), 2)
    rows = []
    for group in groups[:_FINDINGS]:
        first = group[0]
        where = [each.path if isinstance(each, Problem) else each.place for each in group]
        # a remedy names commands in backticks: here they get the location of the file, to be copied to a terminal
        start, *parts = re.split(r"`zarrio (\S+?)((?: [^`]*)?)`", first.remedy)
        advice = escape(start)
        for command, options, rest in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
            advice += _command(command, location, options.strip()) + escape(rest)
        title = f"{escape(where[0])} and {len(where) - 1:,} more"
        paths = escape(where[0]) if len(where) == 1 else _opening(title, list(map(escape, where)))
        rows.append((paths, escape(first.kind), f"{escape(first.message)}. {advice}"))
    rest = _and_more(sum(map(len, groups[_FINDINGS:])), f"; {_command(name, location)} lists all")
    return (_table({"where": "path", "kind": "", "what, and what to do": ""}, rows) if rows else "") + rest


def _schema(reader: NodeReader) -> str:
    # validate would need pynwb or hdmf to say that a plain Zarr file has no schema
    attributes, outline = reader.hierarchy.root.attributes, reader.outline
    if not attributes.keys() & {SPECLOC, "namespace", "neurodata_type"}:
        return "<p>Not validated: the file names no schema.</p>"
    from hdmf_zarr_backend.check.validate import validate_parsed  # on use: hdmf is slow to import

    try:
        validation = validate_parsed(reader.store, reader.parsed)
    except ModuleNotFoundError as error:
        missing = f"its schema is not stored in it, and {error.name}, which has one, is not installed"
        return f"<p>Not validated: {escape(missing)}.</p>"
    except ZarrBackendError as error:
        installed = f"{_command('validate', outline.location, '--installed')} uses the installed schema."
        return f"<p>Not validated: {escape(error.problem)}. {installed}</p>"
    against = ", ".join(f"{name} {version}" for name, version in validation.namespaces.items())
    where = "stored in it" if validation.cached else "installed"
    return (
        f"<p>{_verdict(len(validation.findings), 'finding', 'Valid')} "
        f'<span class="soft">by the schema that is {where}: {escape(against)}</span></p>'
        f"{_problems(validation.findings, validation.source, 'validate')}"
    )


# ---- parts of pages: tables, and rows of similar items that open -----------------------------------------------------


def _alike(items: Iterable[T], key: Callable[[T], Hashable], least: int = RUN) -> list[list[T]]:
    """Return the rows of a table: those of at least ``least`` items with the same key, and single items."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    rows: list[list[T]] = []
    for group in groups.values():
        rows += [group] if len(group) >= least else [[item] for item in group]
    return rows


def _opening(title: str, lines: Sequence[str]) -> str:
    """Return a title that opens a list; title and lines are HTML."""
    listed = "".join(f"<li>{line}</li>" for line in lines[:_MEMBERS])
    more = f"<li>and {len(lines) - _MEMBERS:,} more</li>" if len(lines) > _MEMBERS else ""
    return f"<details><summary>{title}</summary><ul>{listed}{more}</ul></details>"


def _table(columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts, which are HTML; ``columns`` are titles with the class of their cells."""
    marks = [f' class="{kind}"' if kind else "" for kind in columns.values()]
    heads = [mark if "number" in mark else "" for mark in marks]
    titles = "".join(f"<th{mark}>{title}</th>" for mark, title in zip(heads, columns, strict=True))
    cells = ("".join(f"<td{mark}>{cell}</td>" for mark, cell in zip(marks, row, strict=True)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _and_more(count: int, where: str) -> str:
    """Return a line about items that are left out; empty if there are none."""
    return f'<p class="soft">and {count:,} more{where}</p>' if count else ""


def _command(name: str, location: str, options: str = "") -> str:
    """Return a command of `zarrio` about a file."""
    # quoted for a shell: a path may have spaces, and a crafted one more than that
    words = " ".join(filter(None, ["zarrio", name, options, shlex.quote(without_secrets(location))]))
    return f"<code>{escape(words)}</code>"
