"""All workloads, by name."""

from __future__ import annotations

from benchmarks.harness.job import Workload
from benchmarks.workloads import (
    big_array,
    conversion,
    far,
    format3,
    guarantees,
    references,
    remote,
    small_objects,
    strings,
    windows,
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        small_objects.WORKLOAD,
        *big_array.WORKLOADS,
        *conversion.WORKLOADS,
        *references.WORKLOADS,
        strings.WORKLOAD,
        remote.WORKLOAD,
        *format3.WORKLOADS,
        big_array.SHARDED,
        far.WORKLOAD,
        guarantees.WORKLOAD,
        windows.WORKLOAD,
    )
}
"""Those of `bench_backends.py`."""


def find_workload(name: str) -> Workload:
    """Return a workload of this name, of those of `bench_scale.py` too."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    from benchmarks.workloads import scale  # needs this package, which the environments of other programs lack

    return next(workload for workload in scale.WORKLOADS if workload.name == name)
