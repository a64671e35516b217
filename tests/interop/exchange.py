"""What the tests with hdmf-zarr 0.13 and 0.14 share: scripts for its interpreter, and the comparison of exports."""

import json
import re
from pathlib import Path
from typing import Any

import h5py
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.store.local import LocalStore
from tests.interop import digests
from tests.interop.digests import digest
from tests.peers import Peer
from tests.samples import edit_zarr, read_zarr

SWITCH = {"NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
"""What numcodecs wants before it decodes a pickle."""

DIGESTS = Path(digests.__file__).read_text(encoding="utf-8")
"""The text of `digest`, for scripts."""

READ_WITH_ZARR_2 = f"""{DIGESTS}
import sys, zarr
import hdmf_zarr  # its class of references is what the pickles name

reported = {{}}
for name, path in json.load(open(sys.argv[1])):
    reported[name] = arrays = {{}}
    def visit(place, node):
        if isinstance(node, zarr.Array):
            arrays[place] = [digest(node[...]), dict(node.attrs)]
    zarr.open_group(path, mode="r").visititems(visit)
json.dump(reported, open(sys.argv[2], "w"))
print(json.dumps(len(reported)))
"""
"""Writes of each file the digest and the attributes of each array."""

LOSSES = {
    "dtype", "byte-order", "text-encoding", "maxshape", "chunks", "layout", "filters", "fill",
    "attribute-dtype", "attribute-byte-order", "attribute-text-encoding",
}  # fmt: skip
"""What hdmf-zarr has no place for, or its export through containers leaves to HDF5IO's defaults."""

_EACH = """
import json, sys, warnings
warnings.simplefilter("ignore")
import hdmf_zarr
from hdmf_zarr import NWBZarrIO
from pynwb import NWBHDF5IO, validate

%s
reported = {}
for name, *arguments in json.load(open(sys.argv[1])):
    try:
        reported[name] = [act(*arguments), ""]
    except Exception as error:
        reported[name] = [None, f"{type(error).__name__}: {error}"[-2000:]]
print(json.dumps(reported))
"""

_CONVERT = """
def act(source, target):
    with NWBHDF5IO(source, "r") as io, NWBZarrIO(target, "w") as out:
        out.export(io, write_args={"link_data": False})
"""

_USE = """
def act(step, source, target):
    with NWBZarrIO(source, "r") as io:
        if step == "read":
            io.read()
        elif step == "validate":
            return [str(error) for error in validate(io=io)]
        else:
            with NWBHDF5IO(target, "w") as out:
                out.export(io, write_args={"link_data": False})
"""

_READ_ADDED = """
import json, sys
from hdmf_zarr import NWBZarrIO
with NWBZarrIO(json.load(open(sys.argv[1]))[0], "r") as io:
    nwbfile = io.read()
    print(json.dumps([nwbfile.acquisition["new"].data[:].tolist(), nwbfile.trials["timeseries"][0][0].timeseries.name]))
"""


def ask(peer: Peer, script: str, rows: list[Any], folder: Path, *more: Path, **environment: str) -> Any:
    (folder / "rows.json").write_text(json.dumps(rows, default=str))
    return peer.run(script, folder / "rows.json", *more, env=environment, timeout=1200)


def ask_of_each(
    peer: Peer, act: str, rows: list[Any], folder: Path, **environment: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Call the function ``act`` in the peer's interpreter with each row but its name; return values, and failures."""
    reported = ask(peer, _EACH % act, rows, folder, **environment)
    values = {name: value for name, (value, failure) in reported.items() if not failure}
    return values, {name: failure for name, (_, failure) in reported.items() if failure}


def assert_only(failed: dict[str, str], expected: dict[str, str], asked: Any) -> None:
    """Assert that just the expected files failed, of those that were asked for, and for the expected reasons."""
    assert failed.keys() == expected.keys() & set(asked), failed
    assert {name: text for name, text in failed.items() if not re.search(expected[name], text)} == {}


def converted(
    peer: Peer, sources: dict[str, Path], folder: Path, expected: dict[str, str], **environment: str
) -> dict[str, Path]:
    """Let the peer convert HDF5 files; return those that it can, where just the ``expected`` ones are others."""
    targets = {name: folder / f"{name}.nwb.zarr" for name in sources}
    rows = [[name, path, targets[name]] for name, path in sources.items()]
    result, failed = ask_of_each(peer, _CONVERT, rows, folder, **environment)
    assert_only(failed, expected, sources)
    return {name: targets[name] for name in result}


def used(peer: Peer, files: dict[str, Path], folder: Path, *steps: str, **environment: str) -> dict[str, Any]:
    """Let the peer read, validate and export files; return what went wrong at each step, and errors of validation.

    Parameters
    ----------
    folder : Path
        Gets ``{name}.nwb`` of each that was exported.
    *steps : str
        Of ``"read"``, ``"validate"``, ``"export"``.
    """
    rows = [[f"{step} {name}", step, files[name], folder / f"{name}.nwb"] for name in files for step in steps]
    values, failed = ask_of_each(peer, _USE, rows, folder, **environment)
    return {
        name: {"errors": values.get(f"validate {name}") or [], **{step: failed.get(f"{step} {name}") for step in steps}}
        for name in files
    }


def failures(reported: dict[str, Any], step: str) -> dict[str, str]:
    return {name: answer[step] for name, answer in reported.items() if answer[step]}


def arrays_in(path: Path, zarr_format: int | None = None) -> dict[str, LazyArray]:
    """Return all arrays of a file, by their paths; of a file of both formats, as they are in one."""
    store, cache = LocalStore(str(path)), ChunkCache()
    nodes = parse(store, hint=zarr_format).hierarchy.walk()
    return {location: LazyArray(store, location, node, cache) for location, node in nodes if isinstance(node, Dataset)}


def digests_of(path: Path) -> dict[str, Any]:
    store, cache = LocalStore(str(path)), ChunkCache()
    arrays = ((place, node) for place, node in parse(store).hierarchy.walk() if isinstance(node, Dataset))
    return {place: digest(ChunkReader(store, place, node.stored, cache).read()) for place, node in arrays}


def export(source: Path, target: Path) -> None:
    with NWBZarrIO(source) as io, NWBHDF5IO(target, "w") as out:
        out.export(io, write_args={"link_data": False})


def exports_that_differ(
    files: dict[str, Path], theirs: Path, sources: dict[str, Path], names: set[str], folder: Path
) -> dict[str, list[str]]:
    """Compare the exports of the peer with ours, and return of those that differ in what.

    Object ids are compared only where the source has some, else each export makes up its own.
    """
    result = {}
    for name in names:
        export(files[name], folder / "ours.nwb")
        ignored = set(LOSSES)
        if name in sources:
            with h5py.File(sources[name], "r") as file:
                ignored |= set() if "object_id" in file.attrs else {"object_id"}
        result[name] = list(map(str, compare(folder / "ours.nwb", theirs / f"{name}.nwb", ignore=ignored)))
    return {name: lost for name, lost in result.items() if lost}


def check_added(peer: Peer, path: Path, folder: Path, **environment: str) -> None:
    """Add to a file that the peer has made, and let it read what was added and what was there."""
    with edit_zarr(path) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0, 2.0], unit="m", rate=1.0))
    assert ask(peer, _READ_ADDED, [path], folder, **environment) == [[1.0, 2.0], "trace"]
    assert read_zarr(path).trials["timeseries"][0][0].timeseries.name == "trace"
