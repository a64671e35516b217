"""The Zarr Object Model: all names that a program needs to work with models of files.

>>> from hdmf_zarr_backend.zom.api import to_zom
>>> model = to_zom("session.nwb.zarr")

The package imports this module when one of its names is first used.

Source: ZEP 6 (draft).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hdmf_zarr_backend.errors import NotZarrError, UsageError, known_arguments, printable
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.files.parser import check_outside, parse
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.attributes import strict_attributes
from hdmf_zarr_backend.model.nodes import Hierarchy, split
from hdmf_zarr_backend.stores.gc_pause import gc_paused
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.opening import check_free, open_store, remove_empty_folder
from hdmf_zarr_backend.transfer.staging import new_file
from hdmf_zarr_backend.zom.documents import (
    FormatMapping,
    ModelProblem,
    attributes_of,
    check,
    find_problems,
    from_consolidated,
    from_hierarchy,
    to_consolidated,
    to_documents,
    to_format,
)
from hdmf_zarr_backend.zom.jsonform import MEMBERS, dumps, from_json, json_schema, node_json, to_json
from hdmf_zarr_backend.zom.models import (
    ARRAYS,
    GROUPS,
    ArrayModel,
    ArrayV2,
    ArrayV3,
    GroupModel,
    GroupV2,
    GroupV3,
    Model,
    flat,
    walk,
)

__all__ = [
    "ArrayModel",
    "ArrayV2",
    "ArrayV3",
    "FormatMapping",
    "GroupModel",
    "GroupV2",
    "GroupV3",
    "Model",
    "ModelDifference",
    "ModelProblem",
    "check",
    "create",
    "diff",
    "dumps",
    "find_problems",
    "flat",
    "from_consolidated",
    "from_json",
    "from_pydantic",
    "json_schema",
    "like",
    "to_consolidated",
    "to_format",
    "to_json",
    "to_pydantic",
    "to_zom",
    "walk",
]

ONLY_A, ONLY_B, NODE_TYPE = "only in a", "only in b", "node type"
ATTRIBUTES = "attributes"

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """One difference between two models.

    Attributes
    ----------
    path : str
        Absolute path of the node.
    name : str
        The property that differs, such as ``"shape"``, ``"chunks"`` or ``"attributes.unit"``; or ``"only in a"``,
        ``"only in b"`` or ``"node type"``.
    a, b : object
        The values as JSON; None where a property is missing.
    """

    path: str
    name: str
    a: Any = None
    b: Any = None

    def __str__(self) -> str:
        if self.name in (ONLY_A, ONLY_B):
            return printable(f"{self.path}: {self.name}")
        return printable(f"{self.path}: {self.name}: {self.a!r} != {self.b!r}")


def diff(a: Model, b: Model) -> list[ModelDifference]:
    """Return all differences between two models, node by node in the order of their paths.

    The members of a node that only one model has are not compared. Models of different formats differ in nearly every
    property.

    Parameters
    ----------
    a, b : model
        The models.

    Returns
    -------
    list of ModelDifference
        Empty if they are equal.
    """
    return list(_differences(a, b))


def _differences(a: Model, b: Model) -> Iterator[ModelDifference]:
    left, right = flat(a), flat(b)
    gone: list[str] = []
    for path in sorted(left.keys() | right.keys()):
        if any(path.startswith(f"{above}/") for above in gone[-1:]):
            continue
        if path not in left or path not in right:
            gone.append(path)
            yield ModelDifference(path, ONLY_A if path in left else ONLY_B)
        elif isinstance(left[path], ARRAYS) != isinstance(right[path], ARRAYS):
            gone.append(path)
            kinds = ("array" if isinstance(node, ARRAYS) else "group" for node in (left[path], right[path]))
            yield ModelDifference(path, NODE_TYPE, *kinds)
        else:
            yield from _properties(path, left[path], right[path])


def _properties(path: str, a: Model, b: Model) -> Iterator[ModelDifference]:
    left, right = _described(a), _described(b)
    for name in sorted(left.keys() | right.keys()):
        of_a, of_b = left.get(name, _NOTHING), right.get(name, _NOTHING)
        if not _same(of_a, of_b):
            shown = (None if value is _NOTHING else value for value in (of_a, of_b))
            yield ModelDifference(path, name, *shown)


def _described(node: Model) -> dict[str, Any]:
    found = {name: value for name, value in node_json(node).items() if name not in (ATTRIBUTES, MEMBERS)}
    return found | {f"{ATTRIBUTES}.{name}": value for name, value in attributes_of(node).items()}


def _same(a: Any, b: Any) -> bool:
    """Tell whether two JSON values are equal. NaN equals itself, and true does not equal 1."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(map(_same, a.values(), map(b.get, a)))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def like(a: Model, b: Model, *, include: Collection[str] | None = None, exclude: Collection[str] = frozenset()) -> bool:
    """Tell whether two models are equal in some properties.

    Parameters
    ----------
    a, b : model
        The models.
    include : collection of str, optional
        Compare only these properties: ``"shape"``, ``"attributes"``, ``"attributes.unit"``; None: all. The set of nodes
        is always compared, unless ``"members"`` is excluded.
    exclude : collection of str
        Do not compare these properties.
    """
    for found in _differences(a, b):
        names = {found.name, found.name.partition(".")[0]}
        if found.name in (ONLY_A, ONLY_B, NODE_TYPE):
            if MEMBERS not in exclude:
                return False
        elif not names & set(exclude) and (include is None or names & set(include)):
            return False
    return True


