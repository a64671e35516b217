"""Mutation check: small changes of the code, and whether the tests notice them.

mutmut makes the changes (the mutants) of the packages that ``[tool.mutmut]`` in ``pyproject.toml`` names, in the folder
``mutants``, and runs those of the tests named there that reach the changed function, until one fails.
``python -m tests.mutants``, as in ``nox -s mutants``, does this for a sample, prints what survives, and fails where too
few of them are noticed. ``mutmut show <name>`` prints one of them.

As a plugin of pytest, in those runs, this module clears the caches of the package before each test. Otherwise the
tests after the first one would neither reach nor notice what is behind a cache. It also limits the time for a mutant.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from hdmf_zarr_backend.model.memo import Memo

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "mutants"

#: How long the tests of one mutant take together at most, the fastest ones first.
SECONDS = 5

#: Exit codes: of pytest; and of mutmut, where no test reaches the function, or where it has ended the tests.
KILLED, SURVIVED, UNTESTED, TIMEOUT = {1, 3}, {0}, {5, 33}, {36, 24, -24, 152}


def pytest_configure(config: pytest.Config) -> None:
    """Run the fastest of the tests that reach a mutant, as many as take `SECONDS` together."""
    if "__mutmut_" not in os.environ.get("MUTANT_UNDER_TEST", ""):
        return  # all of them run, to find out which ones reach which function
    durations = json.loads(Path("mutmut-stats.json").read_text(encoding="utf-8"))["duration_by_test"]
    tests = sorted(config.args, key=lambda name: durations.get(name, 0))
    ends = itertools.accumulate(durations.get(name, 0) for name in tests)
    config.args = tests[: max(1, sum(end <= SECONDS for end in ends))]


def pytest_runtest_setup() -> None:
    """Clear the caches of all functions of JSON values."""
    for name, module in list(sys.modules.items()):
        if name.startswith("hdmf_zarr_backend."):
            for value in vars(module).values():
                if isinstance(value, Memo):
                    value._known.clear()


def make_mutants() -> None:
    """Write all mutants, as ``mutmut run`` does first; those of a module that has not changed are kept."""
    from mutmut.__main__ import copy_also_copy_files, copy_src_dir, create_mutants

    FOLDER.mkdir(exist_ok=True)
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(os.cpu_count() or 1)


def read_results() -> dict[str, int | None]:
    """Return the exit code of each mutant by its name; None if it has not run."""
    results: dict[str, int | None] = {}
    for path in sorted(FOLDER.glob("src/**/*.meta")):
        results |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return results


def choose(names: list[str], count: int, seed: int) -> list[str]:
    """Return ``count`` of the names, one of each of as many equal parts of the list, so that no package is left out."""
    chance = random.Random(seed)  # noqa: S311
    ends = [len(names) * part // count for part in range(count + 1)]
    return [chance.choice(names[start:end]) for start, end in itertools.pairwise(ends) if start < end]


def main() -> int:
    """Run the mutants of the sample and print what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="mutants, or names of modules or functions; default: a sample of all")
    parser.add_argument("--count", type=int, default=300, help="size of the sample; 0 for all (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (default: 1)")
    parser.add_argument("--least", type=float, default=80, help="least percentage that is killed (default: 80)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="mutants that run at a time")
    options = parser.parse_args()
    os.chdir(ROOT)
    make_mutants()
    names = sorted(read_results())
    if options.names:
        names = [name for name in names if any(wanted in name for wanted in options.names)]
    elif options.count:
        names = choose(names, options.count, options.seed)
    if not names:
        parser.error("no mutant has such a name")
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(options.workers), *names]
    subprocess.run(command, check=True)
    return report(names, options.least)


def report(names: list[str], least: float) -> int:
    """Print the mutants that no test notices, and the counts; return the exit code."""
    results = read_results()
    killed = [name for name in names if results[name] in KILLED]
    timeout = [name for name in names if results[name] in TIMEOUT]
    untested = [name for name in names if results[name] in UNTESTED]
    survived = [name for name in names if results[name] in SURVIVED]
    others = [name for name in names if name not in {*killed, *timeout, *untested, *survived}]
    for title, group in {"survived": survived, "without a test": untested, "ended in another way": others}.items():
        for name in group:
            sys.stdout.write(f"{title}: {name}\n")
    share = 100 * (len(killed) + len(timeout)) / len(names)
    sys.stdout.write(
        f"{len(names)} mutants: {len(killed)} killed, {len(timeout)} did not end in time, {len(survived)} survived, "
        f"{len(untested)} without a test, {len(others)} ended in another way: {share:.1f}% were noticed\n"
    )
    return int(share < least)


if __name__ == "__main__":
    sys.exit(main())
