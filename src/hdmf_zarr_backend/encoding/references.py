"""References to objects and to regions of datasets, and links.

A reference has ``source`` (the file, ``"."`` for this one), ``path`` (absolute in that file), ``object_id`` of the
target and ``source_object_id`` of the file; a region reference also has ``region``. docs/format has the forms in which
both formats store it; LINDI has those of format 3.

A link is an entry of ``zarr_link`` (in format 3 ``_LINKS``) of its group: a reference with a ``name``. It is soft if
``source == "."``, and external otherwise.

Source: hdmf-zarr storage specification, "Links", "Object References" and "Region references"; hdmf-zarr 0.14 for
format 3.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.encoding.reserved import DTYPE, LINKS, as_dict, notes_of
from hdmf_zarr_backend.errors import MetadataError, UsageError, ValueRefusedError, at
from hdmf_zarr_backend.model.element import REFERENCE, REGION, Reference
from hdmf_zarr_backend.model.nodes import Group, Hierarchy, absolute, relative, split

if TYPE_CHECKING:
    from hdmf_zarr_backend.encoding.hdf5_values import Array

OBJECT = "object"
REGION_WORD = "region"
REFERENCE_3 = "_REFERENCE"
OBJECT_REFERENCE = "object_reference"
REFERENCE_TEXTS: dict[str, Any] = {"id": "references"}  # filter in format 3, `encoding.chunks.ReferenceTexts`
# Key in the configuration of ``json2``: number of fields of rows of LINDI, else 0; references are wrapped.
CELLS = "lindi"
_POINTS = 'Give {"points": [[...], ...]}.'


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
            object.__setattr__(self, "region", encode_region(self.region))

    @property
    def node_path(self) -> str:
        """The path as in the model; a backslash counts as a slash (Zarr v2, "Logical storage paths")."""
        return relative(self.path.replace("\\", "/"))


# hdmf's DatasetBuilder accepts only scalars of certain types and instances of Iterable. A reference has no elements,
# and iterating over it raises a TypeError.
Iterable.register(ZarrReference)


def encode_reference(reference: ZarrReference) -> dict[str, Any]:
    """Return the dict for ``reference`` in an array."""
    # The specification promises both ids; hdmf-zarr up to 0.13 wrote only name, source and path of a link.
    return {
        "source": reference.source,
        "path": absolute(reference.path),
        "object_id": reference.object_id,
        "source_object_id": reference.source_object_id,
        **({} if reference.region is None else {"region": reference.region}),
    }


def decode_reference(value: Any) -> ZarrReference:
    """Return the reference for a dict; unknown keys are ignored."""
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        raise MetadataError(f"{value!r} is not a reference")
    texts = {key: value[key] for key in ("source", "object_id", "source_object_id") if isinstance(value.get(key), str)}
    try:
        return ZarrReference(**{"source": ".", **texts}, path=value["path"], region=value.get("region"))
    except (ValueError, TypeError, OverflowError) as error:
        problem = f"the region of a reference is not valid ({error})"
        raise MetadataError(problem, path=absolute(value["path"])) from error


def encode_region(selection: Any) -> Any:
    """Return the JSON of a selection."""
    if isinstance(selection, dict):
        if set(selection) != {"points"}:
            raise UsageError(f"{selection!r} is not a region", remedy=_POINTS)
        import numpy as np

        try:
            points = np.asarray(selection["points"])
            if points.ndim in (1, 2) and (points.dtype.kind in "iu" or not points.size):
                return {"points": _rows(points.astype(np.int64)).tolist()}
        except ValueError:
            pass  # rows that differ in length
        raise UsageError(f"{selection['points']!r} are not points", remedy=_POINTS)
    if not isinstance(selection, (tuple, list)):
        selection = (selection,)
    return [_encode_axis(part) for part in selection]


def _rows(points: Array) -> Array:
    """Return points as an array of shape ``(n, axes)``; the points of one axis may be given as numbers."""
    return points.reshape(len(points), -1 if points.size else 0)


def _encode_axis(part: Any) -> dict[str, Any]:
    import numpy as np

    if isinstance(part, dict) and set(part) in ({"slice"}, {"index"}):
        return part
    try:
        if isinstance(part, slice):
            return {"slice": [None if n is None else operator.index(n) for n in (part.start, part.stop, part.step)]}
        indices = np.asarray(part)
        if indices.dtype == bool and indices.ndim:
            indices = np.flatnonzero(indices)
        if indices.ndim <= 1 and indices.dtype.kind in "iu":
            return {"index": np.atleast_1d(indices).tolist()}
    except (ValueError, TypeError):
        pass
    problem = f"{part!r} is not a selection on an axis"
    raise UsageError(problem, remedy="Give a slice, an integer or a list of integers.")


def decode_region(region: Any) -> Any:
    """Return the selection for the JSON of a region."""
    import numpy as np

    try:
        if isinstance(region, dict):
            return _rows(np.array(region["points"], dtype=np.intp))
        return tuple(slice(*part["slice"]) if "slice" in part else np.array(part["index"], np.intp) for part in region)
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"{region!r} is not a region") from error


class RegionReference:
    """A reference to a part of a dataset. Indexing it reads only that part.

    Parameters
    ----------
    builder : DatasetBuilder
        The dataset.
    region : list or dict
        The region as JSON.
    """

    def __init__(self, builder: Any, region: Any) -> None:
        self.builder = builder
        self.region = region

    @property
    def selection(self) -> Any:
        """The selection, as a tuple with one entry for each axis or as an array of points of shape ``(n, axes)``."""
        return decode_region(self.region)

    def read(self) -> Any:
        """Return the selected values, in the data type of the dataset; raises the errors of `array.lazy.LazyArray`."""
        import numpy as np

        data = self.builder.data
        selection = self.selection
        if not isinstance(selection, np.ndarray):
            return data[selection]
        array = np.empty(len(selection), dtype=getattr(data, "dtype", object))
        for position, point in enumerate(selection):
            array[position] = data[tuple(int(n) for n in point)]
        return array

    def __getitem__(self, key: Any) -> Any:
        values = self.read()
        return values if isinstance(key, tuple) and not key else values[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001 - NumPy's protocol
        import numpy as np

        return np.asarray(self.read(), dtype=dtype)

    def __repr__(self) -> str:
        return f"<RegionReference {self.builder.name!r} {self.region}>"


def encode_attribute_reference(reference: ZarrReference) -> dict[str, Any]:
    """Return the JSON of an attribute that is a reference."""
    return {DTYPE: OBJECT if reference.region is None else REGION_WORD, "value": encode_reference(reference)}


def is_reference(value: Any) -> bool:
    """Tell whether the JSON of an attribute, or an item of it, is a reference."""
    return (
        isinstance(value, dict) and value.get(DTYPE) in (OBJECT, REGION_WORD) and isinstance(value.get("value"), dict)
    )


def decode_attribute_reference(value: dict[str, Any]) -> ZarrReference:
    """Return the reference for the JSON of an attribute."""
    return decode_reference(value.get("value"))


def to_zarr3(value: Any) -> Any:
    """Return the JSON of an attribute as in format 3: of a reference, or of a list of references."""
    if isinstance(value, dict):
        return {REFERENCE_3: value["value"]} if is_reference(value) else value
    if isinstance(value, list) and value and all(map(is_reference, value)):
        return [{REFERENCE_3: item["value"]} for item in value]
    return value


def from_zarr3(value: Any) -> Any:
    """Return the JSON of an attribute of format 3 as in format 2; the inverse of `to_zarr3`."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) and isinstance(item.get(REFERENCE_3), (dict, str)) for item in items):
        return value
    references = []
    for stored in (item[REFERENCE_3] for item in items):
        reference = {"source": ".", **({"path": absolute(stored)} if isinstance(stored, str) else stored)}
        references.append({DTYPE: OBJECT if reference.get("region") is None else REGION_WORD, "value": reference})
    return references if isinstance(value, list) else references[0]


