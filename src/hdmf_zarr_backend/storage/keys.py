"""A store as this package uses it: keys and bytes, synchronous, and nothing else.

`KeyStore` is the contract between the rooms. This module imports no zarr, so that the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hdmf_zarr_backend.errors import LimitError, StoreError
from hdmf_zarr_backend.storage.limits import DEFAULT_RULES, ReadRules

DOCUMENTS = frozenset({".zgroup", ".zarray", ".zattrs", "zarr.json"})
"""Names of the metadata documents of nodes."""

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


class KeyStore(Protocol):
    """Keys and bytes of one Zarr file.

    Attributes
    ----------
    location : str
        Absolute local path or URL of the file, without a trailing slash; what links and error messages name.
    """

    location: str

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""

    def get_range(self, key: str, start: int, stop: int | None = None) -> bytes | None:
        """Return the bytes ``start:stop`` of the value of ``key``, or None where it is not there."""

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``; a reader sees the old value or the new one, never a part."""

    def set_many(self, items: Mapping[str, bytes]) -> None:
        """Set several keys, in any order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents, consolidated ones excepted."""

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""

    def exists(self) -> bool:
        """Tell whether anything is at the location."""


def abilities_of(keys: KeyStore) -> Abilities:
    """Return what can be done with a store; one that does not say so can do what a directory can."""
    found: Abilities = getattr(innermost(keys), "abilities", LOCAL)
    return found


def rules_of(keys: KeyStore) -> ReadRules:
    """Return the rules that hold for reading from a store: those that were set, else the default ones."""
    found: ReadRules = getattr(innermost(keys), "read_rules", DEFAULT_RULES)
    return found


def check_value_size(keys: KeyStore, key: str, size: int, *, is_inflated: bool = False) -> None:
    """Refuse a value that is larger than the limits allow, before memory is taken for it.

    Parameters
    ----------
    keys : KeyStore
        The store.
    key : str
        Its key, which tells documents from chunks.
    size : int
        Bytes of the value.
    is_inflated : bool
        The store holds the value compressed.

    Raises
    ------
    LimitError
        Naming the limit.
    """
    limits = rules_of(keys).limits
    name = "max_document_bytes" if is_document(key) else "max_stored_bytes"
    if is_inflated:
        name = min(name, "max_object_bytes", key=lambda each: int(getattr(limits, each)))
    try:
        limits.check(name, size, f"the value of the key {key!r} has {size:,} bytes")
    except LimitError as error:
        raise error.located(store=keys.location) from None


def is_document(key: str) -> bool:
    """Tell whether a key is that of a metadata document, of a node or of the whole file."""
    name = key.rpartition("/")[2]
    return name in DOCUMENTS or name == ".zmetadata"


def set_rules(keys: KeyStore, rules: ReadRules) -> None:
    """Make ``rules`` hold for a store, and for whoever reads from it, in other processes too."""
    store: Any = innermost(keys)
    store.read_rules = rules


def innermost(keys: Any) -> Any:
    """Return the store itself that wrappers such as `InlinedKeys` stand before."""
    while (inner := getattr(keys, "keys", None)) is not None and not callable(inner):
        keys = inner
    return keys


def is_outside(key: str) -> bool:
    """Tell whether a key would lead out of its store; a crafted document may name nodes such as ``../../x``."""
    return key.startswith("/") or "\0" in key or (".." in key and ".." in key.split("/"))


def check_inside(key: str, location: str) -> None:
    """Refuse a key that would lead out of the store at ``location``.

    Raises
    ------
    StoreError
        It would.
    """
    if is_outside(key):
        raise StoreError(f"the key {key!r} leads out of the store", store=location, remedy="Do not trust it.")
