"""All that changes a file in place, ended anywhere: readers find the old file, the new one, or a clear error."""

from __future__ import annotations

import functools
import itertools
import math
import re
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.common import DynamicTable, ElementIdentifiers, SimpleMultiContainer, VectorData, VectorIndex, get_manager

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate, convert, errors, repair, upgrade, verify
from hdmf_zarr_backend.errors import StoreError, StoreRefusedError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.store import transaction
from hdmf_zarr_backend.store.base import JOURNAL, Abilities
from hdmf_zarr_backend.store.journal import LAST_RECORD, LastRecord, Record, recover
from tests import trees
from tests.faults import appending
from tests.machine.machine import memory_folder
from tests.smallfiles import write_container
from tests.transaction.places import UNFINISHED, Act, Cell, Disk, Memory, Queue, bucket, count, some
from tests.transaction.steps import KINDS, Killed, State, Steps, states

pytestmark = pytest.mark.filterwarnings(
    "ignore::hdmf_zarr_backend.errors.FormatsDifferWarning", "ignore::hdmf_zarr_backend.errors.JournalWarning"
)

FORMATS = (2, 3, "both")
VALUES = ("/numbers/growing", -1.0)
"""What is assigned to an array, chunk by chunk."""


def of_the_file(values: State) -> State:
    """Return what is not a part of a journal; there is none, or the last record of a change that is over."""
    left = {key: values[key] for key in values if not key.startswith("../") and not UNFINISHED.fullmatch(key)}
    assert {key for key in left if key.startswith(JOURNAL)} <= {LAST_RECORD}
    return {key: value for key, value in left.items() if not key.startswith(JOURNAL)}


def is_of_3(key: str) -> bool:
    """Return whether a key of a file of both formats is one of format 3 only."""
    return key.endswith("zarr.json") or "/c/" in key


def in_turn(before: State, after: State, cell: Cell) -> list[State]:
    """Return what is complete: a file that is changed as a whole, or first its format 2, and then its format 3."""
    if cell not in IN_TURN:
        return [before, after]
    middle = {key: value for key, value in after.items() if not is_of_3(key)}
    return [before, {**middle, **{key: value for key, value in before.items() if is_of_3(key)}}, after]


def check_killed(place: Memory, before: State, user: Act, cell: Cell, *, every: int = 1, overwrites: Any = None) -> int:
    """Kill a user at each step, and the recovery of what it leaves; return how many cases that were.

    What is found after ``every`` so many steps is recovered, and so for the steps of the recovery.
    """
    killed = place.run(before, user)
    after = of_the_file(killed[-1])
    whole = in_turn(before, after, cell)
    assert after != before
    assert not [key for key in killed[-1] if key.startswith(JOURNAL)]
    formats = (None, 3) if cell.zarr_format == "both" else (None,)
    found: dict[int | None, list[str]] = {number: [] for number in formats}
    outcomes, cases = [], 0
    for values in some(killed, every):
        for key, value in values.items():  # what is written is what is read: a record that is not blocks the file
            if key.startswith(JOURNAL) and not key.startswith(f"{JOURNAL}.old") and not key.endswith(".partial"):
                kind: Any = LastRecord if key == LAST_RECORD else Record
                assert kind.decode(value, "").encode() == value
        recovered = place.run(values, recover)
        final = of_the_file(recovered[-1])
        outcomes.append(whole.index(final))
        for number in formats:
            found[number].append(_seen(place, values, number, before, after, overwrites))
            assert found[number][-1] != "new" or place.said(final, None) == place.said(after, None)
        for state in some(recovered, every, place.recoveries):
            assert of_the_file(place.run(state, recover)[-1]) == final
            cases += 1
    count(cell, place, "killed", len(outcomes))
    count(cell, place, "recovery killed", cases)
    assert outcomes == sorted(outcomes)
    assert {0, len(whole) - 1} <= {*outcomes}
    for number in formats:
        if place.said(before, number) != place.said(after, number):
            assert sorted(found[number], key=ORDER.__getitem__) == found[number], found[number]
    return cases


