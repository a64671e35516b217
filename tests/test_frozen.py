"""What the real NWB files become is what it was: ``python -m tests.test_frozen`` writes `RECORD` anew, on purpose.

A hash covers all keys of a store and their bytes; that of an HDF5 file covers what h5py reads of it, since HDF5 stores
the time of some objects.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, convert, upgrade
from hdmf_zarr_backend.errors import ZarrBackendError
from tests.hdf5.independent_comparison import content_of

RECORD = Path(__file__).with_name("frozen.json")
LIBRARIES = ("hdmf", "numcodecs", "numpy", "pynwb", "zarr")
"""Other releases may write other bytes: specifications, codecs."""

DOCUMENTS = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
FORMATS: dict[str, Any] = {"2": 2, "3": 3, "both": "both"}


def libraries() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def digest_of_folder(folder: Path) -> str:
    """Return the number of keys and a hash of all documents and of all chunks."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    documents, chunks = hashlib.sha256(), hashlib.sha256()
    for path in paths:
        value = path.read_bytes()
        digest = documents if path.name in DOCUMENTS else chunks
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(value)}\0".encode() + value)
    return f"{len(paths)} {documents.hexdigest()[:12]} {chunks.hexdigest()[:12]}"


def digest_of_hdf5(path: Path) -> str:
    with h5py.File(path, "r") as file, np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        content = content_of(file.id)
        for items in content.values():  # in the record, a fill value of zero is none, whether it is defined or not
            if "fill" in items and not (isinstance(items["fill"], str) or any(items["fill"] or b"")):
                items |= {"fill is defined": "zero", "fill": None}
        text = repr(
            sorted((path, sorted(items.items(), key=lambda item: str(item[0]))) for path, items in content.items())
        )
    return f"{len(content)} {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _append(path: Path) -> None:
    with NWBZarrIO(path, "a") as io:
        nwbfile = io.read()
        series = TimeSeries(name="appended", data=np.arange(2000.0), unit="V", rate=10.0, description="new")
        nwbfile.add_acquisition(series)
        if nwbfile.electrodes is not None and "x" in nwbfile.electrodes.colnames:
            nwbfile.electrodes["x"].data[0] = 2.5
        io.write(nwbfile)


def _export(source: Path, target: Path, zarr_format: Any) -> None:
    with NWBHDF5IO(source, "r") as read, NWBZarrIO(target, "w", zarr_format=zarr_format) as io:
        io.export(src_io=read, nwbfile=read.read())


def results(source: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each way and what it makes of a file: a hash, or the error."""
    for name, zarr_format in FORMATS.items():
        converted, back, exported = (folder / f"{way}.{name}.zarr" for way in ("converted", "back", "exported"))
        yield f"convert {name}", _digest(converted, convert, source, converted, zarr_format=zarr_format, check=False)
        yield f"back {name}", _digest(back, convert, converted, back, to="hdf5", check=False)
        yield f"export {name}", _digest(exported, _export, source, exported, zarr_format)
        if name == "2":
            for way, options in (("upgrade 2", {}), ("upgrade keep", {"keep": True})):
                upgraded = folder / f"{way}.zarr"
                shutil.copytree(converted, upgraded)
                yield way, _digest(upgraded, upgrade, upgraded, **options)
        yield f"append {name}", _digest(converted, _append, converted)


def _digest(target: Path, work: Callable[..., object], *arguments: Any, **options: Any) -> str:
    numbers = count(1)
    # a new object gets a random id otherwise, as does each object of a file without ids
    known_ids = mock.patch("hdmf.container.uuid4", side_effect=lambda: uuid.UUID(int=next(numbers)))
    try:
        with known_ids:
            work(*arguments, **options)
    except (ZarrBackendError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        return type(error).__name__  # pynwb does not read all of them
    return digest_of_hdf5(target) if target.is_file() else digest_of_folder(target)


def record_of(files: list[Path]) -> dict[str, dict[str, str]]:
    record = {}
    for source in files:
        with (
            tempfile.TemporaryDirectory() as folder,
            warnings.catch_warnings(action="ignore"),
        ):  # old files are full of what pynwb warns of
            record[source.name] = dict(results(source, Path(folder)))
    return record


@pytest.mark.corpus
def test_real_files_become_the_same_bytes(some_nwbfiles: list[Path]) -> None:
    record = json.loads(RECORD.read_text())
    if record["libraries"] != libraries():
        pytest.skip(f"recorded with {record['libraries']}, and other releases may write other bytes")
    now = record_of(some_nwbfiles)
    known = {name: ways for name, ways in record["files"].items() if name in now}
    changed = {
        f"{name}, {way}": (digest, now[name].get(way))
        for name, ways in known.items()
        for way, digest in ways.items()
        if now[name].get(way) != digest
    }
    assert changed == {}
    assert known or os.environ.get("HDMF_ZARR_BACKEND_NWBFILES")


def main() -> None:
    files = sorted(Path(os.environ["HDMF_ZARR_BACKEND_NWBFILES"]).glob("**/*.nwb"))
    before = json.loads(RECORD.read_text())["files"] if RECORD.exists() else {}
    after = record_of(files)
    for name, ways in after.items():
        for way, digest in ways.items():
            if before.get(name, {}).get(way) not in (None, digest):
                print(f"{name}, {way}: {before[name][way]} -> {digest}")  # noqa: T201 - the result of this command
    RECORD.write_text(json.dumps({"libraries": libraries(), "files": after}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
