"""What an interrupted change of a file has left is undone, or finished where it had come to its end.

Both may be stopped at any point, and repeated.

Source: issue "Nothing lost, nobody let in", part 2.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hdmf_zarr_backend.changes.journal_records import (
    JOURNAL,
    LAST_NOTE,
    ROOT_DOCUMENTS,
    VERSION,
    Mark,
    Record,
    aside_key,
    checked_keys,
    damaged,
    record_key,
)
from hdmf_zarr_backend.changes.locks import Holder
from hdmf_zarr_backend.errors import JournalWarning
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import parse_fast

_PIECE_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Left:
    """A journal that was left, or belongs to a writer that is at work.

    Attributes
    ----------
    id : str
        Of the change.
    holder : Holder
        Who makes or made it.
    """

    id: str
    holder: Holder


def pending(keys: Store) -> Left | None:
    """Return what is known of the journal of a file, None where there is none.

    Raises
    ------
    MetadataError
        The journal is damaged.
    """
    if not keys.abilities.consolidates:
        return None
    text = keys.unwrapped.get(JOURNAL)
    if text is None:
        return None
    record = Record.decode(text, keys.location)
    return Left(record.id, record.holder)


def recover(keys: Store) -> str | None:
    """Undo or finish what an interrupted change has left.

    Whoever calls this is the one writer of the file.

    Parameters
    ----------
    keys : Store
        The store.

    Returns
    -------
    str or None
        What was done, as a sentence without a full stop; None where there was nothing to do.

    Raises
    ------
    MetadataError
        The journal is damaged.
    StoreError
        It is about keys that are not of this file.
    """
    found = pending(keys)
    if found is None:
        return None
    store: Store = keys.unwrapped
    count, aside = 0, list[str]()
    for record in _records(store, found.id):
        count += 1
        aside += record.aside_keys()
    last = _last_note(store, found.id)
    if last is not None and _is_done(store, last["final"]):
        store.delete(last["delete"])
        done = "was written to its end, and its journal was removed"
    else:
        store.delete([LAST_NOTE])  # what is half undone is not to look like what was to be
        _undo(store, found.id)
        done = "did not come to its end, and was undone"
    store.delete_unfinished({"", *_folders(store, found.id)})
    remove(store, count, aside)
    return f"a change of this file by {found.holder} {done}"


def recovered(keys: Store) -> None:
    """Undo or finish what an interrupted change has left, and warn of it."""
    done = recover(keys)
    if done is not None:
        warn(f"{keys.location}: {done}")


def warn(message: str) -> None:
    """Warn whoever opened or wrote the file."""
    warnings.warn(message, JournalWarning, stacklevel=4)


def digest(value: bytes) -> str:
    """Return what is put down of a document that will be set."""
    return hashlib.sha256(value).hexdigest()


def _is_done(store: Store, final: Mapping[str, str | None]) -> bool:
    there = store.get_many(final)
    return all((digest(there[key]) if key in there else None) == wanted for key, wanted in final.items())


def copy_value(store: Store, source: str, target: str) -> None:
    """Set a key to the value of another one, if that is there; piece by piece where the store can do so."""
    if not store.streams_values:
        value = store.get(source)
        if value is not None:
            store.set(target, value)
        return
    start, piece = 0, store.get_range(source, 0, _PIECE_BYTES + 1)
    if piece is None:
        return
    with store.stream(target) as write:
        while piece:
            write(piece[:_PIECE_BYTES])
            start += _PIECE_BYTES
            is_last = len(piece) <= _PIECE_BYTES  # what begins at the end of a value is an error to some stores
            piece = None if is_last else store.get_range(source, start, start + _PIECE_BYTES + 1)


def remove(store: Store, count: int, aside: Sequence[str] = ()) -> None:
    """Delete a journal of ``count`` records; before it, the keys of what was put ``aside``.

    Without its first key the others mean nothing, and nobody knows what was put aside.
    """
    if aside:
        store.delete(aside)
    store.delete([JOURNAL])
    store.delete([*map(record_key, range(1, count)), LAST_NOTE])


def _records(store: Store, change: str) -> Iterator[Record]:
    """Yield the records of a change, one after the other: together they may be larger than memory."""
    number = 0
    while (text := store.get(record_key(number))) is not None:
        record = Record.decode(text, store.location)
        if record.id != change:
            return  # of a change before, whose journal was not removed to its end
        store.check_inside([*record.old, *record.absent, *record.aside, *record.aside_keys()], record.below)
        yield record
        number += 1


def _folders(store: Store, change: str) -> set[str]:
    """Return the folders in which keys were set, but for those that are new."""
    return {
        key.rpartition("/")[0]
        for record in _records(store, change)
        for key in (*record.old, *record.absent, *record.aside)
    }


def _undo(store: Store, change: str) -> None:
    """Put everything back; what lets readers in comes last where the change had put a mark, else first."""
    marks: list[Mark] = []
    roots: dict[str, bytes] = {}
    for record in _records(store, change):
        roots |= {key: record.old[key] for key in ROOT_DOCUMENTS if key in record.old}
        if record.mark is not None:
            marks.append(record.mark)
    if marks and _differing(store, roots):  # the mark was put, or more: until then, nothing was behind it
        for mark in marks:
            mark.put(store)
    else:
        _set_roots(store, roots)
    for record in _records(store, change):
        for path in record.below:
            store.delete_below(path)
        store.delete(key for key in record.absent if key not in ROOT_DOCUMENTS)
        store.set_many({key: value for key, value in record.old.items() if key not in ROOT_DOCUMENTS})
        for key, number in record.aside.items():  # where it is not put aside yet, nothing has been changed
            copy_value(store, aside_key(change, number), key)
    for record in _records(store, change):
        store.delete(key for key in record.absent if key in ROOT_DOCUMENTS)
    if marks:
        _set_roots(store, roots)


def _differing(store: Store, roots: Mapping[str, bytes]) -> list[str]:
    """Return the documents of the root that are not as they were, in the order in which they are to be set."""
    there = store.get_many(roots)
    return [key for key in ROOT_DOCUMENTS if key in roots and there.get(key) != roots[key]]


def _set_roots(store: Store, roots: Mapping[str, bytes]) -> None:
    for key in _differing(store, roots):
        store.set(key, roots[key])


def _last_note(store: Store, change: str) -> dict[str, Any] | None:
    """Return what was put down right before the last put of a change, None where it did not come so far."""
    text = store.get(LAST_NOTE)
    if text is None:
        return None
    try:
        found = parse_fast(text)
        if found["version"] == VERSION and found["id"] != change:
            return None
        if found["version"] != VERSION:
            raise ValueError("it is of another version")
        final, unread = dict(found["final"]), checked_keys(found["delete"])
        names = checked_keys(list(final))
        if not all(wanted is None or isinstance(wanted, str) for wanted in final.values()):
            raise ValueError("it states something other than digests")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(error, store.location) from error
    store.check_inside([*names, *unread], [])
    return {"final": final, "delete": unread}
