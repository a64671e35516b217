"""Every kind of store that files are written to, with one interface, for tests that are not about one of them.

A test that takes the fixture `store` runs over `KINDS`; with ``@pytest.mark.parametrize("store", [...],
indirect=True)`` over some of `ALL_KINDS`. `StoreKind.refusals` lists what a kind cannot do, with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hdmf_zarr_backend.stores.obstore import object_settings
from tests.clouds import CLOUDS, Cloud
from tests.servers import S3Server, WebServer
from tests.zarrs import IS_ZARR_2

_names = itertools.count()


class StoreKind:
    """Places for files of one kind of store.

    Attributes
    ----------
    name : str
        Of the kind.
    refusals : dict
        ``{what: reason}`` of what is not possible: ``"append"``, ``"write"``, ``"link"``.
    """

    name = "local"
    refusals: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, Any] = {}

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the io, beside the place."""
        return {}

    def place(self, name: str) -> Any:
        """Return the place of the file of a name, the same one each time; files of one folder."""
        return str(self.folder / name)

    def contents(self, name: str) -> dict[str, bytes]:
        """Return all keys of a file."""
        from hdmf_zarr_backend.stores.opening import open_store

        keys = open_store(self.place(name), self.options.get("storage_options"))
        return {key: value for key in keys.list_prefix("") if (value := keys.get(key)) is not None}


class Zip(StoreKind):
    """A local zip file."""

    name = "zip"
    refusals: ClassVar[dict[str, str]] = {"append": "a zip file is written in one pass"}

    def place(self, name: str) -> Any:
        """Return the path of the zip file."""
        return str(self.folder / f"{name}.zip")


class Memory(StoreKind):
    """A dict."""

    name = "memory"
    refusals: ClassVar[dict[str, str]] = {
        "link": "a dict has no address that another file could name",
        "processes": "memory is one process's",
    }

    def place(self, name: str) -> Any:
        """Return the dict."""
        return self._made.setdefault(name, {})


class FsspecMemory(StoreKind):
    """fsspec's file system in memory."""

    name = "memory-url"
    refusals: ClassVar[dict[str, str]] = {"processes": "memory is one process's"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._root = f"memory://t{next(_names)}"

    def place(self, name: str) -> Any:
        """Return the URL."""
        return f"{self._root}/{name}"


class ZarrMemory(Memory):
    """zarr's store in memory."""

    name = "zarr-memory"

    def place(self, name: str) -> Any:
        """Return the store."""
        from zarr.storage import MemoryStore

        return self._made.setdefault(name, MemoryStore())


class ZarrLocal(StoreKind):
    """zarr's store of a local directory."""

    name = "zarr-local"

    def place(self, name: str) -> Any:
        """Return the store."""
        import zarr.storage

        if IS_ZARR_2:
            return zarr.storage.DirectoryStore(self.folder / name)
        return zarr.storage.LocalStore(self.folder / name)


class ZarrGroup(StoreKind):
    """An open group in a store of zarr."""

    name = "zarr-group"
    refusals = Memory.refusals

    def place(self, name: str) -> Any:
        """Return the group."""
        import zarr.storage

        if name not in self._made:
            store = zarr.storage.MemoryStore()
            options = {} if IS_ZARR_2 else {"zarr_format": 2}
            self._made[name] = zarr.open_group(store, path="some/where", mode="a", **options)
        return self._made[name]


class Obstore(Memory):
    """obstore's store in memory."""

    name = "obstore"

    def place(self, name: str) -> Any:
        """Return the store."""
        from obstore.store import MemoryStore

        return self._made.setdefault(name, MemoryStore())


class S3(StoreKind):
    """An S3 server, by obstore."""

    name = "s3"

    def __init__(self, folder: Path, server: S3Server) -> None:
        super().__init__(folder)
        self.server = server

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the io."""
        return {"storage_options": self.server.direct_options}

    def place(self, name: str) -> Any:
        """Return the URL."""
        return self.server.url(f"folder/{name}")


class S3Fs(S3):
    """An S3 server, by s3fs."""

    name = "s3fs"

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the io."""
        return {"storage_options": {**self.server.s3fs_options, "endpoint_url": self.server.endpoint}}


class Web(StoreKind):
    """A folder that is behind a web server."""

    name = "http"
    refusals: ClassVar[dict[str, str]] = {"write": "a web server is read only", "append": "a web server is read only"}

    def __init__(self, folder: Path, server: WebServer) -> None:
        super().__init__(folder)
        self.server = server

    def place(self, name: str) -> Any:
        """Return the URL."""
        return f"{self.server.url}/{name}"


class ObstoreS3(S3):
    """An S3 server, by a store of obstore."""

    name = "obstore-s3"

    @property
    def options(self) -> dict[str, Any]:
        """None: the store has them."""
        return {}

    def place(self, name: str) -> Any:
        """Return the store, with the file at its prefix."""
        from obstore.store import S3Store

        url = super().place(name)
        settings = object_settings(url, self.server.direct_options)
        assert settings is not None
        return S3Store.from_url(url, **settings)


class InCloud(StoreKind):
    """A bucket of one of the other clouds, by one of two libraries."""

    def __init__(self, folder: Path, name: str, cloud: Cloud) -> None:
        super().__init__(folder)
        self.name = name
        self.cloud = cloud

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the io."""
        return {"storage_options": self.cloud.options}

    def place(self, name: str) -> Any:
        """Return the URL."""
        return f"{self.cloud.url}/folder/{name}"


KINDS = ("local", "zip", "memory", "s3")
"""The kinds that the tests of the contract run over."""

ALL_KINDS = (*KINDS, "memory-url", "zarr-memory", "zarr-local", "zarr-group", "obstore", "s3fs", "obstore-s3")
"""All that files are written to."""

_PLAIN: dict[str, type[StoreKind]] = {
    kind.name: kind for kind in (StoreKind, Zip, Memory, FsspecMemory, ZarrMemory, ZarrLocal, ZarrGroup, Obstore)
}
_S3: dict[str, type[S3]] = {kind.name: kind for kind in (S3, S3Fs, ObstoreS3)}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreKind]:
    """Places for files of one kind of store; all of `KINDS`, or those that the test names."""
    name = request.param
    if name in _PLAIN:
        yield _PLAIN[name](tmp_path)
    elif name in CLOUDS:
        yield InCloud(tmp_path, name, request.getfixturevalue(name))
    else:
        yield _S3[name](tmp_path, request.getfixturevalue("s3"))
