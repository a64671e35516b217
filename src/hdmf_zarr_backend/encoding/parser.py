"""`parse`: the metadata of a Zarr file, from its consolidated document, else from a listing of its store.

`nothing_to_read` returns the error for a path without a file, which names what is there, what a writer left, and what
was probably meant. `Resolver` follows links. A path may lead through links, and these into other files, which are
opened by the same rules; the number of links from one to the next and of files are limited, and circles are found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.encoding import lindi, registry, reserved, zarr2, zarr3
from hdmf_zarr_backend.encoding.elements import inlined_chunks
from hdmf_zarr_backend.encoding.references import CELLS, LinkedFile, ZarrReference, find_link
from hdmf_zarr_backend.encoding.reserved import CHANGING, DTYPE, NOTES, SPECLOC, WRITING, as_dict, notes_of
from hdmf_zarr_backend.errors import at, warn
from hdmf_zarr_backend.model import links
from hdmf_zarr_backend.model.json_text import dump, load
from hdmf_zarr_backend.model.nodes import (
    DEFAULT_PREFIX,
    Damaged,
    Group,
    Hierarchy,
    Node,
    absolute,
    ancestors,
    gc_paused,
    is_small_number,
    join,
    relative,
    split,
)
from hdmf_zarr_backend.model.render import FEW, few, size_text
from hdmf_zarr_backend.options import DEFAULT_RULES, ExternalLinks, ReadOptions
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.files import conversions, moved_aside, unfinished
from hdmf_zarr_backend.store.journal import Root
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.lock import Holder, lock_path, writer_in
from hdmf_zarr_backend.store.memory import InlinedStore
from hdmf_zarr_backend.store.opening import NOWHERE, is_of_hdf5, may_exist, open_neighbour, open_store

_LONG_KEY = 256
COPY_AGAIN = "Copy it again, or restore what is missing."
PATH_OF_FILE = "Give the path of the file, not of an array in it."


def check_texts(texts: Iterable[bytes], rules: ReadOptions) -> None:
    """Check that documents are not too large to be parsed."""
    size = sum(map(len, texts))
    rules.limits.check("max_document_bytes", size, f"the metadata documents have {size:,} bytes")


def check_document(document: Any, rules: ReadOptions) -> None:
    """Check that a consolidated document is within the limits."""
    fields = as_dict(document)
    block = as_dict(fields.get(zarr3.CONSOLIDATED)) if "node_type" in fields else fields
    check_keys(as_dict(block.get("metadata")), rules)


def check_keys(keys: Collection[str], rules: ReadOptions) -> None:
    """Check the number and depth of documents with these keys, or nodes with these paths."""
    limits = rules.limits
    limits.check("max_documents", len(keys), f"there are {len(keys):,} metadata documents")
    if not keys or max(map(len, keys)) <= min(_LONG_KEY, 2 * limits.max_depth):
        return
    implied = 0
    for key in keys:
        depth = key.count("/")
        limits.check("max_depth", depth, f"groups are nested {depth:,} deep")
        if len(key) <= _LONG_KEY:
            continue
        parent, name = split(key)
        if name in zarr2.DOCUMENT_NAMES:
            has_parent = join(split(parent)[0], zarr2.GROUP) in keys
        else:
            has_parent = parent in keys or (name == zarr3.DOCUMENT and join(split(parent)[0], zarr3.DOCUMENT) in keys)
        if not has_parent:
            implied += depth * len(key)
            if implied > 2**28:  # a few bytes of a key would create many groups with long paths
                raise limits.exceeded("max_depth", depth, f"groups without documents are nested {depth:,} deep")


def read_documents(store: Store, names: Collection[str], below: str = "") -> dict[str, bytes]:
    """Return all documents below a path of a store whose names are in ``names``."""
    limits = store.read_rules.limits
    listed = store.list_prefix(below) if below else store.list_documents()
    wanted = sorted(islice((key for key in listed if split(key)[1] in names), limits.max_documents + 1))
    check_keys(dict.fromkeys(wanted), store.read_rules)
    documents: dict[str, bytes] = {}
    size = 0
    for start in range(0, len(wanted), 10_000):
        batch = store.get_many(wanted[start : start + 10_000])
        size += sum(map(len, batch.values()))
        limits.check("max_document_bytes", size, f"the metadata documents have more than {size:,} bytes")
        documents.update(batch)
    return documents


@dataclass(slots=True)
class ParsedFile:
    """The metadata of one file: its nodes, and whether they came from the consolidated document."""

    hierarchy: Hierarchy
    consolidated: bool
    inlined: dict[str, bytes] = field(default_factory=dict)  # the chunks inside the consolidated document, by key
    is_foreign: bool = False  # whether the documents are LINDI's, which are read only; the hierarchy is translated
    state: registry.State | None = None  # whether the metadata of both formats agree; None for a file of one format
    left_out: Damaged = field(default_factory=dict)  # the errors of nodes that are left out, by path

    def store(self, store: Store) -> Store:
        """Return the store with the inlined chunks in memory."""
        return InlinedStore(store, self.inlined) if self.inlined else store

    @property
    def zarr_format(self) -> int:
        """2 or 3."""
        return self.hierarchy.zarr_format

    @property
    def documents(self) -> registry.Documents:
        """All documents, and the inlined chunks, as the consolidated document has them; equal if the files are."""
        return registry.FORMATS[self.zarr_format].last(self.hierarchy, self.inlined, consolidate=True)

    @property
    def root_keys(self) -> list[str]:
        """The keys of the documents that the commit of a change sets."""
        first = registry.FIRST_KEY[self.zarr_format]
        return [first] if self.state is None or first == zarr3.DOCUMENT else [first, zarr3.DOCUMENT]

    def mark(self) -> Root:
        """Return the mark that tells readers that the file is being changed and cannot be read at the moment."""
        kind = registry.FORMATS[self.zarr_format]
        notes = {**notes_of(self.hierarchy.root.attributes), WRITING: {**asdict(Holder.here()), CHANGING: True}}
        root = Group({**self.hierarchy.root.attributes, NOTES: notes}, extra=dict(self.hierarchy.root.extra))
        documents = dict(kind.documents("", root)) | kind.last(Hierarchy(root, self.zarr_format), {}, consolidate=False)
        texts = {key: dump(document) for key, document in documents.items() if key != zarr2.GROUP}
        if self.state is not None:
            texts[zarr3.DOCUMENT] = registry.sealed(dump(registry.hiding_document()))
        return {**texts, **dict.fromkeys(registry.stale(self.zarr_format, consolidate=False))}


def parse(
    store: Store,
    *,
    use_consolidated: bool = True,
    use_inlined: bool = True,
    hint: int | None = None,
    leave_out: bool = False,
) -> ParsedFile:
    """Return the metadata of a file, by one round of requests if there is a consolidated document."""
    # In a file of both formats, format 2 is read unless format 3 is newer. If the metadata of both formats exist
    # without a note about them, format 3 is read, as in hdmf-zarr 0.14. ``hint`` is used in either case.
    damaged: Damaged | None = {} if leave_out else None
    store.pin()  # chunks are read later and must belong to these documents
    with at(store):
        first = _likely_documents(store, hint, use_consolidated=use_consolidated)
        check_texts(first.values(), store.read_rules)
        is_chosen = hint == 3 and not registry.is_hiding(first.get(zarr3.DOCUMENT))
        texts, state = (first, None) if is_chosen else current(store, first)
        difference = difference_of(state)
        if difference is not None:
            warn(f"{store.location}: {'; '.join(difference)}", errors.FormatsDifferWarning)
        parsed = _parse_consolidated(store, texts, damaged, use_inlined=use_inlined) if use_consolidated else None
        if parsed is None:
            check_outside(store)
            is_same = lambda: _likely_documents(store, hint, use_consolidated=True) == first  # noqa: E731
            listed = _listed(store, texts.get(zarr3.DOCUMENT), damaged, is_same if use_consolidated else None)
            if listed is None:
                return parse(store, use_inlined=use_inlined, hint=hint, leave_out=leave_out)
            parsed = ParsedFile(listed, consolidated=False)
        parsed.state = state
        if parsed.consolidated and parsed.zarr_format == 2:
            _add_late_namespaces(store, parsed.hierarchy)
        if lindi.translate(parsed.hierarchy):
            parsed.is_foreign = True
            _mark_references(store, parsed.hierarchy)
        root = parsed.hierarchy.root
        notes = notes_of(root.attributes)
        if registry.BOTH in notes:  # this note belongs to the document and not to the file
            root.attributes = {**root.attributes, NOTES: {key: notes[key] for key in notes if key != registry.BOTH}}
        parsed.left_out = dict(sorted((damaged or {}).items()))
        for path, error in parsed.left_out.items():
            if not path:
                raise error
            error.locate(store.location, path)
    is_whole = reserved.stores_all_chunks(parsed.hierarchy.root.attributes)
    if is_whole != store.read_rules.is_whole:
        store.read_rules = replace(store.read_rules, is_whole=is_whole)
    return parsed


def current(store: Store, texts: dict[str, bytes]) -> tuple[dict[str, bytes], registry.State | None]:
    """Select the documents of the root that are read in a file of both formats, and return the state of the file."""
    if registry.state_of(texts) is None:
        return texts, None
    if zarr2.CONSOLIDATED not in texts:
        texts = {**texts, **store.get_many([zarr2.CONSOLIDATED])}
    if zarr2.CONSOLIDATED not in texts and store.get(zarr2.GROUP) is None:
        return texts, None  # the documents of format 2 have been deleted
    state = registry.state_of(texts)
    left_out = zarr2.CONSOLIDATED if state == "3 is newer" else zarr3.DOCUMENT
    return {key: text for key, text in texts.items() if key != left_out}, state


def difference_of(state: registry.State | None) -> tuple[str, str] | None:
    """Return the problem of a file of both formats and its remedy, None if both formats agree."""
    if state is None or state == "alike":
        return None
    if state == "2 is newer":
        what = "the metadata of Zarr format 3 are older than those of format 2, which are read"
        return what, "`zarrio repair` updates format 3"
    what = "the metadata of Zarr format 2 are older than those of format 3, which are read"
    if state == "both are newer":
        what = "the metadata of Zarr formats 2 and 3 were changed one without the other; those of format 2 are read"
    return what, "`zarrio upgrade --drop 2` keeps those of format 3, and `--drop 3` those of format 2"


def only_in_format_3(store: Store, hierarchy: Hierarchy, state: registry.State | None) -> list[str]:
    """Return the nodes that a file of both formats may have lost with the consolidated document of format 2."""
    texts = store.get_many(registry.FIRST_KEYS) if state == "2 is newer" else {}
    nodes: dict[str, Any] = {}
    if zarr2.CONSOLIDATED not in texts:
        with suppress(errors.MetadataError):
            document = as_dict(_document(texts.get(zarr3.DOCUMENT, b"{}"), zarr3.DOCUMENT))
            nodes = as_dict(as_dict(document.get(zarr3.CONSOLIDATED)).get("metadata"))
    return sorted(nodes.keys() - hierarchy.flat().keys())


def check_not_lost(store: Store, hierarchy: Hierarchy | None, state: registry.State | None) -> None:
    """Refuse to make format 3 like format 2, with these nodes, where what only format 3 has would be lost."""
    problem = remedy = ""
    if state in ("3 is newer", "both are newer"):
        problem = "the metadata of Zarr format 3 were changed by a program that does not know those of format 2"
        remedy = "Keep those of format 3 with `zarrio upgrade --drop 2`, or those of format 2 with `--drop 3`."
    elif hierarchy is not None and (lost := only_in_format_3(store, hierarchy, state)):
        problem = f"this would drop what only Zarr format 3 has: {few(list(map(absolute, lost)))}"
        remedy = "Restore it from a copy. If it was removed on purpose, run `zarrio consolidate --forget`."
    if problem:
        raise errors.ConflictError(problem, store=store.location, remedy=remedy)


def _add_late_namespaces(store: Store, hierarchy: Hierarchy) -> None:
    """Add the cached namespaces to a file that was consolidated before they were written: hdmf-zarr 0.8 to 0.10."""
    attributes = hierarchy.root.attributes
    if "namespace" not in attributes or attributes.keys() & {SPECLOC, NOTES} or not store.abilities.listing:
        return
    try:
        text = store.get(zarr2.ATTRIBUTES)
        stored = None if text is None else _document(text, zarr2.ATTRIBUTES)
        location = reserved.spec_location(stored.get(SPECLOC)) if isinstance(stored, dict) else None
        if location is None:
            return
        if location not in hierarchy:
            texts = read_documents(store, zarr2.DOCUMENT_NAMES, location)
            group = zarr2.parse_documents({key: _document(text, key) for key, text in texts.items()}).get(location)
            if group is None:
                return
            hierarchy.add(location, group)
        hierarchy.root.attributes = {**attributes, SPECLOC: location}
    except (errors.MetadataError, errors.StoreRefusedError) as error:
        error.locate(store)
        warn(f"{error} The file is read without its cached namespaces.", errors.DamagedMetadataWarning)


def _mark_references(store: Store, hierarchy: Hierarchy) -> None:
    """Set ``zarr_dtype`` on the arrays of a LINDI file whose first element is a reference, which only values show."""
    # Imported here since it needs NumPy: files are listed without it.
    from hdmf_zarr_backend.encoding.chunk_codec import reading_codec

    nodes = {
        join(path, node.stored.first_chunk): node
        for path, node in hierarchy.arrays()
        if DTYPE not in node.attributes and node.stored.size and CELLS in node.stored.first_filter
    }
    most = store.read_rules.limits.max_object_bytes
    for key, chunk in store.get_many(nodes).items():  # LINDI has these chunks in the file of references itself
        stored = nodes[key].stored
        with suppress(errors.DamagedFileError, errors.LimitError):  # reading the array raises the error again
            codec = reading_codec(stored, store.read_rules)
            first = codec.decode(chunk, stored.chunks, max_object_bytes=most).reshape(-1)[0]
            if isinstance(first, dict):
                nodes[key].attributes[DTYPE] = "object"


def _likely_documents(store: Store, hint: int | None, *, use_consolidated: bool) -> dict[str, bytes]:
    """Return the first documents that exist, those of the probable format if there are any."""
    names = registry.FIRST_KEYS if use_consolidated else registry.FIRST_KEYS[:1]
    if hint is None:
        return existing_documents(store, names)
    # Where the format is known, the other document is asked for only if this one does not exist: it may be megabytes.
    first = registry.FIRST_KEY[hint]
    if not use_consolidated and hint == 2:
        return {} if store.get(zarr2.GROUP) is not None else existing_documents(store, names)
    documents: dict[str, bytes] = {}
    with suppress(errors.StoreRefusedError):  # a bucket without list permission refuses keys that do not exist
        documents = store.get_many([first])
    others = [name for name in names if name != first]
    return documents if documents or not others else existing_documents(store, others)


def existing_documents(store: Store, names: Sequence[str]) -> dict[str, bytes]:
    """Return the documents that exist; a bucket without list permission refuses those that do not."""
    try:
        return store.get_many(names)
    except errors.StoreRefusedError as error:
        documents: dict[str, bytes] = {}
        for name in names:
            with suppress(errors.StoreRefusedError):
                documents |= store.get_many([name])
        if not documents:
            # a URL may be presigned for one HDF5 file: the server refuses keys below it
            raise _hdf5_instead(store) or error from error.__cause__
        return documents


@gc_paused()
def _parse_consolidated(
    store: Store, texts: dict[str, bytes], damaged: Damaged | None, *, use_inlined: bool
) -> ParsedFile | None:
    kind, key = (zarr3, zarr3.DOCUMENT) if zarr3.DOCUMENT in texts else (zarr2, zarr2.CONSOLIDATED)
    if key not in texts:
        return None
    hierarchy: Hierarchy | None = None
    inlined: dict[str, bytes] = {}
    own: Damaged | None = None if damaged is None else {}  # errors of a document that is not used do not count
    try:
        document = load(texts[key], key=key)
        check_document(document, store.read_rules)
        if document is not None:
            hierarchy = kind.parse_consolidated(document, damaged=own)
        if hierarchy is not None and use_inlined:
            inlined = inlined_chunks(document if kind is zarr2 else document[zarr3.CONSOLIDATED])
        if own:  # nodes may be damaged in the consolidated document only: then their own documents are read
            names = [zarr3.DOCUMENT] if kind is zarr3 else sorted(zarr2.DOCUMENT_NAMES)
            alone: Damaged = {}
            keys = [join(path, name) for path in own if path for name in names]
            documents = _parse_texts(store.get_many(keys), alone)
            kind.parse_documents(documents, damaged=alone)
            if not own.keys() <= alone.keys():
                raise next(iter(own.values()))
    except errors.MetadataError as error:
        error.locate(store)
        warn(f"{error} The documents of the nodes are read instead.", errors.DamagedMetadataWarning)
        return None
    if damaged is not None:
        damaged.update(own or {})
    return None if hierarchy is None else ParsedFile(hierarchy, consolidated=True, inlined=inlined)


def _parse_texts(texts: Mapping[str, bytes], damaged: Damaged | None) -> dict[str, Any]:
    """Return ``{key: document}``; ``damaged`` as in `registry.parse_documents`."""
    documents: dict[str, Any] = {}
    for key, text in texts.items():
        try:
            documents[key] = _document(text, key)
        except errors.MetadataError as error:
            path, name = split(key)
            if damaged is None or name == zarr2.GROUP or join(path, zarr2.GROUP) in texts:
                raise
            damaged[path] = error
    return documents


def _listed(
    store: Store, document: bytes | None, damaged: Damaged | None, is_same: Callable[[], bool] | None
) -> Hierarchy | None:
    """Return the nodes by their own documents; None if the file was changed, or hidden by its writer until now."""
    try:
        is_absent = document is None and store.get(zarr2.GROUP) is None
        if is_same is not None or is_absent or not store.abilities.listing:
            _check_finished(store, document)  # before a list of all keys, which takes longer
        if is_absent:
            raise nothing_to_read(store)
        if not store.abilities.listing:
            problem = "there is no consolidated document, and this server cannot list what it has"
            raise errors.StoreError(problem, remedy="Consolidate the file where it can be written, or open a copy.")
        documents = read_documents(store, zarr2.DOCUMENT_NAMES if document is None else {zarr3.DOCUMENT})
        _check_finished(documents, document)
        hierarchy = registry.parse_documents(_parse_texts(documents, damaged), damaged=damaged)
        check_root(store, hierarchy)
        if store.read_rules.is_copied:
            check_described(store, hierarchy, documents)
    except errors.ZarrBackendError:
        if is_same is None or is_same():
            raise
        return None
    return hierarchy if is_same is None or is_same() else None


def check_root(store: Store, hierarchy: Hierarchy) -> None:
    """Refuse a single array of format 3."""
    if not isinstance(hierarchy.root, Group):
        raise errors.NotZarrError("this is a single Zarr array", store=store.location, remedy=PATH_OF_FILE)


# ---- nodes without a document ---------------------------------------------------------------------------------------


def check_described(store: Store, hierarchy: Hierarchy, documents: Collection[str] | None = None) -> None:
    """Refuse to copy a file whose nodes were listed, by these ``documents``, if it has nodes without one."""
    if documents is None:
        names = zarr2.DOCUMENT_NAMES if hierarchy.zarr_format == 2 else {zarr3.DOCUMENT}
        documents = {key for key in store.list_documents() if split(key)[1] in names}
    bare = [path for path in implied(documents) if join(path, zarr2.ATTRIBUTES) not in documents]
    lost = [*undescribed(store, hierarchy, documents), *bare]
    if lost:
        problem = "this folder has chunks or members but no document, as in a copy that stopped"
        more = f" ({len(lost):,} such folders, which `zarrio verify` lists)" if len(lost) > 1 else ""
        remedy = f"{COPY_AGAIN} To go on without what is lost, call consolidate first."
        cli = remedy.replace("call consolidate", "run `zarrio consolidate`")
        raise errors.MetadataError(problem + more, path=min(lost), remedy=remedy, remedy_cli=cli)


def undescribed(store: Store, hierarchy: Hierarchy, documents: Collection[str]) -> dict[str, list[str]]:
    """Return the nodes with chunks or attributes but none of the ``documents``, by path, with some of their names."""
    known = [split(key) for key in documents]
    described = {path for path, name in known if name != zarr2.ATTRIBUTES}
    members = {path: [name] for path, name in known if path not in described and path not in hierarchy}
    groups = {path for path, node in hierarchy.walk() if isinstance(node, Group)}
    for key in store.keys_outside(described - groups):  # keys below known arrays are those of their chunks
        path = _array_path_of(key, hierarchy)
        names = [] if path is None else members.setdefault(path, [])
        if path is not None and len(names) <= FEW:
            names.append(key[len(path) + 1 :])
    return members


def implied(documents: Iterable[str]) -> list[str]:
    """Return the paths of groups without a document that are above nodes which have one, against both formats."""
    known = {path for path, name in map(split, documents) if name != zarr2.ATTRIBUTES}
    return sorted(ancestors(known) - known)


def _array_path_of(key: str, hierarchy: Hierarchy) -> str | None:
    """Return the path of the array that a key looks like a chunk of, None for other keys."""
    # from the end of the key, since a group may be named 0 too: `0`, `0.3`, `0/3`; in format 3 `c`, `c/0/3`, `c.0.3`
    parts = key.split("/")
    prefix = DEFAULT_PREFIX if hierarchy.zarr_format == 3 else None
    end = len(parts) - 1
    if prefix is None or parts[end] != prefix:  # else it is the only chunk of a scalar
        numbers = parts[end].split(".")
        if not all(map(is_small_number, numbers[1:] if numbers[0] == prefix else numbers)):
            return None
        while end and is_small_number(parts[end - 1]):
            end -= 1
        end -= end > 0 and parts[end - 1] == prefix
    while end < len(parts) and "/".join(parts[:end]) in hierarchy:
        end += 1  # this is a group, not an array
    return "/".join(parts[:end]) if end < len(parts) else None


def _check_finished(texts: Store | Mapping[str, bytes], document: bytes | None) -> None:
    """Refuse a file that is marked as being written, in the format-3 document of its root, else in its attributes."""
    if document is None:
        text = texts.get(zarr2.ATTRIBUTES)
        attributes = {} if text is None else as_dict(_document(text, zarr2.ATTRIBUTES))
    else:
        attributes = as_dict(as_dict(_document(document, zarr3.DOCUMENT)).get("attributes"))
    if WRITING not in notes_of(attributes):
        return
    writing = notes_of(attributes)[WRITING]
    wait = "Wait until the file is complete; if its writer has stopped,"
    remedy = f"{wait} write it again with mode 'w'."
    cli = f"{wait} run `zarrio repair --break-lock`, and write it again with --overwrite, or go on with --resume."
    if as_dict(writing).get(CHANGING) is True:
        cli = "Wait a moment; if its writer has stopped, run `zarrio repair`."
        remedy = f"{cli[:-1]}, or open it with mode 'r+'."
    problem = f"the file is being written, or its writer died: {writer_in(writing)}"
    raise errors.IncompleteStoreError(problem, remedy=remedy, remedy_cli=cli)


def _document(text: bytes, key: str) -> Any:
    with at(path=split(key)[0]):
        return load(text, key=key)


def check_outside(store: Store, *, is_new: bool = False) -> None:
    """Refuse a path inside an HDMF Zarr file, such as that of one of its groups; a file of its own may be there."""
    if store.read_rules.is_linked:  # the rules for links allow the target, and nothing around it
        return
    around = next((place for place in _folders_above(store) if _is_root(place)), None)
    if around is None:
        return
    if not store.exists():
        if not is_new:
            return
    elif _is_root(store):
        return
    else:
        texts = store.get_many(registry.FIRST_KEYS)
        block = _loaded(texts.get(zarr3.DOCUMENT)).get(zarr3.CONSOLIDATED)
        # This is a file of its own, even if its consolidated document is damaged.
        if zarr2.CONSOLIDATED in texts or isinstance(block, dict):
            return
    if is_new:
        problem = f"this path is inside the Zarr file {around.location!r}"
        raise errors.StoreExistsError(problem, store=store.location, remedy="Choose a path outside of that file.")
    part = "a single Zarr array" if store.get(zarr2.ARRAY) is not None else "a part"
    problem = f"this is {part} of the Zarr file {around.location!r}, and not a file"
    raise errors.NotZarrError(problem, store=store.location, remedy=f"Give the path of the file: {around.location!r}.")


def _folders_above(store: Store) -> Iterator[Store]:
    """Yield the folders above that may be Zarr files: any on a disk or in memory, those with the name on a server."""
    group = store.unwrapped.group_above
    while group is not None:
        outer = group()
        yield outer
        group = outer.group_above
    location = store.folder or store.location
    is_local = os.path.isabs(location)
    if not is_local and not (store.unwrapped.opens_by_url and links.is_url(location)):
        return
    while True:
        above, name = links.split_location(location)
        if not name or above == location or above.endswith("//"):
            return
        location = above
        if is_local:
            if any(os.path.isfile(os.path.join(location, document)) for document in (zarr2.ATTRIBUTES, zarr3.DOCUMENT)):
                yield LocalStore(location)
        elif not store.abilities.is_remote or links.ends_with(location, links.ZARR_SUFFIXES):
            yield open_neighbour(store, location)


def _is_root(store: Store) -> bool:
    """Tell whether this is the root of an HDMF file: it has namespaces, or a version of NWB or of the format."""
    try:
        attributes = _attributes_of(store)
    except errors.StoreError:  # it cannot be read
        return False
    return SPECLOC in attributes or "nwb_version" in attributes or "version" in notes_of(attributes)


def _attributes_of(store: Store) -> dict[str, Any]:
    """Return the attributes of the root of a store, none if their document is damaged."""
    document = _loaded(store.get(zarr2.ATTRIBUTES) or store.get(zarr3.DOCUMENT))
    return as_dict(document.get("attributes")) if "node_type" in document else document


def _loaded(text: bytes | None) -> dict[str, Any]:
    """Return a document, empty if there is none or if it is damaged."""
    try:
        return {} if text is None else as_dict(load(text, key=zarr2.ATTRIBUTES))
    except errors.ZarrBackendError:
        return {}


def is_hdmf_zarr(store: Store) -> bool:
    """Tell whether this is an HDMF Zarr file of any writer: its root has ``.specloc``, ``namespace`` or a note."""
    return bool({SPECLOC, "namespace", NOTES} & _attributes_of(store).keys())


def is_empty_group(store: Store) -> bool:
    """Tell whether there is a group and nothing else: what zarr makes when a group is opened to be written."""
    if not store.abilities.listing:
        return False
    keys = set(islice(store.list_prefix(""), 4))
    return bool(keys) and keys <= {zarr2.GROUP, zarr2.ATTRIBUTES, zarr3.DOCUMENT}


def is_whole(place: str, zarr_format: int | str | None, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Tell whether an HDMF Zarr file of a format is at a path or URL, written to its end; chunks are not read."""
    store = open_store(place, storage_options if links.is_url(place) else None)
    try:
        if not is_hdmf_zarr(store):
            return False
        parsed = parse(store, use_inlined=False)
    except (errors.StoreRefusedError, errors.StoreUnreachableError):
        raise
    except (errors.StoreError, errors.DamagedFileError):
        return False
    if zarr_format == registry.BOTH:
        return parsed.state == "alike"
    return parsed.consolidated and zarr_format in (None, parsed.zarr_format)


