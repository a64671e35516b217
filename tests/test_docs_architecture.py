"""The architecture page shows the code as it is: walks, operations, answers, packages, imports, the picture.

After a package has come or gone: ``python docs/_scripts/architecture.py``, and read what it has changed.
"""

import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hdmf.backends.hdf5 import H5DataIO
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import JournalWarning
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.store.base import JOURNAL
from tests.import_rules import PACKAGE, PACKAGES
from tests.places import stored_files
from tests.trees import dataset, root, write_builder

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SCRIPT = "architecture"
SOURCE = ROOT / "src" / "hdmf_zarr_backend"
REPAIR = "run: python docs/_scripts/architecture.py"

_NAMED = re.compile(r"`((?:\w+\.)*\w+):(\w+(?:\.\w+)*)`")
_LINKED = re.compile(r"\[`([\w.]+):[\w.]+`\]\(([^)]+)\)")


def test_page_and_picture_are_as_the_script_makes_them(script):
    for path, text in script.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {REPAIR}"


def test_what_the_picture_of_the_data_flow_and_the_table_of_packages_name_is_there(script):
    named = importlib.import_module("pictures")
    formats = [f"encoding/{name}" for name in named.FORMATS]
    modules = [*named.WRITE_STEPS, *named.READ_STEPS, *named.WRITE_VALUES, *named.READ_VALUES, *formats]
    missing = [name for name in modules if not name.startswith("hdmf: ") and not (SOURCE / f"{name}.py").is_file()]
    assert missing == []
    assert [name for name in PACKAGES if not (SOURCE / name).is_dir() and not (SOURCE / f"{name}.py").is_file()] == []


def section(title: str) -> str:
    page = PAGE.read_text(encoding="utf-8")
    level = "#" * (3 if f"\n### {title}\n" in page else 2)
    text = page.split(f"\n{level} {title}\n")[1]
    return re.split(rf"^#{{2,{len(level)}}} ", text, flags=re.MULTILINE)[0]


def named(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), importlib.import_module(f"{PACKAGE}.{module}"))


@pytest.mark.parametrize(("page", "least"), [("docs/explanation/architecture.md", 60), ("CONTRIBUTING.md", 23)])
def test_everything_that_a_page_names_is_there(page, least):
    names = _NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(names) > least
    for module, name in names:
        result = named(module, name)
        location = getattr(inspect.unwrap(result) if inspect.isfunction(result) else result, "__module__", "")
        assert location in ("", f"{PACKAGE}.{module}"), f"{name} is in {location}"  # "" is that of a constant


@pytest.mark.parametrize("page", ["docs/explanation/architecture.md", "CONTRIBUTING.md"])
def test_every_constant_and_file_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text)) - {"utils.py", "helpers.py", "common.py"}
    assert [name for name in files if not any((top / name).is_file() for top in (ROOT, SOURCE))] == []
    for constant, file in re.findall(r"`(_?[A-Z][A-Z_]+)` (?:in|of)\s`(\w+(?:/\w+)*)\.py`", text):
        assert hasattr(importlib.import_module(f"{PACKAGE}.{file.replace('/', '.')}"), constant), constant


def test_each_question_has_an_answer_that_leads_to_the_file():
    rows = [line for line in section("Where is ...?").splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 27
    for row in rows:
        links = _LINKED.findall(row)
        assert links, row
        for module, target in links:
            path = (ROOT / "docs" / "explanation" / target).resolve()
            assert path == SOURCE / f"{module.replace('.', '/')}.py"
            assert path.is_file()


def paragraph(title: str) -> str:
    (result,) = re.findall(rf"^{re.escape(title)}(?:.+\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return result


def calls_of(action: Callable[[], Any], *, until: str = "") -> list[tuple[str, str]]:
    """Return the functions of the package that are called in this thread, as ``(module, name)``, in order.

    The call of a function ``until`` writes them as JSON, and this process is killed.
    """
    result: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(f"{PACKAGE}."):
            result.append((module.removeprefix(f"{PACKAGE}."), frame.f_code.co_qualname))
            if ":".join(result[-1]) == until:
                os.write(sys.stdout.fileno(), json.dumps(result).encode())
                os.kill(os.getpid(), signal.SIGKILL)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return result


def code_name(module: str, name: str) -> tuple[str, str]:
    """Return what a call of ``module:name`` is known by; a class is called by its ``__init__``."""
    result = named(module, name)
    return module, f"{name}.__init__" if inspect.isclass(result) else inspect.unwrap(result).__qualname__


def session_file(data: Any) -> NWBFile:
    nwbfile = NWBFile("walk", "walk", datetime(2026, 1, 1, tzinfo=UTC))
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


def append_object(place: Path) -> None:
    with NWBZarrIO(place, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0, 2.0], unit="V", rate=1.0))
        io.write(nwbfile)


