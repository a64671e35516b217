"""`ConversionReport`: what a conversion wrote and what it could not keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hdmf_zarr_backend.arrays.codecs import value_bytes
from hdmf_zarr_backend.formats.namespaces import spec_location
from hdmf_zarr_backend.formats.reserved import LINKS, SPECLOC
from hdmf_zarr_backend.model.nodes import Group, Hierarchy, absolute, relative
from hdmf_zarr_backend.transfer.plan import WritePlan

Format: TypeAlias = Literal["zarr", "hdf5"]

_SHOWN = 5
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
        Counts in the target, without the cached specifications, as `zarrio inspect` counts them.
    nbytes : int
        Total bytes of all values, uncompressed (8 for each text or reference).
    remarks : tuple of str
        What differs from the source on purpose, such as small chunks that were joined.
    """

    source: str
    target: str
    format: Format
    groups: int
    datasets: int
    links: int
    nbytes: int
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = ((self.groups, "group"), (self.datasets, "dataset"), (self.links, "link"))
        return ", ".join([*(f"{count} {word}{'s'[: count != 1]}" for count, word in counts), _size(self.nbytes)])


def report_of(plan: WritePlan, source: str, target: str, *, joined: Sequence[str] = ()) -> ConversionReport:
    """Return the report of a conversion to Zarr that carried out a plan; ``joined``: arrays with larger chunks."""
    is_counted = is_content(plan.hierarchy)
    nodes = plan.hierarchy.flat().items()
    groups = [node for path, node in nodes if isinstance(node, Group) and is_counted(path)]
    datasets = sum(map(is_counted, plan.arrays))
    links = sum(len(node.attributes.get(LINKS, [])) for node in groups)
    nbytes = sum(value_bytes(planned.node.stored) for planned in plan.arrays.values())
    return ConversionReport(source, target, "zarr", len(groups), datasets, links, nbytes, _remarks(joined))


def _remarks(joined: Sequence[str]) -> tuple[str, ...]:
    if not joined:
        return ()
    names = ", ".join(map(absolute, joined[:_SHOWN])) + (", ..." if len(joined) > _SHOWN else "")
    which = "1 dataset" if len(joined) == 1 else f"{len(joined)} datasets"
    return (f"small chunks of {which} were joined, which chunks='keep' (--chunks keep) prevents: {names}",)


def is_content(hierarchy: Hierarchy) -> Callable[[str], bool]:
    """Return a function that tells whether a path is content, and not in the cached specifications of a file."""
    specs = spec_location(hierarchy.root.attributes.get(SPECLOC))
    return lambda path: specs is None or not f"{relative(path)}/".startswith(f"{specs}/")


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if not unit else f"{size:.1f} {_UNITS[unit]}"