# ---- no file there --------------------------------------------------------------------------------------------------


def _hdf5_instead(store: Store) -> errors.IsHdf5Error | None:
    """Return the error for an HDF5 file that is not the target of a link, None for anything else."""
    if store.read_rules.is_linked or not is_of_hdf5(store):  # the target of a link is not opened for a message
        return None
    cli = "Convert it with `zarrio convert`, or `zarrio convert --to virtual`, without a copy."
    remedy = f"Open it with read_nwb, HDF5IO or NWBHDF5IO. {cli}"
    if links.is_url(store.location):
        remedy = cli = "Run `zarrio convert --to virtual` and open the file that it makes, or download this one."
    return errors.IsHdf5Error("this is an HDF5 file, not a Zarr file", remedy=remedy, remedy_cli=cli)


def nothing_to_read(store: Store) -> errors.ZarrBackendError:
    """Return the error for a store without the documents of a file."""
    if (error := _hdf5_instead(store)) is not None:
        return error
    if not store.exists():
        local = store.folder or store.zip_file
        absent = errors.StoreNotFoundError("the file does not exist", remedy="Check the path.")
        return absent if local is None else not_found(local, store.location)
    if store.get(zarr2.ARRAY) is not None:
        return errors.NotZarrError("this is a single Zarr array", remedy=PATH_OF_FILE)
    roots = (zarr2.GROUP, zarr3.DOCUMENT)
    keys = sorted(store.list_documents()) if store.zip_file is not None else ()  # the archive has a list of them
    if inside := [key.partition("/")[0] for key in keys if key.partition("/")[2] in roots]:
        problem = f"the root of this zip file has neither .zgroup nor zarr.json, but its folder {inside[0]!r} has one"
        remedy = f"Open zip://{inside[0]}::{store.location} to read it, or zip the content of the folder instead."
        return errors.NotZarrError(problem, remedy=remedy)
    # the target of a link is not looked at for a message
    nodes: list[str] = []
    if store.folder is not None and not store.read_rules.is_linked:
        with suppress(OSError), os.scandir(store.folder) as entries:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
            documents = {each.name: [os.path.join(each.path, name) for name in DOCUMENTS] for each in folders}
            nodes = sorted(name for name, paths in documents.items() if any(map(os.path.isfile, paths)))
    files = [name for name in nodes if name.endswith(links.ZARR_SUFFIXES)]
    if files:
        remedy = f"Give the path of one file, such as {files[0]!r}."
        return errors.NotZarrError("this is a folder of Zarr files", remedy=remedy)
    if nodes:
        problem = f"the root has neither .zgroup nor zarr.json, but {nodes[0]!r} below it has metadata"
        return errors.MetadataError(
            problem, path="/", remedy="Restore the document of the root from a copy of the file."
        )
    remedy = "Pass a Zarr file. If it should be HDF5, it may be damaged or incomplete."
    if store.abilities.is_remote:
        remedy = f"{remedy} Folders at a URL are not searched: give the URL of each file."
    return errors.NotZarrError("this is not a Zarr hierarchy: it has neither .zgroup nor zarr.json", remedy=remedy)


