"""Checks of metadata documents: whether each parses, and whether the consolidated document agrees with the others.

Readers trust the consolidated document. If it contains a document or a chunk that is nowhere else, that is the only
good copy: writing a new consolidated document would lose it, and restoring it from there repairs the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.array.shards import shard_named
from hdmf_zarr_backend.check.contents import kind_of, problem_of
from hdmf_zarr_backend.check.findings import Problem, Report
from hdmf_zarr_backend.encoding import parser, registry, zarr2, zarr3
from hdmf_zarr_backend.encoding.attributes import row_counts, shown_counts
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec
from hdmf_zarr_backend.encoding.elements import INLINE_KEY, inlined_chunks
from hdmf_zarr_backend.encoding.fills import named
from hdmf_zarr_backend.encoding.reserved import WRITING, as_dict, notes_of
from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.model.json_text import dump, load
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy, absolute, ancestors, join, relative, split
from hdmf_zarr_backend.model.render import few
from hdmf_zarr_backend.store.base import Store, is_outside
from hdmf_zarr_backend.store.journal import pending
from hdmf_zarr_backend.store.lock import writer_in
from hdmf_zarr_backend.write.tasks import Index

Documents = dict[str, Any]  # ``{key: document}``
_Owner = tuple[str, Dataset, Index]  # of a chunk

_MAIN = (zarr2.GROUP, zarr2.ARRAY)
_SEPARATOR = "dimension_separator"
_ONLY = "is only in the consolidated document"
_UNTRUSTED = "Do not trust this file. `zarrio consolidate` removes the key, which is not read."
_GROUP_KEYS = zarr3.GROUP_KEYS | {zarr3.CONSOLIDATED}
_BLOCK_KEYS = frozenset({"kind", "must_understand", "metadata", INLINE_KEY})
_LOST_CHUNK = frozenset({"chunk-missing", "chunk-damaged"})


@dataclass(slots=True)
class Structure:
    """The result of a check of the documents."""

    hierarchy: Hierarchy  # all nodes whose documents parse
    is_consolidated: bool  # whether a consolidated document exists, right or wrong
    only_copies: dict[str, bytes]  # chunks and documents by key that only that document has in good state
    other_chunks: dict[str, bytes]  # chunks by key that differ there from those in the store, both being complete
    lost_chunks: set[str]  # paths of arrays with a chunk that is missing or damaged in the store
    state: registry.State | None  # for a file of both formats, whether they agree
    has_other_chunks: bool  # the store may also have chunks in the other format, or of a change that is not complete


def check_structure(store: Store, report: Report, *, is_own_change: bool = False) -> Structure | None:
    """Check all documents of a file; None if nothing can be read. ``is_own_change``: a journal is the caller's."""
    # errors about the store itself, such as a refused permission, are raised: nothing is known about the file then
    try:
        structure = _Check(store, report, is_own_change=is_own_change).run()
    except (errors.LimitError, MetadataError, errors.IncompleteStoreError) as error:
        kind = "incomplete" if isinstance(error, errors.IncompleteStoreError) else kind_of(error)
        report.add(error.path or "/", kind, error.problem)
        return None
    if "document-damaged" in report.counts and structure.is_consolidated:
        # of some damaged documents readers use a copy in the consolidated one, unless that is damaged too
        with suppress(ZarrBackendError):
            parsed = parser.parse(store, hint=structure.hierarchy.zarr_format)
            readable = {absolute(path) for path, _ in parsed.hierarchy.walk()} if parsed.consolidated else set()
            for index, problem in enumerate(report.problems):
                if problem.kind == "document-damaged" and problem.path in readable:
                    report.problems[index] = replace(problem, is_repairable=True)
    return structure


