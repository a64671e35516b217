"""`ReferenceStore`: a JSON file with the bytes of each key, or their position in another file (kerchunk, LINDI).

Values are text, ``base64:`` and encoded bytes, a JSON object (LINDI), ``[url]``, or ``[url, offset, length]``. A URL
may be relative to the folder of the file of references.

This package records for each file that it refers to: its size, the tag of the server or the time of the last change, a
digest of both ends, and the path from the folder of the references. So two files that were moved or copied together are
found again, and a file that has changed raises an error. References of other programs have no record; for them only the
rules for links apply. While a file on a server is compared with its record, the first bytes are requested already: a
slice takes the time of one request.

Allowed files: references on a server may name files on that server, in their folder and below, never a file of this
machine. Local references may name files in their folder and on servers, and others if the record proves that their
author had the same file. ``external_links`` widens or narrows that.

Source: kerchunk's specification of references, versions 0 and 1.
"""

from __future__ import annotations

import base64
import binascii
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
from hdmf_zarr_backend.model.link_sources import is_url, resolve_source
from hdmf_zarr_backend.stores.base import Abilities, FileState, Range, Store, check_inside, check_value_size, cut_ranges
from hdmf_zarr_backend.stores.locations import authority, split_location, why_not
from hdmf_zarr_backend.stores.remote import Extent, RemoteStore, at_once, get_at_once, in_thread, joined

SUFFIX = ".json"

Opener = Callable[[str, Mapping[str, Any]], Store]

_SECOND = 10**9
_DO_NOT_TRUST = "Do not trust it; or download it together with the other file."

B = TypeVar("B")


