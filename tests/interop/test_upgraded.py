"""Files of format 2, ours and those of hdmf-zarr 0.13, are upgraded where they are, and hdmf-zarr 0.14 reads them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend import convert, upgrade
from hdmf_zarr_backend.comparison import compare
from tests import samples
from tests.interop import digests
from tests.interop.exchange import SWITCH, ask, converted
from tests.peers import Peer

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

REAL = ("nwbexplorer__test_Units",)
"""Of the real files: references and ragged columns."""

_READ = (
    Path(digests.__file__).read_text(encoding="utf-8")
    + """
import sys, warnings
warnings.simplefilter("ignore")
import numpy, zarr
from hdmf_zarr import NWBZarrIO
from pynwb import validate

reported = {}
for name, path in json.load(open(sys.argv[1])):
    with NWBZarrIO(path, "r") as io:
        nwbfile = io.read()
        errors = [str(error) for error in validate(io=io)]
        identifier = nwbfile.identifier
    root = zarr.open_group(path, mode="r")
    arrays = {p: digest(numpy.asarray(a[...])) for p, a in root.members(max_depth=None) if isinstance(a, zarr.Array)}
    reported[name] = {"identifier": identifier, "errors": errors, "arrays": arrays}
print(json.dumps(reported))
"""
)


@pytest.fixture(scope="module")
def upgraded(
    peer013: Peer, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Path]]:
    """Name -> a file of format 2 and the same upgraded; ``old`` ones were written by hdmf-zarr 0.13."""
    folder = tmp_path_factory.mktemp("upgraded")
    hdf5 = {"rich": samples.write_hdf5(folder / "rich.nwb", samples.rich_nwbfile(positions=False))}
    if os.environ.get("HDMF_ZARR_BACKEND_NWBFILES"):
        hdf5 |= {path.stem: path for path in request.getfixturevalue("nwbfiles") if path.stem in REAL}
    (folder / "old").mkdir()
    made = {f"old {name}": path for name, path in converted(peer013, hdf5, folder / "old", {}, **SWITCH).items()}
    for name, path in hdf5.items():
        made[f"our {name}"] = folder / f"our-{name}.nwb.zarr"
        convert(path, made[f"our {name}"])
    pairs = {}
    for name, path in made.items():
        pairs[name] = (path, path.with_name(f"new-{path.name}"))
        shutil.copytree(path, pairs[name][1])
        upgrade(pairs[name][1])
    return pairs


def test_nothing_is_lost(upgraded):
    ignored = {"chunks", "filters", "fill"}  # 0.13 declares 0 for everything, text too
    found = {name: [str(d) for d in compare(*pair, ignore=ignored)] for name, pair in upgraded.items()}
    assert found == {name: [] for name in upgraded}


def test_it_is_what_a_conversion_makes(upgraded, tmp_path):
    found = {}
    for name, (old, new) in upgraded.items():
        convert(old, tmp_path / f"{name}.nwb.zarr", zarr_format=3)
        found[name] = [str(difference) for difference in compare(tmp_path / f"{name}.nwb.zarr", new)]
    assert found == {name: [] for name in upgraded}


def test_hdmf_zarr_014_reads_them(upgraded, peer014, tmp_path):
    reported = ask(peer014, _READ, [[name, new] for name, (_, new) in upgraded.items()], tmp_path)
    assert reported.keys() == upgraded.keys()
    assert all(answer["identifier"] for answer in reported.values())
    for name, (old, _) in upgraded.items():
        convert(old, tmp_path / f"{name}.nwb.zarr", zarr_format=3)
    fresh: dict[str, Any] = ask(peer014, _READ, [[name, tmp_path / f"{name}.nwb.zarr"] for name in upgraded], tmp_path)
    assert reported == fresh
