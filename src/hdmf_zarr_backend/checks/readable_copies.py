"""Damaged documents whose good copy is in the consolidated document, which readers use: a conversion saves the file."""

from __future__ import annotations

from dataclasses import replace

from hdmf_zarr_backend.checks.findings import Report
from hdmf_zarr_backend.checks.structure import Structure
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import Store

_KIND = "document-damaged"


def mark_readable_copies(keys: Store, structure: Structure | None, report: Report) -> None:
    """Mark the damaged documents of ``report`` that readers do not notice, because the consolidated one has a copy.

    Parameters
    ----------
    keys : Store
        The file.
    structure : Structure or None
        The result of the check of its documents; None: the file cannot be read.
    report : Report
        The findings of that check, changed in place.
    """
    if _KIND not in report.counts or structure is None or not structure.is_consolidated:
        return
    try:
        found = parse(keys, hint=structure.hierarchy.zarr_format)
    except ZarrBackendError:  # the consolidated document is damaged too, which the report has already
        return
    if found.consolidated:
        readable = {absolute(path) for path, _ in found.hierarchy.walk()}
        report.problems = [
            replace(
                problem, is_repairable=problem.is_repairable or (problem.kind == _KIND and problem.path in readable)
            )
            for problem in report.problems
        ]
