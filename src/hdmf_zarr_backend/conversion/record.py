"""`ConversionRecord`: the inputs of a conversion, by which another run knows that it may continue it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from hdmf_zarr_backend.formats.registry import FORMATS
from hdmf_zarr_backend.stores.failures import os_errors
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.resumable import Resumption
from hdmf_zarr_backend.transfer.plan import WritePlan


@dataclass(frozen=True, slots=True)
class ConversionRecord:
    """The inputs of a conversion. Conversions with equal records write the same keys.

    Attributes
    ----------
    version : str
        Version of this package.
    sources : dict
        ``{absolute path: [bytes, time of the last change in ns]}`` of the files that are read.
    options : dict
        The options that affect what is written, as JSON.
    plan : str
        Hash of all planned documents.
    """

    version: str
    sources: dict[str, list[int]]
    options: dict[str, Any] = field(default_factory=dict)
    plan: str = ""

    @classmethod
    def of(cls, plan: WritePlan, sources: Iterable[str], options: dict[str, Any]) -> Self:
        """Return the record of a plan; ``sources`` are the absolute paths of the input files."""
        everything = FORMATS[plan.hierarchy.zarr_format].last(plan.hierarchy, {}, consolidate=True)
        states = {}
        for path in sorted(sources):
            with os_errors(path, "read"):
                state = os.stat(path)
            states[path] = [state.st_size, state.st_mtime_ns]
        # the root package sets its version, and cannot be imported here
        version = sys.modules[__name__.partition(".")[0]].__version__
        return cls(str(version), states, options, hashlib.sha256(dump(everything)).hexdigest())

    def resumption(self, *, is_asked: bool) -> Resumption:
        """Return what makes a folder that another run can continue; ``is_asked`` whether to continue one."""
        return Resumption(asdict(self), self._differences, is_asked)

    def _differences(self, stored: dict[str, Any]) -> list[str]:
        """Return messages about the differences of a stored record from this one; causes, as far as known."""
        begun = ConversionRecord(
            str(stored["version"]), dict(stored["sources"]), dict(stored["options"]), str(stored["plan"])
        )
        if begun.version != self.version:
            return [f"it was started by version {begun.version} of this package, and this is {self.version}"]
        gone = [f"{path} was read then and is not read now" for path in begun.sources.keys() - self.sources.keys()]
        new = [f"{path} is read now and was not read then" for path in self.sources.keys() - begun.sources.keys()]
        changed = [
            f"{path} has changed since"
            for path in begun.sources.keys() & self.sources.keys()
            if begun.sources[path] != self.sources[path]
        ]
        options = [
            f"{name} was {begun.options.get(name)!r} and is {self.options.get(name)!r}"
            for name in sorted(begun.options.keys() | self.options.keys())
            if begun.options.get(name) != self.options.get(name)
        ]
        differences = [*sorted(gone), *sorted(new), *sorted(changed), *options]
        return differences or ["the plan has changed, because of another version of a library or another environment"]
