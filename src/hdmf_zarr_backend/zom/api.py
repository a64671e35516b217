"""The Zarr Object Model in one place: what a program that works with models of files imports.

>>> from hdmf_zarr_backend.zom.api import to_zom
>>> model = to_zom("session.nwb.zarr")

Source: ZEP 6 (draft); issue "Open to every other tool", part 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.errors import NotZarrError, UsageError
from hdmf_zarr_backend.model import consolidated, v2, v3
from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.garbage import uncollected
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.opening import check_free, open_keys, remove_empty_folder
from hdmf_zarr_backend.write.remote import new_file
from hdmf_zarr_backend.zom.diff import ModelDifference, diff, like
from hdmf_zarr_backend.zom.documents import from_consolidated, from_hierarchy, to_consolidated, to_hierarchy
from hdmf_zarr_backend.zom.formats import FormatMapping, to_format
from hdmf_zarr_backend.zom.jsonform import dumps, from_json, to_json
from hdmf_zarr_backend.zom.models import (
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
from hdmf_zarr_backend.zom.rules import ModelProblem, check, find_problems
from hdmf_zarr_backend.zom.schema import json_schema
from hdmf_zarr_backend.zom.typed import from_pydantic, to_pydantic

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


def to_zom(source: Any, *, storage_options: Mapping[str, Any] | None = None) -> GroupModel:
    """Return the model of a file, from its metadata alone.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store, zarr.Group or ZarrIO
        The file: a path or URL, what holds the file, or an open io.
    storage_options : mapping, optional
        For URLs, as of `ZarrIO`.

    Returns
    -------
    GroupV2 or GroupV3
        One round of requests where there is a consolidated document. An open io is asked for what it has read or
        written; nothing is read for it.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        Nothing is there, or no Zarr group, or a document is damaged.
    UsageError
        The io has neither read nor written anything.
    """
    hierarchy = _hierarchy_of(source)
    with uncollected():  # a new model is no garbage, and looking for some takes longer than making it
        if hierarchy is None:
            hierarchy = parse(open_keys(source, storage_options), use_inlined=False).hierarchy
        model = from_hierarchy(hierarchy)
    if not isinstance(model, GROUPS):
        raise NotZarrError("the root is an array, not a group", store=source)
    return model


def _hierarchy_of(source: Any) -> Hierarchy | None:
    """Return what an io knows of its file, None for anything that is no io."""
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


def create(model: GroupModel, target: Any, *, consolidate: bool = True, overwrite: bool = False) -> None:
    """Make a file of the documents of a model: all groups and arrays, no values.

    Parameters
    ----------
    model : GroupV2 or GroupV3
        What the file shall be. Keys of a group's document that format 2 does not know are not written.
    target : str, Path, mapping or zarr.abc.store.Store
        Where. The file appears when it is whole.
    consolidate : bool
        Write the consolidated document too.
    overwrite : bool
        Replace what is there.

    Raises
    ------
    StoreExistsError
        Anything but an empty folder is there, and ``overwrite`` is False.
    MetadataError
        A property has a value that no document may have.
    NameRefusedError
        A member has a name that no store can hold; nothing is written.
    """
    hierarchy = to_hierarchy(model)
    check(model)
    keys = open_keys(target)
    check_free(keys, overwrite=overwrite)
    with new_file(keys, hierarchy, exclusive=not overwrite) as new:
        _write(new, hierarchy, consolidate=consolidate)
        remove_empty_folder(keys)


def _write(keys: KeyStore, hierarchy: Hierarchy, *, consolidate: bool) -> None:
    last: dict[str, Any] = {}
    if hierarchy.zarr_format == 2:
        documents = v2.to_documents(hierarchy)
        if consolidate:
            last[v2.CONSOLIDATED] = consolidated.wrap(documents)
    else:
        documents = v3.to_documents(hierarchy)
        root = documents.pop(v3.DOCUMENT)
        root.pop(v3.CONSOLIDATED, None)
        block = {"kind": "inline", "must_understand": False}
        last[v3.DOCUMENT] = v3.consolidated(hierarchy, block) if consolidate else root
    for key, document in (documents | last).items():
        keys.set(key, dump(document))
