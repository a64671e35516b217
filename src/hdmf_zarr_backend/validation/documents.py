"""Items as JSON documents, for JSON Schema."""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.validation.view import Item, Value

GROUP = "group"
DATASET = "dataset"


def document_of(root: Item) -> dict[str, Any]:
    """Return an item, with all that is below it and what its links lead to.

    A link to a group that it lies in itself has no content of its own (``"is_above": true``), else there were no end.
    """
    document = _document("root", root, is_link=False)
    stack = [(root, document, frozenset({root}))]
    while stack:  # no recursion: a file may be nested deeper than Python's calls
        item, here, above = stack.pop()
        for member in item.members:
            child = _document(member.name, member.item, is_link=member.is_link)
            here["members"].append(child)
            if member.item in above:
                child["is_above"] = True
            elif member.item.is_group:
                stack.append((member.item, child, above | {member.item}))
    return document


def _document(name: str, item: Item, *, is_link: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": name,
        "kind": GROUP if item.is_group else DATASET,
        "is_link": is_link,
        "data_type": item.data_type,
        "path": item.path,
        "attributes": {key: _value(value) for key, value in item.attributes.items()},
    }
    return {**document, "members": []} if item.value is None else {**document, **_value(item.value)}


def _value(value: Value) -> dict[str, Any]:
    found: dict[str, Any] = {
        "dtype": list(value.dtype) if isinstance(value.dtype, tuple) else value.dtype,
        "shape": None if value.shape is None else list(value.shape),
    }
    if value.format is not None:
        found["format"] = value.format
    if value.target is not None:
        found["target"] = value.target
    return found
