"""What a Zarr file says, node by node, for comparing.

Two views of the same file. As it is: its own chunks and codecs. As HDF5: what the dataset was, or would be, in HDF5,
from the notes that a conversion keeps; so that a faithful conversion differs in nothing from its source.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.mapping.attributes import decode_attributes
from hdmf_zarr_backend.mapping.facts import (
    AttributeFacts,
    DatasetFacts,
    ElementType,
    FilterFacts,
    GroupFacts,
    LinkFacts,
    NodeFacts,
    Reference,
    Selection,
    Values,
    hdf5_filter,
)
from hdmf_zarr_backend.mapping.links import Link, decode_links
from hdmf_zarr_backend.mapping.references import Reference as StoredReference
from hdmf_zarr_backend.mapping.references import decode_attribute_reference, decode_reference
from hdmf_zarr_backend.mapping.reserved import DTYPE, LINKS, SPECLOC, notes_of, visible
from hdmf_zarr_backend.mapping.specloc import spec_location
from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.locations import THIS_FILE, resolve_source, sibling_source
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, absolute, join, relative
from hdmf_zarr_backend.read.facttypes import (
    REFERENCE,
    array_element,
    attribute_facts,
    block_values,
    canonical_region,
    default_element,
    empty_attribute,
)
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.storage.keys import KeyStore, LocalKeys
from hdmf_zarr_backend.storage.paths import local_path

__all__ = ["ZarrFacts", "is_zarr"]

_DANGLING = "<dangling>"
_MARKS = (v2.GROUP, v2.ARRAY, v2.CONSOLIDATED, "zarr.json")


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Tell whether a local directory holds a Zarr hierarchy, of whatever format."""
    return any(os.path.isfile(os.path.join(path, name)) for name in _MARKS)


