"""Careless calls, odd names and values -> what happens: more lines of the page "bad input", each of them run.

What is written has to come back as it was, or to be refused before anything is touched.
"""

import datetime
import errno
import os
import pickle
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from hdmf.build import GroupBuilder

from hdmf_zarr_backend import WriteOptions, ZarrBackendError, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import StoreLockedError
from tests import trees
from tests.hostile.catalogue import CARELESS, VALUES, Act, Case, opened

LONG = "n" * 300
ROOT = Path(__file__).parents[2]


def write(path: Path, *members: Any, **options: Any) -> None:
    with ZarrIO(path, "w", **options) as io:
        io.write_builder(trees.root(*(members or (trees.dataset("x", [1, 2]),))))


def check_old(path: Path) -> None:
    """Make sure that the whole file is there as it was, and nothing beside it that is not."""
    assert opened(path)["numbers"].data[:].tolist() == np.arange(24).reshape(6, 4).tolist()
    assert set(os.listdir(path.parent)) <= {"file.zarr", "neighbour.zarr", ".file.zarr.lock"}


def replacing(call: str, code: int) -> Act:
    """Return what replaces a file while the system refuses a call; the old one stays."""

    def act(path: Path) -> None:
        try:
            error = OSError(code, os.strerror(code))
            with ZarrIO(path, "w") as io, patch.object(os, call, Mock(side_effect=error)):
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
    io.write_builder(trees.root())


_FORK = """
import os, pickle, sys
from hdmf_zarr_backend import ZarrBackendError, ZarrIO
from tests import trees
with ZarrIO(sys.argv[1], "r+") as io:
    builder = io.read_builder()
    builder.set_group(trees.group("new"))
    if not os.fork():
        try:
            io.write_builder(builder)
        except ZarrBackendError as error:
            os.write(1, pickle.dumps(error))
        os._exit(0)
    os.wait()
"""


def _fork(path: Path) -> None:
    # not a fork of this process, whose threads may hold locks that a child would wait for forever
    done = subprocess.run([sys.executable, "-c", _FORK, str(path)], cwd=ROOT, capture_output=True, check=True)
    error = pickle.loads(done.stdout)
    check_old(path)
    assert isinstance(error, StoreLockedError)
    raise error


def _stopped(path: Path) -> None:
    data = values_with(Mock(side_effect=KeyboardInterrupt), rows=200_000)
    with pytest.raises(KeyboardInterrupt):
        write(path, trees.dataset("x", data), write_options=WriteOptions(executor=2))
    check_old(path)


def _writing(*members: Any) -> Act:
    return lambda path: write(path, *members)


def kept(*acts: Act) -> Act:
    """Return what is refused each time, and touches nothing."""

    def act(path: Path) -> None:
        for each in acts[:-1]:
            with pytest.raises(ZarrBackendError):
                each(path)
        try:
            acts[-1](path)
        finally:
            check_old(path)

    return act


def named(*names: str) -> Act:
    return kept(*(_writing(GroupBuilder(name="in", groups={name: GroupBuilder(name=name)})) for name in names))


def _not_a_file(path: Path) -> None:
    (path.parent / "thesis").mkdir()
    (path.parent / "thesis" / "text.txt").write_text("all of it")
    try:
        write(path.parent / "thesis")
    finally:
        assert (path.parent / "thesis" / "text.txt").read_text() == "all of it"


def _onto_itself(path: Path) -> None:
    with ZarrIO(path) as source, ZarrIO(path, "w") as io:
        io.export(source)


def _typed(path: Path) -> None:
    given = {"bytes": np.bytes_(b"\xff\x00\x01"), "large": 2**63 - 1, "nan": float("nan")}
    with ZarrIO(path, "w", write_options=WriteOptions(strict_json=True)) as io:
        io.write_builder(trees.root(**given))
    result = opened(path).attributes
    assert bytes(result["bytes"]) == b"\xff\x00\x01"
    assert result["large"] == 2**63 - 1
    assert np.isnan(result["nan"])
    assert "NaN" not in (path / ".zattrs").read_text().replace('"NaN"', "")


# ---- names and values -----------------------------------------------------------------------------------------------
NAME = "caf\u00e9"
ROWS = np.array([(1, 2.5), (3, 4.5)], [("n", ">i2"), ("x", "<f8")])
MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, tzinfo=datetime.UTC)


