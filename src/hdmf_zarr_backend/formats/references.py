"""References to other objects <-> the dicts that represent them in a file.

A reference has ``source`` (the file, ``"."`` for this one), ``path`` (absolute in that file), ``object_id`` of the
target and ``source_object_id`` of the file; a region reference also has ``region``. It is stored in these forms:

* attribute: ``{"zarr_dtype": "object", "value": reference}``
* element of an array of references, field of a compound row: the reference itself

Source: hdmf-zarr storage specification, "Object References" and "Region references".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.reserved import DTYPE
from hdmf_zarr_backend.model.nodes import absolute, relative

OBJECT = "object"
REGION = "region"


@dataclass(slots=True, frozen=True)
class ZarrReference:
    """A reference as a value.

    It is stored as it is as the value of an attribute, as the data of a scalar dataset, or as an element of a dataset
    of references or of compound rows.

    Attributes
    ----------
    source : str
        The file, in the stored form: ``"."``, a relative path or a URL.
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
            from hdmf_zarr_backend.formats.regions import encode_region  # on use: it needs NumPy

            object.__setattr__(self, "region", encode_region(self.region))

    @property
    def node_path(self) -> str:
        """The path as in the model; a backslash counts as a slash (Zarr v2, "Logical storage paths")."""
        return relative(self.path.replace("\\", "/"))


# The constructor of hdmf's DatasetBuilder accepts only scalars of certain types and instances of Iterable. A reference
# has
# no elements, and iterating over it raises a TypeError.
Iterable.register(ZarrReference)


def encode_reference(reference: ZarrReference) -> dict[str, Any]:
    """Return the dict for ``reference`` in an array."""
    encoded: dict[str, Any] = {
        "source": reference.source,
        "path": absolute(reference.path),
        "object_id": reference.object_id,
        "source_object_id": reference.source_object_id,
    }
    if reference.region is not None:
        encoded["region"] = reference.region
    return encoded


def decode_reference(value: Any) -> ZarrReference:
    """Return the reference for a dict; unknown keys are ignored."""
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        raise MetadataError(f"{value!r} is not a reference")
    source = value.get("source")
    try:
        return ZarrReference(
            source=source if isinstance(source, str) else ".",
            path=value["path"],
            object_id=_text(value.get("object_id")),
            source_object_id=_text(value.get("source_object_id")),
            region=value.get("region"),
        )
    except (ValueError, TypeError, OverflowError) as error:
        problem = f"the region of a reference is not valid ({error})"
        raise MetadataError(problem, path=absolute(value["path"])) from error


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def encode_attribute_reference(reference: ZarrReference) -> dict[str, Any]:
    """Return the JSON of an attribute that is a reference."""
    kind = OBJECT if reference.region is None else REGION
    return {DTYPE: kind, "value": encode_reference(reference)}


def is_reference(value: Any) -> bool:
    """Tell whether the JSON of an attribute, or an item of it, is a reference."""
    return isinstance(value, dict) and value.get(DTYPE) in (OBJECT, REGION) and isinstance(value.get("value"), dict)


def decode_attribute_reference(value: dict[str, Any]) -> ZarrReference:
    """Return the reference for the JSON of an attribute."""
    return decode_reference(value.get("value"))
