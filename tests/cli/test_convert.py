"""`zarrio convert`: which file becomes which, what is said, how it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import UnsupportedFileError
from hdmf_zarr_backend.progress import SILENT


class Calls(list[tuple[str, str, dict[str, Any]]]):
    """Stands for `hdmf_zarr_backend.convert.convert` and keeps what it was asked; files named ``bad`` fail."""

    def convert(self, source: str, target: str, **options: Any) -> str:
        self.append((source, target, options))
        if "bad" in source:
            raise UnsupportedFileError("NWB 1.x is not supported", store=source, remedy="Upgrade it.")
        if "lost" in source:
            raise PermissionError(13, "Permission denied")
        return "3 arrays"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    made = Calls()
    module = ModuleType("hdmf_zarr_backend.convert")
    module.convert = made.convert  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def test_a_source_and_a_target(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "a.nwb", "b.zarr"]) == 0
    assert calls == [("a.nwb", "b.zarr", {"force_overwrite": False, "check": True, "progress": SILENT})]
    captured = capsys.readouterr()
    assert captured.out.startswith("a.nwb -> b.zarr: 3 arrays in 0.0 s")
    assert captured.err == ""


def test_the_options_are_passed_on(calls: Calls) -> None:
    assert main(["convert", "--force", "--no-check", "a.nwb", "b.zarr"]) == 0
    assert calls[0][2] == {"force_overwrite": True, "check": False, "progress": SILENT}


def test_a_batch_names_its_targets(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new/out"
    sources = ["x/a.nwb", "b.h5", "c.nwb.zarr", "d.zarr", "e.nwb.zarr/"]
    assert main(["convert", *sources, "-o", str(out)]) == 0
    assert out.is_dir()
    names = [str(Path(target).relative_to(out)) for _, target, _ in calls]
    assert names == ["a.nwb.zarr", "b.h5.zarr", "c.nwb", "d.nwb", "e.nwb"]
    assert capsys.readouterr().out.splitlines()[-1] == "5 of 5 files converted"


def test_a_batch_goes_on_past_bad_files_and_tells_at_the_end(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "a.nwb", "bad.nwb", "lost.nwb", "c.nwb", "--output", str(tmp_path)]) == 2
    assert [source for source, *_ in calls] == ["a.nwb", "bad.nwb", "lost.nwb", "c.nwb"]
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "zarrio: NWB 1.x is not supported (store 'bad.nwb'). Upgrade it.",
        "zarrio: lost.nwb: [Errno 13] Permission denied",
    ]
    assert captured.out.splitlines()[-3:] == [
        "2 of 4 files converted", "  not converted: bad.nwb", "  not converted: lost.nwb",
    ]  # fmt: skip


def test_a_batch_as_json(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "a.nwb", "bad.nwb", "-o", str(tmp_path), "--json"]) == 2
    good, bad = json.loads(capsys.readouterr().out)
    assert (good["source"], good["target"], good["error"]) == ("a.nwb", str(tmp_path / "a.nwb.zarr"), None)
    assert "NWB 1.x" in bad["error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.nwb"], "1 path is given"),
        (["a.nwb", "b.nwb", "c.nwb"], "3 paths are given"),
        (["x/a.nwb", "y/a.nwb", "-o", "{}"], "would both become"),
    ],
)
def test_nothing_is_converted_if_the_paths_make_no_sense(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["convert", *(argument.format(tmp_path / "out") for argument in arguments)]) == 2
    assert calls == []
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
