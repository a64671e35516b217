"""A killed or interrupted conversion continues from its complete chunks, with the same result."""

import itertools
import json
import os
import pickle
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend import WriteOptions, ZarrIO, convert, errors
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import ConflictError, StoreExistsError
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.store import files, transaction
from hdmf_zarr_backend.store.files import RECORD, Resumption
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.lock import lock_path
from tests import trees
from tests.execution.test_equal_output import Counting
from tests.faults.killing import act, killed
from tests.places import stored_files

VALUES = np.random.default_rng(0).integers(-50, 50, (100_000, 16), dtype="i2")
BUDGET = 400_000  # tasks of one or two chunks
POINTS = 10


def staged(target: Path) -> list[Path]:
    return sorted(target.parent.glob(f".{target.name}.*.conversion-*.partial"))


def inodes(folder: Path) -> dict[str, tuple[int, int]]:
    found = {str(path.relative_to(folder)): path.stat() for path in folder.rglob("*") if path.is_file()}
    return {key: (state.st_ino, state.st_mtime_ns) for key, state in found.items()}


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("group/gzip", data=VALUES, chunks=(2048, 16), compression="gzip", shuffle=True)
        file.create_dataset("group/lzf", data=VALUES, chunks=(2048, 16), compression="lzf")
        file["contiguous"] = VALUES
        file["text"] = [f"text {number}" for number in range(3000)]
        file["scalar"] = 7
    return path


class Stopping(Progress):
    """Raises something when so many bytes are done."""

    def __init__(self, error: BaseException, after: int = 4_000_000) -> None:
        self._error = error
        self._left = after

    def advance(self, path: str, done: int) -> None:
        self._left -= done
        if self._left <= 0:
            raise self._error


def interrupted(source: Path, target: str | Path, error: BaseException | None = None, **options: Any) -> BaseException:
    error = error or KeyboardInterrupt()
    one_after_the_other = WriteOptions(progress=Stopping(error), memory_budget=BUDGET, executor=None)
    with pytest.raises(type(error)):
        convert(source, target, write_options=one_after_the_other, **options)
    return error


@pytest.mark.parametrize("codec", ["keep", True], ids=["keep", "recode"])
@pytest.mark.parametrize("executor", [None, 2], ids=["serial", "threads"])
def test_a_conversion_that_is_killed_goes_on(hdf5: Path, tmp_path: Path, executor: Any, codec: Any) -> None:
    os.link(hdf5, tmp_path / "source.h5")
    options = {"resume": True, "codec": codec, "executor": executor, "memory_budget": BUDGET}
    kept, names = 0, ["source.h5", "0.zarr"]
    with killed("convert", f"{tmp_path}/{{}}.zarr", 0, options, POINTS) as (count, steps):
        expected = stored_files(tmp_path / "0.zarr")
        assert count > 300
        for step in itertools.islice(steps, POINTS):
            target = tmp_path / f"{step}.zarr"
            before = {}
            for partial in staged(target):
                there = stored_files(partial)  # half of a document may be, which is none
                before = {key: state for key, state in inodes(partial).items() if there[key] == expected.get(key)}
            act("convert", str(target), 0, options)
            assert stored_files(target) == expected
            after = inodes(target)
            assert {key: after[key] for key in before} == before  # nothing that was there was written again
            kept += len(before)
            names.append(target.name)
    assert kept > POINTS * len(expected) // 4
    assert sorted(os.listdir(tmp_path)) == sorted(names)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), errors.WorkerLostError("a worker died")])
def test_a_stopped_conversion_is_kept_and_reported(hdf5, tmp_path, error, zarr_format):
    target = tmp_path / "a.zarr"
    raised = interrupted(hdf5, target, type(error)(*error.args), zarr_format=zarr_format)
    assert "resume=True" in str(getattr(raised, "__notes__", raised))
    assert len(staged(target)) == 1
    assert not target.exists()
    for path, said in ((target, "resume=True"), (tmp_path / "b.zarr", "Check the path")):
        with pytest.raises(errors.StoreNotFoundError, match=said):
            ZarrIO(path, "r")
    convert(hdf5, target, resume=True, zarr_format=zarr_format)
    convert(hdf5, tmp_path / "b.zarr", zarr_format=zarr_format)
    assert stored_files(target) == stored_files(tmp_path / "b.zarr")
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