DATA = np.arange(400_000, dtype="f4")


def test_a_write_and_a_read_walk_as_the_page_says(tmp_path):
    assert_operation(calls_of(lambda: write(tmp_path / "a.nwb.zarr", DATA)), "Write an array")
    write(tmp_path / "b.nwb.zarr", ZarrDataIO(DATA, chunks=(1000,), compressor="zstd"))
    assert_operation(calls_of(lambda: read_slice(tmp_path / "b.nwb.zarr")), "Read a slice")


def test_a_slice_of_a_large_blosc_chunk_is_read_in_blocks(tmp_path):
    write(tmp_path / "a.nwb.zarr", np.arange(2**18, dtype="f8"))
    calls = calls_of(lambda: read_slice(tmp_path / "a.nwb.zarr"))
    names = _NAMED.findall(paragraph("In a Blosc chunk"))
    assert len(names) == 2
    assert_called(calls, names)


def test_a_conversion_walks_as_the_page_says(tmp_path):
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(session_file(H5DataIO(DATA, compression="gzip", chunks=(100_000,))))
    options = WriteOptions(executor=None)
    calls = calls_of(lambda: convert(tmp_path / "a.nwb", tmp_path / "a.nwb.zarr", write_options=options))
    assert_operation(calls, "Convert a gzip dataset")


def test_an_append_walks_as_the_page_says(tmp_path):
    write(tmp_path / "a.nwb.zarr", DATA)
    others = (
        "hdmf.files:write_difference", "hdmf.planner:AppendPlanner", "write.writer:PlanWriter.write_changes",
    )  # fmt: skip
    assert_operation(calls_of(lambda: append_row(tmp_path / "a.nwb.zarr")), "Append a row", *others)
    calls = calls_of(lambda: append_object(tmp_path / "a.nwb.zarr"))
    names = [name for name in _NAMED.findall(paragraph("**Append a row**")) if ":".join(name) in others]
    assert len(names) == len(others)
    assert_called(calls, names)


def assert_operation(calls: list[tuple[str, str]], title: str, *others: str) -> None:
    """Compare the calls with an operation of the page, but for what is called for ``others``."""
    names = [
        (module, name) for module, name in _NAMED.findall(paragraph(f"**{title}**")) if f"{module}:{name}" not in others
    ]
    assert len(names) > 10
    assert_called(calls, names)


def assert_called(calls: list[tuple[str, str]], names: list[tuple[str, str]]) -> None:
    """Compare calls with names: each function is called after the one that is named before it."""
    rest = iter(calls)
    for module, name in names:
        assert code_name(module, name) in rest, f"{module}:{name} is not called, or not in this place"


# ---- the five walks ------------------------------------------------------------------------------------------------
def the_codec_of_text(folder: Path) -> list[tuple[str, str]]:
    calls = calls_of(lambda: write_builder(folder / "a.zarr", root(dataset("text", ["a", "ä"])), zarr_format=3))
    codecs = json.loads((folder / "a.zarr" / "text" / "zarr.json").read_text())["codecs"]
    assert [codec["name"] for codec in codecs] == ["vlen-utf8", "blosc"]
    return calls


def write_rows(place: Path, text: str) -> None:
    fields = [{"name": "text", "dtype": "utf8"}, {"name": "count", "dtype": "int32"}]
    write_builder(place, root(dataset("rows", [(text, 1)], fields)), zarr_format=3)


def append_to_rows(place: Path, text: str) -> None:
    with ZarrIO(place, "r+") as io:
        io.read_builder().datasets["rows"].data.append((text, 2))


def width(place: Path) -> int:
    (field, _) = json.loads((place / "rows" / "zarr.json").read_text())["data_type"]["configuration"]["fields"]
    return int(field["data_type"]["configuration"]["length_bytes"]) // 4