_ARRAY_KEYS = {
    2: ("zarr_format", "attributes", "shape", "chunks", "dtype", "fill_value", "order", "filters",
        "dimension_separator", "compressor"),
    3: ("zarr_format", "node_type", "attributes", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
        "fill_value", "codecs", "storage_transformers", "dimension_names"),
}  # fmt: skip
_GROUP_KEYS = ("zarr_format", "node_type", "attributes")


def to_pydantic(model: Model) -> Any:
    """Return a model as a ``GroupSpec`` or ``ArraySpec`` of pydantic-zarr.

    The result equals ``GroupSpec.from_zarr`` of the same file. In format 2 the separator of chunk keys is always set,
    since pydantic-zarr defaults to ``"/"`` and the specification to ``"."``. Keys that the specifications do not define
    are left out, because its classes cannot hold them.

    Parameters
    ----------
    model : model
        An array, or a group with all its members.

    Raises
    ------
    ModuleNotFoundError
        pydantic-zarr is not installed; the extra ``zom`` installs it.
    """
    array_class, group_class = _classes(model.zarr_format)
    document = _strict(to_json(model), model.zarr_format)
    return (group_class if "members" in document else array_class).model_validate(document)


def from_pydantic(spec: Any) -> Model:
    """Return the model of ``spec``, a ``GroupSpec`` or ``ArraySpec`` of pydantic-zarr."""
    return from_json(_without_tuples(spec.model_dump(mode="python")))


def _classes(zarr_format: int) -> tuple[Any, Any]:
    with library_of("zom", "to_pydantic()"):
        if zarr_format == 2:
            from pydantic_zarr.v2 import ArraySpec, GroupSpec

            return ArraySpec, GroupSpec
        from pydantic_zarr.v3 import ArraySpec as ArraySpec3
        from pydantic_zarr.v3 import GroupSpec as GroupSpec3

        return ArraySpec3, GroupSpec3


def _strict(document: dict[str, Any], zarr_format: int) -> dict[str, Any]:
    if "members" not in document:
        return {key: document[key] for key in _ARRAY_KEYS[zarr_format] if key in document}
    kept = {key: document[key] for key in _GROUP_KEYS if key in document}
    kept["members"] = {name: _strict(child, zarr_format) for name, child in document["members"].items()}
    return kept


def _without_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_tuples(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_tuples(item) for item in value]
    return value


