"""Small files of HDF5, containers of hdmf, and changes of JSON documents, each in one line of a test."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
from hdmf.common import get_manager

from hdmf_zarr_backend import ZarrIO


def hdf5_file(path: Path, **datasets: Any) -> Path:
    """Write an HDF5 file of datasets; a path has ``__`` in place of a slash."""
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            file.create_dataset(name.replace("__", "/"), data=data)
    return path


def hdf5_dataset(path: Path, name: str, *arguments: Any, **options: Any) -> Path:
    """Write an HDF5 file of one dataset; arguments as of h5py's `create_dataset`."""
    with h5py.File(path, "w") as file:
        file.create_dataset(name, *arguments, **options)
    return path


def write_container(path: Any, container: Any, **options: Any) -> Any:
    """Write a container of hdmf-common; options as of `ZarrIO`."""
    with ZarrIO(path, "w", manager=get_manager(), **options) as io:
        io.write(container)
    return path


@contextmanager
def edited_json(path: Path) -> Iterator[Any]:
    """Give a JSON document, which is written at the end of the block."""
    document = json.loads(path.read_text(encoding="utf-8"))
    yield document
    path.write_text(json.dumps(document), encoding="utf-8")