def _same(found: Any, given: Any) -> bool:
    if isinstance(given, (np.ndarray, np.generic)):
        found = np.asarray(found)
        return found.dtype == given.dtype and found.shape == given.shape and bool(np.all(found == given))
    return type(found) is type(given) and bool(found == given)


def attributes(**given: Any) -> Act:
    """Return what writes attributes, and sees that they come back with their types."""

    def act(path: Path) -> None:
        write(path, trees.group("box", **given))
        result = opened(path)["box"].attributes
        assert set(result) == set(given)
        for name, value in given.items():
            assert _same(result[name], value), (name, result[name])

    return act


def datasets(**given: Any) -> Act:
    """Return what writes datasets, and sees that they come back with their types."""

    def act(path: Path) -> None:
        write(path, *(trees.dataset(name, value) for name, value in given.items()))
        result = opened(path)
        for name, value in given.items():
            data = result[name].data
            assert _same(data if np.ndim(value) == 0 else data[:], np.asarray(value)), name

    return act


def names(*given: str) -> Act:
    """Return what writes groups of these names, and sees that they are all there."""

    def act(path: Path) -> None:
        write(path, *map(trees.group, given))
        assert set(opened(path).groups) == set(given)

    return act


def _texts_with_nul(path: Path) -> None:
    write(path, trees.dataset("x", ["a\0", "\0b", "c"]), trees.group("box", text="a\0"))
    result = opened(path)
    assert list(result["x"].data[:]) == ["a\0", "\0b", "c"]
    assert result["box"].attributes["text"] == "a\0"


def _dates(path: Path) -> None:
    days = np.array(["2024-02-29", "1969-12-31"], "M8[D]")
    attributes(days=days, day=np.datetime64("2024-02-29", "D"))(path)
    write(path, trees.dataset("days", days), trees.group("box", moment=MOMENT))
    result = opened(path)
    assert _same(result["days"].data[:], days)
    assert str(result["box"].attributes["moment"]) in (str(MOMENT), MOMENT.isoformat())


def _reserved(path: Path) -> None:
    own = ("zarr_dtype", "zarr_link", ".specloc", "_ARRAY_DIMENSIONS", "_hdmf", "_nczarr_attr")
    attributes(**{name: f"mine: {name}" for name in own})(path)


def _empty(path: Path) -> None:
    datasets(none=np.zeros(0, "f4"), rows=np.zeros((0, 3), "u2"))(path)
    attributes(none=np.zeros(0, "f4"), rows=np.zeros((0, 3), "u2"))(path)


def _call(given: str, happens: str, act: Act, *, part: str = CARELESS, **said: Any) -> Case:
    return Case(part, given, happens, lambda path: None, act, **said)


_value = partial(_call, part=VALUES)

