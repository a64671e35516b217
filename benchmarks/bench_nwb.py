"""The cases of the public nwb_benchmarks project: open a file and read slices of it, locally and from a server.

``python benchmarks/bench_nwb.py`` makes a file of extracellular, optical and intracellular recordings each, with
the shapes and chunks of that project, for every engine, and reads from 1 to 5 chunks of it: ``(262144 i, 32)``,
``(20 i, 796, 512)`` and ``8192 i``. Remote files are on a server of this machine that delays each answer by 20, 100 and
300 ms, and answers any number of requests at a time. CPU and wall time, requests, bytes. ``--page`` writes the tables
and the picture of the performance page, ``--records FILE`` keeps the figures; ``--from FILE`` takes them from there.
``--only ecephys`` and ``--programs`` select; ``--delays 0.02`` too. ``--quick`` reads tiny files once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hdmf_zarr_backend
from benchmarks.harness.backends import BACKENDS
from benchmarks.harness.cases_page import CaseFigures, picture, tables
from benchmarks.harness.engines import BASE, OURS, OURS_3, PEER_3, Engine, find_engines, with_protocol
from benchmarks.harness.interleave import work_folder
from benchmarks.workloads.remote import served
from tests.peers import RECIPES, Peer, PeerError, PeerRecipe, PeerUnavailableError, obtain_peer

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation"
READING = Path(__file__).resolve().parent / "harness" / "reading.py"
SOURCE = str(Path(hdmf_zarr_backend.__file__).parents[1])
BUCKET = "bucket"
SIZES = (1, 2, 3, 4, 5)
DELAYS = (0.02, 0.1, 0.3)
SHARDS, VIRTUAL = "ours format 3, shards", "ours, virtual"
FSSPEC, REMFILE, ROS3, LINDI = "HDF5, fsspec", "HDF5, remfile", "HDF5, ros3", "LINDI"

KINDS = {OURS: "ours", OURS_3: "ours", SHARDS: "ours", VIRTUAL: "ours", BASE: "hdmf-zarr", PEER_3: "hdmf-zarr",
         FSSPEC: "fsspec", REMFILE: "remfile", ROS3: "ros3", LINDI: "lindi"}  # fmt: skip
"""What each engine is in `reading.py`, in the order of the tables."""

_PYNWB = ("hdmf==6.2.0", "pynwb==4.2.0")
_REMFILE = PeerRecipe(
    "remfile 0.1.15",
    "HDMF_ZARR_BACKEND_REMFILE",
    ("3.13", "3.12", "3.11"),
    ("remfile==0.1.15", "h5py==3.16.0", "numpy==2.4.6", *_PYNWB),
)
_LINDI = replace(
    RECIPES["lindi"],
    release="lindi 0.4.6-pynwb",
    variable="HDMF_ZARR_BACKEND_LINDI_PYNWB",
    requirements=(*RECIPES["lindi"].requirements, *_PYNWB),
)
_ROS3 = "HDMF_ZARR_BACKEND_ROS3"  # an interpreter with pynwb, and an h5py that was built with this driver


@dataclass(frozen=True)
class Case:
    """A recording.

    Attributes
    ----------
    series : str
        Name of the series that is read.
    chunk : tuple of int
        Shape of its chunks, and of the smallest slice.
    length, width : int
        Chunks along its first and its last axis; slices are of the first column of chunks.
    dtype : str
        Of its values.
    """

    series: str
    chunk: tuple[int, ...]
    length: int
    width: int
    dtype: str

    def shape(self, size: int) -> tuple[int, ...]:
        """Return the shape of a slice of so many chunks."""
        return (self.chunk[0] * size, *self.chunk[1:])

    def values(self) -> np.ndarray:
        """Return the data: noise of 200 levels, 100 higher in each chunk than in the one before."""
        first = (*self.chunk[:-1], self.chunk[-1] * self.width)
        noise = np.random.default_rng(5).integers(0, 200, first, dtype="i2")
        blocks = [noise + np.int16(100 * number) for number in range(self.length)]
        return np.concatenate(blocks).astype(self.dtype)


CASES = {
    "ecephys": Case("ElectricalSeries", (262_144, 32), 5, 2, "i2"),
    "ophys": Case("TwoPhotonSeries", (20, 796, 512), 5, 1, "u2"),
    "icephys": Case("sweep_00", (8192,), 50, 1, "f4"),
}
TINY = {
    "ecephys": Case("ElectricalSeries", (1000, 32), 5, 2, "i2"),
    "ophys": Case("TwoPhotonSeries", (2, 30, 20), 5, 1, "u2"),
    "icephys": Case("sweep_00", (100,), 50, 1, "f4"),
}


# ---- the files ------------------------------------------------------------------------------------------------------


def nwbfile_of(name: str, series: list[Any]) -> Any:
    """Return the file of a case around the data of its series."""
    from pynwb import NWBFile

    start = datetime(2024, 1, 1, tzinfo=UTC)
    nwbfile = NWBFile(session_description=name, identifier=name, session_start_time=start)
    for number in range(100):
        nwbfile.add_trial(start_time=float(number), stop_time=number + 0.5)
    {"ecephys": _add_ecephys, "ophys": _add_ophys, "icephys": _add_icephys}[name](nwbfile, series)
    return nwbfile


def _add_ecephys(nwbfile: Any, series: list[Any]) -> None:
    from pynwb.ecephys import ElectricalSeries

    device = nwbfile.create_device("probe")
    group = nwbfile.create_electrode_group("shank", description="a shank", location="V1", device=device)
    for _ in range(64):
        nwbfile.add_electrode(location="V1", group=group)
    electrodes = nwbfile.create_electrode_table_region(list(range(64)), "all electrodes")
    for data in series:
        nwbfile.add_acquisition(
            ElectricalSeries(name="ElectricalSeries", data=data, electrodes=electrodes, rate=30_000.0)
        )
    for number in range(100):
        nwbfile.add_unit(spike_times=np.arange(100.0) + number)


def _add_ophys(nwbfile: Any, series: list[Any]) -> None:
    from pynwb.ophys import OpticalChannel, TwoPhotonSeries

    device = nwbfile.create_device("microscope")
    plane = nwbfile.create_imaging_plane(
        name="plane", optical_channel=OpticalChannel(name="green", description="GCaMP", emission_lambda=510.0),
        description="a plane", device=device, excitation_lambda=920.0, indicator="GCaMP6f", location="V1",
        imaging_rate=30.0,
    )  # fmt: skip
    for data in series:
        nwbfile.add_acquisition(
            TwoPhotonSeries(name="TwoPhotonSeries", data=data, imaging_plane=plane, rate=30.0, unit="a.u.")
        )


def _add_icephys(nwbfile: Any, series: list[Any]) -> None:
    from pynwb.icephys import CurrentClampSeries

    device = nwbfile.create_device("amplifier")
    electrode = nwbfile.create_icephys_electrode(name="electrode", description="a pipette", device=device)
    for number, data in enumerate(series):
        nwbfile.add_acquisition(
            CurrentClampSeries(name=f"sweep_{number:02}", data=data, electrode=electrode, gain=1.0, rate=50_000.0)
        )


def file_of(engine: str, name: str) -> str:
    """Return the name of the file that an engine reads."""
    kind = {OURS: "2.zarr", BASE: "2.zarr", OURS_3: "3.zarr", PEER_3: "3.zarr", SHARDS: "shards.zarr",
            VIRTUAL: "virtual.json", LINDI: "lindi.json"}.get(engine, "nwb")  # fmt: skip
    return f"{name}.{kind}"


def write_files(name: str, case: Case, folder: Path) -> dict[str, int]:
    """Write a case in each form but LINDI, and return the sum of the values of each slice."""
    from hdmf_zarr_backend import convert

    values = case.values()
    forms = {OURS: None, OURS_3: None, FSSPEC: None, SHARDS: (case.chunk[0] * case.length, *case.chunk[1:])}
    for engine, shards in forms.items():
        backend = BACKENDS[OURS_3 if engine == SHARDS else "HDF5" if engine == FSSPEC else engine]()
        series = [backend.wrap(values, case.chunk, shards) for _ in range(20 if name == "icephys" else 1)]
        with backend.open(folder / file_of(engine, name), "w") as io:
            io.write(nwbfile_of(name, series))
    convert(folder / file_of(FSSPEC, name), folder / file_of(VIRTUAL, name), to="virtual")
    return {f"slice {size}": int(values[tuple(map(slice, case.shape(size)))].sum(dtype="i8")) for size in SIZES}


_TO_LINDI = """
import json, lindi, sys
store = lindi.LindiH5ZarrStore.from_file(sys.argv[1], url=sys.argv[2])
store.write_reference_file_system(sys.argv[3])
store.close()
print(json.dumps("done"))
"""


# ---- the engines ----------------------------------------------------------------------------------------------------


def engines_of(names: list[str]) -> list[Engine]:
    """Return the engines of these names that this machine has."""
    found = []
    for name in names:
        try:
            found.append(_engine(name))
        except PeerUnavailableError as error:
            print(f"{name}: not measured: {error}", file=sys.stderr)
    return found


def _engine(name: str) -> Engine:
    if name in (REMFILE, LINDI):
        return Engine(name, obtain_peer(_REMFILE if name == REMFILE else _LINDI))
    if name == ROS3:
        if _ROS3 not in os.environ:
            raise PeerUnavailableError(f"{_ROS3} names no interpreter whose h5py has the driver ros3")
        return Engine(name, Peer(name, Path(os.environ[_ROS3])))
    if name in (BASE, PEER_3):
        engines, missing = find_engines((name,))
        if missing:
            raise PeerUnavailableError(missing[name])
        return with_protocol(engines[0], "http")
    return Engine(name, Peer("here", Path(sys.executable)))


# ---- measuring ------------------------------------------------------------------------------------------------------


def measure(name: str, case: Case, engines: list[Engine], delays: list[float], rounds: int) -> list[dict[str, Any]]:
    """Return the records of a case, each with the names of the case and of the engine."""
    taken = []
    with work_folder() as folder:
        bucket = folder / BUCKET
        bucket.mkdir()
        sums = write_files(name, case, bucket)
        slices = [
            (task, [[0, end] for end in case.shape(size)], sums[task]) for size, task in zip(SIZES, sums, strict=True)
        ]
        with served(folder, "buckets.py", "0") as server:
            for number in range(rounds):
                for engine in engines if number % 2 == 0 else engines[::-1]:
                    key = f"{BUCKET}/{file_of(engine.name, name)}"
                    if engine.name == LINDI and number == 0:
                        _refer(engine, bucket, name, f"{server}/{BUCKET}")
                    # of HDF5 one engine reads the local file, and the chunks of LINDI are on the server
                    is_local = engine.name not in (REMFILE, ROS3, LINDI)
                    task = {
                        "kind": KINDS[engine.name], "series": case.series, "slices": slices, "server": server,
                        "key": key, "path": str(folder / key) if is_local else None,
                        "delays": delays[:1] if number and engine.name in (FSSPEC, ROS3) else delays, "source": SOURCE,
                    }  # fmt: skip
                    environment = {**engine.environment, "AWS_ENDPOINT_URL_S3": server}
                    taken += [
                        {"case": name, "engine": engine.name, **record} for record in _read(engine, task, environment)
                    ]
    return taken


def _refer(engine: Engine, bucket: Path, name: str, url: str) -> None:
    """Make LINDI's file of references to the HDF5 file of a case."""
    source = bucket / file_of(FSSPEC, name)
    arguments = (source, f"{url}/{source.name}", bucket / file_of(LINDI, name))
    engine.interpreter.run(_TO_LINDI, *map(str, arguments))


