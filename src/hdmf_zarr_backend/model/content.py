"""The content of a file, node by node, in a form that files of different formats can be compared in.

The ``...Content`` classes describe nodes in the terms of HDF5, which has more of them than Zarr. A field that a format
has no value for is left empty and is not compared.

Values are plain numpy arrays in which text is ``str`` (bytes that are not UTF-8 kept as surrogate escapes), opaque
elements are ``bytes``, variable-length sequences are arrays, and references are `Target`, which they lead to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy.typing as npt

from hdmf_zarr_backend.errors import printable
from hdmf_zarr_backend.model.element import Element, Region

Values: TypeAlias = npt.NDArray[Any]
Selection: TypeAlias = tuple[slice, ...]
# The HDF Group assigns these numbers: 1-6 are its own, the others are registered with The HDF Group
FILTER_NAMES: dict[int, str] = {
    1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf",
    32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32026: "blosc2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttributeContent:
    """One attribute: its type, shape (None for an empty dataspace) and value (None likewise)."""

    dtype: Element
    shape: tuple[int, ...] | None
    value: Values | None = field(compare=False)

    def __str__(self) -> str:
        return f"{None if self.value is None else self.value.tolist()!r} ({self.dtype}, shape {self.shape})"


@dataclass(frozen=True, slots=True)
class FilterStep:
    """A codec of an array, or a filter of an HDF5 dataset, as `compare` has it in a `Difference`.

    Parameters
    ----------
    name : str
        Its name; ``hdf5-<number>`` for a filter without one.
    options : tuple
        Its options: texts such as ``level=4`` for a codec, the numbers that HDF5 has for a filter. A byte shuffle over
        complete elements has none.
    """

    name: str
    options: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return printable(f"{self.name}({', '.join(map(str, self.options))})")


@dataclass(frozen=True, slots=True)
class GroupContent:
    """A group; its members are separate nodes."""

    kind: ClassVar[str] = "group"
    attributes: Mapping[str, AttributeContent]


@dataclass(frozen=True, slots=True)
class DatatypeContent:
    """A data type that is a member of a group (in HDF5: a committed or named type)."""

    kind: ClassVar[str] = "datatype"
    attributes: Mapping[str, AttributeContent]
    dtype: Element


@dataclass(frozen=True, slots=True)
class LinkContent:
    """A link: a member of a group that points to another node."""

    kind: ClassVar[str] = "link"
    form: str
    target: str
    file: str = ""
    location: str = ""

    def __str__(self) -> str:
        return printable(f"{self.form} link to {self.file + ':' if self.file else ''}{self.target}")


@dataclass(frozen=True, slots=True)
class DatasetContent:
    """A dataset, with a function that reads its values."""

    kind: ClassVar[str] = "dataset"
    attributes: Mapping[str, AttributeContent]
    dtype: Element
    shape: tuple[int, ...] | None
    maxshape: tuple[int | None, ...] | None
    chunks: tuple[int, ...] | None
    layout: tuple[str, ...]
    filters: tuple[FilterStep, ...]
    fill: Values | None
    read: Callable[[Selection], Values]
    grid: tuple[int, ...] | None = None
    has_storage: bool = True


@dataclass(frozen=True, slots=True)
class UnreadableContent:
    """A node whose document is damaged, or has something that is unknown here."""

    kind: ClassVar[str] = "unreadable"
    attributes: Mapping[str, AttributeContent]
    reason: str


NodeContent: TypeAlias = GroupContent | DatasetContent | DatatypeContent | LinkContent | UnreadableContent


class FileContent(Protocol):
    """A file as a mapping of absolute paths, ``/`` included, to nodes. A node is read on access."""

    source: str

    def __getitem__(self, path: str, /) -> NodeContent: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Close the file. Nodes read before stay valid, but their values can no longer be read."""
        ...


def hdf5_filter(code: int, options: tuple[int, ...], itemsize: int | None) -> FilterStep:
    """Return one step of an HDF5 pipeline."""
    name = FILTER_NAMES.get(code, f"hdf5-{code}")
    # HDF5 records the size of an element as an option of its shuffle; Zarr takes it from the data type.
    if name == "shuffle" and (itemsize is None or options == (itemsize,)):
        options = ()
    return FilterStep(name, options)


def even_slice(indices: list[int]) -> tuple[int, int, int] | None:
    """Return start, stop and step of rising indices with equal distances, None for other indices."""
    step = max(1, indices[1] - indices[0]) if len(indices) > 1 else 1
    stop = indices[-1] + 1
    return (indices[0], stop, step) if indices == list(range(indices[0], stop, step)) else None


def canonical_region(region: Any, shape: tuple[int, ...] | None) -> Region | None:
    """Return the selection of a region reference in the canonical form of `Region`, None for a null reference."""
    if region is None:
        return None
    try:
        if isinstance(region, dict):
            points = tuple(tuple(map(int, point)) for point in region["points"])
            return (("points", points),) if points else (("none", ()),)
        axes = []
        for axis, entry in enumerate(region):
            if "slice" not in entry:
                axes.append([int(index) for index in entry["index"]])
                continue
            start, stop, step = entry["slice"]
            if start is None or stop is None or shape is not None:
                axes.append(list(range(*slice(start, stop, step).indices((shape or ())[axis]))))
            else:  # of a dataset that is not known, such as one in another file
                axes.append(list(range(start, stop, 1 if step is None else step)))
    except (KeyError, TypeError, ValueError, IndexError):
        return (("unknown", (json.dumps(region, sort_keys=True, default=repr),)),)
    if any(not axis for axis in axes):
        return (("none", ()),)
    return tuple(("slice", even) if (even := even_slice(axis)) else ("index", tuple(axis)) for axis in axes)