class _Check:
    def __init__(self, store: Store, report: Report, *, is_own_change: bool) -> None:
        self._store, self._report, self._is_own_change = store, report, is_own_change
        self._damaged: set[str] = set()
        self._differences: list[tuple[str, Problem]] = []  # by key
        self._copies: Documents = {}
        self._inlined: dict[str, bytes] = {}
        self._state: registry.State | None = None
        self._is_changing = False
        self._has_remains = False
        self._advice = ""

    def run(self) -> Structure:
        """Return what can be read."""
        parser.check_outside(self._store)
        self._check_unfinished()
        texts = parser.existing_documents(self._store, registry.FIRST_KEYS)
        parser.check_texts(texts.values(), self._store.read_rules)
        # of a file of both formats, the one that readers use; the other is compared with it
        texts, self._state = parser.current(self._store, texts)
        self._check_state()
        key = zarr3.DOCUMENT if zarr3.DOCUMENT in texts else zarr2.CONSOLIDATED
        consolidated = self._consolidated(key, texts[key]) if key in texts else None
        is_consolidated = consolidated is not None or zarr2.CONSOLIDATED in texts
        if not self._store.abilities.listing:
            # a web server gives what is asked for by name: a document that is missing there would not be noticed
            parsed = parser.parse(self._store)  # raises an error if there is nothing to read
            self._report.add("", "not-listed", "this server cannot list its keys, so the documents were not compared")
            self._compare_inlined(parsed.hierarchy)
            return self._structure(parsed.hierarchy, is_consolidated=True)
        if not is_consolidated:  # nothing else says what there was
            self._advice = f"The copy is likely incomplete. {parser.COPY_AGAIN}"
        documents, problems = self._loaded({zarr3.DOCUMENT} if key == zarr3.DOCUMENT else zarr2.DOCUMENT_NAMES)
        self._damaged = set(problems)
        for damaged, problem in problems.items():
            self._report.add(split(damaged)[0], "document-damaged", problem)
        if consolidated is not None:
            self._compare(consolidated, documents)
        if not {zarr2.GROUP, zarr3.DOCUMENT} & (documents.keys() | self._copies.keys()):
            # without any document of the root there is no file; with a consolidated one, it can be restored
            if consolidated is None:
                parser.parse(self._store, use_consolidated=False)  # raises an error with the reason
            self._report.add("", "document-missing", "the root has no document")
        hierarchy = self._hierarchy(documents)
        writing = notes_of(hierarchy.root.attributes).get(WRITING)
        if writing is not None:
            self._report.add("", "incomplete", f"the file is being written, or its writer died: {writer_in(writing)}")
        elif not is_consolidated:
            self._report.add("", "not-consolidated", "there is no consolidated document")
        if writing is None and not self._is_changing:
            self._check_unseen(documents, hierarchy, texts)
        return self._structure(hierarchy, is_consolidated=is_consolidated)

    def _check_unfinished(self) -> None:
        """Report a change of the file, or a new file beside it, that is in progress or was interrupted."""
        if not self._is_own_change and self._store.abilities.change:
            try:
                journal = pending(self._store)
            except MetadataError as error:
                self._is_changing = True
                self._report.add("", "journal-damaged", error.problem)
            else:
                self._is_changing = journal is not None
                if journal is not None:
                    state = "was interrupted" if journal.holder.is_gone() else "is under way, or was interrupted"
                    self._report.add("", "change-interrupted", f"a change of this file {state}: {journal.holder}")
        local = self._store.folder or self._store.zip_file
        if local is not None and (unfinished := parser.unfinished_write(local)) is not None:
            self._report.add("", "write-unfinished", unfinished)

    def _check_state(self) -> None:
        """Report a file of both formats in which one is out of date, or documents of format 3 are wrong."""
        difference = parser.difference_of(self._state)
        if difference is not None:
            self._report.add("", "formats-differ", difference[0], is_repairable=self._state == "2 is newer")
            return
        if self._state is None or not self._store.abilities.listing:
            return
        # Format 2 was compared with its own consolidated document; programs that read format 3 read these.
        documents, problems = self._loaded({zarr3.DOCUMENT})
        wrong = [*problems]
        metadata = as_dict(as_dict(documents.get(zarr3.DOCUMENT)).get(zarr3.CONSOLIDATED)).get("metadata")
        if isinstance(metadata, dict):
            consolidated = {join(path, zarr3.DOCUMENT): node for path, node in metadata.items()}
            wrong += [key for key, _ in _differences(consolidated, documents, set(wrong))]
        else:
            wrong.append(zarr3.DOCUMENT)
        if wrong:
            what = f"{len(wrong):,} documents of Zarr format 3 differ from their copies in the document of the root"
            self._report.add("", "formats-differ", f"{what}: {few(sorted(wrong))}", is_repairable=True)

    def _structure(self, hierarchy: Hierarchy, *, is_consolidated: bool) -> Structure:
        nodes = hierarchy.flat()
        for path, node in nodes.items():
            self._report.add_id(path, node.attributes.get("object_id"))
            with suppress(ZarrBackendError):  # its attributes are checked with the targets
                if len({*(counts := row_counts(hierarchy, path)).values()}) > 1:
                    self._report.add(path, "table-uneven", f"the columns differ in length: {shown_counts(counts)}")
        arrays = sum(isinstance(node, Dataset) for node in nodes.values())
        self._report.arrays += arrays
        self._report.groups += len(nodes) - arrays
        # a scalar is lost if its chunk is; if both differ, either may be the right one, and `repair` keeps both
        kinds = {key: each.kind for key, each in self._differences if each.is_repairable and key in self._inlined}
        lost = {key: self._inlined[key] for key, kind in kinds.items() if kind in _LOST_CHUNK}
        return Structure(
            hierarchy,
            is_consolidated,
            only_copies=lost | {key: dump(document) for key, document in self._copies.items()},
            other_chunks={key: self._inlined[key] for key, kind in kinds.items() if kind == "inlined-stale"},
            lost_chunks={relative(each.path) for _, each in self._differences if each.kind in _LOST_CHUNK},
            state=self._state,
            has_other_chunks=self._is_changing or self._has_remains or self._state is not None,
        )

    # ---- the documents of the nodes ---------------------------------------------------------------------------------

    def _loaded(self, names: Collection[str]) -> tuple[Documents, dict[str, str]]:
        """Return the documents of these names by key, and the problem of each that is not JSON."""
        documents: Documents = {}
        problems: dict[str, str] = {}
        for key, text in parser.read_documents(self._store, names).items():
            try:
                documents[key] = load(text, key=key)
            except MetadataError as error:
                problems[key] = error.problem
        return documents, problems

    def _hierarchy(self, documents: Documents) -> Hierarchy:
        """Return the hierarchy of the undamaged documents."""
        good: Documents = {}
        for key, document in documents.items():
            path = split(key)[0]
            try:
                unknown = _unknown_keys(key, document)
            except MetadataError as error:
                self._report.add(path, "document-damaged", error.problem)
                continue
            self._check_unknown(path, key, unknown)
            if (array := _array_above(documents, path)) is not None:
                self._report.add(path, "document-damaged", f"it is inside the array {absolute(array)!r}")
            else:
                good[key] = document
        what = zarr2.GROUP if zarr3.DOCUMENT not in documents else zarr3.DOCUMENT
        for path in parser.implied((*good, *self._copies)):
            advice = "" if join(path, zarr2.ATTRIBUTES) in documents else self._advice
            self._report.add(path, "group-implied", f"it has members but no {what}", advice=advice)
        for key in sorted(good) if zarr3.DOCUMENT in good else ():
            try:
                zarr3.parse_node(good[key], split(key)[0])
            except ZarrBackendError as error:  # this package cannot read it
                self._report.problems.append(problem_of(error, split(key)[0]))
                del good[key]
        hierarchy = registry.parse_documents(good)
        parser.check_root(self._store, hierarchy)
        self._compare_inlined(registry.parse_documents({**good, **self._copies}) if self._copies else hierarchy)
        return hierarchy

    def _check_unknown(self, path: str, key: str, unknown: Collection[str]) -> None:
        if unknown:
            names = ", ".join(sorted(map(str, unknown)))
            self._report.add(path, "unknown-key", f"{key!r} has the keys {names}, which the format does not define")

    def _check_unseen(self, documents: Documents, hierarchy: Hierarchy, texts: Mapping[str, bytes]) -> None:
        """Report what no reader shows: nodes with chunks or attributes but no document; format 3 without its root."""
        # a node that is reported already is not reported twice
        known = {relative(problem.path) for problem in self._report.problems}
        for path in sorted({*parser.only_in_format_3(self._store, hierarchy, self._state)} - known):
            self._report.add(path, "document-missing", "only the metadata of Zarr format 3 have this object")
        if as_dict(documents.get(zarr3.DOCUMENT)).get("node_type") == "array":
            return  # all keys are its own
        members = parser.undescribed(self._store, hierarchy, {*documents, *self._damaged})
        reported = {split(key)[0] for key in self._copies}
        what = zarr3.DOCUMENT if zarr3.DOCUMENT in documents else f"{zarr2.ARRAY} or {zarr2.GROUP}"
        for path, names in sorted(members.items()):
            if path not in reported:
                verb = "is" if len(names) == 1 else "are"
                message = f"there is no {what}, but there {verb} {few(sorted(names))}"
                self._report.add(path, "document-missing", message, advice=self._advice)
        if self._state is None and zarr3.DOCUMENT not in texts and not self._store.abilities.is_remote:
            # what an upgrade leaves that was killed before its commit; on a server, a list of all keys costs too much
            remains = [key for key in self._store.list_documents() if split(key)[1] == zarr3.DOCUMENT]
            if remains:
                self._has_remains = True
                what = f"there are {len(remains):,} documents of Zarr format 3, but none of the root"
                self._report.add("", "format-3-incomplete", f"{what}: programs that read format 3 cannot open the file")

    # ---- the consolidated document ----------------------------------------------------------------------------------

    def _consolidated(self, key: str, text: bytes) -> Documents | None:
        """Return the documents in the consolidated one by their own keys, None if it is damaged or missing."""
        try:
            document = load(text, key=key)
            parser.check_document(document, self._store.read_rules)
            if key == zarr2.CONSOLIDATED:
                metadata, block = zarr2.unwrap(document), document
            else:
                block = document.get(zarr3.CONSOLIDATED) if isinstance(document, dict) else None
                if block is None:
                    return None
                if not isinstance(block, dict) or not isinstance(block.get("metadata"), dict):
                    raise MetadataError("the consolidated block has no documents")
                nodes = block["metadata"].items()
                metadata = {join(path, zarr3.DOCUMENT): _without(inner, {zarr3.CONSOLIDATED}) for path, inner in nodes}
                self._check_unknown("", key, block.keys() - _BLOCK_KEYS)
        except MetadataError as error:
            self._report.add("", "consolidated-damaged", error.problem)
            return None
        try:
            self._inlined = inlined_chunks(block)
        except MetadataError as error:
            self._report.add("", "consolidated-damaged", error.problem)
        return metadata

    def _compare(self, consolidated: Documents, documents: Documents) -> None:
        for key, problem in _differences(consolidated, documents, self._damaged):
            self._add_difference(key, problem)
            if problem.is_repairable:
                self._copies[key] = consolidated.get(key, {})
            if problem.kind == "incomplete":  # readers see the old file
                documents[key] = self._copies[key]

    def _compare_inlined(self, hierarchy: Hierarchy) -> None:
        """Compare the chunks in the consolidated document, whose nodes ``hierarchy`` has, with those in the store."""
        store, other = self._store, [(key, each) for key, each in self._differences if not each.is_repairable]
        changed = {relative(each.path) for key, each in other if split(key)[1] != zarr2.ATTRIBUTES}
        stored = _stored(store, [key for key in self._inlined if not is_outside(key)])
        for key, copy in self._inlined.items():
            value = stored.get(key)
            if value == copy:
                continue
            owner = None if is_outside(key) else _owner(hierarchy, key)
            if owner is None:
                message = f"the chunk {key!r} in the consolidated document belongs to no array"
                self._add_difference(key, _problem(key, split(key)[0], "inlined-stale", message))
                continue
            path, node, index = owner
            # what cannot be read, such as a folder, cannot be replaced either
            is_good = not isinstance(value, ZarrBackendError) and path not in changed
            is_good = is_good and _error(store, owner, copy) is None
            error = value if isinstance(value, ZarrBackendError) else _error(store, owner, value)
            name = node.stored.chunk_name(index)
            kind, message = "inlined-stale", f"the chunk {name!r} differs from its copy in the consolidated document"
            if error is not None:
                kind, message = kind_of(error), error.problem
            elif value is None:
                kind, message = "chunk-missing", f"the chunk {name!r} {_ONLY}"
            self._add_difference(key, _problem(key, path, kind, message, is_good=is_good))

    def _add_difference(self, key: str, problem: Problem) -> None:
        self._differences.append((key, problem))
        self._report.problems.append(problem)


