"""A file of references: a JSON that says of each key its bytes, or where they lie in other files (kerchunk, LINDI).

Values are text, ``base64:`` and encoded bytes, a JSON object (LINDI), ``[url]``, or ``[url, offset, length]``. A URL
may be relative to the folder of the file of references.

Source: kerchunk's specification of references, versions 0 and 1; issue "Format 3, shards, and any store, near or far",
part 4.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, NotZarrError, ReadOnlyStoreError, StoreError, StoreNotFoundError
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.stores.base import Abilities, KeyStore, Range, cut_ranges
from hdmf_zarr_backend.stores.link_policy import authority
from hdmf_zarr_backend.stores.referenced_files import Recorded, ReferredFiles, parse_record, parted
from hdmf_zarr_backend.stores.remote import FarKeys

SUFFIX = ".json"

Opener = Callable[[str, Mapping[str, Any]], KeyStore]

_WHY = "a file of references is read only"
_REMEDY = "Export it to a directory and change that."


class ReferenceKeys(FarKeys):
    """A file of references.

    Parameters
    ----------
    location : str
        Absolute path or URL of the JSON.
    options : mapping
        ``storage_options``; ``remote_options`` in it are those of the files that are referred to, if they differ.
    opener : callable
        Returns the keys of a folder or of a prefix, by location and options; a function of a module.
    """

    abilities = Abilities(write=False, change=False, is_far=True, why=_WHY)

    def __init__(self, location: str, options: Mapping[str, Any], opener: Opener) -> None:
        super().__init__(location, options)
        self._opener = opener
        self._loaded: dict[str, Any] | None = None
        self._files: ReferredFiles | None = None
        self._folders: dict[str, KeyStore] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        rules = {"read_rules": self.read_rules}
        return ReferenceKeys, (self.location, self.options, self._opener), rules

    @property
    def _references(self) -> dict[str, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded, recorded = _parse(self._text(), self.location)
                self._files = ReferredFiles(self.location, recorded, self._folder, lambda: self.read_rules)
            return self._loaded

    def _text(self) -> bytes:
        options = {name: value for name, value in self.options.items() if name != "remote_options"}
        folder, name = parted(self.location)
        text = self._opener(folder, options).get(name)
        if text is None:
            raise StoreNotFoundError("nothing is there", store=self.location, remedy="Check the path.")
        self.read_rules.limits.check("max_document_bytes", len(text), f"the file of references has {len(text):,} bytes")
        return text

    def _folder(self, folder: str) -> KeyStore:
        """Return the keys of a folder; options, which may be credentials, do not go from one server to another."""
        if folder not in self._folders:
            options = self.options.get("remote_options")
            if options is None:
                goes_along = not is_url(self.location) or authority(folder) == authority(self.location)
                options = self.options if goes_along else {}
            self._folders[folder] = self._opener(folder, options)
        return self._folders[folder]

    def _source(self, url: str) -> tuple[KeyStore, str]:
        """Return the keys of the folder of a file that is referred to, and its name there."""
        assert self._files is not None  # made with the references
        return self._files.find(url)

    def _get(self, key: str) -> bytes | None:
        value = self._references.get(key)
        if value is None or isinstance(value, bytes):
            return value
        self._check_size(key, *value[2:] or (0,))
        keys, name = self._source(value[0])
        found = keys.get(name) if len(value) == 1 else keys.get_range(name, value[1], value[1] + value[2])
        if found is None or (len(value) == 3 and len(found) != value[2]):
            raise StoreError(
                f"what {key!r} refers to is not there: {value}",
                store=self.location,
                remedy="The file that is referred to was moved, cut or changed; make the references anew.",
            )
        return found

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        value = self._references.get(key)
        if isinstance(value, list) and len(value) == 3:
            keys, name = self._source(value[0])
            spans = [slice(start, stop).indices(value[2])[:2] for start, stop in ranges]
            return keys.get_ranges(name, [(value[1] + start, value[1] + max(start, stop)) for start, stop in spans])
        whole = self._get(key)
        return None if whole is None else cut_ranges(whole, ranges)

    def _set(self, key: str, value: bytes) -> None:
        raise ReadOnlyStoreError(_WHY, store=self.location, remedy=_REMEDY)

    def _delete(self, keys: Sequence[str]) -> None:
        raise ReadOnlyStoreError(_WHY, store=self.location, remedy=_REMEDY)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        start = f"{prefix}/" if prefix else ""
        for key, value in self._references.items():
            if key.startswith(start):
                yield key, len(value) if isinstance(value, bytes) else int((value[2:] or [0])[0])

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        if not is_url(self.location):
            return os.path.lexists(self.location)
        folder, name = parted(self.location)
        return self._opener(folder, self.options).get_range(name, 0, 1) is not None


def _parse(text: bytes, location: str) -> tuple[dict[str, Any], dict[str, Recorded]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotZarrError(f"this is no JSON ({error})", store=location, remedy="Check the path.") from error
    if not isinstance(document, dict):
        raise NotZarrError("this is no file of references", store=location, remedy="Check the path.")
    if "gen" in document:
        raise NotZarrError(
            "references that are given by a rule (`gen`) are not read",
            store=location,
            remedy="Open it through fsspec's reference:// with fo= in storage_options.",
        )
    references = document.get("refs", document)
    templates = document.get("templates", {})
    if not isinstance(references, dict) or not isinstance(templates, dict):
        raise NotZarrError("this is no file of references", store=location, remedy="Check the path.")
    recorded = parse_record(document, location) if "refs" in document else {}
    return {key: _value(key, value, templates, location) for key, value in references.items()}, recorded


def _value(key: str, value: Any, templates: dict[str, Any], location: str) -> bytes | list[Any]:
    """Return the bytes of a key, or where they are."""
    if isinstance(value, str):
        if not value.startswith("base64:"):
            return value.encode("utf-8")
        try:
            return base64.b64decode(value[7:], validate=True)
        except (ValueError, binascii.Error):
            raise _damaged(key, location) from None
    if isinstance(value, dict):
        return json.dumps(value).encode("utf-8")
    if not isinstance(value, list) or len(value) not in (1, 3) or not isinstance(value[0], str):
        raise _damaged(key, location)
    if any(type(number) is not int or number < 0 for number in value[1:]):
        raise _damaged(key, location)
    url = value[0]
    for name, said in templates.items():
        url = url.replace("{{" + name + "}}", str(said)).replace("{{ " + name + " }}", str(said))
    return [sys.intern(url), *value[1:]]  # there may be a million


def _damaged(key: str, location: str) -> MetadataError:
    return MetadataError(f"the reference of {key!r} is damaged", store=location, remedy="Make the references anew.")