ORDER = {"old": 0, "refused": 1, "new": 2}


def _seen(place: Memory, values: State, number: int | None, before: State, after: State, overwrites: Any) -> str:
    result = place.said(values, number)
    if result == "refused":
        return "refused"
    old, new = place.said(before, number), place.said(after, number)
    if overwrites is not None and result not in (old, new):
        path, value = overwrites
        assert set(result[path][1]) <= {*old[path][1], *new[path][1], value}
        result = {**result, path: old[path]}
    assert result in (old, new)
    return "old" if result == old else "new"


# ---- users ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def files() -> dict[Any, State]:
    made = {}
    for number in FORMATS:
        store = Steps()
        appending.write_before(store, number)
        made[number] = store.values
    return made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A local folder, in memory where the system has such: thousands of files are made in it."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as path:
        yield Path(path)


def check_append(place: Memory, before: State, variant: str, number: Any, **options: Any) -> int:
    user = "hidden rewrite" if appending.is_marked(variant, 3 if number == "both" else number) else "append"
    overwrites = VALUES if variant == "values" else None
    cell = Cell(user, number)

    def act(store: Any) -> None:
        appending.append(store, variant)

    return check_killed(place, before, act, cell, overwrites=overwrites, **options)


def without(*keys: str) -> Callable[[State], State]:
    """Return what takes documents away, so that a file needs repair."""
    return lambda values: {key: value for key, value in values.items() if key not in keys}


def with_newer_2(values: State) -> State:
    """Return a file of both formats that a program has changed which knows format 2 only."""
    changed = {**values, "numbers/.zattrs": values["numbers/.zattrs"].replace(b"one column", b"another")}
    store = Steps({key: value for key, value in changed.items() if not key.endswith("zarr.json")})
    consolidate(store, forget=True)
    return {**changed, ".zmetadata": store.values[".zmetadata"]}


def with_other_rows(values: State) -> State:
    """Return a file of both formats in which a program that knows format 2 only has added rows, with longer text."""
    store = Steps({key: value for key, value in values.items() if not is_of_3(key)})
    appending.append(store, "wider rows")
    return {**values, **of_the_file(store.values)}


def changed_text(values: State) -> State:
    """Return a file whose documents another program has changed, and not the consolidated one."""
    key = "numbers/.zattrs" if ".zmetadata" in values else "numbers/zarr.json"
    return {**values, key: values[key].replace(b"one column", b"another")}


without_documents = without("numbers/.zattrs", "table/.zgroup")
consolidated = functools.partial(consolidate, forget=True)
kept = functools.partial(upgrade, keep=True)
dropped_3 = functools.partial(upgrade, drop=3)


def edited(change: Callable[[ZarrIO], object]) -> Act:
    def act(store: Any) -> None:
        with ZarrIO(store, "r+") as io:
            change(io)

    return act


@functools.cache
def another_file() -> State:
    store: State = {}
    table = DynamicTable(name="other", description="it", id=[0, 1])
    table.add_column("words", "", data=["a", "b"])
    table.add_column("ragged", "numbers", data=[[1, 2], [3]], index=True)
    table.add_column("objects", "references", data=[table, table])
    write_container(store, SimpleMultiContainer(name="root", containers=[table]))
    return store


def copied(store: Any) -> None:
    manager = get_manager()
    with ZarrIO(another_file(), manager=manager) as source, ZarrIO(store, "r+", manager=get_manager()) as io:
        io.copy(source.read()["other"], "/", name="a copy")


def replaced_shards(io: ZarrIO) -> None:
    io.replace("/sharded/lying", ZarrDataIO(io.read_builder()["sharded"]["lying"].data, chunks=(1,), shards=(4,)))


