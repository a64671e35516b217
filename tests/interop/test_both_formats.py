"""Files of both formats: hdmf-zarr 0.13 and 0.14 and other programs read the one that they know, and may change it."""

import hashlib
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import NWBZarrIO, convert, repair, upgrade, verify
from hdmf_zarr_backend.errors import FormatsDifferWarning
from tests import samples
from tests.interop.exchange import SWITCH, arrays_in, ask

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

REAL = ("nwbexplorer__test_Units", "aqnwb__createESandSES", "neuroconv__mock_ttl_examples")
"""Of the real files: references, ragged columns, rows."""

_READ = """
import json, sys, warnings
import numpy as np, zarr
from hdmf_zarr import NWBZarrIO

reported = {}
for name, path in json.load(open(sys.argv[1])):
    with warnings.catch_warnings(record=True, action="always") as caught:
        with NWBZarrIO(path, "r") as io:
            nwbfile = io.read()
            sums = []
            for found in nwbfile.objects.values():
                for field, value in found.fields.items():
                    kind = getattr(getattr(value, "dtype", None), "kind", "O")
                    if kind in "iuf" and len(value.shape):
                        sums.append([found.name, field, float(np.nansum(np.asarray(value[:]).astype("f8")))])
    texts = [str(each.message) for each in caught]
    reported[name] = {
        "identifier": nwbfile.identifier, "objects": len(nwbfile.objects), "sums": sorted(sums),
        "about both": sum("zarr.json" in text for text in texts),
    }
print(json.dumps(reported))
"""

_APPEND = """
import json, sys, warnings
warnings.simplefilter("ignore")
from hdmf_zarr import NWBZarrIO
with NWBZarrIO(json.load(open(sys.argv[1]))[0], "a") as io:
    nwbfile = io.read()
    nwbfile.add_scratch([1.0, 2.0, 3.0], name="by_the_peer", description="numbers")
    io.write(nwbfile)
print(json.dumps(True))
"""


@pytest.fixture(scope="module")
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("both")
    hdf5 = {"rich": samples.write_hdf5(folder / "rich.nwb", samples.rich_nwbfile(positions=False))}
    if os.environ.get("HDMF_ZARR_BACKEND_NWBFILES"):
        hdf5 |= {path.stem: path for path in request.getfixturevalue("nwbfiles") if path.stem in REAL}
    for name, path in hdf5.items():
        convert(path, folder / f"{name}.nwb.zarr", zarr_format="both")
    return {name: folder / f"{name}.nwb.zarr" for name in hdf5}


def test_either_release_reads_all_of_them(files, peer013, peer014, tmp_path):
    rows = [[name, path] for name, path in files.items()]
    old: dict[str, Any] = ask(peer013, _READ, rows, tmp_path, **SWITCH)
    new: dict[str, Any] = ask(peer014, _READ, rows, tmp_path)
    assert old.keys() == new.keys() == files.keys()
    assert {name: answer.pop("about both") for name, answer in old.items()} == dict.fromkeys(files, 0)
    most = max(answer.pop("about both") for answer in new.values())
    assert most <= 2  # zarr-python's own, for the root: it has both, and format 3 is read; 0.14 opens it twice
    assert old == new
    for name, path in files.items():
        nwbfile = samples.read_zarr(path)
        assert (nwbfile.identifier, len(nwbfile.objects)) == (new[name]["identifier"], new[name]["objects"])


@pytest.fixture
def copied(files: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(files["rich"], tmp_path / "a.nwb.zarr"))


def added(path: Path, **options: Any) -> list[float]:
    return list(samples.read_zarr(path, **options).scratch["by_the_peer"].data[:])


def test_013_changes_one(copied, peer013, peer014, tmp_path):
    ask(peer013, _APPEND, [copied], tmp_path, **SWITCH)
    with pytest.warns(FormatsDifferWarning, match="zarrio repair"):
        assert added(copied) == [1.0, 2.0, 3.0]
    assert "formats-differ" in {problem.kind for problem in verify(copied).problems}
    repair(copied)
    with warnings.catch_warnings(action="error", category=FormatsDifferWarning):
        assert added(copied, zarr_format=3) == [1.0, 2.0, 3.0]
    assert verify(copied).problems == []
    both = ask(peer014, _READ, [["a", copied]], tmp_path)["a"]
    assert both["objects"] == ask(peer013, _READ, [["a", copied]], tmp_path, **SWITCH)["a"]["objects"]


def test_014_changes_one(copied, peer014, tmp_path):
    ask(peer014, _APPEND, [copied], tmp_path)
    with pytest.warns(FormatsDifferWarning, match="--drop 2"):
        assert added(copied) == [1.0, 2.0, 3.0]
    upgrade(copied, drop=2)
    with NWBZarrIO(copied) as io:
        assert io.zarr_format == 3
    assert added(copied) == [1.0, 2.0, 3.0]


