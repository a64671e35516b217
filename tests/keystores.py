"""A store in memory that records its calls, and fails on request."""

from collections.abc import Iterable, Mapping

from hdmf_zarr_backend.stores.base import Store


class MemoryKeys(Store):
    """The contract of `stores.base.Store` on a dict."""

    def __init__(self, values: Mapping[str, bytes] | None = None, *, location: str = "/memory.zarr") -> None:
        self.values = dict(values or {})
        self.location = location
        self.calls: list[tuple[str, str]] = []
        """Operation and key, in order."""
        self.fails = lambda operation, key: None
        """Is given operation and key of each call; what it raises is the failure."""

    def _note(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        self.fails(operation, key)

    def get(self, key: str) -> bytes | None:
        self._note("get", key)
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        assert type(value) is bytes
        self._note("set", key)
        self.values[key] = value

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._note("delete", key)
            self.values.pop(key, None)

    def sizes(self, prefix: str) -> dict[str, int]:
        start = f"{prefix}/" if prefix else ""
        return {key: len(value) for key, value in self.values.items() if key.startswith(start)}

    def exists(self) -> bool:
        return bool(self.values)

    def keys_set(self) -> list[str]:
        """Return the keys that were set, in order."""
        return [key for operation, key in self.calls if operation == "set"]
