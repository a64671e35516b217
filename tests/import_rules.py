"""Who may import whom, as data, and the check of a source tree against it.

A *package* here is a sub-package or a module directly below ``hdmf_zarr_backend``. What a table does not list is
forbidden: a package that is not in `PACKAGES` is a finding, as is a third-party library that is not in `LIBRARIES`.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

PACKAGE = "hdmf_zarr_backend"

#: package -> the packages that it may import, besides itself, `errors`, `extras` and `options`. ``__init__`` is the
#: public face.
PACKAGES: dict[str, frozenset[str]] = {
    package: frozenset(allowed.split())
    for package, allowed in {
        "__init__": "alias io nwb reading hdmf conversion upgrading dryrun reporting check comparison zom interop "
        "encoding array store progress",
        "__main__": "cli",
        "cli": "__init__ conversion upgrading dryrun outline reporting check comparison zom interop io encoding store "
        "model progress",
        "reporting": "outline from_hdf5 comparison check hdf5 array write encoding store model",
        "outline": "encoding store model",
        "dryrun": "outline conversion from_hdf5 io hdmf hdf5 write encoding store model",
        "conversion": "virtual from_hdf5 check hdmf hdf5 write encoding store model progress",
        "reading": "virtual nwb hdmf hdf5 encoding store model",
        "virtual": "from_hdf5 hdf5 write encoding store model progress",
        "upgrading": "check hdmf write array encoding store model progress",
        "from_hdf5": "nwb hdmf hdf5 write encoding store model",
        "check": "from_hdf5 comparison hdf5 hdmf write array encoding store model progress",
        "comparison": "hdf5 array encoding store model",
        "alias": "io nwb hdmf hdf5 array encoding store model",
        "zom": "write encoding store model",
        "nwb": "io hdmf encoding store model progress",
        "io": "outline interop hdmf write array encoding store model progress",
        "interop": "array encoding store model",
        "hdmf": "hdf5 write array encoding store model progress",
        "hdf5": "write array encoding store model",
        "write": "array encoding store model progress",
        "array": "encoding store model",
        "encoding": "store model",
        "store": "model",
        "model": "",
        "options": "progress",
        "progress": "",
        "errors": "",
        "extras": "",
    }.items()
}


_CONTRACTS = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
#: The floors of the house, from the top: a package imports what is below it, or beside it and never in a circle.
FLOORS: tuple[tuple[str, ...], ...] = tuple(
    tuple(name.strip(" ()") for name in layer.split(":"))
    for contract in _CONTRACTS["tool"]["importlinter"]["contracts"]
    for layer in contract.get("layers", ())
)


class Library(NamedTuple):
    """Where a third-party library may be imported."""

    places: frozenset[str]
    """Packages (``"store"``) or single modules (``"write/sources"``)."""
    on_use: bool = False
    """Only inside functions, or under TYPE_CHECKING: it is optional, or slow to start."""


def _in(*places: str) -> Library:
    return Library(frozenset(places))


def _on_use_in(*places: str) -> Library:
    return Library(frozenset(places), on_use=True)


#: Know the standard library only; the command line must start fast.
_PURE = frozenset({"errors", "extras", "options", "progress", "cli", "__init__", "__main__"})

LIBRARIES: dict[str, Library] = {
    "numpy": Library(frozenset(PACKAGES) - _PURE),
    "hdmf": Library(frozenset(PACKAGES) - _PURE - {"model", "encoding", "store", "array", "write"}),
    "numcodecs": _in("alias/names", "hdmf", "encoding", "hdf5", "nwb", "array", "write"),
    "zarr": _in("store/zarr_python", "array", "alias/names"),
    "filelock": _in("store/lock"),
    "google_crc32c": _in("encoding/chunk_codec"),
    "orjson": _in("model/json_text"),
    "pynwb": _in("nwb", "reading", "from_hdf5", "check/validate"),
    "h5py": _in("hdf5", "from_hdf5", "encoding"),
    "hdf5plugin": _on_use_in("hdf5"),
    "dask": _on_use_in("interop"),
    "distributed": _on_use_in("write/tasks"),
    "xarray": _in("interop/labelled", "interop/netcdf"),
    "fsspec": _on_use_in("store/clouds", "store/web"),
    "dandifs": _on_use_in("store/clouds"),
    "obstore": _on_use_in("store/clouds"),
    "aiohttp": _on_use_in("store/clouds", "store/web"),
    "yarl": _on_use_in("store/web"),
    "icechunk": _on_use_in("store/zarr_python"),
    "pydantic": _on_use_in("zom"),
    "pydantic_zarr": _on_use_in("zom"),
    "tqdm": _on_use_in("progress"),
    "shtab": _on_use_in("cli/main"),
}


class Import(NamedTuple):
    """One import of `target` (a dotted name) at a line of a module."""

    target: str
    line: int
    at_start: bool


def find_violations(source: Path) -> list[str]:
    """Return a line, ``path:line: text``, for each import below the folder of the package that no table allows."""
    findings = []
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).with_suffix("").as_posix()
        package = module.split("/", 1)[0]
        where = path.relative_to(source).as_posix()
        if package not in PACKAGES:
            findings.append(f"{where}:1: package {package!r} is not in the table PACKAGES")
            continue
        for entry in _imports(ast.parse(path.read_text(encoding="utf-8")), module, at_start=True):
            problem = _problem_with(entry, package, module)
            if problem is not None:
                findings.append(f"{where}:{entry.line}: {problem}")
    return findings


def imports_of_modules(source: Path) -> dict[str, set[str]]:
    """Return the modules of the package that each of its modules imports, on use and for types too."""
    paths = {path.relative_to(source).with_suffix("").as_posix(): path for path in source.rglob("*.py")}
    named = {".".join([PACKAGE, *module.split("/")]).removesuffix(".__init__"): module for module in paths}
    imported = {}
    for module, path in paths.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = [entry.target for entry in _imports(tree, module, at_start=True)]
        # `from a import b` takes the module `a.b` if there is one, else a name of the module `a`
        others = {named.get(target) or named.get(target.rpartition(".")[0]) for target in targets}
        imported[module] = {other for other in others if other not in (None, module)}
    return imported


def find_circle(source: Path) -> list[str]:
    """Return the modules of a circle of imports; an empty list if there is none."""
    try:
        TopologicalSorter(imports_of_modules(source)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _problem_with(found: Import, package: str, module: str) -> str | None:
    top, _, rest = found.target.partition(".")
    if top == PACKAGE:
        target = rest.split(".", 1)[0] or "__init__"
        # `from hdmf_zarr_backend import X` with an X that is not a package takes X from the public face.
        target = target if target in PACKAGES else "__init__"
        allowed = PACKAGES[package] | {package, "errors", "extras", "options"}
        return None if target in allowed else f"{package} may not import {target} ({found.target})"
    if top in sys.stdlib_module_names:
        return None
    library = LIBRARIES.get(top)
    if library is None:
        return f"{top} is not in the table LIBRARIES"
    if package not in library.places and module not in library.places:
        return f"{module} may not import {top}, only {', '.join(sorted(library.places))} may"
    if library.on_use and found.at_start:
        return f"{top} must be imported on use, inside a function"
    return None


def _imports(node: ast.AST, module: str, *, at_start: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, at_start)
    elif isinstance(node, ast.ImportFrom):
        # a relative name is resolved from the place of the module below the package
        above = [PACKAGE, *module.split("/")][: -node.level] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            yield Import(f"{base}.{alias.name}", node.lineno, at_start)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
            yield Import(name.value, node.lineno, at_start)
    is_for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    is_later = is_for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, module, at_start=at_start and not is_later)
