"""Random histories of one file, step by step, compared with a `Model` after each step; operations fail, writers die."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from hdmf.build import GroupBuilder
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hdmf_zarr_backend import WriteOptions, ZarrIO, consolidate, convert, errors, repair, upgrade, verify
from hdmf_zarr_backend.array import edits as edits_module
from hdmf_zarr_backend.errors import IncompleteStoreError, StoreError, StoreNotFoundError, UnlockedWarning
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.opening import open_store
from tests.machine.faults import KINDS, Fault, Killed, Operations, failing
from tests.machine.model import (
    ROWS,
    Content,
    Dataset,
    Group,
    Link,
    Model,
    Node,
    Target,
    add,
    builder_at,
    content_of,
    encoded,
)

_MOST_NODES = 40
_MOST_VALUES = 400
_EARLY_BYTES = 40
_QUIET = (errors.JournalWarning, errors.DroppedChangesWarning, errors.FormatsDifferWarning, UnlockedWarning)

_picks = st.integers(0, 2**16)
_counts = st.integers(1, 6)
_steps = st.one_of(st.integers(1, 8), st.integers(1, 40))
_faults = st.one_of(st.none(), st.builds(Fault, st.sampled_from(KINDS), _steps))


def memory_folder() -> str | None:
    """Return a folder in memory, None where the system has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - only folders of their own are made in it


class Setup:
    """A store in memory, and the format of new files. Subclass it for another store."""

    name: ClassVar[str] = "memory"
    can_change: ClassVar[bool] = True
    """An existing file can be changed; else a change is a new file, which replaces the old one."""

    def __init__(self, zarr_format: Any = 2) -> None:
        self.zarr_format = zarr_format
        self.storage_options: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.zarr_format!r})"

    def new_place(self) -> Any:
        return {}

    def remove(self, place: Any) -> None:
        """Remove what is left at a place."""

    def given(self, place: Any) -> Any:
        """Return the file at a place, as `ZarrIO` and the other functions take it."""
        return place

    def store(self, place: Any) -> Store:
        return open_store(self.given(place), self.storage_options)

    def open(self, place: Any, mode: str, **options: Any) -> ZarrIO:
        return ZarrIO(self.given(place), mode, storage_options=self.storage_options, **options)


class LocalSetup(Setup):
    """A local folder, in memory where the system has such a folder."""

    name = "local"
    suffix: ClassVar[str] = ".zarr"

    def new_place(self) -> str:
        return os.path.join(tempfile.mkdtemp(prefix="machine-", dir=memory_folder()), f"file{self.suffix}")

    def remove(self, place: str) -> None:
        shutil.rmtree(os.path.dirname(place))


class ZipSetup(LocalSetup):
    """A local zip file, which is written once."""

    name = "zip"
    suffix = ".zarr.zip"
    can_change = False


@dataclass(slots=True)
class Loose:
    """Values of arrays that a reader may see element by element, because they were overwritten or cut off."""

    values: dict[str, set[Any]] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)

    def add(self, path: str, *values: npt.NDArray[Any]) -> None:
        found = self.values.setdefault(path, set())
        for each in values:
            found.update(each.reshape(-1).tolist())
            found.add(_fill_of(each)[()])

    def fits(self, found: Content, wanted: Content) -> bool:
        """Return whether what a reader found is a state of the file but for such values."""
        if found.keys() != wanted.keys():
            return False
        return all(found[path] == wanted[path] or self._fits(path, found[path], wanted[path]) for path in wanted)

    def _fits(self, path: str, found: Any, wanted: Any) -> bool:
        if path not in self.values or found[:-1] != wanted[:-1]:
            return False
        seen, known = (set(np.array(said[-1], object).reshape(-1).tolist()) for said in (found, wanted))
        return seen <= self.values[path] | known


@dataclass(slots=True)
class Session:
    io: ZarrIO
    root: GroupBuilder
    wanted: Model
    is_early: bool
    loose: Loose = field(default_factory=Loose)
    stored: frozenset[str] = frozenset()

    @property
    def is_partial(self) -> bool:
        """Whether values may be in the store that are not committed."""
        return self.is_early and bool(self.loose.values)


