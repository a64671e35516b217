"""Careless calls -> what happens: more lines of the page "bad input", each of them run."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import StoreLockedError, ZarrBackendError
from hdmf_zarr_backend.options import WriteOptions
from tests import trees
from tests.hostile.catalogue import CARELESS, Act, Case, opened

LONG = "n" * 300


def write(path: Path, *members: Any, mode: str = "w", **options: Any) -> None:
    """Write a small file."""
    with ZarrIO(path, mode, **options) as io:
        io.write_builder(trees.root(*(members or (trees.dataset("x", [1, 2]),))))


def check_old(path: Path) -> None:
    """Make sure that the whole file is there as it was, and nothing beside it that is not."""
    assert opened(path)["numbers"].data[:].tolist() == np.arange(24).reshape(6, 4).tolist()
    assert set(os.listdir(path.parent)) <= {"file.zarr", "neighbour.zarr", ".file.zarr.lock"}


@contextmanager
def refused(call: str, code: int) -> Iterator[None]:
    """Let a call of the system fail."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fail)
        yield


def replacing(call: str, code: int) -> Act:
    """Return what replaces a file while the system refuses a call; the old one stays."""

    def act(path: Path) -> None:
        try:
            with ZarrIO(path, "w") as io, refused(call, code):
                io.write_builder(trees.root(trees.dataset("x", [1, 2])))
        finally:
            check_old(path)

    return act


class Vanishing(np.ndarray[Any, Any]):
    """Values during whose writing something happens."""

    happens: Callable[[], None]

    def __getitem__(self, key: Any) -> Any:
        self.happens()
        return np.asarray(self)[key]


def values_with(happens: Callable[[], None], rows: int = 400) -> ZarrDataIO:
    """Return data during whose writing something happens."""
    values = np.zeros((rows, 4), "i4").view(Vanishing)
    values.happens = happens
    return ZarrDataIO(values, chunks=(100, 4))


def _vanishing(path: Path) -> None:
    folder = path.parent / "sub"
    folder.mkdir()
    data = values_with(lambda: shutil.rmtree(folder, ignore_errors=True))
    write(folder / "new.zarr", trees.dataset("x", data))


def _gone_while_open(path: Path) -> None:
    with ZarrIO(path, "r+") as io:
        builder = io.read_builder()
        builder.set_group(trees.group("new"))
        os.rename(path, path.parent / "moved.zarr")
        try:
            io.write_builder(builder)
        finally:
            assert not path.exists()
            os.rename(path.parent / "moved.zarr", path)


def _two_writers(path: Path) -> None:
    with ZarrIO(path, "r+"):
        ZarrIO(path, "a")


def _reader_beside_writer(path: Path) -> None:
    with ZarrIO(path, "r+"):
        check_old(path)


def _closed_twice(path: Path) -> None:
    io = ZarrIO(path, "r+")
    io.close()
    io.close()
    check_old(path)


def _written_after_close(path: Path) -> None:
    io = ZarrIO(path, "w")
    io.close()
    try:
        io.write_builder(trees.root())
    finally:
        check_old(path)


def _fork(path: Path) -> None:
    with ZarrIO(path, "r+") as io:
        builder = io.read_builder()
        builder.set_group(trees.group("new"))
        reading, writing = os.pipe()
        if not os.fork():
            try:
                io.write_builder(builder)
            except ZarrBackendError as error:
                os.write(writing, pickle.dumps(error))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            error = pickle.loads(answer.read())
        os.wait()
    check_old(path)
    assert isinstance(error, StoreLockedError)
    raise error


def _stopped(path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, trees.dataset("x", values_with(stop, rows=200_000)), write_options=WriteOptions(executor=2))
    check_old(path)


def named(*names: str) -> Act:
    """Return what writes groups of these names; each of them is refused, and nothing is touched."""

    def act(path: Path) -> None:
        for name in names[:-1]:
            with pytest.raises(ZarrBackendError):
                write(path, GroupBuilder(name="in", groups={name: GroupBuilder(name=name)}))
        try:
            write(path, GroupBuilder(name="in", groups={names[-1]: GroupBuilder(name=names[-1])}))
        finally:
            check_old(path)

    return act


def _stored_names(path: Path) -> None:
    names = ["a:b", "CON", "nul.txt", "dot.", "x", "X"]
    write(path, *map(trees.group, names))
    assert set(opened(path).groups) == set(names)


