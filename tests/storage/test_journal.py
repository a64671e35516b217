"""The journal of a change: what it keeps, what it puts back, and what it refuses."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.changes import journal as journal_module
from hdmf_zarr_backend.changes.journal import (
    JOURNAL,
    LAST_RECORD,
    Journal,
    Mark,
    Record,
    delete_leftovers,
    pending,
    recover,
    recover_with_warning,
)
from hdmf_zarr_backend.changes.locks import Holder
from hdmf_zarr_backend.errors import ConflictError, JournalWarning, MetadataError, NameRefusedError, StoreError
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.transfer.names import checked_name
from tests.keystores import MemoryKeys

CONSOLIDATED = ".zmetadata"
BEFORE = {
    CONSOLIDATED: b"old", ".zattrs": b"{}", "a/0": b"zero", "a/1": b"one", "a/.zarray": b"[2]", "b/0": b"x",
    "c/0": b"a shard", "c/1": b"another",
}  # fmt: skip


class StoppedError(Exception):
    """The process has ended here."""


def change(keys: MemoryKeys, *, marked: bool = False) -> None:
    """Change a part of everything, in two records."""
    journal = Journal(keys, 2)
    journal.keep(["a/1", "a/.zarray", "b/gone"], new=["a/2"], large=["c/0", "c/gone"], below=["new"])
    keys.set("c/0", b"a shard, anew")
    keys.set("c/gone", b"was not there")
    keys.set("a/1", b"two")
    keys.set("a/2", b"three")
    keys.set("b/gone", b"was not there")
    keys.set("new/group/x", b"new")
    keys.set("a/.zarray", b"[3]")
    if marked:
        mark = Mark({".zattrs": b'{"changing": 1}'}, (CONSOLIDATED,))
        journal.keep(["b/0"], mark=mark)
        mark.put(keys)
        keys.set("b/0", b"of another type")
    journal.keep([], large=["c/0", "c/1"])
    keys.set("c/1", b"another, anew")
    journal.discard(["a/0"])
    documents = {".zattrs": b"{}"} if marked else {}
    journal.commit(documents | {CONSOLIDATED: b"new"})


def after(*, marked: bool = False) -> dict[str, bytes]:
    new = {"a/1": b"two", "a/2": b"three", "b/gone": b"was not there", "new/group/x": b"new", "a/.zarray": b"[3]"}
    new |= {"c/0": b"a shard, anew", "c/1": b"another, anew", "c/gone": b"was not there"}
    kept = {key: value for key, value in BEFORE.items() if key != "a/0"}
    return kept | new | {CONSOLIDATED: b"new"} | ({"b/0": b"of another type"} if marked else {})


def of_the_file(keys: MemoryKeys) -> dict[str, bytes]:
    """Return what is not a part of a journal; there is none, or the last record of a change that was complete."""
    assert {key for key in keys.values if key.startswith(JOURNAL)} <= {LAST_RECORD}
    return {key: value for key, value in keys.values.items() if not key.startswith(JOURNAL)}


def stopped_at(step: int, keys: MemoryKeys, function: Any, **options: Any) -> bool:
    """Run a function up to its change number ``step``; tell whether it was stopped."""
    count = 0

    def stop(operation: str, key: str) -> None:
        nonlocal count
        if operation in ("set", "delete"):
            count += 1
            if count == step:
                raise StoppedError

    keys.fails = stop
    try:
        function(keys, **options)
    except StoppedError:
        return True
    finally:
        keys.fails = lambda operation, key: None
    return False


@pytest.mark.parametrize("marked", [False, True], ids=["plain", "marked"])
def test_a_change_that_stops_anywhere_is_undone_or_finished_and_so_is_an_undo(marked):
    states = []
    for step in range(1, 100):
        keys = MemoryKeys(BEFORE)
        was_stopped = stopped_at(step, keys, change, marked=marked)
        values = dict(keys.values)
        if keys.values.get(CONSOLIDATED) == b"old":
            assert keys.values["b/0"] == b"x"  # who trusts the consolidated document finds what it says
            assert keys.values["a/0"] == b"zero"
        for again in range(1, 100):
            undone = MemoryKeys(values)
            if not stopped_at(again, undone, recover):
                assert of_the_file(undone) in (BEFORE, after(marked=marked))
                states.append(of_the_file(undone) == BEFORE)
                break
            if undone.values.get(CONSOLIDATED) == b"old":
                assert undone.values["b/0"] == b"x"
            recover(undone)
            assert of_the_file(undone) in (BEFORE, after(marked=marked))
            assert recover(undone) is None
            delete_leftovers(undone)
            assert not any(key.startswith(JOURNAL) for key in undone.values)
        if not was_stopped:
            break
    assert states == sorted(states, reverse=True)  # undone up to the last put, then finished
    assert set(states) == {True, False}
    assert step > 10


def test_nothing_is_put_down_where_one_put_is_all():
    keys = MemoryKeys(BEFORE)
    journal = Journal(keys, 2)
    journal.keep([])
    journal.commit({CONSOLIDATED: b"new"})
    assert keys.calls == [("set", CONSOLIDATED)]
    assert not journal.is_open


@pytest.mark.parametrize(
    ("documents", "gone"), [({".zattrs": b"x", CONSOLIDATED: b"new"}, []), ({CONSOLIDATED: b"new"}, ["b/0"])]
)
def test_two_documents_or_a_deletion_are_one_change(documents, gone):
    final = {key: value for key, value in {**BEFORE, **documents}.items() if key not in gone}
    for step in itertools.count(1):
        keys = MemoryKeys(dict(BEFORE))
        if not stopped_at(step, keys, lambda store: Journal(store, 2).commit(documents, gone)):
            break
        recover(keys)
        assert of_the_file(keys) in (BEFORE, final)
    assert step > 3
    assert of_the_file(keys) == final


def test_a_record_that_is_damaged_names_the_file_also_if_it_is_not_the_first():
    keys = MemoryKeys({**BEFORE, JOURNAL: Record("id", {}, [], [], Holder("host", 1, "now")).encode()})
    keys.set(f"{JOURNAL}.1", b"{}")
    with pytest.raises(MetadataError) as caught:
        recover(keys)
    assert caught.value.store == keys.location


def test_a_key_is_put_down_once_and_in_one_put():
    keys = MemoryKeys(BEFORE)
    journal = Journal(keys, 2)
    journal.keep(["a/0", "a/1"], new=["a/9"], below=["new"])
    keys.set("a/0", b"changed")
    journal.keep(["a/0", "a/9", "new/x", "new/y/z"], below=["new"])
    assert keys.keys_set() == [JOURNAL, "a/0"]
    assert [key for operation, key in keys.calls if operation == "get"] == ["a/0", "a/1", CONSOLIDATED]
    recover(keys)
    assert keys.values == BEFORE


def test_a_journal_of_another_change_that_was_not_removed_means_nothing():
    keys = MemoryKeys(BEFORE)
    change(keys)
    there = dict(keys.values)
    keys.values |= {
        LAST_RECORD: json.dumps({"version": 1, "id": "other", "final": {}, "delete": ["b/0"]}).encode(),
        f"{JOURNAL}.1": Record("other", {"a/1": b"far too old"}, [], [], Holder.here()).encode(),
    }
    assert recover(keys) is None
    journal = Journal(keys, 2)
    journal.keep(["a/1"])
    keys.set("a/1", b"changed")
    recover(keys)
    assert {key: keys.values[key] for key in there} == there


def test_records_without_a_first_one_are_deleted_by_a_repair():
    """As an earlier version has left them when it was stopped while it deleted its journal."""
    keys = MemoryKeys(BEFORE)
    keys.values |= dict.fromkeys((f"{JOURNAL}.1", f"{JOURNAL}.2", LAST_RECORD), b"of an earlier change")
    delete_leftovers(keys)
    assert keys.values == BEFORE
    delete_leftovers(keys)
    assert keys.values == BEFORE


def test_one_writer_after_the_other_uses_the_same_journal():
    keys = MemoryKeys(BEFORE)
    journal = Journal(keys, 2)
    for value in (b"1", b"2"):
        journal.keep(["a/0"])
        keys.set("a/0", value)
        journal.commit({CONSOLIDATED: value})
        assert {JOURNAL, LAST_RECORD}.isdisjoint(keys.values)
    assert keys.values["a/0"] == b"2"


def refuse_to_delete(operation: str, key: str) -> None:
    if operation == "delete":
        raise OSError("no")


def test_the_end_of_a_journal_that_fails_is_told_and_caught_up_on():
    keys = MemoryKeys(BEFORE)
    keys.fails = refuse_to_delete
    with pytest.warns(JournalWarning) as told:
        change(keys)
    assert [str(warning.message) for warning in told] == [
        f"{keys.location}: the change is written, but its journal could not be removed (no)"
    ]
    keys.fails = lambda operation, key: None
    left = pending(keys)
    assert left is not None
    assert left.holder.pid == os.getpid()
    with pytest.warns(JournalWarning, match="was complete, and its journal was removed"):
        recover_with_warning(keys)
    assert keys.values == after()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 17, 40])
@pytest.mark.parametrize("links", [True, False])
def test_a_large_value_is_put_aside_and_back_piece_by_piece(tmp_path, monkeypatch, size, links):
    monkeypatch.setattr(journal_module, "_PIECE_BYTES", 8)
    keys, value = LocalStore(str(tmp_path)), bytes(range(size))
    keys.set("c/0", value)
    keys.set(CONSOLIDATED, b"old")
    journal = Journal(keys, 2)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "get", lambda self, key: pytest.fail(key) if key.endswith("c/0") else b"")
        if not links:
            patch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("no such links here")))
        journal.keep([], large=["c/0"])
    keys.set("c/0", b"anew")
    (aside,) = (file for file in tmp_path.iterdir() if file.name.startswith(f"{JOURNAL}.old"))
    assert aside.read_bytes() == value
    assert not links or aside.stat().st_nlink == 1  # the key has another value now
    recover(keys)
    assert {file.name for file in tmp_path.iterdir()} == {"c", CONSOLIDATED}
    assert keys.get("c/0") == value


def test_a_large_value_is_put_aside_once():
    keys = MemoryKeys(BEFORE)
    journal = Journal(keys, 2)
    for _ in range(2):
        journal.keep([], large=["c/0"])
        keys.set("c/0", b"anew")
    assert len([key for key in keys.keys_set() if key.startswith(JOURNAL)]) == 2
    journal.commit({CONSOLIDATED: b"new"})
    assert of_the_file(keys) == BEFORE | {"c/0": b"anew", CONSOLIDATED: b"new"}


# ---- records --------------------------------------------------------------------------------------------------------

_parts = st.text(min_size=1).filter(lambda name: name not in {".", ".."} and not {"/", "\0"} & set(name))
_names = st.lists(_parts, min_size=1, max_size=3).map("/".join).filter(lambda name: not name.startswith(JOURNAL))


@given(
    old=st.dictionaries(_names, st.binary()),
    absent=st.lists(_names),
    below=st.lists(_names),
    text=st.none() | st.just(b"{}"),
    aside=st.dictionaries(_names, st.integers(0)),
)
def test_a_record_comes_back_as_it_was(old, absent, below, text, aside):
    mark = None if text is None else Mark({".zattrs": text}, (CONSOLIDATED,))
    record = Record("id", old, absent, below, Holder("host", 1, "now"), mark, aside)
    assert Record.decode(record.encode(), "file") == record


def _changed(change: dict[str, Any]) -> bytes:
    record = Record("id", {"a/0": b"zero"}, [], [], Holder("host", 1, "now")).encode()
    head, _, values = record.partition(b"\n")
    return json.dumps({**json.loads(head), **change}).encode() + b"\n" + values


@pytest.mark.parametrize("text", [b"", b"\n", b"[]\n", b"{}\n", _changed({})[:-1], _changed({"holder": {}}),
                                  _changed({"aside": ["a/0"]})])  # fmt: skip
def test_a_journal_that_is_damaged_is_an_error_and_changes_nothing(text):
    keys = MemoryKeys({**BEFORE, JOURNAL: text})
    with pytest.raises(MetadataError, match="cannot be understood") as caught:
        recover(keys)
    assert caught.value.store == keys.location
    assert keys.values == {**BEFORE, JOURNAL: text}


def test_an_undo_that_fails_is_told_and_nothing_more_is_written():
    keys = MemoryKeys(dict(BEFORE))
    journal = Journal(keys, 2)
    assert not journal.is_open
    journal.keep(["a/0"])
    assert journal.is_open
    keys.set("a/0", b"changed")
    keys.fails = refuse_to_delete
    error = KeyError("the cause")
    journal.undo(error)
    (note,) = error.__notes__
    assert note == (
        f"What was written could not be undone (no). It is undone when {keys.location} is opened with mode 'r+' or "
        "'a', or by `zarrio repair`; until then readers see the file as it was, except values that were assigned to "
        "existing arrays."
    )
    keys.fails = lambda operation, key: None
    with pytest.raises(StoreError) as caught:
        journal.keep(["a/1"])
    assert str(caught.value) == (
        f"{keys.location}: an earlier change could not be undone yet. Close the file, and open it with mode 'r+' when "
        "the store takes values again."
    )
    assert recover(keys) is not None
    assert of_the_file(keys) == BEFORE


def test_keys_of_a_new_node_that_exist_are_not_touched():
    keys = MemoryKeys(dict(BEFORE))
    with pytest.raises(ConflictError) as caught:
        Journal(keys, 2).keep([], below=["new", "a"])
    assert str(caught.value) == (
        f"{keys.location}: the store has keys below a new node, although the metadata have no such node (/a). Run "
        "`zarrio verify`; `zarrio consolidate` adds existing nodes to the metadata."
    )
    assert keys.values == BEFORE


OUTSIDE = "is the root, leads out of the store, or is a key of the journal"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "it is of version 2, and this package reads 1"),
        ({"id": "a/b"}, "'a/b' is not the id of a change"),
        *(({"old": {"a/0": size}}, "it is cut off, or its values are damaged") for size in (5, 3)),
        ({"crc32": 5}, "it is cut off, or its values are damaged"),
        *((change, "a number in it is not a whole number of 0 or more") for change in (
            {"old": {"a/0": True}}, {"old": {"a/0": -4}}, {"aside": {"a/0": 1.0}}, {"aside": {"a/0": -1}})),
        *(({"absent": keys}, "it lists something that is not a key") for keys in ({}, [5])),
        *(({"absent": [key]}, f"{key!r} {OUTSIDE}") for key in ("", "a//b", "./a", "a/../b", f"{JOURNAL}.1")),
        ({"below": ["a/."]}, f"'a/.' {OUTSIDE}"),
        *(({"holder": holder}, "it does not name its writer") for holder in (
            {"host": 5, "pid": 1, "since": "now"}, {"host": "h", "pid": True, "since": "now"},
            {"host": "h", "pid": 1, "since": 5})),
        *(({"mark": mark}, "its mark names keys other than the documents of the root") for mark in (
            {"documents": {"a/0": "x"}, "hidden": []}, {"documents": {}, "hidden": ["a/0"]})),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_a_record_is_named(change, reason):
    text = _changed(change)
    keys = MemoryKeys({**BEFORE, JOURNAL: text}, location="/a.zarr")
    with pytest.raises(MetadataError) as caught:
        recover(keys)
    assert keys.values == {**BEFORE, JOURNAL: text}
    assert str(caught.value) == (
        f"/a.zarr: the journal '.hdmf_zarr_journal' of an interrupted change cannot be understood ({reason}). Export "
        "what can be read to a new file: it is as before the change, except values that were assigned to existing "
        "arrays."
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "it is of version 2, and this package reads 1"),
        ({"final": {CONSOLIDATED: 5}}, "it has something other than digests"),
        ({"final": {"../a": None}}, f"'../a' {OUTSIDE}"),
        ({"delete": ["../a"]}, f"'../a' {OUTSIDE}"),
    ],
    ids=str,
)
def test_what_is_wrong_with_the_last_record_is_named(change, reason):
    last = {"version": 1, "id": "id", "final": {}, "delete": [], **change}
    record = Record("id", {}, [], [], Holder("host", 1, "now")).encode()
    keys = MemoryKeys({**BEFORE, JOURNAL: record, LAST_RECORD: json.dumps(last).encode()})
    with pytest.raises(MetadataError, match=re.escape(f"cannot be understood ({reason})")):
        recover(keys)


def test_what_a_record_looks_like_on_disk():
    """Other versions of this package find it."""
    mark = Mark({".zattrs": b'{"changing": 1}'}, (CONSOLIDATED,))
    holder = Holder("host", 7, "2026-01-01T00:00:00+00:00")
    record = Record("id", {"a/0": b"zero", "a/1": b"\0\n"}, ["b"], ["c"], holder, mark, {"d/0": 3})
    line, _, values = record.encode().partition(b"\n")
    assert values == b"zero\0\n"
    assert json.loads(line) == {
        "version": 1,
        "id": "id",
        "holder": {"host": "host", "pid": 7, "since": "2026-01-01T00:00:00+00:00"},
        "old": {"a/0": 4, "a/1": 2},
        "absent": ["b"],
        "below": ["c"],
        "crc32": zlib.crc32(values),
        "aside": {"d/0": 3},
        "mark": {"documents": {".zattrs": '{"changing": 1}'}, "hidden": [".zmetadata"]},
    }
    assert record.aside_keys() == [".hdmf_zarr_journal.old.id.3"]
    plain = Record("id", {}, [], [], holder).encode()
    assert json.loads(plain).keys() == {"version", "id", "holder", "old", "absent", "below", "crc32"}


def test_what_is_told_of_an_interrupted_change():
    keys = MemoryKeys(dict(BEFORE))
    assert recover(keys) is None
    keys.set(JOURNAL, Record("id", {"a/0": b"before"}, [], [], Holder("host", 7, "noon")).encode())
    assert recover(keys) == "a change of this file by process 7 on host since noon was interrupted and has been undone"
    assert keys.values["a/0"] == b"before"
    keys.set(JOURNAL, Record("id", {"a/0": b"again"}, [], [], Holder("host", 7, "noon")).encode())
    final = {CONSOLIDATED: hashlib.sha256(b"old").hexdigest(), "gone": None}
    keys.set(LAST_RECORD, json.dumps({"version": 1, "id": "id", "final": final, "delete": ["b/0"]}).encode())
    with pytest.warns(JournalWarning) as caught:
        recover_with_warning(keys)
    assert str(caught[0].message) == (
        f"{keys.location}: a change of this file by process 7 on host since noon was complete, and its journal "
        "was removed"
    )
    assert of_the_file(keys) == {key: value for key, value in {**BEFORE, "a/0": b"before"}.items() if key != "b/0"}


@pytest.mark.parametrize("name", [JOURNAL, LAST_RECORD, f"{JOURNAL}.1"])
def test_no_object_takes_the_name_of_a_key_of_a_journal(name):
    with pytest.raises(NameRefusedError, match="cannot be stored"):
        checked_name(name)
