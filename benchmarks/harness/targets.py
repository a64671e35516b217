"""What the figures are held against, and the verdict.

The limits are those of the project's plan. A ratio is taken within each round, where both sides ran next to each other;
a limit that lies inside the spread of the rounds is neither met nor missed: it is not shown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.harness.engines import BASE, OURS, OURS_3, PEER_3
from benchmarks.harness.interleave import Results

LEAST_ROUNDS = 5
"""For a verdict about seconds."""
LEAST_STEADY_ROUNDS = 2
"""For a verdict about what the load of the machine does not change: memory, files, requests, bytes."""
MET, MISSED, NOT_SHOWN, NO_FIGURE = "met", "missed", "not shown", "no figure"


@dataclass(frozen=True)
class Cell:
    """One piece of work by one engine.

    Parameters
    ----------
    workload, phase, engine : str
        As in the catalog.
    size : int
        Which of the workload's sizes, counted from the end: -1 is the largest.
    """

    workload: str
    phase: str
    engine: str = OURS
    size: int = -1


@dataclass(frozen=True)
class Target:
    """One line of the table of targets.

    Parameters
    ----------
    work : str
        What is done.
    ours : Cell
        What this package needs for it.
    limit : float
        The target.
    base : Cell, optional
        What it is divided by; None: the figure itself counts.
    figure : str
        ``"cpu"`` or ``"wall"`` seconds, ``"memory"`` in MiB beyond what was there, ``"peak"`` in MiB, ``"files"``,
        ``"requests"``, ``"received"`` in bytes.
    unit : str
        After the figure in the table. ``"c"``: the ratio of CPU seconds to hdmf-zarr 0.13.
    others : mapping
        Further cells for the table, divided by the same base: ``{heading: cells to add up}``.
    at_least : bool
        The figure should be the limit or more.
    exponent : bool
        The figure is the exponent of growth from the first size to the last.
    """

    work: str
    ours: Cell
    limit: float
    base: Cell | None = None
    figure: str = "cpu"
    unit: str = "c"
    others: Mapping[str, tuple[Cell, ...]] | None = None
    at_least: bool = False
    exponent: bool = False


@dataclass(frozen=True)
class Value:
    """A figure over the rounds.

    Parameters
    ----------
    median, least, most : float
        Over the rounds.
    rounds : int
        How many rounds there are.
    """

    median: float
    least: float
    most: float
    rounds: int


@dataclass(frozen=True)
class Line:
    """A target with what was measured.

    Parameters
    ----------
    target : Target
        What was wanted.
    ours : Value or None
        What is; None where nothing could be measured.
    others : mapping
        ``{heading: figure}`` of the other engines.
    verdict : str
        ``"met"``, ``"missed"``, ``"not shown"`` or ``"no figure"``.
    reason : str
        Why there is no figure.
    """

    target: Target
    ours: Value | None
    others: Mapping[str, Value]
    verdict: str
    reason: str = ""


def _value(figures: list[float]) -> Value | None:
    if not figures:
        return None
    return Value(statistics.median(figures), min(figures), max(figures), len(figures))


class Figures:
    """Looks figures up in the results of several workloads.

    Parameters
    ----------
    results : mapping
        ``{workload: Results}``.
    sizes : mapping
        ``{workload: sizes that were run}``.
    """

    def __init__(self, results: Mapping[str, Results], sizes: Mapping[str, tuple[int, ...]]) -> None:
        self._results = results
        self._sizes = sizes

    def rounds(self, cell: Cell, figure: str) -> list[float | None]:
        """Return the figure of each round, None where there is none."""
        results = self._results.get(cell.workload)
        if results is None:
            return []
        size = self._sizes[cell.workload][cell.size]
        return [run.get(figure) if run else None for run in results.runs.get((cell.phase, size, cell.engine), [])]

    def reason(self, cell: Cell) -> str:
        """Return why a cell has no figure."""
        results = self._results.get(cell.workload)
        if results is None:
            return "was not run"
        size = self._sizes[cell.workload][cell.size]
        return results.failures.get((cell.phase, size, cell.engine), "was not run")

    def ratio(self, cells: tuple[Cell, ...], base: Cell | None, figure: str) -> Value | None:
        """Return the sum of the cells, divided by ``base`` round by round."""
        columns = [self.rounds(cell, figure) for cell in cells]
        sums = [
            None if None in row else sum(part for part in row if part is not None)
            for row in zip(*columns, strict=False)
        ]
        if base is None:
            return _value([one for one in sums if one is not None])
        pairs = zip(sums, self.rounds(base, figure), strict=False)
        return _value([one / other for one, other in pairs if one is not None and other])

    def exponent(self, cell: Cell, figure: str) -> Value | None:
        """Return how the figure grows from the first size to the last: 1 is in proportion."""
        sizes = self._sizes.get(cell.workload, ())
        if len(sizes) < 2:
            return None
        small = Cell(cell.workload, cell.phase, cell.engine, 0)
        ratio = self.ratio((cell,), small, figure)
        if ratio is None:
            return None
        step = math.log(sizes[-1] / sizes[0])
        median, least, most = (math.log(one) / step for one in (ratio.median, ratio.least, ratio.most))
        return Value(median, least, most, ratio.rounds)


def judge(target: Target, figures: Figures) -> Line:
    """Hold what was measured against a target."""
    find: Callable[[tuple[Cell, ...]], Value | None]
    if target.exponent:
        find = lambda cells: figures.exponent(cells[0], target.figure)  # noqa: E731 - two ways to look up one thing
    else:
        find = lambda cells: figures.ratio(cells, target.base, target.figure)  # noqa: E731
    ours = find((target.ours,))
    others = {heading: value for heading, cells in (target.others or {}).items() if (value := find(cells)) is not None}
    if ours is None:
        reason = figures.reason(target.ours)
        if target.base is not None and reason == "was not run":
            reason = figures.reason(target.base)
        return Line(target, None, others, NO_FIGURE, reason)
    return Line(target, ours, others, _verdict(ours, target))


def _verdict(value: Value, target: Target) -> str:
    if value.rounds < (LEAST_ROUNDS if target.figure in ("cpu", "wall") else LEAST_STEADY_ROUNDS):
        return NOT_SHOWN
    low, high = value.least, value.most
    if target.at_least:
        low, high = -high, -low
    limit = -target.limit if target.at_least else target.limit
    if high <= limit:
        return MET
    return MISSED if low > limit else NOT_SHOWN


def _against_peer(
    work: str,
    workload: str,
    phase: str,
    limit: float,
    *,
    size: int = -1,
    base: str = "",
    figure: str = "cpu",
    unit: str = "c",
) -> Target:
    """Return a target as a ratio to hdmf-zarr 0.13, with the other engines beside it."""
    peer = base or phase

    def cell(engine: str) -> tuple[Cell, ...]:
        return (Cell(workload, peer, engine, size),)

    others = {
        "hdmf-zarr 0.14": cell("hdmf-zarr 0.14"),
        "HDF5": cell("HDF5"),
        "hdmf alone": cell("hdmf"),
        "files alone": cell("files"),
    }
    return Target(
        work, Cell(workload, phase, OURS, size), limit, Cell(workload, peer, BASE, size), figure, unit, others
    )


def _absolute(work: str, cell: Cell, limit: float, figure: str, unit: str) -> Target:
    others = {name: (Cell(cell.workload, cell.phase, name, cell.size),) for name in (BASE, "hdmf-zarr 0.14", "HDF5")}
    return Target(work, cell, limit, None, figure, unit, others)


def _to_floor(work: str, workload: str, phase: str, limit: float) -> Target:
    return Target(work, Cell(workload, phase), limit, Cell(workload, phase, "files"), "cpu", "x floor")


def _growth(work: str, phase: str) -> Target:
    others = {name: (Cell("W1", phase, name),) for name in (BASE, "hdmf-zarr 0.14", "HDF5", "hdmf")}
    return Target(work, Cell("W1", phase), 1.05, None, "cpu", "exponent", others, exponent=True)


def _references(kind: str, workload: str) -> tuple[Target, ...]:
    return (
        _against_peer(f"100,000 {kind}: write", workload, "write", 0.60),
        _against_peer(f"100,000 {kind}: resolve all", workload, "resolve", 0.02),
        _against_peer(f"100,000 {kind}: 100 random rows", workload, "rows", 0.01),
    )


_AS_FORMAT_2 = 1.05
"""No slower, within what a shared machine can tell."""


def _as_format_2(work: str, workload: str, phase: str) -> Target:
    ours = Cell(workload, phase, OURS_3)
    return Target(f"{work}, format 3", ours, _AS_FORMAT_2, Cell(workload, phase), "cpu", "x format 2")


def _against_014(work: str, workload: str, phase: str, peer: str) -> Target:
    ours = Cell(workload, phase, OURS_3)
    return Target(f"{work}, format 3", ours, 1.0, Cell(workload, peer, PEER_3), "cpu", "x hdmf-zarr 0.14")


def _in_format_3(work: str, workload: str, phase: str, *, peer: str = "") -> tuple[Target, ...]:
    """Return two targets of work in format 3: against the same in format 2, and against hdmf-zarr 0.14."""
    return _as_format_2(work, workload, phase), _against_014(work, workload, phase, peer or phase)


def _references_3(kind: str, both: str, against: str) -> tuple[Target, ...]:
    work = (("write", "write"), ("resolve all", "resolve"), ("100 random rows", "rows"))
    return (
        *(_as_format_2(f"100,000 {kind}: {title}", both, phase) for title, phase in work),
        *(_against_014(f"1,000 {kind}: {title}", against, phase, phase) for title, phase in work),
    )


def _sharded(work: str, phase: str, plain: str) -> tuple[Target, ...]:
    """Return the targets of sharded work: against the same without shards, and against hdmf-zarr 0.14 with them."""
    ours = Cell("W8", phase, OURS_3)
    return (
        Target(f"{work}, sharded", ours, 1.1, Cell("W8", plain, OURS_3), "cpu", "x plain"),
        Target(f"{work}, sharded", ours, 1.0, Cell("W8", phase, PEER_3), "cpu", "x hdmf-zarr 0.14"),
    )


def _from_s3(work: str, phase: str, limit: float, requests: float) -> tuple[Target, ...]:
    """Return the targets of work over S3 in both formats: wall time against hdmf-zarr 0.13, and requests."""
    return tuple(
        target
        for engine, form in ((OURS, "format 2"), (OURS_3, "format 3"))
        for target in (
            Target(f"{work}, {form}: wall", Cell("W9", phase, engine), limit, Cell("W9", phase, BASE), "wall", "x"),
            Target(f"{work}, {form}: requests", Cell("W9", phase, engine), requests, None, "requests", ""),
        )
    )


_FORMAT_3: tuple[Target, ...] = (
    _as_format_2("write, 1,600 small TimeSeries + 1,600 units", "W7a", "write"),
    _as_format_2("open and read(), 1,600", "W7a", "read"),
    _as_format_2("append a series to 1,600", "W7a", "append"),
    _against_014("write, 200 small TimeSeries + 200 units", "W7b", "write", "write"),
    _against_014("open and read(), 200", "W7b", "read", "read"),
    _against_014("append a series to 200", "W7b", "append", "append"),
    *_in_format_3("write 64 MiB from memory", "W7c", "write"),
    *_in_format_3("write 64 MiB from an iterator", "W7c", "iterator"),
    *_in_format_3("200 random one-second slices", "W7c", "slices"),
    *_in_format_3("HDF5 -> Zarr, 100 series + 64 MiB, kept", "W7d", "kept", peer="export"),
    *_in_format_3("HDF5 -> Zarr, 100 series + 64 MiB, blosc-zstd", "W7d", "recompressed", peer="export"),
    *_in_format_3("Zarr -> HDF5, 100 series + 64 MiB", "W7d", "back"),
    *_references_3("object references", "W7e", "W7g"),
    *_references_3("TimeSeriesReference", "W7f", "W7h"),
    *_in_format_3("10,000 strings + ragged: write", "W7i", "write"),
    *_in_format_3("10,000 strings + ragged: read all", "W7i", "all"),
    *_in_format_3("10,000 strings + ragged: 1,000 rows", "W7i", "rows"),
    _absolute("open and read() over HTTP, format 3: requests", Cell("W7j", "open", OURS_3), 3, "requests", ""),
    *_sharded("write 128 MiB in chunks of 512 KiB", "sharded", "plain"),
    *_sharded("200 random one-second slices of chunks of 512 KiB", "sharded-slices", "slices"),
    *_from_s3("open and read() from S3 + 20 ms, 100 series", "open", 0.1, 3),
    *_from_s3("10 one-second slices from S3 + 20 ms", "slices", 0.5, 30),
)

_GUARANTEES: tuple[Target, ...] = (
    Target("default guarantees: write", Cell("W10", "write"), 1.05, Cell("W10", "bare-write"), "cpu", "x without"),
    # "nothing", as far as a shared machine can tell
    Target("default guarantees: read all", Cell("W10", "read"), 1.05, Cell("W10", "bare-read"), "cpu", "x without"),
)

_PEERS = ("zarr-python", "TensorStore", "TensorStore + cache")
_WINDOWS: tuple[Target, ...] = tuple(
    Target(f"windows, {work}: {figure}", Cell("W11", phase), limit, Cell("W11", phase, base), figure, f"x {base}")
    for phase, work, limit, bases in (
        ("local", "one reader", 0.5, (*_PEERS, "HDF5", "files")),
        ("loader", "four processes", 0.5, (*_PEERS, "HDF5", "files")),
        ("remote", "20 ms per request", 1.1, _PEERS),
    )
    for base in bases
    for figure in ("cpu", "wall")
)

TARGETS: tuple[Target, ...] = (
    _against_peer("write, 1,600 small TimeSeries + 1,600 units", "W1", "write", 0.45),
    _against_peer("open and read(), 400", "W1", "read", 0.50, size=0),
    _against_peer("open and read(), 1,600", "W1", "read", 0.28),
    _growth("growth 400 -> 1,600, write", "write"),
    _growth("growth 400 -> 1,600, open and read()", "read"),
    _against_peer("touch every dataset once, 1,600", "W1", "touch", 1.2),
    _against_peer("files for 1,600, format 2", "W1", "write", 1.0, figure="files", unit="x"),
    _absolute("files for 1,600, format 3", Cell("W1", "write-3"), 8200, "files", ""),
    _to_floor("write 256 MiB from memory", "W2a", "write", 1.1),
    _to_floor("write 256 MiB from an iterator", "W2a", "iterator", 1.1),
    _absolute("write 256 MiB from memory: extra memory", Cell("W2a", "write"), 64, "memory", "MiB"),
    _absolute("write 256 MiB from an iterator: extra memory", Cell("W2a", "iterator"), 64, "memory", "MiB"),
    _absolute("write 1 GiB from memory: extra memory", Cell("W2b", "write"), 64, "memory", "MiB"),
    _absolute("write 1 GiB from an iterator: extra memory", Cell("W2b", "iterator"), 64, "memory", "MiB"),
    _against_peer("200 random one-second slices", "W2a", "slices", 0.50),
    _against_peer("HDF5 -> Zarr, 400 series + 256 MiB, kept", "W3a", "kept", 0.12, base="export"),
    _against_peer("HDF5 -> Zarr, 400 series + 256 MiB, blosc-zstd", "W3a", "recompressed", 0.45, base="export"),
    _absolute("HDF5 -> Zarr, kept: extra memory", Cell("W3a", "kept"), 100, "memory", "MiB"),
    _absolute("HDF5 -> Zarr, blosc-zstd: extra memory", Cell("W3a", "recompressed"), 100, "memory", "MiB"),
    _against_peer("922 MB of HDF5, kept: wall", "W3b", "kept", 1 / 40, base="export", figure="wall", unit="x"),
    _against_peer("922 MB of HDF5, to lz4: wall", "W3b", "lz4", 1 / 7, base="export", figure="wall", unit="x"),
    _absolute("4.1 GB of HDF5, kept: memory in all", Cell("W3c", "kept"), 300, "peak", "MiB"),
    _absolute("4.1 GB of HDF5, to lz4: memory in all", Cell("W3c", "lz4"), 300, "peak", "MiB"),
    _against_peer("Zarr -> HDF5", "W3a", "back", 0.6),
    _absolute("Zarr -> HDF5: extra memory", Cell("W3a", "back"), 128, "memory", "MiB"),
    *_references("object references", "W4a"),
    *_references("TimeSeriesReference", "W4b"),
    _against_peer("100,000 strings + ragged: write", "W5", "write", 0.95),
    _against_peer("100,000 strings + ragged: read all", "W5", "all", 1.2),
    _against_peer("100,000 strings + ragged: 1,000 rows", "W5", "rows", 0.04),
    _absolute("open and read() over HTTP, 400 series: requests", Cell("W6", "open"), 3, "requests", ""),
    _absolute("open and read() over HTTP, 400 series: bytes", Cell("W6", "open"), 1.2e6, "received", "B"),
    Target(
        "two workers against one, recompression: throughput",
        Cell("W3d", "one"),
        1.7,
        Cell("W3d", "two"),
        "wall",
        "x",
        at_least=True,
    ),
    *_FORMAT_3,
    *_GUARANTEES,
    *_WINDOWS,
)


def judged_engines(workload: str) -> frozenset[str]:
    """Return the engines that the verdicts about a workload depend on."""
    cells = [cell for target in TARGETS for cell in (target.ours, target.base) if cell is not None]
    return frozenset(cell.engine for cell in cells if cell.workload == workload)
