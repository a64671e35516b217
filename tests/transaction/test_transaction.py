"""A change of a store is done or undone, wherever it ends: each strategy, on a store in memory."""

from __future__ import annotations

import json
import os
import re
import warnings
import zlib
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.errors import ConflictError, JournalWarning, MetadataError, StoreError, StoreLockedError
from hdmf_zarr_backend.store import base, transaction
from hdmf_zarr_backend.store.base import JOURNAL
from hdmf_zarr_backend.store.journal import LAST_RECORD, Record, pending, recover, warn_of_pending
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.transaction import Change, Writer, open_for_writing
from hdmf_zarr_backend.write.plan import checked_name
from tests.places import put, put_all, streaming
from tests.transaction.places import Cell, Memory, count
from tests.transaction.steps import KINDS, SYNC, Killed, State, Steps, power_cuts, states

ROOT = (".zmetadata", ".zattrs", "zarr.json")
MARK = {".zattrs": b'{"changing": 1}', "zarr.json": b'{"hiding": 1}', ".zmetadata": None}
BEFORE = {
    ".zmetadata": b"old", ".zattrs": b"{}", "zarr.json": b"old 3", "a/0": b"zero", "a/1": b"one", "a/.zarray": b"[2]",
    "b/0": b"x", "b/.zarray": b"narrow", "c/0": b"a shard", "c/1": b"another",
}  # fmt: skip
PLAIN = {
    "a/1": b"two", "a/2": b"three", "a/9": b"was not there", "a/.zarray": b"[3]", "c/0": b"a shard, anew",
    "c/1": b"another, anew", "c/2": b"a new shard", "new/group/x": b"new",
    "new/.zgroup": b"{}", ".zmetadata": b"new", ".zattrs": b"{}", "zarr.json": b"new 3",
}  # fmt: skip
HIDDEN = {"b/0": b"of another type", "b/.zarray": b"wide"}
AFTER = {False: {**BEFORE, **PLAIN}, True: {**BEFORE, **PLAIN, **HIDDEN}}
for _values in AFTER.values():
    del _values["a/0"]
CHANGE = Cell("change", "of keys")
VARIANTS = pytest.mark.parametrize("is_hidden", [False, True], ids=["plain", "hidden"])


def carry_out(change: Change, *, is_hidden: bool) -> None:
    """Change a part of everything, in several records."""
    for key, value in {"a/1": b"two", "a/9": b"was not there"}.items():
        change.put(key, value)
    change.put("a/2", b"three", is_new=True)
    change.create("new")
    change.describe({"a/.zarray": b"[3]", "new/.zgroup": b"{}"})
    change.expect(["c/0"])
    change.expect(["c/2"], are_new=True)
    change.put("new/group/x", b"new")
    for key in ("c/0", "c/1", "c/2"):
        with change.stream(key) as write:
            write(PLAIN[key])
    if is_hidden:
        change.hide(MARK, {"b/.zarray": b"wide"})
        change.put("b/0", b"of another type")
    change.delete(["a/0"])
    change.commit({"a/.zarray": b"[3]"}, {key: PLAIN[key] for key in ROOT})


def changed(store: Steps, *, is_hidden: bool, durable: bool = False) -> None:
    with Writer(store, durable=durable) as writer, writer.change(root=ROOT) as change:
        carry_out(change, is_hidden=is_hidden)


def log_of(*, is_hidden: bool, durable: bool = False) -> list[Any]:
    store = Steps(BEFORE)
    changed(store, is_hidden=is_hidden, durable=durable)
    assert store.values == AFTER[is_hidden]
    return store.log


def step_of(key: str) -> int:
    """Return the number of the first step of the plain change that puts a key."""
    return next(number for number, (name, _) in enumerate(log_of(is_hidden=False), 1) if name == key)


