"""The data on the page of `zarrio report`: known values are seen, little is read, and what is odd is a remark."""

import ast
import base64
import inspect
import json
import re
import warnings
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pynwb import H5DataIO, NWBFile, TimeSeries
from pynwb.base import Images, TimeSeriesReference
from pynwb.ecephys import ElectricalSeries, SpikeEventSeries
from pynwb.file import Subject
from pynwb.image import GrayscaleImage, ImageSeries, RGBImage
from pynwb.misc import AnnotationSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, compare, convert, read_nwb, report, validate
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import UnsupportedFileError
from hdmf_zarr_backend.model.render import UNICODE
from hdmf_zarr_backend.reporting import data as data_module
from tests.documents import change_attributes
from tests.report.test_page import Page
from tests.samples import START, write_hdf5, write_zarr
from tests.servers import WebServer
from tests.trees import dataset, group, root, write_builder
from tests.watching import listening


def mouse() -> Subject:
    return Subject(subject_id="m", age="P90D", sex="F", species="Mus musculus")


def nwbfile_with(*series: Any, start: datetime = START, subject: Subject | None = None) -> NWBFile:
    nwbfile = NWBFile("data", "data", start, subject=subject)
    for each in series:
        nwbfile.add_acquisition(each)
    return nwbfile


def series(name: str = "a", data: Any = (0.5, -2.0, 3.0), unit: str = "V", **times: Any) -> TimeSeries:
    return TimeSeries(name=name, data=data, unit=unit, **(times or {"rate": 10.0}))


def data_text(path: Path | str) -> str:
    text = report(path, check=False)
    Page(text)
    part = text[text.index("</h1>") : text.index("<h2>File</h2>")]
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", part).split()))


def remarks(nwbfile: NWBFile, tmp_path: Path) -> str:
    text = report(write_zarr(tmp_path / "a.nwb.zarr", nwbfile), check=False)
    box = re.search(r'<div class="remarks">.*?</div>', text)
    return "" if box is None else unescape(" ".join(re.sub(r"<[^>]*>", " ", box[0]).split()))


def pixels(text: str, kind: str, channels: int = 1) -> np.ndarray[Any, Any]:
    found = re.search(
        rf'<img class="{kind}" alt="[^"]*" width="(\d+)" height="(\d+)" src="data:image/png;base64,([^"]*)"', text
    )
    assert found is not None
    width, height, data = int(found[1]), int(found[2]), base64.b64decode(found[3])
    size = int.from_bytes(data[33:37], "big")
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + size]), "u1").reshape(height, 1 + width * channels)
    return lines[:, 1:].reshape(height, width, channels)


def test_an_envelope_has_the_extremes_of_each_channel(tmp_path: Path, zarr_format: int) -> None:
    data = np.zeros((10_000, 4), "i2")
    data[1234, 0], data[8000, 0], data[5000, 1] = 700, -300, 90
    one = TimeSeries(name="a", data=ZarrDataIO(data, chunks=(1000, 4)), unit="V", rate=20.0, conversion=0.5, offset=1.0)
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(one), zarr_format=zarr_format)
    text = data_text(path)
    assert f"TimeSeries, 20 Hz, 8 min 20 s, 10,000 {UNICODE.times} 4 int16" in text
    assert "channel 0: -149 to 351 V channel 1: 1 to 46 V channel 2: 1 to 1 V" in text
    assert "0 s 3 of 4 channels 500 s" in text
    drawn = re.findall(r'class="read" d="([^"]*)"', report(path, check=False))
    assert len(drawn) == 3
    assert sum(each.count("L") for each in drawn) <= 620


