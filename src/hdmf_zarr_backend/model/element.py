"""`Element`: the type of the elements of a dataset, with a class for each kind; `Target`, a resolved reference.

The classes have the terms of HDF5, which has more types than Zarr. Equal data written in Zarr format 2, Zarr format 3
and HDF5 have equal elements: what only decides where HDF5 has the bytes of an element, such as padding, is kept, and
does not count. Which element an array has is in `encoding.elements`. `check_characters` holds for all types with text
of fixed length. Files are listed without NumPy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hdmf_zarr_backend.errors import printable

if TYPE_CHECKING:  # the structure of a file is listed without NumPy
    import numpy.typing as npt

ByteOrder: TypeAlias = Literal["<", ">", "|"]
NumberKind: TypeAlias = Literal["int", "uint", "float", "complex", "bool", "bitfield"]
_ORDERS = {"<": " little-endian", ">": " big-endian", "|": ""}
Padding: TypeAlias = Literal["", "nullterm", "nullpad", "spacepad"]
_PADDED = {"": "", "nullterm": " (null-terminated)", "nullpad": " (null-padded)", "spacepad": " (space-padded)"}


@dataclass(frozen=True, slots=True)
class Precision:
    """Which bits of its bytes a number of HDF5 uses; of a float also sizes and positions of its parts, and its bias."""

    bits: int
    offset: int
    fields: tuple[int, ...] = ()
    bias: int | None = None

    def __str__(self) -> str:
        if self.bias is not None:
            return f"sign, exponent and mantissa {self.fields}, bias {self.bias}"
        return f"{self.bits} bits from bit {self.offset}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of ``size`` bytes; one byte has no byte order. A bit field is an unsigned integer in Zarr.

    It has no NumPy type, since HDF5 has floats of 3 bytes, and those of machine learning. ``layout`` is what HDF5 has
    if it is not what h5py makes of the NumPy type: other bits; another enumeration of FALSE and TRUE than h5py's; the
    parts of HDF5 2.0's own complex number, or the compound that is one; opaque bytes with a tag that names the number.
    """

    kind: NumberKind
    size: int
    byte_order: ByteOrder = "|"
    layout: Precision | Number | Enum | Compound | Opaque | None = None

    def __str__(self) -> str:
        is_native = self.kind == "complex" and isinstance(self.layout, Number)
        layout = f" ({self.layout})" if isinstance(self.layout, Precision) else " (native)" if is_native else ""
        return f"{self.kind}{8 * self.size}{_ORDERS[self.byte_order]}{layout}"


@dataclass(frozen=True, slots=True)
class Enum:
    """An integer whose values have names."""

    base: Number
    members: tuple[tuple[str, int], ...]
    kind = "enum"

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.base.size

    @property
    def byte_order(self) -> ByteOrder:
        """That of the integer."""
        return self.base.byte_order

    def __str__(self) -> str:
        members = ", ".join(f"{printable(name)}={value}" for name, value in self.members)
        return f"enum{8 * self.base.size}{_ORDERS[self.base.byte_order]} {{{members}}} ({self.base.kind})"


@dataclass(frozen=True, slots=True)
class Time:
    """A date or a duration of NumPy, such as ``datetime64[us]``; ``tag`` is that of its opaque type in HDF5."""

    name: str
    byte_order: ByteOrder = "<"
    tag: str = field(default="", compare=False)  # a date of Zarr has no tag, and is the same date
    kind = "datetime"
    size = 8

    @property
    def code(self) -> str:
        """The data type of NumPy, such as ``"<M8[us]"``."""
        return f"{self.byte_order}{'m' if self.name.startswith('t') else 'M'}8{self.name.partition('64')[2]}"

    def __str__(self) -> str:
        return f"datetime64{_ORDERS[self.byte_order]} ({printable(self.name)})"


