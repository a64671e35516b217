"""Whether the time of some work is in proportion to its size, or it ends at all, on a machine of any speed and load."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_HANGING = 600
"""CPU seconds that no machine needs for what takes a fraction of one."""


@contextmanager
def ends() -> Iterator[None]:
    """Make sure that the block, which takes a fraction of a second, does not take minutes."""
    start = time.process_time()
    yield
    assert time.process_time() - start < _HANGING


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Check that work takes at most eight times the CPU time of a quarter of it: if quadratic, it takes sixteen times.

    A quarter of it should take at least some milliseconds.
    """
    work(max(1, size // 100))  # imports
    for rest in (2, 1, 0):  # other processes may make a single measurement too long
        quarter, whole = (_seconds(work, part) for part in (size // 4, size))
        if whole <= 8 * quarter:
            return
        assert rest, f"{size // 4:,} take {quarter:.3f} s and {size:,} take {whole:.3f} s"


def _seconds(work: Callable[[int], object], size: int) -> float:
    start = time.process_time()
    work(size)
    return time.process_time() - start