@pytest.mark.filterwarnings("ignore:AnnotationSeries is deprecated", "ignore:SpikeEventSeries 'one'")
def test_waveforms_are_read_whole_and_each_channel_has_its_conversion(tmp_path: Path) -> None:
    nwbfile = nwbfile_with(subject=mouse())
    device = nwbfile.create_device("probe")
    place = nwbfile.create_electrode_group("shank", description="", location="CA1", device=device)
    for _ in range(2):
        nwbfile.add_electrode(group=place, location="CA1")
    rows = nwbfile.create_electrode_table_region([0, 1], "both")
    waveforms = np.arange(1, 25).reshape(3, 2, 4)
    events = SpikeEventSeries(name="events", data=waveforms, timestamps=[0.0, 1.0, 7.0], electrodes=rows)
    row = nwbfile.create_electrode_table_region([0], "one")
    one = SpikeEventSeries(name="one", data=waveforms[:, 0] + 60, timestamps=[0.0, 1.0, 7.0], electrodes=row)
    raw = ElectricalSeries(
        name="raw", data=waveforms[..., 0], electrodes=rows, rate=1.0, conversion=2.0, channel_conversion=[0.5, -1.0]
    )
    for each in (events, one, raw, AnnotationSeries(name="notes", data=["a", "b", "c"], timestamps=[0.0, 1.0, 7.0])):
        nwbfile.add_acquisition(each)
    text = data_text(write_zarr(tmp_path / "a.nwb.zarr", nwbfile))
    assert "channel 0: 1 to 20 volts channel 1: 5 to 24 volts" in text
    assert " 4 int64 61 to 80 volts" in text
    assert "channel 0: 1 to 17 volts channel 1: -42 to -10 volts" in text
    assert "Remarks" not in text


def test_of_a_long_series_some_chunks_are_read_and_the_page_says_which(tmp_path: Path) -> None:
    data = np.arange(8_000_000, dtype="i4")
    nwbfile = nwbfile_with(series(data=ZarrDataIO(data, chunks=(100_000,))), subject=mouse())
    text = data_text(write_zarr(tmp_path / "a.nwb.zarr", nwbfile))
    assert "0 to 8e+06 V" in text
    read = re.search(r"([\d,]+) of 8,000,000 samples read; pale where none were", text)
    assert read is not None
    assert 0 < int(read[1].replace(",", "")) < 6_000_000
    amount = re.search(r"([\d.]+) MB of values were read for this page, of at most 64 MB", text)
    assert amount is not None
    assert float(amount[1]) < 40


def test_chunks_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    data = np.zeros(20_000_000, "i4")
    nwbfile = nwbfile_with(series(data=ZarrDataIO(data, chunks=data.shape)))
    text = data_text(write_zarr(tmp_path / "a.nwb.zarr", nwbfile))
    assert "not drawn" in text
    assert re.search(r"\d B of values were read", text)


def test_a_damaged_chunk_is_a_remark_and_the_rest_is_drawn(tmp_path: Path) -> None:
    one = series(data=ZarrDataIO(np.arange(1000.0), chunks=(100,)))
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(one))
    (path / "acquisition" / "a" / "data" / "3").write_bytes(b"damaged")
    text = data_text(path)
    assert "values cannot be read : /acquisition/a/data" in text
    assert "0 to 999 V" in text
    assert "900 of 1,000 samples read" in text


def test_spikes_are_counted(tmp_path: Path) -> None:
    nwbfile = nwbfile_with(subject=mouse())
    for times in ([0.0, 1.0, 1.001, 300.0], [], [299.5, 300.0]):
        nwbfile.add_unit(spike_times=times)
    text = report(write_zarr(tmp_path / "a.nwb.zarr", nwbfile), check=False)
    assert "3 units, 6 spikes, 0 to 4 in a unit, median 2" in text
    assert "<b>units have no spikes</b>: /units, 1 of 3" in text
    strength = pixels(text, "raster", 4)[..., 3]
    assert strength.shape == (3, 300)
    assert np.flatnonzero(strength[0]).tolist() == [0, 1, 299]
    assert strength[0, 1] == 255 == strength[2, 299]
    assert not strength[1].any()