class ZarrFacts(Mapping[str, NodeFacts]):
    """`FileFacts` of a Zarr file of format 2.

    Links are not followed; references are resolved to the path of their target, through links where these lead there.
    The consolidated document is used where there is one.

    Parameters
    ----------
    path : str or PathLike
        A local directory.
    as_hdf5 : bool
        Give chunks, filters and fill values that the datasets have as HDF5, instead of those of the arrays.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        As of `read.parser.parse`.
    """

    def __init__(self, path: str | os.PathLike[str], *, as_hdf5: bool = False) -> None:
        self.source = local_path(path)
        self._as_hdf5 = as_hdf5
        self._keys: KeyStore = LocalKeys(self.source)
        self._hierarchy = parse(self._keys, use_inlined=False).hierarchy
        self._links: dict[str, Link] = {}
        self._paths: list[str] = []
        self._arrays = _Arrays(self._keys)
        for node_path, node in self._hierarchy.walk():
            self._paths.append(absolute(node_path))
            if isinstance(node, GroupNode) and LINKS in node.attributes:
                self._add_links(node_path, node)

    def _add_links(self, path: str, node: GroupNode[Attributes]) -> None:
        try:
            links = decode_links(node.attributes)
        except ZarrBackendError as error:
            raise error.located(store=self.source, path=absolute(path)) from None
        for link in links:
            place = absolute(join(path, link.name))
            if link.name not in node.members and place not in self._links:
                self._links[place] = link
                self._paths.append(place)

    def close(self) -> None:
        """Forget the decoded chunks."""
        self._arrays = _Arrays(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, path: str) -> NodeFacts:
        if path in self._links:
            return self._link_facts(self._links[path].target)
        node = self._hierarchy.get(path)
        if node is None:
            raise KeyError(path)
        try:
            attributes = self._attributes(path, node.attributes)
            if isinstance(node, GroupNode):
                return GroupFacts(attributes)
            return self._dataset(relative(path), node, attributes)
        except ZarrBackendError as error:
            raise error.located(store=self.source, path=path) from error.__cause__

    # ---- links and references ----------------------------------------------------------------------------

    def _link_facts(self, target: StoredReference) -> LinkFacts:
        if self._is_own(target.source):
            return LinkFacts("soft", absolute(target.path))
        location = resolve_source(target.source, self.source)
        return LinkFacts("external", absolute(target.path), target.source, location)

    def _is_own(self, source: str) -> bool:
        if source in (THIS_FILE, ""):
            return True
        return self.source in (resolve_source(source, self.source), sibling_source(source, self.source))

    def _resolve(self, value: Any) -> Reference:
        """Return what a stored reference means; one that cannot be understood leads nowhere."""
        if value is None:
            return Reference(None)
        try:
            decoded = decode_reference(value)
        except ZarrBackendError:
            return Reference(_DANGLING)
        return self._follow(decoded.source, decoded.node_path, decoded.region)

    def _follow(self, source: str, path: str, region: Any) -> Reference:
        seen: set[str] = set()
        while self._is_own(source):
            if path in seen:
                return Reference(_DANGLING)  # links that go round in a circle
            seen.add(path)
            found = self._next_step(path)
            if found is None:
                return Reference(_DANGLING)
            source, path, arrived = found
            if arrived:
                target = self._hierarchy.get(path)
                shape = target.shape if isinstance(target, ArrayNode) else None
                return Reference(absolute(path), canonical_region(region, shape))
        return Reference(absolute(path), canonical_region(region, None), source)

    def _next_step(self, path: str) -> tuple[str, str, bool] | None:
        """Return the file and path that `path` means after its first link, and whether that is a node."""
        node: Any = self._hierarchy.root
        here = ""
        parts = path.split("/") if path else []
        for position, part in enumerate(parts):
            here = join(here, part)
            if isinstance(node, GroupNode) and part in node.members:
                node = node.members[part]
                continue
            link = self._links.get(absolute(here))
            if link is None:
                return None
            return link.target.source, "/".join([link.target.node_path, *parts[position + 1 :]]).strip("/"), False
        return THIS_FILE, path, True

    # ---- attributes --------------------------------------------------------------------------------------

    def _attributes(self, path: str, stored: Attributes) -> dict[str, AttributeFacts]:
        values = decode_attributes(stored, resolve=self._attribute_reference)
        facts = {name: attribute_facts(value) for name, value in values.items()}
        facts.update(_empty_attributes(stored))
        specifications = spec_location(stored.get(SPECLOC)) if path == "/" else None
        if specifications is not None:
            target = np.array(None, dtype=object)
            target[()] = self._follow(THIS_FILE, specifications, None)
            facts[SPECLOC] = AttributeFacts(REFERENCE, (), target)
        return facts

    def _attribute_reference(self, value: dict[str, Any]) -> Reference:
        try:
            decoded = decode_attribute_reference(value)
        except ZarrBackendError:
            return Reference(_DANGLING)
        return self._follow(decoded.source, decoded.node_path, decoded.region)

    # ---- datasets ----------------------------------------------------------------------------------------

    def _dataset(
        self, path: str, node: ArrayNode[Attributes], attributes: Mapping[str, AttributeFacts]
    ) -> DatasetFacts:
        dtype = self._arrays.dtype(node)
        element = array_element(node, dtype)
        in_rows = element.kind == "compound" and dtype.kind == "O" and len(node.shape) == 2
        stored = node.shape[:1] if in_rows else node.shape
        scalar = _is_scalar(node, stored)
        shape = () if scalar else stored
        chunks: tuple[int, ...] | None = None if scalar else node.chunks[: len(stored)]
        filters = _codecs(node)
        if self._as_hdf5:
            chunks, filters = _hdf5_storage(node, chunks, filters)
            filters = () if scalar else filters

        def read(selection: Selection) -> Values:
            lengths = tuple(part.stop - part.start for part in selection)
            try:
                block = self._arrays.read(path, node, () if scalar else selection)
                return block_values(block, element, lengths, self._resolve)
            except ZarrBackendError as error:
                raise error.located(store=self.source, path=absolute(path)) from error.__cause__

        return DatasetFacts(
            attributes=attributes,
            dtype=element,
            shape=shape,
            maxshape=_maxshape(node, shape),
            chunks=chunks,
            layout=(),
            filters=filters,
            fill=self._fill(node, element, dtype),
            read=read,
            grid=None if scalar else node.chunks[: len(stored)],
        )

    def _fill(self, node: ArrayNode[Attributes], element: ElementType, dtype: np.dtype[Any]) -> Values | None:
        chosen = None if node.fill_value is None else self._arrays.fill(node)
        if chosen is not None:
            return block_values(np.array(chosen, dtype=dtype), element, (), self._resolve)
        return default_element(element, dtype) if self._as_hdf5 else None


