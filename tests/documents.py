"""The documents of a stored file in the words of format 2, whatever its format, for tests of what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.mapping import attributes3, formats
from hdmf_zarr_backend.model import v2, v3
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.storage.keys import LocalKeys

_OF_TYPES = (attributes3.DTYPE_3, attributes3.REFERENCE_FIELDS_3)


def document(path: Path, key: str) -> Any:
    """Return the document ``key`` of format 2; of a file of format 3, what it would be."""
    if not (path / v3.DOCUMENT).exists():
        return json.loads((path / key).read_text(encoding="utf-8"))
    node, _, name = key.rpartition("/")
    if name == v2.CONSOLIDATED:
        found = formats.parse_consolidated({v3.DOCUMENT: _load(path / v3.DOCUMENT)})
        assert found is not None
        return {"metadata": v2.to_documents(found[0])}
    stored = _load(path / node / v3.DOCUMENT)
    root = {"zarr_format": 3, "node_type": "group"}
    hierarchy = formats.parse_documents({v3.DOCUMENT: root, f"x/{v3.DOCUMENT}": stored})
    found_node = hierarchy.get("x")
    assert found_node is not None
    return dict(v2.node_documents("", found_node))[name]


def _load(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def forget_consolidated(path: Path) -> None:
    """Take the consolidated document away."""
    if not (path / v3.DOCUMENT).exists():
        (path / v2.CONSOLIDATED).unlink(missing_ok=True)
        return
    root = _load(path / v3.DOCUMENT)
    root.pop(v3.CONSOLIDATED, None)
    (path / v3.DOCUMENT).write_text(json.dumps(root), encoding="utf-8")


def change_attributes(path: Path, node: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the attributes of a node, which ``change`` is given in the words of format 2."""
    forget_consolidated(path)
    if not (path / v3.DOCUMENT).exists():
        file = path / node / v2.ATTRIBUTES
        attributes = _load(file)
        change(attributes)
        file.write_text(json.dumps(attributes), encoding="utf-8")
        return
    file = path / node / v3.DOCUMENT
    stored = _load(file)
    raw = stored["attributes"]
    attributes = attributes3.decode_values(raw)
    change(attributes)
    kept = {key: raw[key] for key in _OF_TYPES if key in raw}
    stored["attributes"] = {**kept, **attributes3.encode_values(attributes)}
    file.write_text(json.dumps(stored), encoding="utf-8")


def is_fresh(path: Path) -> bool:
    """Tell whether the consolidated document says what the documents say."""
    keys = LocalKeys(str(path))
    parsed = parse(keys)
    return parsed.consolidated and parsed.hierarchy == parse(keys, use_consolidated=False).hierarchy


def is_consolidated(path: Path) -> bool:
    """Tell whether there is a consolidated document."""
    return parse(LocalKeys(str(path))).consolidated
