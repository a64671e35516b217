"""`ConversionReport`: what a conversion wrote and what it could not keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Format: TypeAlias = Literal["zarr", "hdf5"]

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(slots=True, frozen=True)
class ConversionReport:
    """The result of a conversion.

    Attributes
    ----------
    source, target : str
        Absolute paths.
    format : {"zarr", "hdf5"}
        Format of the target.
    groups, datasets, links : int
        Counts in the target, including the cached namespaces.
    nbytes : int
        Total bytes of all values, uncompressed (8 for each text or reference).
    """

    source: str
    target: str
    format: Format
    groups: int
    datasets: int
    links: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.groups} groups, {self.datasets} datasets, {self.links} links, {_size(self.nbytes)}"


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if not unit else f"{size:.1f} {_UNITS[unit]}"
