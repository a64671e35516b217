"""The architecture page shows the package as it is: rooms, imports, modules, pictures.

After a module has come or gone: ``python docs/_scripts/architecture.py``, and read what it has changed.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.import_rules import LIBRARIES, ROOMS

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "docs" / "_scripts"
SOURCE = ROOT / "src" / "hdmf_zarr_backend"
REPAIR = "run: python docs/_scripts/architecture.py"

_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module("architecture")


@pytest.fixture(scope="module")
def parts(script: ModuleType) -> dict[str, str]:
    """The generated parts of the page as it stands."""
    found: dict[str, str] = importlib.import_module("generated").parts(script.PAGE.read_text(encoding="utf-8"))
    return found


def test_page_and_pictures_are_as_the_script_makes_them(script):
    for path, text in script.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {REPAIR}"


def test_every_room_is_on_the_page_with_what_it_may_import(parts):
    shown = {room for room in ROOMS if (SOURCE / room).is_dir() or (SOURCE / f"{room}.py").is_file()}
    assert set(_CELL.findall(parts["rooms"])) == shown
    for line in parts["rooms"].splitlines()[2:]:
        room, _, allowed = (cell.strip() for cell in line.strip("|").split(" | "))
        assert set(re.findall(r"`(\w+)`", allowed)) == ROOMS[room.strip("`")] & shown, room
    assert set(re.findall(r"`(\w+)`", parts["reserved-rooms"])) == set(ROOMS) - shown


def test_every_library_and_module_is_on_the_page(parts):
    assert _CELL.findall(parts["libraries"]) == list(LIBRARIES)
    modules = {p.relative_to(SOURCE).with_suffix("").as_posix() for p in SOURCE.glob("*/*.py")}
    assert set(_CELL.findall(parts["modules"])) == {name for name in modules if not name.endswith("/__init__")}


def test_what_the_picture_of_the_data_flow_names_is_there(script):
    named = importlib.import_module("pictures")
    formats = [f"formats/{name}" for name in named.FORMATS]
    modules = [*named.WRITE_STEPS, *named.READ_STEPS, *named.WRITE_VALUES, *named.READ_VALUES, *formats]
    missing = [name for name in modules if not name.startswith("hdmf: ") and not (SOURCE / f"{name}.py").is_file()]
    assert missing == []


def test_layers_go_down_only(script):
    """A room stands above all that it may import."""
    levels = importlib.import_module("pictures").levels(ROOMS)
    height = {room: number for number, level in enumerate(levels) for room in level}
    assert set(height) == set(ROOMS)
    assert all(height[other] < height[room] for room, allowed in ROOMS.items() for other in allowed)


def test_pictures_are_well_formed_and_keep_their_words_inside(script):
    for text in (script.DATA_FLOW.read_text("utf-8"), script.LAYERS.read_text("utf-8")):
        picture = ElementTree.fromstring(text)  # noqa: S314 - our own file
        width, height = (float(picture.attrib[side]) for side in ("width", "height"))
        placed = [element.attrib for element in picture.iter() if "x" in element.attrib and "y" in element.attrib]
        places = [(float(attributes["x"]), float(attributes["y"])) for attributes in placed]
        assert len(places) > 15
        assert all(0 <= x < width and 0 <= y < height for x, y in places)


NAMED = re.compile(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)*):([A-Za-z_0-9.]+)`")


@pytest.mark.parametrize(
    ("module", "name"), sorted(set(NAMED.findall((ROOT / "docs/explanation/architecture.md").read_text("utf-8"))))
)
def test_what_the_walks_and_answers_name_is_there(module: str, name: str) -> None:
    found: object = importlib.import_module(f"hdmf_zarr_backend.{module}")
    for part in name.split("."):
        found = getattr(found, part)


def test_each_of_the_twelve_questions_has_an_answer() -> None:
    text = (ROOT / "docs/explanation/architecture.md").read_text("utf-8")
    rows = [line for line in text.split("% answers")[1].split("% end answers")[0].splitlines() if "?" in line]
    assert len(rows) == 12
    assert all(NAMED.search(row) for row in rows)
