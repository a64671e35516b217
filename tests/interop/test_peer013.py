"""hdmf-zarr 0.13 reads what we write, with no unsafe switch, and we read what it writes, pickles included.

Each test runs over all real files; the peer works on all of them in one process.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.compare.files import compare
from hdmf_zarr_backend.model.nodes import ArrayNode
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.storage.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.storage.keys import LocalKeys
from tests import samples
from tests.interop import digests
from tests.interop.conftest import CANNOT_BUILD, SWITCH, ask, assert_only
from tests.interop.digests import digest
from tests.peers import Peer

pytestmark = [
    pytest.mark.peer,
    # old files say less than today's schema wants, in many ways; each is told by pynwb and hdmf
    pytest.mark.filterwarnings("ignore"),
]

# What hdmf-zarr 0.13 has no place for, or its export through containers leaves to HDF5IO's defaults.
LOSSES = {
    "dtype", "byte-order", "text-encoding", "maxshape", "chunks", "layout", "filters", "fill",
    "attribute-dtype", "attribute-byte-order", "attribute-text-encoding",
}  # fmt: skip

_DIGESTS = Path(digests.__file__).read_text(encoding="utf-8")

_READ_AND_EXPORT = """
import json, sys, traceback, warnings
warnings.simplefilter("ignore")
from hdmf_zarr import NWBZarrIO
from pynwb import NWBHDF5IO, TimeSeries

told = {}
for name, source, target in json.load(open(sys.argv[1])):
    told[name] = {"read": None, "export": None}
    for step in ("read", "export"):
        try:
            with NWBZarrIO(source, "r") as io:
                if step == "read":
                    io.read()
                else:
                    with NWBHDF5IO(target, "w") as out:
                        out.export(io, write_args={"link_data": False})
        except Exception as error:
            told[name][step] = f"{type(error).__name__}: {error}"[-2000:]
print(json.dumps(told))
"""

_DIGEST_WITH_ZARR_2 = """
import sys, zarr
import hdmf_zarr  # its class of references is what the pickles name

told = {}
for name, path in json.load(open(sys.argv[1])):
    told[name] = arrays = {}
    root = zarr.open_group(path, "r")
    def visit(place, node):
        if isinstance(node, zarr.Array):
            arrays[place] = digest(node[...])
    root.visititems(visit)