def reference_text(reference: Any) -> str:
    """Return the text of a reference: the path of a target in the same file, JSON for any other, "" for None."""
    if reference is None:
        return ""
    if isinstance(reference, str):
        return reference
    if not isinstance(reference, dict):
        raise ValueRefusedError(f"{reference!r} is not a reference", remedy="Correct zarr_dtype or the value.")
    path = reference.get("path")
    here = reference.get("source") in (".", "", None)
    if here and reference.get("region") is None and isinstance(path, str) and path.startswith("/"):
        return path
    return json.dumps({key: value for key, value in reference.items() if value is not None}, separators=(",", ":"))


def text_reference(text: str) -> dict[str, Any] | None:
    """Return the reference of a text, None for empty text."""
    if not text:
        return None
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        while isinstance(value, dict):
            if isinstance(value.get("path"), str):
                return {"source": ".", "object_id": None, "source_object_id": None, **value}
            value = value.get(REFERENCE_3, value.get("value"))
            value = {"path": value} if isinstance(value, str) else value
    # hdmf-zarr 0.14 tries text as JSON first, and takes any other text as a path in this file.
    path = text if text.startswith("/") else f"/{text}"
    return {"source": ".", "path": path, "object_id": None, "source_object_id": None}


def unwrapped(item: Any) -> Any:
    """Return an element of LINDI; a reference without what it is wrapped in."""
    if not isinstance(item, dict) or REFERENCE_3 not in item:
        return item
    stored = item[REFERENCE_3]
    reference = {"path": stored} if isinstance(stored, str) else stored
    return {"source": ".", "object_id": None, "source_object_id": None, **reference}