@pytest.mark.parametrize(("error", "kept"), [(ValueError("wrong"), False), (OSError(5, "worn out"), True)])
def test_after_an_error_only_what_can_go_on_is_kept_and_only_on_request(hdf5, tmp_path, error, kept):
    interrupted(hdf5, tmp_path / "a.zarr", error)
    assert os.listdir(tmp_path) == []
    interrupted(hdf5, tmp_path / "a.zarr", error, resume=True)
    assert len(staged(tmp_path / "a.zarr")) == int(kept)


def test_it_can_be_stopped_and_go_on_more_than_once(hdf5: Path, tmp_path: Path) -> None:
    """Bytes that are there count as done, but for those of files that are empty."""
    target, counting = tmp_path / "a.zarr", Counting()
    for after in (1_000_000, 3_000_000, 6_000_000):
        with pytest.raises(KeyboardInterrupt):
            stop = Stopping(KeyboardInterrupt(), after)
            convert(hdf5, target, write_options=WriteOptions(progress=stop, memory_budget=BUDGET), resume=True)
    (partial,) = staged(target)
    assert len(stored_files(partial)) > 50
    (partial / "group/gzip/0.0").write_bytes(b"")
    convert(hdf5, target, resume=True, write_options=WriteOptions(progress=counting))
    assert counting.done == pytest.approx(counting.total, rel=0.02)
    convert(hdf5, tmp_path / "b.zarr")
    assert stored_files(target) == stored_files(tmp_path / "b.zarr")