@dataclass(slots=True)
class Torn:
    """A change that did not end well."""

    states: list[Model]
    loose: Loose
    finish: Callable[[], object] | None
    may_be_incomplete: bool
    is_done: bool = False


def _fill_of(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.array("", object) if values.dtype == object else np.zeros((), values.dtype)


def _objects(values: Sequence[Any]) -> npt.NDArray[Any]:
    made = np.empty(len(values), object)
    for position, value in enumerate(values):
        made[position] = value
    return made


@contextmanager
def _quiet() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("error")
        for category in _QUIET:
            warnings.simplefilter("always", category)
        yield found


@contextmanager
def _early(is_early: bool) -> Iterator[None]:
    before = edits_module.WAITING_BYTES
    edits_module.WAITING_BYTES = _EARLY_BYTES if is_early else before
    try:
        yield
    finally:
        edits_module.WAITING_BYTES = before


class FileMachine(RuleBasedStateMachine):
    """The machine; a subclass has a setup."""

    setup: ClassVar[Setup]

    def __init__(self) -> None:
        super().__init__()
        self.place: Any = self.setup.new_place()
        self.model: Model | None = None
        self.zarr_format: Any = self.setup.zarr_format
        self.session: Session | None = None
        self.torn: Torn | None = None
        self.is_incomplete = False
        self.unfinished: list[Model] = []
        self.is_checked = True
        self._converted: Model | None = None
        self._number = 0

    # ---- what a reader sees -----------------------------------------------------------------------------------------
    @invariant()
    def readers_see_a_state(self) -> None:
        """Compare what readers find with the states that they may see, after each step."""
        if self.is_checked:
            return
        self.is_checked = True
        for options in self._views():
            self._check_view(options)

    def _given(self) -> Any:
        return self.setup.given(self.place)

    def _views(self) -> Iterator[dict[str, Any]]:
        yield {"mode": "r"}
        if self.zarr_format == "both":
            yield {"mode": "r", "zarr_format": 3}
        is_partial = self.session is not None and self.session.is_partial
        if self.torn is None and not is_partial:
            yield {"mode": "r-"}

    def _check_view(self, options: Mapping[str, Any]) -> None:
        states, loose, may_be_incomplete = self._allowed(has_hint="zarr_format" in options)
        try:
            found = self._read(**options)
        except StoreNotFoundError:
            if None not in states and not self.is_incomplete:
                raise self._diverged(f"nothing is found with {options}") from None
            return
        except IncompleteStoreError:
            if not may_be_incomplete:
                raise self._diverged(f"the file is incomplete with {options}") from None
            return
        if not any(model is not None and loose.fits(found, model.content()) for model in states):
            raise self._diverged(f"with {options}, {_difference(found, states)}")

    def _allowed(self, *, has_hint: bool) -> tuple[list[Model | None], Loose, bool]:
        torn = self.torn
        if torn is not None:
            states = torn.states[-1:] if torn.is_done and not has_hint else torn.states
            return [*states], torn.loose, torn.may_be_incomplete
        loose = self.session.loose if self.session is not None and self.session.is_partial else Loose()
        if self.is_incomplete and has_hint:  # of both formats, the root of format 3 is marked last, and written first
            return [None, *self.unfinished], loose, True
        return [self.model], loose, self.is_incomplete

    def _read(self, mode: str = "r", **options: Any) -> Content:
        with _quiet() as told, self.setup.open(self.place, mode, **options) as io:
            found = content_of(io.read_builder())
        if told and self.torn is None:
            raise self._diverged(f"a reader of a whole file is warned: {told[0].message}")
        return found

    def _diverged(self, problem: str) -> AssertionError:
        return AssertionError(f"{self.setup!r}: {problem}")

    def teardown(self) -> None:
        if self.session is not None:
            self._drop_session()
        self.setup.remove(self.place)

    # ---- a new file -------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.session is None)
    @rule(fault=_faults)
    def write(self, fault: Fault | None) -> None:
        wanted = Model() if self.model is None else self.model.copy()
        wanted.nodes[self._name("/", "group", wanted)] = Group({"a_text": self._text()})
        self._replace(wanted, fault)

    def _replace(self, wanted: Model, fault: Fault | None) -> None:
        is_staged = self._is_staged()
        before = [self.model] if self.model is not None else self.unfinished
        if (was_torn := self.torn) is not None:
            before = was_torn.states

        def write_all() -> None:
            with self.setup.open(self.place, "w", zarr_format=self.setup.zarr_format, force_overwrite=True) as io:
                io.write_builder(wanted.builder())

        if was_torn is None and not is_staged:
            self.torn = Torn(before, Loose(), None, may_be_incomplete=True)
        outcome = self._attempt(write_all, fault)
        if outcome is None:
            self._adopt(wanted)
            self.zarr_format = self.setup.zarr_format
            return
        self.is_checked = False
        if is_staged and was_torn is None:
            self._settle([*before, wanted], can_be_nothing=True)
        else:
            self._settle_unstaged([*before, wanted], was_torn)

    def _is_staged(self) -> bool:
        store = self.setup.store(self.place)
        return bool(store.folder or store.zip_file)

    def _settle(self, states: list[Model], *, can_be_nothing: bool) -> None:
        """Take over what a reader finds after a new file was not written to its end."""
        try:
            found = self._read()
        except (StoreNotFoundError, IncompleteStoreError) as error:
            was_there = self.model is not None
            self.model, self.is_incomplete = None, isinstance(error, IncompleteStoreError)
            self.unfinished = [*states]
            self.torn = None
            if was_there and can_be_nothing:
                raise self._diverged("a file is gone although its replacement did not succeed") from None
            return
        for model in states:
            if found == model.content():
                self.model, self.is_incomplete = model, False
                finish = self._repair_after_replacement
                self.torn = None if can_be_nothing else Torn([model], Loose(), finish, may_be_incomplete=False)
                self.unfinished.clear()
                if model is states[-1]:
                    self.zarr_format = self.setup.zarr_format
                return
        raise self._diverged(f"after a new file was not written, {_difference(found, states)}")

    def _settle_unstaged(self, states: list[Model], was_torn: Torn | None) -> None:
        if was_torn is not None:
            try:
                found = self._read()
            except (StoreNotFoundError, IncompleteStoreError):
                found = None
            if found is not None and found != states[-1].content():
                finish = was_torn.finish or self._open_and_close

                def repair_and_finish() -> None:
                    repair(self._given(), storage_options=self.setup.storage_options)
                    finish()

                was_torn.finish = repair_and_finish  # as before, but the root may have the mark of the new file
                return
        self._settle(states, can_be_nothing=False)

    # ---- a writer ---------------------------------------------------------------------------------------------------
    def _can_open(self) -> bool:
        return self.session is None and self.torn is None and self.model is not None

    def _has_session(self) -> bool:
        return self.session is not None

    def _can_edit(self) -> bool:
        return self.session is not None or self._can_open()

    def _edited(self) -> Session:
        if self.session is None:
            self._open_session(is_early=False)
        assert self.session is not None
        return self.session

    def _open_session(self, *, is_early: bool) -> None:
        assert self.model is not None
        if not self.setup.can_change:
            self.session = Session(None, None, self.model.copy(), is_early=False)  # type: ignore[arg-type]
            return
        with _quiet() as found:
            io = self.setup.open(self.place, "a")
            root = io.read_builder()
        for warning in found:
            if not issubclass(warning.category, UnlockedWarning):
                raise self._diverged(f"a file without a journal was recovered: {warning.message}")
        self.session = Session(io, root, self.model.copy(), is_early, stored=frozenset(self.model.nodes))

    @precondition(_can_open)
    @rule(is_early=st.booleans())
    def open_writer(self, is_early: bool) -> None:
        """Open the file for changes; ``is_early``: with so little memory that chunks are written at once."""
        self._open_session(is_early=is_early)

    @precondition(_has_session)
    @rule(fault=_faults)
    def close(self, fault: Fault | None) -> None:
        session = self._edited()

        def write_and_close() -> None:
            session.io.write_builder(session.root)
            session.io.close()

        self._commit(session, write_and_close, fault)

    @precondition(_has_session)
    @rule()
    def write_changes(self) -> None:
        session = self._edited()
        if not self.setup.can_change:
            return
        with _quiet(), _early(session.is_early):
            session.io.write_builder(session.root)
        self._adopt(session.wanted)
        session.wanted = session.wanted.copy()
        session.loose = Loose()

    @precondition(_has_session)
    @rule()
    def leave_by_an_error(self) -> None:
        self._drop_session()
        self.is_checked = False

    def _drop_session(self) -> None:
        session = self._edited()
        self.session = None
        if not self.setup.can_change:
            return
        error = KeyError("for a test")
        with _quiet():
            session.io.__exit__(KeyError, error, None)

    def _commit(self, session: Session, act: Callable[[], object], fault: Fault | None) -> None:
        if not self.setup.can_change:
            self.session = None
            self._replace(session.wanted, fault)
            return
        before = self.model
        assert before is not None
        with _early(session.is_early):
            outcome = self._attempt(act, fault, session.io)
        self.session = None
        if outcome is None:
            self._adopt(session.wanted)
            return
        if outcome.is_done:  # but for the journal, which the next writer removes
            self._adopt(session.wanted)
            states = [before, session.wanted] if self.zarr_format == "both" else [session.wanted]
            self.torn = Torn(states, session.loose, None, bool(session.loose.replaced), is_done=True)
            return
        if not outcome.is_dead:
            with _quiet():
                session.io.__exit__(StoreError, StoreError("the store refuses"), None)
        self.torn = Torn([before, session.wanted], session.loose, None, bool(session.loose.replaced))
        self.is_checked = False

    def _adopt(self, model: Model) -> None:
        self.model, self.torn, self.is_incomplete, self.is_checked = model, None, False, False
        self.unfinished.clear()

    def _attempt(self, act: Callable[[], object], fault: Fault | None, io: ZarrIO | None = None) -> Operations | None:
        """Do something, which may fail; return None if it succeeded, else how it failed."""
        if fault is None:
            with _quiet():
                act()
            return None
        lock = None if io is None or io._writer is None else io._writer.lock
        operations = Operations(fault)
        try:
            with _quiet() as told, failing(self.setup.store(self.place), operations, lock):
                try:
                    act()
                except Killed:
                    if io is not None:
                        io.close()  # as in a fork, which writes nothing
                    raise
        except Killed:
            return operations
        except errors.ZarrBackendError:
            if not operations.happened:
                raise
            return operations
        operations.is_done = True
        return operations if told and operations.happened else None

    # ---- after a failure --------------------------------------------------------------------------------------------
    @precondition(lambda self: self.session is None and self.torn is not None)
    @rule(by_opening=st.booleans(), fault=_faults)
    def recover(self, by_opening: bool, fault: Fault | None) -> None:
        """Let the next writer, or `repair`, put right what a dead one left; which may die as well."""
        assert self.torn is not None
        torn = self.torn
        kinds = {problem.kind for problem in self._verified()} if fault is None else set()
        act = torn.finish or (self._open_and_close if by_opening else self._repair)
        outcome = self._attempt(act, fault)
        self.is_checked = False
        if outcome is not None and outcome.happened:
            return
        found = self._read()
        for model in torn.states[-1:] if torn.is_done else torn.states:
            if found == model.content():
                self._adopt(model)
                break
        else:
            raise self._diverged(f"after a recovery, {_difference(found, torn.states)}")
        if problems := self._verified():
            raise self._diverged(f"after a recovery from {kinds}, verify finds {problems}")

    def _open_and_close(self) -> None:
        with self.setup.open(self.place, "a"):
            pass

    def _repair(self) -> None:
        left = repair(self._given(), storage_options=self.setup.storage_options).left
        # a fault may leave the journal of what the repair itself has changed; without one, it is found by `_verified`
        if any(problem.kind != "change-interrupted" for problem in left):
            raise self._diverged(f"repair leaves {left}")

    def _repair_after_replacement(self) -> None:
        """Repair a file; a replacement that was refused early leaves the old file of format 2 not consolidated."""
        self._repair()
        if self.zarr_format == 2 and self.setup.store(self.place).get(".zmetadata") is None:
            consolidate(self._given(), storage_options=self.setup.storage_options)  # a commit needs it

    def _verified(self) -> list[Any]:
        return verify(self._given(), storage_options=self.setup.storage_options).problems

    @precondition(lambda self: self.model is not None and self.torn is None)
    @rule()
    def verify_finds_nothing(self) -> None:
        has_journal = self.session is not None and self.session.is_early
        if not has_journal and (problems := self._verified()):
            raise self._diverged(f"verify finds {problems}")

    # ---- the complete file ------------------------------------------------------------------------------------------
    def _is_new(self) -> bool:
        """Return whether the file is whole, and is not the one that was converted last."""
        return self._can_open() and self.model is not self._converted

    @precondition(_is_new)
    @rule(other=st.sampled_from([2, 3, "both"]))
    def convert_there_and_back(self, other: Any) -> None:
        self._converted = self.model
        there: Any = {}
        back: Any = {}
        with _quiet():
            _export(self.setup.open(self.place, "r", lazy=False), there, other)
            _export(ZarrIO(there, "r", lazy=False), back, 2)
        for each, where in ((there, f"in format {other}"), (back, "back in format 2")):
            self._compare_copy(each, where)

    def _compare_copy(self, place: Any, where: str) -> None:
        assert self.model is not None
        with _quiet(), ZarrIO(place, "r") as io:
            found = content_of(io.read_builder())
        if found != self.model.content():
            raise self._diverged(f"a copy {where} differs: {_difference(found, [self.model])}")
        if problems := verify(place).problems:
            raise self._diverged(f"in a copy {where}, verify finds {problems}")

    @precondition(_is_new)
    @rule()
    def convert_to_hdf5_and_back(self) -> None:
        self._converted = self.model
        back: Any = {}
        with tempfile.TemporaryDirectory(dir=memory_folder()) as folder, _quiet():
            path = os.path.join(folder, "file.h5")
            here = WriteOptions(executor=None)
            convert(self._given(), path, storage_options=self.setup.storage_options, write_options=here)
            convert(path, back, write_options=here)
        self._compare_copy(back, "that was in HDF5")

    @precondition(lambda self: self._can_open() and self.setup.can_change)
    @rule(pick=_picks, fault=_faults)
    def change_format(self, pick: int, fault: Fault | None) -> None:
        """Upgrade the file to format 3 or to both formats, or drop one of them; an interrupted upgrade is repeated."""
        if self.zarr_format == 3:
            return
        ways: dict[Any, Any] = {2: [(3, {}), ("both", {"keep": True})], "both": [(3, {"drop": 2}), (2, {"drop": 3})]}
        wanted, options = ways[self.zarr_format][pick % 2]

        def change() -> None:
            upgrade(self._given(), storage_options=self.setup.storage_options, **options)

        def finish() -> None:
            change()
            self.zarr_format = wanted

        outcome = self._attempt(change, fault)
        self.is_checked = False
        assert self.model is not None
        if outcome is None:
            self.zarr_format = wanted
        else:
            self.torn = Torn([self.model], Loose(), finish, may_be_incomplete=False)

    # ---- changes ----------------------------------------------------------------------------------------------------
    def _next(self) -> int:
        self._number += 1
        return self._number

    def _text(self, *, is_long: bool = False) -> str:
        return f"text {self._next()}" + ("ä" * 600 if is_long else "")

    def _values(self, kind: str, count: int, pick: int, model: Model) -> npt.NDArray[Any]:
        if kind == "text":
            return _objects([self._text(is_long=pick % 29 == 0) for _ in range(count)])
        targets = [Target(path) for path in model.paths(Group, Dataset)]
        chosen = [targets[(pick + number) % len(targets)] for number in range(count)]
        if kind == "references":
            return _objects(chosen)
        rows = []
        for target in chosen:
            row = {"number": self._next(), "text": self._text(is_long=pick % 29 == 0), "object": target}
            rows.append(tuple(row[name] for name in ROWS[kind]))
        return _objects(rows)

    def _numbers(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        count = int(np.prod(shape))
        start = self._number + 1
        self._number += count
        return (np.arange(start, start + count) % 2**15).astype(dtype).reshape(shape)

    def _name(self, group: str, kind: str, model: Model) -> str:
        name = f"{group.rstrip('/')}/{kind[:6].strip()}{self._next()}"
        assert name not in model.nodes
        return name

    def _add(self, path: str, node: Node) -> None:
        session = self._edited()
        session.wanted.nodes[path] = node
        if session.root is not None:
            add(session.root, path, node)

    def _group(self, pick: int) -> str | None:
        """Return the path of a group for a new member; None: the file is large enough."""
        wanted = self._edited().wanted
        groups = wanted.paths(Group)
        return None if len(wanted.nodes) > _MOST_NODES else groups[pick % len(groups)]

    @precondition(_can_edit)
    @rule(pick=_picks)
    def add_group(self, pick: int) -> None:
        parent = self._group(pick)
        if parent is not None and parent.count("/") < 4:
            self._add(self._name(parent, "group", self._edited().wanted), Group({"a_number": self._next()}))

    @precondition(_can_edit)
    @rule(pick=_picks, dtype=st.sampled_from(["i4", "f8", "u1", "?", "i2"]), chunk=st.integers(1, 4),
          shape=st.lists(st.integers(0, 7), max_size=2), has_shards=st.booleans())  # fmt: skip
    def add_numbers(self, pick: int, dtype: str, shape: list[int], chunk: int, has_shards: bool) -> None:
        parent = self._group(pick)
        if parent is None:
            return
        chunks = (chunk, 2)[: len(shape)] if shape else None
        shards = None
        if has_shards and chunks is not None and self.zarr_format == 3 and self.setup.zarr_format == 3:
            shards = tuple(2 * n for n in chunks)
        values = self._numbers(tuple(shape), dtype)
        node = Dataset("numbers", values, {"a_text": self._text()}, chunks, shards)
        self._add(self._name(parent, "n", self._edited().wanted), node)

    @precondition(_can_edit)
    @rule(pick=_picks, count=st.integers(0, 6), chunk=st.integers(1, 4))
    def add_text(self, pick: int, count: int, chunk: int) -> None:
        parent = self._group(pick)
        if parent is None:
            return
        values = self._values("text", count, pick, self._edited().wanted) if count else np.array(self._text(), object)
        chunks = (chunk,) if count else None
        self._add(self._name(parent, "text", self._edited().wanted), Dataset("text", values, {}, chunks))

    @precondition(_can_edit)
    @rule(pick=_picks, count=_counts, kind=st.sampled_from(["references", *ROWS]))
    def add_rows_or_references(self, pick: int, count: int, kind: str) -> None:
        parent = self._group(pick)
        if parent is not None:
            wanted = self._edited().wanted
            self._add(self._name(parent, kind, wanted), Dataset(kind, self._values(kind, count, pick, wanted)))

    @precondition(_can_edit)
    @rule(pick=_picks, other=_picks)
    def add_link(self, pick: int, other: int) -> None:
        parent = self._group(pick)
        if parent is None:
            return
        wanted = self._edited().wanted
        targets = [path for path in wanted.paths(Group, Dataset) if path != "/" and not parent.startswith(path)]
        if targets:
            self._add(self._name(parent, "link", wanted), Link(targets[other % len(targets)]))

    @precondition(_can_edit)
    @rule(pick=_picks, other=_picks, kind=st.sampled_from(["number", "text", "list", "reference", "real", "flag"]))
    def set_attribute(self, pick: int, other: int, kind: str) -> None:
        session = self._edited()
        paths = session.wanted.paths(Group, Dataset)
        path = paths[pick % len(paths)]
        number = self._next()
        value: Any = {
            "number": number, "text": f"text {number}", "list": [number, -number], "real": number + 0.5,
            "reference": Target(paths[other % len(paths)]), "flag": other % 2 == 0,
        }[kind]  # fmt: skip
        name = f"a_{kind}{other % 2}"
        session.wanted.set_attribute(path, name, value)
        if session.root is not None:
            builder_at(session.root, path).attributes[name] = encoded(session.root, value)

    def _stored(self, pick: int, *kinds: str) -> str | None:
        session = self._edited()
        is_new = session.root is None
        paths = [path for path in session.wanted.datasets(*kinds) if (is_new or path in session.stored)
                 and session.wanted.dataset(path).values.size < _MOST_VALUES]  # fmt: skip
        return paths[pick % len(paths)] if paths else None

    def _append(self, path: str, values: npt.NDArray[Any]) -> None:
        session = self._edited()
        node = session.wanted.dataset(path)
        session.wanted.set_values(path, np.concatenate([node.values, values]))
        if path in session.loose.values:  # the new values may replace some that readers look at
            session.loose.add(path, values)
        if session.root is not None:
            data = builder_at(session.root, path).data
            before = _form_of(data)
            if node.kind in ("numbers", "text"):
                data.append(values if node.kind == "numbers" else values.tolist())
            else:
                for value in values:
                    data.append(_plain_encoded(session.root, value))
            is_wider = node.kind in ROWS and any(len(value[1]) > 100 for value in values)
            if before != _form_of(data) or is_wider:
                session.loose.replaced.add(path)

    @precondition(_can_edit)
    @rule(pick=_picks, count=st.one_of(_counts, st.integers(0, 60)))
    def append(self, pick: int, count: int) -> None:
        path = self._stored(pick, "numbers", "text", "references", *ROWS)
        if path is None:
            return
        with _early(self._edited().is_early):
            node = self._edited().wanted.dataset(path)
            if node.kind == "numbers":
                values = self._numbers((count, *node.values.shape[1:]), node.values.dtype)
            else:
                values = self._values(node.kind, count, pick, Model() if self.model is None else self.model)
            self._append(path, values)
            self.is_checked &= not self._edited().is_early

    @precondition(_can_edit)
    @rule(pick=_picks, lengths=st.tuples(st.integers(0, 12), st.integers(0, 4)))
    def resize(self, pick: int, lengths: tuple[int, int]) -> None:
        path = self._stored(pick, "numbers", "text")
        if path is None:
            return
        session = self._edited()
        node = session.wanted.dataset(path)
        shape = lengths[: node.values.ndim]
        values = np.full(shape, _fill_of(node.values), node.values.dtype)
        common = tuple(slice(0, min(n, m)) for n, m in zip(shape, node.values.shape, strict=True))
        values[common] = node.values[common]
        session.loose.add(path, node.values, values)
        session.wanted.set_values(path, values)
        if session.root is not None:
            with _early(session.is_early):
                data = builder_at(session.root, path).data
                before = _form_of(data)
                data.resize(shape)
                if before != _form_of(data):
                    session.loose.replaced.add(path)
        self.is_checked &= not session.is_early

    @precondition(_can_edit)
    @rule(pick=_picks, start=st.integers(0, 5), count=_counts)
    def assign(self, pick: int, start: int, count: int) -> None:
        path = self._stored(pick, "numbers", "text")
        if path is None:
            return
        session = self._edited()
        node = session.wanted.dataset(path)
        values = node.values.copy()
        part = values[start : start + count]
        if not part.size:
            return
        if node.kind == "numbers":
            fresh = self._numbers(part.shape, part.dtype)
        else:
            fresh = self._values("text", len(part), pick, session.wanted)
        values[start : start + count] = fresh
        session.loose.add(path, node.values, values)
        session.wanted.set_values(path, values)
        if session.root is not None:
            with _early(session.is_early):
                builder_at(session.root, path).data[start : start + count] = fresh
        self.is_checked &= not session.is_early


def _plain_encoded(root: GroupBuilder, value: Any) -> Any:
    if isinstance(value, Target):
        return builder_at(root, value.path)
    return tuple(_plain_encoded(root, item) for item in value) if isinstance(value, tuple) else value


def _export(source: ZarrIO, place: Any, zarr_format: Any) -> None:
    with source, ZarrIO(place, "w", zarr_format=zarr_format) as target:
        target.export(source, cache_spec=False)


def _form_of(data: Any) -> Any:
    """Return what changes where the chunks of an array are replaced."""
    data = getattr(data, "dataset", data)
    stored = getattr(getattr(data, "node", None), "stored", None)
    return (getattr(data, "chunks", None), getattr(stored, "data_type", None))


def _difference(found: Content, states: Sequence[Model | None]) -> str:
    """Return where what was found differs from the last of the states."""
    models = [model for model in states if model is not None]
    if not models:
        return "a file is found where there is none"
    wanted = models[-1].content()
    paths = [path for path in sorted({*found, *wanted}) if found.get(path) != wanted.get(path)]
    lines = [f"{path}: found {found.get(path)!r:.600}, expected {wanted.get(path)!r:.600}" for path in paths]
    return f"it is none of {len(models)} states; of the last one differ: " + "; ".join(lines[:3])