class ReferenceStore(RemoteStore):
    """A file of references."""

    abilities = Abilities(write=False, change=False, is_remote=True, why="a file of references is read only")

    def __init__(self, location: str, options: Mapping[str, Any], opener: Opener) -> None:
        super().__init__(location, options)
        self._opener = opener
        self._loaded: dict[str, Any] | None = None
        self._recorded: dict[str, Recorded] = {}
        self._folders: dict[str, Store] = {}
        self._found: dict[str, _Found] = {}
        self._loading = threading.Lock()
        self._choosing = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        rules = {"read_rules": self.read_rules}
        return ReferenceStore, (self.location, self.options, self._opener), rules

    @property
    def _references(self) -> dict[str, Any]:
        with self._loading:
            if self._loaded is None:
                self._loaded, self._recorded = _parse(self._text(), self.location)
            return self._loaded

    def _text(self) -> bytes:
        folder, name = split_location(self.location)
        if "remote_options" in self.options:
            options = {name: value for name, value in self.options.items() if name != "remote_options"}
            store = self._opener(folder, options)
        else:  # a file beside it is read over the same connections
            store = self._folder(folder)
        store.named_key = name
        text = store.get(name)
        if text is None:
            raise StoreNotFoundError("the file does not exist", store=self.location, remedy="Check the path.")
        self.read_rules.limits.check("max_document_bytes", len(text), f"the file of references has {len(text):,} bytes")
        return text

    def _get(self, key: str) -> bytes | None:
        value = self._references.get(key)
        if value is None or isinstance(value, bytes):
            return value
        if len(value) == 3:
            return self._run((value[0], {key: self._extent(key, value)}))[key]
        found = self._read_from(value[0], lambda file: file.store.get(file.name))
        if found is None:
            raise self._cut(key, value)
        return found

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        value = self._references.get(key)
        if isinstance(value, list) and len(value) == 3:
            spans = [slice(start, stop).indices(value[2])[:2] for start, stop in ranges]
            shifted = [(value[1] + start, value[1] + max(start, stop)) for start, stop in spans]
            return self._read_from(value[0], lambda file: file.store.get_ranges(file.name, shifted))
        data = self._get(key)
        return None if data is None else cut_ranges(data, ranges)

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
        runs = [(url, run) for url, each in extents.items() for run in joined(each)]
        found = get_at_once(self, others)
        for part in at_once(self._run, runs) if len(runs) > 1 else map(self._run, runs):
            found |= part
        return found

    def _extent(self, key: str, value: list[Any]) -> Extent:
        check_value_size(self, key, value[2])
        return value[1], value[1] + value[2]

    def _run(self, source: tuple[str, Mapping[str, Extent]]) -> dict[str, bytes]:
        """Return the values of keys whose bytes are read from another file with one request."""
        url, extents = source
        first, last = min(start for start, _ in extents.values()), max(stop for _, stop in extents.values())
        data = self._read_from(url, lambda file: file.store.get_range(file.name, first, last))
        found = {}
        for key, (start, stop) in extents.items():
            if data is None or len(data) < stop - first:
                raise self._cut(key, [url, start, stop - start])
            found[key] = data if (start, stop) == (first, last) else data[start - first : stop - first]
        return found

    def _cut(self, key: str, value: list[Any]) -> StoreError:
        return StoreError(
            f"the bytes that {key!r} refers to do not exist: {value}",
            store=self.location,
            remedy="The other file was moved, cut or changed; create the references again.",
        )

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        start = f"{prefix}/" if prefix else ""
        for key, value in self._references.items():
            if key.startswith(start):
                yield key, len(value) if isinstance(value, bytes) else int((value[2:] or [0])[0])

    def exists(self) -> bool:
        if not is_url(self.location):
            return os.path.lexists(self.location)
        folder, name = split_location(self.location)
        store = self._opener(folder, self.options)
        store.named_key = name
        return store.get_range(name, 0, 1) is not None

    # ---- the other files --------------------------------------------------------------------------------------------

    def _read_from(self, url: str, read: Callable[[_Found], B]) -> B:
        """Read from another file, while it is compared with its record where that takes requests."""
        likely = None if url in self._found else self._likely(url)
        if likely is None:
            return read(self._source(url))
        compared = in_thread(partial(self._source, url))
        try:
            data = read(likely)
        except ZarrBackendError:  # raised again, if this is the file
            return read(compared.result())
        file = compared.result()
        return data if file.location == likely.location else read(file)

    def _likely(self, url: str) -> _Found | None:
        """Return the first place of a recorded file that the rules allow; None if it is not on a server."""
        recorded = self._recorded.get(url)
        for location in self._places(url, recorded) if recorded is not None else ():
            if self._refusal(location, is_recorded=True) is None:
                file = self._at(location)
                return file if file.store.abilities.is_remote else None
        return None

    def _source(self, url: str) -> _Found:
        """Return another file by its URL in the references."""
        with self._choosing:
            found = self._found.get(url)
            if found is None:
                found = self._found[url] = self._choose(url)
            elif found.state is not None and found.store.folder is not None:
                now = found.store.state(found.name)  # requested once from a server
                if now != found.state:
                    raise self._missing(found.location) if now is None else self._changed(found.location)
        return found

    def _choose(self, url: str) -> _Found:
        recorded = self._recorded.get(url)
        if recorded is not None:
            return self._recorded_file(url, recorded)
        original = self._resolved(url)
        refusal = self._refusal(original)
        if refusal is not None:
            raise refusal
        return self._at(original)

    def _places(self, url: str, recorded: Recorded) -> tuple[str, str]:
        """Return the original location of a recorded file, and the recorded path beside the references."""
        original = self._resolved(url)
        return original, original if recorded.relative is None else self._resolved(recorded.relative)

    def _recorded_file(self, url: str, recorded: Recorded) -> _Found:
        """Return the recorded file: at its original location, or at the recorded path beside the references."""
        original, beside = self._places(url, recorded)
        refusals = {each: self._refusal(each, is_recorded=True) for each in (original, beside)}
        changed: _Found | None = None
        for location in (each for each, refusal in refusals.items() if refusal is None):
            file = self._at(location)
            sample = self._sample(file, recorded)
            file.state = file.store.state(file.name)
            if file.state is None:
                continue
            if self._is_same(file.state, recorded, sample, is_original=location == original):
                return file
            changed = changed or file
        if changed is not None:
            raise self._changed(changed.location)
        raise next(filter(None, refusals.values()), None) or self._missing(*refusals)

    def _resolved(self, url: str) -> str:
        location = url if is_url(url) or os.path.isabs(url) else resolve_source(f"../{url}", self.location)
        return resolve_source(location, location)  # file:// URLs are paths

    def _at(self, location: str) -> _Found:
        folder, name = split_location(location)
        return _Found(self._folder(folder), name, location)

    @staticmethod
    def _sample(file: _Found, recorded: Recorded) -> Callable[[], str | None]:
        """Return a function that returns the digest of both ends; it is requested at once if it will be needed."""
        state = recorded.state
        read = partial(file.store.sample, file.name, state.size)
        # servers give whole seconds: a file with another time was recorded before it came to the server
        is_from_here = state.etag is None and (state.mtime_ns is None or state.mtime_ns % _SECOND != 0)
        is_needed = recorded.sample is not None and is_from_here and file.store.abilities.is_remote
        return in_thread(read).result if is_needed else read

    @staticmethod
    def _is_same(state: FileState, recorded: Recorded, sample: Callable[[], str | None], *, is_original: bool) -> bool:
        """Return whether a file is the one that is recorded, or a copy of it."""
        if recorded.state.is_certainly(state):
            return True
        if state.size != recorded.state.size or (is_original and recorded.state.has_same_kind(state)):
            return False
        # the time of a copy differs
        return recorded.sample is not None and sample() == recorded.sample

    def _refusal(self, location: str, *, is_recorded: bool = False) -> LinkRefusedError | None:
        """Return the error for a location that the rules do not allow."""
        rule = why_not(location, self.location, self.read_rules.external_links, free=is_recorded, kind="references")
        if rule is None:
            return None
        problem = f"the reference to {location!r} is refused: {rule[0]}"
        return LinkRefusedError(problem, store=self.location, **(rule[1] or {"remedy": _DO_NOT_TRUST}))

    def _missing(self, *locations: str) -> StoreNotFoundError:
        return StoreNotFoundError(
            f"the file that it refers to does not exist: {' nor '.join(locations)}",
            store=self.location,
            remedy=f"Put it beside {self.location}, or create the references again.",
        )

    def _changed(self, location: str) -> StoreError:
        return StoreError(f"the file that it refers to, {location}, has changed", store=self.location, remedy=_RECREATE)

    def _folder(self, folder: str) -> Store:
        """Return the store of a folder; options, which may be credentials, are not passed to another server."""
        if folder not in self._folders:
            options = self.options.get("remote_options")
            if options is None:
                is_same_server = not is_url(self.location) or authority(folder) == authority(self.location)
                options = self.options if is_same_server else {}
            store = self._opener(folder, options)
            policy = self.read_rules.external_links
            if policy is None and not is_url(self.location):
                policy = "follow"  # a local file names files anywhere
            store.read_rules = replace(store.read_rules, external_links=policy)
            self._folders.setdefault(folder, store)
        return self._folders[folder]


