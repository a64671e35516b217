"""Runs other readers on the test vectors: ``python -m tests.vectors`` writes what each could read.

`PEERS` and `HERE` name the environments. `SCRIPT` runs in them without this package, and zarrita in node. The
results are kept in ``docs/format/vectors/results.json``, from which ``docs/_scripts/vectors.py`` makes a page.
"""

import json
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.javascript import READ_WITH_ZARRITA, RELEASE, run_node, zarrita_folder
from tests.peers import RECIPES, Peer, obtain_peer

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "format" / "vectors"

SCRIPT = r"""
import base64, json, math, os, posixpath, sys, warnings
from pathlib import Path
import numpy as np
warnings.simplefilter("ignore")
reader, folder = sys.argv[1:]

def plain(value):
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "mM":
            return plain(list(value) if value.ndim else value[()])
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode() if value.isascii() else {"base64": base64.b64encode(value).decode()}
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, np.timedelta64):
        return int(value.astype("i8"))
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

def same(found, stated):
    return plain(found) == stated or (stated != [] and plain(found) == [stated])

def datasets(group, path=""):
    for name, each in group["datasets"].items():
        yield path + name, each
    for name, each in group["groups"].items():
        yield from datasets(each, path + name + "/")

def groups(group, path=""):
    yield path.rstrip("/"), group
    for name, each in group["groups"].items():
        yield from groups(each, path + name + "/")

def arrays_are_same(statement, read):
    return all(same(read(path), each["values"]) for path, each in datasets(statement["root"]))

def with_zarr(path, statement):
    import zarr
    root = zarr.open_group(str(path), mode="r")
    read = lambda name: root[name][...]
    if "error" in statement:
        return refuses(lambda: read(statement["error"]["path"].strip("/")))
    for place, group in groups(statement["root"]):
        found = dict((root[place] if place else root).attrs)
        if any(plain(found.get(name)) != value for name, value in group["attributes"].items()):
            return False
    return arrays_are_same(statement, read)

def with_tensorstore(path, statement):
    import tensorstore
    driver = "zarr3" if (path / "zarr.json").exists() and not (path / ".zgroup").exists() else "zarr"
    def read(name):
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path / name) + "/"}}
        return tensorstore.open(spec, read=True).result().read().result()
    if "error" in statement:
        return refuses(lambda: read(statement["error"]["path"].strip("/")))
    return arrays_are_same(statement, read)

def path_of(builder):
    names = []
    while builder.parent is not None:
        names.append(builder.name)
        builder = builder.parent
    return "/" + "/".join(reversed(names))

def place_of(builder):
    source = os.path.basename(str(builder.source).rstrip("/"))
    if source == OPEN[0]:
        return {"path": path_of(builder)}
    place = path_of(builder) if builder.parent is not None else posixpath.join(builder.location or "/", builder.name)
    return {"source": "../" + source, "path": place}

def linked_to(builder):
    place = place_of(builder)
    return place if "source" in place else place["path"]

def value_of(value):
    from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
    if isinstance(value, (GroupBuilder, DatasetBuilder)):
        return place_of(value)
    if isinstance(value, ReferenceBuilder):
        return place_of(value.builder)
    if isinstance(value, np.void) and value.dtype.names:
        return [value_of(value[name]) for name in value.dtype.names]
    if isinstance(value, np.ndarray) and (value.dtype.names or value.dtype == object):
        return [value_of(each) for each in value] if value.ndim else value_of(value[()])
    if isinstance(value, (list, tuple)):
        return [value_of(each) for each in value]
    return plain(value)

OPEN = [None]

def with_hdmf_zarr(path, statement):
    OPEN[0] = path.name
    from hdmf.build import BuildManager, TypeMap
    from hdmf.spec import NamespaceCatalog
    from hdmf_zarr import ZarrIO
    with ZarrIO(str(path), mode="r", manager=BuildManager(TypeMap(NamespaceCatalog()))) as io:
        root = io.read_builder()
        if "error" in statement:
            name = statement["error"]["path"].strip("/")
            is_read = not refuses(lambda: np.asarray(root[name].data[:]))
            return not is_read and (name == "data" or group_is_same(root, statement["root"]))
        if not group_is_same(root, statement["root"]):
            return False
    stated = statement.get("specifications", {})
    return not stated or set(ZarrIO.load_namespaces(NamespaceCatalog(), path=str(path))) == set(stated)

def group_is_same(builder, stated):
    if set(builder.groups) != set(stated["groups"]) or set(builder.datasets) != set(stated["datasets"]):
        return False
    if {name: linked_to(link.builder) for name, link in builder.links.items()} != stated["links"]:
        return False
    attributes = {name: value_of(value) for name, value in builder.attributes.items()}
    if any(attributes.get(name) != value for name, value in stated["attributes"].items()):
        return False
    for name, each in stated["datasets"].items():
        data = builder.datasets[name].data
        values = value_of(data[:] if getattr(data, "shape", ()) else data[()] if hasattr(data, "shape") else data)
        if not same(values, each["values"]):
            return False
    return all(group_is_same(builder.groups[name], each) for name, each in stated["groups"].items())

def refuses(read):
    try:
        read()
    except Exception:
        return True
    return False

READ = {"zarr": with_zarr, "tensorstore": with_tensorstore, "hdmf-zarr": with_hdmf_zarr}[reader]
results = {}
for path in sorted(Path(folder).glob("*/*.zarr")):
    statement = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    try:
        found = READ(path, statement)
    except Exception:
        found = "error" in statement
    results[f"{path.parent.name}/{path.stem}"] = bool(found)
print(json.dumps(results))
"""
"""Prints ``{vector: whether it was read as stated, or refused where it is broken}``."""