def seen(values: State, *, is_hidden: bool) -> tuple[str, str]:
    """Return what readers of format 2 and of format 3 find: "old", "new" or "refused"; a mixture is an error."""
    last = {b"old": "old", b"new": "new", None: "refused"}[values.get(".zmetadata")]
    if last == "refused":
        assert values[".zattrs"] == MARK[".zattrs"]
    of_3 = {b"old 3": "old", b"new 3": "new", MARK["zarr.json"]: "refused"}[values["zarr.json"]]
    for found in (last, of_3):
        if found == "old":  # values of existing arrays may be overwritten: a/1, c/0, c/1
            assert all(values[key] == BEFORE[key] for key in ("a/0", "b/0"))
        if found == "new":
            later = {"a/0"} & values.keys()
            assert all(values[key] == value for key, value in AFTER[is_hidden].items() if key not in {*ROOT, *later})
    assert last == "new" or of_3 != "new"
    return last, of_3


def of_the_file(values: State, *, is_cut: bool = False) -> State:
    """Return what is not a part of a journal; there is none, or the last record of a change that is over.

    A power cut may also leave what no record names any more.
    """
    left = {key for key in values if key.startswith(JOURNAL)}
    assert left <= {LAST_RECORD} or (is_cut and JOURNAL not in left)
    return {key: value for key, value in values.items() if not key.startswith(JOURNAL)}


def check_recovery(values: State, *, is_hidden: bool, is_cut: bool = False) -> int:
    """Recover, kill that at each step, and recover again; return how many cases that were."""
    found, of_3 = seen(values, is_hidden=is_hidden)
    store = Steps(values)
    recover(store)
    final = of_the_file(store.values, is_cut=is_cut)
    assert final == (AFTER[is_hidden] if found == "new" else BEFORE)
    cases = 0
    for state in states(values, store.log):
        again, again_3 = seen(state, is_hidden=is_hidden)
        assert (again, again_3) == (found, of_3) or "old" not in (again, again_3) or found != "new"
        second = Steps(state)
        recover(second)
        assert of_the_file(second.values, is_cut=is_cut) == final
        with open_for_writing(second):
            assert is_cut or second.values == final
        cases += 1
    return cases