@pytest.mark.parametrize(("options", "chunks"), [
    ({}, ("2.0", "3.0")), ({"zarr_format": 3, "shards": (8192, 16)}, ("c/0/0", "c/1/0"))
], ids=["chunks", "shards"])  # fmt: skip
def test_after_a_new_start_of_the_machine_chunks_have_to_decode(hdf5, tmp_path, monkeypatch, options, chunks):
    interrupted(hdf5, tmp_path / "a.zarr", **options)
    (partial,) = staged(tmp_path / "a.zarr")
    one, other = (partial / "group/gzip" / name for name in chunks)
    whole, inode = one.read_bytes(), other.stat().st_ino
    one.write_bytes(whole[: len(whole) // 2])
    (tmp_path / "boot_id").write_text("another start")
    monkeypatch.setattr(files, "_BOOT", tmp_path / "boot_id")
    convert(hdf5, tmp_path / "a.zarr", resume=True, **options)
    assert (tmp_path / "a.zarr/group/gzip" / chunks[0]).read_bytes() == whole
    assert (tmp_path / "a.zarr/group/gzip" / chunks[1]).stat().st_ino == inode


def test_another_write_to_the_place_removes_what_was_kept(hdf5: Path, tmp_path: Path) -> None:
    interrupted(hdf5, tmp_path / "a.zarr")
    interrupted(hdf5, tmp_path / "b.zarr")
    with ZarrIO(tmp_path / "a.zarr", "w") as io:
        with pytest.raises(errors.ValueRefusedError):
            io.write_builder(trees.root(trees.dataset("a", [None])))
        assert len(staged(tmp_path / "a.zarr")) == 1  # what has failed has replaced nothing
        io.write_builder(trees.root(trees.dataset("a", [1])))
    assert staged(tmp_path / "a.zarr") == []
    assert len(staged(tmp_path / "b.zarr")) == 1


def test_without_resume_it_starts_again_and_leaves_nothing(hdf5: Path, tmp_path: Path) -> None:
    interrupted(hdf5, tmp_path / "a.zarr")
    (partial,) = staged(tmp_path / "a.zarr")
    before = set(inodes(partial).values())
    convert(hdf5, tmp_path / "a.zarr", codec=True)
    assert not before & set(inodes(tmp_path / "a.zarr").values())
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_another_source_or_option_or_version_is_reported(hdf5, tmp_path, monkeypatch, capsys):
    source, target = tmp_path / "a.h5", tmp_path / "a.zarr"
    source.write_bytes(hdf5.read_bytes())
    interrupted(source, target)
    (partial,) = staged(target)
    before, state = stored_files(partial), source.stat()
    record = json.loads(before[RECORD])
    assert record["sources"] == {str(source): [state.st_size, state.st_mtime_ns]}
    assert record["options"] == {"codec": "keep", "zarr_format": 2}
    message = r"--codec was keep and is blosc.*without resume=True .*options of the first call"
    with pytest.raises(ConflictError, match=message):
        convert(source, target, resume=True, codec=True)
    with pytest.raises(ConflictError, match="--zarr-format was 2 and is 3"):
        convert(source, target, resume=True, zarr_format=3)
    other = tmp_path / "b.h5"
    other.write_bytes(hdf5.read_bytes())
    message = r"a\.h5 was read then but is not read now; .*b\.h5 is read now but was not read then"
    with pytest.raises(ConflictError, match=message):
        convert(other, target, resume=True)
    with monkeypatch.context() as patch:
        patch.setattr("hdmf_zarr_backend.__version__", "99.0")
        with pytest.raises(ConflictError, match=r"started by version .* and this is 99\.0"):
            convert(source, target, resume=True)
    assert stored_files(partial) == before
    with h5py.File(source, "r+") as file:
        file["contiguous"][0] += 1
    assert main(["convert", "--resume", str(source), str(target)]) == 2
    said = capsys.readouterr().err
    assert "a.h5 has changed since" in said
    assert "without --resume" in said
    assert stored_files(partial) == before
    convert(source, target)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.zarr", "b.h5"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": "1", "sources": 3}'])
def test_a_record_that_says_nothing_is_not_believed(hdf5: Path, tmp_path: Path, text: str) -> None:
    interrupted(hdf5, tmp_path / "a.zarr")
    (partial,) = staged(tmp_path / "a.zarr")
    (partial / RECORD).write_text(text)
    (partial / "group/gzip/0.0").write_bytes(b"wrong")
    convert(hdf5, tmp_path / "a.zarr", resume=True)
    convert(hdf5, tmp_path / "b.zarr")
    assert stored_files(tmp_path / "a.zarr") == stored_files(tmp_path / "b.zarr")


@pytest.mark.parametrize("exchanges", [True, False])
def test_an_old_file_is_not_taken_for_what_a_conversion_has_left(hdf5, tmp_path, monkeypatch, exchanges):
    """It may have the name of the folder, when it was replaced and is being deleted, or one that is derived from it."""
    source, target = tmp_path / "a.h5", tmp_path / "a.zarr"
    source.write_bytes(hdf5.read_bytes())
    convert(source, target)
    with h5py.File(source, "r+") as file:
        for name in ("group/gzip", "group/lzf", "contiguous"):
            file[name][:] += 1

    def stop(*names: str) -> None:
        if os.path.isdir(names[0]):
            raise KeyboardInterrupt
        raise FileNotFoundError

    old = stored_files(target)
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", stop)
        if not exchanges:
            rename = os.rename
            patch.setattr(files, "_renameat2", lambda *names: False)
            patch.setattr(os, "rename", lambda one, other: stop(one) if other == str(target) else rename(one, other))
        with pytest.raises(KeyboardInterrupt):
            convert(source, target, overwrite=True)
    (partial,) = staged(target)
    assert not (partial / RECORD).exists()
    chunk = inodes(partial)["group/gzip/0.0"]  # a number alone may be that of another file by now
    if not exchanges:
        Path(lock_path(str(target))).touch()  # a writer that is killed leaves it
        with ZarrIO(target, "a"):
            assert stored_files(target) == old
    convert(source, target, overwrite=True, resume=True)
    assert (inodes(target)["group/gzip/0.0"] == chunk) is not exchanges
    convert(source, tmp_path / "b.zarr")
    assert stored_files(target) == stored_files(tmp_path / "b.zarr")
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.zarr", "b.zarr"]


def test_files_that_are_linked_to_are_sources_too(hdf5: Path, tmp_path: Path) -> None:
    (tmp_path / "b.h5").write_bytes(hdf5.read_bytes())
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("b.h5", "/group")
    interrupted(tmp_path / "a.h5", tmp_path / "a.zarr")
    os.utime(tmp_path / "b.h5", ns=(0, 0))
    with pytest.raises(ConflictError, match=r"b\.h5 has changed since"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr", resume=True)


@pytest.mark.parametrize(("source", "target"), [("a.zarr", "b.h5"), ("a.zarr", "b.zarr"), ("a.h5", "b.zarr.zip")])
def test_what_cannot_go_on_is_refused(hdf5: Path, tmp_path: Path, source: str, target: str) -> None:
    (tmp_path / "a.h5").write_bytes(hdf5.read_bytes())
    convert(hdf5, tmp_path / "a.zarr")
    format_3: dict[str, Any] = {"zarr_format": 3} if target == "b.zarr" else {}
    with pytest.raises(errors.UsageError, match="resume="):
        convert(tmp_path / source, tmp_path / target, resume=True, **format_3)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.zarr"]


@pytest.mark.parametrize("options", ["options", "s3fs_options"])
@pytest.mark.parametrize("form", [{}, {"zarr_format": 3, "shards": (8192, 16)}, {"zarr_format": "both"}], ids=str)
def test_in_a_bucket_it_goes_on_after_the_objects_that_are_there(hdf5, tmp_path, s3, options, form):
    target, storage = f"s3://{s3.bucket}/a.zarr", getattr(s3, options)
    raised = interrupted(hdf5, target, storage_options=storage, **form)
    assert "resume=True" in str(raised.__notes__)
    with pytest.raises(errors.IncompleteStoreError):
        ZarrIO(target, storage_options=storage)
    with pytest.raises(StoreExistsError):
        convert(hdf5, target, storage_options=storage, **form)
    with pytest.raises(ConflictError, match="--codec was keep and is blosc"):
        convert(hdf5, target, storage_options=storage, resume=True, codec=True, **form)

    def chunks() -> set[str]:
        contents = s3.contents("a.zarr")
        return {key for key in contents if not key.endswith(("zarr.json", RECORD)) and "/.z" not in f"/{key}"}

    before = chunks()
    assert before
    s3.proxy.reset()
    convert(hdf5, target, storage_options=storage, resume=True, **form)
    sent = {path.partition("?")[0] for method, path in s3.proxy.requests if method in ("PUT", "POST")}
    assert {path.partition("/a.zarr/")[2] for path in sent} & chunks() == chunks() - before
    assert len(chunks()) > len(before)
    convert(hdf5, tmp_path / "b.zarr", **form)
    assert s3.contents("a.zarr") == stored_files(tmp_path / "b.zarr")
    convert(hdf5, target, storage_options=storage, overwrite=True, **form)


def test_a_file_in_a_bucket_that_no_conversion_has_left_is_not_continued(hdf5, tmp_path, s3):
    target = f"s3://{s3.bucket}/a.zarr"
    convert(hdf5, target, storage_options=s3.options)
    with pytest.raises(StoreExistsError):
        convert(hdf5, target, storage_options=s3.options, resume=True)
    (tmp_path / "c.h5").write_bytes(hdf5.read_bytes())
    with h5py.File(tmp_path / "c.h5", "r+") as file:
        for name in ("group/gzip", "group/lzf", "contiguous"):
            file[name][:] += 1
    interrupted(tmp_path / "c.h5", target, overwrite=True, storage_options=s3.options)
    s3.put("a.zarr", {RECORD: b"{"})
    with pytest.raises(ConflictError, match="its record cannot be read"):
        convert(tmp_path / "c.h5", target, storage_options=s3.options, resume=True)
    with ZarrIO(target, "w", storage_options=s3.options) as io:  # another file replaces what is left
        io.write_builder(trees.root(trees.dataset("a", [1])))
    with pytest.raises(StoreExistsError):
        convert(tmp_path / "c.h5", target, storage_options=s3.options, resume=True)


def test_two_do_not_make_the_same_target(hdf5: Path, tmp_path: Path) -> None:
    refused: list[Exception] = []

    def again(path: str, done: int) -> None:
        if not refused:
            with pytest.raises(errors.StoreLockedError, match=f"process {os.getpid()} on") as caught:
                convert(hdf5, tmp_path / "a.zarr")
            refused.append(caught.value)

    progress = Mock(Progress, advance=Mock(side_effect=again))
    convert(hdf5, tmp_path / "a.zarr", write_options=WriteOptions(progress=progress))
    assert refused
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_names_that_begin_alike_are_distinguished(hdf5: Path, tmp_path: Path) -> None:
    one, other = (tmp_path / f"{'long' * 15}{end}.zarr" for end in "ab")
    interrupted(hdf5, one)
    convert(hdf5, other)
    assert len(os.listdir(tmp_path)) == 2
    convert(hdf5, one, resume=True)
    assert sorted(os.listdir(tmp_path)) == [one.name, other.name]


@pytest.mark.parametrize("resume", [None, Resumption({}, lambda record: [], False)], ids=["new", "resumable"])
def test_a_worker_that_does_not_see_the_folder_writes_nothing(tmp_path: Path, resume: Resumption | None) -> None:
    with (
        transaction.Writer(LocalStore(str(tmp_path / "a.zarr"))) as writer,
        writer.new_file({}, resume=resume) as change,
    ):
        task = pickle.dumps(change)
    left = os.listdir(tmp_path)  # the folder is gone, as if this were another machine
    with pytest.raises(errors.StoreError, match="need access to the folder"):
        pickle.loads(task).put("a/0.0", b"1")
    assert os.listdir(tmp_path) == left