def not_found(target: str, location: str) -> errors.StoreNotFoundError:
    """Return the error for a local file that does not exist; it names what is there or was left."""
    from difflib import get_close_matches  # imported here: for this message only

    problem, name = "the file does not exist", os.path.basename(target)
    folder = os.path.dirname(target)
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder, name = os.path.split(folder)
    if folder != os.path.dirname(target):
        problem += f": there is no {name!r} in {folder!r}"
    names: list[str] = []
    with suppress(OSError):  # the folder cannot be listed
        names = [other for other in os.listdir(folder) if not other.startswith(".")]
    similar = get_close_matches(name, names, n=1)  # the name of a file that was probably meant
    remedy = f"Check the path. Did you mean {similar[0]!r}?" if similar else "Check the path."
    if (inside := links.inside_of(target)) is not None:
        remedy = ". ".join(inside).replace("this is", "This is", 1)
    left = unfinished_write(target)
    if left is not None:
        problem = f"{problem}; {left}"
        remedy = (
            "If that writer is running, wait. If it has died, copy what you need from there and write the file again: "
            "the next write deletes it."
        )
    resume = "run `zarrio convert --resume` again, or convert with resume=True."
    with suppress(OSError):  # the folder cannot be listed
        if any(map(os.path.isdir, conversions(target))):
            remedy = f"A conversion to it was interrupted: {resume}"
        if (aside := moved_aside(target)) and os.path.lexists(lock_path(os.path.realpath(target))):
            problem = "a writer died while it replaced this file, and the old file has another name"
            remedy = "Run `zarrio repair`, which gives it its name back."
        elif aside:
            remedy = f"An old file of that name is at {aside[0]!r}: rename it if you want it back."
    return errors.StoreNotFoundError(problem, store=location, remedy=remedy)