EDITS: dict[str, Callable[[ZarrIO], object]] = {
    "remove": lambda io: io.remove("/sharded", "/table/ragged", "/numbers@description"),
    "remove, references": lambda io: io.remove("/target", "/texts", cascade=True),
    "replace": lambda io: io.replace("/numbers/growing", np.full((3, 4), 7, "i2")),
    "replace, text": lambda io: io.replace("/table/words", ["longer", "texts", "and one more"]),
    "rename": lambda io: io.rename("/target", "the same by a longer name"),
    "rename, with chunks": lambda io: io.rename("/table", "moved"),
}
USERS: dict[Cell, tuple[Callable[[State], State], Act]] = {
    Cell("upgrade", 2): (dict, upgrade),
    Cell("upgrade --keep", 2): (dict, kept),
    Cell("upgrade --keep, newer", "both"): (with_newer_2, kept),
    Cell("drop 2", "both"): (dict, lambda store: upgrade(store, drop=2)),
    Cell("drop 3", "both"): (dict, dropped_3),
    Cell("drop 3, without its root", "both"): (without("zarr.json"), dropped_3),
    Cell("NCZarr", 2): (dict, add_nczarr),
    Cell("NCZarr", "both"): (dict, add_nczarr),
    Cell("consolidate", 2): (changed_text, consolidated),
    Cell("consolidate", 3): (changed_text, consolidated),
    Cell("consolidate", "both"): (changed_text, consolidated),
    Cell("consolidate, other rows", "both"): (lambda values: changed_text(with_other_rows(values)), consolidated),
    Cell("repair", 2): (without_documents, repair),
    Cell("repair", 3): (without("numbers/zarr.json", "table/words/zarr.json"), repair),
    Cell("repair", "both"): (without_documents, repair),
    Cell("repair, newer 2", "both"): (with_newer_2, repair),
    Cell("repair, other rows", "both"): (with_other_rows, repair),
    Cell("derive", "both"): (with_newer_2, lambda store: ZarrIO(store, "a").close()),
    **{Cell(name, number): (dict, edited(change)) for name, change in EDITS.items() for number in FORMATS},
    Cell("replace, shards", 3): (dict, edited(replaced_shards)),
    **{Cell("copy", number): (dict, copied) for number in FORMATS},
}
IN_TURN = {Cell("consolidate", "both"), Cell("consolidate, other rows", "both")}
"""Users that change format 2, and then make format 3 like it."""
EACH = pytest.mark.parametrize("cell", USERS, ids=lambda cell: "-".join(map(str, cell)))
EACH_APPEND = pytest.mark.parametrize(
    ("number", "variant"), [*itertools.product(("both", 2, 3), appending.VARIANTS)], ids=str
)


@EACH_APPEND
@pytest.mark.parametrize("batch", [transaction.BATCH_BYTES, 1])
def test_an_append(files, monkeypatch, number, variant, batch):
    monkeypatch.setattr(transaction, "BATCH_BYTES", batch)
    assert check_append(Memory(), files[number], variant, number) > 100
    check_append(Queue(), files[number], variant, number, every=7)


@EACH
def test_other_changes_in_memory_and_on_a_disk(files, cell, folder):
    damage, user = USERS[cell]
    check_killed(Memory(), damage(files[cell.zarr_format]), user, cell)
    check_killed(Queue(), damage(files[cell.zarr_format]), user, cell, every=7)
    check_killed(Disk(folder), damage(files[cell.zarr_format]), user, cell, every=25)


@EACH_APPEND
def test_an_append_on_a_disk(files, folder, number, variant):
    check_append(Disk(folder), files[number], variant, number, every=25)


@pytest.mark.parametrize("variant", ["rows", "wider", "values"])
@pytest.mark.parametrize("number", FORMATS)
def test_an_append_on_a_server(files, number, variant):
    with bucket() as place:
        check_append(place, files[number], variant, number, every=20)


@EACH
def test_other_changes_on_a_server(files, cell):
    if "shards" in cell.user:
        pytest.skip("the bucket does not notice values that are streamed")
    damage, user = USERS[cell]
    with bucket() as place:
        check_killed(place, damage(files[cell.zarr_format]), user, cell, every=20)


# ---- new files ------------------------------------------------------------------------------------------------------
def tree_of(value: int) -> Any:
    numbers = ZarrDataIO(np.full((8, 3), value, "i2"), chunks=(4, 3))
    return trees.root(trees.group("g", trees.dataset("n", numbers)), trees.dataset("words", [str(value)] * 5), v=value)


