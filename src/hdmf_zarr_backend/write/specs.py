"""Namespaces that hdmf knows -> arrays of text in a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from hdmf.backends.utils import NamespaceToBuilderHelper

from hdmf_zarr_backend.errors import NameRefusedError
from hdmf_zarr_backend.mapping import dtypes
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, DTYPE, SPECLOC
from hdmf_zarr_backend.mapping.specs import NAMESPACE, SPECIFICATIONS, TextSpecWriter, spec_location
from hdmf_zarr_backend.model.nodes import ArrayNode, GroupNode, absolute, join, split
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ElementSource, to_text

Texts = Mapping[str, Mapping[str, Mapping[str, str]]]


def namespace_texts(catalogs: Iterable[Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Return ``{namespace: {version: {source: text}}}`` of all namespaces; the first catalogue that has one counts."""
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for catalog in catalogs:
        for name in catalog.namespaces:
            if name in texts:
                continue
            writer = TextSpecWriter()
            NamespaceToBuilderHelper.convert_namespace(catalog, name).export(NAMESPACE, writer=writer)
            texts[name] = {str(catalog.get_namespace(name).version): writer.texts}
    return texts


def add_specs(plan: WritePlan, texts: Texts, *, location: str) -> set[str]:
    """Put the cached namespaces into ``plan``; those that it holds already stay as they are.

    Returns
    -------
    set of str
        Paths of the topmost groups and arrays that were added.

    Raises
    ------
    NameRefusedError
        The file has a group or dataset of its own where the namespaces go.
    """
    root = plan.hierarchy.root
    assert isinstance(root, GroupNode)
    if not texts:
        return set()
    if SPECIFICATIONS in root.members and SPECLOC not in root.attributes:
        raise NameRefusedError(
            f"the name {SPECIFICATIONS!r} is taken by the cached namespaces",
            store=location,
            path=absolute(SPECIFICATIONS),
            remedy="Rename it, or write with cache_spec=False.",
        )
    place = spec_location(root.attributes.get(SPECLOC)) or SPECIFICATIONS
    if SPECLOC not in root.attributes:
        root.attributes = {**root.attributes, SPECLOC: place}
    added: set[str] = set()
    for name, versions in texts.items():
        for version, sources in versions.items():
            _add_version(plan, (*place.split("/"), name, version), sources, added)
    return {path for path in added if split(path)[0] not in added}


def _add_version(plan: WritePlan, parts: tuple[str, ...], sources: Mapping[str, str], added: set[str]) -> None:
    group = plan.hierarchy.root
    path = ""
    for part in parts:
        assert isinstance(group, GroupNode)
        path = join(path, part)
        if part not in group.members:
            group.members[part] = GroupNode()
            added.add(path)
        elif path.count("/") == len(parts) - 1:
            return  # this version is cached already
        group = group.members[part]
    assert isinstance(group, GroupNode)
    for source, text in sources.items():
        place = join(path, source)
        planned = text_array(text)
        group.members[source] = planned.node
        plan.arrays[place] = planned


def text_array(text: str) -> PlannedArray:
    """Plan an array that is one text, as each source of a namespace is."""
    values = np.array([text], dtype=object)
    node: ArrayNode[dict[str, Any]] = ArrayNode(
        shape=(1,),
        chunks=(1,),
        data_type="|O",
        filters=[dict(dtypes.VLEN_UTF8)],
        attributes={DTYPE: "scalar", DIMENSIONS: ["_anonymous1"]},
    )
    return PlannedArray(node, ElementSource(values, (1,), to_text))
