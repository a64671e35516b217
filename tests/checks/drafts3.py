"""The metadata of a file of format 3 in memory, to plant the same defects in as in one of format 2."""

from __future__ import annotations

import base64
import copy
from typing import Any

from tests.checks.drafts import Draft

_DOCUMENT = "zarr.json"
_NAMES = {"<i2": "int16", "<f4": "float32", "<f8": "float64", "|b1": "bool"}
_LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


class Draft3(Draft):
    """A file of format 3 as a mapping, whose consolidated document can be changed; as `Draft` otherwise."""

    key = _DOCUMENT

    # ---- nodes ------------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> dict[str, Any]:
        """``{path: document}`` of all nodes but the root."""
        found: dict[str, Any] = self.document["consolidated_metadata"]["metadata"]
        return found

    def attributes(self, path: str) -> dict[str, Any]:
        """Return the attributes of a node."""
        document = self.metadata[path] if path else self.document
        found: dict[str, Any] = document.setdefault("attributes", {})
        return found

    def array(self, path: str) -> dict[str, Any]:
        """Return the document of an array."""
        found: dict[str, Any] = self.metadata[path]
        assert found["node_type"] == "array", path
        return found

    def add_group(self, path: str) -> None:
        """Make a group that has nothing in it."""
        self.metadata[path] = {"zarr_format": 3, "node_type": "group", "attributes": {}}

    def _below(self, path: str, names: Any) -> list[str]:
        return [name for name in names if name == path or name.startswith(f"{path}/")]

    def link(self, path: str, name: str, target: str, source: str = ".") -> None:
        """Add a link to a group."""
        links = self.attributes(path).setdefault("_LINKS", [])
        links.append({"name": name, "source": source, "path": target})

    def links(self, path: str) -> list[dict[str, Any]]:
        """Return the links of a group."""
        found: list[dict[str, Any]] = self.attributes(path)["_LINKS"]
        return found

    def refer(self, path: str, name: str, target: str) -> None:
        """Make an attribute a reference."""
        self.attributes(path)[name] = {"_REFERENCE": {"source": ".", "path": target}}

    # ---- values -----------------------------------------------------------------------------------------------------

    @property
    def _inlined(self) -> dict[str, str]:
        found: dict[str, str] = self.document["consolidated_metadata"]["hdmf_inline"]["chunks"]
        return found

    def write_text(self, path: str, text: str) -> None:
        """Give a scalar text another value, in the metadata and in its chunk."""
        encoded = text.encode()
        chunk = (1).to_bytes(4, "little") + len(encoded).to_bytes(4, "little") + encoded
        assert f"{path}/c" in self._inlined
        self._inlined[f"{path}/c"] = base64.b64encode(chunk).decode()
        self._keys = {**self._keys, f"{path}/c": chunk}

    def set_number(self, path: str, dtype: str, *, shape: list[int] | None = None) -> None:
        """Make an array one of numbers, whose chunks are absent."""
        document = self.array(path)
        document.update(data_type=_NAMES[dtype], codecs=[_LITTLE], fill_value=dtype != "|b1" and 0)
        attributes = self.attributes(path)
        for name in ("_hdmf", "_REFERENCE_FIELDS"):
            attributes.pop(name, None)
        attributes["_DTYPE"] = _NAMES[dtype]
        if shape is not None:
            self.set_shape(path, shape)

    def set_text(self, path: str, texts: str) -> None:
        """Give an array the texts of another one; its attributes stay."""
        attributes = self.attributes(path)
        self.metadata[path] = {**copy.deepcopy(self.array(texts)), "attributes": attributes}
        attributes["_DTYPE"] = "str"
        self._forget_names(path)
        self._inlined.pop(f"{path}/c/0", None)
        self._keys = {**self._keys, f"{path}/c/0": self._keys[f"{texts}/c/0"]}

    def set_shape(self, path: str, shape: list[int]) -> None:
        """Give an array another shape."""
        grid = {"name": "regular", "configuration": {"chunk_shape": [max(n, 1) for n in shape]}}
        self.array(path).update(shape=shape, chunk_grid=grid)
        self.attributes(path).pop("_hdmf", None)
        self._forget_names(path)

    def _forget_names(self, path: str) -> None:
        self.array(path).pop("dimension_names", None)
        self.attributes(path).pop("_ARRAY_DIMENSIONS", None)
