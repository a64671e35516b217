"""What changes an existing file in place: whatever call of the store fails, the file is the old one or the new one."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate, repair, upgrade, verify
from hdmf_zarr_backend.errors import JournalWarning, StoreError, StoreRefusedError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.stores.local import LocalStore
from tests import trees
from tests.machine.faults import Fault, Killed, Kind, Operations, failing

_LEFTOVER = re.compile(r"\.hdmf_zarr_journal\.commit|(\.hdmf_zarr_journal|\.zmetadata|zarr\.json)\.[^/]*\.partial")

Files = dict[str, bytes]
Act = Callable[[Path], Any]

pytestmark = [
    pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.JournalWarning"),
    pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.FormatsDifferWarning"),
]


def write(path: Path, zarr_format: Any) -> None:
    inner = trees.group(
        "deep", trees.dataset("n", ZarrDataIO(np.arange(6.0), chunks=(2,))), trees.dataset("one", "text")
    )
    target = trees.dataset("x", [1, 2])
    root = trees.root(inner, target, trees.dataset("words", ["a", "b"]), object_id="r")
    root.set_dataset(trees.dataset("refs", [_reference(target), _reference(inner)], "object"))
    trees.write_builder(path, root, zarr_format=zarr_format)


def _reference(target: Any) -> Any:
    from hdmf.build import ReferenceBuilder

    return ReferenceBuilder(target)


def lose(path: Path) -> None:
    """Lose a document and a scalar, and let the consolidated document be out of date."""
    document = json.loads((path / "x/.zattrs").read_bytes())
    (path / "x/.zattrs").write_text(json.dumps({**document, "added": 1}))
    (path / "deep/n/.zarray").unlink()
    (path / "deep/one/0").unlink()


def by_another_program(path: Path) -> None:
    document = json.loads((path / "deep/.zattrs").read_bytes() if (path / "deep/.zattrs").exists() else b"{}")
    (path / "deep/.zattrs").write_text(json.dumps({**document, "added": 1}))


CHANGES: dict[str, tuple[Any, Act, Act]] = {
    "add_nczarr": (2, lambda path: None, add_nczarr),
    "add_nczarr to both": ("both", lambda path: None, add_nczarr),
    "repair": (2, lose, repair),
    "consolidate": (2, by_another_program, consolidate),
    "consolidate both": ("both", by_another_program, consolidate),
    "upgrade": (2, lambda path: None, upgrade),
    "upgrade --keep": (2, lambda path: None, lambda path: upgrade(path, keep=True)),
    "upgrade --drop 2": ("both", lambda path: None, lambda path: upgrade(path, drop=2)),
    "upgrade --drop 3": ("both", lambda path: None, lambda path: upgrade(path, drop=3)),
}


def files_in(path: Path) -> Files:
    """Return the files of a Zarr file, without what a journal may leave behind that means nothing."""
    found = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return {key: value for key, value in found.items() if not _LEFTOVER.fullmatch(key)}


def states(name: str, folder: Path) -> tuple[Path, Files, Files]:
    """Return a file before a change, and the files in it before and after."""
    zarr_format, prepare, act = CHANGES[name]
    path = folder / "before.zarr"
    write(path, zarr_format)
    prepare(path)
    after = Path(shutil.copytree(path, folder / "after.zarr"))
    act(after)
    assert files_in(after) != files_in(path)
    return path, files_in(path), files_in(after)


def fails_at(name: str, path: Path, kind: Kind, at: int) -> tuple[Operations, BaseException | None]:
    """Make a change with a fault; return what happened."""
    operations, error = Operations(Fault(kind, at)), None
    with failing(LocalStore(str(path)), operations):
        try:
            CHANGES[name][2](path)
        except (Killed, StoreError) as caught:
            error = caught
    return operations, error


@pytest.mark.parametrize("kind", ["killed before", "half", "refused"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_killed_or_refused_anywhere_is_undone_or_done(name: str, kind: Kind, tmp_path: Path) -> None:
    source, before, after = states(name, tmp_path)
    found = []
    for at in range(1, 200):
        path = Path(shutil.copytree(source, tmp_path / "now.zarr"))
        operations, error = fails_at(name, path, kind, at)
        if not operations.happened:
            break
        is_undone_at_once = kind == "refused" and error is not None
        if not is_undone_at_once:  # if it is refused and committed, what is left is caught up on
            ZarrIO(path, "r+").close()
        left = files_in(path)
        wanted = (before, after) if kind != "refused" else (before,) if is_undone_at_once else (after,)
        assert left in wanted, (at, {key for key in left | after if left.get(key) != after.get(key)})
        found.append(left == after)
        shutil.rmtree(path)
    assert found == sorted(found)  # undone up to the commit, then finished
    assert not found[0] or len(found) == 1


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_dead_writer_left_is_undone_before_a_change(name: str, tmp_path: Path) -> None:
    source, _, after = states(name, tmp_path)
    key = "deep/n/0" if name not in ("repair",) else "x/0"
    operations = Operations(Fault("killed after", 2))  # the journal and a chunk
    with failing(LocalStore(str(source)), operations), pytest.raises(Killed), ZarrIO(source, "r+") as io:
        io.read_builder()[key.rpartition("/")[0]].data[0] = 99
    assert operations.happened
    assert (source / ".hdmf_zarr_journal").exists()
    if name == "repair":
        assert "undone" in repair(source).done[0]
    else:
        with pytest.warns(JournalWarning, match="was interrupted and has been undone"):
            CHANGES[name][2](source)
    assert files_in(source) == after
    assert verify(source).is_sound


# ---- keys that cannot be restored -----------------------------------------------------------------------------------


def refusing(monkeypatch: pytest.MonkeyPatch, *folders: str) -> None:
    """Let a local store refuse to change what is below some folders, as one without permission does."""
    for name in ("set", "delete", "delete_below"):
        real = getattr(LocalStore, name)

        def refused(self: LocalStore, keys: Any, *rest: Any, real: Any = real) -> Any:
            names = [keys] if isinstance(keys, str) else list(keys)
            for key in names:
                if key.startswith(folders):
                    raise StoreRefusedError(f"{key!r} could not be written: Permission denied", store=self.location)
            return real(self, keys if isinstance(keys, str) else names, *rest)

        monkeypatch.setattr(LocalStore, name, refused)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    path = tmp_path / "three.zarr"
    data = {name: ZarrDataIO(np.arange(6.0), chunks=(2,), maxshape=(None,)) for name in ("d0", "d1", "d2")}
    trees.write_builder(path, trees.root(*(trees.dataset(name, values) for name, values in data.items())))
    return path


@pytest.mark.parametrize("change", ["assign", "append", "cut"])
def test_an_undo_leaves_out_what_never_changed(three: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    before = files_in(three)
    with monkeypatch.context() as patch:
        refusing(patch, "d2/")
        with pytest.raises(StoreRefusedError, match="d2") as caught, ZarrIO(three, "r+") as io:
            for name in ("d0", "d1", "d2"):
                data = io.read_builder()[name].data
                if change == "assign":
                    data[:] = 5
                elif change == "append":
                    data.append([1.0] * 9)
                else:
                    data.resize(3)
        assert not getattr(caught.value, "__notes__", [])
        assert files_in(three) == before
        with ZarrIO(three, "r+") as io:  # other arrays can still be changed
            io.read_builder()["d1"].data[0] = 7
    assert repair(three).done == []


def test_an_undo_does_all_it_can_and_names_what_is_left(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_in(three)
    operations = Operations(Fault("killed before", 8))
    with failing(LocalStore(str(three)), operations), pytest.raises(Killed), ZarrIO(three, "r+") as io:
        for name in ("d0", "d1", "d2"):
            io.read_builder()[name].data[:] = 5
    changed = {key for key, value in files_in(three).items() if before.get(key, value) != value}
    assert {key for key in changed if key.startswith("d1/")}
    assert {key for key in changed if key.startswith("d0/")}
    with monkeypatch.context() as patch:
        refusing(patch, "d1/")
        with pytest.raises(StoreError) as caught:
            repair(three)
        left = sorted(key for key in changed if key.startswith("d1/"))
        text = f"{len(left)} {'keys are' if len(left) > 1 else 'key is'} left: {', '.join(map(repr, left))}"
        assert text in str(caught.value)
        assert "Permission denied" in str(caught.value)
        now = files_in(three)
        assert {key for key, value in before.items() if now.get(key) != value} == set(left)
        assert ".hdmf_zarr_journal" in now
        with warnings.catch_warnings(), ZarrIO(three, "r") as io:
            warnings.simplefilter("ignore")
            assert io.read_builder()["d0"].data[:].tolist() == [0, 1, 2, 3, 4, 5]
    assert "undone" in repair(three).done[0]
    assert files_in(three) == before