PEERS = {"hdmf-zarr 0.13": ("hdmf-zarr", "0.13"), "hdmf-zarr 0.14": ("hdmf-zarr", "0.14")}
"""Readers with an environment of `tests.peers`."""

HERE = {"zarr-python": "zarr", "TensorStore": "tensorstore"}
"""Readers of the environment of this process."""


def unpack(folder: Path) -> Path:
    for path in FOLDER.glob("format-*/*.zarr.zip"):
        location = folder / path.parent.name
        with zipfile.ZipFile(path) as source:
            source.extractall(location / path.name.removesuffix(".zip"))
        statement = path.name.removesuffix(".zarr.zip") + ".json"
        (location / statement).write_bytes((path.parent / statement).read_bytes())
    return folder


def read_with(name: str, folder: Path) -> dict[str, bool]:
    if name == "zarrita":
        return _read_with_zarrita(folder)
    if name in PEERS:
        reader, release = PEERS[name]
        unsafe = {"NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"} if release == "0.13" else None
        result: dict[str, bool] = obtain_peer(RECIPES[release]).run(SCRIPT, reader, folder, env=unsafe)
        return result
    here: dict[str, bool] = Peer(name, Path(sys.executable)).run(SCRIPT, HERE[name], folder)
    return here


def _read_with_zarrita(folder: Path) -> dict[str, bool]:
    statements = {
        f"{path.parent.name}/{path.stem}": json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("format-*/*.json"))
    }
    told, stated = [], {}
    for location, statement in statements.items():
        root = folder / f"{location}.zarr"
        stated[location] = _stated(statement)
        told.append([location, 2 if (root / ".zgroup").exists() else 3, str(root), list(stated[location]), False])
    with tempfile.TemporaryDirectory() as location:
        reported = run_node(READ_WITH_ZARRITA, Path(location), told=told, modules=zarrita_folder())
    return {
        location: all(_is_same(reported[location]["arrays"].get(name), each) for name, each in stated[location].items())
        for location in statements
    }


def _is_same(found: Any, stated: dict[str, Any] | None) -> bool:
    """Tell whether JavaScript has read the stated values; a scalar may have one axis, and large integers are text."""
    if found is None or stated is None:  # that it is refused is stated by None
        return found is stated
    if found["shape"] != (stated["shape"] or found["shape"]):
        return False
    values = stated["values"] if stated["shape"] else [stated["values"]]
    for _ in stated["shape"][1:]:
        values = [each for part in values for each in part]
    return len(values) == len(found["values"]) and all(
        one == other or str(one) == other for one, other in zip(values, found["values"], strict=True)
    )


def _stated(statement: dict[str, Any]) -> dict[str, dict[str, Any] | None]:
    """Return what is stated of each array; None of the one that is to be refused, which then is the only one."""
    return {statement["error"]["path"].strip("/"): None} if "error" in statement else dict(_datasets(statement["root"]))


def _datasets(group: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    result = [(path + name, each) for name, each in group["datasets"].items()]
    for name, each in group["groups"].items():
        result += _datasets(each, f"{path}{name}/")
    return result


def label(name: str) -> str:
    if name == "zarrita":
        return f"zarrita {RELEASE}"
    return f"{name} {version(HERE[name])}" if name in HERE else name


def main() -> None:
    """Run all readers, and keep what other environments have found (zarr-python 2 has one of its own)."""
    results = FOLDER / "results.json"
    known = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        unpacked = unpack(Path(folder))
        readers = (*HERE, *PEERS, "zarrita") if "--here" not in sys.argv else tuple(HERE)
        for name in readers:
            known[label(name)] = {location: int(is_read) for location, is_read in read_with(name, unpacked).items()}
    text = json.dumps(dict(sorted(known.items())), indent=0, sort_keys=True)
    results.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