def unfinished_write(target: str) -> str | None:
    """Describe the new files beside ``target`` whose writers are running or have died; None if there are none."""
    leftovers = []
    for path in unfinished(target):
        files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        size = 0
        for file in files if os.path.isdir(path) else [path]:
            with suppress(OSError):  # what disappears meanwhile counts as nothing
                size += os.lstat(file).st_size
        leftovers.append(f"{size_text(size)} in {os.path.basename(path)!r}")
    if not leftovers:
        return None
    return f"a write of it is under way or did not finish: {' and '.join(leftovers)} beside it"


# ---- links to other files -------------------------------------------------------------------------------------------
# A link in a local file may point anywhere, as in HDF5; one in a remote file only to files beside it, never to this
# machine.


def check_link(target: str, origin: str, policy: ExternalLinks | None) -> None:
    """Refuse a link that the policy does not allow."""
    if target.startswith(NOWHERE) and policy != "never":
        return  # such a location cannot be opened
    refused = links.why_not(target, origin, policy, free=True)
    if refused is not None:
        problem, remedies = refused
        problem = f"the link to {target!r} is refused: {problem}"
        raise errors.LinkRefusedError(
            problem, store=origin, **remedies or {"remedy": "Download the file, and open it there."}
        )


class CircularLinkError(errors.ReferenceTargetError):
    """Links form a circle."""


