"""The contract of a store: keys and bytes of one Zarr file, and everything that only some kinds of stores can do.

`KeyStore` declares all of it, with a default for each operation that a kind of store may not have, so that a caller
never asks which kind it has. A new kind of store is one subclass. This module imports no zarr, so that the command line
starts fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from hdmf_zarr_backend.errors import LimitError, StoreError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, split
from hdmf_zarr_backend.stores.file_state import SAMPLE_BYTES, FileState, digest_of
from hdmf_zarr_backend.stores.limits import DEFAULT_RULES, ReadRules
from hdmf_zarr_backend.stores.open_value import OpenValue

DOCUMENTS = frozenset({".zgroup", ".zarray", ".zattrs", "zarr.json"})
"""Names of the metadata documents of nodes."""

Write: TypeAlias = Callable[[bytes], Any]
"""Appends to a value that is written piece by piece."""

Range = tuple[int, int | None]
"""Start and end of a range as of a slice; ``(-n, None)`` are the last n bytes."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What can be done with a kind of store.

    Attributes
    ----------
    write : bool
        A new file can be written.
    change : bool
        A file that is there can be changed.
    listing : bool
        The store can tell which keys there are.
    is_far : bool
        A request costs so much time that several belong under way at once.
    consolidates : bool
        A consolidated document makes sense there.
    formats : tuple of int
        Zarr formats that can be written.
    control_characters : bool
        Keys may have control characters.
    why : str
        Why something is not possible, for messages: "a zip file cannot be changed".
    """

    write: bool = True
    change: bool = True
    listing: bool = True
    is_far: bool = False
    consolidates: bool = True
    formats: tuple[int, ...] = (2, 3)
    control_characters: bool = True
    why: str = ""


LOCAL = Abilities()


class KeyStore(ABC):
    """Keys and bytes of one Zarr file.

    A subclass sets ``location`` and implements the abstract methods. Everything else has a default that is correct for
    any store, and that a subclass replaces where it can do better.

    Attributes
    ----------
    location : str
        Absolute local path or URL of the file, without a trailing slash; what links and error messages name.
    abilities : Abilities
        What can be done with this store.
    read_rules : ReadRules
        Limits and link policy of whoever reads from this store, in other processes too.
    options : dict
        The user's ``storage_options``, which open other files of the same server.
    folder : str or None
        The local folder that the store is.
    zip_file : str or None
        The local zip file that the store is.
    opens_by_url : bool
        Whether ``location`` and ``options`` alone open the file, in obstore, fsspec and TensorStore.
    opens_values : bool
        Whether `open_value` reads a part of a value for no more than it costs to read the whole.
    streams_values : bool
        Whether `stream` sends a value piece by piece. Otherwise the whole value is held until it is set.
    stream_bytes : int
        Bytes of a streamed value that are in memory at a time.
    """

    location: str
    abilities: Abilities = LOCAL
    read_rules: ReadRules = DEFAULT_RULES
    options: Mapping[str, Any] = {}
    folder: str | None = None
    zip_file: str | None = None
    opens_by_url: bool = False
    opens_values: bool = False
    streams_values: bool = False
    stream_bytes: int = 0

    @property
    def unwrapped(self) -> KeyStore:
        """The store itself, without wrappers that hold some of its values in memory."""
        return self

    # ---- reading ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        return {key: value for key in keys if (value := self.get(key)) is not None}

    def get_range(self, key: str, start: int, stop: int | None = None) -> bytes | None:
        """Return the bytes ``start:stop`` of the value of ``key``, or None where it is not there."""
        found = self.get_ranges(key, [(start, stop)])
        return None if found is None else found[0]

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        value = self.get(key)
        return None if value is None else cut_ranges(value, ranges)

    def beginning(self, key: str, count: int) -> bytes | None:
        """Return the first ``count`` bytes of the value of ``key``, or None where it is not there."""
        return self.get_range(key, 0, count)

    def open_value(self, key: str) -> OpenValue | None:
        """Return the value of ``key``, open, to read parts of it; None where it is absent or the store opens none."""
        return None

    def inlined(self, key: str) -> bytes | None:
        """Return the value of ``key`` if it is in memory already, None otherwise."""
        return None

    def pin(self) -> None:
        """Read from what is there now: if the whole file is replaced, reading on is an error."""

    # ---- writing ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def set(self, key: str, value: bytes) -> None:
        """Set ``key``; a reader sees the old value or the new one, never a part."""

    def set_many(self, items: Mapping[str, bytes]) -> None:
        """Set several keys, in any order."""
        for key, value in items.items():
            self.set(key, value)

    def create(self, key: str, value: bytes) -> bool | None:
        """Set ``key`` if it is not there, in one step.

        Returns
        -------
        bool or None
            Whether it was set; None where the store has no such request.
        """
        return None

    @contextmanager
    def stream(self, key: str) -> Iterator[Write]:
        """Give a function that appends to a new value of ``key``, which is set if the block ends without an error."""
        pieces: list[bytes] = []
        yield pieces.append
        self.set(key, b"".join(pieces))

    def held_bytes(self, nbytes: int) -> int:
        """Return how much of a value of ``nbytes`` is in memory while `stream` writes it."""
        return min(nbytes, self.stream_bytes) if self.streams_values else nbytes

    def link_value(self, source: str, target: str) -> bool:
        """Give the value of ``source`` a second key without a copy, where the store can; return whether it did."""
        return False

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""

    def delete_below(self, path: str) -> None:
        """Delete all keys below ``path/``, and the folders that held them where a store has folders."""
        self.delete(list(self.list_prefix(path)))

    def delete_unfinished(self, folders: Iterable[str]) -> None:
        """Delete the files in ``folders`` that were being written when their writer died."""

    def drain(self) -> None:
        """Wait until everything that was set is in the store.

        Raises
        ------
        ZarrBackendError
            Something that was set before could not be written.
        """

    def abandon(self) -> None:
        """Wait for what is being written, whether it succeeds or not."""

    def end_task(self) -> None:
        """Wait for what a task has set, in a process that received the task; elsewhere its sender waits for all."""

    def sync(self) -> None:
        """Wait until everything that was set in a local file is on the disk; a server stores what it acknowledges."""

    def complete_chunks(self, path: str, node: ArrayNode[Attributes]) -> frozenset[str]:
        """Return the names of those chunks of an array that an interrupted write has left complete."""
        return frozenset()

    # ---- what there is ----------------------------------------------------------------------------------------------

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents, consolidated ones excepted."""
        return (key for key in self.sizes("") if key.rpartition("/")[2] in DOCUMENTS)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        return iter(self.sizes(prefix))

    @abstractmethod
    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether anything is at the location."""

    def is_empty_folder(self) -> bool:
        """Return whether a local folder is there, and nothing in it that could be lost."""
        return False

    def size(self, key: str) -> int | None:
        """Return the bytes of the value of ``key``, or None where it is not there."""
        state = self.state(key)
        return None if state is None else state.size

    def state(self, key: str) -> FileState | None:
        """Return size, tag and time of the value of ``key``; None where it is absent or the store does not know."""
        return None

    def sample(self, key: str, size: int) -> str | None:
        """Return a digest of the two ends of a value of ``size`` bytes, None where it is not there."""
        parts = self.get_ranges(key, [(0, min(size, SAMPLE_BYTES)), (max(0, size - SAMPLE_BYTES), size)])
        return None if parts is None else digest_of(parts)

    def keys_outside(self, arrays: Collection[str]) -> Iterator[str]:
        """Yield the keys that are not below an array.

        Parameters
        ----------
        arrays : set of str
            Their paths. Their folders are not searched where a store has folders.

        Raises
        ------
        StoreError
            The store cannot be listed.
        """
        return (key for key in self.list_prefix("") if not _is_below(key, arrays))

    def names_without_values(self, path: str) -> Iterator[str]:
        """Yield the names below ``path/`` that have no value but a folder, a pipe or a device."""
        return iter(())

    def is_blocked(self, key: str) -> bool:
        """Return whether a folder, a pipe or a device is where the value of a key would be."""
        return False

    def check_inside(self, names: Iterable[str], paths: Iterable[str]) -> None:
        """Refuse keys and paths of nodes that lead out of the store, by their name or by a symbolic link.

        Raises
        ------
        StoreError
            One does.
        """
        refuse_outside([name for name in (*names, *paths) if not name or is_outside(name)], self.location)

    # ---- other files ------------------------------------------------------------------------------------------------

    def neighbour(self, location: str) -> KeyStore | None:
        """Return another file of the same opened file system; None where the file is opened by its location."""
        return None

    def check_url(self) -> None:
        """Make sure that a library can open the location; no server is asked.

        Raises
        ------
        UsageError
            None can.
        """


class WrappedKeys(KeyStore):
    """A store in front of another one, to which everything goes that a subclass does not do itself.

    Parameters
    ----------
    keys : KeyStore
        The store behind it.
    """

    def __init__(self, keys: KeyStore) -> None:
        self.keys = keys
        self.location = keys.location
        self.abilities = keys.abilities
        self.options = keys.options
        self.folder = keys.folder
        self.zip_file = keys.zip_file
        self.opens_by_url = keys.opens_by_url
        self.opens_values = keys.opens_values
        self.streams_values = keys.streams_values
        self.stream_bytes = keys.stream_bytes

    @property
    def unwrapped(self) -> KeyStore:
        """The innermost store."""
        return self.keys.unwrapped

    @property
    def read_rules(self) -> ReadRules:
        """The rules of the innermost store."""
        return self.unwrapped.read_rules

    @read_rules.setter
    def read_rules(self, rules: ReadRules) -> None:
        self.unwrapped.read_rules = rules

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self.keys.get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        return self.keys.get_many(keys)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        return self.keys.get_ranges(key, ranges)

    def open_value(self, key: str) -> OpenValue | None:
        """Return the value of ``key``, open; None where it is absent or cannot be opened."""
        return self.keys.open_value(key)

    def inlined(self, key: str) -> bytes | None:
        """Return the value of ``key`` if it is in memory already, None otherwise."""
        return self.keys.inlined(key)

    def pin(self) -> None:
        """Read from what is there now."""
        self.keys.pin()

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``."""
        self.keys.set(key, value)

    def create(self, key: str, value: bytes) -> bool | None:
        """Set ``key`` if it is not there."""
        return self.keys.create(key, value)

    @contextmanager
    def stream(self, key: str) -> Iterator[Write]:
        """Give a function that appends to a new value of ``key``, past this wrapper if the store streams values."""
        with self.keys.stream(key) if self.streams_values else super().stream(key) as write:
            yield write

    def link_value(self, source: str, target: str) -> bool:
        """Give the value of ``source`` a second key, if the store can."""
        return self.keys.link_value(source, target)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        self.keys.delete(keys)

    def delete_below(self, path: str) -> None:
        """Delete all keys below ``path/``."""
        self.keys.delete_below(path)

    def delete_unfinished(self, folders: Iterable[str]) -> None:
        """Delete what a writer left that died."""
        self.keys.delete_unfinished(folders)

    def drain(self) -> None:
        """Wait until everything that was set is in the store."""
        self.keys.drain()

    def abandon(self) -> None:
        """Wait for what is being written, whether it succeeds or not."""
        self.keys.abandon()

    def end_task(self) -> None:
        """Wait for what a task has set."""
        self.keys.end_task()

    def sync(self) -> None:
        """Wait until everything that was set is on the disk."""
        self.keys.sync()

    def complete_chunks(self, path: str, node: ArrayNode[Attributes]) -> frozenset[str]:
        """Return the names of the chunks that an interrupted write has left complete."""
        return self.keys.complete_chunks(path, node)

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents."""
        return self.keys.list_documents()

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        return self.keys.list_prefix(prefix)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        return self.keys.sizes(prefix)

    def exists(self) -> bool:
        """Return whether anything is at the location."""
        return self.keys.exists()

    def is_empty_folder(self) -> bool:
        """Return whether a local folder is there, and nothing in it."""
        return self.keys.is_empty_folder()

    def state(self, key: str) -> FileState | None:
        """Return size, tag and time of the value of ``key``."""
        return self.keys.state(key)

    def keys_outside(self, arrays: Collection[str]) -> Iterator[str]:
        """Yield the keys that are not below an array."""
        return self.keys.keys_outside(arrays)

    def names_without_values(self, path: str) -> Iterator[str]:
        """Yield the names below ``path/`` that have no value."""
        return self.keys.names_without_values(path)

    def is_blocked(self, key: str) -> bool:
        """Return whether a folder, a pipe or a device is where the value of a key would be."""
        return self.keys.is_blocked(key)

    def check_inside(self, names: Iterable[str], paths: Iterable[str]) -> None:
        """Refuse keys and paths of nodes that lead out of the store."""
        self.keys.check_inside(names, paths)

    def neighbour(self, location: str) -> KeyStore | None:
        """Return another file of the same opened file system."""
        return self.keys.neighbour(location)

    def check_url(self) -> None:
        """Make sure that a library can open the location."""
        self.keys.check_url()


def cut_ranges(value: bytes, ranges: Sequence[Range]) -> list[bytes]:
    """Return ranges of bytes of a value that is in memory."""
    return [value[start:stop] for start, stop in ranges]


def _is_below(key: str, arrays: Collection[str]) -> bool:
    path = key
    while path:
        path, _ = split(path)
        if path in arrays:
            return True
    return False


def check_value_size(keys: KeyStore, key: str, size: int, *, is_inflated: bool = False) -> None:
    """Refuse a value that is larger than the limits allow, before memory is taken for it.

    Parameters
    ----------
    keys : KeyStore
        The store.
    key : str
        Its key, which distinguishes documents from chunks.
    size : int
        Bytes of the value.
    is_inflated : bool
        The store holds the value compressed.

    Raises
    ------
    LimitError
        Naming the limit.
    """
    limits = keys.read_rules.limits
    name = "max_document_bytes" if is_document(key) else "max_stored_bytes"
    if is_inflated:
        name = min(name, "max_object_bytes", key=lambda each: int(getattr(limits, each)))
    try:
        limits.check(name, size, f"the value of the key {key!r} has {size:,} bytes")
    except LimitError as error:
        raise error.located(store=keys.location) from None


def is_document(key: str) -> bool:
    """Return whether a key is that of a metadata document, of a node or of the whole file."""
    name = key.rpartition("/")[2]
    return name in DOCUMENTS or name == ".zmetadata"


def is_outside(key: str) -> bool:
    """Return whether a key leads out of its store; a crafted document may name nodes such as ``../../x``."""
    return key.startswith("/") or "\0" in key or (".." in key and ".." in key.split("/"))


def check_inside(key: str, location: str) -> None:
    """Refuse a key that leads out of the store at ``location``.

    Raises
    ------
    StoreError
        It does.
    """
    if is_outside(key):
        raise StoreError(f"the key {key!r} leads out of the store", store=location, remedy="Do not trust it.")


def refuse_outside(outside: Sequence[str], location: str) -> None:
    """Refuse the first of the keys and paths that lead out of the store at ``location``, if there is one.

    Raises
    ------
    StoreError
        There is one.
    """
    if outside:
        raise StoreError(
            f"{outside[0]!r} leads out of the store",
            store=location,
            remedy="Do not trust the file, or the one who put a link there.",
        )
