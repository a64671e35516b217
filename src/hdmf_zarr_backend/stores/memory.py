"""`MemoryStore`: a mapping from keys to bytes as a store, such as a dict in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from hdmf_zarr_backend.errors import StoreError, UsageError
from hdmf_zarr_backend.stores.base import Abilities, Store, check_inside, node_of
from hdmf_zarr_backend.stores.failures import library_errors_named

_READ_ONLY = Abilities(write=False, change=False, why="a mapping that is not mutable is read only")


def not_shared(
    location: str, problem: str = "other processes cannot write to the memory of this process"
) -> UsageError:
    """Return the error for sending a store that only this process can write to another process."""
    return UsageError(problem, store=location, remedy='Use executor="threads".', remedy_cli="Leave --scheduler out.")


class MemoryStore(Store):
    """A mapping, or its keys below a path."""

    def __init__(self, mapping: Mapping[str, bytes], location: str | None = None, *, path: str = "") -> None:
        self.mapping: Any = mapping  # a MutableMapping, unless it is read only
        self.location = location if location is not None else f"object://{id(mapping):x}"
        self.abilities = Abilities() if isinstance(mapping, MutableMapping) else _READ_ONLY
        self._start = f"{path}/" if path else ""

    def __reduce__(self) -> tuple[Any, ...]:
        raise not_shared(self.location)

    def get(self, key: str) -> bytes | None:
        check_inside(key, self.location)
        with library_errors_named(self.location, key, "read"):
            value = self.mapping.get(self._start + key)
        if value is None or type(value) is bytes:
            return value
        try:  # zarr-python 2 keeps arrays in its mappings
            return memoryview(value).tobytes()
        except TypeError as error:
            raise StoreError(
                f"the value of {key!r} is of type {type(value).__name__}, not bytes",
                store=self.location,
                path=node_of(key),
                remedy="Use a mapping whose values are bytes.",
            ) from error

    def _set(self, key: str, value: bytes) -> None:
        self._refuse_change()
        check_inside(key, self.location)
        with library_errors_named(self.location, key, "written"):
            self.mapping[self._start + key] = value

    def _delete(self, keys: Iterable[str]) -> None:
        self._refuse_change()
        for key in keys:
            check_inside(key, self.location)
            with library_errors_named(self.location, key, "deleted"):
                self.mapping.pop(self._start + key, None)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        start = self._start + (f"{prefix}/" if prefix else "")
        return (key.removeprefix(self._start) for key in list(self.mapping) if key.startswith(start))

    def sizes(self, prefix: str) -> dict[str, int]:
        return {key: len(self.mapping[self._start + key]) for key in self.list_prefix(prefix)}

    def exists(self) -> bool:
        return any(key.startswith(self._start) for key in self.mapping)  # `list_prefix` lists all of them first
