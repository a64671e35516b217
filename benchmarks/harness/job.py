"""One piece of work as it is handed to a worker process, and the descriptions of workloads made of such pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.meter import Meter

if TYPE_CHECKING:
    from benchmarks.harness.backends import Backend


class UnsupportedError(Exception):
    """The engine has no way to do this work; the message says what is missing."""


@dataclass(frozen=True)
class Job:
    """One phase of a workload for one engine, in one process.

    Parameters
    ----------
    size : int
        How much of it; what is counted is the workload's business.
    folder : pathlib.Path
        Belongs to this engine in this round: what an earlier phase wrote is there.
    inputs : pathlib.Path
        Files that all engines read and none changes.
    meter : Meter
        Around the work that counts.
    backend : Backend or None
        The I/O classes of the engine; None for floors.
    """

    size: int
    folder: Path
    inputs: Path
    meter: Meter
    backend: Backend | None = None

    @property
    def io(self) -> Backend:
        """The I/O classes of the engine.

        Raises
        ------
        UnsupportedError
            The engine is a floor, which has none.
        """
        if self.backend is None:
            raise UnsupportedError("this floor has no I/O classes")
        return self.backend


Work = Callable[[Job], None]


@dataclass(frozen=True)
class Phase:
    """A step of a workload.

    Parameters
    ----------
    name : str
        In results and targets.
    title : str
        In the table.
    work : mapping
        What each engine does: ``{engine: function}``, where ``"backend"`` stands for all engines with I/O classes that
        are not named.
    output : str
        Name of what it leaves in the folder: its files are counted. Empty: nothing.
    """

    name: str
    title: str
    work: Mapping[str, Work]
    output: str = ""


@dataclass(frozen=True)
class Workload:
    """Work of one kind, at one or more sizes.

    Parameters
    ----------
    name : str
        Short: ``"W1"``.
    title : str
        What it stands for.
    phases : tuple of Phase
        In this order; a phase may read what an earlier one wrote.
    sizes, quick_sizes : tuple of int
        For figures that count, and to see that it runs.
    warm_size : int
        So small that it costs nothing; done by each process before it measures, so that imports and caches of types are
        not counted. 0: no warm-up.
    make_inputs : callable, optional
        ``make_inputs(folder, size)``: writes, once, what all engines read.
    timeout : float
        Seconds for one phase, set-up and warm-up included. An engine that takes longer is left out of what follows.
    rounds : int, optional
        At most so many: where nothing but memory or requests is asked for, which every round says the same of.
    counts : bool
        One more round counts operations on files.
    protocol : str
        The peers need environments that can read by it, ``"http"`` or ``"s3"``.
    """

    name: str
    title: str
    phases: tuple[Phase, ...]
    sizes: tuple[int, ...]
    quick_sizes: tuple[int, ...]
    warm_size: int = 0
    make_inputs: Callable[[Path, int], None] | None = None
    timeout: float = 300.0
    rounds: int | None = None
    counts: bool = False
    protocol: str = ""