@VARIANTS
@pytest.mark.parametrize("batch", [transaction.BATCH_BYTES, 1])
def test_a_change_killed_anywhere_is_done_or_undone_and_so_is_its_recovery(monkeypatch, is_hidden, batch):
    monkeypatch.setattr(transaction, "BATCH_BYTES", batch)
    log = log_of(is_hidden=is_hidden)
    order = {"old": 0, "refused": 1, "new": 2}
    readers, cases = [], 0
    for values in states(BEFORE, log):
        for document, chunk in (("a/.zarray", "a/2"), ("new/.zgroup", "new/group/x")):  # for who finds no other
            assert values.get(document) == BEFORE.get(document) or chunk in values
        readers.append(seen(values, is_hidden=is_hidden))
        cases += check_recovery(values, is_hidden=is_hidden)
    for one in zip(*readers, strict=True):
        assert sorted(one, key=order.__getitem__) == list(one)  # nobody sees new, and then old
        assert {"old", "new"} <= set(one)
    assert ("refused" in readers[len(log) // 2]) == is_hidden
    assert cases > 150
    count(CHANGE, Memory(), "killed", len(readers))
    count(CHANGE, Memory(), "recovery killed", cases)


@VARIANTS
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_operation_fails_the_change_is_done_or_an_error_and_undone(is_hidden, kind):
    steps = len(log_of(is_hidden=is_hidden))
    for at in range(1, steps + 1):
        store = Steps(BEFORE, at, kind)
        has_failed = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", JournalWarning)
                changed(store, is_hidden=is_hidden)
        except (Killed, StoreError, KeyboardInterrupt):
            has_failed = True
        found, _ = seen(store.values, is_hidden=is_hidden)
        assert has_failed or found == "new"
        if kind in ("refused", "lost") and has_failed:
            assert of_the_file(store.values) == BEFORE
        if kind in ("refused", "lost", "gone"):  # who is told of an error finds nothing new
            assert found != "new" or not has_failed
        count(CHANGE, Memory(), kind, 1)
        count(CHANGE, Memory(), "recovery killed", check_recovery(store.values, is_hidden=is_hidden))


@VARIANTS
@pytest.mark.parametrize("seed", range(4))
def test_a_durable_change_survives_a_power_cut(is_hidden, seed):
    log = log_of(is_hidden=is_hidden, durable=True)
    assert log.count(SYNC) > 4
    cases = 0
    for values in power_cuts(BEFORE, log, seed=seed):
        check_recovery(values, is_hidden=is_hidden, is_cut=True)
        cases += 1
    assert cases > 80
    count(CHANGE, Memory(), "power cut", cases)


@VARIANTS
def test_a_durable_recovery_survives_a_power_cut(is_hidden):
    for values in list(states(BEFORE, log_of(is_hidden=is_hidden, durable=True)))[::2]:
        store = Steps(values)
        recover(store)  # as durable as the writer was
        assert (SYNC in store.log) == (JOURNAL in values)
        final = of_the_file(store.values)
        for seed, cut in enumerate(power_cuts(values, store.log, seed=0)):
            again = Steps(cut)
            recover(again)
            assert of_the_file(again.values, is_cut=True) == final, seed
            count(CHANGE, Memory(), "power cut", 1)


def test_an_undo_does_not_look_like_the_commit_of_a_document_that_stays_the_same():
    """A hidden change deletes it, and commits by it."""
    store = Steps(BEFORE)
    with Writer(store) as writer, writer.change(root=ROOT) as change:
        change.hide(MARK, {})
        change.put("b/0", b"of another type")
        change.delete(["a/0"])
        change.commit({}, {key: BEFORE[key] for key in ROOT})
    for values in states(BEFORE, store.log):
        recover(first := Steps(values))
        for state in states(values, first.log):
            recover(second := Steps(state))
            assert of_the_file(second.values) == of_the_file(first.values)


def test_the_next_change_of_a_writer_finishes_what_the_last_one_left():
    with pytest.warns(JournalWarning, match="could not be removed"), Writer(store := Steps(BEFORE)) as writer:
        with writer.change(root=ROOT) as change:
            store.at, store.kind = step_of("zarr.json"), "refused"
            carry_out(change, is_hidden=False)
        assert store.values["zarr.json"] == b"old 3"
        with writer.change() as change:
            change.commit({}, {".zmetadata": b"newer"})
    assert store.values == {**AFTER[False], ".zmetadata": b"newer"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_without_documents_of_the_root_is_committed_by_its_last_record(kind):
    after = {**BEFORE, "a/0": b"1", "a/1": b"2"}

    def change(store: Steps) -> Steps:
        with Writer(store) as writer, writer.change() as change:
            change.put("a/0", b"1")
            change.put("a/1", b"2")
            change.commit({}, {})
        return store

    for at in range(1, len(change(Steps(BEFORE)).log) + 1):
        store, expected = Steps(BEFORE, at, kind), [after]
        try:
            with warnings.catch_warnings(action="ignore", category=JournalWarning):
                change(store)
        except (Killed, StoreError, KeyboardInterrupt) as error:
            expected = [BEFORE] if isinstance(error, StoreError) and kind != "away" else [BEFORE, after]
        recover(following := Steps(store.values))
        assert of_the_file(following.values) in expected


def test_a_change_that_is_not_committed_is_undone():
    with Writer(store := Steps(BEFORE)) as writer, writer.change() as change:
        change.put("a/1", b"two")
        change.drain()
        assert store.values["a/1"] == b"two"
        assert change.is_open
    assert store.values == BEFORE
    assert not change.is_open


@pytest.mark.parametrize("where", ["one key", "several", "the caller"])
def test_after_a_commit_that_its_caller_has_missed_the_writer_refuses_the_next_change(where):
    """The caller takes the file for the old one: keys that the change has added would be taken for new ones."""
    steps = {"one key": 1, "several": step_of(".zmetadata"), "the caller": 0}
    with Writer(store := Steps(BEFORE, steps[where], "stopped")) as writer:
        with pytest.raises(KeyboardInterrupt), writer.change(root=ROOT) as change:
            if where == "one key":
                change.commit({}, {".zmetadata": b"new"})
            carry_out(change, is_hidden=False)
            raise KeyboardInterrupt
        assert store.values == ({**BEFORE, ".zmetadata": b"new"} if where == "one key" else AFTER[False])
        with pytest.raises(StoreError, match="but is in the file"):
            writer.change(root=ROOT)


def test_one_key_needs_no_journal_and_none_that_are_stored_already_and_a_refused_one_is_put_again():
    with Writer(store := Steps(BEFORE, 1, "refused")) as writer:
        for _ in range(2):
            with suppress(StoreError), writer.change(root=ROOT) as change:
                assert change.commit({}, {".zmetadata": b"new"}) == 1
        assert store.log == [SYNC, (".zmetadata", b"new")]
        with writer.change(root=ROOT) as change:
            change.put("a/1", b"one")
            assert change.commit({"a/.zarray": b"[2]"}, {key: store.values[key] for key in ROOT}) == 0
        for documents in ({}, {"a/.zarray": b"[2]"}):
            with writer.change(root=ROOT) as change:
                assert not change.commit(documents, {})
    assert store.log == [SYNC, (".zmetadata", b"new")]


def test_what_was_put_is_read_wherever_it_waits(monkeypatch):
    monkeypatch.setattr(transaction, "BATCH_BYTES", 6)
    with Writer(store := Steps(BEFORE)) as writer, writer.change() as change:
        change.put("a/1", b"two")
        assert store.values["a/1"] == b"one"
        assert change.reader.get_many(["a/0", "a/1"]) == {"a/0": b"zero", "a/1": b"two"}
        change.put("b/0", b"yyy")
        assert (store.values["a/1"], store.values["b/0"]) == (b"two", b"yyy")
    assert store.values == BEFORE


def test_a_record_is_bounded_by_what_it_has_of_old_values(monkeypatch):
    monkeypatch.setattr(transaction, "BATCH_BYTES", 20)
    before = BEFORE | {f"e/{n}": b"long values" for n in range(5)} | {"e/.zarray": b"a long document"}
    with Writer(store := Steps(before)) as writer, writer.change(root=ROOT) as change:
        for n in range(5):
            change.put(f"e/{n}", b"")
        change.commit({"e/.zarray": b""}, {".zmetadata": b"new"})
    values = [value for key, value in store.log if re.fullmatch(rf"{JOURNAL}(\.\d)?", key)]
    records = [Record.decode(value, "") for value in values if value]
    sizes = [sum(len(value) for key, value in record.old.items() if key not in ROOT) for record in records]
    assert sizes == [11, 11, 11, 11, 11, 15]
    assert [record.root for record in records] == [[".zmetadata"], [], [], [], [], []]


def test_the_writer_of_an_existing_file_recovers_it():
    values = list(states(BEFORE, log_of(is_hidden=False)))[12]
    reports: list[str] = []
    with open_for_writing(store := Steps(values), report=reports.append):
        assert store.values == BEFORE
    assert [report.rpartition(" ")[2] for report in reports] == ["undone"]


# ---- new files ------------------------------------------------------------------------------------------------------
NEW = {".zattrs": b"{}", ".zgroup": b"new", ".zmetadata": b"new", "zarr.json": b"new 3", "x/0": b"1", "x/.zarray": b"y"}
WRITING = {".zattrs": b"writing", ".zgroup": b"new", ".zmetadata": None, "zarr.json": None}


def made(store: Steps) -> None:
    with Writer(store, replaces=True) as writer, writer.new_file(WRITING) as change:
        change.put("x/0", b"1")
        change.describe({"x/.zarray": b"y", ".zgroup": b"new"})
        change.commit({}, {key: NEW[key] for key in (".zmetadata", ".zattrs", "zarr.json")})


def read_new(values: State) -> str:
    """Return what a reader finds who trusts the consolidated document, else refuses a file that is being written."""
    if values.get(".zmetadata") == b"old":
        assert {key: value for key, value in values.items() if key not in (".zattrs", ".zgroup")} == {
            key: value for key, value in BEFORE.items() if key != ".zattrs"
        }
        return "old"
    if values.get(".zmetadata") == b"new":
        assert values == NEW
        return "new"
    return "refused" if values.get(".zattrs") in (b"writing", None) else "incomplete root"


@pytest.mark.parametrize("before", [BEFORE, {}], ids=["over an old file", "new"])
def test_a_new_file_is_complete_or_visibly_incomplete_wherever_its_writer_ends(before):
    store = Steps(before)
    made(store)
    assert store.values == NEW
    found = [read_new(values) for values in states(before, store.log)]
    rank = {"old": 0, "refused": 1, "incomplete root": 2, "new": 3}
    assert sorted(found, key=rank.__getitem__) == found
    assert found[-2:] in (["incomplete root", "new"], ["refused", "new"])
    for kind in ("refused", "lost", "gone"):
        for at in range(1, len(store.log) + 1):
            failing = Steps(before, at, kind)
            try:
                made(failing)
            except StoreError:
                assert read_new(failing.values) != "new"
            else:
                assert failing.values == NEW


def test_a_new_file_over_half_a_change_shows_no_half_of_it_nor_does_the_next_writer():
    for values in list(states(BEFORE, log_of(is_hidden=False)))[::3]:
        store = Steps(values)
        made(store)
        for state in states(values, store.log):
            recover(following := Steps(state))
            left = of_the_file(following.values)
            if left.get(".zmetadata") == b"old":
                assert {**left, ".zattrs": b"{}", ".zgroup": b"new"} == {**BEFORE, ".zgroup": b"new"}


def test_a_new_local_file_is_renamed_and_its_parts_go_if_it_is_not_committed(tmp_path):
    store = LocalStore(str(tmp_path / "a.zarr"))
    for is_committed in (False, True):
        with Writer(store, replaces=True) as writer, writer.new_file({}) as change:
            change.put("x/0", b"1")
            assert not store.exists()
            if is_committed:
                change.commit({}, {".zmetadata": b"new"})
        assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"] * is_committed
    assert store.get_many(["x/0", ".zmetadata"]) == {"x/0": b"1", ".zmetadata": b"new"}


# ---- records --------------------------------------------------------------------------------------------------------
HOLDER = {"host": "host", "pid": 7, "since": "noon"}


def record(values: bytes = b"", **parts: Any) -> bytes:
    head = {"version": 2, "id": "id", "holder": HOLDER, "old": {}, "absent": [], "below": [], **parts}
    return json.dumps({"crc32": zlib.crc32(values), **head}).encode() + b"\n" + values


OUTSIDE = "is the root, leads out of the store, or is a key of the journal"


@pytest.mark.parametrize(("text", "reason"), [
    (b"[]\n", "cannot be understood"),
    (b"[" * 2000 + b"]" * 2000 + b"\n", "it is nested more than 1,000 deep"),
    (record(version=3), "it is of version 3, and this package reads 2"),
    (record(id="a/b"), "'a/b' is not the id of a change"),
    (record(b"zero", old={"a/0": 3}), "its values are damaged"),
    (record(b"zero", old={"a/0": 4}, crc32=5), "its values are damaged"),
    (record(b"zero", old={"a/0": True}), "a number in it is not a whole number of 0 or more"),
    (record(absent=[5]), "it lists something that is not a key"),
    *((record(absent=[key]), f"{key!r} {OUTSIDE}") for key in ("", "a//b", "./a", "a/../b", f"{JOURNAL}.1")),
    (record(root=["a/0"]), "it takes a key of a node for a document of the root"),
    (record(holder={**HOLDER, "pid": "x"}), "cannot be understood"),
])  # fmt: skip
def test_a_journal_that_is_damaged_is_an_error_and_changes_nothing(text, reason):
    for values in ({JOURNAL: text}, {JOURNAL: record(), f"{JOURNAL}.1": text}):
        store = Steps({**BEFORE, **values})
        with pytest.raises(MetadataError, match=re.escape(reason)) as caught:
            recover(store)
        assert caught.value.store == store.location
        assert "Export what can be read to a new file" in caught.value.remedy
        assert store.log == []


@pytest.mark.parametrize("text", [b"", record()[:20], record(b"zero", old={"a/0": 4})[:-2]])
def test_a_first_record_that_is_cut_off_does_not_block_the_file(text):
    store, reports = Steps({**BEFORE, JOURNAL: text}), list[str]()
    assert pending(store) is None
    with warnings.catch_warnings(action="error"):
        warn_of_pending(store)
    with open_for_writing(store, report=reports.append):
        assert store.values == BEFORE
    assert "was cut off, as by a power cut, and was removed" in reports[0]


@pytest.mark.parametrize(("parts", "reason"), [
    ({"version": 3}, "it is of version 3, and this package reads 2"),
    ({"final": {".zmetadata": 5}}, "it has something other than digests"),
    ({"root": {"../a": None}}, f"'../a' {OUTSIDE}"),
    ({"crc32": 1}, "its values are damaged"),
    ({"delete": ["../a"]}, f"'../a' {OUTSIDE}"),
], ids=str)  # fmt: skip
def test_what_is_wrong_with_the_last_record_is_named(parts, reason):
    last = {"version": 2, "id": "id", "final": {}, "root": {}, "delete": [], "crc32": 0, **parts}
    store = Steps({**BEFORE, JOURNAL: record(), LAST_RECORD: json.dumps(last).encode() + b"\n"})
    with pytest.raises(MetadataError, match=re.escape(f"cannot be understood ({reason})")):
        recover(store)
    assert store.log == []


def test_records_of_another_change_mean_nothing():
    last = {"version": 2, "id": "other", "final": {}, "root": {}, "delete": ["b/0"], "crc32": 0}
    left = {LAST_RECORD: json.dumps(last).encode() + b"\n", f"{JOURNAL}.1": record(b"old", id="other", old={"a/1": 3})}
    store = Steps({**BEFORE, **left, JOURNAL: record(b"zero", old={"a/0": 4})})
    recover(store)
    assert store.values == {**BEFORE, f"{JOURNAL}.1": left[f"{JOURNAL}.1"]}


@VARIANTS
def test_what_another_program_has_committed_since_is_not_undone(is_hidden):
    theirs = b'{"metadata": "theirs"}'
    for values in states(BEFORE, log_of(is_hidden=is_hidden)):
        if JOURNAL in values:
            store = Steps({**values, ".zmetadata": theirs})
            with pytest.raises(ConflictError, match="another program has changed the file") as caught:
                recover(store)
            assert store.log == []
            assert ("delete the key '.zmetadata'" in caught.value.remedy) == (LAST_RECORD not in values)
            if LAST_RECORD not in values:
                del store.values[".zmetadata"]
                recover(store)
                assert of_the_file(store.values) == BEFORE


def test_a_value_that_was_put_aside_is_no_link_to_another_file(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    store = LocalStore(str(tmp_path / "a.zarr"))
    put_all(store, {"a/0": b"0", JOURNAL: record(aside={"a/0": 0})})
    os.symlink("../secret", tmp_path / "a.zarr" / f"{JOURNAL}.old.id.0")
    with pytest.raises(StoreError, match="leads out of the store"):
        recover(store)
    assert store.get("a/0") == b"0"


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 17])
@pytest.mark.parametrize("links", [True, False])
def test_an_old_shard_is_linked_or_copied_aside_piece_by_piece(tmp_path, monkeypatch, size, links):
    monkeypatch.setattr(base, "_PIECE_BYTES", 8)
    store, value = LocalStore(str(tmp_path)), bytes(range(size))
    put(store, "c/0", value)
    with monkeypatch.context() as patch, Writer(store) as writer, writer.change() as change:
        if not links:
            patch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("no such links here")))
        with change.stream("c/0") as write:
            write(b"anew")
        if links:
            patch.setattr(base.Store, "_copy_value", None)  # nothing is copied back: the disk may be full
        (aside,) = (file for file in tmp_path.iterdir() if file.name.startswith(f"{JOURNAL}.old"))
        assert aside.read_bytes() == value
        assert store.get("c/0") == b"anew"
    assert [file.name for file in tmp_path.iterdir()] == ["c"]
    assert store.get("c/0") == value


