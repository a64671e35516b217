"""A store in memory that records its calls, and fails on request."""

from collections.abc import Iterable, Mapping

from hdmf_zarr_backend.store.base import Store


class Shelf(Store):
    """A store with the five abstract methods, and nothing else."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def _set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.values.pop(key, None)

    def sizes(self, prefix: str) -> dict[str, int]:
        start = f"{prefix}/" if prefix else ""
        return {key: len(value) for key, value in self.values.items() if key.startswith(start)}

    def exists(self) -> bool:
        return bool(self.values)


class MemoryKeys(Shelf):
    """A store that notes its calls, which may fail."""

    def __init__(self, values: Mapping[str, bytes] | None = None, *, location: str = "/memory.zarr") -> None:
        super().__init__(location)
        self.values = dict(values or {})
        self.calls: list[tuple[str, str]] = []
        """Operation and key, in order."""
        self.fails = lambda operation, key: None
        """Is given operation and key of each call; what it raises is the failure."""

    def _note(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        self.fails(operation, key)

    def get(self, key: str) -> bytes | None:
        self._note("get", key)
        return super().get(key)

    def _set(self, key: str, value: bytes) -> None:
        assert type(value) is bytes
        self._note("set", key)
        super()._set(key, value)

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._note("delete", key)
            super()._delete([key])

    def keys_set(self) -> list[str]:
        return [key for operation, key in self.calls if operation == "set"]
