"""Stores that have each value as a whole: what is asked for a part of one is cut from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from hdmf_zarr_backend.storage.keys import Range


def cut_ranges(value: bytes, ranges: Sequence[Range]) -> list[bytes]:
    """Return ranges of bytes of a value that is at hand."""
    return [value[start:stop] for start, stop in ranges]


class WholeValues(ABC):
    """The reading half of `storage.keys.KeyStore`, by `get` alone."""

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        return {key: value for key in keys if (value := self.get(key)) is not None}

    def get_range(self, key: str, start: int, stop: int | None = None) -> bytes | None:
        """Return the bytes ``start:stop`` of the value of ``key``, or None where it is not there."""
        value = self.get(key)
        return None if value is None else value[start:stop]

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        value = self.get(key)
        return None if value is None else cut_ranges(value, ranges)
