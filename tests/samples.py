"""Files for the tests: rich NWB files and HDMF trees, made in memory, the same in every run.

What is written in one test and read in another is made here. Nothing is random but from a seed, no time is the present
one; only object ids differ from call to call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.common import DynamicTable, VectorData, VectorIndex
from pynwb import NWBHDF5IO, NWBFile, TimeSeries
from pynwb.base import Images
from pynwb.behavior import Position, SpatialSeries
from pynwb.ecephys import LFP, ElectricalSeries
from pynwb.file import Subject
from pynwb.icephys import VoltageClampSeries, VoltageClampStimulusSeries
from pynwb.image import GrayscaleImage, ImageSeries, RGBImage
from pynwb.ophys import Fluorescence, ImageSegmentation, OpticalChannel, RoiResponseSeries, TwoPhotonSeries

from hdmf_zarr_backend import NWBZarrIO

START = datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone(timedelta(hours=-5)))
TEXTS = ["plain", "", "größer als ∑ 🐁", "two\nlines", "NaN"]

NUMBERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?")
"""Every kind of number that HDMF or NumPy has a Zarr type for."""


# ---- NWB -----------------------------------------------------------------------------------------------------------
def plain_nwbfile(identifier: str = "plain") -> NWBFile:
    words = TEXTS[:1] + TEXTS[2:]
    nwbfile = NWBFile("a small file", identifier, START, experimenter=["Ada, A.", "Jörg, J."], keywords=words)
    nwbfile.add_acquisition(
        TimeSeries(name="trace", data=np.arange(60, dtype="i2").reshape(20, 3), unit="m", rate=10.0, conversion=0.5)
    )
    return nwbfile


def rich_nwbfile(identifier: str = "rich", *, positions: bool = True) -> NWBFile:
    """Return a file with about everything that NWB users store.

    Electrodes, raw and filtered recordings, units, trials with ragged columns and references to time series, images,
    calcium imaging with pixel masks, intracellular recordings with their tables of references, behaviour, shared time
    stamps (links), a subject, text of all kinds, and columns of all types of numbers.

    ``positions``: with a row in one piece, which hdmf-zarr 0.13 cannot write.
    """
    nwbfile = plain_nwbfile(identifier)
    nwbfile.subject = Subject(
        subject_id="m1", age="P90D", species="Mus musculus", sex="F", date_of_birth=START - timedelta(days=90)
    )
    random = np.random.default_rng(7)
    _add_ecephys(nwbfile, random, positions=positions)
    _add_units(nwbfile, random)
    _add_trials(nwbfile)
    _add_images(nwbfile, random)
    _add_ophys(nwbfile, random)
    _add_icephys(nwbfile)
    _add_behaviour(nwbfile)
    _add_tables(nwbfile)
    nwbfile.add_scratch(np.arange(5.0), name="numbers", description="scratch numbers")
    return nwbfile


def _add_ecephys(nwbfile: NWBFile, random: np.random.Generator, *, positions: bool) -> None:
    device = nwbfile.create_device(name="probe", description="64 channels", manufacturer="nobody")
    places = [None, (1.5, 2.5, 1.0) if positions else None]
    shanks = [
        nwbfile.create_electrode_group(f"shank{i}", f"shank {i}", "CA1", device, position=places[i]) for i in range(2)
    ]
    nwbfile.add_electrode_column(name="label", description="a name")
    nwbfile.add_electrode_column(name="good", description="whether it works")
    for i in range(4):
        nwbfile.add_electrode(
            group=shanks[i % 2], location="CA1", x=float(i), y=0.0, z=-0.0, label=TEXTS[i], good=bool(i % 2)
        )
    region = nwbfile.create_electrode_table_region([0, 2, 3], "three electrodes")
    counts = random.integers(-500, 500, (300, 3), dtype="i2")
    factors = {"conversion": 1e-6, "channel_conversion": [1.0, 1.1, 0.9]}
    nwbfile.add_acquisition(ElectricalSeries(name="raw", data=counts, electrodes=region, rate=30000.0, **factors))
    again = nwbfile.create_electrode_table_region([0, 2, 3], "three electrodes")
    filtered, times = random.standard_normal((100, 3)).astype("f4"), np.linspace(0, 1, 100)
    series = ElectricalSeries(name="lfp", data=filtered, electrodes=again, timestamps=times)
    lfp = LFP()
    nwbfile.create_processing_module("ecephys", "filtered").add(lfp)
    lfp.add_electrical_series(series)


def _add_units(nwbfile: NWBFile, random: np.random.Generator) -> None:
    nwbfile.add_unit_column(name="quality", description="a word")
    nwbfile.add_unit_column(name="tags", description="several words", index=True)
    for i in range(5):
        nwbfile.add_unit(
            id=10 * i, spike_times=np.sort(random.random(3 * i)), obs_intervals=[[0.0, 1.0]] * (1 + i % 2),
            electrodes=[i % 4, (i + 1) % 4], electrode_group=nwbfile.electrode_groups[f"shank{i % 2}"],
            waveform_mean=random.standard_normal((6, 3)), quality=TEXTS[i], tags=TEXTS[: i % 4],
        )  # fmt: skip


def _add_trials(nwbfile: NWBFile) -> None:
    trace, raw = nwbfile.acquisition["trace"], nwbfile.acquisition["raw"]
    nwbfile.add_trial_column(name="stimulus", description="a word")
    nwbfile.add_trial_column(name="licks", description="times, ragged twice", index=2)
    for i in range(4):
        licks, series = [[i + 0.25] * n for n in range(i)], [trace, raw][: 1 + i % 2]
        words = {"stimulus": TEXTS[i], "tags": TEXTS[:i] or ["none"]}
        nwbfile.add_trial(start_time=float(i), stop_time=i + 0.5, licks=licks, timeseries=series, **words)


def _add_images(nwbfile: NWBFile, random: np.random.Generator) -> None:
    images = [
        GrayscaleImage(name="grey", data=random.integers(0, 255, (7, 9), dtype="u1"), resolution=1.5),
        RGBImage(name="colour", data=random.integers(0, 255, (7, 9, 3), dtype="u1")),
    ]
    nwbfile.add_acquisition(Images(name="pictures", images=images, description="two"))
    files = {"external_file": ["a.avi", "b.avi"], "starting_frame": [0, 10], "format": "external"}
    nwbfile.add_stimulus(ImageSeries(name="film", num_samples=20, rate=25.0, unit="n.a.", **files))


def _add_ophys(nwbfile: NWBFile, random: np.random.Generator) -> None:
    device = nwbfile.create_device(name="microscope")
    channel = OpticalChannel(name="green", description="GFP", emission_lambda=510.0)
    plane = nwbfile.create_imaging_plane(
        name="plane", optical_channel=channel, description="a plane", device=device, excitation_lambda=920.0,
        indicator="GCaMP", location="V1", imaging_rate=30.0, grid_spacing=[0.1, 0.2], grid_spacing_unit="micrometers",
    )  # fmt: skip
    frames = random.integers(0, 60000, (5, 8, 6), dtype="u2")
    film = TwoPhotonSeries(name="two_photon", data=frames, imaging_plane=plane, rate=30.0, unit="n.a.")
    nwbfile.add_acquisition(film)
    segmentation, fluorescence = ImageSegmentation(), Fluorescence()
    module = nwbfile.create_processing_module("ophys", "cells")
    module.add(segmentation)
    cells = segmentation.create_plane_segmentation(
        name="cells", description="rois", imaging_plane=plane, reference_images=film
    )
    for i in range(3):
        cells.add_roi(pixel_mask=[(j, j + 1, 0.5 * j) for j in range(i + 1)])
    rois = cells.create_roi_table_region(region=[0, 2], description="two")
    response = RoiResponseSeries(
        name="response", data=random.standard_normal((5, 2)), rois=rois, unit="n.a.", timestamps=np.arange(5) / 30
    )
    module.add(fluorescence)
    fluorescence.add_roi_response_series(response)


def _add_icephys(nwbfile: NWBFile) -> None:
    electrode = nwbfile.create_icephys_electrode(
        name="pipette", description="glass", device=nwbfile.devices["probe"], location="CA1", filtering="2 kHz"
    )
    rows = []
    for i in range(2):
        shared: dict[str, Any] = {"electrode": electrode, "gain": 0.02, "rate": 10000.0, "sweep_number": np.uint32(i)}
        stimulus = VoltageClampStimulusSeries(name=f"command{i}", data=np.linspace(0, 1, 9) + i, **shared)
        response = VoltageClampSeries(
            name=f"current{i}", data=np.arange(9, dtype="i2") * i, conversion=1e-12, capacitance_fast=1e-12, **shared
        )
        nwbfile.add_stimulus(stimulus)
        nwbfile.add_acquisition(response)
        row = nwbfile.add_intracellular_recording(
            electrode=electrode, stimulus=stimulus, response=response, stimulus_start_index=0, stimulus_index_count=3,
            response_start_index=1, response_index_count=2,
        )  # fmt: skip
        rows.append(row)
    simultaneous = nwbfile.add_icephys_simultaneous_recording(recordings=rows)
    sequential = nwbfile.add_icephys_sequential_recording(
        simultaneous_recordings=[simultaneous], stimulus_type="square"
    )
    repetition = nwbfile.add_icephys_repetition(sequential_recordings=[sequential])
    nwbfile.add_icephys_experimental_condition(repetitions=[repetition])


def _add_behaviour(nwbfile: NWBFile) -> None:
    lfp = nwbfile.processing["ecephys"]["LFP"]["lfp"]
    track = SpatialSeries(
        name="track", data=np.arange(200.0).reshape(100, 2), timestamps=lfp, reference_frame="corner", unit="m"
    )
    nwbfile.create_processing_module("behavior", "where it went").add(Position(spatial_series=track))


def _add_tables(nwbfile: NWBFile) -> None:
    columns = [
        VectorData(name=f"column_{code}", description=code, data=np.array([0, 1, 2, 3, 4]).astype(code))
        for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?")
    ]
    columns.append(VectorData(name="text", description="text", data=list(TEXTS)))
    columns.append(VectorData(name="times", description="text of dates", data=[START.isoformat()] * 5))
    columns.append(VectorData(name="matrix", description="2-D", data=np.arange(10.0).reshape(5, 2)))
    ragged = VectorData(name="ragged", description="ragged text", data=[*TEXTS, *TEXTS])
    index = VectorIndex(name="ragged_index", target=ragged, data=np.array([1, 1, 4, 6, 10], "u8"))
    columns += [ragged, index]
    nwbfile.add_analysis(DynamicTable(name="columns", description="all types", columns=columns, id=list(range(5))))
    module = nwbfile.create_processing_module("tables", "of references")
    trace = nwbfile.acquisition["trace"]
    objects = VectorData(name="objects", description="references", data=[trace, trace, nwbfile.acquisition["raw"]])
    module.add(DynamicTable(name="references", description="by reference", columns=[objects], id=[0, 1, 2]))


def write_hdf5(path: Path, nwbfile: NWBFile | None = None) -> Path:
    with NWBHDF5IO(path, "w") as io:
        io.write(nwbfile or rich_nwbfile())
    return path


def write_zarr(path: Path, nwbfile: NWBFile | None = None, **options: Any) -> Path:
    with NWBZarrIO(path, "w", **options) as io:
        io.write(nwbfile or rich_nwbfile())
    return path


def read_zarr(path: Any, mode: str = "r", **options: Any) -> NWBFile:
    """Return the file at ``path``; options as of `NWBZarrIO`."""
    with NWBZarrIO(path, mode, **options) as io:
        return io.read()


@contextmanager
def edit_zarr(path: Any, mode: str = "r+", **options: Any) -> Iterator[NWBFile]:
    """Give the file at ``path``, which is written at the end of the block."""
    with NWBZarrIO(path, mode, **options) as io:
        nwbfile = io.read()
        yield nwbfile
        io.write(nwbfile)


# ---- builders ------------------------------------------------------------------------------------------------------
def number_values(code: str) -> np.ndarray[Any, Any]:
    """Return values of one type of number that are easily spoiled: the smallest, the largest, NaN, -0.0."""
    dtype = np.dtype(code)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, 0, 1, limits.max], dtype)
    if dtype.kind == "b":
        return np.array([True, False, True, True])
    values = np.array([np.nan, -0.0, np.inf, np.finfo(dtype).max], dtype)
    if dtype.kind == "c":
        values.imag = [1, -2, np.nan, 0]
    return values


def dataset_builders() -> dict[str, DatasetBuilder]:
    """Return a dataset of every kind that HDMF can build, but for references, by name."""
    data: dict[str, tuple[Any, Any]] = {}
    for code in NUMBERS:
        values = number_values(code)
        dtype_name = values.dtype.name
        data[f"array_{dtype_name}"] = (values, dtype_name)
        data[f"matrix_{dtype_name}"] = (np.stack([values, values[::-1]]), dtype_name)
        data[f"scalar_{dtype_name}"] = (values[-1], dtype_name)
        data[f"empty_{dtype_name}"] = (values[:0], dtype_name)
    data["big_endian"] = (np.arange(3, dtype=">i4"), "int32")
    data["python_ints"] = ([1, 2, 3], "int")
    data["python_floats"] = ([1.5, 2.5], "float")
    data["python_bools"] = ([True, False], "bool")
    data["texts"] = (list(TEXTS), "utf8")
    data["text_matrix"] = ([TEXTS[:2], TEXTS[2:4]], "text")
    data["no_texts"] = (np.empty(0, object), "utf8")
    data["text"] = (TEXTS[2], "utf8")
    data["ascii"] = ([b"one", b"two"], "ascii")
    data["times"] = ([START.isoformat(), START.isoformat()], "isodatetime")
    data["time"] = (START.isoformat(), "isodatetime")
    rows = np.array([(1, 2.5, True), (-3, np.nan, False)], dtype=[("a", "i2"), ("b", "f8"), ("c", "?")])
    fields = [{"name": "a", "dtype": "int16"}, {"name": "b", "dtype": "float64"}, {"name": "c", "dtype": "bool"}]
    data["rows"] = (rows, fields)
    data["text_rows"] = (
        [(1, TEXTS[2]), (2, "")],
        [{"name": "number", "dtype": "int32"}, {"name": "text", "dtype": "utf8"}],
    )
    return {name: DatasetBuilder(name=name, data=values, dtype=dtype) for name, (values, dtype) in data.items()}


def attribute_values() -> dict[str, Any]:
    """Return an attribute of every kind that HDMF can build, but for references, by name."""
    values: dict[str, Any] = {}
    for code in NUMBERS:
        numbers = number_values(code)
        values[f"array_{numbers.dtype.name}"] = numbers
        values[f"scalar_{numbers.dtype.name}"] = numbers[-1]
    values["python_int"] = 2**53 + 1
    values["python_float"] = 0.1
    values["not_a_number"] = float("nan")
    values["python_bool"] = True
    values["text"] = TEXTS[2]
    values["texts"] = np.array(TEXTS, dtype=object)
    values["empty_numbers"] = np.empty(0, "f4")
    return values


def reference_tree() -> GroupBuilder:
    """Return a tree with references and links of all kinds that HDMF can build, in circles too.

    ``/target/values`` is a dataset, ``/inner/deep`` refers and links to its ancestors and to the root.
    """
    values = DatasetBuilder(name="values", data=np.arange(4), dtype="int64", attributes={"object_id": "values-id"})
    target = GroupBuilder(name="target", datasets={"values": values}, attributes={"object_id": "target-id"})
    deep = GroupBuilder(name="deep")
    inner = GroupBuilder(name="inner", groups={"deep": deep})
    root = GroupBuilder(name="root", groups={"target": target, "inner": inner}, attributes={"object_id": "root-id"})
    for name, builder in {"to_root": root, "to_parent": inner, "to_group": target, "to_dataset": values}.items():
        deep.set_attribute(name, ReferenceBuilder(builder))
    deep.set_attribute("to_itself", ReferenceBuilder(deep))
    deep.set_attribute("to_several", [ReferenceBuilder(target), ReferenceBuilder(values)])
    both = [ReferenceBuilder(target), ReferenceBuilder(root), ReferenceBuilder(target)]
    deep.set_dataset(DatasetBuilder(name="references", data=both, dtype="object"))
    deep.set_dataset(DatasetBuilder(name="reference_matrix", data=[both[:2], both[1:]], dtype="object"))
    deep.set_dataset(DatasetBuilder(name="reference", data=ReferenceBuilder(values), dtype="object"))
    fields = [{"name": "start", "dtype": "int32"}, {"name": "to", "dtype": "object"}, {"name": "text", "dtype": "utf8"}]
    rows = [(0, both[0], "a"), (1, both[1], TEXTS[2])]
    deep.set_dataset(DatasetBuilder(name="rows", data=rows, dtype=fields))
    deep.set_link(LinkBuilder(builder=inner, name="link_to_parent"))
    deep.set_link(LinkBuilder(builder=values, name="link_to_dataset"))
    root.set_link(LinkBuilder(builder=values, name="link_in_the_root"))
    return root