def check_new(place: Memory, cell: Cell, before: State, make: Act, *, every: int = 1) -> None:
    """Kill a writer of a new file at each step, and then the next one: nothing is mixed, and the file is made."""
    readers = (None, 3) if cell.zarr_format == "both" else (None,)
    states_of = place.run(before, make)
    done = states_of[-1]
    if before and place.name in ("disk", "zip"):  # the old file stays until the new one has its name
        assert not [values for values in states_of if place.said(values, None) == "refused"]
    elif before and cell.zarr_format != 3 and not isinstance(place, Disk):  # nothing is deleted after the first puts
        for values in states_of[1:3]:
            assert place.said(values, None) == place.said(before, None)
            problems = [(each.kind, each.is_repairable) for each in verify(place.reading(values)).problems]
            assert problems == [("incomplete", True)]
            assert place.run(values, repair)[-1] == before
    cases = 0
    for values in some(states_of, every):
        for number in readers:
            assert place.said(values, number) in ("refused", place.said(before, number), place.said(done, number))
        again = place.run(values, make)
        stopped = some(again, every, place.recoveries)
        for state in stopped:
            for number in readers:
                assert place.said(state, number) in ("refused", place.said(before, number), place.said(done, number))
        cases += len(stopped)
        assert place.said(again[-1], None) == place.said(done, None) != place.said(before, None)
        assert again[-1].keys() == done.keys()
    count(cell, place, "killed", len(some(states_of, every)))
    count(cell, place, "the next one killed", cases)


def written(value: int, zarr_format: Any) -> Act:
    def make(store: Any) -> None:
        trees.write_builder(store, tree_of(value), zarr_format=zarr_format)

    return make


@pytest.mark.parametrize("is_over", [False, True], ids=["new", "over an old file"])
@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize("where", ["memory", "queue", "disk", "disk without exchange", "zip", "s3"])
def test_a_new_file(folder, where, number, is_over):
    with ExitStack() as stack:
        place = {
            "memory": Memory, "queue": Queue, "disk": lambda: Disk(folder),
            "disk without exchange": lambda: Disk(folder, exchanges=False),
            "zip": lambda: Disk(folder, "a.zarr.zip"), "s3": lambda: stack.enter_context(bucket()),
        }[where]()  # fmt: skip
        before = place.run({}, written(1, number))[-1] if is_over else {}
        every = {"memory": 2, "queue": 2}.get(where, 7)
        check_new(place, Cell("write", number), before, written(2, number), every=every)


@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("is_over", [False, True], ids=["new", "over an old file"])
@pytest.mark.parametrize("number", FORMATS)
def test_a_conversion_that_is_resumed(folder, number, is_over, exchanges):
    with h5py.File(folder / "a.h5", "w") as file:
        for name in ("a", "b"):
            file[name] = np.full((6, 2), 2)
        file.create_dataset("c", data=np.full((60, 2), 2), chunks=(20, 2))
    place = Disk(folder, exchanges=exchanges)

    def make(store: Any) -> None:
        convert(folder / "a.h5", store.folder, zarr_format=number, resume=True, overwrite=True, check=False)

    before = place.run({}, written(1, number))[-1] if is_over else {}
    check_new(place, Cell("resume", number), before, make, every=7)


# ---- operations that fail -------------------------------------------------------------------------------------------
FAILED = (Killed, StoreError, KeyboardInterrupt)
KIND = pytest.mark.parametrize("kind", KINDS)


