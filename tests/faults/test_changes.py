"""Keys that cannot be restored when a change is undone, as in a folder without write permission."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, repair
from hdmf_zarr_backend.errors import StoreError, StoreRefusedError
from hdmf_zarr_backend.stores.local import LocalStore
from tests import trees
from tests.machine.faults import Fault, Killed, Operations, failing

_LEFTOVER = re.compile(r"\.hdmf_zarr_journal\.commit|(\.hdmf_zarr_journal|\.zmetadata|zarr\.json)\.[^/]*\.partial")

pytestmark = pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.JournalWarning")


def files_in(path: Path) -> dict[str, bytes]:
    """Return the files of a Zarr file, without what a journal may leave behind that means nothing."""
    found = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return {key: value for key, value in found.items() if not _LEFTOVER.fullmatch(key)}


def refusing(monkeypatch: pytest.MonkeyPatch, *folders: str) -> None:
    """Let a local store refuse to change what is below some folders, as one without permission does."""
    for name in ("_set", "_delete", "_delete_below"):
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
