"""References to other objects <-> the dict that a file holds for each.

A reference says ``source`` (the file, ``"."`` for this one), ``path`` (absolute in it), ``object_id`` of the target and
``source_object_id`` of the file; a region reference adds ``region``. Where references are stored decides the wrapping:

* attribute: ``{"zarr_dtype": "object", "value": reference}``
* element of an array of references, field of a compound row: the reference itself

Source: hdmf-zarr storage specification, "Object References" and "Region references".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.formats.reserved import DTYPE
from hdmf_zarr_backend.model.nodes import absolute, relative

Region = Any


def encode_region(selection: Any) -> Region:
    """Return the JSON of a selection.

    Parameters
    ----------
    selection : tuple, dict or list
        One slice, integer or list of integers for each axis; ``{"points": array of shape (n, axes)}``; or a region as
        JSON.

    Raises
    ------
    UsageError
        It is not a selection.
    """
    if isinstance(selection, dict):
        if set(selection) != {"points"}:
            raise UsageError(f"{selection!r} is not a region", remedy='Give {"points": [[...], ...]}.')
        return {
            "points": np.asarray(selection["points"], dtype=np.int64).reshape(len(selection["points"]), -1).tolist()
        }
    if not isinstance(selection, (tuple, list)):
        selection = (selection,)
    return [_encode_axis(part) for part in selection]


def _encode_axis(part: Any) -> dict[str, Any]:
    if isinstance(part, dict) and set(part) in ({"slice"}, {"index"}):
        return part
    if isinstance(part, slice):
        return {"slice": [_number(part.start), _number(part.stop), _number(part.step)]}
    if isinstance(part, (int, np.integer)):
        return {"index": [int(part)]}
    try:
        indices = np.asarray(part)
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        if indices.ndim == 1 and indices.dtype.kind in "iu":
            return {"index": indices.tolist()}
    except (ValueError, TypeError):
        pass
    raise UsageError(f"{part!r} selects nothing on an axis", remedy="Give a slice, an integer or a list of integers.")


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def decode_region(region: Region) -> Any:
    """Return the selection that the JSON of a region means.

    Returns
    -------
    tuple or numpy.ndarray
        One slice or index array for each axis; or points, an array of shape ``(n, axes)``.

    Raises
    ------
    MetadataError
        It is not a region.
    """
    try:
        if isinstance(region, dict):
            points = np.array(region["points"], dtype=np.intp)
            return points.reshape(len(region["points"]), -1)
        return tuple(slice(*part["slice"]) if "slice" in part else np.array(part["index"], np.intp) for part in region)
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"{region!r} is not a region", remedy="Run `zarrio verify` on the file.") from error


class RegionReference:
    """A reference to a part of a dataset; indexing it reads just that part.

    Parameters
    ----------
    builder : DatasetBuilder
        The dataset.
    region : list or dict
        The region as JSON.
    """

    def __init__(self, builder: Any, region: Region) -> None:
        self.builder = builder
        self.region = region

    @property
    def selection(self) -> Any:
        """What is selected, as a tuple with one entry for each axis or as an array of points of shape ``(n, axes)``."""
        return decode_region(self.region)

    def read(self) -> Any:
        """Return the selected values, in the data type of the dataset; errors as of `arrays.lazy.LazyArray`."""
        data = self.builder.data
        selection = self.selection
        if isinstance(selection, np.ndarray):
            return _points(data, selection)
        return data[selection]

    def __getitem__(self, key: Any) -> Any:
        values = self.read()
        return values if isinstance(key, tuple) and not key else values[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001 - NumPy's protocol
        return np.asarray(self.read(), dtype=dtype)

    def __repr__(self) -> str:
        return f"<RegionReference {self.builder.name!r} {self.region}>"


def _points(data: Any, points: Any) -> Any:
    values = [data[tuple(int(n) for n in point)] for point in points]
    array = np.empty(len(values), dtype=getattr(data, "dtype", object))
    for position, value in enumerate(values):
        array[position] = value
    return array


OBJECT = "object"
REGION = "region"


@dataclass(slots=True, frozen=True)
class Reference:
    """A reference as a value; public as ``ZarrReference``.

    As the value of an attribute, as the data of a scalar dataset, or as an element of a dataset of references or of
    compound rows it is stored as it is.

    Attributes
    ----------
    source : str
        The file as stored: ``"."``, a relative path or a URL.
    path : str
        Absolute path of the target in that file.
    object_id, source_object_id : str or None
        Ids of the target and of its file, for checking.
    region : tuple, list or dict, optional
        The selected part of a dataset: one slice, integer or list of integers for each axis, each axis on its own; or
        ``{"points": coordinates}`` of single elements, an array of shape ``(n, axes)``. Kept as JSON. None: the whole
        object.
    """

    source: str
    path: str
    object_id: str | None = None
    source_object_id: str | None = None
    region: Any = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if self.region is not None:
            object.__setattr__(self, "region", encode_region(self.region))

    @property
    def node_path(self) -> str:
        """The path in the model's spelling; a backslash counts as a slash (Zarr v2, "Logical storage paths")."""
        return relative(self.path.replace("\\", "/"))


# The constructor of hdmf's DatasetBuilder takes scalars of the types that it lists and anything that calls itself
# iterable, nothing else. A reference has no elements; who iterates it all the same gets a TypeError.
Iterable.register(Reference)

ZarrReference = Reference
"""The public name."""


def encode_reference(reference: Reference) -> dict[str, Any]:
    """Return the dict that stands for ``reference`` in an array."""
    encoded: dict[str, Any] = {
        "source": reference.source,
        "path": absolute(reference.path),
        "object_id": reference.object_id,
        "source_object_id": reference.source_object_id,
    }
    if reference.region is not None:
        encoded["region"] = reference.region
    return encoded


def decode_reference(value: Any) -> Reference:
    """Return the reference that a dict stands for; keys that are not known are ignored.

    Raises
    ------
    MetadataError
        It is not a reference.
    """
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        raise MetadataError(f"{value!r} is not a reference", remedy="Run `zarrio verify` on the file.")
    source = value.get("source")
    try:
        return Reference(
            source=source if isinstance(source, str) else ".",
            path=value["path"],
            object_id=_text(value.get("object_id")),
            source_object_id=_text(value.get("source_object_id")),
            region=value.get("region"),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise MetadataError(
            f"the region of a reference is none ({error})", path=absolute(value["path"]), remedy="Run `zarrio verify`."
        ) from error


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def encode_attribute_reference(reference: Reference) -> dict[str, Any]:
    """Return the JSON of an attribute that is a reference."""
    kind = OBJECT if reference.region is None else REGION
    return {DTYPE: kind, "value": encode_reference(reference)}


def decode_attribute_reference(value: dict[str, Any]) -> Reference:
    """Return the reference that the JSON of an attribute stands for."""
    return decode_reference(value.get("value"))