# ---- one document ---------------------------------------------------------------------------------------------------


def _unknown_keys(key: str, document: Any) -> Collection[str]:
    """Return the keys of a document that its format does not define."""
    path, name = split(key)
    if name == zarr3.DOCUMENT:
        grid = zarr3.check_document(document, path)  # refuses what is not an object
        return set(document) - (_GROUP_KEYS if grid is None else zarr3.ARRAY_KEYS)
    if name == zarr2.ARRAY:
        return zarr2.parse_array(document, {}, path).stored.extra.keys() - {_SEPARATOR}
    if name == zarr2.GROUP:
        return zarr2.parse_group(document, {}, path).extra.keys()
    if not isinstance(document, dict):
        raise MetadataError(f"{name} is not a JSON object")
    return ()


def _is_array_at(documents: Documents, path: str) -> bool:
    is_array = as_dict(documents.get(join(path, zarr3.DOCUMENT))).get("node_type") == "array"
    return is_array or join(path, zarr2.ARRAY) in documents


def _array_above(documents: Documents, path: str) -> str | None:
    """Return the path of an array above ``path``, None if there is none."""
    while path:
        path = split(path)[0]
        if _is_array_at(documents, path):
            return path
    return None


def _is_same(one: Any, other: Any) -> bool:
    """Tell whether two documents are equivalent: NaN equals NaN, defaults may be left out, and types have two names."""
    # NaN is not equal to itself, but its JSON is
    if one == other or not isinstance(one, dict) or not isinstance(other, dict):
        return bool(one == other)
    return _text(one) == _text(other)


