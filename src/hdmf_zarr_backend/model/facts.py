"""The content of a file, node by node, for comparing: classes for every format.

``Element`` and the ``...Facts`` classes are what every kind of file is described with, in the terms of HDF5, which
has more of them than Zarr; ``FileFacts`` is what the comparing tool asks of a reader of a format. A fact that a format
cannot state is left empty, and is not compared: see the fields.

Values are plain numpy arrays in which text is ``str`` (bytes that are not UTF-8 kept as surrogate escapes), opaque
elements are ``bytes``, variable-length sequences are arrays, and references are `Reference`, already resolved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.model.elements import Element, Reference, Region

__all__ = [
    "AttributeFacts",
    "DatasetFacts",
    "DatatypeFacts",
    "FileFacts",
    "FilterFacts",
    "GroupFacts",
    "LinkFacts",
    "NodeFacts",
    "Selection",
    "Values",
    "canonical_region",
    "hdf5_filter",
    "plain_values",
    "text_of",
]

Values: TypeAlias = npt.NDArray[Any]
Selection: TypeAlias = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class AttributeFacts:
    """One attribute: its type, shape (None for an empty dataspace) and value (None likewise)."""

    dtype: Element
    shape: tuple[int, ...] | None
    value: Values | None = field(compare=False)

    def __str__(self) -> str:
        return f"{None if self.value is None else self.value.tolist()!r} ({self.dtype}, shape {self.shape})"


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """One step of a filter pipeline: a name (``hdf5-<number>`` if it has none here) and its options.

    A shuffle of bytes over whole elements has no options.
    """

    name: str
    options: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.options))})"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group; its members are nodes of their own."""

    kind: ClassVar[str] = "group"
    attributes: Mapping[str, AttributeFacts]


@dataclass(frozen=True, slots=True)
class DatatypeFacts:
    """A data type that is a member of a group (in HDF5: a committed or named type)."""

    kind: ClassVar[str] = "datatype"
    attributes: Mapping[str, AttributeFacts]
    dtype: Element


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A member that leads elsewhere.

    Parameters
    ----------
    form : str
        ``soft``, ``external``, ``hard`` (a further name of an object; `target` is the first) or ``user-defined``.
    target : str
        Absolute path in this file or in the other one.
    file : str
        The other file as it is written in the link; empty within the file.
    location : str
        The other file as an absolute path, taken from the folder of this file; empty within the file.
    """

    kind: ClassVar[str] = "link"
    form: str
    target: str
    file: str = ""
    location: str = ""

    def __str__(self) -> str:
        return f"{self.form} link to {self.file + ':' if self.file else ''}{self.target}"


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A dataset without its values, and the way to read them.

    Parameters
    ----------
    attributes : mapping of str to AttributeFacts
    dtype : Element
    shape : tuple of int or None
        None for an empty dataspace.
    maxshape : tuple of (int or None) or None
        None in it for an axis without a limit.
    chunks : tuple of int or None
    layout : tuple of str
        How it is stored where it is not in chunks, with the files that hold it; empty where the format has one way
        only, and not compared then.
    filters : tuple of FilterFacts
        In the order in which they were applied.
    fill : numpy.ndarray or None
        One element in the form of the values; None where none is defined, or one is chosen that cannot be read.
    read : callable
        ``read(selection)``, a slice per axis, gives these values.
    grid : tuple of int or None
        The chunks in which values are best read, where these are not `chunks`; not compared.
    """

    kind: ClassVar[str] = "dataset"
    attributes: Mapping[str, AttributeFacts]
    dtype: Element
    shape: tuple[int, ...] | None
    maxshape: tuple[int | None, ...] | None
    chunks: tuple[int, ...] | None
    layout: tuple[str, ...]
    filters: tuple[FilterFacts, ...]
    fill: Values | None
    read: Callable[[Selection], Values]
    grid: tuple[int, ...] | None = None


NodeFacts: TypeAlias = GroupFacts | DatasetFacts | DatatypeFacts | LinkFacts


