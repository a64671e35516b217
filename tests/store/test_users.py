"""All that changes a file in place, ended anywhere: readers find the old file, the new one, or a clear error."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hdmf.common import DynamicTable, ElementIdentifiers, VectorData, VectorIndex, get_manager

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate, repair, upgrade
from hdmf_zarr_backend.arrays import edits as edits_module
from hdmf_zarr_backend.errors import FormatsDifferWarning, IncompleteStoreError, JournalWarning, StoreError
from hdmf_zarr_backend.interop.nczarr import add_nczarr
from hdmf_zarr_backend.stores import transaction
from hdmf_zarr_backend.stores.base import Abilities
from hdmf_zarr_backend.stores.journal import JOURNAL, LAST_RECORD, recover
from tests.faults import appending
from tests.hostile import seeds
from tests.store.steps import Killed, State, Steps, states

FORMATS = (2, 3, "both")
SAID: dict[tuple[Any, int | None], Any] = {}


def said(values: State, zarr_format: int | None) -> Any:
    """Return what readers of a format find, "refused" for an error that says that the file is not complete."""
    key = (frozenset(values.items()), zarr_format)
    if key not in SAID:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JournalWarning)
            warnings.simplefilter("ignore", FormatsDifferWarning)
            try:
                SAID[key] = appending.said(values, zarr_format=zarr_format)
            except IncompleteStoreError:
                SAID[key] = "refused"
    return SAID[key]


def of_the_file(values: State) -> State:
    """Return what is not a part of a journal; there is none, or the last record of a change that is over."""
    assert {key for key in values if key.startswith(JOURNAL)} <= {LAST_RECORD}
    return {key: value for key, value in values.items() if not key.startswith(JOURNAL)}


def is_of_3(key: str) -> bool:
    """Return whether a key of a file of both formats is one of format 3 only."""
    return key.endswith("zarr.json") or "/c/" in key


def in_turn(before: State, after: State) -> list[State]:
    """Return what a file of both formats is before its format 2 changes, before its format 3 follows, and then."""
    middle = {key: value for key, value in after.items() if not is_of_3(key)}
    return [before, {**middle, **{key: value for key, value in before.items() if is_of_3(key)}}, after]


def check_killed(
    before: State, user: Callable[[Steps], None], formats: tuple[int | None, ...], overwrites: Any, *, twice: bool
) -> int:
    """Kill a user at each step, and the recovery of what it leaves; return how many cases that were.

    ``twice``: it changes format 2, and then format 3, each as a whole.
    """
    store = Steps(before)
    user(store)
    after = of_the_file(store.values)
    whole = in_turn(before, after) if twice else [before, after]
    assert after != before
    assert {key for key in store.values if key.startswith(JOURNAL)} == set()
    cases = 0
    found: dict[int | None, list[str]] = {number: [] for number in formats}
    outcomes = []
    for values in states(before, store.log):
        recovered = Steps(values)
        recover(recovered)
        final = of_the_file(recovered.values)
        outcomes.append(whole.index(final))
        for number in formats:
            found[number].append(_seen(values, number, before, after, overwrites))
            assert found[number][-1] != "new" or said(final, None) == said(after, None)
        for state in states(values, recovered.log):
            again = Steps(state)
            recover(again)
            assert of_the_file(again.values) == final
            cases += 1
    assert outcomes == sorted(outcomes)
    assert {*outcomes} == {whole.index(state) for state in whole}
    order = {"old": 0, "refused": 1, "new": 2}
    for number in formats:
        if said(before, number) != said(after, number):
            assert sorted(found[number], key=order.__getitem__) == found[number], found[number]
    return cases


def _seen(values: State, number: int | None, before: State, after: State, overwrites: Any) -> str:
    result = said(values, number)
    if result == "refused":
        return "refused"
    old, new = said(before, number), said(after, number)
    if overwrites is not None and result not in (old, new):
        path, value = overwrites
        assert set(result[path][1]) <= {*old[path][1], *new[path][1], value}
        result = {**result, path: old[path]}
    assert result in (old, new)
    return "old" if result == old else "new"


# ---- users ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files() -> dict[Any, State]:
    """The file that is appended to, in each format."""
    made = {}
    for number in FORMATS:
        store = Steps()
        appending.write_before(store, number)
        made[number] = store.values
    return made


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits_module, "WAITING_BYTES", edits_module.WAITING_BYTES)


def readers(number: Any) -> tuple[int | None, ...]:
    return (None, 3) if number == "both" else (None,)


@pytest.mark.parametrize("batch", [transaction.BATCH_BYTES, 1])
@pytest.mark.parametrize(("number", "variant"), [*itertools.product(("both", 2, 3), appending.VARIANTS)], ids=str)
def test_an_append(files, monkeypatch, number, variant, batch):
    monkeypatch.setattr(transaction, "BATCH_BYTES", batch)
    overwrites = ("/numbers/growing", -1.0) if variant == "values" else None
    cases = check_killed(
        files[number], lambda store: appending.append(store, variant), readers(number), overwrites, twice=False
    )
    assert cases > 100


def without_consolidated(values: State) -> State:
    """Return a file of format 2 that needs repair: documents and a scalar are in the consolidated document only."""
    return _without(values, "numbers/.zattrs", "table/.zgroup")


def _without(values: State, *keys: str) -> State:
    return {key: value for key, value in values.items() if key not in keys}


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


def opened(store: Steps) -> None:
    with ZarrIO(store, "a"):
        pass


def changed_text(values: State) -> State:
    """Return a file whose documents another program has changed, and not the consolidated one."""
    return {**values, "numbers/.zattrs": values["numbers/.zattrs"].replace(b"one column", b"another")}


USERS: dict[str, tuple[Any, Callable[[State], State], Callable[[Steps], Any]]] = {
    "upgrade": (2, dict, upgrade),
    "upgrade, keep": (2, dict, lambda store: upgrade(store, keep=True)),
    "upgrade, keep, newer": ("both", with_newer_2, lambda store: upgrade(store, keep=True)),
    "upgrade, drop 2": ("both", dict, lambda store: upgrade(store, drop=2)),
    "upgrade, drop 3": ("both", dict, lambda store: upgrade(store, drop=3)),
    "upgrade, drop 3, without its root": (
        "both",
        lambda values: _without(values, "zarr.json"),
        lambda store: upgrade(store, drop=3),
    ),
    "nczarr": (2, dict, add_nczarr),
    "nczarr of both": ("both", dict, add_nczarr),
    "consolidate": (2, changed_text, lambda store: consolidate(store, forget=True)),
    "consolidate of both": ("both", changed_text, lambda store: consolidate(store, forget=True)),
    "consolidate of both, other rows": (
        "both",
        lambda values: changed_text(with_other_rows(values)),
        lambda store: consolidate(store, forget=True),
    ),
    "repair": (2, without_consolidated, repair),
    "repair of both": ("both", without_consolidated, repair),
    "repair, newer 2": ("both", with_newer_2, repair),
    "repair, other rows": ("both", with_other_rows, repair),
    "derive": ("both", with_newer_2, opened),
}
IN_TURN = {"consolidate of both", "consolidate of both, other rows"}
"""Users that change format 2, and then make format 3 like it."""


@pytest.mark.parametrize("name", USERS)
@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.FormatsDifferWarning")
def test_other_changes(files, name):
    number, damage, user = USERS[name]
    check_killed(damage(files[number]), user, readers(number), None, twice=name in IN_TURN)


@pytest.mark.parametrize("number", FORMATS)
def test_a_new_file(number):
    store = Steps()
    with ZarrIO(store, "w", zarr_format=number) as io:
        io.write_builder(seeds.tree())
    for values in [*states({}, store.log)][1:]:
        for zarr_format in readers(number):
            assert said(values, zarr_format) in ("refused", said(store.values, zarr_format))


# ---- operations that fail -------------------------------------------------------------------------------------------


def check_failing(before: State, user: Callable[[Steps], Any], kind: Any, every: int, *, twice: bool = False) -> int:
    """Let an operation of a user fail, or lose its answer: the change is there, or undone with an error."""
    store = Steps(before)
    user(store)
    after, count = store.values, len(store.log)
    whole = in_turn(before, of_the_file(after))[: 1 + twice]
    for at in range(1, count + 1, every):
        store = Steps(before, at, kind)
        has_failed = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                user(store)
            except (Killed, StoreError) as error:
                has_failed, message = True, str(error)
        store.at = 0
        if kind in ("refused", "lost") and has_failed:
            assert of_the_file(store.values) in whole
            assert not twice or of_the_file(store.values) != whole[1] or "`zarrio repair` updates format 3" in message
        recover(store)
        final = of_the_file(store.values)
        assert sorted(final) in map(sorted, [*whole, after])  # new objects have other ids
        assert has_failed or sorted(final) == sorted(after)
        assert not has_failed or final in whole or kind in ("killed", "gone")
    return count // every


@pytest.mark.parametrize("kind", ["killed", "refused", "lost", "gone"])
@pytest.mark.parametrize("number", FORMATS)
def test_an_append_that_fails(files, number, kind):
    assert check_failing(files[number], lambda store: appending.append(store, "wider"), kind, every=5) > 5


@pytest.mark.parametrize("kind", ["killed", "refused", "lost", "gone"])
@pytest.mark.parametrize("name", [name for name in USERS if name != "derive"])
@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.FormatsDifferWarning")
def test_other_changes_that_fail(files, monkeypatch, name, kind):
    monkeypatch.setattr(transaction, "BATCH_BYTES", 1)
    number, damage, user = USERS[name]
    twice = name in IN_TURN
    check_failing(damage(files[number]), user, kind, every=1 if twice else 5, twice=twice)


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
    with ZarrIO(place, "w", manager=get_manager()) as io:
        io.write(table)
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
