"""Arrays and scalars of a file -> DatasetBuilders, with HDMF's word for what they hold.

A scalar is a value in its builder, everything else stays in the file until it is asked for. The references in scalars
may lead to builders that are made later, so they are kept aside, by path, for whoever makes those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.chunks import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.arrays.stored_chunks import stored_chunks
from hdmf_zarr_backend.arrays.unwritten import check_unwritten
from hdmf_zarr_backend.changes.editable import EditableArray
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.mapping.dimensions import decode_dimensions
from hdmf_zarr_backend.mapping.references import Reference, decode_reference
from hdmf_zarr_backend.mapping.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, join
from hdmf_zarr_backend.read.arraykinds import field_list, field_type, is_scalar
from hdmf_zarr_backend.read.builders import make_dataset
from hdmf_zarr_backend.read.columns import EditableColumn
from hdmf_zarr_backend.read.datasets import BuilderReferences, BuilderTable, Resolver
from hdmf_zarr_backend.stores.base import KeyStore

TYPED = frozenset({"neurodata_type", "data_type"})


class DatasetMaker:
    """Makes the builders of the datasets of one file.

    Parameters
    ----------
    keys : KeyStore
        The store of the file.
    hierarchy : Hierarchy
        Its metadata.
    source : str
        What the builders say they come from.
    resolver : Resolver
        Resolves references of datasets.
    edits : Edits, optional
        Takes the changes to arrays, where the file is open for changes.

    Attributes
    ----------
    scalar_references : dict of str to Reference
        By path, the scalar datasets whose builder waits for the target of its reference.
    scalar_rows : dict of str to BuilderTable
        By path, the scalar rows whose builder waits for the targets of its references.
    """

    def __init__(
        self, keys: KeyStore, hierarchy: Hierarchy, source: str, resolver: Resolver, *, edits: Edits | None = None
    ) -> None:
        self.scalar_references: dict[str, Reference] = {}
        self.scalar_rows: dict[str, BuilderTable] = {}
        self._keys = keys
        self._hierarchy = hierarchy
        self._source = source
        self._resolver = resolver
        self._edits = edits
        self._cache = ChunkCache()

    @property
    def file_id(self) -> str | None:
        """Object id of the root, which stands for the file."""
        value = self._hierarchy.root.attributes.get("object_id")
        return value if isinstance(value, str) else None

    def fetch_scalars(self, nodes: list[tuple[str, Any]]) -> dict[str, bytes]:
        """Fetch together the values that builders must hold."""
        names = [(path, node.chunk_name((0,) * len(node.shape))) for path, node in nodes if is_scalar(node)]
        return stored_chunks(self._keys, names)

    def lazy(self, path: str, node: ArrayNode[Attributes]) -> LazyArray:
        """Return the array at ``path``."""
        notes = notes_of(node.attributes)
        maxshape = notes.get("maxshape")
        elements = _to_ascii if notes.get("text") == "ascii" else None
        bound = tuple(maxshape) if isinstance(maxshape, list) else None
        options: dict[str, Any] = {"maxshape": bound, "elements": elements, "file_id": self.file_id}
        if self._edits is None:
            return LazyArray(self._keys, path, node, self._cache, **options)
        # the data of a typed dataset are the data of a column, and those hdmf extends
        check_unwritten(self._keys, path, node)  # a change of its shape looks at each chunk that it states
        array = EditableColumn if TYPED & node.attributes.keys() else EditableArray
        return array(self._edits, self._keys, path, node, self._cache, **options)

    def make(
        self, path: str, name: str, node: ArrayNode[Attributes], attributes: dict[str, Any], scalars: dict[str, bytes]
    ) -> Any:
        """Return the builder of the array at ``path``; ``scalars`` are the values that `fetch_scalars` returned."""
        if is_scalar(node):
            data, dtype = self._scalar(path, node, scalars)
            return make_dataset(name, data=data, dtype=dtype, attributes=attributes, source=self._source)
        lazy = self.lazy(path, node)
        data, dtype = self._array(lazy, node)
        return make_dataset(
            name,
            data=data,
            dtype=dtype,
            attributes=attributes,
            maxshape=lazy.maxshape,
            dimension_labels=decode_dimensions(node.attributes),
            chunks=True,
            source=self._source,
        )

    def _array(self, lazy: LazyArray, node: ArrayNode[Attributes]) -> tuple[Any, Any]:
        word = node.attributes.get(DTYPE)
        if isinstance(word, list):
            names, words = field_list(word)
            if lazy.dtype.hasobject:
                return BuilderTable(lazy, self._resolver, names, words), _dtype_list(names, words)
        if lazy.dtype.names is not None:
            return self._structured(lazy)
        if word in ("object", "region") and lazy.dtype == object:
            return BuilderReferences(lazy, self._resolver), "object"
        if lazy.dtype == object:
            filters = node.filters or [{}]
            is_bytes = notes_of(node.attributes).get("text") == "ascii" or filters[0].get("id") == "vlen-bytes"
            return lazy, "ascii" if is_bytes else "utf8"
        return lazy, lazy.dtype

    def _structured(self, lazy: LazyArray) -> tuple[Any, Any]:
        if not lazy.dtype.hasobject:
            return lazy, _fields_of(lazy.dtype)
        names = list(lazy.dtype.names or ())
        words = ["object" if lazy.dtype[n].hasobject else lazy.dtype[n].base.name for n in names]
        return BuilderTable(lazy, self._resolver, names, words), _dtype_list(names, words)

    def _scalar(self, path: str, node: ArrayNode[Attributes], scalars: dict[str, bytes]) -> tuple[Any, Any]:
        lazy = self.lazy(path, node)
        values = lazy.decoded(scalars.get(join(path, node.chunk_name((0,) * len(node.shape)))))
        word = node.attributes.get(DTYPE)
        value = values.reshape(-1)[0] if word not in ("object", "region") else values.item(0)
        if isinstance(word, list) and lazy.dtype.hasobject:
            names, words = field_list(word)
            if not node.shape:
                raise MetadataError("rows need an axis, and this array has none", remedy="Give it the shape [1].")
            # its references lead to builders that may not be there yet
            self.scalar_rows[path] = BuilderTable(lazy, self._resolver, names, words)
            return None, _dtype_list(names, words)
        if word in ("object", "region") and isinstance(value, dict):
            self.scalar_references[path] = decode_reference(value)
            return None, "object"
        if isinstance(value, np.void):
            return np.array(value, dtype=lazy.dtype), _fields_of(lazy.dtype)
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                return value, "bytes"
        return value, "utf8" if isinstance(value, str) else lazy.dtype


def _dtype_list(names: list[str], words: list[str]) -> list[dict[str, str]]:
    return [{"name": name, "dtype": field_type(word)} for name, word in zip(names, words, strict=True)]


_TEXT = {"S": "ascii", "U": "utf"}


def _fields_of(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Return HDMF's words for the fields of a structured type without objects; one inside another is a list again."""
    bases = {name: dtype[name].base for name in dtype.names or ()}
    return [
        {"name": name, "dtype": _fields_of(base) if base.names else _TEXT.get(base.kind) or field_type(base.name)}
        for name, base in bases.items()
    ]


def _to_ascii(values: Any) -> Any:
    flat = values.reshape(-1).copy()
    for position, item in enumerate(flat):
        flat[position] = item.encode("utf-8") if isinstance(item, str) else item
    return flat.reshape(values.shape)
