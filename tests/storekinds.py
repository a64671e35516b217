"""Every kind of store that files are written to, with one interface, for tests that are not about one of them.

A test that takes the fixture `store` runs over `KINDS`; with ``@pytest.mark.parametrize("store", [...],
indirect=True)`` over some of `ALL_KINDS` and `CLOUDS`.
"""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend.store.clouds import object_settings
from hdmf_zarr_backend.store.opening import open_store
from tests.clouds import CLOUDS, Cloud
from tests.servers import S3Server
from tests.zarrs import IS_ZARR_2

KINDS = ("local", "zip", "memory", "s3")
"""The kinds that the tests of the contract run over."""

ALL_KINDS = (*KINDS, "memory-url", "zarr-memory", "zarr-local", "zarr-group", "obstore", "s3fs", "obstore-s3")
"""All that files are written to."""

_names = itertools.count()


class StoreKind:
    """Places for files of one kind of store: ``make`` returns the place of the file of a name, local by default."""

    cloud: Cloud

    def __init__(
        self,
        folder: Path,
        name: str = "local",
        make: Callable[[str], Any] | None = None,
        *,
        refusals: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.folder = folder
        self.name = name
        self.refusals = refusals or {}
        """``{what: reason}`` of what is not possible: ``"append"``, ``"link"``, ``"processes"``."""
        self.options = options
        """Keyword arguments of the io, beside the place."""
        self._make = make or (lambda name: str(folder / name))
        self._made: dict[str, Any] = {}

    def place(self, name: str) -> Any:
        """Return the place of the file of a name, the same one each time; files of one folder."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def contents(self, name: str) -> dict[str, bytes]:
        keys = open_store(self.place(name), self.options.get("storage_options"))
        return {key: value for key in keys.list_prefix("") if (value := keys.get(key)) is not None}


_OF_ONE_PROCESS = {"processes": "memory is one process's"}
_IN_MEMORY = {"link": "a dict has no address that another file could name", **_OF_ONE_PROCESS}


def _zarr_memory(name: str) -> Any:
    import zarr.storage

    return zarr.storage.MemoryStore()


def _zarr_group(name: str) -> Any:
    import zarr

    options = {} if IS_ZARR_2 else {"zarr_format": 2}
    return zarr.open_group(_zarr_memory(name), path="some/where", mode="a", **options)


def _obstore(name: str) -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


def plain_store(kind: str, folder: Path) -> StoreKind:
    if kind == "zip":
        refusals = {"append": "a zip file is written in one pass"}
        return StoreKind(folder, kind, lambda name: str(folder / f"{name}.zip"), refusals=refusals)
    if kind == "memory-url":
        root = f"memory://t{next(_names)}"
        return StoreKind(folder, kind, lambda name: f"{root}/{name}", refusals=_OF_ONE_PROCESS)
    if kind == "zarr-local":
        import zarr.storage

        make = zarr.storage.DirectoryStore if IS_ZARR_2 else zarr.storage.LocalStore
        return StoreKind(folder, kind, lambda name: make(folder / name))
    in_memory: dict[str, Callable[[str], Any]] = {
        "memory": lambda name: {}, "zarr-memory": _zarr_memory, "zarr-group": _zarr_group, "obstore": _obstore,
    }  # fmt: skip
    return StoreKind(folder, kind, in_memory[kind], refusals=_IN_MEMORY) if kind != "local" else StoreKind(folder)


def s3_store(kind: str, folder: Path, server: S3Server) -> StoreKind:
    """Return an S3 server by obstore, by s3fs, or as a store of obstore with the file at its prefix."""
    options = {**server.s3fs_options, "endpoint_url": server.endpoint} if kind == "s3fs" else server.direct_options
    if kind != "obstore-s3":
        return StoreKind(folder, kind, lambda name: server.url(f"folder/{name}"), storage_options=options)

    def make(name: str) -> Any:
        from obstore.store import S3Store

        url = server.url(f"folder/{name}")
        return S3Store.from_url(url, **object_settings(url, options))  # type: ignore[arg-type] # such a URL has some

    return StoreKind(folder, kind, make)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreKind:
    """Places for files of one kind of store; all of `KINDS`, or those that the test names."""
    kind = request.param
    if kind in CLOUDS:
        cloud: Cloud = request.getfixturevalue(kind)
        result = StoreKind(tmp_path, kind, lambda name: f"{cloud.url}/folder/{name}", storage_options=cloud.options)
        result.cloud = cloud
        return result
    if "s3" in kind:
        return s3_store(kind, tmp_path, request.getfixturevalue("s3"))
    return plain_store(kind, tmp_path)