def test_images_and_first_frames_are_drawn(tmp_path: Path) -> None:
    frames = np.zeros((3, 20, 10), "u2")
    frames[0, 15, 2] = 1000  # x, y
    grey = GrayscaleImage(name="grey", data=np.arange(12.0).reshape(3, 4))
    colours = np.arange(60, dtype="u1").reshape(4, 5, 3)
    film = {"external_file": ["film.avi", "film2.avi", "film3.avi"], "starting_frame": [0, 1, 2], "format": "external"}
    nwbfile = nwbfile_with(
        ImageSeries(name="frames", data=frames, unit="n.a.", rate=30.0),
        ImageSeries(name="film", unit="n.a.", timestamps=[0.0, 1.0], **film),
    )
    nwbfile.add_acquisition(Images(name="images", images=[grey]))
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    text = report(path, check=False)
    assert "frames are in film.avi and 2 more files" in text
    convert(path, tmp_path / "a.nwb")
    with h5py.File(tmp_path / "a.nwb", "r+") as file:  # some programs write a frame in its place
        del file["acquisition/film/data"]
        file["acquisition/film/data"] = np.zeros((1, 4, 4))
    page = data_text(tmp_path / "a.nwb")
    assert "film ImageSeries, about 1 Hz, 1 s frames are in film.avi and 2 more files" in page
    assert "differ in length" not in page
    frame = pixels(text, "frame")[..., 0]
    assert frame.shape == (10, 20)
    assert np.argwhere(frame).tolist() == [[2, 15]]
    other = nwbfile_with()
    other.add_acquisition(Images(name="images", images=[RGBImage(name="colours", data=colours)]))
    text = report(write_zarr(tmp_path / "b.nwb.zarr", other), check=False)
    assert (pixels(text, "frame", 3) == colours).all()


def test_tables_have_first_rows_and_what_columns_are(tmp_path: Path) -> None:
    nwbfile = nwbfile_with()
    nwbfile.add_trial_column("answer", "what was <said>")
    nwbfile.add_trial_column("licks", "times", index=True)
    for number in range(8):
        nwbfile.add_trial(
            start_time=float(number), stop_time=number + 0.5, answer=f"<b>{number}", licks=[0.25] * number
        )
    text = report(write_zarr(tmp_path / "a.nwb.zarr", nwbfile), check=False)
    assert "TimeIntervals, first 5 of 8 rows" in text
    assert "<tr><td>2</td><td>2.5</td><td>&lt;b&gt;2</td><td>[0.25, 0.25]</td></tr>" in text
    assert "&lt;b&gt;5" not in text
    assert re.search(r"<li><b>answer</b> [^:<]*: what was &lt;said&gt;</li>", text)


def test_ids_that_repeat_and_references_out_of_a_series_are_remarks(tmp_path: Path) -> None:
    raw = series("raw", np.arange(10.0))
    nwbfile = nwbfile_with(raw)
    for number in (1, 2, 2):
        nwbfile.add_trial(start_time=0.0, stop_time=0.5, timeseries=[raw], id=number)
    references = nwbfile.trials["timeseries"].target.data
    references[:] = [TimeSeriesReference(*each, raw) for each in ((0, 10), (8, 3), (-1, -1))]
    text = remarks(nwbfile, tmp_path)
    assert "[(0, 10, /acquisition/raw)]" in data_text(tmp_path / "a.nwb.zarr")
    assert "ids of rows repeat : /intervals/trials, 1 of 3" in text
    assert "references to samples that the series does not have : /intervals/trials, 1 of 3" in text


def test_the_rate_of_rounded_times_is_that_of_all_and_linked_data_have_the_unit_of_their_target(tmp_path: Path) -> None:
    times = np.round(np.arange(1000) / 30.12, 3)
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(series(data=times, timestamps=times)))
    assert "TimeSeries, about 30.12 Hz" in data_text(path)
    own = series("own", rate=1.0)
    text = data_text(write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(own, series("linked", own, "ignored", rate=2.0))))
    assert text.count("-2 to 3 V") == 2


@pytest.mark.parametrize(("times", "said"), [
    ([(0.0, np.nan), (1.0, np.nan)], "intervals have no stop time : /intervals/trials, 2 of 2"),
    ([(0.0, 1.0), (2.0, 1.5), (3.0, np.nan)], "intervals stop before they start : /intervals/trials, 1 of 3"),
    ([(0.0, 1.0), (2.0, np.nan)], "intervals have no stop time : /intervals/trials, 1 of 2"),
    ([(0.0, 1.0), (2.0, 3.0)], ""),
])  # fmt: skip
def test_what_is_odd_in_intervals_is_a_remark(times: list[tuple[float, float]], said: str, tmp_path: Path) -> None:
    nwbfile = nwbfile_with(subject=mouse())
    for start, stop in times:
        nwbfile.add_trial(start_time=start, stop_time=stop)
    text = remarks(nwbfile, tmp_path)
    assert said in text if said else text == ""