_OPTIONAL = ("attributes", "storage_transformers")  # of format 3; without them, they are empty


def _text(document: dict[str, Any]) -> str:
    """Return a document as text, without the keys that zarr-python adds, and the names that it changes."""
    is_default = document.get("zarr_format") == 2 and document.get(_SEPARATOR) == "."
    plain: dict[str, Any] = _without(document, {zarr3.CONSOLIDATED, *([_SEPARATOR] if is_default else [])})
    if "fill_value" in plain:
        plain["fill_value"] = named(plain["fill_value"])
    if plain.get("zarr_format") == 3:  # zarr-python writes what is the default, other programs may leave it out
        with suppress(ZarrBackendError):  # the document is damaged
            node = zarr3.parse_node(plain, "")
            if isinstance(node, Dataset):
                node.stored.original = None
                own = zarr3.encode_node(node)
                names = ("data_type", "fill_value") if isinstance(plain.get("data_type"), dict) else ()
                plain.update({key: own[key] for key in (*names, "chunk_key_encoding")})
        plain = {key: value for key, value in plain.items() if value or key not in _OPTIONAL}
    return json.dumps(plain, sort_keys=True)


def _without(document: Any, keys: Collection[str]) -> Any:
    """Return a document without some of its keys."""
    if not isinstance(document, dict):
        return document
    return {key: value for key, value in document.items() if key not in keys}


