"""A store some of whose values are in memory already: those that the consolidated document of a file holds itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hdmf_zarr_backend.stores.base import KeyStore, Range, WrappedKeys, cut_ranges
from hdmf_zarr_backend.stores.open_value import OpenValue


class InlinedKeys(WrappedKeys):
    """A store some of whose values are in memory already; everything else goes to the store.

    Parameters
    ----------
    keys : KeyStore
        The store.
    values : dict
        ``{key: bytes}``.
    """

    def __init__(self, keys: KeyStore, values: dict[str, bytes]) -> None:
        super().__init__(keys)
        self.values = values

    def __repr__(self) -> str:
        return f"InlinedKeys({self.keys!r}, {len(self.values)} values)"

    def inlined(self, key: str) -> bytes | None:
        """Return the value of ``key`` if it is in memory already, None otherwise."""
        return self.values.get(key)

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        value = self.values.get(key)
        return value if value is not None else self.keys.get(key)

    def open_value(self, key: str) -> OpenValue | None:
        """Return the value of ``key``, open; None where it is absent, cannot be opened, or is in memory."""
        return None if key in self.values else self.keys.open_value(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for key in keys:
            if key in self.values:
                found[key] = self.values[key]
            else:
                missing.append(key)
        return {**found, **self.keys.get_many(missing)} if missing else found

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        value = self.values.get(key)
        return cut_ranges(value, ranges) if value is not None else self.keys.get_ranges(key, ranges)

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``; what was inlined under it is forgotten."""
        self.values.pop(key, None)
        self.keys.set(key, value)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        gone = list(keys)
        for key in gone:
            self.values.pop(key, None)
        self.keys.delete(gone)