_PLAIN = """
import hashlib, json, sys, warnings
import numpy as np, zarr

path, zarr_format, pipeline = json.load(open(sys.argv[1]))
if pipeline:
    zarr.config.set({"codec_pipeline.path": pipeline})
options = {} if zarr.__version__.startswith("2.") else {"zarr_format": zarr_format}
read = {}

def take(name, array):
    values = np.asarray(array[...])
    if values.dtype.kind in "biufc":
        read[name] = hashlib.sha256(values.tobytes()).hexdigest()
    else:
        read[name] = "text" if all(isinstance(value, str) for value in values.reshape(-1).tolist()) else "other"

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    root = zarr.open_consolidated(path) if not options else zarr.open_group(path, mode="r", **options)
    if options:
        for name, found in root.members(max_depth=None):
            if isinstance(found, zarr.Array):
                take(name, found)
    else:
        root.visititems(lambda name, found: take(name, found) if isinstance(found, zarr.Array) else None)
print(json.dumps({"read": read, "warnings": [str(each.message) for each in caught]}))
"""
RUST = "zarrs.ZarrsCodecPipeline"


@pytest.mark.parametrize(("name", "zarr_format", "pipeline"), [
    ("peer013", 2, None), ("zarr315", 3, None), ("peer014", 3, None), ("zarrs", 3, RUST),
], ids=["zarr 2.18", "zarr 3.1.5", "zarr 3.4", "zarrs"])  # fmt: skip
def test_zarr_without_this_package(files, request, tmp_path, name, zarr_format, pipeline):
    """Every array is read, the numbers are the same, and there are no warnings but about the root and what is given.

    zarr 3.1 warns of gzip of HDF5 too: chunks that are copied keep the frame of zlib, and the name of numcodecs for it.
    """
    peer = request.getfixturevalue(name)
    known = ["zarr.json", "ZarrsCodecPipeline: data type struct"]  # zarrs leaves rows to zarr
    known += ["Numcodecs codecs are not in the Zarr version 3 specification"] if name == "zarr315" else []
    for path in files.values():
        expected = arrays_in(path, zarr_format)
        answer = ask(peer, _PLAIN, [str(path), zarr_format, pipeline], tmp_path)
        assert answer["read"].keys() == expected.keys()
        for location, digest in answer["read"].items():
            values = np.asarray(expected[location][...])
            if values.dtype.kind in "biufc":
                assert digest == hashlib.sha256(values.tobytes()).hexdigest(), location
        assert "text" in answer["read"].values()
        assert [text for text in answer["warnings"] if not any(part in text for part in known)] == []


_ALONE = """
import json, sys, warnings
import numpy as np, zarr
warnings.simplefilter("ignore")
path, place = json.load(open(sys.argv[1]))
answer = {"sum": int(np.sum(zarr.open_array(path, path=place, mode="r")[...], dtype="i8")), "refused": None}
try:
    members = zarr.open_group(path, mode="r").members(max_depth=None)
    answer["arrays"] = sum(isinstance(found, zarr.Array) for _, found in members)
except ValueError as error:
    answer["refused"] = str(error)
print(json.dumps(answer))
"""


@pytest.mark.parametrize(("name", "zarr_format", "refused"), [
    ("zarr315", 2, "'json2'"), ("peer014", 2, "'json2'"), ("zarr315", 3, "'struct'"), ("peer014", 3, None),
], ids=["zarr 3.1.5, format 2", "zarr 3.4, format 2", "zarr 3.1.5, format 3", "zarr 3.4, format 3"])  # fmt: skip
def test_zarr_without_this_package_and_one_format(request, tmp_path, name, zarr_format, refused):
    """Files with references and rows: single arrays are read; the whole file in format 3 by zarr 3.2 and newer."""
    samples.write_zarr(tmp_path / "rich.nwb.zarr", samples.rich_nwbfile(positions=False), zarr_format=zarr_format)
    expected = arrays_in(tmp_path / "rich.nwb.zarr")
    location = next(location for location, data in expected.items() if data.dtype.kind == "i" and data.size > 1)
    answer = ask(request.getfixturevalue(name), _ALONE, [str(tmp_path / "rich.nwb.zarr"), location], tmp_path)
    assert answer["sum"] == int(np.sum(expected[location][...], dtype="i8"))
    if refused is None:
        assert answer["refused"] is None
        assert answer["arrays"] == len(expected)
    else:
        assert "No Zarr data type found that matches" in answer["refused"]
        assert refused in answer["refused"]
