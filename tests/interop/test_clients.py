"""A small part of what `python -m tests.clients` does, in environments that are made once; for `nox -s slow`.

Two environments hold all clients but pynwb: neuroconv and SpikeInterface, which need zarr 2, and the others. pip chose
their packages without this one, whose wheel is put beside them; `python -m tests.clients` installs both in one command.
SpikeInterface comes without its extra ``extractors``, some ninety packages of which NWB files need fsspec and aiohttp.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.peers import Peer, PeerRecipe, PeerUnavailableError, obtain_peer

pytestmark = [pytest.mark.peer, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]

ZARR_2 = PeerRecipe(
    "clients with zarr 2",
    "HDMF_ZARR_BACKEND_CLIENTS2",
    ("3.11",),
    (
        *("neuroconv==0.10.2", "spikeinterface==0.105.3", "fsspec", "aiohttp", "filelock"),
        *("pynwb==4.2.0", "hdmf==6.2.0"),
    ),
)
ZARR_3 = PeerRecipe(
    "clients with zarr 3",
    "HDMF_ZARR_BACKEND_CLIENTS3",
    ("3.13",),
    (
        *("dandi==0.81.0", "nwbinspector==0.7.2", "pynapple==0.11.4", "ndx-pose==0.4.0", "ndx-events==0.4.0"),
        *("ndx-hed==0.3.0", "ndx-miniscope==0.5.1", "ndx-ophys-devices==0.4.0", "filelock"),
        *("pynwb==4.2.0", "hdmf==6.2.0"),
    ),
)

FILES = {"new", "HDF5", "format 2", "both formats"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which pip has installed the wheel of this package alone."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        absent(f"pip cannot make the wheel:\n{done.stderr[-2000:]}")
    return folder


@pytest.fixture(scope="module")
def peers() -> Iterator[dict[PeerRecipe, Future[Peer]]]:
    """Give the environments, which are made at the same time."""
    with ThreadPoolExecutor(2) as pool:
        yield {recipe: pool.submit(obtain_peer, recipe) for recipe in (ZARR_2, ZARR_3)}


@pytest.mark.parametrize(
    ("recipe", "module", "arguments"),
    [
        (
            ZARR_2,
            "neuroconv",
            ("alias", "configure_and_write_nwbfile", "ConverterPipe.run_conversion, number_of_jobs=2"),
        ),
        (ZARR_2, "neuroconv", ("configure_and_write_nwbfile", "repack_nwbfile to hdf5")),
        (ZARR_2, "spikeinterface", ("recording, local, use_pynwb=False", "recording, http, use_pynwb=False")),
        (ZARR_2, "spikeinterface", ("alias", "sorting, http, use_pynwb=True")),
        (ZARR_3, "dandi", ("dandi digest", "the messages of the HDF5 file")),
        (ZARR_3, "extensions", ("read with the extensions", "read without them", "NWBFile(...)")),
    ],
    ids=["neuroconv, alias", "neuroconv", "spikeinterface", "spikeinterface, alias", "dandi", "extensions"],
)
def test_clients_work_with_these_files(
    peers: dict[PeerRecipe, Future[Peer]],
    recipe: PeerRecipe,
    module: str,
    arguments: tuple[str, ...],
    installed: Path,
) -> None:
    try:
        python = peers[recipe].result().python
    except PeerUnavailableError as error:
        absent(str(error))
    done = subprocess.run(
        [python, "-W", "ignore", "-m", f"tests.clients.check_{module}", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(installed), str(ROOT)))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    results = [result for result in results if result["file"] in FILES]
    tasks = set(arguments) - {"alias"}
    assert {result["task"] for result in results} == tasks
    assert [result for result in results if result["problem"]] == []