class Resolver:
    """Follows the links and references of one file, also into others, each opened once; nothing else follows links."""

    def __init__(self, store: Store | None, hierarchy: Hierarchy, location: str = "") -> None:
        self.main = LinkedFile(store, hierarchy, location or ("" if store is None else store.location))
        self.files = {self.main.location: self.main}
        self._rules = DEFAULT_RULES if store is None else store.read_rules

    def find(self, file: LinkedFile, source: str, path: str) -> tuple[LinkedFile, str, Node]:
        """Return file, path and node that a link or reference in ``file`` leads to."""
        target, _, path, node = self._follow(file, source, path)
        assert target is not None and node is not None
        return target, path, node

    def find_inside(self, source: str, path: str) -> tuple[str, str, Node | None]:
        """Return source, path and node that a reference of the main file leads to; no node if it leads out of it."""
        _, source, path, node = self._follow(self.main, source, path, inside=True)
        return source, path, node

    def _follow(
        self, file: LinkedFile, source: str, path: str, *, inside: bool = False
    ) -> tuple[LinkedFile | None, str, str, Node | None]:
        """Follow links until a node; with ``inside``, or until one leads out of the file, which then is None."""
        path = relative(path)
        seen: set[tuple[str, str]] = set()
        while True:
            if inside and self.locate(file, source) != file.location:
                return None, source, path, None
            target = file if inside else self.file(file, source)
            if (target.location, path) in seen:
                problem, remedy = "the links form a circle", "Remove one of them."
                raise CircularLinkError(problem, store=target.location, path=path, remedy=remedy)
            self._rules.limits.check("max_links", len(seen), f"{len(seen)} links lead from one to the next")
            seen.add((target.location, path))
            node, link, rest = _walk(target, path)
            if node is not None:
                return target, source, path, node
            if link is None:
                raise nothing_at(target.location, path)
            file, source, path = target, link.source, relative(f"{link.node_path}/{rest}")

    def file(self, origin: LinkedFile, source: str) -> LinkedFile:
        """Return the file that a source in the file ``origin`` means; no file is closed, because no store needs it."""
        refused: errors.LinkRefusedError | None = None
        for location in self._candidates(origin, source):
            if location in self.files:
                return self.files[location]
            try:
                check_link(location, origin.location, self._rules.external_links)
            except errors.LinkRefusedError as error:
                refused = refused or error
                continue
            if not may_exist(location):  # for a file on a server this is unknown: opening it decides
                continue
            count = len(self.files)
            self._rules.limits.check("max_files", count, f"links lead to {count} other files")
            try:
                store = open_neighbour(self.main.store, location)
                # format 2 is not guessed: where a file has metadata of both formats, those of format 3 count
                parsed = parse(store, hint=3 if self.main.hierarchy.zarr_format == 3 else None)
            except errors.StoreNotFoundError:
                continue  # only a server knows what it has
            self.files[location] = LinkedFile(parsed.store(store), parsed.hierarchy, location)
            return self.files[location]
        if refused is not None:
            raise refused
        exists = any(not links.is_url(each) and os.path.exists(each) for each in self._candidates(origin, source))
        problem = f"{source!r} is not a Zarr file" if exists else f"the file {source!r} does not exist"
        remedy = "Restore the target, or run `zarrio repair --drop-links` to remove a link that you do not expect."
        raise errors.ReferenceTargetError(problem, store=origin.location, remedy=remedy)

    def locate(self, origin: LinkedFile, source: str) -> str:
        """Return the location that a source means, without opening it; also that of a file that does not exist."""
        candidates = self._candidates(origin, source)
        there = (location for location in candidates if location in self.files or may_exist(location))
        return next(there, candidates[0])

    @staticmethod
    def _candidates(origin: LinkedFile, source: str) -> list[str]:
        """Return the locations that a source may mean, the most probable one first."""
        if source in links.OWN_SOURCES or source in origin.former_names:
            return [origin.location]
        # hdmf-zarr 0.10 named other files from the folder of the store; all other releases from the store itself.
        folders = [origin.location, *([links.split_location(origin.location)[0]] if origin.names_siblings else [])]
        return list(dict.fromkeys(links.resolve_source(source, folder) for folder in folders))


def nothing_at(location: str, path: str) -> errors.ReferenceTargetError:
    """Return the error for a path in a file that leads to no node."""
    return errors.ReferenceTargetError("there is no such group or dataset", store=location, path=path)


def _walk(file: LinkedFile, path: str) -> tuple[Node | None, ZarrReference | None, str]:
    """Return the node at a path; or the target of the first link on the way, if any, and the path below it."""
    node: Node = file.hierarchy.root
    parts = path.split("/") if path else []
    for position, part in enumerate(parts):
        if not isinstance(node, Group):
            return None, None, ""
        if part not in node.members:
            with at(file.location):
                return None, find_link(node.attributes, part), "/".join(parts[position + 1 :])
        node = node.members[part]
    return node, None, ""
