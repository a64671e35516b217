"""Few files that a process may open."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def few_open_files(most: int) -> Iterator[None]:
    """Let no more files be opened than that, beside those that other tests of this process have left open."""
    resource = pytest.importorskip("resource", reason="Windows has no limits of resources")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open(os.devnull, os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