@dataclass(frozen=True, slots=True)
class Text:
    """Text, of a fixed number of bytes unless ``size`` is None; ``padding`` is what fills them up."""

    charset: str = "utf-8"
    size: int | None = None
    padding: Padding = ""
    kind = "text"

    def __str__(self) -> str:
        length = "variable-length" if self.size is None else f"{self.size}-byte"
        return f"{length} {self.charset} text{_PADDED[self.padding]}"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes without a meaning, and the tag that says in HDF5 what they are."""

    size: int
    tag: str = ""
    kind = "opaque"

    def __str__(self) -> str:
        return f"opaque{8 * self.size}" + (f" ({printable(self.tag)})" if self.tag else "")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to an object, or to a region of a dataset."""

    is_region: bool = False

    @property
    def kind(self) -> str:
        """What it refers to, as HDMF calls it."""
        return "region" if self.is_region else "reference"

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class Compound:
    """A row of named fields; offsets and size in HDF5 if there is padding between them."""

    fields: tuple[tuple[str, Element], ...]
    # Padding decides where HDF5 has the bytes of a field, not what the field is, so it is not compared.
    offsets: tuple[int, ...] | None = field(default=None, compare=False)
    size: int | None = field(default=None, compare=False)
    kind = "compound"

    def __str__(self) -> str:
        return "{" + ", ".join(f"{printable(name)}: {member}" for name, member in self.fields) + "}"


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array as an element: its axes are the last ones of the array in Zarr."""

    base: Element
    shape: tuple[int, ...]
    kind = "array"

    def __str__(self) -> str:
        return f"array{list(self.shape)} of {self.base}"


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence of any length as an element."""

    base: Element
    kind = "sequence"

    def __str__(self) -> str:
        return f"sequence of {self.base}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """An element of a type that is not known, for listings."""

    text: str
    kind = "unknown"

    def __str__(self) -> str:
        return f"unknown ({printable(self.text)})"


Element: TypeAlias = Number | Enum | Time | Text | Opaque | Reference | Compound | ArrayOf | Sequence | Unknown
UTF8, ASCII = Text(), Text("ascii")
REFERENCE, REGION = Reference(), Reference(is_region=True)


def check_characters(values: npt.NDArray[Any]) -> None:
    """Raise `ValueError` if text of fixed length has a code that Unicode does not have."""
    # NumPy takes these codes on trust, and makes of them a ``str`` that ends in `SystemError` where it is used.
    dtype = values.dtype
    for name in dtype.names or ():
        check_characters(values[name])
    if dtype.kind == "U" and values.size and dtype.itemsize:
        # Order "K" keeps the order in memory, so that contiguous arrays are not copied.
        codes = values.ravel("K").view(f"{dtype.byteorder}u4")
        if codes.max() > sys.maxunicode:
            raise ValueError("a character that Unicode does not have")


# ---- resolved references --------------------------------------------------------------------------------------------

Region: TypeAlias = tuple[tuple[str, tuple[Any, ...]], ...]
"""A selection in canonical form: an entry per axis, ``("slice", (start, stop, step))`` or ``("index", (...))``, or one
entry for all axes: ``("points", ((...), ...))`` in the order of the file, or ``("none", ())``."""

DANGLING = "<dangling>"  # path of the target of a reference that leads to nothing


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Target:
    """What an object or region reference leads to; ``source`` and ``location`` name another file, as links do."""

    path: str | None
    region: Region | None = None
    source: str = ""
    location: str = ""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Target)
            and (self.path, self.region) == (other.path, other.region)
            and (self.source == other.source or self.location == other.location)
        )

    def __hash__(self) -> int:
        return hash((self.path, self.region))

    def __str__(self) -> str:
        region = "" if self.region is None else f" {dict(enumerate(self.region))}"
        return printable(f"reference to {self.source + ':' if self.source else ''}{self.path}{region}")

    def __repr__(self) -> str:
        return str(self).replace("reference to", "->", 1)  # short, for lists; in ASCII, for any console
