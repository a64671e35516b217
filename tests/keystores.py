"""A store in memory with the five abstract methods, and nothing else."""

from collections.abc import Iterable

from hdmf_zarr_backend.store.base import Store


class DictStore(Store):
    """A store of a plain dict; ``calls`` has the operation and the key of each call, in order."""

    of_one_process = True

    def __init__(self, location: str = "/memory.zarr") -> None:
        self.location = location
        self.values: dict[str, bytes] = {}
        self.calls: list[tuple[str, str]] = []

    def get(self, key: str) -> bytes | None:
        self.calls.append(("get", key))
        return self.values.get(key)

    def _set(self, key: str, value: bytes) -> None:
        assert type(value) is bytes
        self.calls.append(("set", key))
        self.values[key] = value

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.calls.append(("delete", key))
            self.values.pop(key, None)

    def sizes(self, prefix: str) -> dict[str, int]:
        start = f"{prefix}/" if prefix else ""
        return {key: len(value) for key, value in self.values.items() if key.startswith(start)}

    def exists(self) -> bool:
        return bool(self.values)
