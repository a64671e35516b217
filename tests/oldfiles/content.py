"""The NWB file that every writer of `tests.oldfiles` writes. Runs with old releases: it imports nothing of the project.

``python content.py CLASS TARGET`` writes it; ``CLASS`` is ``module:name`` of the class that writes NWB in Zarr.
"""

import sys
from datetime import UTC, datetime
from importlib import import_module

import numpy as np
from hdmf.common import DynamicTable, VectorData
from pynwb import NWBFile, TimeSeries
from pynwb.ophys import ImageSegmentation, OpticalChannel

START = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
SESSION = "Sitzung in Zürich"
RATES = [[1, 2], [3, -4], [32767, -32768]]
TIMES = [0.5, 1.5, 2.5]
LOCATIONS = ["CA1", "CA3", "gyrus dentatus µ"]
SPIKES = [[0.25, 0.5], [], [0.125, 1.0, 2.0]]
PIXELS = [[[1, 2, 1.0], [3, 4, 0.5]], [[5, 6, 0.25]]]


def content():
    """Return the file."""
    nwbfile = NWBFile(session_description=SESSION, identifier="old-file", session_start_time=START)
    first = TimeSeries(name="first", data=np.array(RATES, "i2"), unit="mV", timestamps=np.array(TIMES))
    nwbfile.add_acquisition(first)
    nwbfile.add_acquisition(TimeSeries(name="linked", data=np.arange(3.0), unit="V", timestamps=first))
    device = nwbfile.create_device(name="probe")
    group = nwbfile.create_electrode_group(name="shank", description="one", location="CA", device=device)
    for location in LOCATIONS:
        nwbfile.add_electrode(location=location, group=group)
    for spikes in SPIKES:
        nwbfile.add_unit(spike_times=np.array(spikes, "f8"))
    column = VectorData(name="target", description="references", data=[group, first])
    nwbfile.add_scratch(DynamicTable(name="targets", description="references", columns=[column]))
    channel = OpticalChannel(name="green", description="one", emission_lambda=500.0)
    plane = nwbfile.create_imaging_plane(
        name="plane",
        optical_channel=channel,
        description="one",
        device=device,
        excitation_lambda=600.0,
        indicator="GFP",
        location="V1",
    )
    module = nwbfile.create_processing_module(name="ophys", description="planes")
    segmentation = ImageSegmentation(name="segmentation")
    module.add(segmentation)
    cells = segmentation.create_plane_segmentation(name="cells", description="cells", imaging_plane=plane)
    for pixels in PIXELS:
        cells.add_roi(pixel_mask=[tuple(pixel) for pixel in pixels])
    return nwbfile


if __name__ == "__main__":
    module_name, class_name = sys.argv[1].split(":")
    with getattr(import_module(module_name), class_name)(sys.argv[2], mode="w") as io:
        io.write(content(), cache_spec=False)