@pytest.mark.parametrize("name", [JOURNAL, LAST_RECORD, f"{JOURNAL}.1"])
def test_no_object_takes_the_name_of_a_key_of_a_journal(name):
    with pytest.raises(errors.NameRefusedError, match="cannot be stored"):
        checked_name(name)


def test_what_exists_is_not_taken_for_new():
    with Writer(store := Steps(BEFORE)) as writer, writer.change() as change:
        with pytest.raises(ConflictError, match="the metadata have no such node") as caught:
            change.create("new", "a")
        assert caught.value.path == "/a"
    assert store.log == []


def test_a_change_without_its_first_record_does_not_go_on():
    store = Steps(BEFORE, at=1, kind="refused")
    with Writer(store) as writer, writer.change(root=ROOT) as change:
        change.put("a/0", b"1")
        with pytest.raises(StoreError, match="not allowed"):
            change.drain()
        with pytest.raises(StoreError, match="cannot be continued"):
            change.commit({}, {".zmetadata": b"new"})
    assert store.values == BEFORE


NEXT = {".zmetadata": b"next", ".zattrs": b"{}", "zarr.json": b"next 3"}


def test_a_fork_of_a_writer_changes_nothing(monkeypatch):
    store = Steps(BEFORE)
    with Writer(store) as writer, writer.change(root=ROOT) as change:
        change.put("a/0", b"1")
        change.create("new")
        change.drain()
        now = dict(store.values)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            for act in (
                lambda: change.put("a/1", b"2"),
                lambda: change.put("new/0", b"2"),
                lambda: change.stream("c/0").__enter__(),
                lambda: change.hide(MARK, {}),
                change.drain,
                lambda: change.commit({}, {".zmetadata": b"new"}),
            ):
                with pytest.raises(StoreLockedError, match="before a fork"):
                    act()
            change.abort()
        assert store.values == now
    assert store.values == BEFORE