def check_failing(before: State, user: Act, cell: Cell, kind: Any, every: int) -> None:
    """Let an operation of a user fail, or lose its answer: the change is there, or undone with an error."""
    store = Steps(before)
    user(store)
    after = store.values
    whole = in_turn(before, of_the_file(after), cell)[:-1]
    steps = some(range(1, len(store.log) + 1), every)
    for at in steps:
        store = Steps(before, at, kind)
        message = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                user(store)
            except FAILED as error:
                message, notes = str(error), getattr(error, "__notes__", [])
        is_left = kind == "gone" and JOURNAL in store.values
        is_pending = kind == "stopped" and JOURNAL in store.values
        store.at = 0
        if kind in ("refused", "lost") and message is not None:
            assert of_the_file(store.values) in whole
            assert of_the_file(store.values) == before or "`zarrio repair` updates format 3" in message
        recover(store)
        final = of_the_file(store.values)
        assert not (is_left and final == before) or any("zarrio repair" in note for note in notes)
        assert not is_pending or final not in whole  # undone before the error was raised, or committed
        assert sorted(final) in map(sorted, [*whole, after])  # new objects have other ids
        assert message is not None or sorted(final) == sorted(after)
        assert message is None or final in whole or kind not in ("refused", "lost")
    count(cell, Memory(), kind, len(steps))


@KIND
@EACH_APPEND
def test_an_append_that_fails(files, number, variant, kind):
    check_failing(files[number], lambda store: appending.append(store, variant), Cell("append", number), kind, every=9)


@KIND
@EACH
def test_other_changes_that_fail(files, monkeypatch, cell, kind):
    monkeypatch.setattr(transaction, "BATCH_BYTES", 1)
    damage, user = USERS[cell]
    check_failing(damage(files[cell.zarr_format]), user, cell, kind, every=3 if cell in IN_TURN else 9)


@EACH_APPEND
def test_an_append_to_a_disk_that_is_full(files, number, variant):
    before, most = files[number], 0
    for values in Memory().run(before, lambda store: appending.append(store, variant)):
        most = max(most, sum(map(len, values.values())))
    sizes = some(range(sum(map(len, before.values())), most + 200, 100), 20)
    refused = 0
    for room in sizes:
        store = Steps(before)
        store.room = room
        try:
            appending.append(store, variant)
        except errors.StoreFullError as error:
            if hasattr(error, "__notes__"):  # new chunks have the space of the consolidated document, which is hidden
                assert appending.is_marked(variant, 3 if number == "both" else number)
                store.room = math.inf
                recover(store)
            assert of_the_file(store.values) == before
            refused += 1
    assert 0 < refused < len(sizes)
    count(Cell("append", number), Memory(), "full", len(sizes))


class Twice:
    """A write that is repeated with the same io if it fails, when the store answers again.

    ``between`` is what is stored between the two, and ``done`` how many operations there were before.
    """

    def __init__(self, store: Steps) -> None:
        self._store = store
        self.between: State | None = None
        self.done = 0

    def __call__(self, io: Any, root: Any) -> None:
        try:
            io.write(root)
        except FAILED:
            self._store.at = 0
            self.between, self.done = dict(self._store.values), len(self._store.log)
            io.write(root)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "killed"])
@EACH_APPEND
def test_a_write_that_failed_is_repeated_with_the_same_io_and_killed(files, number, variant, kind):
    """If the first one is in the file in spite of its error, the second is refused: it would undo what it found."""
    before, cases = files[number], 0
    store = Steps(before)
    appending.append(store, variant)
    after = Memory().said(store.values, None)
    for at in some(range(1, len(store.log) + 1), 9):
        store = Steps(before, at, kind)
        twice, is_refused = Twice(store), False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                appending.append(store, variant, write=twice)
            except (StoreError, KeyboardInterrupt):  # also from a value that is written early
                is_refused = True
        if twice.between is None:
            continue
        recover(first := Steps(twice.between))
        ends = [of_the_file(first.values), of_the_file(store.values)]
        for values in some([*states(twice.between, store.log[twice.done :])], 1, 3):
            recover(second := Steps(values))
            assert of_the_file(second.values) in ends
            cases += 1
        assert Memory().said(ends[1], None) == after or is_refused
        assert ends[0] == (ends[1] if is_refused else before)
    count(Cell("append", number), Memory(), f"{kind}, repeated, killed", cases)