CASES: tuple[Case, ...] = (
    _call("the disk is full", "`StoreFullError`; the old file stays, and nothing beside it",
          replacing("write", errno.ENOSPC), raises="StoreFullError", says="No space left"),
    _call("a disk that fails", "`StoreError` that names the key; the old file stays", replacing("write", errno.EIO),
          raises="StoreError", says="Input/output error"),
    _call("no permission", "`StoreRefusedError`; the old file stays", replacing("mkdir", errno.EACCES),
          raises="StoreRefusedError", says="Permission denied"),
    _call("the folder vanishes while a file is written in it", "`StoreNotFoundError`; the folder is not created again",
          _vanishing, raises="StoreNotFoundError", says="removed or moved"),
    _call("a file vanishes while it is open for changes", "`StoreError`; the changes are not written to a new file",
          _gone_while_open, raises="StoreError", says="replaced or removed"),
    _call("a second writer", "`StoreLockedError` that names host, process and time of the first", _two_writers,
          raises="StoreLockedError", says="since 20"),
    _call("a reader beside a writer", "it reads, and never waits", _reader_beside_writer),
    _call("a file is closed twice", "nothing", _closed_twice),
    _call("a file is written after it was closed", "`StoreLockedError`; nothing is touched", kept(_written_after_close),
          raises="StoreLockedError", says="closed"),
    _call("a fork writes to a file that was opened before", "`StoreLockedError`; nothing is touched", _fork,
          raises="StoreLockedError", says="before a fork"),
    _call("Ctrl-C in a worker", "`KeyboardInterrupt`; the old file stays, and nothing goes on behind", _stopped),
    _call("a name with `/`, a backslash or NUL in it", "`NameRefusedError`; nothing is touched",
          named("a/b", "a\\b", "a\0b"), raises="NameRefusedError", says="cannot be stored"),
    _call("the names `.` and `..`, and none", "`NameRefusedError`; nothing is touched", named(".", "..", ""),
          raises="NameRefusedError", says="cannot be stored"),
    _call("a name that the store needs itself, such as `.zarray`", "`NameRefusedError`; nothing is touched",
          named(".zgroup", ".zattrs", ".zmetadata", "zarr.json", ".zarray"), raises="NameRefusedError",
          says="cannot be stored"),
    _call("a name of 300 bytes, on a disk that holds 255", "`StoreError` about the name; the old file stays",
          named(LONG), raises="StoreError", says="too long for this file system"),
    _call("names that Windows does not allow or distinguish", "they are stored, with a warning",
          names("a:b", "CON", "nul.txt", "dot.", "x", "X"),
          warns="PortableNameWarning", says="'/CON', '/a:b', '/dot.', '/nul.txt', '/x'"),
    _call('mode `"w"` on a folder that is not a Zarr file', "`StoreExistsError`; nothing is touched", _not_a_file,
          raises="StoreExistsError", says="is not replaced"),
    _call("an export of a file onto itself", "`StoreExistsError`; nothing is touched", kept(_onto_itself),
          raises="StoreExistsError", says="onto itself"),
    _call("attributes of bytes that are not text, integers beyond 2^53, NaN in strict JSON",
          "they come back as they were", _typed),
    # names and values
    _value("names beyond ASCII: emoji, other scripts", "they are stored", names("\U0001f9e0", "\u8133", NAME, "a b")),
    _value("the name ` `, a space", "it is stored, with a warning: Windows cannot hold it", names(" "),
          warns="PortableNameWarning", says="'/ '"),
    _value("two names that are one to macOS: composed and decomposed accents", "they are stored, with a warning",
          names(NAME, unicodedata.normalize("NFD", NAME)), warns="PortableNameWarning", says="caf"),
    _value("attributes with the names that the format keeps for itself, such as `zarr_dtype`",
          "they are stored, and come back", _reserved),
    _value("attributes of NumPy types: `int16`, `uint64`, `float32`, `bool`, arrays of them",
          "they come back with their types", attributes(
              i2=np.int16(-5), u8=np.uint64(2**64 - 1), f4=np.float32(0.1), flag=np.bool_(True),
              many=np.array([[1, 2], [3, 4]], "i2"), flags=np.array([True, False]))),
    _value("a 0-d array as an attribute or a dataset", "it is a scalar, and keeps its type",
          lambda path: (attributes(zero=np.array(5, "i2"))(path), datasets(zero=np.array(5, "i2"))(path))),
    _value("dates and times", "they come back", _dates),
    _value("complex numbers", "they come back with their types", lambda path: (
        attributes(one=np.complex64(1 - 2j), many=np.array([1j, 2], "c16"))(path),
        datasets(many=np.array([[1j, 2]], "c8"))(path))),
    _value("arrays without elements", "they come back with type and shape", _empty),
    _value("`None` in an array of objects", "`ValueRefusedError` that names the element; nothing is touched",
           kept(_writing(trees.dataset("x", np.array(["a", None], object)))),
          raises="ValueRefusedError", says="element 1"),
    _value("text with NUL in it, also at its end", "it comes back", _texts_with_nul),
    _value("big-endian numbers", "they come back, big-endian",
          datasets(numbers=np.arange(5, dtype=">i4"), matrix=np.ones((2, 3), ">f8"))),
    _value("an array of rows with fields of numbers", "it comes back with its fields", datasets(rows=ROWS)),
    _value("`datetime64` and `timedelta64`", "they come back with their unit", datasets(
        when=np.array(["2020-01-01", "1969-07-20"], "M8[s]"), took=np.array([5, 7], "m8[10ms]"))),
    _value("`datetime64` without a unit", "`ValueRefusedError`; nothing is touched",
          datasets(when=np.array(["NaT"], "M8")),
          raises="ValueRefusedError", says="unit"),
    _value("a file without datasets", "it is written, and read", names("box")),
)  # fmt: skip