class Overtaken(Steps):
    """A store whose writer loses its lock after a step; the next one undoes what it finds, and changes the file."""

    lock: Any = None
    lost_at = 0

    def _change(self, step: Any) -> None:
        super()._change(step)
        if len(self.log) == self.lost_at:
            self.lock.check = self.broken
            following = Steps()
            following.values = self.values
            recover(following)
            with Writer(following) as writer, writer.change(root=ROOT) as change:
                change.put("b/0", b"of the next")
                change.commit({}, NEXT)

    def broken(self) -> None:
        raise StoreLockedError("another writer has this file open", store=self.location, remedy="Open it again.")


def test_a_writer_makes_sure_that_it_has_its_lock_before_its_first_put():
    store = Overtaken(BEFORE)
    with pytest.raises(StoreLockedError), Writer(store) as writer, writer.change(root=ROOT) as change:
        writer.lock.check = store.broken
        change.put("a/1", b"two")
        change.drain()
    assert store.log == []


@VARIANTS
def test_a_writer_whose_lock_is_broken_commits_and_hides_nothing(is_hidden):
    for at in range(1, len(log_of(is_hidden=is_hidden)) + 1):
        store = Overtaken(BEFORE)
        store.lost_at = at
        with suppress(StoreLockedError), Writer(store) as writer:
            store.lock = writer.lock
            with writer.change(root=ROOT) as change:
                carry_out(change, is_hidden=is_hidden)
        recover(store)
        count(CHANGE, Memory(), "lock broken", 1)
        if store.log[at - 1][0] not in ROOT:  # a lock is no fence: documents of the root follow each other unchecked
            assert {key: store.values.get(key) for key in ROOT} == NEXT