def _not_a_file(path: Path) -> None:
    (path.parent / "thesis").mkdir()
    (path.parent / "thesis" / "text.txt").write_text("all of it")
    try:
        write(path.parent / "thesis")
    finally:
        assert (path.parent / "thesis" / "text.txt").read_text() == "all of it"


def _onto_itself(path: Path) -> None:
    try:
        with ZarrIO(path) as source, ZarrIO(path, "w") as io:
            io.export(source)
    finally:
        check_old(path)


def _typed(path: Path) -> None:
    given = {"bytes": np.bytes_(b"\xff\x00\x01"), "large": 2**63 - 1, "nan": float("nan")}
    with ZarrIO(path, "w", write_options=WriteOptions(strict_json=True)) as io:
        io.write_builder(trees.root(**given))
    found = opened(path).attributes
    assert bytes(found["bytes"]) == b"\xff\x00\x01"
    assert found["large"] == 2**63 - 1
    assert np.isnan(found["nan"])
    assert "NaN" not in (path / ".zattrs").read_text().replace('"NaN"', "")


def _as_it_is(path: Path) -> None:
    """Spoil nothing."""


def _case(given: str, happens: str, act: Act, **said: Any) -> Case:
    return Case(CARELESS, given, happens, _as_it_is, act, **said)


CASES: tuple[Case, ...] = (
    _case("the disk is full", "`StoreFullError`; the old file stays, and nothing beside it",
          replacing("write", errno.ENOSPC), raises="StoreFullError", says="No space left"),
    _case("a disk that fails", "`StoreError` that names the key; the old file stays", replacing("write", errno.EIO),
          raises="StoreError", says="Input/output error"),
    _case("no permission", "`StoreRefusedError`; the old file stays", replacing("mkdir", errno.EACCES),
          raises="StoreRefusedError", says="Permission denied"),
    _case("the folder vanishes while a file is written in it", "`StoreNotFoundError`; the folder is not created again",
          _vanishing, raises="StoreNotFoundError", says="removed or moved"),
    _case("a file vanishes while it is open for changes", "`StoreError`; the changes are not written to a new file",
          _gone_while_open, raises="StoreError", says="replaced or removed"),
    _case("a second writer", "`StoreLockedError` that names host, process and time of the first", _two_writers,
          raises="StoreLockedError", says="since 20"),
    _case("a reader beside a writer", "it reads, and never waits", _reader_beside_writer),
    _case("a file is closed twice", "nothing", _closed_twice),
    _case("a file is written after it was closed", "`StoreLockedError`; nothing is touched", _written_after_close,
          raises="StoreLockedError", says="closed"),
    _case("a fork writes to a file that was opened before", "`StoreLockedError`; nothing is touched", _fork,
          raises="StoreLockedError", says="before a fork"),
    _case("Ctrl-C in a worker", "`KeyboardInterrupt`; the old file stays, and nothing goes on behind", _stopped),
    _case("a name with `/`, a backslash or NUL in it", "`NameRefusedError`; nothing is touched",
          named("a/b", "a\\b", "a\0b"), raises="NameRefusedError", says="cannot be stored"),
    _case("the names `.` and `..`, and none", "`NameRefusedError`; nothing is touched", named(".", "..", ""),
          raises="NameRefusedError", says="cannot be stored"),
    _case("a name that the store needs itself, such as `.zarray`", "`NameRefusedError`; nothing is touched",
          named(".zgroup", ".zattrs", ".zmetadata", "zarr.json", ".zarray"), raises="NameRefusedError",
          says="cannot be stored"),
    _case("a name of 300 bytes, on a disk that holds 255", "`StoreError` about the name; the old file stays",
          named(LONG), raises="StoreError", says="too long for this file system"),
    _case("names that Windows does not allow or distinguish", "they are stored, with a warning", _stored_names,
          warns="PortableNameWarning", says="'/CON', '/a:b', '/dot.', '/nul.txt', '/x'"),
    _case('mode `"w"` on a folder that is not a Zarr file', "`StoreExistsError`; nothing is touched", _not_a_file,
          raises="StoreExistsError", says="is not replaced"),
    _case("an export of a file onto itself", "`StoreExistsError`; nothing is touched", _onto_itself,
          raises="StoreExistsError", says="onto itself"),
    _case("attributes of bytes that are not text, integers beyond 2^53, NaN in strict JSON",
          "they come back as they were", _typed),
)  # fmt: skip
