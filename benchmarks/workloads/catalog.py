"""All workloads, by name."""

from __future__ import annotations

from benchmarks.harness.job import Workload
from benchmarks.workloads import big_array, references, small_objects, strings

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        small_objects.WORKLOAD,
        big_array.WORKLOAD,
        *references.WORKLOADS,
        strings.WORKLOAD,
    )
}
