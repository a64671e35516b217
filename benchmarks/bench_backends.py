"""Compare this package with hdmf-zarr 0.13 and 0.14, HDF5 and the physical floors; see README.md here.

python benchmarks/bench_backends.py --quick       # seconds: shows that everything runs, measures nothing
python benchmarks/bench_backends.py --full        # an hour or more: the figures of the documentation
python benchmarks/bench_backends.py --only W1,W5  # some of the workloads
"""

from __future__ import annotations

import argparse
import string
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script; the recipes of the peers are shared with the tests

from benchmarks.harness import machine, plot, records, report  # noqa: E402
from benchmarks.harness.engines import BASE, NAMES, OURS, OURS_3, Engine, find_engines, with_protocol  # noqa: E402
from benchmarks.harness.interleave import Results, measure, try_out, work_folder  # noqa: E402
from benchmarks.harness.job import Workload  # noqa: E402
from benchmarks.harness.targets import judged_engines  # noqa: E402
from benchmarks.harness.worker import work_of  # noqa: E402
from benchmarks.workloads.catalog import WORKLOADS  # noqa: E402
from tests.peers import PeerUnavailableError  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation"
TABLES, PICTURE = "performance-figures.inc", "performance.svg"


def main() -> int:
    """Measure what the command line asks for; status 1 where something of ours failed."""
    options = _parse()
    workloads = [WORKLOADS[name] for name in options.only]
    if options.report:
        return _write_report([records.load(path) for path in _saved(workloads, options.results)], options.docs or PAGE)
    engines, missing = find_engines(tuple(options.engines))
    for name, reason in missing.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    if options.quick:
        return _write_report(_try_out(workloads, engines, missing, options), options.docs)
    made = []
    for workload in workloads:
        made.append(_measure(workload, engines, missing, options))
        made[-1].save(options.results)
    return _write_report(made, options.docs or (PAGE if options.is_whole else None))


def _try_out(
    workloads: list[Workload], engines: list[Engine], missing: dict[str, str], options: argparse.Namespace
) -> list[records.Record]:
    with work_folder() as folder:
        facts = machine.describe(folder)
        tried = try_out(workloads, engines, folder)
    origin = (options.command, _today(), facts, _versions(engines), missing)
    return [records.Record(one.name, one.quick_sizes, tried[one.name], *origin) for one in workloads]


def _measure(
    workload: Workload, engines: list[Engine], missing: dict[str, str], options: argparse.Namespace
) -> records.Record:
    print(f"{workload.name}: {workload.title}", flush=True)
    usable, missing = _environments(workload, engines, missing)
    with work_folder() as folder:
        facts = machine.describe(folder)
        judged = judged_engines(workload.name)
        results = measure(workload, usable, workload.sizes, folder, rounds=options.rounds, judged=judged)
    origin = (options.command, _today(), facts, _versions(usable), missing)
    return records.Record(workload.name, workload.sizes, results, *origin)


def _versions(engines: list[Engine]) -> dict[str, dict[str, str]]:
    return {engine.name: engine.versions() for engine in engines if engine.is_peer or engine.name == OURS}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _environments(
    workload: Workload, engines: list[Engine], missing: dict[str, str]
) -> tuple[list[Engine], dict[str, str]]:
    taking_part = [engine for engine in engines if any(work_of(phase, engine.name) for phase in workload.phases)]
    if not workload.protocol:
        return taking_part, missing
    usable, absent = [], dict(missing)
    for engine in taking_part:
        try:
            usable.append(with_protocol(engine, workload.protocol))
        except PeerUnavailableError as error:
            absent[engine.name] = str(error)
    return usable, absent


def _saved(workloads: list[Workload], folder: Path) -> list[Path]:
    paths = [folder / f"{workload.name}.json" for workload in workloads]
    return [path for path in paths if path.is_file()]


def _write_report(made: list[records.Record], docs: Path | None) -> int:
    judged = report.lines(made)
    table = report.targets_table(judged)
    details = [
        f"### {WORKLOADS[one.workload].title} ({one.workload})\n\n{report.cells_table(one, WORKLOADS[one.workload])}"
        for one in made
    ]
    origin = report.provenance(made)
    print("\n".join(["", table, "", *details, "", origin]))
    drawing = plot.picture(judged)
    if docs is not None:
        docs.mkdir(parents=True, exist_ok=True)
        text = "\n\n".join([origin, "### Targets", f"![Ratios to hdmf-zarr 0.13]({PICTURE})", table, *details])
        (docs / TABLES).write_text(f"{text}\n", encoding="utf-8")
        (docs / PICTURE).write_text(drawing, encoding="utf-8")
    return int(any(_failed(one.results) for one in made))


def _failed(results: Results) -> bool:
    """Tell whether this package failed in something, or could not be compared."""
    failures = {key: reason for key, reason in results.failures.items() if not reason.startswith("unsupported")}
    for key, reason in failures.items():
        print(f"{key}: {reason}", file=sys.stderr)
    return any(engine in (OURS, OURS_3, BASE) for _, _, engine in failures)


def _names(text: str, known: Any) -> list[str]:
    wanted = [name.strip() for name in text.split(",")]
    found = [name for name in known if {name, _family(name)} & set(wanted)]
    unknown = [one for one in wanted if not any(one in (name, _family(name)) for name in known)]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return found


def _family(name: str) -> str:
    """Return what W3a and W3b have in common; the name of an engine is its own."""
    return name.rstrip(string.ascii_lowercase) if name[1:2].isdigit() else name


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="tiny sizes, one run each: shows that everything runs")
    how.add_argument("--full", action="store_true", help="the sizes that count (the default)")
    how.add_argument(
        "--report", action="store_true", help="measure nothing; make the page anew of the results that are there"
    )
    parser.add_argument(
        "--only", type=lambda text: _names(text, WORKLOADS), default=list(WORKLOADS), help="workloads, such as W1,W4a"
    )
    parser.add_argument(
        "--engines", type=lambda text: _names(text, NAMES), default=list(NAMES), help=f"some of: {', '.join(NAMES)}"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each figure is taken (5)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the results as JSON")
    parser.add_argument(
        "--docs", type=Path, help="folder for the tables and the picture; a whole full run writes the page"
    )
    options = parser.parse_args()
    options.is_whole = options.only == list(WORKLOADS) and options.engines == list(NAMES)
    options.command = _command(options)
    return options


def _command(options: argparse.Namespace) -> str:
    """Return the command as it goes into the page: what decides on the figures, and no place of this machine."""
    parts = ["python benchmarks/bench_backends.py", "--quick" if options.quick else "--full"]
    if options.only != list(WORKLOADS):
        parts.append(f"--only {','.join(options.only)}")
    if options.engines != list(NAMES):
        parts.append(f'--engines "{",".join(options.engines)}"')
    if options.rounds != 5 and not options.quick:
        parts.append(f"--rounds {options.rounds}")
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
