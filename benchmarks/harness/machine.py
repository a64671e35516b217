"""What a reader must know of the machine; nothing that names it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def describe(folder: Path) -> dict[str, str]:
    """Return cores, memory, processor, system, load and the kind of disk that ``folder`` is on, as text."""
    facts = {
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or "?"),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
    }
    memory = _memory_gib()
    if memory:
        facts["memory"] = f"{memory:.0f} GiB"
    if hasattr(os, "getloadavg"):
        facts["load"] = f"{os.getloadavg()[0]:.1f} at the start"
    facts["files"] = "in memory" if folder.is_relative_to("/dev/shm") else "on disk"  # noqa: S108
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _memory_gib() -> float:
    if sys.platform == "win32" or "SC_PHYS_PAGES" not in os.sysconf_names:
        return 0.0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