# ---- differences between the consolidated document and the others ---------------------------------------------------


def _problem(key: str, path: str, kind: str, message: str, *, is_good: bool = False) -> Problem:
    """Return the finding for a document or chunk, of which the consolidated one may have a good copy that fits."""
    return Problem(absolute(path), kind, message, is_good, advice=_UNTRUSTED if is_outside(key) else "")


def _differences(consolidated: Documents, documents: Documents, damaged: set[str]) -> Iterator[tuple[str, Problem]]:
    """Yield the differences of the consolidated documents from those of the nodes by key, but for ``damaged`` ones."""
    # With these documents of the root a new file begins in the place of an old one, in a store without a rename: the
    # consolidated document of the old file is whole until it is deleted.
    both_of = (as_dict(each.get(zarr2.ATTRIBUTES)) for each in (documents, consolidated))
    is_marked, was_marked = (WRITING in notes_of(attributes) for attributes in both_of)
    begun = {zarr2.ATTRIBUTES} | ({zarr2.GROUP} & consolidated.keys()) if is_marked and not was_marked else set()
    parents = ancestors(split(key)[0] for key in documents)
    for key in sorted(consolidated.keys() | documents.keys()):
        path, name = split(key)
        if key == zarr3.DOCUMENT or key in damaged:
            continue  # the root of format 3 is the consolidated document itself
        default: Any = {} if name == zarr2.ATTRIBUTES else None  # a missing document means no attributes
        if _is_same(documents.get(key, default), consolidated.get(key, default)):
            continue
        kind, is_good = "consolidated-stale", False
        if key in begun:
            kind, is_good = "incomplete", True
            message = f"{key!r} belongs to a file that is being written; the consolidated document is still the old one"
        elif key in documents:
            what = "differs from its copy in" if key in consolidated else "is not in"
            message = f"{key!r} {what} the consolidated document"
            if key in consolidated and (error := _unusable(documents[key], key)) is not None:
                yield key, problem_of(error, path)
                continue
        else:
            reason = _why_not_of_this_file(key, consolidated, documents, damaged)
            if not reason:
                kind, reason = "document-missing", _why_not_restored(key, consolidated, documents, damaged, parents)
            is_good, message = not reason, f"{key!r} {_ONLY}" + (f": {reason}" if reason else "")
        yield key, _problem(key, path, kind, message, is_good=is_good)