STAMPS = np.arange(50) / 10
JITTER = np.sin(np.arange(600) ** 2) / 600
EARLY = "times are negative, before the session starts"


@pytest.mark.parametrize(("series_of", "said"), [
    (lambda: series(timestamps=[2.0, 1.0, 3.0]), "timestamps are not in order : /acquisition/a, 1 step back"),
    (lambda: series(timestamps=[0.0, 1.0, 7.0]),
     "timestamps are irregular : /acquisition/a, median step 3.5 s (about 0.2857 Hz), from 1 s to 6 s"),
    (lambda: series(timestamps=[-2.0, -1.0, 0.0]), f"{EARLY} : /acquisition/a, from -2 s"),
    (lambda: series(timestamps=[0.0, np.nan, 1.0]), "timestamps are not numbers : /acquisition/a, 1 of them"),
    (lambda: series(timestamps=[1.5e9, 1.5e9 + 1, 1.5e9 + 2]), "times are not seconds since the session start"),
    (lambda: series(data=STAMPS, timestamps=STAMPS + 20 * (STAMPS > 2)),
     "timestamps have gaps : /acquisition/a, 1 step longer than 1.5 times the median of 0.1 s, up to 20.1 s"),
    pytest.param(
        lambda: series(data=np.arange(600.0), timestamps=np.arange(600) / 30 + np.sin(np.arange(600) ** 2) / 3000), "",
        id="jitter",
    ),
    pytest.param(
        lambda: series(data=np.arange(600.0), timestamps=np.arange(600) / 30 + JITTER + 60 * (np.arange(600) > 300)),
        "median step 0.03333 s (about 30 Hz), from 0.03003 s to 60.03 s timestamps have gaps : /acquisition/a, 1 step ",
        id="a pause between jitter",
    ),
    (lambda: series(data=np.arange(4000.0), rate=0.001),
     "the series lasts longer than a month : /acquisition/a, 1,111 h 6 min 40 s"),
    (lambda: series(unit="unknown"), "the series has no unit : /acquisition/a"),
    (lambda: series(data=STAMPS, timestamps=STAMPS + 1.5e9 * (STAMPS == 2)),
     "some timestamps are not seconds since the session start : /acquisition/a, 1 of 50, such as 1.5e+09 s"),
    (lambda: series(data=[1.0, np.nan, np.inf, 2.0]),
     "values are not numbers (NaN or infinite) : /acquisition/a, 2 of 4 that were read"),
    (lambda: series(data=[2.0, 2.0]), "all values that were read are equal : /acquisition/a, 2 V"),
    (lambda: series(data=np.array([-35, 32739], "i2"), unit="volts"),
     "values are not plausible volts: is the conversion missing? : /acquisition/a, -35 to 32739 volts"),
    (lambda: series(starting_time=-4.0, rate=1.0), f"{EARLY} : /acquisition/a, from -4 s"),
    (lambda: series(data=STAMPS, timestamps=STAMPS), ""),
    (lambda: series(data=STAMPS, timestamps=np.round(STAMPS, 0)), "timestamps are irregular"),
])  # fmt: skip
def test_what_is_odd_in_a_series_is_a_remark(series_of: Callable[[], TimeSeries], said: str, tmp_path: Path) -> None:
    text = remarks(nwbfile_with(series_of(), subject=mouse()), tmp_path)
    assert text.startswith("Remarks") if said else text == ""
    assert said in text


@pytest.mark.parametrize(("unit", "is_unit"), [
    ("NA", False), ("n.a.", False), ("N/A", False), ("None", False), (" ", False), ("-", False),
    ("%", True), ("a.u.", True),
])  # fmt: skip
def test_what_is_written_for_no_unit_is_none(unit: str, is_unit: bool, tmp_path: Path) -> None:
    text = data_text(write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(series(unit=unit))))
    assert ("the series has no unit" in text, f"-2 to 3 {unit}" in text) == (not is_unit, is_unit)


