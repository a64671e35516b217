"""`python -m tests.transaction` stops all that changes a store at each of its steps, and prints the number of cases.

Arguments are passed to pytest: ``-k disk`` for a part. In the test suite the same tests take a sample of the steps.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest


def tables() -> str:
    """Return the counts by user and end, and by format and place, as text."""
    from tests.transaction.places import COUNTS  # after pytest has begun

    users: dict[str, Counter[str]] = {}
    places: dict[str, Counter[str]] = {}
    for (user, zarr_format, place, end), cases in COUNTS.items():
        users.setdefault(user, Counter())[end.removesuffix(", repeated, killed")] += cases
        places.setdefault(place, Counter())[str(zarr_format)] += cases
    return f"{_table(users)}\n\n{_table(places)}\n\n{COUNTS.total():,} cases\n"


def _table(rows: dict[str, Counter[str]]) -> str:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [["", *names, "all"], *([title, *(f"{row[name]:,}" for name in names), f"{row.total():,}"]
             for title, row in sorted(rows.items()))]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


if __name__ == "__main__":
    os.environ["HDMF_ZARR_BACKEND_STEPS"] = "all"
    code = pytest.main(["tests/transaction", "-q", "-p", "no:cacheprovider", "-k", "not all_steps", *sys.argv[1:]])
    sys.stdout.write(tables())
    sys.exit(code)
