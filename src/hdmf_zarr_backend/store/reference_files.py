"""`ReferenceStore`: a JSON file with the bytes of each key, or their position in another file (kerchunk, LINDI).

Values are text, ``base64:`` and encoded bytes, a JSON object (LINDI), ``[url]``, or ``[url, offset, length]``. A URL
may be relative to the folder of the file of references.

This package records for each file that it refers to: its size, the tag of the server or the time of the last change, a
digest of both ends, and the path from the folder of the references. So two files that were moved or copied together are
found again, and a file that has changed raises an error. References of other programs have no record; for them only the
rules for links apply.

Allowed files: references on a server may name files on that server, in their folder and below, never a file of this
machine. Local references may name files in their folder and on servers, and others if the record proves that their
author had the same file. ``external_links`` widens or narrows that.

Source: kerchunk's specification of references, versions 0 and 1.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from hdmf_zarr_backend.errors import (
    LinkRefusedError,
    MetadataError,
    NotZarrError,
    StoreError,
    StoreNotFoundError,
    ZarrBackendError,
)
from hdmf_zarr_backend.model.links import authority, is_url, resolve_source, split_location, why_not
from hdmf_zarr_backend.store.base import Abilities, FileState, Range, Store, check_inside, check_value_size
from hdmf_zarr_backend.store.clouds import open_folder
from hdmf_zarr_backend.store.remote import Extent, RemoteStore, at_once, coalesced, get_at_once, in_thread

SUFFIX = ".json"

_SECOND = 10**9

B = TypeVar("B")


class ReferenceStore(RemoteStore):
    """A file of references."""

    abilities = Abilities(write=False, change=False, is_remote=True, why="a file of references is read only")

    def __init__(self, location: str, options: Mapping[str, Any], text: bytes | None = None) -> None:
        super().__init__(location, options)
        self._text = text  # None: that of the file at the location
        self._loaded: dict[str, Any] | None = None
        self._recorded: dict[str, Recorded] = {}
        self._folders: dict[str, Store] = {}
        self._sources: dict[str, _Source] = {}
        self._loading = threading.Lock()
        self._choosing = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ReferenceStore, (self.location, self.options, self._text), {"read_rules": self.read_rules}

    @property
    def _references(self) -> dict[str, Any]:
        with self._loading:
            if self._loaded is None:
                text = self._text
                if text is None:
                    store, name = self._own_file()
                    text = store.get(name)
                    if text is None:
                        problem = "the file does not exist"
                        raise StoreNotFoundError(problem, store=self.location, remedy="Check the path.")
                    what = f"the file of references has {len(text):,} bytes"
                    self.read_rules.limits.check("max_document_bytes", len(text), what)
                self._loaded, self._recorded = _parse(text, self.location)
            return self._loaded

    def _own_file(self) -> tuple[Store, str]:
        """Return the store of the folder of the references, and their key in it."""
        folder, name = split_location(self.location)
        if "remote_options" in self.options:
            # as in fsspec: the other options are those of the references, these of the files that they name
            options = {name: value for name, value in self.options.items() if name != "remote_options"}
            store = open_folder(folder, options)
        else:
            # one store, so that a file beside the references is read over the same connections
            store = self._folder(folder)
        store.named_key = name
        return store, name

    def _get(self, key: str) -> bytes | None:
        value = self._references.get(key)
        if value is None or isinstance(value, bytes):
            return value
        if len(value) == 3:
            extent = self._extent(key, value)
            return self._read_run((value[0], extent, {key: extent}))[key]
        data = self._read_from(value[0], lambda file: file.store.get(file.name))
        if data is None:
            raise self._cut(key, value)
        return data

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        value = self._references.get(key)
        if isinstance(value, list) and len(value) == 3:
            spans = [slice(start, stop).indices(value[2])[:2] for start, stop in ranges]
            shifted = [(value[1] + start, value[1] + max(start, stop)) for start, stop in spans]
            parts = self._read_from(value[0], lambda file: file.store.get_ranges(file.name, shifted))
            # None would mean that the key is absent, so that a shard would have its fill value
            if parts is None or sum(map(len, parts)) < sum(stop - start for start, stop in shifted):
                raise self._cut(key, value)
            return parts
        data = self._get(key)
        return None if data is None else [data[start:stop] for start, stop in ranges]

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        extents: dict[str, dict[str, Extent]] = {}
        others = []
        for key in keys:
            value = self._references.get(key)
            if isinstance(value, list) and len(value) == 3:
                check_inside(key, self.location)
                extents.setdefault(value[0], {})[key] = self._extent(key, value)
            else:
                others.append(key)
        runs = [(url, *run) for url, each in extents.items() for run in coalesced(each)]
        values = get_at_once(self, others)
        for part in at_once(self._read_run, runs) if len(runs) > 1 else map(self._read_run, runs):
            values |= part
        return values

    get_each = Store.get_each  # by `get_many`: chunks beside each other are one request

    def _extent(self, key: str, value: list[Any]) -> Extent:
        check_value_size(self, key, value[2])
        return value[1], value[1] + value[2]

    def _read_run(self, run: tuple[str, Extent, Mapping[str, Extent]]) -> dict[str, bytes]:
        """Return the values of keys whose bytes are read from another file with one request."""
        url, (first, last), extents = run
        data = self._read_from(url, lambda file: file.store.get_range(file.name, first, last))
        values = {}
        for key, (start, stop) in extents.items():
            if data is None or len(data) < stop - first:
                raise self._cut(key, [url, start, stop - start])
            values[key] = data if (start, stop) == (first, last) else data[start - first : stop - first]
        return values

    def _cut(self, key: str, value: list[Any]) -> StoreError:
        problem = f"the bytes that {key!r} refers to do not exist: {value}"
        remedy = "The other file was moved, cut or changed; create the references again."
        return StoreError(problem, store=self.location, remedy=remedy)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        start = f"{prefix}/" if prefix else ""
        for key, value in self._references.items():
            if key.startswith(start):
                yield key, len(value) if isinstance(value, bytes) else int((value[2:] or [0])[0])

    def exists(self) -> bool:
        if not is_url(self.location):
            return os.path.lexists(self.location)
        store, name = self._own_file()
        return store.get_range(name, 0, 1) is not None

    # ---- the other files --------------------------------------------------------------------------------------------

    def _read_from(self, url: str, read: Callable[[_Source], B]) -> B:
        """Read from another file; a recorded one on a server is read while it is compared with its record."""
        is_new = url in self._recorded and url not in self._sources
        allowed = (each for each, refusal in self._candidates(url).items() if refusal is None)
        likely = next(map(self._at, allowed), None) if is_new else None
        if likely is None or not likely.store.abilities.is_remote:
            return read(self._source(url))
        compared = in_thread(partial(self._source, url))  # not in the pool: its threads may all be waiting for this one
        try:
            data = read(likely)
        except ZarrBackendError:
            # if this is the recorded file, the error is raised again
            return read(compared.result())
        source = compared.result()
        return data if source.location == likely.location else read(source)

    def _source(self, url: str) -> _Source:
        """Return another file by its URL in the references."""
        with self._choosing:
            if url in self._sources:
                source = self._sources[url]
                # each time, since it takes no request; a file on a server is compared once
                if source.state is not None and source.store.folder is not None:
                    now = source.store.state(source.name)
                    if now != source.state:
                        raise self._missing(source.location) if now is None else self._changed(source.location)
                return source
            # at its URL; a recorded one there, or at the recorded path beside the references
            recorded, candidates = self._recorded.get(url), self._candidates(url)
            changed = None
            for number, (location, refusal) in enumerate(candidates.items()):
                if refusal is not None:
                    continue
                source = self._at(location)
                if recorded is None or source.matches(recorded, is_original=number == 0):
                    self._sources[url] = source
                    return source
                if source.state is not None:
                    changed = changed or location
            if changed is not None:
                raise self._changed(changed)
            raise next(filter(None, candidates.values()), None) or self._missing(*candidates)

    def _candidates(self, url: str) -> dict[str, LinkRefusedError | None]:
        """Return where another file may be, in the order of choice, each with its error if it is forbidden."""
        recorded = self._recorded.get(url)
        candidates: dict[str, LinkRefusedError | None] = {}
        for name in filter(None, (url, recorded.relative if recorded is not None else None)):
            location = name if is_url(name) or os.path.isabs(name) else resolve_source(f"../{name}", self.location)
            location = resolve_source(location, location)  # file:// URLs are paths
            # with a digest, which only somebody with the same file can know, any local file is allowed
            policy, free = self.read_rules.external_links, recorded is not None and recorded.sample is not None
            rule = why_not(location, self.location, policy, free=free, kind="references")
            candidates[location] = None if rule is None else LinkRefusedError(
                f"the reference to {location!r} is refused: {rule[0]}",
                store=self.location,
                **(rule[1] or {"remedy": "Do not trust it; or download it together with the other file."}),
            )  # fmt: skip
        return candidates

    def _at(self, location: str) -> _Source:
        folder, name = split_location(location)
        return _Source(self._folder(folder), name, location)

    def _missing(self, *locations: str) -> StoreNotFoundError:
        problem = f"the file that it refers to does not exist: {' nor '.join(locations)}"
        remedy = f"Put it beside {self.location}, or create the references again."
        return StoreNotFoundError(problem, store=self.location, remedy=remedy)

    def _changed(self, location: str) -> StoreError:
        return StoreError(f"the file that it refers to, {location}, has changed", store=self.location, remedy=_RECREATE)

    def _folder(self, folder: str) -> Store:
        """Return the store of a folder; options, which may be credentials, are not passed to another server."""
        if folder not in self._folders:
            options = self.options.get("remote_options")
            if options is None:
                is_same_server = not is_url(self.location) or authority(folder) == authority(self.location)
                options = self.options if is_same_server else {}
            store = open_folder(folder, options)
            policy = self.read_rules.external_links
            # a local file may name a file on any server, also one that redirects
            if policy is None and not is_url(self.location):
                policy = "follow"
            store.read_rules = replace(store.read_rules, external_links=policy)
            self._folders.setdefault(folder, store)
        return self._folders[folder]


def _parse(text: bytes, location: str) -> tuple[dict[str, Any], dict[str, Recorded]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotZarrError(f"this is not JSON ({error})", store=location, remedy="Check the path.") from error
    if isinstance(document, dict) and document.get("gen"):
        problem = "references that are generated by a rule (`gen`) are not read"
        remedy = "Open it through fsspec's reference:// with fo= in storage_options."
        remedy_cli = "Open it through fsspec's reference:// with -O fo=FILE."
        raise NotZarrError(problem, store=location, remedy=remedy, remedy_cli=remedy_cli)
    parts = (document.get("refs", document), document.get("templates") or {}) if isinstance(document, dict) else ()
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise NotZarrError("this is not a file of references", store=location, remedy="Check the path.")
    references, templates = parts
    recorded = Recorded.of_document(document, location) if "refs" in document else {}
    return {key: _value(key, value, templates, location) for key, value in references.items()}, recorded


def _value(key: str, value: Any, templates: dict[str, Any], location: str) -> bytes | list[Any]:
    """Return the bytes of a key, or the URL, offset and length of the bytes."""
    if isinstance(value, dict):
        return json.dumps(value).encode("utf-8")
    if isinstance(value, str):
        try:
            is_text = not value.startswith("base64:")
            return value.encode("utf-8") if is_text else base64.b64decode(value[7:], validate=True)
        except ValueError:
            raise _damaged(f"the reference of {key!r}", location) from None
    is_range = isinstance(value, list) and len(value) in (1, 3) and isinstance(value[0], str)
    if not is_range or not all(type(number) is int and number >= 0 for number in value[1:]):
        raise _damaged(f"the reference of {key!r}", location)
    url = value[0]
    for name, text in templates.items():
        url = url.replace("{{" + name + "}}", str(text)).replace("{{ " + name + " }}", str(text))
    return [sys.intern(url), *value[1:]]  # shared by up to a million references


def _damaged(what: str, location: str) -> MetadataError:
    return MetadataError(f"{what} is damaged", store=location, remedy="Create the references again.")


# ---- the record ----------------------------------------------------------------------------------------------------

RECORD = "_hdmf"  # key of the record beside ``refs``

_RECREATE = "Create the references again: `zarrio convert --to virtual --overwrite`, or restore that file as it was."


_TYPES = {"size": int, "etag": str, "mtime_ns": int, "relative": str, "sample": str}


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of one file."""

    state: FileState  # when it was recorded
    relative: str | None = None  # path from the folder of the references
    sample: str | None = None  # digest of both ends

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON."""
        size, etag, time = self.state.size, self.state.etag, self.state.mtime_ns
        record = {"relative": self.relative, "sample": self.sample, "size": size, "etag": etag}
        # the tag of a server is exact; its time is in whole seconds
        record |= {"mtime_ns": time} if etag is None else {}
        return {name: value for name, value in record.items() if value is not None}

    @classmethod
    def of_document(cls, document: Mapping[str, Any], location: str) -> dict[str, Recorded]:
        """Return ``{url: Recorded}`` of a file of references, ``{}`` if it has no record; else a MetadataError."""
        record = document.get(RECORD, {})
        sources = record.get("sources", {}) if isinstance(record, dict) else None
        if not isinstance(sources, dict) or not all(isinstance(entry, dict) for entry in sources.values()):
            raise _damaged("the record of its sources", location)
        recorded = {}
        for url, entry in sources.items():
            fields: dict[str, Any] = {name: entry.get(name) for name in _TYPES}
            is_typed = all(type(fields[name]) in (kind, type(None)) for name, kind in _TYPES.items())
            if fields["size"] is None or not is_typed:
                raise _damaged("the record of its sources", location)
            state = FileState(fields["size"], fields["etag"], fields["mtime_ns"])
            recorded[url] = cls(state, fields["relative"], fields["sample"])
        return recorded


@dataclass(slots=True)
class _Source:
    """Another file: the store of its folder, its name in it, its location, and its state if recorded."""

    store: Store
    name: str
    location: str
    state: FileState | None = None

    def matches(self, recorded: Recorded, *, is_original: bool) -> bool:
        """Return whether this is the recorded file, or a copy of it, whose time differs; and set the state."""
        old = recorded.state
        sample: Callable[[], str | None] = partial(self.store.sample, self.name, old.size)
        # servers give whole seconds: a file with another time was recorded before it came to the server
        is_from_here = old.etag is None and (old.mtime_ns is None or old.mtime_ns % _SECOND != 0)
        if recorded.sample is not None and is_from_here and self.store.abilities.is_remote:
            sample = in_thread(sample).result  # requested at once, since it will be needed
        self.state = state = self.store.state(self.name)
        if state is None:
            return False
        is_same = old.is_same(state)
        # size and time of a local file can be guessed, and say little about its content
        if is_same and (self.store.abilities.is_remote or recorded.sample is None):
            return True
        # at the URL itself, another time means another content; a copy has its own time
        if state.size != old.size or (is_original and is_same is False):
            return False
        return recorded.sample is not None and sample() == recorded.sample