def test_a_key_at_the_root_of_a_durable_folder_is_whole_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    order, replace = list[str](), os.replace
    monkeypatch.setattr(os, "fsync", lambda _: order.append("disk"))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append(os.path.basename(names[1])), replace(*names)))
    store, aside = LocalStore(str(tmp_path)), f"{JOURNAL}.old.id.0"
    with Writer(store, durable=True):
        put(store, ".zmetadata", b"{}")
        put(store, "a/0", b"1")
        with streaming(store, aside) as write:
            write(b"2")
    assert order == ["disk", ".zmetadata", "0", "disk", aside]


def test_what_a_writer_left_that_died_with_its_journal_is_deleted(tmp_path):
    store = LocalStore(str(tmp_path))
    put_all(store, {"a/0": b"0", f"{JOURNAL}.old.id.0": b"old", f"{JOURNAL}.1": b"", LAST_RECORD: b"{"})
    with Writer(store) as writer, writer.change() as change:
        change.put("a/0", b"1")
        change.drain()
        assert sorted(store.sizes("")) == [JOURNAL, "a/0"]
    assert [*store.sizes("")] == ["a/0"]


def test_an_error_that_is_none_of_a_store_is_raised_after_the_commit_too(monkeypatch):
    monkeypatch.setattr(transaction.journal, "remove_journal", Mock(side_effect=TypeError("a mistake")))
    with pytest.raises(TypeError, match="a mistake"):
        changed(store := Steps(BEFORE), is_hidden=False)
    assert seen(store.values, is_hidden=False) == ("new", "new")