def the_width_of_text(folder: Path) -> list[tuple[str, str]]:
    location = folder / "a.zarr"
    calls = calls_of(lambda: write_rows(location, "a"))
    assert width(location) == 512
    calls += calls_of(lambda: append_to_rows(location, 600 * "a"))
    assert width(location) == 1024
    write_rows(location, 600 * "a")
    assert width(location) == 600
    return calls


def read_linked(place: Path) -> None:
    with NWBZarrIO(place, "r") as io:
        np.testing.assert_array_equal(io.read().acquisition["linked"].data[:3], DATA[:3])


def where_a_link_leads(folder: Path) -> list[tuple[str, str]]:
    write(folder / "a.nwb.zarr", DATA)
    with NWBZarrIO(folder / "a.nwb.zarr", "r") as source, NWBZarrIO(folder / "b.nwb.zarr", "w") as io:
        nwbfile, data = session_file(DATA), source.read().acquisition["raw"].data
        nwbfile.add_acquisition(TimeSeries(name="linked", data=data, unit="V", rate=1.0))
        io.write(nwbfile, link_data=True)
    return calls_of(lambda: read_linked(folder / "b.nwb.zarr"))


def killed(action: Callable[..., None], until: str, *arguments: str) -> list[tuple[str, str]]:
    call = f"{action.__name__}({', '.join(arguments)})"
    program = f"from tests.test_docs_architecture import *\ncalls_of(lambda: {call}, until={until!r})"
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == -signal.SIGKILL, answer.stderr
    return [(module, name) for module, name in json.loads(answer.stdout)]


def what_a_killed_process_leaves(folder: Path) -> list[tuple[str, str]]:
    location = folder / "a.nwb.zarr"
    calls = killed(write, "store.files:move_into_place", f"Path({str(location)!r})", "DATA")
    (partial,) = folder.glob(".a.nwb.zarr.*.partial")
    assert not location.exists()
    write(location, DATA)
    assert not partial.exists()
    before = stored_files(location)
    calls += killed(append_row, "store.transaction:JournalledChange._commit", f"Path({str(location)!r})")
    assert JOURNAL in stored_files(location)
    with pytest.warns(JournalWarning, match="undone"):
        calls += calls_of(lambda: NWBZarrIO(location, "r+").close())
    assert stored_files(location) == before
    return calls


def where_a_write_option_goes(folder: Path) -> list[tuple[str, str]]:
    with NWBHDF5IO(folder / "a.nwb", "w") as io:
        io.write(session_file(DATA))
    calls: list[tuple[str, str]] = []
    for name in "bc":
        arguments = ["convert", str(folder / "a.nwb"), str(folder / f"{name}.nwb.zarr"), "--strict-json"]
        calls += calls_of(lambda arguments=arguments: main(arguments))
        calls += calls_of(lambda name=name: write(folder / f"{name}.zarr", DATA))
    return calls


WALKS = {
    "The codec of new text": the_codec_of_text,
    "The width of text in rows of format 3": the_width_of_text,
    "Where a link leads": where_a_link_leads,
    "What a killed process leaves": what_a_killed_process_leaves,
    "Adding a write option": where_a_write_option_goes,
}
"""Title on the page -> a function that does what the walk is about in a folder, and returns the calls."""

_LOOK = re.compile(r"^\d\. `([\w/]+)\.py`: (.+\n(?:   .+\n)*)", re.MULTILINE)


def test_the_five_walks_are_traced():
    assert re.findall(r"^### (.+)$", section("Five walks"), re.MULTILINE) == list(WALKS)


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_is_two_looks_at_functions_that_are_called_in_this_order(tmp_path, title):
    looks = _LOOK.findall(section(title))
    assert len(looks) == 2
    for file, text in looks:
        assert {module for module, _ in _NAMED.findall(text)} == {file.replace("/", ".")}  # one file is one look
    # in a process of its own, because what this one has encoded before is not encoded again
    program = "import sys, json\nfrom tests.test_docs_architecture import *\n"
    program += "print(json.dumps(WALKS[sys.argv[1]](Path(sys.argv[2]))))"
    answer = subprocess.run(
        [sys.executable, "-c", program, title, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    calls = [(module, name) for module, name in json.loads(answer.stdout.splitlines()[-1])]
    assert_called(calls, _NAMED.findall(section(title)))


def test_the_pages_for_contributors_are_short():
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("\n") <= 250
    assert page.count("![") == 1
    assert (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").count("\n") <= 150
