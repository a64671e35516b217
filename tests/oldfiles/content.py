"""The NWB files that every writer of `tests.oldfiles` writes. It runs with old releases, without this project.

``python content.py WRITER FOLDER [FORMAT]`` writes them; the function of this name is below.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pynwb
from hdmf.common import DynamicTable, VectorData
from hdmf.data_utils import DataChunkIterator
from pynwb import NWBHDF5IO, NWBFile, TimeSeries
from pynwb.file import Subject
from pynwb.image import GrayscaleImage, Images
from pynwb.ophys import ImageSegmentation, OpticalChannel
from pynwb.spec import NWBAttributeSpec, NWBGroupSpec, NWBNamespaceBuilder

START = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
SESSION = "Sitzung in Zürich"
KEYWORDS = ["alpha", "µ", ""]
RATES = [[1, 2], [3, -4], [32767, -32768]]
TIMES = [0.5, 1.5, 2.5]
LARGE = np.arange(1200, dtype="i4").reshape(60, 20)
GROWN = np.arange(30, dtype="f4").reshape(10, 3)
IMAGE = np.arange(12, dtype="u1").reshape(3, 4)
LOCATIONS = ["CA1", "CA3", "gyrus dentatus µ"]
IMPEDANCES = [1.5, float("nan"), float("-inf")]
GOOD = [True, False, True]
SPIKES = [[0.25, 0.5], [], [0.125, 1.0, 2.0]]
SPANS = [(0, 2), (1, 1)]
PIXELS = [[[1, 2, 1.0], [3, 4, 0.5]], [[5, 6, 0.25]]]
GAIN = 0.75
EXTENSION = "oldlab"


def extension():
    """Return a class of a small extension, which is in the file only: no reader has it installed."""
    with tempfile.TemporaryDirectory() as folder:
        builder = NWBNamespaceBuilder("an extension", EXTENSION, version="0.1.0", author="nobody", contact="a@b.org")
        builder.include_type("TimeSeries", namespace="core")
        gain = NWBAttributeSpec("gain", "a factor", "float64")
        builder.add_spec(
            f"{EXTENSION}.extensions.yaml",
            NWBGroupSpec("a reading", neurodata_type_def="Reading", neurodata_type_inc="TimeSeries", attributes=[gain]),
        )
        builder.export(f"{EXTENSION}.namespace.yaml", outdir=folder)
        pynwb.load_namespaces(str(Path(folder) / f"{EXTENSION}.namespace.yaml"))
    return pynwb.get_class("Reading", EXTENSION)


def content(chunked):
    nwbfile = NWBFile(
        session_description=SESSION,
        identifier="old-file",
        session_start_time=START,
        keywords=KEYWORDS,
        subject=Subject(subject_id="s1", species="Mus musculus", age="P10D", date_of_birth=START),
    )
    first = TimeSeries(name="first", data=np.array(RATES, "i2"), unit="mV", timestamps=np.array(TIMES), conversion=0.5)
    nwbfile.add_acquisition(first)
    nwbfile.add_acquisition(TimeSeries(name="linked", data=np.arange(3.0), unit="V", timestamps=first))
    nwbfile.add_acquisition(TimeSeries(name="large", data=chunked(LARGE, (25, 20)), unit="V", rate=10.0))
    grown = DataChunkIterator(data=iter(GROWN), buffer_size=4)
    nwbfile.add_acquisition(TimeSeries(name="grown", data=grown, unit="V", rate=10.0, starting_time=2.0))
    nwbfile.add_acquisition(extension()(name="extended", data=np.arange(4), unit="V", rate=1.0, gain=GAIN))
    nwbfile.add_acquisition(Images(name="images", images=[GrayscaleImage(name="image", data=IMAGE)]))
    device = nwbfile.create_device(name="probe")
    group = nwbfile.create_electrode_group(name="shank", description="one", location="CA", device=device)
    nwbfile.add_electrode_column("good", "a flag")
    for location, impedance, good in zip(LOCATIONS, IMPEDANCES, GOOD, strict=True):
        nwbfile.add_electrode(location=location, group=group, imp=impedance, good=good)
    for spikes in SPIKES:
        nwbfile.add_unit(spike_times=np.array(spikes, "f8"), electrodes=[0, 2])
    nwbfile.add_trial(start_time=0.5, stop_time=2.0, timeseries=[first])
    nwbfile.add_trial(start_time=1.5, stop_time=2.0, timeseries=[first])
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


def linking(nwbfile):
    first = nwbfile.acquisition["first"]
    other = NWBFile(session_description="links", identifier="linking", session_start_time=START)
    other.add_acquisition(TimeSeries(name="outside", data=np.arange(3, dtype="i8"), unit="V", timestamps=first))
    return other


def in_zarr(io_class, data_io, folder, *, alone=False, **options):
    nwbfile = content(lambda data, chunks: data_io(data=data, chunks=chunks))  # first: it loads the extension
    with io_class(str(folder / "old.nwb.zarr"), mode="w", **options) as io:
        io.write(nwbfile)
    if alone:
        return
    with (
        io_class(str(folder / "old.nwb.zarr"), mode="r") as source,
        io_class(str(folder / "linking.nwb.zarr"), mode="w", manager=source.manager, **options) as io,
    ):
        io.write(linking(source.read()), cache_spec=False)


def hdmf_zarr(folder, alone=""):
    """Write both files, or the first one only: hdmf-zarr 0.1 cannot read what it wrote from an iterator."""
    from hdmf_zarr import NWBZarrIO, ZarrDataIO

    in_zarr(NWBZarrIO, ZarrDataIO, folder, alone=bool(alone))


def hdmf_zarr_backend(folder, zarr_format):
    from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

    in_zarr(NWBZarrIO, ZarrDataIO, folder, zarr_format="both" if zarr_format == "both" else int(zarr_format))


def lindi(folder):
    """Write the first in HDF5, and references to it."""
    import h5py
    from lindi import LindiH5ZarrStore
    from pynwb import H5DataIO

    nwbfile = content(lambda data, chunks: H5DataIO(data, chunks=chunks, compression="gzip"))
    with NWBHDF5IO(str(folder / "old.nwb"), mode="w") as io:
        io.write(nwbfile, cache_spec=False)
    cached = folder / "cached.nwb"
    with NWBHDF5IO(str(cached), mode="w") as io:
        io.write(NWBFile(session_description="", identifier="", session_start_time=START))
    with h5py.File(cached, "r") as source, h5py.File(folder / "old.nwb", "a") as target:
        for name in ("hdmf-common", "hdmf-experimental", EXTENSION):  # those of NWB would be most of what is kept
            source.copy(f"specifications/{name}", target.require_group("specifications"))
        target.attrs[".specloc"] = target["specifications"].ref
    cached.unlink()
    with LindiH5ZarrStore.from_file(str(folder / "old.nwb"), url="old.nwb") as store:
        store.write_reference_file_system(str(folder / "old.lindi.json"))


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
