"""The documents of a stored file in the form of format 2, whatever its format, for tests of stored metadata."""

import json
from collections.abc import Callable
from typing import Any

from hdmf_zarr_backend.encoding import registry, zarr2, zarr3
from hdmf_zarr_backend.encoding.elements import INLINE_KEY
from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.encoding.zarr3 import DTYPE_3, REFERENCE_FIELDS_3, decode_values, encode_values
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy
from hdmf_zarr_backend.store.opening import open_store
from tests.places import Place, delete, put

_OF_TYPES = (DTYPE_3, REFERENCE_FIELDS_3)


def document(place: Place, key: str) -> Any:
    """Return the document ``key`` of format 2; of a file of format 3, what it would be."""
    root = _load(place, zarr3.DOCUMENT)
    if root is None:
        return _there(place, key)
    node, _, name = key.rpartition("/")
    if name == zarr2.CONSOLIDATED:
        hierarchy = zarr3.parse_consolidated(root)
        assert hierarchy is not None
        return {"metadata": zarr2.encode_documents(hierarchy)}
    stored = _there(place, _key(node, zarr3.DOCUMENT))
    empty = {"zarr_format": 3, "node_type": "group"}
    found_node = registry.parse_documents({zarr3.DOCUMENT: empty, f"x/{zarr3.DOCUMENT}": stored}).get("x")
    assert found_node is not None
    return dict(zarr2.documents("", found_node))[name]


def metadata(source: Place | Hierarchy) -> dict[str, str]:
    """Return the documents of all nodes of a file, or of a planned one, as text, in which NaN equals itself."""
    hierarchy = source if isinstance(source, Hierarchy) else parse(open_store(source)).hierarchy
    kind = registry.FORMATS[hierarchy.zarr_format]
    return {
        key: json.dumps(entry, sort_keys=True)
        for path, node in hierarchy.walk()
        for key, entry in kind.documents(path, node)
    }


def arrays(place: Place) -> dict[str, Dataset]:
    return {path: node for path, node in parse(open_store(place)).hierarchy.walk() if isinstance(node, Dataset)}


def has_document(place: Place, key: str) -> bool:
    """Return whether the file has the document ``key`` of format 2; in format 3, whether it has that node."""
    node = key.rpartition("/")[0]
    keys = open_store(place)
    return keys.get(key) is not None or keys.get(_key(node, zarr3.DOCUMENT)) is not None


def _key(node: str, name: str) -> str:
    return f"{node}/{name}" if node else name


def _load(place: Place, key: str) -> Any:
    value = open_store(place).get(key)
    return None if value is None else json.loads(value)


def _there(place: Place, key: str) -> Any:
    result = _load(place, key)
    assert result is not None, f"{place} has no {key}"
    return result


def _store(place: Place, key: str, found: Any) -> None:
    put(place, key, json.dumps(found).encode())


def forget_consolidated(place: Place) -> None:
    root = _load(place, zarr3.DOCUMENT)
    if root is None:
        delete(place, zarr2.CONSOLIDATED)
        return
    root.pop(zarr3.CONSOLIDATED, None)
    _store(place, zarr3.DOCUMENT, root)


def forget_inlined(place: Place) -> None:
    """Take the inlined chunks out of the consolidated document; they are still in the file."""
    root = _load(place, zarr3.DOCUMENT)
    key = zarr2.CONSOLIDATED if root is None else zarr3.DOCUMENT
    consolidated = _there(place, key)
    del (consolidated if root is None else consolidated[zarr3.CONSOLIDATED])[INLINE_KEY]
    _store(place, key, consolidated)


def change_attributes(place: Place, node: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the attributes of a node; ``change`` gets them in the form of format 2."""
    forget_consolidated(place)
    if _load(place, zarr3.DOCUMENT) is None:
        key = _key(node, zarr2.ATTRIBUTES)
        attributes = _load(place, key) or {}
        change(attributes)
        _store(place, key, attributes)
        return
    key = _key(node, zarr3.DOCUMENT)
    stored = _there(place, key)
    raw = stored["attributes"]
    attributes = decode_values(raw)
    change(attributes)
    stored["attributes"] = {**{key: raw[key] for key in _OF_TYPES if key in raw}, **encode_values(attributes)}
    _store(place, key, stored)


def is_fresh(place: Place) -> bool:
    """Return whether the consolidated document agrees with the documents of the nodes."""
    keys = open_store(place)
    parsed = parse(keys)
    return parsed.consolidated and parsed.hierarchy == parse(keys, use_consolidated=False).hierarchy


def is_consolidated(place: Place) -> bool:
    return parse(open_store(place)).consolidated


def check_error(error: BaseException, store: Place, node: str | None = None) -> None:
    """Assert that an error says where it happened and what to do."""
    assert isinstance(error, ZarrBackendError)
    assert (error.store, error.path) == (str(store), node)
    assert error.remedy.endswith((".", "?"))
    assert all(part in str(error) for part in (error.problem, str(store), node or "", error.remedy))
