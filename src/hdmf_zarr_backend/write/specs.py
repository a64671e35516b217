"""Namespaces that hdmf knows -> arrays of text in a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from hdmf.backends.utils import NamespaceToBuilderHelper

from hdmf_zarr_backend.errors import NameRefusedError
from hdmf_zarr_backend.mapping import dtypes
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, DTYPE, SPECLOC
from hdmf_zarr_backend.mapping.specs import NAMESPACE, SPECIFICATIONS, TextSpecWriter
from hdmf_zarr_backend.model.nodes import ArrayNode, GroupNode, absolute, join
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ElementSource, to_text

Texts = Mapping[str, Mapping[str, Mapping[str, str]]]


def namespace_texts(catalogs: Iterable[Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Return ``{namespace: {version: {source: text}}}`` of all namespaces; of equal names the first catalogue counts."""
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for catalog in catalogs:
        for name in catalog.namespaces:
            if name in texts:
                continue
            writer = TextSpecWriter()
            NamespaceToBuilderHelper.convert_namespace(catalog, name).export(NAMESPACE, writer=writer)
            texts[name] = {str(catalog.get_namespace(name).version): writer.texts}
    return texts


def add_specs(plan: WritePlan, texts: Texts, *, location: str) -> None:
    """Put the cached namespaces into ``plan``; those that it holds already stay as they are.

    Raises
    ------
    NameRefusedError
        The file has a group or dataset of its own where the namespaces go.
    """
    root = plan.hierarchy.root
    assert isinstance(root, GroupNode)
    if SPECIFICATIONS in root.members and SPECLOC not in root.attributes:
        raise NameRefusedError(
            f"the name {SPECIFICATIONS!r} is taken by the cached namespaces",
            store=location,
            path=absolute(SPECIFICATIONS),
            remedy="Rename it, or write with cache_spec=False.",
        )
    root.attributes[SPECLOC] = SPECIFICATIONS
    for name, versions in texts.items():
        for version, sources in versions.items():
            _add_version(plan, (SPECIFICATIONS, name, version), sources)


def _add_version(plan: WritePlan, parts: tuple[str, ...], sources: Mapping[str, str]) -> None:
    group = plan.hierarchy.root
    path = ""
    for part in parts:
        assert isinstance(group, GroupNode)
        path = join(path, part)
        group = group.members.setdefault(part, GroupNode())
    assert isinstance(group, GroupNode)
    for source, text in sources.items():
        if source not in group.members:
            place = join(path, source)
            planned = _text_array(text)
            group.members[source] = planned.node
            plan.arrays[place] = planned


def _text_array(text: str) -> PlannedArray:
    values = np.array([text], dtype=object)
    node: ArrayNode[dict[str, Any]] = ArrayNode(
        shape=(1,),
        chunks=(1,),
        data_type="|O",
        fill_value="",
        filters=[dict(dtypes.VLEN_UTF8)],
        attributes={DTYPE: "scalar", DIMENSIONS: ["_anonymous1"]},
    )
    return PlannedArray(node, ElementSource(values, (1,), to_text))
