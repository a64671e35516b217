"""The formats of Zarr by number: the documents of nodes, and the documents that are set last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from hdmf_zarr_backend.encoding import zarr2, zarr3
from hdmf_zarr_backend.encoding.both import BOTH, ZarrFormat
from hdmf_zarr_backend.encoding.inlined import inlined_chunks
from hdmf_zarr_backend.model.nodes import Attributes, Damaged, Dataset, Hierarchy, Node
from hdmf_zarr_backend.options import named_format

Documents = dict[str, dict[str, Any]]


class Format(Protocol):
    """One format of Zarr."""

    def documents(self, path: str, node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ``(key, document)`` of one node, except for the documents in `last`."""

    def last(self, hierarchy: Hierarchy, inlined: Mapping[str, bytes], *, consolidate: bool) -> Documents:
        """Return the documents that are set after all others, and complete the file.

        ``inlined`` is ``{key: bytes}`` of chunks that a consolidated document includes, as far as they fit.
        """

    def stale(self, *, consolidate: bool) -> list[str]:
        """Return the keys that become invalid when a file is changed."""


# hdmf-zarr up to 0.13 and netcdf-c read format 2 only; hdmf-zarr 0.14 writes format 3.
DEFAULT_FORMAT = 2
"""Format of new files, unless the call or the environment names one."""

FORMATS: dict[int, Format] = {2: zarr2, 3: zarr3}
"""The formats by number: modules, of which each is a `Format`."""


def default_format(possible: Sequence[int], *, needed: int | None = None) -> ZarrFormat:
    """Return the format of a new file for which the caller names none."""
    supported: list[Any] = [*possible, *((BOTH,) if {2, 3} <= {*possible} else ())]
    wanted: tuple[Any, ...] = (needed, named_format(), DEFAULT_FORMAT)
    return next((number for number in wanted if number in supported), supported[0])


FIRST_KEYS = (zarr3.DOCUMENT, zarr2.CONSOLIDATED)
"""Keys that show whether a file is consolidated, and its format."""

FIRST_KEY = {2: zarr2.CONSOLIDATED, 3: zarr3.DOCUMENT}
"""The one of them for a file of known format."""


def parse_consolidated(
    documents: Mapping[str, Any], *, use_inlined: bool = True, damaged: Damaged | None = None
) -> tuple[Hierarchy, dict[str, bytes]] | None:
    """Return the content of consolidated documents, None without any."""
    if zarr3.DOCUMENT in documents:
        parsed = zarr3.parse_consolidated(documents[zarr3.DOCUMENT], damaged=damaged)
        if parsed is None:
            return None
        return parsed[0], inlined_chunks(parsed[1]) if use_inlined else {}
    document = documents.get(zarr2.CONSOLIDATED)
    if document is None:
        return None
    inlined = inlined_chunks(document) if use_inlined else {}
    return zarr2.parse_consolidated(document, damaged=damaged), inlined


def parse_documents(documents: Mapping[str, Any], *, damaged: Damaged | None = None) -> Hierarchy:
    """Return the hierarchy for ``{key: document}`` of all nodes, of format 3 if there is a ``zarr.json``.

    ``damaged`` is as for `parse_consolidated`.
    """
    if zarr3.DOCUMENT in documents:
        return zarr3.parse_documents(documents, damaged=damaged)
    return zarr2.parse_documents(documents, damaged=damaged)


def parse_array(documents: Mapping[str, Any], path: str) -> Dataset[Attributes] | None:
    """Return the array for the documents of the node at ``path``, by their names; None for other nodes."""
    if zarr3.DOCUMENT in documents:
        node = zarr3.parse_node(documents[zarr3.DOCUMENT], path)
        return node if isinstance(node, Dataset) else None
    if zarr2.ARRAY in documents:
        return zarr2.parse_array(documents[zarr2.ARRAY], documents.get(zarr2.ATTRIBUTES, {}), path)
    return None
