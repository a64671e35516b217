"""What the checks of all clients share: a session to write, and a record of each result. pynwb and NumPy only.

Arguments of the modules of checks: ``alias``, and the names of tasks if only these are to be done.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pynwb import NWBHDF5IO, NWBFile
from pynwb.ecephys import ElectricalSeries
from pynwb.file import Subject

HDF5 = "HDF5"
ALIAS = "alias" in sys.argv[1:]
ONLY = tuple(argument for argument in sys.argv[1:] if argument != "alias")
"""Names of the tasks that are done; if none is named, all are."""
FORMATS: dict[str, Any] = {"format 2": 2, "format 3": 3, "both formats": "both"}


def session() -> NWBFile:
    nwbfile = NWBFile(
        "a session", "client", datetime(2024, 1, 1, tzinfo=UTC), experimenter=["Doe, Jane"], institution="an institute",
        lab="a lab", experiment_description="a recording", keywords=["test"],
    )  # fmt: skip
    nwbfile.subject = Subject(subject_id="mouse1", species="Mus musculus", sex="M", age="P90D", description="a mouse")
    probe = nwbfile.create_device("probe", description="a probe")
    shank = nwbfile.create_electrode_group("shank", description="a shank", location="CA1", device=probe)
    for name in ("channel_name", "gain_to_uV", "offset_to_uV"):
        nwbfile.add_electrode_column(name, f"the {name}")
    for number in range(4):
        nwbfile.add_electrode(
            group=shank, location="CA1", rel_x=float(number), rel_y=0.0, channel_name=f"channel {number}",
            gain_to_uV=1.0, offset_to_uV=0.0,
        )  # fmt: skip
    rng = np.random.default_rng(0)
    values = rng.integers(-100, 100, (3000, 4)).astype("i2")
    region = nwbfile.create_electrode_table_region([0, 1, 2, 3], "all")
    nwbfile.add_acquisition(
        ElectricalSeries(name="ElectricalSeries", data=values, electrodes=region, rate=1000.0, conversion=1e-6)
    )
    nwbfile.add_unit_column("quality", "how good the unit is")
    for _ in range(3):
        nwbfile.add_unit(spike_times=np.sort(rng.uniform(0, 3, 20)), quality="good")
    for start in (0.0, 1.0):
        nwbfile.add_trial(start_time=start, stop_time=start + 1)
    return nwbfile


@contextmanager
def written() -> Iterator[dict[str, Path]]:
    from hdmf_zarr_backend import convert

    with TemporaryDirectory() as name:
        folder = Path(name)
        files = {HDF5: folder / "sub-mouse1_ses-1.nwb"}
        with NWBHDF5IO(files[HDF5], "w") as io:
            io.write(session())
        for what, zarr_format in FORMATS.items():
            files[what] = folder / what / "sub-mouse1_ses-1.nwb.zarr"
            files[what].parent.mkdir()
            convert(files[HDF5], files[what], zarr_format=zarr_format)
        yield files


def report(client: str, task: str, file: str, work: Callable[[], Any]) -> None:
    """Do one piece of work and print a line of JSON about it: how it ended, and why."""
    if ONLY and task not in ONLY:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()
        problem = ""
    except Exception as error:  # noqa: BLE001 - whatever a client raises is a result
        problem = f"{type(error).__name__}: {str(error).strip()[:300] or 'no message'}"
        traceback.print_exc(file=sys.stderr)
    print(json.dumps({"client": client, "task": task, "file": file, "problem": problem}), flush=True)


def same(found: Any, wanted: Any) -> None:
    if not np.array_equal(found, wanted):
        raise AssertionError(f"{found!r} is not {wanted!r}")
