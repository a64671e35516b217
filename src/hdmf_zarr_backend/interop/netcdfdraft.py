"""The draft of 2018 -> the documents of NCZarr 2.0 that say the same.

It never shipped in this form. What follows it is read for its meaning, and never written.

==================================  ==================================================================================
the draft                           here
==================================  ==================================================================================
``nczarr_version`` in               ``version`` in ``_nczarr_superblock``
``.zdataset``
``zarr_format`` in the root only    in every document
``.zattrs`` inside ``.zgroup``      among the attributes; those in an object of their own count where both are there
``.zattr_type``                     ``types`` in ``_nczarr_attr``
``.zdims``                          ``dimensions`` in ``_nczarr_group``
``.ztypedefs``                      ``typedefs`` in ``_nczarr_group``, which NCZarr 2.0 does not have
``dimensions`` in ``.zarray``       ``dimension_references`` in ``_nczarr_array``
``<i16``, ``short``                 ``<i2``: the draft counts bits, and has the names of netCDF
==================================  ==================================================================================

Source: "NetCDF ZARR Storage Representation" (2018), "Mapping" and "Type Definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, NotZarrError, ZarrBackendError
from hdmf_zarr_backend.interop.netcdftypes import NUMBERS
from hdmf_zarr_backend.mapping import nczarr
from hdmf_zarr_backend.mapping.reserved import NCZARR_ATTR
from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.nodes import Attributes, GroupNode, absolute, split
from hdmf_zarr_backend.read.bounds import check_texts, read_documents
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.json_text import load

__all__ = ["TYPEDEFS", "read_draft"]

TYPEDEFS = "typedefs"

_DATASET = ".zdataset"
_ATTRIBUTE_TYPES = ".zattr_type"
_DIMENSIONS = ".zdims"
_TYPEDEFS = ".ztypedefs"

_BITS = re.compile(r"([<>|])(?=[iu]|f[36])([iuf])(8|16|32|64)")  # <f8 has eight bytes: there is no number of eight bits
_OPAQUE = re.compile(r"opaque\(([1-9][0-9]*)\)")
_WORDS = {word: f"{'|' if code[1] == '1' else '<'}{code}" for code, word in NUMBERS.items()}

Documents = dict[str, Any]


def read_draft(keys: KeyStore) -> GroupNode[Attributes] | None:
    """Return the root of a file that follows the draft, in the words of NCZarr 2.0; None for any other file.

    Raises
    ------
    MetadataError
        A document is damaged; store and node are named.
    NotZarrError
        The root is an array.
    """
    dataset = keys.get(_DATASET)
    if dataset is None:
        return None
    try:
        root = v2.from_documents(_documents(keys, dataset)).root
    except ZarrBackendError as error:
        raise error.located(store=keys.location) from error.__cause__
    if not isinstance(root, GroupNode):
        raise NotZarrError("the root is an array, not a group", store=keys.location, remedy="Open the array with zarr.")
    return root


def _documents(keys: KeyStore, dataset: bytes) -> Documents:
    texts = read_documents(keys, v2.DOCUMENT_NAMES)
    paths = sorted({split(key)[0] for key in texts} | {""})
    beside = [v2.key_of(path, name) for path in paths for name in (_ATTRIBUTE_TYPES, _DIMENSIONS, _TYPEDEFS)]
    texts |= keys.get_many(beside) | {_DATASET: dataset}
    check_texts(texts.values(), keys.read_rules.limits)
    stored = {key: load(text, key=key) for key, text in texts.items()}
    made = {v2.key_of(path, name): found for path in paths for name, found in _of_node(stored, path)}
    made[v2.ATTRIBUTES][nczarr.SUPERBLOCK] = {"version": _object(stored, "", _DATASET).get("nczarr_version")}
    return made


def _of_node(stored: Documents, path: str) -> Iterator[tuple[str, Documents]]:
    array, group = _object(stored, path, v2.ARRAY), _object(stored, path, v2.GROUP)
    attributes = {**_object(group, path, v2.ATTRIBUTES, inside=True), **_object(stored, path, v2.ATTRIBUTES)}
    types = _object(stored, path, _ATTRIBUTE_TYPES)
    if types:
        attributes[NCZARR_ATTR] = {
            "types": {name: _attribute_type(t, attributes.get(name)) for name, t in types.items()}
        }
    if v2.key_of(path, v2.ARRAY) in stored:
        references = array.pop("dimensions", None)
        if references is not None:
            attributes[nczarr.ARRAY] = {"dimension_references": references}
        yield v2.ARRAY, {"zarr_format": 2, **array, **({"dtype": _plain(array["dtype"])} if "dtype" in array else {})}
    else:
        definitions = {name: _plain_definition(said) for name, said in _object(stored, path, _TYPEDEFS).items()}
        attributes[nczarr.GROUP] = {"dimensions": _object(stored, path, _DIMENSIONS), TYPEDEFS: definitions}
        yield v2.GROUP, {"zarr_format": 2 if path else group.get("zarr_format", 2)}
    yield v2.ATTRIBUTES, attributes


def _object(documents: Documents, path: str, name: str, *, inside: bool = False) -> Documents:
    """Return a copy of the document ``name`` of a node, or of what is called so in another one; ``{}`` for none."""
    found = documents.get(name if inside else v2.key_of(path, name), {})
    if not isinstance(found, dict):
        raise MetadataError(f"{name} is no JSON object", path=absolute(path), remedy="Restore it from a copy.")
    return dict(found)


def _attribute_type(kind: Any, value: Any) -> Any:
    """Return the type of an attribute; the draft takes characters for integers of eight bits."""
    plain = _plain(kind)
    return None if isinstance(value, str) and isinstance(plain, str) and plain[1:2] in ("i", "u") else plain


def _plain_definition(said: Any) -> Any:
    return {key: _plain(part) for key, part in said.items()} if isinstance(said, dict) else _plain(said)


def _plain(kind: Any) -> Any:
    """Return a type of the draft as Zarr has it; what is none, as it is."""
    if isinstance(kind, list):
        return [[f[0], _plain(f[1]), *f[2:]] if isinstance(f, list) and len(f) > 1 else f for f in kind]
    if not isinstance(kind, str):
        return kind
    opaque = _OPAQUE.fullmatch(kind)
    if opaque is not None:
        return f"|V{opaque[1]}"
    match = _BITS.fullmatch(kind)
    if match is None:
        return _WORDS.get(kind, kind)
    size = int(match[3]) // 8
    return f"{match[1] if size > 1 else '|'}{match[2]}{size}"
