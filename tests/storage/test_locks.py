"""One writer at a time: who comes second is told who came first; a lock ends with its holder, however that ends."""

import errno
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections import UserDict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hdmf.data_utils import DataChunkIterator

from hdmf_zarr_backend import ZarrIO, convert, repair
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import JournalWarning, StoreLockedError, StoreRefusedError, UnlockedWarning
from hdmf_zarr_backend.store import lock as locks
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.lock import FileLock, Holder, lock_path
from hdmf_zarr_backend.store.opening import open_store
from hdmf_zarr_backend.store.transaction import Writer
from tests import trees
from tests.keystores import DictStore
from tests.storekinds import StoreKind

WRITING = ("r+", "a", "w")
ELSEWHERE = Holder("another-machine", 1, "2026-01-01T00:00:00+00:00")


def write(place: Any, value: int = 1, **options: Any) -> None:
    trees.write_builder(place, trees.root(trees.dataset("x", [value] * 3)), **options)


def values(place: Any, **options: Any) -> list[int]:
    found: list[int] = trees.read_builder(place, **options)["x"].data[:].tolist()
    return found


def leave_note(target: Path, holder: Holder) -> None:
    Path(lock_path(str(target))).write_text(" " + json.dumps(asdict(holder)))


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


# ---- who comes second -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("second", WRITING)
@pytest.mark.parametrize("first", WRITING)
def test_the_second_writer_is_told_who_came_first(store: StoreKind, first: str, second: str) -> None:
    if "append" in store.refusals and {first, second} != {"w"}:
        pytest.skip(store.refusals["append"])
    place = store.place("a.zarr")
    write(place, **store.options)
    with ZarrIO(place, first, **store.options) as io:
        here = f"process {os.getpid()} on {socket.gethostname()} since 20"
        with pytest.raises(StoreLockedError, match="That is this process: close the other io first") as caught:
            ZarrIO(place, second, **store.options)
        assert here in caught.value.problem
        assert caught.value.store == io.source
    ZarrIO(place, second, **store.options).close()
    assert values(place, **store.options) == [1, 1, 1]


@pytest.mark.parametrize("mode", WRITING)
def test_readers_never_wait(store: StoreKind, mode: str) -> None:
    if "append" in store.refusals and mode != "w":
        pytest.skip(store.refusals["append"])
    place = store.place("a.zarr")
    write(place, **store.options)
    with ZarrIO(place, mode, **store.options), ZarrIO(place, "r-", **store.options):
        assert values(place, **store.options) == [1, 1, 1]


def test_no_lock_is_left_on_a_server(s3: Any) -> None:
    write(s3.url("folder/a.zarr"), storage_options=s3.options)
    assert {key.partition("/")[0] for key in s3.contents("folder")} == {"a.zarr"}


def test_a_reader_makes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.zarr")
    monkeypatch.setattr(FileLock, "__init__", lambda *arguments, **options: pytest.fail("a reader has made a lock"))
    assert values(tmp_path / "a.zarr") == [1, 1, 1]


@pytest.mark.parametrize("mode", WRITING)
def test_a_file_has_one_lock_by_whatever_path_it_is_opened_and_it_is_not_left(tmp_path: Path, mode: str) -> None:
    write(tmp_path / "a.zarr")
    (tmp_path / "link.zarr").symlink_to("a.zarr", target_is_directory=True)
    (tmp_path / "sub").mkdir()
    with ZarrIO(tmp_path / "a.zarr", mode):
        assert sorted(os.listdir(tmp_path)) == [".a.zarr.lock", "a.zarr", "link.zarr", "sub"]
        for path in (tmp_path / "link.zarr", tmp_path / "sub" / ".." / "a.zarr"):
            with pytest.raises(StoreLockedError):
                ZarrIO(path, "r+")
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "link.zarr", "sub"]


def test_every_writer_takes_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(path)
    convert(path, tmp_path / "a.h5", check=False)
    calls = [
        lambda: convert(tmp_path / "a.h5", path, overwrite=True, check=False),
        lambda: convert(tmp_path / "a.h5", path, overwrite=True, check=False, resume=True),
        lambda: repair(path),
        lambda: repair(path, break_lock=True),
    ]
    with ZarrIO(path, "r+"):
        for call in calls:
            with pytest.raises(StoreLockedError):
                call()
    for call in calls:
        call()
    with Writer(LocalStore(str(tmp_path / "a.h5"))), pytest.raises(StoreLockedError):
        convert(path, tmp_path / "a.h5", overwrite=True, check=False)


