"""Files of both kinds, made once for all tests here: what we make of the real files, and what hdmf-zarr 0.13 makes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend.conversion import convert
from hdmf_zarr_backend.errors import UnsupportedFileError
from tests import samples
from tests.peers import Peer

SWITCH = {"NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
"""What numcodecs wants before it decodes a pickle."""

NO_NWB_2 = {
    "matnwb__ecephys_tutorial_old": "decode",
    "matnwb__link_test": "decode",
    "matnwb__membrane_potential": "decode",
    "nwbexplorer__nwb_test_file": "Missing NWB version",
}
"""Files that pynwb itself does not read: attributes that are arrays of one element, NWB 1.2."""

CANNOT_BUILD = {"pynapple__sub-4_ses-4_ecephys+image": r"electrodes_index|VectorIndex"}
"""Files whose containers pynwb reads, but cannot build anew, from HDF5 neither."""

CANNOT_CONVERT = {**NO_NWB_2, **CANNOT_BUILD, "rich": "0-dimensional"}
"""Files that 0.13 cannot convert, and what it says; the last one has a row in one piece (`ElectrodeGroup.position`)."""

_CONVERT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from hdmf_zarr import NWBZarrIO
from pynwb import NWBHDF5IO

told = {}
for name, source, target in json.load(open(sys.argv[1])):
    told[name] = None
    try:
        with NWBHDF5IO(source, "r") as io, NWBZarrIO(target, "w") as out:
            out.export(io, write_args={"link_data": False})
    except Exception as error:
        told[name] = f"{type(error).__name__}: {error}"[-2000:]
print(json.dumps(told))
"""


def ask(peer: Peer, script: str, rows: list[Any], folder: Path, *more: Path, **environment: str) -> Any:
    """Run a script in the peer's interpreter, with a table of names and paths as its first argument."""
    (folder / "rows.json").write_text(json.dumps(rows, default=str))
    return peer.run(script, folder / "rows.json", *more, env=environment, timeout=1200)


def assert_only(failed: dict[str, str], expected: dict[str, str], asked: Any) -> None:
    """Assert that just the expected files failed, of those that were asked for, and for the expected reasons."""
    assert failed.keys() == expected.keys() & set(asked), failed
    assert {name: text for name, text in failed.items() if not re.search(expected[name], text)} == {}


@pytest.fixture(scope="session")
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """HDF5 files by name: two rich ones, and the real ones where there are some."""
    folder = tmp_path_factory.mktemp("sources")
    found = {
        "rich": samples.write_hdf5(folder / "rich.nwb"),
        "rich_without_positions": samples.write_hdf5(
            folder / "rich_without_positions.nwb", samples.rich_nwbfile(positions=False)
        ),
    }
    if os.environ.get("HDMF_ZARR_BACKEND_NWBFILES"):
        found |= {path.stem: path for path in request.getfixturevalue("nwbfiles")}
    return found


@pytest.fixture(scope="session")
def ours(sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All of them converted by us, and one that was written by us, which has dimension labels."""
    folder = tmp_path_factory.mktemp("ours")
    made = {"rich_as_written": samples.write_zarr(folder / "rich_as_written.nwb.zarr")}
    refused = set()
    for name, source in sources.items():
        target = folder / f"{name}.nwb.zarr"
        try:
            convert(source, target)
        except UnsupportedFileError:
            refused.add(name)
        else:
            made[name] = target
    assert refused == NO_NWB_2.keys() & sources.keys()
    return made


@pytest.fixture(scope="session")
def theirs(sources: dict[str, Path], peer013: Peer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All that 0.13 converts, with its switch on: references and rows are pickles."""
    folder = tmp_path_factory.mktemp("theirs")
    targets = {name: folder / f"{name}.nwb.zarr" for name in sources}
    told = ask(peer013, _CONVERT, [[n, path, targets[n]] for n, path in sources.items()], folder, **SWITCH)
    assert_only({name: text for name, text in told.items() if text}, CANNOT_CONVERT, sources)
    return {name: path for name, path in targets.items() if not told[name]}
