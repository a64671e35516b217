"""Places for the files of tests, by kind of store, with the operators of `pathlib`.

`folder / "a.zarr"` is passed to `ZarrIO`.

======  ==============================================================================
local   the folder itself, a `Path`
zip     a `Path` too; the name of each Zarr file in it gets ``.zip`` at its end
memory  a URL of fsspec's file system in memory: a `Url` (a dict has no address)
s3      a URL in a bucket, whose credentials are those of the environment: a `Url`
======  ==============================================================================
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.store.base import Store, Write
from hdmf_zarr_backend.store.clouds import open_folder
from hdmf_zarr_backend.store.opening import open_store
from hdmf_zarr_backend.store.transaction import DirectChange

Place = Any
"""A `Path` or a `Url`."""


class ZipFolder(type(Path())):  # type: ignore[misc] # before Python 3.12, a `Path` is made of one of its subclasses
    """A local folder whose Zarr files are zip files."""

    def __truediv__(self, key: Any) -> Any:
        return super().__truediv__(_zipped(str(key)))

    def with_name(self, name: str) -> Any:
        return super().with_name(_zipped(name))


def _zipped(name: str) -> str:
    return f"{name}.zip" if name.endswith(".zarr") else name


class Url(str):
    """A URL of a file or of a folder, with as much of `Path` as the tests need."""

    __slots__ = ()

    def __truediv__(self, key: Any) -> Url:
        return Url(f"{self}/{key}")

    @property
    def name(self) -> str:
        return self.rpartition("/")[2]

    @property
    def parent(self) -> Url:
        return Url(self.rpartition("/")[0])

    def with_name(self, name: str) -> Url:
        return self.parent / name

    def mkdir(self, *, parents: bool = False) -> None:
        """Do nothing: stores have no folders."""

    def exists(self) -> bool:
        return any(True for _ in open_folder(self, {}).list_prefix(""))

    def iterdir(self) -> Iterator[Url]:
        yield from (self / name for name in sorted({key.partition("/")[0] for key in keys_of(self)}))

    def rename(self, target: Url) -> Url:
        put_all(open_folder(target, {}), contents(self))
        remove(self)
        return target


# ---- past any io ---------------------------------------------------------------------------------------------------
def is_zip(place: Place) -> bool:
    return str(place).endswith(".zip")


def keys_of(place: Place) -> set[str]:
    return set(open_store(place).list_prefix(""))


def contents(place: Place) -> dict[str, bytes]:
    keys = open_store(place)
    return keys.get_many(sorted(keys.list_prefix("")))


def stored_files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder, by their paths relative to it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def store_files(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write files below a folder by their relative paths: bytes as they are, anything else as JSON."""
    for key, value in files.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return folder


def put(place: Place, key: str, value: bytes) -> None:
    """Set a key; a zip file is rewritten."""
    if is_zip(place):
        _write_zip(place, {**contents(place), key: value})
    else:
        DirectChange(open_store(place)).put(key, value)


def put_all(place: Place, values: Mapping[str, bytes]) -> None:
    for key, value in values.items():
        put(place, key, value)


def streaming(store: Store, key: str) -> AbstractContextManager[Write]:
    """Return the context of a value that is written piece by piece."""
    return DirectChange(store).stream(key)


def delete(place: Place, path: str) -> None:
    if is_zip(place):
        kept = {key: value for key, value in contents(place).items() if key != path and not key.startswith(f"{path}/")}
        _write_zip(place, kept)
    elif isinstance(place, Path) and (place / path).is_dir():
        shutil.rmtree(place / path)
    else:
        delete_keys(place, [path, *open_store(place).list_prefix(path)])


def delete_keys(place: Place, keys: Iterable[str]) -> None:
    change = DirectChange(open_store(place))
    change.delete(keys)
    change.commit({}, {})


def _write_zip(place: Path, values: dict[str, bytes]) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        for key, value in values.items():
            archive.writestr(key, value)


def remove(place: Place) -> None:
    if is_zip(place):
        os.unlink(place)
    elif isinstance(place, Path):
        shutil.rmtree(place)
    else:
        delete_keys(open_folder(place, {}), keys_of(place))