def test_what_is_put_twice_in_a_change_is_recorded_once():
    with Writer(store := Steps(BEFORE)) as writer, writer.change(root=ROOT) as change:
        for value in (b"1", b"22"):
            change.put("a/1", value)
            change.drain()
            with change.stream("c/0") as write:
                write(value)
        assert len([key for key, _ in store.log if key.startswith(f"{JOURNAL}.old")]) == 1
    assert store.values == BEFORE


@VARIANTS
def test_a_writer_that_could_not_undo_says_what_readers_see_until_then_and_refuses_the_next_change(is_hidden):
    with Writer(store := Steps(BEFORE)) as writer:
        with pytest.raises(StoreError) as caught, writer.change(root=ROOT) as change:
            change.put("a/1", b"two")
            change.drain()
            if is_hidden:
                change.hide(MARK, {})
            store.at, store.kind = len(store.log) + 1, "gone"
            change.put("b/0", b"y")
            change.drain()
        assert ("IncompleteStoreError" in caught.value.__notes__[0]) == is_hidden
        with pytest.raises(StoreError, match="could not be undone yet"):
            writer.change(root=ROOT)
        store.at = 0
        with writer.change(root=ROOT):
            assert {key: store.values[key] for key in BEFORE} == BEFORE


@pytest.mark.parametrize("name", ["ä/\n0", '"\\', "\u2028/\U0001f9e0"])
def test_a_record_has_whatever_names_keys_have(name):
    store = Steps({**BEFORE, name: b"\0\n{"})
    with Writer(store) as writer, writer.change(root=ROOT) as change:
        change.put(name, b"x")
        change.drain()
    assert store.values == {**BEFORE, name: b"\0\n{"}
