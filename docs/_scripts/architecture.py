"""The tables and pictures of the architecture page: taken from the code, put onto the page by this.

``python docs/_scripts/architecture.py`` rewrites them; ``tests/test_docs_architecture.py`` holds the page to them. The
import table is that of ``tests/import_rules.py``, by which the test run judges every import.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pictures
from generated import ROOT, code_list, table, with_parts

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
DATA_FLOW = ROOT / "docs" / "explanation" / "data-flow.svg"
LAYERS = ROOT / "docs" / "explanation" / "rooms.svg"
SOURCE = ROOT / "src" / "hdmf_zarr_backend"


def import_rules() -> ModuleType:
    """Return ``tests/import_rules.py`` as a module, whatever the working directory."""
    path = ROOT / "tests" / "import_rules.py"
    spec = importlib.util.spec_from_file_location("import_rules", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def job(path: Path) -> str:
    """Return what a module says of itself in the first line of its docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n", 1)[0].replace("``", "`")


def room_path(room: str) -> Path | None:
    """Return the file that speaks for a room, None where there is none yet."""
    for path in (SOURCE / f"{room}.py", SOURCE / room / "__init__.py"):
        if path.is_file():
            return path
    return None


def rooms_table(rooms: Mapping[str, frozenset[str]]) -> str:
    """Return the table of the rooms that are there, with what each may import."""
    rows = []
    for room, allowed in rooms.items():
        path = room_path(room)
        if path is not None:
            named = [other for other in rooms if other in allowed and room_path(other) is not None]
            rows.append((f"`{room}`", job(path), code_list(named) or "-"))
    return table(["room", "job", "may import"], rows)


def reserved_rooms(rooms: Mapping[str, frozenset[str]]) -> str:
    """Return the rooms that have a place in the table and are not there yet."""
    missing = [room for room in rooms if room_path(room) is None]
    return f"Not built yet, with a place in the table: {code_list(missing)}." if missing else "All are built."


def libraries_table(rules: ModuleType) -> str:
    """Return where each third-party library may be imported."""
    rows = []
    for name, library in rules.LIBRARIES.items():
        left_out = [room for room in rules.ROOMS if room not in library.places]
        places = code_list(sorted(library.places))
        if len(library.places) > len(left_out):
            places = f"everywhere but in {code_list(left_out)}"
        rows.append((f"`{name}`", places, "inside functions only" if library.on_use else "at the top"))
    return table(["library", "where", "how"], rows)


def modules_table() -> str:
    """Return the modules of all rooms that are packages."""
    paths = sorted(path for path in SOURCE.glob("*/*.py") if path.name != "__init__.py")
    rows = [(f"`{path.relative_to(SOURCE).with_suffix('').as_posix()}`", job(path)) for path in paths]
    return table(["module", "job"], rows)


def files() -> dict[Path, str]:
    """Return ``{path: text}`` of the page and the pictures as they should be."""
    rules = import_rules()
    there = {room: allowed for room, allowed in rules.ROOMS.items() if room_path(room) is not None}
    texts = {
        "rooms": rooms_table(rules.ROOMS),
        "reserved-rooms": reserved_rooms(rules.ROOMS),
        "libraries": libraries_table(rules),
        "modules": modules_table(),
    }
    return {
        PAGE: with_parts(PAGE.read_text(encoding="utf-8"), texts),
        DATA_FLOW: pictures.data_flow(),
        LAYERS: pictures.layers(there),
    }


def main() -> None:
    """Rewrite what is generated on the page, and the pictures."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
