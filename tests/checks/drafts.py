"""The metadata of a file in memory, to plant defects in: what the consolidated document says is what is read."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any


class Draft:
    """A file of format 2 as a mapping, whose consolidated document can be changed.

    Parameters
    ----------
    keys : dict
        ``{key: bytes}`` of the file.
    """

    key = ".zmetadata"

    def __init__(self, keys: dict[str, bytes]) -> None:
        self._keys = keys
        self.document: Any = json.loads(keys[self.key])

    @classmethod
    def of(cls, path: Path) -> Draft:
        """Return the draft of a file in a folder."""
        return cls({p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()})

    def copy(self) -> Draft:
        """Return a draft that can be changed by itself."""
        draft = type(self).__new__(type(self))
        draft._keys = self._keys
        draft.document = copy.deepcopy(self.document)
        return draft

    def keys(self) -> dict[str, bytes]:
        """Return the file."""
        return {**self._keys, self.key: json.dumps(self.document).encode()}

    # ---- nodes ------------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> dict[str, Any]:
        """``{key: document}``."""
        found: dict[str, Any] = self.document["metadata"]
        return found

    def attributes(self, path: str) -> dict[str, Any]:
        """Return the attributes of a node."""
        found: dict[str, Any] = self.metadata.setdefault(f"{path}/.zattrs".lstrip("/"), {})
        return found

    def array(self, path: str) -> dict[str, Any]:
        """Return the document of an array."""
        found: dict[str, Any] = self.metadata[f"{path}/.zarray"]
        return found

    def drop(self, path: str) -> None:
        """Take a node away, with all that is below it."""
        gone = self._below(path, self.metadata)
        assert gone, path
        for key in gone:
            del self.metadata[key]

    def move(self, path: str, target: str) -> None:
        """Give a node another path; its chunks stay behind, but for the inlined ones."""
        self.copy_node(path, target)
        self.drop(path)

    def copy_node(self, path: str, target: str) -> None:
        """Make a node another time."""
        for documents in (self.metadata, self._inlined):
            found = {key: documents[key] for key in self._below(path, documents)}
            documents.update((target + key[len(path) :], copy.deepcopy(value)) for key, value in found.items())

    def add_group(self, path: str) -> None:
        """Make a group that has nothing in it."""
        self.metadata[f"{path}/.zgroup"] = {"zarr_format": 2}

    def _below(self, path: str, names: Any) -> list[str]:
        """Return the names of what is at a path and below it, of documents and of chunks."""
        return [name for name in names if name.startswith(f"{path}/")]

    def link(self, path: str, name: str, target: str, source: str = ".") -> None:
        """Add a link to a group."""
        links = self.attributes(path).setdefault("zarr_link", [])
        links.append({"name": name, "source": source, "path": target})

    def links(self, path: str) -> list[dict[str, Any]]:
        """Return the links of a group."""
        found: list[dict[str, Any]] = self.attributes(path)["zarr_link"]
        return found

    def refer(self, path: str, name: str, target: str) -> None:
        """Make an attribute a reference."""
        self.attributes(path)[name] = {"zarr_dtype": "object", "value": {"source": ".", "path": target}}

    # ---- values -----------------------------------------------------------------------------------------------------

    @property
    def _inlined(self) -> dict[str, str]:
        found: dict[str, str] = self.document["hdmf_inline"]["chunks"]
        return found

    def write_text(self, path: str, text: str) -> None:
        """Give a scalar text another value, in the metadata and in its chunk."""
        encoded = text.encode()
        chunk = (1).to_bytes(4, "little") + len(encoded).to_bytes(4, "little") + encoded
        self._inlined[f"{path}/0"] = base64.b64encode(chunk).decode()
        self._keys = {**self._keys, f"{path}/0": chunk}

    def forget_inlined(self) -> None:
        """Take all inlined chunks out of the metadata; they are still in the file."""
        self._inlined.clear()

    def set_number(self, path: str, dtype: str, *, shape: list[int] | None = None) -> None:
        """Make an array one of numbers, whose chunks are absent."""
        document = self.array(path)
        document.update(dtype=dtype, filters=None, fill_value=None)
        if shape is not None:
            document.update(shape=shape, chunks=[max(n, 1) for n in shape])
            attributes = self.attributes(path)
            attributes.pop("_ARRAY_DIMENSIONS", None)
        self.attributes(path)["zarr_dtype"] = {"<i2": "int16", "<f4": "float32", "<f8": "float64", "|b1": "bool"}.get(
            dtype, "int64"
        )
        self.attributes(path).pop("_hdmf", None)

    def set_text(self, path: str, texts: str) -> None:
        """Give an array the texts of another one; its attributes stay."""
        self.metadata[f"{path}/.zarray"] = copy.deepcopy(self.array(texts))
        self.attributes(path)["zarr_dtype"] = "str"
        self.attributes(path).pop("_ARRAY_DIMENSIONS", None)
        self._inlined.pop(f"{path}/0", None)
        self._keys = {**self._keys, f"{path}/0": self._keys[f"{texts}/0"]}

    def set_shape(self, path: str, shape: list[int]) -> None:
        """Give an array another shape."""
        self.array(path).update(shape=shape, chunks=[max(n, 1) for n in shape])
        self.attributes(path).pop("_ARRAY_DIMENSIONS", None)
        self.attributes(path).pop("_hdmf", None)