class _Arrays:
    """Types and values of arrays. What decodes them is imported when the first of them is asked for."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._cache: Any = None

    def dtype(self, node: ArrayNode[Attributes]) -> np.dtype[Any]:
        from hdmf_zarr_backend.storage.codecs import numpy_dtype

        return numpy_dtype(node.data_type)

    def fill(self, node: ArrayNode[Attributes]) -> Any:
        from hdmf_zarr_backend.storage.codecs import fill_scalar

        return fill_scalar(node, self.dtype(node))

    def read(self, path: str, node: ArrayNode[Attributes], selection: Selection) -> Values:
        from hdmf_zarr_backend.storage.chunks import ChunkCache, ChunkReader

        if self._cache is None:
            self._cache = ChunkCache()
        return ChunkReader(self._keys, path, node, self._cache).read(selection)


def _is_scalar(node: ArrayNode[Attributes], shape: tuple[int, ...]) -> bool:
    marked = node.attributes.get(DTYPE) == "scalar" or notes_of(node.attributes).get("scalar") is True
    return not shape or (marked and math.prod(shape) == 1)


def _maxshape(node: ArrayNode[Attributes], shape: tuple[int, ...]) -> tuple[int | None, ...]:
    kept = notes_of(node.attributes).get("maxshape")
    return tuple(kept) if isinstance(kept, list) and len(kept) == len(shape) else shape


def _codecs(node: ArrayNode[Attributes]) -> tuple[FilterFacts, ...]:
    """Return the codecs of an array in the order in which they are applied."""
    configurations = [*(node.filters or []), *([node.compressor] if node.compressor else [])]
    steps = []
    for configuration in configurations:
        options = {key: value for key, value in configuration.items() if key != "id"}
        steps.append(FilterFacts(str(configuration["id"]), tuple(sorted((k, repr(v)) for k, v in options.items()))))
    return tuple(steps)


def _hdf5_storage(
    node: ArrayNode[Attributes], chunks: tuple[int, ...] | None, filters: tuple[FilterFacts, ...]
) -> tuple[tuple[int, ...] | None, tuple[FilterFacts, ...]]:
    """Return the chunks and filters that a dataset had in HDF5; those of the array where it never was there.

    What makes bytes of objects is no filter in HDF5, it is part of the type.
    """
    note = notes_of(node.attributes).get("hdf5")
    if not isinstance(note, dict):
        return chunks, filters[1:] if node.data_type == "|O" else filters
    kept = note.get("chunks")
    steps = [step for step in note.get("filters", []) if isinstance(step, list) and len(step) == 3]
    return tuple(kept) if isinstance(kept, list) else None, tuple(hdf5_filter(c, tuple(o), None) for c, _, o in steps)


def _empty_attributes(stored: Attributes) -> dict[str, AttributeFacts]:
    """Return the attributes that have a type and no value; decoded they look like arrays of length 0."""
    remarks = notes_of(stored).get("attributes")
    if not isinstance(remarks, dict):
        return {}
    return {
        name: empty_attribute(str(remark["dtype"]))
        for key, name in visible(stored).items()
        if isinstance(remark := remarks.get(key), dict) and remark.get("null") and "dtype" in remark
    }