def test_samples_are_drawn_at_their_times(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(series(timestamps=[0.0, 1.0, 7.0])))
    drawn = re.findall(r'class="read" d="M([\d.]+)', report(path, check=False))
    assert [float(start) for start in drawn] == [0, 300 // 7, 299]


def test_as_many_channels_as_electrodes_are_expected(tmp_path: Path) -> None:
    nwbfile = nwbfile_with(subject=mouse())
    place = nwbfile.create_electrode_group("g", description="", location="CA1", device=nwbfile.create_device("probe"))
    for _ in range(3):
        nwbfile.add_electrode(group=place, location="CA1")
    rows = nwbfile.create_electrode_table_region([0, 1, 2], "all")
    with pytest.warns(UserWarning, match="electrodes"):
        raw = ElectricalSeries(name="raw", data=np.arange(8).reshape(4, 2), electrodes=rows, rate=1.0)
    nwbfile.add_acquisition(raw)
    assert "channels and electrodes differ in number : /acquisition/raw, 2 and 3" in remarks(nwbfile, tmp_path)


def test_a_rate_of_zero_is_a_remark_and_a_file_that_pynwb_cannot_read_has_a_page(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(series()))
    (path / ".zmetadata").unlink()
    document = path / "acquisition" / "a" / "starting_time" / ".zattrs"
    document.write_text(document.read_text().replace("10.0", "0.0"))
    text = data_text(path)
    assert "the rate is not above 0 : /acquisition/a, 0.0" in text
    assert "TimeSeries, no rate, 3 float64" in text
    for name in ("identifier", "session_description"):
        (path / name / "0").unlink()
        (path / name / ".zarray").unlink()
    assert "-2 to 3 V" in data_text(path)


@pytest.mark.parametrize(("key", "name", "value"), [
    *(("a/data", name, value) for name in ("conversion", "offset")
      for value in (10**30, 10**400, float("nan"), float("-inf"), 1e308, 1e-320)),
    *(("a/starting_time", "rate", value) for value in (10**400, float("inf"), 5e-324)),
], ids="{!s:.40}".format)  # fmt: skip
def test_numbers_beyond_floats_end_no_page(key: str, name: str, value: float, tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile_with(series()))
    change_attributes(path, f"acquisition/{key}", lambda attributes: attributes.update({name: value}))
    with warnings.catch_warnings(action="error"):
        text = report(path, check=False)
    Page(text)
    assert not re.search(r'd="[^"]*(nan|inf)', text)


def test_plausible_volts_are_no_remark(tmp_path: Path) -> None:
    steps = np.array([-35, 32739], "i2")
    converted, few = series("b", steps, rate=1.0, conversion=1e-6), series("c", steps // 400)
    nwbfile = nwbfile_with(series("a", steps, "counts"), converted, few, series("d", steps * 1.0), subject=mouse())
    assert remarks(nwbfile, tmp_path) == ""


def test_of_a_rate_and_timestamps_the_timestamps_are_used(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "a.nwb", nwbfile_with(series(), subject=mouse()))
    with h5py.File(path, "r+") as file:
        file["acquisition/a/timestamps"] = [0.0, 100.0, 200.0]
    text = data_text(path)
    assert "the series has a rate and timestamps : /acquisition/a, the timestamps are used here" in text
    assert "about 0.01 Hz, 3 min 20 s" in text
    convert(path, tmp_path / "a.nwb.zarr")
    with NWBZarrIO(tmp_path / "a.nwb.zarr", "r+") as io:
        io.remove("/acquisition/a/starting_time")
    assert "Remarks" not in data_text(tmp_path / "a.nwb.zarr")


def test_of_alike_remarks_the_first_place_is_seen(tmp_path: Path) -> None:
    late = (series(name, timestamps=STAMPS[:3] - start) for name, start in (("a", 1.5e5), ("b", 1.0)))
    text = remarks(nwbfile_with(*late, subject=mouse()), tmp_path)
    assert f"{EARLY} : /acquisition/a, from -150,000 s and 1 more /acquisition/a" in text


def test_what_is_odd_in_a_session_is_a_remark(tmp_path: Path) -> None:
    nwbfile = NWBFile("", "i", datetime(1900, 1, 1, tzinfo=UTC), subject=Subject(subject_id="m", sex="F"))
    nwbfile.add_unit(spike_times=[3.0, -1.0])
    text = remarks(nwbfile, tmp_path)
    assert "the session starts in 1900, which may stand for an unknown date" in text
    assert "the subject has no species and no age" in text
    assert "the session description is empty" in text
    assert "spikes are before the session : /units, from -1 s" in text
    assert "spike times of a unit are not in order : /units, 1 step back" in text
    assert "the file has no subject" in remarks(nwbfile_with(), tmp_path / "b")


def test_of_many_series_a_few_are_drawn(tmp_path: Path) -> None:
    many = tmp_path / "many.nwb.zarr.zip"
    sweeps = []
    for number in range(1600):
        start = dataset("starting_time", float(number), attributes={"rate": 1.0})
        values = dataset("data", np.array([0.5, -2.0, 3.0]), attributes={"unit": "V"})
        sweeps.append(group(f"sweep_{number:04}", values, start, neurodata_type="TimeSeries"))
    write_builder(many, root(group("acquisition", *sweeps), nwb_version="2.8.0"))
    text = report(many, check=False)
    assert text.count("<figure>") == 3
    assert "1,597 more like these: sweep_0003 to sweep_1599" in Page(text).text
    assert "1,597 more series are not shown; the tree below has them." in text
    assert "26 min 42 s, from 0 s to 1,602 s in 1,000 of 1,600 time series" in text
    assert len(text) < 700_000


def test_an_hdf5_file_shows_what_its_zarr_file_shows_and_what_is_its_own(tmp_path: Path, web: WebServer) -> None:
    path = write_hdf5(web.folder / "a.nwb")
    convert(path, f"{path}.zarr")
    of_hdf5, of_zarr = (data_text(each).partition(" Session ")[2] for each in (path, f"{path}.zarr"))
    amount = re.compile(r"[\d.]+ k?B of values were read")  # of chunks, which are larger in Zarr
    assert "TwoPhotonSeries" in of_hdf5
    assert amount.sub("", of_hdf5) == amount.sub("", of_zarr)
    text = report(path)
    assert "<b>HDF5</b><span>format</span>" in text
    assert "Valid</span>" in text
    assert "No damage found" in text
    text, remote = report(path, check=False), report(f"{web.url}/a.nwb", check=False)
    assert "of at most 16 MB" in remote
    assert remote.count("<figure>") == text.count("<figure>") > 3
    data = H5DataIO(np.zeros((100, 4), "i2"), chunks=(25, 2), compression="gzip", shuffle=True)
    text = report(write_hdf5(tmp_path / "a.nwb", nwbfile_with(series(data=data))), check=False)
    assert f"25 {UNICODE.times} 2" in text
    assert "shuffle, deflate" in text


def test_a_version_of_nwb_that_is_an_array_is_told_everywhere(tmp_path: Path) -> None:
    """As in files of early releases of MatNWB, where types are arrays too."""
    path = write_hdf5(tmp_path / "a.nwb", nwbfile_with(series()))
    with h5py.File(path, "r+") as file:
        for node in (file, file["acquisition/a"]):
            node.attrs["neurodata_type"] = np.array([node.attrs["neurodata_type"].encode()])
        file.attrs["nwb_version"] = np.array([b"2.0b"])
    why = "pynwb cannot read this file: it gives its NWB version as an array"
    text = data_text(path)
    assert f"Remarks {why} : /" in text
    assert "-2 to 3 V" in text
    with pytest.raises(UnsupportedFileError, match=why):
        read_nwb(path)
    for finding in validate(path).findings[:1]:
        assert (finding.kind, finding.message) == ("version", why)
        assert "Read its arrays with h5py or zarr-python" in finding.remedy
    with pytest.raises(UnsupportedFileError, match="pynwb cannot read the copy as it is, zarr-python can"):
        convert(path, tmp_path / "a.nwb.zarr")


def test_text_that_is_not_utf8_is_shown_as_latin1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the micro sign in files of early releases of MatNWB."""
    paths = {name: write_hdf5(tmp_path / f"{name}.nwb", nwbfile_with(series())) for name in ("µV", "µA")}
    for unit, path in paths.items():
        with h5py.File(path, "r+") as file:
            data, raw = file["acquisition/a/data"], unit.encode("latin-1")
            data.attrs["unit"] = np.array([raw]) if unit == "µV" else raw
            data.attrs["others"] = np.array([b"ab", raw], h5py.string_dtype("ascii"))
            file["scratch/texts"] = np.array([b"ab", raw])
    convert(paths["µV"], tmp_path / "a.nwb.zarr", check=False)
    for path in (paths["µV"], tmp_path / "a.nwb.zarr"):
        text = data_text(path)
        assert "the unit is not UTF-8 text : /acquisition/a, µV" in text
        assert "-2 to 3 µV" in text
        assert main(["inspect", str(path), "--attributes", "--values"]) == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert any(line.endswith('@unit ["µV"]') for line in lines)
        assert any(line.endswith('@others ["ab", "µV"]') for line in lines)
        assert any(line.endswith("['ab', 'µV']") for line in lines)
    assert not compare(paths["µV"], tmp_path / "a.nwb.zarr")
    shown = [each.text for each in compare(*paths.values())]
    assert "attribute 'unit'[0]: 'µV' | 'µA'" in shown
    assert "value[1]: 'µV' | 'µA'" in shown


@pytest.mark.parametrize(("node", "change"), [
    ("units/spike_times", {"shape": [6, 1], "chunks": [6, 1]}),
    ("units/spike_times", {"shape": [6, 10**9, 0], "chunks": [1, 1, 1]}),
    ("units/spike_times", {"dtype": "|S8"}),
    ("units/spike_times_index", {"shape": [1, 3], "chunks": [1, 3]}),
    ("units/spike_times_index", {"dtype": "<f8"}),
    ("acquisition/a/starting_time", {"shape": [0]}),
    ("acquisition/a/data", {"shape": [10**12]}),
])  # fmt: skip
def test_a_crafted_array_ends_neither_the_page_nor_the_memory(node, change, tmp_path):
    nwbfile = nwbfile_with(series())
    for times in ([0.0, 1.0, 1.5], [], [2.0, 3.0, 4.0]):
        nwbfile.add_unit(spike_times=times)
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    (path / ".zmetadata").unlink()
    document = path / node / ".zarray"
    document.write_text(json.dumps(json.loads(document.read_text()) | change))
    Page(report(path, check=False))


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_data_linked_from_another_file_are_said_to_be(tmp_path: Path) -> None:
    raw = write_zarr(tmp_path / "raw.nwb.zarr", nwbfile_with(series("own", timestamps=[0.0, 1.0, 2.0])))
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(raw, "r") as io, NWBZarrIO(path, "w") as new:
        own = io.read().acquisition["own"]
        new.write(nwbfile_with(series("linked", own.data, timestamps=own.timestamps), series()), link_data=True)
    text = data_text(path)
    assert text.count("data in ../raw.nwb.zarr, which is not read") == 1
    assert text.count("timestamps in ../raw.nwb.zarr, which is not read") == 1
    path = write_hdf5(tmp_path / "a.nwb", nwbfile_with(series()))
    with h5py.File(path, "r+") as file:
        del file["acquisition/a/data"]
        file["acquisition/a/data"] = h5py.ExternalLink("raw.nwb", "/acquisition/own/data")
    assert "raw.nwb, which is not read" in data_text(path)


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
@pytest.mark.parametrize("call", ["inspect a.zarr --values", "compare a.zarr a.zarr", "report a.zarr"])
def test_commands_open_no_other_file_if_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.chdir(tmp_path)
    raw = write_zarr(tmp_path / "raw.zarr", nwbfile_with(series("own", timestamps=[0.0, 1.0, 2.0])))
    with NWBZarrIO(raw, "r") as io, NWBZarrIO("a.zarr", "w") as new:
        new.write(nwbfile_with(series("linked", io.read().acquisition["own"].data, rate=1.0)), link_data=True)
    opened: list[str] = []
    with listening(lambda event, arguments: opened.append(f"{event} {arguments[:1]}")):
        assert main([*call.split(), "--external-links", "never"]) == 0
        assert not [event for event in opened if event.startswith(("open", "os.")) and "raw.zarr" in event]
        if call.startswith("report"):
            assert main([*call.split(), "--overwrite"]) == 0
            assert [event for event in opened if event.startswith("open") and "raw.zarr" in event]


def test_external_links_of_hdf5_are_shown_and_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["text"], file["values"] = "TOP SECRET", np.full(50, 4711.0)
    (tmp_path / "in").mkdir()
    path = write_hdf5(tmp_path / "in" / "a.nwb", nwbfile_with(series(rate=1.0)))
    with h5py.File(path, "r+") as file:
        file["scratch/text"] = h5py.ExternalLink("../other.h5", "/text")
        del file["acquisition/a/data"]
        file["acquisition/a/data"] = h5py.ExternalLink("../other.h5", "/values")
    with pytest.warns(UserWarning, match="which was not followed"):
        page = report(path)
        assert main(["inspect", str(path), "--values"]) == 0
    for text in (page, capsys.readouterr().out):
        assert "other.h5:/text" in text
        assert not {"SECRET", "4711", "4,711"} & {*re.findall(r"[\w,]+", text)}


def test_the_guide_has_a_row_for_each_remark() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "look.md").read_text(encoding="utf-8")
    first = "\n".join(row.split(" | ")[0] for row in guide.splitlines() if row.startswith("| "))
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(data_module))) if isinstance(node, ast.Call)]
    made = [node.args[0] for node in calls if getattr(node.func, "attr", "") == "_remark"]
    texts = [
        str(part.value) for node in made for part in getattr(node, "values", [node]) if isinstance(part, ast.Constant)
    ]
    assert len(texts) > 20
    assert [text for text in texts if text.strip() not in first] == []
    assert "pynwb cannot read this file" in first


@pytest.mark.filterwarnings("ignore:.*has a rate of 0.0 Hz")
def test_the_remedies_of_the_guide_mend_a_file(tmp_path: Path) -> None:
    stamps = STAMPS.copy()
    stamps[[3, 4]] = stamps[[4, 3]]
    odd = (series("late", STAMPS, timestamps=STAMPS + 1.5e9), series("long", np.ones((3, 2)), rate=7.5))
    nwbfile = nwbfile_with(series("a", STAMPS, "unknown", timestamps=stamps), *odd, subject=Subject(subject_id="m"))
    nwbfile.add_trial(start_time=5.0, stop_time=4.0)
    for times in ([4.0, 3.0, 5.0], []):
        nwbfile.add_unit(spike_times=times)
    path = write_zarr(tmp_path / "m.nwb.zarr", nwbfile)
    for document in (path / "acquisition" / "long" / "starting_time" / ".zattrs", path / ".zmetadata"):
        document.write_text(document.read_text().replace("7.5", "0.0"))
    box = report(path, check=False).partition('<div class="remarks">')[2].partition("</div>")[0]
    assert box.count("<li>") == 9
    assert "Look at a file, and compare files" in box
    with NWBZarrIO(path, mode="r+") as io:
        nwbfile = io.read()
        one, late, long = (nwbfile.acquisition[name] for name in ("a", "late", "long"))
        for name, value in (("species", "Mus musculus"), ("sex", "F"), ("age", "P90D")):
            setattr(nwbfile.subject, name, value)
        one.fields["unit"], long.fields["rate"] = "V", 30.0
        for changed in (nwbfile.subject, one, long):
            changed.set_modified()
        io.write(nwbfile)
        order = np.argsort(one.timestamps[:], kind="stable")
        one.data[:] = one.data[:][order]
        one.timestamps[:] = one.timestamps[:][order]
        late.timestamps[:] = late.timestamps[:] - 1.5e9
        nwbfile.trials["stop_time"].data[0] = 6.0
        times = nwbfile.units["spike_times"].target.data
        times[0:3] = np.sort(times[0:3])
        io.replace("/acquisition/long/data", long.data[:] * [[1], [2], [3]])
        io.remove("/units", rows=[1])
    assert '<div class="remarks">' not in report(path, check=False)
