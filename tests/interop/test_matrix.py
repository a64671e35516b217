"""Who reads how many arrays of one rich file, in each format; every gap has its reason here.

``pytest -s`` prints the table. zarrita takes part where ``HDMF_ZARR_BACKEND_ZARRITA`` names a folder in which
``npm install zarrita`` was run, and node is on the path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.interop.tensorstore import tensorstore_spec
from hdmf_zarr_backend.model.nodes import ArrayNode
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.storage.arrays import LazyArray
from hdmf_zarr_backend.storage.chunks import ChunkCache
from hdmf_zarr_backend.storage.keys import LocalKeys
from tests import samples
from tests.interop.conftest import ask
from tests.interop.test_nczarr import netcdf

Arrays = dict[str, LazyArray]
Found = dict[str, Any]


@pytest.fixture(scope="module", params=[2, 3], ids=["format2", "format3"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path, Arrays]:
    path = tmp_path_factory.mktemp("matrix") / "rich.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=request.param) as io:
        io.write(samples.rich_nwbfile(), nczarr=request.param == 2)
    keys = LocalKeys(str(path))
    parsed = parse(keys)
    nodes = parsed.hierarchy.walk()
    cache = ChunkCache()
    arrays = {place: LazyArray(keys, place, node, cache) for place, node in nodes if isinstance(node, ArrayNode)}
    assert len(arrays) > 100
    return request.param, path, arrays


# ---- the readers: paths of the arrays that each has read, with the values where they can be compared -----------------


def read_by_zarr(path: Path, arrays: Arrays) -> Found:
    import zarr

    found: Found = {}
    for place in arrays:
        try:
            found[place] = zarr.open_array(path, path=place, mode="r")[...]
        except (ValueError, TypeError, KeyError):
            continue
    return found


def read_by_xarray(path: Path, arrays: Arrays) -> Found:
    xarray = pytest.importorskip("xarray")
    found: Found = {}
    for group in {place.rpartition("/")[0] for place in arrays}:
        try:
            with xarray.open_zarr(path, group=group or None, chunks=None, consolidated=False) as data:
                for name, values in data.variables.items():
                    found[f"{group}/{name}".strip("/")] = values.values
        except (ValueError, TypeError, KeyError):
            continue
    return found


def read_by_pydantic_zarr(path: Path, arrays: Arrays) -> Found:
    pytest.importorskip("pydantic_zarr")
    import zarr
    from pydantic_zarr.v2 import ArraySpec as ArraySpec2
    from pydantic_zarr.v3 import ArraySpec as ArraySpec3

    made = ArraySpec2 if (path / ".zgroup").exists() else ArraySpec3
    found: Found = {}
    for place in arrays:
        try:
            made.from_zarr(zarr.open_array(path, path=place, mode="r"))
        except (ValueError, TypeError, KeyError):
            continue
        found[place] = None
    return found


def read_by_tensorstore(path: Path, arrays: Arrays) -> Found:
    ts = pytest.importorskip("tensorstore")
    found: Found = {}
    for place, data in arrays.items():
        try:
            specs = {name: tensorstore_spec(data, name) for name in data.dtype.names or (None,)}
        except UsageError:
            continue
        read = {name: ts.open(spec, open=True).result().read().result() for name, spec in specs.items()}
        if data.dtype.names is None:
            found[place] = read[None]
        else:
            for name, values in read.items():
                np.testing.assert_array_equal(values.reshape(data.shape), data[name])
            found[place] = None
    return found


def read_by_netcdf(path: Path, arrays: Arrays) -> Found:
    pytest.importorskip("netCDF4")
    told = netcdf(path)["arrays"]
    return {place.strip("/"): np.array(array["values"], array["dtype"]) for place, array in told.items()}


_ZARRITA = """
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";
import fs from "node:fs";
const [root, format] = process.argv.slice(2);
const open = format === "3" ? zarr.open.v3 : zarr.open.v2;
const store = zarr.root(new FileSystemStore(root));
const told = {};
const plain = (value) => (typeof value === "bigint" ? String(value) : value);
for (const name of JSON.parse(fs.readFileSync(0, "utf8"))) {
  try {
    const got = await zarr.get(await open(store.resolve(name), { kind: "array" }));
    told[name] = (got?.data === undefined ? [got] : Array.from(got.data)).map(plain);
  } catch (error) {
    console.error(name, String(error));
  }
}
console.log(JSON.stringify(told));
"""


def read_by_zarrita(path: Path, arrays: Arrays) -> Found:
    folder, node = os.environ.get("HDMF_ZARR_BACKEND_ZARRITA"), shutil.which("node")
    if not folder or node is None:
        pytest.skip("HDMF_ZARR_BACKEND_ZARRITA names no folder with zarrita, or there is no node")
    script = path.parent / "zarrita"
    script.mkdir(exist_ok=True)
    (script / "read.mjs").write_text(_ZARRITA)
    if not (script / "node_modules").exists():
        (script / "node_modules").symlink_to(Path(folder) / "node_modules")
    command = [node, script / "read.mjs", path, "2" if (path / ".zgroup").exists() else "3"]
    answer = subprocess.run(command, input=json.dumps(list(arrays)), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]
    told: Found = json.loads(answer.stdout)
    numbers = {place for place in told if arrays[place].dtype.kind in "iuf"}
    # numbers are compared; of text and objects JavaScript has other types
    return {place: np.array(told[place], float) if place in numbers else None for place in told}


_PEER_013 = """
import json, sys
import zarr
from hdmf_zarr import NWBZarrIO
(path, places), = json.load(open(sys.argv[1]))
with NWBZarrIO(path, "r") as io:
    io.read()