def test_names_that_are_as_long_as_can_be(tmp_path: Path) -> None:
    one, other = (str(tmp_path / ("é" * 123 + f"{end}.zarr")) for end in "ab")
    with Writer(LocalStore(one)), Writer(LocalStore(other)), pytest.raises(StoreLockedError):
        FileLock(one)
    assert os.listdir(tmp_path) == []


# ---- how a lock ends ------------------------------------------------------------------------------------------------
def test_a_file_that_is_closed_twice_keeps_no_lock_and_takes_none_away_and_is_not_written(tmp_path: Path) -> None:
    write(tmp_path / "a.zarr")
    io = ZarrIO(tmp_path / "a.zarr", "w")
    io.close()
    with ZarrIO(tmp_path / "a.zarr", "r+") as other:
        io.close()
        with pytest.raises(StoreLockedError):
            ZarrIO(tmp_path / "a.zarr", "r+")
        other.close()
    assert os.listdir(tmp_path) == ["a.zarr"]
    with pytest.raises(StoreLockedError, match="this file is closed"):
        io.write_builder(trees.root())
    io.open()
    io.write_builder(trees.root(trees.dataset("x", [2])))
    io.close()
    assert values(tmp_path / "a.zarr") == [2]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*was not closed")
def test_a_file_that_nobody_refers_to_any_more_is_free(store: StoreKind) -> None:
    place = store.place("a.zarr")
    ZarrIO(place, "w", **store.options)
    gc.collect()
    for _ in range(2000):  # the key of a lock is deleted by another thread, soon
        try:
            return ZarrIO(place, "w", **store.options).close()
        except StoreLockedError:
            threading.Event().wait(0.05)
    pytest.fail("it is still locked")


def test_a_file_that_could_not_be_opened_is_free_and_folders_that_were_made_for_nothing_are_gone(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "thesis.txt").write_text("all of it")
    for mode in ("w", "r+", "x"):
        with pytest.raises(Exception, match=r"a\.zarr"):
            ZarrIO(tmp_path / "a.zarr", mode)
    ZarrIO(tmp_path / "new" / "sub" / "a.zarr", "w").close()
    assert os.listdir(tmp_path) == ["a.zarr"]
    write(tmp_path / "new" / "sub" / "a.zarr")
    assert os.listdir(tmp_path / "new" / "sub") == ["a.zarr"]


_KILLED = """
import os, signal, sys
from hdmf_zarr_backend.store.lock import FileLock
lock = FileLock(sys.argv[1])
child = os.fork()  # it goes on, and must not keep the lock
if child:
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
os.closerange(1, 3)  # for which the test waits
signal.pause()
"""


def test_a_lock_ends_with_its_process_though_a_fork_of_it_goes_on(tmp_path: Path) -> None:
    target = str(tmp_path / "a.zarr")
    answer = subprocess.run([sys.executable, "-c", _KILLED, target], capture_output=True, text=True, check=False)
    try:
        assert answer.returncode == -signal.SIGKILL
        assert os.listdir(tmp_path) == [".a.zarr.lock"]
        lock = FileLock(target)
        assert lock.follows
        lock.release()
        assert not FileLock(target).follows
    finally:
        os.kill(int(answer.stdout), signal.SIGKILL)
    assert os.listdir(tmp_path) == []


_FORKED = """
import os, sys
from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.errors import StoreLockedError
io = ZarrIO(sys.argv[1], "r+")
builder = io.read_builder()
builder["x"].data[0] = 7  # what waits to be written
if not os.fork():
    code = 1
    try:
        io.write_builder(builder)
    except StoreLockedError as error:
        code = 0 if "before a fork" in error.problem else 2
    io.close()
    os._exit(code)
print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
sys.stdin.readline()
io.close()
"""