def _unusable(document: Any, key: str) -> ZarrBackendError | None:
    """Return the error of a document that is well formed, and whose chunks nothing can decode; None for others."""
    path, name = split(key)
    with suppress(MetadataError):  # it is not well formed, which is reported anyway
        node = registry.parse_array({name: document}, path)
        try:
            if node is not None:
                chunk_codec(node.stored)
        except ZarrBackendError as error:
            return error
    return None


def _why_not_of_this_file(key: str, consolidated: Documents, documents: Documents, damaged: set[str]) -> str:
    """Return why a document that only the consolidated one has cannot have been part of this file; ``""`` if it can."""
    path, name = split(key)
    if is_outside(key):
        return "it leads out of the file"
    names = {zarr3.DOCUMENT} if zarr3.DOCUMENT in documents else zarr2.DOCUMENT_NAMES
    if name not in names or (path and {"", "."} & set(path.split("/"))):
        return "it is not the name of a document"
    if _array_above(consolidated, path) is not None:
        return "an array has no members"
    mains, sources = [join(path, main) for main in _MAIN], (consolidated, documents, damaged)
    if name == zarr2.ATTRIBUTES and not any(main in keys for main in mains for keys in sources):
        return "it belongs to no node"
    try:
        if name == zarr3.DOCUMENT:
            registry.parse_array({name: consolidated[key]}, path)
        else:
            _unknown_keys(key, consolidated[key])
    except MetadataError as error:
        return error.problem
    return ""


def _why_not_restored(
    key: str, consolidated: Documents, documents: Documents, damaged: set[str], parents: set[str]
) -> str:
    """Return why the file has changed too much to restore a document of it; ``""`` if it can be restored."""
    path, name = split(key)
    mains = [join(path, main) for main in _MAIN]
    if _array_above(documents, path) is not None:
        return "an array is now above it"
    if name in _MAIN and any(main in documents or main in damaged for main in mains):  # ``key`` is in neither
        return "the node has another kind now"
    if _is_array_at({key: consolidated[key]}, path) and path in parents:
        return "it now has nodes below it"
    is_same = all(_is_same(documents[main], consolidated.get(main)) for main in mains if main in documents)
    if name == zarr2.ATTRIBUTES and not (is_same and damaged.isdisjoint(mains)):
        return "the node has changed"
    return ""


def _stored(store: Store, keys: list[str]) -> dict[str, bytes | ZarrBackendError]:
    """Return the stored values, or the errors raised when they are read."""
    values: dict[str, bytes | ZarrBackendError] = {}
    try:
        return {**store.get_many(keys)}
    except (errors.StoreRefusedError, errors.StoreUnreachableError):
        raise  # none of them can be checked
    except ZarrBackendError:
        for key in keys:
            try:
                values.update(store.get_many([key]))
            except ZarrBackendError as error:
                values[key] = error
    return values


def _owner(hierarchy: Hierarchy, key: str) -> _Owner | None:
    """Return the array of a chunk key and the index of the chunk, None if there is no such array."""
    # an array is above its chunks by as many folders as its keys are nested
    path = key
    while path:
        path, _ = split(path)
        node = hierarchy.get(path)
        if isinstance(node, Dataset):
            index = shard_named(node.stored, key[len(path) + 1 :])
            return (path, node, index) if index is not None and node.stored.shards is None else None
    return None


def _error(store: Store, owner: _Owner, data: bytes | None) -> ZarrBackendError | None:
    """Return the error that decoding a chunk raises, None if it decodes or is missing."""
    path, node, index = owner
    try:
        if data is not None:
            ChunkReader(store, path, node.stored, ChunkCache(0)).decode(index, data)
    except ZarrBackendError as error:
        return error
    return None