root = zarr.open_group(path, "r")
print(json.dumps({place: len(root[place].shape) for place in places if root[place][...] is not None}))
"""

# ---- what none of them can be blamed for -----------------------------------------------------------------------------


def is_object(data: LazyArray, arrays: Arrays) -> bool:
    """Text, bytes, references, and rows that hold those."""
    return bool(data.dtype == object)


def is_rows(data: LazyArray, arrays: Arrays) -> bool:
    """Rows, whatever they hold."""
    return data.dtype.names is not None or data.node.attributes.get("_hdmf", {}).get("rows") is True


def is_no_number(data: LazyArray, arrays: Arrays) -> bool:
    """All that netCDF has no type for."""
    return data.dtype.kind not in "iuf" or data.dtype.itemsize not in (1, 2, 4, 8) or data.dtype.str[1:] == "f2"


def is_beside_rows(data: LazyArray, arrays: Arrays) -> bool:
    """All that is in a group with rows."""
    group = data.path.rpartition("/")[0]
    return any(is_rows(other, arrays) for place, other in arrays.items() if place.rpartition("/")[0] == group)


def is_odd_for_zarrita(data: LazyArray, arrays: Arrays) -> bool:
    """Rows, arrays without elements, and names that mean something in a URL."""
    is_structured = data.dtype.names is not None or (bool(data.node.prefix) and is_rows(data, arrays))
    return is_structured or not data.size or "?" in data.path


def nothing(data: LazyArray, arrays: Arrays) -> bool:
    """No gap."""
    return False


ZARRITA = "zarrita has no structured types, no arrays without elements, and takes names for URLs"
GAPS: dict[tuple[str, int], tuple[Callable[[LazyArray, Arrays], bool], str]] = {
    ("zarr", 2): (nothing, ""),
    ("zarr", 3): (is_rows, "zarr 3.1 has no data type `struct`; rows are read through the containers"),
    ("xarray", 2): (nothing, ""),
    ("xarray", 3): (is_beside_rows, "as zarr, on which it stands, and with the whole group"),
    ("pydantic-zarr", 2): (nothing, ""),
    ("pydantic-zarr", 3): (is_rows, "as zarr, on which it stands"),
    ("tensorstore", 2): (is_object, "TensorStore has no text and no references"),
    ("tensorstore", 3): (is_object, "TensorStore has no text and no references"),
    ("netcdf", 2): (is_no_number, "netCDF has types for numbers, not for bool, rows, text and references"),
    ("zarrita", 2): (is_odd_for_zarrita, ZARRITA),
    ("zarrita", 3): (is_odd_for_zarrita, ZARRITA),
    ("hdmf-zarr 0.13", 2): (nothing, ""),
}
READERS: dict[str, Callable[[Path, Arrays], Found]] = {
    "zarr": read_by_zarr,
    "xarray": read_by_xarray,
    "pydantic-zarr": read_by_pydantic_zarr,
    "tensorstore": read_by_tensorstore,
    "netcdf": read_by_netcdf,
    "zarrita": read_by_zarrita,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_reads_all_that_it_has_types_for(file, reader):
    zarr_format, path, arrays = file
    if (reader, zarr_format) not in GAPS:
        pytest.skip("netcdf-c does not read format 3 through NCZarr here")
    found = READERS[reader](path, arrays)
    _judge(reader, zarr_format, found, arrays)


@pytest.mark.peer
def test_hdmf_zarr_013_reads_all_of_it(file, peer013, tmp_path):
    zarr_format, path, arrays = file
    if zarr_format != 2:
        pytest.skip("hdmf-zarr 0.13 knows format 2 only; tests/interop/test_peer014.py is about 0.14")
    found = ask(peer013, _PEER_013, [[path, list(arrays)]], tmp_path)
    _judge("hdmf-zarr 0.13", 2, dict.fromkeys(found), arrays)


def _judge(reader: str, zarr_format: int, found: Found, arrays: Arrays) -> None:
    gap, reason = GAPS[reader, zarr_format]
    expected = {place for place, data in arrays.items() if not gap(data, arrays)}
    print(f"\nformat {zarr_format} {reader:>15}: {len(found):4} of {len(arrays)} arrays {reason}")  # noqa: T201 - the table
    assert expected - found.keys() == set(), "not read"
    compared = 0
    for place, values in found.items():
        data = arrays[place]
        if values is None or data.dtype.kind not in "biufc":
            continue
        np.testing.assert_array_equal(np.asarray(values).reshape(-1), np.asarray(data[()]).reshape(-1), err_msg=place)
        compared += 1
    assert compared > 60 or all(values is None for values in found.values())
