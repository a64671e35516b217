"""A store some of whose values are at hand already: what the consolidated document of a file holds itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hdmf_zarr_backend.storage.keys import KeyStore, Range
from hdmf_zarr_backend.storage.offers import open_value
from hdmf_zarr_backend.storage.openvalue import OpenValue
from hdmf_zarr_backend.storage.wholevalues import cut_ranges


class InlinedKeys:
    """A store some of whose values are at hand already; everything else goes to the store.

    Parameters
    ----------
    keys : KeyStore
        The store.
    inlined : dict
        ``{key: bytes}``.
    """

    def __init__(self, keys: KeyStore, inlined: dict[str, bytes]) -> None:
        self.keys = keys
        self.inlined = inlined
        self.location = keys.location

    def __repr__(self) -> str:
        return f"InlinedKeys({self.keys!r}, {len(self.inlined)} values)"

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        value = self.inlined.get(key)
        return value if value is not None else self.keys.get(key)

    def open_value(self, key: str) -> OpenValue | None:
        """Return the value of ``key``, open; None where it is not there, or cannot be opened."""
        return None if key in self.inlined else open_value(self.keys, key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for key in keys:
            if key in self.inlined:
                found[key] = self.inlined[key]
            else:
                missing.append(key)
        return {**found, **self.keys.get_many(missing)} if missing else found

    def get_range(self, key: str, start: int, stop: int | None = None) -> bytes | None:
        """Return the bytes ``start:stop`` of the value of ``key``, or None where it is not there."""
        value = self.inlined.get(key)
        return value[start:stop] if value is not None else self.keys.get_range(key, start, stop)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        value = self.inlined.get(key)
        return cut_ranges(value, ranges) if value is not None else self.keys.get_ranges(key, ranges)

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``; what was inlined under it is forgotten."""
        self.inlined.pop(key, None)
        self.keys.set(key, value)

    def set_many(self, items: Mapping[str, bytes]) -> None:
        """Set several keys."""
        for key, value in items.items():
            self.set(key, value)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        gone = list(keys)
        for key in gone:
            self.inlined.pop(key, None)
        self.keys.delete(gone)

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
        """Tell whether anything is at the location."""
        return self.keys.exists()
