"""The table and the picture of the architecture page, made from the code, and the drawing of the first page.

``python docs/_scripts/architecture.py`` rewrites them; ``tests/test_docs_architecture.py`` compares the page with them.
The table of imports is that of ``tests/import_rules.py``, with which the tests compare every import.
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
HDF5_AND_ZARR = ROOT / "docs" / "explanation" / "hdf5-and-zarr.svg"
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
    """Return the first line of the docstring of a module."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n", 1)[0].replace("``", "`")


def package_path(package: str) -> Path:
    """Return the file whose docstring describes a package."""
    path = SOURCE / f"{package}.py"
    return path if path.is_file() else SOURCE / package / "__init__.py"


def packages_table(packages: Mapping[str, frozenset[str]]) -> str:
    """Return the table of the packages, with what each may import."""
    rows = []
    for package, allowed in packages.items():
        named = [other for other in packages if other in allowed]
        rows.append((f"`{package}`", job(package_path(package)), code_list(named) or "-"))
    return table(["package", "what it provides", "may import"], rows)


def files() -> dict[Path, str]:
    """Return ``{path: text}`` of the page and the drawings as they should be."""
    texts = {"packages": packages_table(import_rules().PACKAGES)}
    return {
        PAGE: with_parts(PAGE.read_text(encoding="utf-8"), texts),
        DATA_FLOW: pictures.data_flow(),
        HDF5_AND_ZARR: pictures.hdf5_and_zarr(),
    }


def main() -> None:
    """Rewrite what is generated on the page, and the picture."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