class FileFacts(Protocol):
    """A file as a mapping of absolute paths to facts, ``/`` included; facts are read when they are asked for."""

    source: str

    def __getitem__(self, path: str, /) -> NodeFacts: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Release the file; facts taken before stay valid, but their values cannot be read any more."""
        ...


# ----------------------------------------------------------------------------------------- names of filters

# The HDF Group assigns these numbers: 1-6 are its own, the others are registered with The HDF Group
FILTER_NAMES: dict[int, str] = {
    1: "deflate",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    307: "bzip2",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}


def hdf5_filter(code: int, options: tuple[int, ...], itemsize: int | None) -> FilterFacts:
    """Return one step of an HDF5 pipeline, given as HDF5 and the notes of converted files have it.

    Parameters
    ----------
    code : int
        Number of the filter.
    options : tuple of int
        Its client data.
    itemsize : int or None
        Bytes of one element, None where they are not known. HDF5 lets a shuffle go over whole elements by itself, so
        that such a size says nothing.
    """
    name = FILTER_NAMES.get(code, f"hdf5-{code}")
    if name == "shuffle" and (itemsize is None or options == (itemsize,)):
        options = ()
    return FilterFacts(name, options)


def text_of(item: Any) -> str:
    """Return an element of text; bytes that are not UTF-8 become surrogate escapes, what was never written is empty."""
    if isinstance(item, bytes):
        return item.decode("utf-8", "surrogateescape")
    return str(item) if isinstance(item, str) else ""


def plain_values(values: Values, dtype: Element, resolve: Callable[[Any], Reference]) -> Values:
    """Return values as h5py or Zarr give them in the form that `model.facts` describes.

    Parameters
    ----------
    values : numpy.ndarray
        Any shape; text as ``bytes`` or ``str``, references as the format has them.
    dtype : Element
        What they are.
    resolve : callable
        Returns the `Reference` that a stored reference means.
    """
    if dtype.kind == "text":
        return _objects(values, text_of)
    if dtype.kind in {"reference", "region"}:
        return _objects(values, resolve)
    if dtype.kind == "opaque":
        never_written = bytes(dtype.size or 0)
        return _objects(values, lambda item: item.tobytes() if isinstance(item, np.void) else never_written)
    base = dtype.base
    if base is not None and dtype.kind == "array":
        return plain_values(values, base, resolve)
    if base is not None:
        return _objects(values, lambda item: _sequence(item, base, resolve))
    return _plain_rows(values, dtype, resolve) if dtype.kind == "compound" else values


def _plain_rows(values: Values, dtype: Element, resolve: Callable[[Any], Reference]) -> Values:
    columns = {name: plain_values(values[name], member, resolve) for name, member in dtype.fields}
    rows = np.empty(values.shape, [(name, c.dtype, c.shape[values.ndim :]) for name, c in columns.items()])
    for name, column in columns.items():
        rows[name] = column
    return rows


def _sequence(item: Any, base: Element, resolve: Callable[[Any], Reference]) -> Values:
    if not isinstance(item, np.ndarray):
        return np.empty(0)  # never written
    if item.dtype.isnative and base.byte_order != "|":
        # h5py reads the bytes as they are in the file, and calls them native
        item = item.view(item.dtype.newbyteorder(base.byte_order))
    return plain_values(item, base, resolve)


def _objects(values: Values, convert: Callable[[Any], object]) -> Values:
    made = np.empty(values.size, dtype=object)
    for index, item in enumerate(values.flat):
        made[index] = convert(item)
    return made.reshape(values.shape)


def _even_steps(indices: list[int]) -> tuple[str, tuple[Any, ...]] | None:
    """Return the one spelling of a selection on one axis whose rising `indices` have equal distances, else None."""
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    stop = indices[-1] + 1
    return ("slice", (indices[0], stop, step)) if indices == list(range(indices[0], stop, step)) else None


def canonical_region(region: Any, shape: tuple[int, ...] | None) -> Region | None:
    """Return the selection of a region reference in the one spelling of `Region`, None where there is none.

    Parameters
    ----------
    region : list, dict or None
        As `formats.references` has it on disk. Anything else is kept, so that it differs from every region.
    shape : tuple of int or None
        Of the target, which the ends of a slice may be left to.
    """
    if region is None:
        return None
    try:
        if isinstance(region, dict):
            points = tuple(tuple(map(int, point)) for point in region["points"])
            return (("points", points),) if points else (("none", ()),)
        axes = [_selected(entry, axis, shape) for axis, entry in enumerate(region)]
    except (KeyError, TypeError, ValueError, IndexError):
        return (("unknown", (json.dumps(region, sort_keys=True, default=repr),)),)
    if any(not axis for axis in axes):
        return (("none", ()),)
    return tuple(_even_steps(axis) or ("index", tuple(axis)) for axis in axes)


def _selected(entry: dict[str, Any], axis: int, shape: tuple[int, ...] | None) -> list[int]:
    if "slice" not in entry:
        return [int(index) for index in entry["index"]]
    start, stop, step = entry["slice"]
    if start is None or stop is None or shape is not None:
        return list(range(*slice(start, stop, step).indices((shape or ())[axis])))
    return list(range(start, stop, 1 if step is None else step))
