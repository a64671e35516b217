"""`verify`: how whole a file is, level by level."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, get_args

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.execution.executors import runner
from hdmf_zarr_backend.execution.tasks import MEMORY_BUDGET
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.limits import ExternalLinks, Limits, ReadRules
from hdmf_zarr_backend.stores.opening import open_store
from hdmf_zarr_backend.verification.chunks import check_chunks
from hdmf_zarr_backend.verification.documents import Structure, check_structure
from hdmf_zarr_backend.verification.problems import Report
from hdmf_zarr_backend.verification.targets import Targets, check_targets

Level = Literal["structure", "links", "chunks", "schema"]
LEVELS: tuple[str, ...] = get_args(Level)
"""How far to look; each level begins with all before it."""


def verify(
    source: str | os.PathLike[str] | Any,
    level: Level = "chunks",
    *,
    storage_options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    external_links: ExternalLinks | None = None,
    executor: Any = None,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = SILENT,
) -> Report:
    """Look for damage in a Zarr file. Nothing is changed.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    level : {"structure", "links", "chunks", "schema"}
        ``structure``: documents parse, have the keys that the format knows, and the consolidated document says the
        same as they, with the chunks in it. ``links``: the targets of links and references are there, and are the
        objects that were meant. ``chunks``: each chunk is there, decodes, and is of full size. ``schema``: the file is
        valid by the namespaces that are cached in it. Each begins with all before it.
    storage_options : dict, optional
        For URLs.
    limits : Limits, optional
        How much the file may ask for.
    external_links : {"follow", "within", "never"}, optional
        As of `ZarrIO`.
    executor : None, "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
        Who decodes chunks; None: this thread.
    memory_budget : int
        Bytes of values that may be in flight.
    progress : Progress
        Is told of the bytes of the values that were decoded.

    Returns
    -------
    Report
        ``problems`` are damage, ``remarks`` are worth knowing.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        There is no Zarr file.
    UsageError
        There is no such level.

    Source: issue "Nothing lost, nobody let in", part 4.
    """
    if level not in LEVELS:
        raise UsageError(f"there is no level {level!r}", remedy=f"Use one of {', '.join(LEVELS)}.")
    keys = open_store(source, storage_options)
    keys.read_rules = ReadRules(limits=limits or Limits(), external_links=external_links)
    report = Report(keys.location, level)
    structure = check_structure(keys, report)
    if structure is not None:
        with runner(executor) as who:
            for step in LEVELS[1 : LEVELS.index(level) + 1]:
                _CHECKS[step](keys, structure, report, who, memory_budget, progress)
    return report


def _links(keys: Store, structure: Structure, report: Report, *_: Any) -> None:
    check_targets(Targets(keys, structure.hierarchy), report)


def _chunks(
    keys: Store, structure: Structure, report: Report, who: Any, memory_budget: int, progress: Progress
) -> None:
    check_chunks(
        keys,
        structure.hierarchy,
        report,
        who,
        memory_budget=memory_budget,
        progress=progress,
        told=structure.told,
    )


def _schema(keys: Store, structure: Structure, report: Report, *_: Any) -> None:
    from hdmf_zarr_backend.verification.schema import check_schema  # on use: hdmf takes its time to load

    check_schema(keys, structure.hierarchy, report)


_CHECKS = {"links": _links, "chunks": _chunks, "schema": _schema}
