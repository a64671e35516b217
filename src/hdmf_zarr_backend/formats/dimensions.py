"""Dimension labels <-> ``_ARRAY_DIMENSIONS``.

xarray and netCDF need a name for every axis of every array, and one length for each name in a group. HDMF has labels
for some arrays, and equal labels for axes that differ. So the stored names are made unique (``<label>_<length>``;
``_anonymous<length>``, as in NCZarr, without a label), and HDMF's labels are kept in the note if they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, NOTES, notes_of
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.nodes import Attributes, Dataset

_NOTE = "dims"


def stored_names(labels: Sequence[str | None] | None, shape: tuple[int, ...], taken: dict[str, int]) -> list[str]:
    """Return the names of the axes of an array."""
    given = list(labels or ())[: len(shape)]
    given += [None] * (len(shape) - len(given))
    names: list[str] = []
    for label, length in zip(given, shape, strict=True):
        name = label or f"_anonymous{length}"
        if taken.get(name, length) != length or name in names:
            name = f"{name}_{length}"
        while name in names or taken.get(name, length) != length:
            name += "_"
        taken[name] = length
        names.append(name)
    return names


def encode_dimensions(
    labels: Sequence[str | None] | None, shape: tuple[int, ...], taken: dict[str, int], notes: dict[str, Any]
) -> list[str]:
    """Return the names to store, and add HDMF's labels to ``notes`` if they differ from the names.

    Schemas exist that give a length in place of a label, such as ``dims: [3]`` in ndx-aibs-ecephys; it becomes text.
    """
    if labels is not None:
        labels = tuple(None if label is None else str(label) for label in labels)
    names = stored_names(labels, shape, taken)
    if _labels_of(names) != labels:
        notes[_NOTE] = None if labels is None else list(labels)
    return names


def decode_dimensions(attributes: dict[str, Any]) -> tuple[str | None, ...] | None:
    """Return HDMF's labels of an array, None if it has none."""
    notes = notes_of(attributes)
    if _NOTE not in notes:
        return _labels_of(attributes.get(DIMENSIONS))
    labels = notes[_NOTE]
    if labels is None:
        return None
    if not isinstance(labels, list) or not all(label is None or isinstance(label, str) for label in labels):
        raise MetadataError(f"{labels!r} are not labels of dimensions")
    return tuple(labels)


def _labels_of(names: Any) -> tuple[str | None, ...] | None:
    """Return the labels for stored names."""
    if not isinstance(names, list) or not names or all(str(name).startswith("_anonymous") for name in names):
        return None
    return tuple(None if name is None else str(name) for name in names)


def set_dimensions(
    node: Dataset[Attributes], labels: tuple[str | None, ...] | None, taken: dict[str, int], notes: dict[str, Any]
) -> None:
    """Name the axes of an array, and set its notes; ``taken`` are the names in its group, with their lengths."""
    node.attributes[DIMENSIONS] = encode_dimensions(labels, node.stored.shape, taken, notes)
    if notes:
        node.attributes[NOTES] = notes
    else:
        node.attributes.pop(NOTES, None)