def test_a_fork_writes_nothing_and_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    write(path)
    # not a fork of this process, whose threads may hold locks that a child would wait for forever
    command = [sys.executable, "-W", "ignore", "-c", _FORKED, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "0\n"
        assert values(path) == [1, 1, 1]  # the child has not written it
        with pytest.raises(StoreLockedError):
            ZarrIO(path, "r+")  # and has not given the lock back
        process.communicate("\n")
    assert process.returncode == 0
    assert values(path) == [7, 1, 1]
    assert os.listdir(tmp_path) == ["a.zarr"]


# ---- locks that cannot be had, and locks that are broken ------------------------------------------------------------
@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl", reason="this system has no flock")
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "no locks available")))


@pytest.mark.usefixtures("without_locks")
def test_without_locks_of_the_system_the_note_decides(tmp_path: Path) -> None:
    target = tmp_path / "a.zarr"
    write(target)
    with ZarrIO(target, "r+"), pytest.raises(StoreLockedError, match="That is this process"):
        ZarrIO(target, "r+")
    leave_note(target, Holder(socket.gethostname(), dead_process(), "2026-01-01T00:00:00+00:00"))
    (tmp_path / "of the dead").hardlink_to(lock_path(str(target)))
    with ZarrIO(target, "r+"):  # of two that take it over, one has created the file
        assert not (tmp_path / "of the dead").samefile(lock_path(str(target)))
    (tmp_path / "of the dead").unlink()
    leave_note(target, ELSEWHERE)
    with pytest.raises(StoreLockedError, match=r"process 1 on another-machine since 2026-01-01.*break_lock=True"):
        ZarrIO(target, "r+")
    ZarrIO(target, "r+", break_lock=True).close()
    assert os.listdir(tmp_path) == ["a.zarr"]
    Path(lock_path(str(target))).touch()  # of another writer, which has not written its record yet, or has died
    with pytest.raises(StoreLockedError, match=r"has left no name.*break_lock=True"):
        ZarrIO(target, "r+")
    ZarrIO(target, "r+", break_lock=True).close()
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.usefixtures("without_locks")
@pytest.mark.parametrize("command", ["repair", "consolidate"])
def test_a_lock_is_broken_on_the_command_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.zarr")
    leave_note(tmp_path / "a.zarr", ELSEWHERE)
    assert main([command, str(tmp_path / "a.zarr")]) == 2
    assert "zarrio repair --break-lock" in capsys.readouterr().err
    assert main([command, "--break-lock", str(tmp_path / "a.zarr")]) == 0
    taken = "took over the lock of process 1 on another-machine since 2026-01-01"
    assert capsys.readouterr().out.startswith(taken) == (command == "repair")
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_a_lock_of_another_machine_is_broken_and_its_holder_does_not_take_that_of_the_next(tmp_path: Path) -> None:
    """As where locks go over a network: the system holds the lock, and the note names another machine."""
    target = str(tmp_path / "a.zarr")
    first = FileLock(target)
    leave_note(Path(target), ELSEWHERE)
    with pytest.raises(StoreLockedError, match="another-machine"):
        FileLock(target)
    second = FileLock(target, break_lock=True)
    first.release()
    for break_lock in (False, True):  # a process that is alive keeps its lock
        with pytest.raises(StoreLockedError, match=f"process {os.getpid()}"):
            FileLock(target, break_lock=break_lock)
    second.release()
    assert os.listdir(tmp_path) == []


def test_a_lock_whose_holder_is_writing_its_record_is_held(tmp_path: Path) -> None:
    first = FileLock(str(tmp_path / "a.zarr"))
    os.truncate(lock_path(str(tmp_path / "a.zarr")), 1)
    with pytest.raises(StoreLockedError, match="has left no name"):
        FileLock(str(tmp_path / "a.zarr"))
    first.release()