class Refusing(Steps):
    """A store that refuses to change what begins with ``closed``, as a folder without write permission does."""

    closed = "-"

    def _check(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key.startswith(self.closed):
                raise StoreRefusedError(f"{key!r} could not be written: Permission denied", store=self.location)

    def _set(self, key: str, value: bytes) -> None:
        self._check([key])
        super()._set(key, value)

    def _delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        self._check(gone)
        super()._delete(gone)


def three_arrays() -> Refusing:
    data = {name: ZarrDataIO(np.arange(6.0), chunks=(2,), maxshape=(None,)) for name in ("d0", "d1", "d2")}
    store = Refusing()
    trees.write_builder(store, trees.root(*(trees.dataset(name, values) for name, values in data.items())))
    return store


@pytest.mark.parametrize("change", ["assign", "append", "cut"])
def test_an_undo_leaves_out_what_never_changed(change):
    store = three_arrays()
    before, store.closed = dict(store.values), "d2/"
    with pytest.raises(StoreRefusedError, match="d2") as caught, ZarrIO(store, "r+") as io:
        for name in ("d0", "d1", "d2"):
            data = io.read_builder()[name].data
            if change == "assign":
                data[:] = 5
            elif change == "append":
                data.append([1.0] * 9)
            else:
                data.resize(3)
    assert not getattr(caught.value, "__notes__", [])
    assert of_the_file(store.values) == before
    with ZarrIO(store, "r+") as io:  # other arrays can still be changed
        io.read_builder()["d1"].data[0] = 7
    assert repair(store).done == []


def test_an_undo_that_a_key_refuses_names_it_and_can_be_repeated():
    store = three_arrays()
    before, store.at = dict(store.values), len(store.log) + 8
    with pytest.raises(Killed), ZarrIO(store, "r+") as io:
        for name in ("d0", "d1", "d2"):
            io.read_builder()[name].data[:] = 5
    store.at = 0
    assert any(store.values[key] != value for key, value in before.items() if key.startswith("d1/"))
    store.closed = "d1/"
    said = r"could not be undone or finished: 'd1/.*Permission denied.* Then run `zarrio repair`\.$"
    with pytest.raises(StoreRefusedError, match=said):
        repair(store)
    assert JOURNAL in store.values
    store.closed = "-"
    assert "undone" in repair(store).done[0]
    assert of_the_file(store.values) == before


def test_a_warning_that_format_3_is_out_of_date_says_that_it_could_not_be_undone(files, monkeypatch):
    monkeypatch.setattr(transaction, "BATCH_BYTES", 1)
    before = with_other_rows(files["both"])
    before["table/objects/0"] = before["table/objects/0"][:5]
    consolidated(first := Steps(before))
    assert first.log[-1] == (JOURNAL, None)
    store = Steps(before, len(first.log), "gone")
    with pytest.warns(errors.FormatsDifferWarning, match="could not be in format 3 .* cut short.* could not be undone"):
        consolidated(store)
    assert JOURNAL in store.values
    assert of_the_file(first.values) == {key: store.values[key] for key in of_the_file(first.values)}


# ---- all steps ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_all_steps():
    command = [sys.executable, "-m", "tests.transaction"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (cases,) = re.findall(r"^([\d,]+) cases", done.stdout, re.MULTILINE)
    assert int(cases.replace(",", "")) > 8_300


# ---- memory ---------------------------------------------------------------------------------------------------------
class Far(Steps):
    """A store whose requests are slow, and should run together."""

    abilities = Abilities(is_remote=True)

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[list[str]] = []

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        values = {key: self.values[key] for key in keys if key in self.values}
        self.fetched.append([*values])
        return values


@pytest.mark.parametrize("is_far", [False, True])
def test_an_index_that_outgrows_its_type_is_rewritten_chunk_by_chunk(tmp_path, is_far):
    place = Far() if is_far else tmp_path / "a.zarr"
    rows, chunk = 2**22, 2**16
    ragged = VectorData(name="ragged", description="numbers", data=np.arange(200))
    ends = ZarrDataIO(np.full(rows, 200, "u1"), chunks=(chunk,), maxshape=(None,))
    columns = [ragged, VectorIndex(name="ragged_index", target=ragged, data=ends)]
    ids = ElementIdentifiers(name="id", data=ZarrDataIO(np.arange(rows), chunks=(chunk,)))
    table = DynamicTable(name="table", description="it", id=ids, columns=columns)
    write_container(place, table)
    with ZarrIO(place, "a", manager=get_manager()) as io:
        root = io.read()
        tracemalloc.start()
        root.add_row(ragged=np.arange(100))
        io.write(root)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1.5 * rows  # bytes: less than the array takes then, and far less than both its forms
    assert not is_far or [f"ragged_index/{number}" for number in range(rows // chunk)] in place.fetched
    with ZarrIO(place, manager=get_manager()) as io:
        data = io.read()["ragged_index"].data
        assert data.dtype == "u2"
        assert np.array_equal(data[:], [*[200] * rows, 300])


def test_a_chunk_that_is_absent_gets_larger_elements_too(files):
    """Other programs do not store chunks of fill values."""
    store = Steps({key: value.replace(b'"chunks":"all"', b'"chunks":"-"') for key, value in files[2].items()})
    del store.values["table/ragged_index/0"]
    appending.append(store, "wider")
    assert appending.said(store)["/table/ragged_index"] == ("uint16", [0, 0, 450, 650])


def test_an_array_with_a_damaged_chunk_is_not_cut_and_other_changes_are_written():
    tree = trees.root(*(trees.dataset(name, ZarrDataIO(np.ones((8, 8)), chunks=(4, 4))) for name in "xy"))
    trees.write_builder(store := Steps(), tree)
    store.values["x/1.0"] = b"damaged"
    with ZarrIO(store, "r+") as io:
        x, y = (io.read_builder()[name].data for name in "xy")
        y[0, 0] = 2
        with pytest.raises(errors.ChunkError, match=r"'1\.0 \[.*\]' cannot be decoded"):
            x.resize((6, 2))
        x[:4, :4] = 3
    x, y = (trees.read_builder(store)[name].data for name in "xy")
    assert (y[0, 0], x.shape, x[:4].tolist()) == (2, (8, 8), [[3] * 4 + [1] * 4] * 4)


def test_what_was_cut_off_is_not_seen_again_where_an_array_has_grown_in_between():
    data = ZarrDataIO(np.ones((4, 4)), chunks=(4, 4), maxshape=(None, None))
    trees.write_builder(store := Steps(), trees.root(trees.dataset("x", data)))
    before, store.log = dict(store.values), []
    with ZarrIO(store, "r+") as io:
        data = io.read_builder()["x"].data
        for shape in ((2, 4), (4, 4), (4, 2)):
            data.resize(shape)
    seen = set()
    for values in states(before, store.log):
        with suppress(errors.IncompleteStoreError), ZarrIO(values) as io:
            data = io.read_builder()["x"].data
            seen.add(data.shape)
            assert data.shape != (4, 4) or (data[:] == 1).all()
            assert data.shape != (4, 2) or data[:].tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]
    assert seen == {(4, 4), (4, 2)}


@pytest.mark.parametrize("is_grown", [False, True])
def test_chunks_that_are_only_cut_are_cut_again_when_they_are_needed(tmp_path, monkeypatch, is_grown):
    monkeypatch.setattr(transaction, "BATCH_BYTES", 2**20)
    count, values = 32, np.random.default_rng(0).integers(0, 2**16, (2**10, 2**9), "u2")
    data = ZarrDataIO(np.tile(values, (count, 1)), chunks=values.shape, maxshape=(None, None))
    trees.write_builder(tmp_path / "a.zarr", trees.root(trees.dataset("x", data)))
    rows, columns = count * len(values) - 100, 500 if is_grown else 300
    with ZarrIO(tmp_path / "a.zarr", "r+") as io:
        data = io.read_builder()["x"].data
        tracemalloc.start()
        data.resize((rows + 100, 300))
        data.resize((rows, columns))
        assert np.array_equal(data[-1], [*values[-101, :300], *[0] * (columns - 300)])
        io.close()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < count // 2 * values.nbytes
    data = trees.read_builder(tmp_path / "a.zarr")["x"].data
    assert data.shape == (rows, columns)
    assert np.array_equal(data[: len(values), :300], values[:, :300])
    assert not data[:, 300:].any()
