"""The Zarr Object Model (ZEP 6) of a file: models of pydantic-zarr from its metadata, and empty files from models.

Source: ZEP 6 (draft); pydantic-zarr 0.9, ``GroupSpec`` and ``ArraySpec``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hdmf_zarr_backend.encoding import registry, zarr2, zarr3
from hdmf_zarr_backend.encoding.attributes import strict_attributes
from hdmf_zarr_backend.encoding.parser import check_outside, parse
from hdmf_zarr_backend.errors import MetadataError, NotZarrError, UsageError, at, known_arguments
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy, Node, gc_paused, join, split
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.store.opening import check_free, open_store, remove_empty_folder
from hdmf_zarr_backend.write.plan import WritePlan, checked_name
from hdmf_zarr_backend.write.writer import new_file

__all__ = ["from_zom", "to_zom"]

_MEMBERS = "members"


@known_arguments
def to_zom(source: Any, *, storage_options: Mapping[str, Any] | None = None) -> Any:
    """Return the model of a file as a ``GroupSpec`` of pydantic-zarr, from its metadata only.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store, zarr.Group, ZarrIO or DryRun
        The file: a path, URL or store object; an open io, whose metadata are used as it has read or written them; or
        the result of `dry_run`.
    storage_options : mapping, optional
        For URLs, as for `ZarrIO`.

    Returns
    -------
    pydantic_zarr.v2.GroupSpec or pydantic_zarr.v3.GroupSpec
        A model of format 2 always states the separator of chunk keys: the default of pydantic-zarr is ``"/"``, that
        of Zarr ``"."``. Keys that the Zarr specification does not define are left out, because these classes cannot
        hold them. Rows of format 3 keep their fill value, which pydantic-zarr does not validate.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        Nothing exists there, or it is not a Zarr group, or a document is damaged.
    UsageError
        The io has neither read nor written anything.
    ModuleNotFoundError
        pydantic-zarr is not installed; the extra ``zom`` installs it.
    """
    if hasattr(source, "write_builder") and getattr(source, "_parsed", None) is None:
        problem = "this io has neither read nor written a Zarr file"
        remedy = "Open a Zarr file with mode 'r', or give the path of the file."
        raise UsageError(problem, store=getattr(source, "source", None), remedy=remedy)
    # an open io and a dry run have the nodes; anything else is opened
    hierarchy, location = getattr(getattr(source, "_parsed", source), "hierarchy", None), None
    if not isinstance(hierarchy, Hierarchy):
        store = open_store(source, storage_options)
        hierarchy, location = parse(store, use_inlined=False).hierarchy, store.location
    if isinstance(hierarchy.root, Dataset):
        raise NotZarrError("the root is an array", store=location, remedy="Give the location of a group.")
    with library_of("zom", "to_zom()"):
        classes = import_module(f"pydantic_zarr.v{hierarchy.zarr_format}")
    array_class, group_class = classes.ArraySpec, classes.GroupSpec
    members: dict[str, dict[str, Any]] = defaultdict(dict)
    spec: Any = None
    # The garbage collector would take longer than making the model. Members come before their group, in a loop and not
    # recursively, because files may be nested deeper than Python calls.
    with gc_paused():
        for path, node in reversed([*hierarchy.walk()]):
            known = (group_class, array_class)[isinstance(node, Dataset)].model_fields
            document = {key: value for key, value in _document(node, hierarchy.zarr_format).items() if key in known}
            with at(location, path):
                if not isinstance(node, Dataset):
                    spec = group_class(**{**document, _MEMBERS: dict(reversed(members.pop(path, {}).items()))})
                elif isinstance(document.get("fill_value"), dict):
                    # rows in format 3: pydantic-zarr 0.9 does not know such a fill value, so it must not validate them
                    tuples = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
                    spec = array_class.model_construct(**document | tuples)
                else:
                    try:
                        spec = array_class(**document)
                    except ValueError as error:  # that of pydantic
                        problem = f"pydantic-zarr refuses the array ({' '.join(str(error).split())[:300]})"
                        raise MetadataError(problem, remedy="Update pydantic-zarr.") from error
            parent, name = split(path)
            members[parent][name] = spec
    return spec  # the root is the last one


def model_json(hierarchy: Hierarchy) -> dict[str, Any]:
    """Return a file as JSON in the structure of ZEP 6: its documents, with all their keys, a group with ``members``."""
    documents: dict[str, dict[str, Any]] = {}
    for path, node in hierarchy.walk():
        document = _document(node, hierarchy.zarr_format)
        if not isinstance(node, Dataset):
            if _MEMBERS in document:
                document[f"_{_MEMBERS}"] = document.pop(_MEMBERS)  # ZEP 6 requires it, because "members" is its own key
            document[_MEMBERS] = {}
        if path:
            parent, name = split(path)
            documents[parent][_MEMBERS][name] = document
        documents[path] = document
    return documents[""]


def _document(node: Node, zarr_format: int) -> dict[str, Any]:
    """Return the document of a node with its attributes, also if there are none."""
    if zarr_format == 3:
        document = {"attributes": {}, **zarr3.encode_node(node)}
        document.pop(zarr3.CONSOLIDATED, None)  # says the same as the model
        return document
    if not isinstance(node, Dataset):
        return {"zarr_format": 2, "attributes": node.attributes, **node.extra}
    separator = node.stored.chunk_keys.separator
    return {**zarr2.encode_array(node.stored), "attributes": node.attributes, "dimension_separator": separator}


@known_arguments
def from_zom(model: Any, target: Any, *, consolidate: bool = True, overwrite: bool = False) -> None:
    """Create a file with the documents of a model: all groups and arrays, without values.

    Parameters
    ----------
    model : pydantic_zarr.v2.GroupSpec or pydantic_zarr.v3.GroupSpec
        The model to write.
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
        A property has a value that is not valid in a document, or that this package does not support.
    NameRefusedError
        A member has a name that stores cannot hold. Nothing is written.
    """
    hierarchy = _hierarchy(_listed(model.model_dump(mode="python", warnings=False)))
    store = open_store(target)
    abilities = store.abilities
    if abilities.strict_json:
        for _, node in hierarchy.walk():
            node.attributes = strict_attributes(node.attributes)
    check_outside(store, is_new=True)
    check_free(store, overwrite=overwrite)
    consolidates = consolidate and abilities.consolidates
    options = WriteOptions(strict_json=abilities.strict_json, consolidate_metadata=consolidates)
    with new_file(store, WritePlan(hierarchy), options, exclusive=not overwrite) as (change, planned):
        root = planned.write()
        remove_empty_folder(store)
        change.commit({}, root)


def _hierarchy(model: dict[str, Any]) -> Hierarchy:
    documents: dict[str, Any] = {}
    stack = [("", model)]
    while stack:
        path, document = stack.pop()
        members = document.pop(_MEMBERS, None) or {}
        with at(None, path):
            stack += [(join(path, checked_name(name)), member) for name, member in members.items()]
        if document["zarr_format"] == 2:
            attributes = document.pop("attributes")
            if attributes:
                documents[join(path, zarr2.ATTRIBUTES)] = attributes
            if document.get("dimension_separator") == ".":  # the default of Zarr
                del document["dimension_separator"]
            documents[join(path, zarr2.ARRAY if "shape" in document else zarr2.GROUP)] = document
        else:
            names = document.pop("dimension_names", None)
            documents[join(path, zarr3.DOCUMENT)] = document | ({} if names is None else {"dimension_names": names})
    return registry.parse_documents(documents)


def _listed(value: Any) -> Any:
    """Return JSON without tuples."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value
