"""The architecture page shows the code as it is: walks, answers, packages, imports, modules, pictures.

After a module has come or gone: ``python docs/_scripts/architecture.py``, and read what it has changed.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest
from hdmf.backends.hdf5 import H5DataIO
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, convert
from hdmf_zarr_backend.options import WriteOptions
from tests.import_rules import PACKAGE, PACKAGES

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "docs" / "_scripts"
SOURCE = ROOT / "src" / "hdmf_zarr_backend"
REPAIR = "run: python docs/_scripts/architecture.py"

_NAMED = re.compile(r"`((?:\w+\.)*\w+):(\w+(?:\.\w+)*)`")
_LINKED = re.compile(r"\[`([\w.]+):[\w.]+`\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module("architecture")


def test_page_and_pictures_are_as_the_script_makes_them(script):
    for path, text in script.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {REPAIR}"


def test_every_package_of_the_table_is_there():
    assert [name for name in PACKAGES if not (SOURCE / name).is_dir() and not (SOURCE / f"{name}.py").is_file()] == []


def test_what_the_picture_of_the_data_flow_names_is_there(script):
    named = importlib.import_module("pictures")
    formats = [f"encoding/{name}" for name in named.FORMATS]
    modules = [*named.WRITE_STEPS, *named.READ_STEPS, *named.WRITE_VALUES, *named.READ_VALUES, *formats]
    missing = [name for name in modules if not name.startswith("hdmf: ") and not (SOURCE / f"{name}.py").is_file()]
    assert missing == []


def section(title: str) -> str:
    """Return the text below a heading of the page, as far as the next one of its level."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    level = "#" * (3 if f"\n### {title}\n" in page else 2)
    text = page.split(f"\n{level} {title}\n")[1]
    return re.split(rf"^#{{2,{len(level)}}} ", text, flags=re.MULTILINE)[0]


def named(module: str, name: str) -> Any:
    """Return the object that a page calls ``module:name``."""
    return reduce(getattr, name.split("."), importlib.import_module(f"{PACKAGE}.{module}"))


@pytest.mark.parametrize(("page", "least"), [("docs/explanation/architecture.md", 60), ("CONTRIBUTING.md", 23)])
def test_everything_that_a_page_names_is_there(page, least):
    names = _NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(names) > least
    for module, name in names:
        found = named(module, name)
        place = getattr(inspect.unwrap(found) if inspect.isfunction(found) else found, "__module__", "")
        assert place in ("", f"{PACKAGE}.{module}"), f"{name} is in {place}"  # "" is that of a constant


@pytest.mark.parametrize("page", ["docs/explanation/architecture.md", "CONTRIBUTING.md"])
def test_every_constant_and_file_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text)) - {"utils.py", "helpers.py", "common.py"}
    assert [name for name in files if not any((top / name).is_file() for top in (ROOT, SOURCE))] == []
    for constant, file in re.findall(r"`([A-Z][A-Z_]+)` (?:in|of)\s`(\w+(?:/\w+)*)\.py`", text):
        assert hasattr(importlib.import_module(f"{PACKAGE}.{file.replace('/', '.')}"), constant), constant


def test_each_of_the_twelve_questions_has_an_answer_that_leads_to_the_file():
    rows = [line for line in section("Where is ...?").splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 12
    for row in rows:
        links = _LINKED.findall(row)
        assert links, row
        for module, target in links:
            path = (ROOT / "docs" / "explanation" / target).resolve()
            assert path == SOURCE / f"{module.replace('.', '/')}.py"
            assert path.is_file()


def calls_of(action: Callable[[], Any]) -> list[tuple[str, str]]:
    """Return the functions of the package that are called in this thread, as ``(module, name)``, in order."""
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(f"{PACKAGE}."):
            found.append((module.removeprefix(f"{PACKAGE}."), frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found


def code_name(module: str, name: str) -> tuple[str, str]:
    """Return what a call of ``module:name`` is known by; a class is called by its ``__init__``."""
    found = named(module, name)
    return module, f"{name}.__init__" if inspect.isclass(found) else inspect.unwrap(found).__qualname__


def session_file(data: Any) -> NWBFile:
    nwbfile = NWBFile(
        session_description="walk", identifier="walk", session_start_time=datetime(2026, 1, 1, tzinfo=UTC)
    )
    nwbfile.add_acquisition(TimeSeries(name="raw", data=data, unit="V", rate=1.0))
    nwbfile.add_trial(start_time=0.0, stop_time=1.0)
    return nwbfile


def write(place: Path, data: Any) -> None:
    with NWBZarrIO(place, "w") as io:
        io.write(session_file(data))


def read_slice(place: Path) -> None:
    with NWBZarrIO(place, "r") as io:
        io.read().acquisition["raw"].data[5:9]


def append_row(place: Path) -> None:
    with NWBZarrIO(place, "r+") as io:
        io.read().add_trial(start_time=2.0, stop_time=3.0)


DATA = np.arange(400_000, dtype="f4")


_OTHER_DATA = ("write.array_planner:plan_scalar",)
"""What is called for other data than an array, or elsewhere too."""

_IN_BLOCKS = ("arrays.chunks:opened_chunk", "arrays.blosc_blocks:read_range")
"""What is called for a large chunk in Blosc."""


def test_a_write_walks_as_the_page_says(tmp_path):
    calls = calls_of(lambda: write(tmp_path / "a.nwb.zarr", DATA))
    assert_walked(calls, "Write an array", "encoding.zarr3:documents", "encoding.zarr3:last", *_OTHER_DATA)


def test_a_read_walks_as_the_page_says(tmp_path):
    write(tmp_path / "a.nwb.zarr", ZarrDataIO(DATA, chunks=(1000,), compressor="zstd"))
    calls = calls_of(lambda: read_slice(tmp_path / "a.nwb.zarr"))
    assert_walked(calls, "Read a slice", "builders.assembler:Assembler.root", *_IN_BLOCKS)


def test_a_slice_of_a_large_blosc_chunk_is_read_in_blocks(tmp_path):
    write(tmp_path / "a.nwb.zarr", np.arange(2**18, dtype="f8"))
    calls = calls_of(lambda: read_slice(tmp_path / "a.nwb.zarr"))
    rest = iter(calls)
    for found in _IN_BLOCKS:
        assert code_name(*found.split(":")) in rest, f"{found} is not called, or not in this place"


def test_a_conversion_walks_as_the_page_says(tmp_path):
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(session_file(H5DataIO(DATA, compression="gzip", chunks=(100_000,))))
    calls = calls_of(
        lambda: convert(tmp_path / "a.nwb", tmp_path / "a.nwb.zarr", write_options=WriteOptions(executor=None))
    )
    assert_walked(calls, "Convert a gzip dataset")


def test_an_append_walks_as_the_page_says(tmp_path):
    write(tmp_path / "a.nwb.zarr", DATA)
    others = ("builders.writing:write_difference", "write.writer:PlanWriter.write_changes")
    assert_walked(calls_of(lambda: append_row(tmp_path / "a.nwb.zarr")), "Append a row", *others)


def assert_walked(calls: list[tuple[str, str]], title: str, *others: str) -> None:
    """Compare the calls with a walk of the page: each function is called after the one that is named before it."""
    walk = [(module, name) for module, name in _NAMED.findall(section(title)) if f"{module}:{name}" not in others]
    assert len(walk) > 10
    rest = iter(calls)
    for module, name in walk:
        assert code_name(module, name) in rest, f"{module}:{name} is not called, or not in this place"