def _parse(text: bytes, location: str) -> tuple[dict[str, Any], dict[str, Recorded]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotZarrError(f"this is not JSON ({error})", store=location, remedy="Check the path.") from error
    if isinstance(document, dict) and "gen" in document:
        raise NotZarrError(
            "references that are generated by a rule (`gen`) are not read",
            store=location,
            remedy="Open it through fsspec's reference:// with fo= in storage_options.",
            remedy_cli="Open it through fsspec's reference:// with -O fo=FILE.",
        )
    parts = (document.get("refs", document), document.get("templates", {})) if isinstance(document, dict) else ()
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise NotZarrError("this is not a file of references", store=location, remedy="Check the path.")
    references, templates = parts
    recorded = _parse_record(document, location) if "refs" in document else {}
    return {key: _value(key, value, templates, location) for key, value in references.items()}, recorded


def _value(key: str, value: Any, templates: dict[str, Any], location: str) -> bytes | list[Any]:
    """Return the bytes of a key, or the URL, offset and length of the bytes."""
    if isinstance(value, str):
        return _inlined(key, value, location)
    if isinstance(value, dict):
        return json.dumps(value).encode("utf-8")
    if not _is_range(value):
        raise _damaged(f"the reference of {key!r}", location)
    url = value[0]
    for name, text in templates.items():
        url = url.replace("{{" + name + "}}", str(text)).replace("{{ " + name + " }}", str(text))
    return [sys.intern(url), *value[1:]]  # shared by up to a million references


def _inlined(key: str, text: str, location: str) -> bytes:
    if not text.startswith("base64:"):
        return text.encode("utf-8")
    try:
        return base64.b64decode(text[7:], validate=True)
    except (ValueError, binascii.Error):
        raise _damaged(f"the reference of {key!r}", location) from None


def _is_range(value: Any) -> bool:
    """Return whether a value is ``[url]`` or ``[url, offset, length]``."""
    if not isinstance(value, list) or len(value) not in (1, 3) or not isinstance(value[0], str):
        return False
    return all(type(number) is int and number >= 0 for number in value[1:])


def _damaged(what: str, location: str) -> MetadataError:
    return MetadataError(f"{what} is damaged", store=location, remedy="Create the references again.")


# ---- the record ----------------------------------------------------------------------------------------------------

RECORD = "_hdmf"
"""Key of the record beside ``refs``."""

_RECREATE = "Create the references again: `zarrio convert --to virtual --overwrite`, or restore that file as it was."


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of one file."""

    state: FileState  # when it was recorded
    relative: str | None = None  # path from the folder of the references
    sample: str | None = None  # digest of both ends

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON."""
        more = {"relative": self.relative, "sample": self.sample}
        return {**{name: value for name, value in more.items() if value is not None}, **self.state.as_json()}


def _parse_record(document: Mapping[str, Any], location: str) -> dict[str, Recorded]:
    """Return ``{url: Recorded}`` of a file of references, ``{}`` if it has no record; else a MetadataError."""
    record = document.get(RECORD, {})
    sources = record.get("sources", {}) if isinstance(record, dict) else None
    if not isinstance(sources, dict):
        raise _damaged("the record of its sources", location)
    return {url: _recorded(entry, location) for url, entry in sources.items()}


def _recorded(entry: Any, location: str) -> Recorded:
    known = entry if isinstance(entry, dict) else {}
    etag, relative, sample = (known.get(name) for name in ("etag", "relative", "sample"))
    size, time = known.get("size"), known.get("mtime_ns")
    is_text = all(text is None or isinstance(text, str) for text in (etag, relative, sample))
    if type(size) is not int or not is_text or (time is not None and type(time) is not int):
        raise _damaged("the record of its sources", location)
    return Recorded(FileState(size, etag, time), relative, sample)


@dataclass(slots=True)
class _Found:
    """Another file: the store of its folder, its name in it, its location, and its state if recorded."""

    store: Store
    name: str
    location: str
    state: FileState | None = None