def refusing(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    real = os.open

    def opened(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".lock"):
            raise OSError(code, os.strerror(code), path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(locks.os, "open", opened)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_in_a_folder_that_cannot_be_written_the_file_itself_is_locked(tmp_path, monkeypatch, code):
    write(tmp_path / "a.zarr")
    refusing(monkeypatch, code)
    with ZarrIO(tmp_path / "a.zarr", "r+") as io:
        with pytest.raises(StoreLockedError, match="a process that has left no name"):
            ZarrIO(tmp_path / "a.zarr", "r+")
        io.read_builder()["x"].data[0] = 9
    assert values(tmp_path / "a.zarr") == [9, 1, 1]
    with pytest.raises(StoreRefusedError, match="could not be written") as caught:
        ZarrIO(tmp_path / "new.zarr", "w")
    assert caught.value.store == str(tmp_path / "new.zarr")
    remedy = {errno.EACCES: "Check the permissions of", errno.EROFS: "The file system of"}[code]
    assert caught.value.remedy.startswith(f"{remedy} {str(tmp_path)!r}")


def test_what_to_do_depends_on_the_writer() -> None:
    here = locks.Holder.here()
    alive, dead = (locks.Holder(here.host, pid, here.since) for pid in (os.getppid(), dead_process()))
    wait = "Wait until it has closed the file, or end it."
    gone = f"{wait} If it is gone for certain, run `zarrio repair --break-lock`, or pass break_lock=True."
    take = "Take it over with `zarrio repair --break-lock`, or with break_lock=True."
    elsewhere = "process 1 on another-machine since 2026-01-01T00:00:00+00:00"
    for holder, problem, remedy in (
        (here, str(here), "That is this process: close the other io first."),
        (alive, str(alive), wait),
        (dead, f"{dead}; that process has ended", take),
        (ELSEWHERE, elsewhere, gone),
        (None, "a process that has left no name", gone),
    ):
        text = str(locks.locked_error(holder, "/a.zarr"))
        assert text == f"/a.zarr: another writer has this file open: {problem}. {remedy}"


def test_a_lock_that_is_not_held_any_more_writes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "a.zarr")
    lock = locks.FileLock(path)
    (tmp_path / ".a.zarr.lock").unlink()
    broken = "the lock of this writer was broken: its file is gone. Another writer may have the file open now"
    with pytest.raises(StoreLockedError, match=rf"^{re.escape(path)}: {broken}\. Open it again\.$"):
        lock.check()
    lock.release()
    with pytest.raises(StoreLockedError, match=rf"^{re.escape(path)}: this file is closed\. Open the file again\.$"):
        lock.check()


@pytest.mark.parametrize(("name", "mode"), [("a.zarr", "w"), ("a.zarr.zip", "w"), ("a.zarr", "r+")])
def test_a_writer_whose_lock_file_is_deleted_meanwhile_commits_nothing(tmp_path: Path, name: str, mode: str) -> None:
    path = trees.write_builder(tmp_path / name, trees.root(trees.dataset("old", [1])))

    def blocks() -> Iterator[int]:
        yield 1
        (tmp_path / f".{name}.lock").unlink()
        yield 2

    data = DataChunkIterator(blocks(), buffer_size=1)
    with pytest.raises(StoreLockedError, match="the lock of this writer was broken"), ZarrIO(path, mode) as io:
        root = io.read_builder() if mode == "r+" else trees.root()
        root.set_dataset(trees.dataset("new", data))
        io.write_builder(root)
    with warnings.catch_warnings(action="ignore", category=JournalWarning):
        if mode == "r+":
            ZarrIO(path, "r+").close()  # undoes what was written
        assert set(trees.read_builder(path).datasets) == {"old"}
    assert [file.name for file in tmp_path.iterdir()] == [name]


class Table(DictStore):
    """A store whose keys other processes can reach, as those of a database."""

    of_one_process = False


def test_a_store_without_a_lock_for_other_processes_is_written_with_a_warning() -> None:
    store = Table("table://one")
    message = "a second writer of table://one cannot be kept away: this kind of store has no lock that other processes"
    for mode in ("w", "r+"):
        with pytest.warns(UnlockedWarning, match=message), ZarrIO(store, mode) as io:
            if mode == "w":
                io.write_builder(trees.root(trees.dataset("x", [1])))
            with pytest.warns(UnlockedWarning), pytest.raises(StoreLockedError, match="That is this process"):
                ZarrIO(store, "r+")
    assert values(store) == [1]


def test_a_file_in_the_memory_of_fsspec_has_one_lock_by_whatever_url() -> None:
    with ZarrIO("memory://one-lock.zarr", "w"), pytest.raises(StoreLockedError, match="That is this process"):
        ZarrIO("memory:///one-lock.zarr", "w")


def test_only_a_dict_is_known_to_be_of_one_process() -> None:
    assert open_store({}).of_one_process
    assert not open_store(UserDict()).of_one_process
