"""`joined`: which ranges of bytes of one value are read with one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import TypeVar

Extent = tuple[int, int]
"""Start and end of a range of bytes."""

RUN_BYTES = 8 * 2**20
"""A longer run takes more time than several concurrent ones."""

GAP_BYTES = 2**15
"""Reading such a gap takes less time than another request."""

Name = TypeVar("Name")


def joined(extents: Mapping[Name, Extent]) -> Iterator[dict[Name, Extent]]:
    """Yield the ranges to read with one request each: ranges with small gaps between them, up to `RUN_BYTES`.

    Parameters
    ----------
    extents : mapping
        Start and end of each range, in any order; they may overlap.

    Yields
    ------
    dict
        Some of them, by start.
    """
    run: dict[Name, Extent] = {}
    first = last = 0
    for name, (start, stop) in sorted(extents.items(), key=itemgetter(1)):
        if run and (start - last > GAP_BYTES or stop - first > RUN_BYTES):
            yield run
            run = {}
        if not run:
            first = last = start
        run[name] = (start, stop)
        last = max(last, stop)
    if run:
        yield run
