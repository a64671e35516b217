"""`Element`, the type of the elements of a dataset, and `Reference`, a resolved reference; for all formats.

`Element` uses the terms of HDF5, which has more types than Zarr. Equal data written in Zarr format 2, Zarr format 3 and
HDF5 have equal elements. Which element an array has is in `formats.elements`. `check_characters` holds for all types
with text of fixed length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hdmf_zarr_backend.errors import printable

if TYPE_CHECKING:  # the structure of a file is listed without NumPy
    import numpy.typing as npt

Region: TypeAlias = tuple[tuple[str, tuple[Any, ...]], ...]
"""A selection in canonical form: an entry per axis, ``("slice", (start, stop, step))`` or ``("index", (...))``, or one
entry for all axes: ``("points", ((...), ...))`` in the order of the file, or ``("none", ())``."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """An object or region reference, resolved; ``source`` and ``location`` name another file, as links do."""

    path: str | None
    region: Region | None = None
    source: str = ""
    location: str = ""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Reference)
            and (self.path, self.region) == (other.path, other.region)
            and (self.source == other.source or self.location == other.location)
        )

    def __hash__(self) -> int:
        return hash((self.path, self.region))

    def __str__(self) -> str:
        region = "" if self.region is None else f" {dict(enumerate(self.region))}"
        return printable(f"reference to {self.source + ':' if self.source else ''}{self.path}{region}")


@dataclass(frozen=True, slots=True)
class Element:
    """The type of one element, in the terms of HDF5."""

    kind: str
    size: int | None = None
    byte_order: Literal["<", ">", "|"] = "|"
    encoding: str = ""
    detail: str = ""
    members: tuple[tuple[str, int], ...] = ()
    fields: tuple[tuple[str, Element], ...] = ()
    base: Element | None = None
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        detail = f" ({printable(self.detail)})" if self.detail else ""
        if self.kind == "compound":
            return "{" + ", ".join(f"{printable(name)}: {member}" for name, member in self.fields) + "}"
        if self.kind == "text":
            length = "variable-length" if self.size is None else f"{self.size}-byte"
            return f"{length} {self.encoding} text{detail}"
        if self.base is not None:
            return f"{self.kind}{list(self.shape) if self.shape else ''} of {self.base}"
        bits = "" if self.size is None else str(8 * self.size)
        order = {"<": " little-endian", ">": " big-endian", "|": ""}[self.byte_order]
        members = (
            " {" + ", ".join(f"{printable(name)}={value}" for name, value in self.members) + "}" if self.members else ""
        )
        return f"{self.kind}{bits}{order}{members}{detail}"


UTF8 = Element("text", encoding="utf-8")
ASCII = Element("text", encoding="ascii")
REFERENCE = Element("reference")
REGION = Element("region")

_LAST_CHARACTER = 0x10FFFF


def check_characters(values: npt.NDArray[Any]) -> None:
    """Raise `ValueError` if text of fixed length has a code that Unicode does not have.

    NumPy takes these codes on trust, and makes of them a ``str`` that ends in `SystemError` where it is used.
    """
    dtype = values.dtype
    for name in dtype.names or ():
        check_characters(values[name])
    if dtype.kind == "U" and values.size and dtype.itemsize:
        codes = values.ravel("K").view(f"{dtype.byteorder}u4")
        if codes.max() > _LAST_CHARACTER:
            raise ValueError("a character that Unicode does not have")