def _read(engine: Engine, task: dict[str, Any], environment: dict[str, str]) -> list[dict[str, Any]]:
    try:
        records: list[dict[str, Any]] = engine.interpreter.run(
            READING.read_text(encoding="utf-8"), json.dumps(task), env=environment, timeout=1800
        )
    except PeerError as error:
        print(f"{engine.name}: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
        return []
    return records


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny files, 1 ms per request")
    parser.add_argument("--only", default=",".join(CASES), help="cases")
    parser.add_argument("--programs", default=";".join(KINDS), help="names of `KINDS`, separated by semicolons")
    parser.add_argument("--delays", default=",".join(map(str, DELAYS)), help="seconds that each request takes longer")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of fsspec and ros3, those after the first at the smallest delay only"
    )
    parser.add_argument("--records", type=Path, help="file for the figures")
    parser.add_argument("--from", type=Path, dest="read", help="no run: figures from a file of --records")
    parser.add_argument("--page", action="store_true", help="write the tables and the picture of the documentation")
    arguments, _ = parser.parse_known_args()  # other benchmarks have other options
    records = json.loads(arguments.read.read_text()) if arguments.read else taken(arguments)
    if arguments.records:
        arguments.records.write_text(json.dumps(records))
    if not records:
        print("no case has one of these names")  # other benchmarks have other names
        return 0
    figures = CaseFigures(records)
    text = tables(figures)
    print(text)
    if arguments.page:
        (PAGE / "nwb-cases.inc").write_text(text, encoding="utf-8")
        (PAGE / "nwb-cases.svg").write_text(picture(figures, "slice 3", 0.1), encoding="utf-8")
    return 0


def taken(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the records of the cases, engines and delays that were asked for."""
    delays = [0.001] if arguments.quick else [float(delay) for delay in arguments.delays.split(",")]
    cases, rounds = (TINY, 1) if arguments.quick else (CASES, arguments.rounds)
    names = [name for name in arguments.only.split(",") if name in cases]
    engines = engines_of(arguments.programs.split(";")) if names else []
    return [record for name in names for record in measure(name, cases[name], engines, delays, rounds)]


if __name__ == "__main__":
    sys.exit(main())