@known_arguments
def to_zom(source: Any, *, storage_options: Mapping[str, Any] | None = None) -> GroupModel:
    """Return the model of a file, from its metadata only.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store, zarr.Group or ZarrIO
        The file: a path, URL or store object, or an open io.
    storage_options : mapping, optional
        For URLs, as for `ZarrIO`.

    Returns
    -------
    GroupV2 or GroupV3
        Takes one round of requests if the file has a consolidated document. For an open io, the metadata that it has
        read or written is used, and nothing is read.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        Nothing exists there, or it is not a Zarr group, or a document is damaged.
    UsageError
        The io has neither read nor written anything.
    """
    hierarchy = _hierarchy_of(source)
    with gc_paused():  # a collection would take longer than making the model
        if hierarchy is None:
            hierarchy = parse(open_store(source, storage_options), use_inlined=False).hierarchy
        model = from_hierarchy(hierarchy)
    if not isinstance(model, GROUPS):
        remedy = "Give the location of a group."
        raise NotZarrError("the root is an array, not a group", store=source, remedy=remedy)
    return model


def _hierarchy_of(source: Any) -> Hierarchy | None:
    """Return the hierarchy that an io has read or written, None for anything that is not an io."""
    if not hasattr(source, "write_builder"):
        return None
    parsed = getattr(source, "_parsed", None)
    if parsed is None:
        raise UsageError(
            "this io has neither read nor written a Zarr file",
            store=getattr(source, "source", None),
            remedy="Open a Zarr file with mode 'r', or give the path of the file.",
        )
    hierarchy: Hierarchy = parsed.hierarchy
    return hierarchy


@known_arguments
def create(model: GroupModel, target: Any, *, consolidate: bool = True, overwrite: bool = False) -> None:
    """Create a file with the documents of a model: all groups and arrays, without values.

    Parameters
    ----------
    model : GroupV2 or GroupV3
        The model to write. Keys of a group's document that format 2 does not define are not written.
    target : str, Path, mapping or zarr.abc.store.Store
        The location. The file appears there when it is complete. A store that requires strict JSON, such as Icechunk,
        gets attributes that are NaN or infinite as text.
    consolidate : bool
        Also write the consolidated document, in a store that can use one.
    overwrite : bool
        Replace an existing file.

    Raises
    ------
    StoreExistsError
        Something other than an empty folder exists there, and ``overwrite`` is False.
    MetadataError
        A property has a value that is not valid in a document.
    NameRefusedError
        A member has a name that stores cannot hold. Nothing is written.
    """
    documents = to_documents(model)
    check(model)
    keys = open_store(target)
    abilities = keys.abilities
    for document in documents.values():
        if abilities.strict_json and document.get("attributes"):
            document["attributes"] = strict_attributes(document["attributes"])
    consolidate = consolidate and abilities.consolidates
    check_outside(keys, is_new=True)
    check_free(keys, overwrite=overwrite)
    paths = [path.strip("/") for path, _ in walk(model)]
    with new_file(keys, paths, model.zarr_format, exclusive=not overwrite) as new:
        for key, document in _in_order(documents, model.zarr_format, consolidate=consolidate).items():
            new.set(key, dump(document, strict=abilities.strict_json))
        remove_empty_folder(keys)


def _in_order(
    documents: dict[str, dict[str, Any]], zarr_format: Literal[2, 3], *, consolidate: bool
) -> dict[str, dict[str, Any]]:
    """Return the documents in the order in which they are set, with the consolidated one if requested."""
    if zarr_format == 2:
        return {**documents, **({zarr2.CONSOLIDATED: zarr2.wrap(documents)} if consolidate else {})}
    root = documents.pop(zarr3.DOCUMENT)
    root.pop(zarr3.CONSOLIDATED, None)
    if consolidate:
        members = {split(key)[0]: document for key, document in documents.items()}
        root = zarr3.join_consolidated({"": root, **members}, zarr3.BLOCK)
    return {**documents, zarr3.DOCUMENT: root}
