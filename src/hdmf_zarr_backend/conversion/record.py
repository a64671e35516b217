"""`resumption_of`: the inputs of a conversion, by which another run knows that it may continue it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

from hdmf_zarr_backend.encoding.registry import FORMATS
from hdmf_zarr_backend.model.json_text import dump
from hdmf_zarr_backend.stores.base import os_errors
from hdmf_zarr_backend.stores.files import Resumption
from hdmf_zarr_backend.write.plan import WritePlan


def resumption_of(plan: WritePlan, sources: Iterable[str], options: dict[str, Any], *, is_asked: bool) -> Resumption:
    """Return what makes a folder that another run can continue; ``is_asked`` whether to continue one.

    Its record has the version of this package, bytes and time of each input file (``sources`` are their absolute
    paths), the ``options`` that affect what is written, as JSON, and a hash of all planned documents.
    """
    everything = FORMATS[plan.hierarchy.zarr_format].last(plan.hierarchy, {}, consolidate=True)
    states = {}
    for path in sorted(sources):
        with os_errors(path, "read"):
            state = os.stat(path)
        states[path] = [state.st_size, state.st_mtime_ns]
    # the root package sets its version, and cannot be imported here
    version = str(sys.modules[__name__.partition(".")[0]].__version__)
    digest = hashlib.sha256(dump(everything)).hexdigest()
    record = {"version": version, "sources": states, "options": options, "plan": digest}
    return Resumption(record, partial(_differences, record), is_asked)


def _differences(now: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """Return messages about the differences of a stored record from that of this run; causes, as far as known."""
    begun = {name: type(value)(stored[name]) for name, value in now.items()}
    if begun["version"] != now["version"]:
        return [f"it was started by version {begun['version']} of this package, and this is {now['version']}"]
    read, reads = begun["sources"], now["sources"]
    had, has = begun["options"], now["options"]
    differences = [
        *(f"{path} was read then and is not read now" for path in sorted(read.keys() - reads.keys())),
        *(f"{path} is read now and was not read then" for path in sorted(reads.keys() - read.keys())),
        *(f"{path} has changed since" for path in sorted(read.keys() & reads.keys()) if read[path] != reads[path]),
        *(
            f"{name} was {had.get(name)!r} and is {has.get(name)!r}"
            for name in sorted(had.keys() | has.keys())
            if had.get(name) != has.get(name)
        ),
    ]
    return differences or ["the plan has changed, because of another version of a library or another environment"]