def element_of_word(dtype_name: Any) -> Reference | None:
    """Return the element of references from the name of their type in ``zarr_dtype``, None for any other name."""
    if isinstance(dtype_name, dict):  # as hdmf writes it for a field of rows
        return REGION if dtype_name.get("reftype") == REGION_WORD else REFERENCE
    return {OBJECT: REFERENCE, REGION_WORD: REGION}.get(dtype_name) if isinstance(dtype_name, str) else None


def infer_reference(leaves: Iterable[Any]) -> Reference:
    """Return the element of references from all of them."""
    are_regions = [getattr(leaf, "region", None) is not None for leaf in leaves]
    if any(are_regions) and not all(are_regions):
        raise ValueRefusedError("some references are to regions", remedy="Give references of one kind.")
    return REGION if any(are_regions) else REFERENCE


@dataclass(slots=True, frozen=True)
class Link:
    """A named link to a group or dataset."""

    name: str
    target: ZarrReference


def encode_link(link: Link) -> dict[str, Any]:
    """Return the entry of ``zarr_link`` for ``link``."""
    return {"name": link.name, **encode_reference(link.target)}


def decode_links(attributes: dict[str, Any]) -> list[Link]:
    """Return the links of a group, in the order of the file."""
    entries = attributes.get(LINKS, [])
    if not isinstance(entries, list):
        raise MetadataError(f"{LINKS} is not a list")
    links = []
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise MetadataError(f"the link {entry!r} has no name")
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise MetadataError(f"a link cannot have the name {name!r}", remedy="Remove it from zarr_link.")
        links.append(Link(name, decode_reference(entry)))
    return links


def find_link(attributes: dict[str, Any], name: str) -> ZarrReference | None:
    """Return the target of the link of a group with a name, None if it does not exist."""
    entries = attributes.get(LINKS, [])
    if isinstance(entries, list):  # decoding all links for each step of a long chain would take too long
        entries = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name][:1]
    return next((link.target for link in decode_links({LINKS: entries})), None)


def set_links(node: Any, entries: list[Any]) -> None:
    """Give a group other entries of links; one that is kept is written as it was, with keys of other programs."""
    rest = {name: value for name, value in node.attributes.items() if name != LINKS}
    node.attributes = {**rest, LINKS: entries} if entries else rest
    node.keeps_attributes = True


@dataclass(eq=False)
class LinkedFile:
    """A file that links lead from or to, as `encoding.parser.Resolver` needs it."""

    store: Any
    hierarchy: Hierarchy
    location: str

    @property
    def root_id(self) -> str | None:
        """Object id of the root."""
        value = self.hierarchy.root.attributes.get("object_id")
        return value if isinstance(value, str) else None

    @cached_property
    def former_names(self) -> frozenset[str]:
        """Sources other than ``"."`` that mean the file itself: the name or path that hdmf-zarr wrote up to 0.10."""
        if not self.names_siblings:
            return frozenset()
        sources = set()
        for path, node in self.hierarchy.walk():
            for name, value in node.attributes.items():
                reference = as_dict(as_dict(value).get("value"))
                source, column = reference.get("source"), reference.get("path")
                if not isinstance(source, str):
                    continue
                # 0.10: references in attributes also have the id of the root; without it, a name may be of another file
                has_id = self.root_id is not None and reference.get("source_object_id") == self.root_id
                # 0.1: an absolute path, without any id; the index of a column is in the file of its column
                column = relative(column) if name == "target" and isinstance(column, str) else ""
                is_index = bool(column) and split(column)[0] == split(path)[0] and column in self.hierarchy
                if is_index or (has_id and "/" not in source):
                    sources.add(source)
        return frozenset(sources)

    @cached_property
    def names_siblings(self) -> bool:
        """Whether it may be a file of hdmf-zarr 0.10, which named other files from the folder of the store."""
        return "version" not in notes_of(self.hierarchy.root.attributes)

    def links(self, path: str, group: Group) -> list[Link]:
        """Return the links of the group at ``path``; of several with one name, the first."""
        if LINKS not in group.attributes:
            return []
        with at(self.location, path):
            links = decode_links(group.attributes)
            for link in links:
                if link.name in group.members:  # one of the two would be lost
                    problem = f"the name {link.name!r} is that of a link and of a member"
                    raise MetadataError(problem, remedy="Rename one of them in the file.")
        return list({link.name: link for link in reversed(links)}.values())[::-1]
