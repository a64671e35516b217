"""A mapping from keys to bytes as a store: the key-value model of Zarr's specifications, a dict in memory for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from hdmf_zarr_backend.errors import StoreError, UsageError
from hdmf_zarr_backend.stores.base import DOCUMENTS, Abilities, KeyStore, check_inside
from hdmf_zarr_backend.stores.failures import node_of, telling

OF_THIS_PROCESS = "the memory of this process is no place that other processes can write to"

_FREE = Abilities()
_FIXED = Abilities(write=False, change=False, why="a mapping that is not mutable is read only")


class MappingKeys(KeyStore):
    """A mapping.

    Parameters
    ----------
    mapping : Mapping
        ``{key: bytes}``; one that is mutable can be written.
    location : str, optional
        What links and messages name; by default something that says which mapping it is in this process.
    """

    def __init__(self, mapping: Mapping[str, bytes], location: str | None = None) -> None:
        self.mapping = mapping
        self.location = location if location is not None else f"object://{id(mapping):x}"
        self.abilities = _FREE if isinstance(mapping, MutableMapping) else _FIXED

    def __repr__(self) -> str:
        return f"MappingKeys({self.location!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            OF_THIS_PROCESS,
            store=self.location,
            remedy='Use executor="threads".',
        )

    def _checked(self, key: str) -> str:
        check_inside(key, self.location)
        return key

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        with telling(self.location, self._checked(key), "read"):
            value: Any = self.mapping.get(key)
        if value is None or type(value) is bytes:
            return value
        try:  # zarr-python 2 keeps arrays in its mappings
            return memoryview(value).tobytes()
        except TypeError as error:
            raise StoreError(
                f"the value of {key!r} is of type {type(value).__name__}, and not bytes",
                store=self.location,
                path=node_of(key),
                remedy="Let the mapping give bytes.",
            ) from error

    def _mutable(self) -> MutableMapping[str, bytes]:
        if not isinstance(self.mapping, MutableMapping):
            raise StoreError(self.abilities.why, store=self.location, remedy="Give a dict, for example.")
        return self.mapping

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``."""
        mapping = self._mutable()
        with telling(self.location, self._checked(key), "written"):
            mapping[key] = value

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        mapping = self._mutable()
        for key in keys:
            with telling(self.location, self._checked(key), "deleted"):
                mapping.pop(key, None)

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents."""
        return (key for key in list(self.mapping) if key.rpartition("/")[2] in DOCUMENTS)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        start = f"{prefix}/" if prefix else ""
        return (key for key in list(self.mapping) if key.startswith(start))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        return {key: len(self.mapping[key]) for key in self.list_prefix(prefix)}

    def exists(self) -> bool:
        """Tell whether anything is in the mapping."""
        return next(iter(self.mapping), None) is not None