json.dump(told, open(sys.argv[2], "w"))
print(json.dumps(len(told)))
"""


def read(path: Path) -> Any:
    with NWBZarrIO(path) as io:
        return io.read()


def failures(told: dict[str, Any], step: str) -> dict[str, str]:
    return {name: answer[step] for name, answer in told.items() if answer[step]}


def export(source: Path, target: Path) -> None:
    """Export through containers, as the peer does."""
    with NWBZarrIO(source) as io, NWBHDF5IO(target, "w") as out:
        out.export(io, write_args={"link_data": False})


def differences(ours: Path, theirs: Path, source: Path | None) -> list[str]:
    """Compare two exports of one file; its object ids only where it has some, else each export makes up its own."""
    ignored = set(LOSSES)
    if source is not None:
        with h5py.File(source, "r") as file:
            ignored |= set() if "object_id" in file.attrs else {"object_id"}
    return [str(difference) for difference in compare(ours, theirs, ignore=ignored)]


# ---- 0.13 reads ours -----------------------------------------------------------------------------------------------

CANNOT_READ = {"ndxpose__test_pose": r"SkeletonInstance object due to: .*incorrect type for 'id'"}
"""Files that 0.13 cannot read however they are written: it loses that an attribute is unsigned."""

OWN_LOSSES = {
    name: ["/general/extracellular_ephys/shank1/position shape: () | (1,)"] for name in ("rich", "rich_as_written")
}
"""What 0.13 makes of what it reads: a row in one piece becomes an array of one row."""


@pytest.fixture(scope="module")
def read_by_013(ours: dict[str, Path], peer013: Peer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("exports")
    return ask(peer013, _READ_AND_EXPORT, [[n, path, folder / f"{n}.nwb"] for n, path in ours.items()], folder), folder


def test_013_reads_every_file_that_we_make(read_by_013):
    told, _ = read_by_013
    assert_only(failures(told, "read"), CANNOT_READ, told)


def test_013_exports_what_we_export(sources, read_by_013, ours, tmp_path):
    """Tree, links, references, attributes and values of both exports to HDF5 are equal."""
    told, folder = read_by_013
    assert_only(failures(told, "export"), CANNOT_READ | CANNOT_BUILD, told)
    found = {}
    for name in told.keys() - failures(told, "export").keys():
        export(ours[name], tmp_path / "ours.nwb")
        found[name] = differences(tmp_path / "ours.nwb", folder / f"{name}.nwb", sources.get(name))
    assert {name: told for name, told in found.items() if told} == {
        name: lost for name, lost in OWN_LOSSES.items() if name in found
    }


def test_what_013_reads_is_what_zarr_2_reads(ours, peer013, tmp_path):
    """Every array of every file has the values that we read, in plain zarr 2 with no switch."""
    assert _different_arrays(ours, peer013, tmp_path) == {}


# ---- we read 0.13's ------------------------------------------------------------------------------------------------


def test_we_read_every_file_that_013_makes(theirs):
    """Pickles included, without any switch; also the one that 0.13 cannot read back."""
    assert "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE" not in os.environ
    pickled = [path for path in theirs.values() if '"pickle"' in (path / ".zmetadata").read_text()]
    assert pickled
    for path in theirs.values():
        assert read(path).identifier is not None


def test_we_read_the_containers_that_013_reads(sources, theirs, peer013, tmp_path):
    """Both exports to HDF5 of what 0.13 wrote are equal in all but the types that 0.13 has no place for."""
    (tmp_path / "theirs").mkdir()
    rows = [[name, path, tmp_path / "theirs" / f"{name}.nwb"] for name, path in theirs.items()]
    told = ask(peer013, _READ_AND_EXPORT, rows, tmp_path, **SWITCH)
    for step in ("read", "export"):
        assert_only(failures(told, step), CANNOT_READ, told)
    found = {}
    for name, path in theirs.items():
        export(path, tmp_path / "ours.nwb")
        if name not in CANNOT_READ:
            found[name] = differences(tmp_path / "ours.nwb", tmp_path / "theirs" / f"{name}.nwb", sources[name])
    assert {name: told for name, told in found.items() if told} == {}


def test_every_array_of_013_has_the_values_that_zarr_2_reads(theirs, peer013, tmp_path):
    assert _different_arrays(theirs, peer013, tmp_path, **SWITCH) == {}


def test_a_file_of_013_is_replaced(theirs, tmp_path):
    path = tmp_path / "file.nwb.zarr"
    shutil.copytree(theirs["rich_without_positions"], path)
    samples.write_zarr(path, samples.plain_nwbfile("new"))
    assert read(path).identifier == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.nwb.zarr"]


def test_a_file_of_013_is_added_to_and_013_reads_it(theirs, peer013, tmp_path):
    """With the pickles that were there, and ours in the form that needs none."""
    path = tmp_path / "file.nwb.zarr"
    shutil.copytree(theirs["rich_without_positions"], path)
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0, 2.0], unit="m", rate=1.0))
        io.write(nwbfile)
    script = """
import json, sys
from hdmf_zarr import NWBZarrIO
with NWBZarrIO(json.load(open(sys.argv[1]))[0], "r") as io:
    nwbfile = io.read()
    print(json.dumps([nwbfile.acquisition["new"].data[:].tolist(), nwbfile.trials["timeseries"][0][0].timeseries.name]))
"""
    assert ask(peer013, script, [path], tmp_path, **SWITCH) == [[1.0, 2.0], "trace"]
    assert read(path).trials["timeseries"][0][0].timeseries.name == "trace"


def _different_arrays(files: dict[str, Path], peer: Peer, folder: Path, **environment: str) -> dict[str, Any]:
    """Compare the values that we decode, as they are stored, with those that zarr 2 decodes in the peer's process."""
    answer = folder / "digests.json"
    assert ask(peer, _DIGESTS + _DIGEST_WITH_ZARR_2, [*files.items()], folder, answer, **environment) == len(files)
    different, number = {}, 0
    for name, expected in json.loads(answer.read_text()).items():
        keys = LocalKeys(str(files[name]))
        found = {
            path: digest(ChunkReader(keys, path, node, ChunkCache()).read())
            for path, node in parse(keys).hierarchy.walk()
            if isinstance(node, ArrayNode)
        }
        number += len(found)
        wrong = {path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path)}
        if wrong:
            different[name] = {path: (expected.get(path), found.get(path)) for path in sorted(wrong)[:5]}
    assert number > 100
    return different


# ---- attributes ----------------------------------------------------------------------------------------------------


def test_013_sees_all_attributes_of_ours(sources, ours, read_by_013):
    """The exports were compared with each other; this one with the file that was converted."""
    told, folder = read_by_013
    assert not told["rich"]["export"]
    found = compare(sources["rich"], folder / "rich.nwb", ignore=LOSSES)
    assert [str(difference) for difference in found] == OWN_LOSSES["rich"]
