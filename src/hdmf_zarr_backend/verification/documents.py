"""Metadata documents: each parses, says what it may say, and the consolidated one says the same as all the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hdmf_zarr_backend.changes.recovery import pending
from hdmf_zarr_backend.errors import IncompleteStoreError, LimitError, MetadataError, ZarrBackendError
from hdmf_zarr_backend.files.parser import check_document, check_texts, parse, read_documents
from hdmf_zarr_backend.formats import registry, zarr2, zarr3, zarr3_forms
from hdmf_zarr_backend.formats.consolidated import INLINE_KEY, inlined_chunks, unwrap
from hdmf_zarr_backend.formats.reserved import WRITING, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Hierarchy, absolute, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import dump, load
from hdmf_zarr_backend.verification.copies import (
    Comparison,
    Difference,
    Documents,
    array_above,
    inlined_differences,
    without_block,
)
from hdmf_zarr_backend.verification.problems import Problem, Report
from hdmf_zarr_backend.verification.strays import nodes_without_document

_GROUP_KEYS = frozenset({"zarr_format", "node_type", "attributes", zarr3.CONSOLIDATED})
_ARRAY_KEYS = frozenset({"zarr_format", "node_type", "attributes", "shape", "data_type", "chunk_grid", "fill_value",
                         "chunk_key_encoding", "codecs", "dimension_names", "storage_transformers"})  # fmt: skip
_BLOCK_KEYS = frozenset({"kind", "must_understand", "metadata", INLINE_KEY})
_LOST_CHUNK = frozenset({"chunk-missing", "chunk-damaged"})


@dataclass(slots=True)
class Structure:
    """What is known of a file when its documents have been looked at.

    Attributes
    ----------
    hierarchy : Hierarchy
        All nodes that can be understood.
    is_consolidated : bool
        Whether there is a consolidated document, be it right or wrong.
    only_copies : dict
        ``{key: bytes}`` of the chunks and documents that only the consolidated document has, or has whole.
    other_chunks : dict
        ``{key: bytes}`` of the chunks that are whole in it and in the store, and not the same.
    told : set of str
        Paths of the arrays with a chunk of which was found already that it is gone or damaged: it was held against its
        copy.
    """

    hierarchy: Hierarchy
    is_consolidated: bool
    only_copies: dict[str, bytes] = field(default_factory=dict)
    other_chunks: dict[str, bytes] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)


def check_structure(keys: Store, report: Report) -> Structure | None:
    """Look at all documents of a file.

    Parameters
    ----------
    keys : Store
        The file.
    report : Report
        Takes the findings.

    Returns
    -------
    Structure or None
        None where nothing can be understood; the report says why.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        There is no Zarr file.
    """
    try:
        return _Documents(keys, report).check()
    except (LimitError, MetadataError, IncompleteStoreError) as error:
        kinds = {LimitError: "limit", MetadataError: "document-damaged", IncompleteStoreError: "incomplete"}
        report.add(Problem(error.path or "/", kinds[type(error)], error.problem))
        return None


class _Documents:
    def __init__(self, keys: Store, report: Report) -> None:
        self._keys = keys
        self._report = report
        self._limits = keys.read_rules.limits
        self._damaged: set[str] = set()
        self._is_changing = False
        self._differences: list[Difference] = []
        self._copies: Documents = {}
        self._inlined: dict[str, bytes] = {}

    def _found(self, path: str, kind: str, message: str) -> None:
        self._report.add(Problem(absolute(path), kind, message))

    def check(self) -> Structure:
        """Return what could be understood."""
        self._check_journal()
        texts = self._keys.get_many(registry.FIRST_KEYS)
        check_texts(texts.values(), self._limits)
        key = zarr3.DOCUMENT if zarr3.DOCUMENT in texts else zarr2.CONSOLIDATED
        consolidated = self._consolidated(key, texts[key]) if key in texts else None
        if not self._keys.abilities.listing:
            parsed = parse(self._keys)  # says what is wrong where there is nothing to read
            self._found("", "not-listed", "this server cannot list what it has: its documents were not compared")
            self._compare_inlined(parsed.hierarchy)
            return self._structure(parsed.hierarchy, is_consolidated=True)
        documents = self._documents(zarr2.DOCUMENT_NAMES if key != zarr3.DOCUMENT else {zarr3.DOCUMENT})
        if consolidated is not None:
            self._compare(consolidated, documents)
        elif zarr2.CONSOLIDATED not in texts:
            self._found("", "not-consolidated", "there is no consolidated document")
        if not {zarr2.GROUP, zarr3.DOCUMENT} & (documents.keys() | self._copies.keys()):
            if consolidated is None:
                parse(self._keys, use_consolidated=False)  # says what is wrong
            self._found("", "document-missing", "the document of the root is not there")
        hierarchy = self._hierarchy(documents)
        writing = notes_of(hierarchy.root.attributes).get(WRITING)
        if writing is not None:
            self._found("", "incomplete", f"the file is being written, or its writer died: {writing}")
        elif not self._is_changing:
            self._check_strays(documents, hierarchy)
        is_consolidated = consolidated is not None or zarr2.CONSOLIDATED in texts
        return self._structure(hierarchy, is_consolidated=is_consolidated)

    def _check_journal(self) -> None:
        if not self._keys.abilities.change:
            return  # nobody can have begun a change there
        try:
            left = pending(self._keys)
        except MetadataError as error:
            self._found("", "journal-damaged", error.problem)
            self._is_changing = True
            return
        if left is not None:
            self._is_changing = True
            message = f"a change of this file is under way, or was interrupted: {left.holder}"
            self._found("", "change-interrupted", message)

    def _structure(self, hierarchy: Hierarchy, *, is_consolidated: bool) -> Structure:
        for _, node in hierarchy.walk():
            if isinstance(node, ArrayNode):
                self._report.arrays += 1
            else:
                self._report.groups += 1
        kinds = {found.key: found.kind for found in self._differences if found.is_good and found.key in self._inlined}
        lost = {key: self._inlined[key] for key, kind in kinds.items() if kind in _LOST_CHUNK}
        return Structure(
            hierarchy,
            is_consolidated,
            only_copies=lost | {key: dump(document) for key, document in self._copies.items()},
            other_chunks={key: self._inlined[key] for key, kind in kinds.items() if kind == "inlined-stale"},
            told={found.path for found in self._differences if found.kind in _LOST_CHUNK},
        )

    # ---- the documents of the nodes ---------------------------------------------------------------------------------

    def _documents(self, names: set[str] | frozenset[str]) -> Documents:
        documents: Documents = {}
        for key, text in read_documents(self._keys, names).items():
            try:
                documents[key] = load(text, key=key)
            except MetadataError as error:
                self._damaged.add(key)
                self._found(split(key)[0], "document-damaged", error.problem)
        return documents

    def _hierarchy(self, documents: Documents) -> Hierarchy:
        """Return the hierarchy of those documents that can be understood."""
        good = {key: document for key, document in documents.items() if self._is_good(key, documents)}
        hierarchy = self._parsed(good, documents)
        self._compare_inlined(registry.parse_documents({**good, **self._copies}) if self._copies else hierarchy)
        return hierarchy

    def _parsed(self, good: Documents, documents: Documents) -> Hierarchy:
        if zarr3.DOCUMENT in good:
            hierarchy = zarr3.from_documents(good)
            for path, node in hierarchy.walk():
                if isinstance(node, ArrayNode):
                    try:
                        zarr3_forms.canonical(node)
                    except ZarrBackendError as error:
                        self._found(path, "document-damaged", error.problem)
                        del good[zarr3.key_of(path)]
            return registry.parse_documents(good)
        if zarr3.DOCUMENT not in documents:
            self._check_ancestors(good)
        return registry.parse_documents(good)

    def _is_good(self, key: str, documents: Documents) -> bool:
        path, name = split(key)
        document = documents[key]
        try:
            if name == zarr3.DOCUMENT:
                node = zarr3.parse_node(document, path)
                known = _ARRAY_KEYS if isinstance(node, ArrayNode) else _GROUP_KEYS
                self._check_keys(path, key, document, known)
            elif name == zarr2.ARRAY:
                array = zarr2.parse_array(document, {}, path)
                self._check_keys(path, key, array.extra, {"dimension_separator"})
            elif name == zarr2.GROUP:
                self._check_keys(path, key, zarr2.parse_group(document, {}, path).extra, ())
            elif not isinstance(document, dict):
                raise MetadataError(f"{name} is no JSON object")
        except MetadataError as error:
            self._found(path, "document-damaged", error.problem)
            return False
        return self._is_member_of_group(key, documents)

    def _is_member_of_group(self, key: str, documents: Documents) -> bool:
        """Tell whether no array is above a node."""
        path, _ = split(key)
        above = array_above(documents, path)
        if above is not None:
            self._found(path, "document-damaged", f"it is inside of the array {absolute(above)!r}")
        return above is None

    def _check_keys(self, path: str, key: str, document: Mapping[str, Any], known: Any) -> None:
        unknown = sorted(str(name) for name in document if name not in known)
        if unknown:
            names = ", ".join(unknown)
            self._found(path, "unknown-key", f"{key!r} has the keys {names}, which the format does not know")

    def _check_ancestors(self, documents: Documents) -> None:
        """Note groups that only their members imply (Zarr v2: each ancestor MUST have a ``.zgroup``)."""
        there = map(split, (*documents, *self._copies))
        known = {path for path, name in there if name in (zarr2.GROUP, zarr2.ARRAY)}
        implied: set[str] = set()
        for path in known:
            above = path
            while above and (above := split(above)[0]) not in known and above not in implied:
                implied.add(above)
        for path in sorted(implied):
            self._found(path, "group-implied", "members are there, and no .zgroup")

    def _check_strays(self, documents: Documents, hierarchy: Hierarchy) -> None:
        """Note nodes of which something is there, and nowhere a document that says what it is."""
        told = {split(key)[0] for key in self._copies}
        for path, message in nodes_without_document(self._keys, documents, self._damaged, hierarchy):
            if path not in told:
                self._found(path, "document-missing", message)

    # ---- the consolidated document ----------------------------------------------------------------------------------

    def _consolidated(self, key: str, text: bytes) -> Documents | None:
        """Return the documents that the consolidated one holds, by their own keys; None where it is damaged or none."""
        try:
            document = load(text, key=key)
            check_document(document, self._limits)
            if key == zarr2.CONSOLIDATED:
                metadata, block = unwrap(document), document
            else:
                block = document.get(zarr3.CONSOLIDATED) if isinstance(document, dict) else None
                if not isinstance(block, dict) or not isinstance(block.get("metadata"), dict):
                    if block is not None:
                        raise MetadataError("the consolidated block has no documents")
                    return None
                metadata = {zarr3.key_of(path): without_block(inner) for path, inner in block["metadata"].items()}
                self._check_keys("", key, block, _BLOCK_KEYS)
        except MetadataError as error:
            self._found("", "consolidated-damaged", error.problem)
            return None
        try:
            self._inlined = inlined_chunks(block)
        except MetadataError as error:
            self._found("", "consolidated-damaged", error.problem)
        return metadata

    def _compare(self, consolidated: Documents, documents: Documents) -> None:
        for found in Comparison(consolidated, documents, self._damaged).differences():
            self._differs(found)
            if found.is_good:
                self._copies[found.key] = consolidated[found.key]

    def _compare_inlined(self, hierarchy: Hierarchy) -> None:
        other = [found for found in self._differences if not found.is_good]
        changed = {found.path for found in other if split(found.key)[1] != zarr2.ATTRIBUTES}
        for found in inlined_differences(self._keys, self._inlined, hierarchy, changed):
            self._differs(found)

    def _differs(self, found: Difference) -> None:
        self._differences.append(found)
        self._report.add(Problem(absolute(found.path), found.kind, found.message, is_repairable=found.is_good))
