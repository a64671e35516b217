"""The files that a file of references refers to: where they are now, whether they may be read, whether they changed.

Of the files that this package refers to there is a record: size, the server's tag or the time of the last change, a
digest of both ends, and the path from the folder of the references. So a pair of files that was moved or copied
together is found again, and a file that has changed is told. References of other programs have no record; there only
the rules for links hold.

Which files may be read: from a server its own files, in the folder of the references and below; never a file of this
machine. From this machine files in that folder and on servers, and others if the record proves that whoever made the
references had that very file. ``external_links`` widens or narrows that.

Source: issue "Format 3, shards, and any store, near or far", part 4; issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hdmf_zarr_backend.errors import LinkRefusedError, MetadataError, StoreError, StoreNotFoundError
from hdmf_zarr_backend.model.locations import is_url, resolve_source
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.file_state import FileState
from hdmf_zarr_backend.stores.limits import ReadRules
from hdmf_zarr_backend.stores.link_policy import why_not

RECORD = "_hdmf"
"""Key of the record beside ``refs``."""

ANEW = "Make the references anew: `zarrio convert --virtual --force`, or restore that file as it was."


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of one file.

    Attributes
    ----------
    state : FileState
        As it was.
    relative : str, optional
        Path from the folder of the references.
    sample : str, optional
        Digest of both ends.
    """

    state: FileState
    relative: str | None = None
    sample: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        more = {"relative": self.relative, "sample": self.sample}
        return {**{name: value for name, value in more.items() if value is not None}, **self.state.as_json()}


def parse_record(document: Mapping[str, Any], location: str) -> dict[str, Recorded]:
    """Return ``{url: Recorded}`` of a file of references, ``{}`` where it has no record.

    Raises
    ------
    MetadataError
        The record is damaged.
    """
    record = document.get(RECORD, {})
    sources = record.get("sources", {}) if isinstance(record, dict) else None
    if not isinstance(sources, dict):
        raise _damaged(location)
    return {url: _recorded(entry, location) for url, entry in sources.items()}


def _recorded(entry: Any, location: str) -> Recorded:
    if not isinstance(entry, dict) or type(entry.get("size")) is not int:
        raise _damaged(location)
    texts = [entry.get(name) for name in ("etag", "relative", "sample")]
    if not all(text is None or isinstance(text, str) for text in texts):
        raise _damaged(location)
    time = entry.get("mtime_ns")
    if time is not None and type(time) is not int:
        raise _damaged(location)
    return Recorded(FileState(entry["size"], texts[0], time), texts[1], texts[2])


def _damaged(location: str) -> MetadataError:
    return MetadataError("the record of its sources is damaged", store=location, remedy="Make the references anew.")


def parted(location: str) -> tuple[str, str]:
    """Return folder and name of a file; a query stays with the folder, to which it gives access."""
    if not is_url(location):
        return os.path.split(location)
    parts = urlsplit(location)
    folder, _, name = parts.path.rpartition("/")
    return urlunsplit((parts.scheme, parts.netloc, folder, parts.query, "")), name


@dataclass(slots=True)
class _Chosen:
    keys: KeyStore
    name: str
    place: str
    state: FileState | None = None


class ReferredFiles:
    """The files that one file of references refers to.

    Parameters
    ----------
    location : str
        Of the references.
    recorded : dict
        As of `parse_record`.
    folder : callable
        Returns the keys of a folder or of a prefix, by its location.
    rules : callable
        Returns the rules that hold for reading.
    """

    def __init__(
        self,
        location: str,
        recorded: dict[str, Recorded],
        folder: Callable[[str], KeyStore],
        rules: Callable[[], ReadRules],
    ) -> None:
        self._location = location
        self._recorded = recorded
        self._folder = folder
        self._rules = rules
        self._chosen: dict[str, _Chosen] = {}
        self._lock = threading.Lock()

    def find(self, url: str) -> tuple[KeyStore, str]:
        """Return the keys of the folder of a file that is referred to, and its name there.

        Raises
        ------
        LinkRefusedError
            It may not be read.
        StoreNotFoundError
            It is recorded, and not there.
        StoreError
            It is recorded, and has changed.
        """
        with self._lock:
            chosen = self._chosen.get(url)
            if chosen is None:
                chosen = self._chosen[url] = self._choose(url)
            elif chosen.state is not None and chosen.keys.folder is not None:
                now = chosen.keys.state(chosen.name)  # of a server it is asked once
                if now != chosen.state:
                    raise self._missing([chosen.place]) if now is None else self._changed(chosen.place)
        return chosen.keys, chosen.name

    def _choose(self, url: str) -> _Chosen:
        recorded = self._recorded.get(url)
        original = self._resolved(url)
        if recorded is None:
            self._check(original)
            folder, name = parted(original)
            return _Chosen(self._folder(folder), name, original)
        places = [original]
        if recorded.relative is not None:
            places.append(self._resolved(recorded.relative))
        changed: str | None = None
        refused: LinkRefusedError | None = None
        for place in dict.fromkeys(places):
            try:
                self._check(place, is_recorded=True)
            except LinkRefusedError as error:
                refused = refused or error
                continue
            found, is_same = self._compared(place, recorded, is_original=place == original)
            if found is not None and is_same:
                return found
            changed = changed or (place if found is not None else None)
        if changed is not None:
            raise self._changed(changed)
        raise refused or self._missing(places)

    def _resolved(self, url: str) -> str:
        place = url if is_url(url) or os.path.isabs(url) else resolve_source(f"../{url}", self._location)
        return resolve_source(place, place)  # file:// URLs are paths

    def _compared(self, place: str, recorded: Recorded, *, is_original: bool) -> tuple[_Chosen | None, bool]:
        """Return the file at a place, and whether it is the one that is recorded."""
        folder, name = parted(place)
        keys = self._folder(folder)
        state = keys.state(name)
        if state is None:
            return None, False
        found = _Chosen(keys, name, place, state)
        if recorded.state.is_certainly(state):
            return found, True
        if state.size != recorded.state.size or (is_original and recorded.state.has_same_kind(state)):
            return found, False
        # a copy has another time
        return found, recorded.sample is not None and keys.sample(name, state.size) == recorded.sample

    def _check(self, place: str, *, is_recorded: bool = False) -> None:
        """Refuse a place that the rules do not allow."""
        refused = why_not(place, self._location, self._rules().external_links, free=is_recorded, kind="references")
        if refused is not None:
            problem, remedy = refused
            raise LinkRefusedError(
                f"the reference to {place!r} is refused: {problem}",
                store=self._location,
                remedy=f"{remedy}, if you trust the file."
                if remedy
                else "Do not trust it; or download it together with the file that it refers to.",
            )

    def _missing(self, places: list[str]) -> StoreNotFoundError:
        return StoreNotFoundError(
            f"the file that it refers to is not there: {' nor '.join(dict.fromkeys(places))}",
            store=self._location,
            remedy=f"Put it beside {self._location}, or make the references anew.",
        )

    def _changed(self, place: str) -> StoreError:
        return StoreError(f"the file that it refers to, {place}, has changed", store=self._location, remedy=ANEW)
