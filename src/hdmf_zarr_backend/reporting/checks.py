"""`checks_section`: the results of `verify` and `validate` on a page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hdmf_zarr_backend.checks.findings import Finding, Problem, Report, Validation
from hdmf_zarr_backend.checks.verify import Level, verify
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.files.outline import Outline
from hdmf_zarr_backend.formats.reserved import SPECLOC
from hdmf_zarr_backend.model.render import counted, escape
from hdmf_zarr_backend.reporting.html import advice, alike, and_more, command, paths_cell, table

_ROWS = 200


def checks_section(
    outline: Outline,
    source: str | os.PathLike[str],
    level: Level,
    storage_options: Mapping[str, Any] | None,
) -> str:
    """Return what is wrong with a file, as HTML."""
    report = verify(source, level, storage_options=storage_options, executor="threads")
    return f"<h2>Checks</h2>{_damage(report)}<h3>Schema</h3>{_schema(outline, source, storage_options)}"


def unchecked_section(location: str) -> str:
    """Return the commands that check a file, as HTML."""
    commands = (
        f"{command('verify', location)} looks for damage, {command('validate', location)} compares it with its schema."
    )
    return f"<h2>Checks</h2><p>This page was made without checking the file. {commands}</p>"


def _verdict(count: int, noun: str, good: str) -> str:
    return f'<span class="bad">{counted(count, noun)}</span>' if count else f'<span class="good">{good}</span>'


# ---- damage ---------------------------------------------------------------------------------------------------------


def _damage(report: Report) -> str:
    remarks = ""
    if report.remarks:
        title = f"{counted(len(report.remarks), 'remark')}, not damage"
        remarks = f"<details><summary>{title}</summary>{_problems(report.remarks, report.source)}</details>"
    return (
        f"<h3>Damage</h3><p>{_verdict(len(report.problems), 'problem', 'No damage found')} "
        f'<span class="soft">{_looked_at(report)}</span></p>{_problems(report.problems, report.source)}{remarks}'
    )


def _looked_at(report: Report) -> str:
    """Return what was checked; not how many groups and arrays, since those of the cached schema are among them."""
    if report.level == "structure":
        unchecked = "Links, references and chunks were not checked"
        return f"in the metadata. {unchecked}; {command('verify', report.source)} checks them."
    targets = f"{counted(report.links, 'link')} and {counted(report.references, 'reference')}"
    if not report.checks_chunks:
        return f"in the metadata, {targets}. Chunks were not checked; {command('verify', report.source)} decodes them."
    return f"in the metadata, {targets}, and all chunks."


def _problems(found: Sequence[Problem | Finding], location: str, name: str = "verify") -> str:
    """Return a table of the findings of a command; those that are alike are one row."""
    groups = alike(found, lambda one: (one.kind, one.message, one.remedy), 2)
    rows = []
    for group in groups[:_ROWS]:
        first = group[0]
        where = [one.path if isinstance(one, Problem) else one.place for one in group]
        what = f"<td>{escape(first.message)}. {advice(first.remedy, location)}</td>"
        rows.append([paths_cell(where), f"<td>{escape(first.kind)}</td>", what])
    rest = and_more(sum(map(len, groups[_ROWS:])), f"; {command(name, location)} lists all")
    return (table(("where", "kind", "what, and what to do"), rows) if rows else "") + rest


# ---- schema ---------------------------------------------------------------------------------------------------------


def _schema(outline: Outline, source: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> str:
    attributes = outline.hierarchy.root.attributes
    if not attributes.keys() & {SPECLOC, "namespace", "neurodata_type"}:
        return "<p>Not validated: the file names no schema.</p>"
    from hdmf_zarr_backend.checks.validate import validate  # on use: hdmf is slow to import

    try:
        return _validation(validate(source, storage_options=storage_options))
    except ModuleNotFoundError as error:
        missing = f"its schema is not stored in it, and {error.name}, which has one, is not installed"
        return f"<p>Not validated: {escape(missing)}.</p>"
    except ZarrBackendError as error:
        installed = f"{command('validate', outline.location, '--installed')} uses the installed schema."
        return f"<p>Not validated: {escape(error.problem)}. {installed}</p>"


def _validation(found: Validation) -> str:
    against = ", ".join(f"{name} {version}" for name, version in found.namespaces.items())
    where = "stored in it" if found.cached else "installed"
    return (
        f"<p>{_verdict(len(found.findings), 'finding', 'Valid')} "
        f'<span class="soft">by the schema that is {where}: {escape(against)}</span></p>'
        f"{_problems(found.findings, found.source, 'validate')}"
    )
