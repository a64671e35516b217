"""Extensions of NWB: what they write is read as it was, with the extension and without it; and pynapple."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from ndx_events import EventsTable, TimestampVectorData
from ndx_hed import HedTags
from ndx_miniscope import Miniscope
from ndx_ophys_devices import OpticalFiber, OpticalFiberModel, StereotacticPosition
from ndx_pose import PoseEstimation, PoseEstimationSeries
from pynwb import NWBFile

from hdmf_zarr_backend import NWBZarrIO
from tests.clients.work import FORMATS, report, same, session

POSE = np.arange(20.0).reshape(10, 2)
_WITHOUT = """
import sys
for name in ("ndx_pose", "ndx_events", "ndx_hed", "ndx_miniscope", "ndx_ophys_devices"):
    sys.modules[name] = None
from hdmf_zarr_backend import NWBZarrIO
with NWBZarrIO(sys.argv[1], "r") as io:
    found = io.read()
    pose = found.processing["behavior"]["pose"].pose_estimation_series["nose"].data[:].sum()
    print(pose, found.devices["miniscope"].ROI[:].sum(), found.devices["fiber"].fiber_insertion.z_in_mm)
"""
EXTENSIONS = "ndx-pose, ndx-events, ndx-hed, ndx-miniscope, ndx-ophys-devices"


def extended() -> NWBFile:
    nwbfile = session()
    nose = PoseEstimationSeries(
        name="nose", description="the nose", data=POSE, unit="pixels", reference_frame="the corner", rate=10.0,
        confidence=np.ones(10), confidence_definition="a guess",
    )  # fmt: skip
    behavior = nwbfile.create_processing_module("behavior", "what the mouse does")
    behavior.add(PoseEstimation(name="pose", pose_estimation_series=[nose], description="where it is"))
    events = EventsTable(
        name="licks", description="when it licks", columns=[TimestampVectorData(name="timestamp", description="when")]
    )
    events.add_row(timestamp=0.5)
    behavior.add(events)
    nwbfile.trials.add_column("HED", "tags", col_cls=HedTags, data=["Sensory-event", "Agent-action"])
    nwbfile.add_device(Miniscope(name="miniscope", compression="GREY", frameRate="30FPS", gain="high", ROI=[608, 608]))
    model = OpticalFiberModel(name="fiber model", manufacturer="a maker", numerical_aperture=0.5)
    nwbfile.add_device_model(model)
    insertion = StereotacticPosition(
        name="fiber_insertion", anatomical_target="CA1", origin="bregma", orientation="RAS", x_in_mm=1.0, y_in_mm=-2.0,
        z_in_mm=2.5,
    )  # fmt: skip
    nwbfile.add_device(OpticalFiber(name="fiber", model=model, fiber_insertion=insertion))
    return nwbfile


def compare(path: Path) -> None:
    with NWBZarrIO(path, "r") as io:
        found = io.read()
        behavior = found.processing["behavior"]
        same(behavior["pose"].pose_estimation_series["nose"].data[:], POSE)
        same(behavior["licks"]["timestamp"][:], [0.5])
        same(list(found.trials["HED"][:]), ["Sensory-event", "Agent-action"])
        same(found.devices["miniscope"].ROI[:], [608, 608])
        fiber = found.devices["fiber"]
        same(fiber.fiber_insertion.z_in_mm, 2.5)
        same(fiber.model.numerical_aperture, 0.5)


def without(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _WITHOUT, path], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    same([float(part) for part in done.stdout.split()], [POSE.sum(), 1216, 2.5])


def pynapple(path: Path) -> None:
    import pynapple as nap

    with NWBZarrIO(path, "r") as io:
        found = nap.NWBFile(io.read())
        same(len(found["units"]), 3)
        same(found["ElectricalSeries"].shape, (3000, 4))


def main() -> None:
    with TemporaryDirectory() as folder:
        for what, zarr_format in FORMATS.items():
            path = Path(folder) / f"{zarr_format}.nwb.zarr"
            with NWBZarrIO(path, "w", zarr_format=zarr_format) as io:
                io.write(extended())
            report(EXTENSIONS, "read with the extensions", what, partial(compare, path))
            report(EXTENSIONS, "read without them", what, partial(without, path))
            report("pynapple", "NWBFile(...)", what, partial(pynapple, path))


if __name__ == "__main__":
    main()
