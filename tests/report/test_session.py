"""The session on the page of `zarrio report`: what an NWB file says of itself, from a few small reads."""

import re
import subprocess
import sys
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder
from hdmf.common import DynamicTable, VectorData, get_manager
from pynwb import NWBFile, TimeSeries
from pynwb.file import Subject

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert, report
from tests.report.test_page import Page
from tests.samples import START, plain_nwbfile, write_hdf5, write_zarr
from tests.servers import S3Server
from tests.trees import write_builder


def session(path: Path | str, options: Mapping[str, Any] | None = None) -> dict[str, str]:
    result = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", report(path, check=False, storage_options=options))
    return {unescape(label): unescape(text) for label, text in result}


EXPECTED = {
    "Subject": "m1, Mus musculus, female, 90 days old", "Description": "a small file", "Identifier": "rich",
    "Experimenter": "Ada, A.; Jörg, J.", "Devices": "probe (nobody)",
    "Electrodes": "4 in 2 groups (shank0, shank1); location: CA1", "NWB version": "",
}  # fmt: skip


@pytest.mark.parametrize("name", ["rich.nwb.zarr", "rich.nwb.zip"])
def test_what_an_nwb_file_says_of_itself(tmp_path: Path, name: str, zarr_format: int) -> None:
    result = session(write_zarr(tmp_path / name, zarr_format=zarr_format))
    for label, text in EXPECTED.items():
        assert text in result[label]
    assert result["Session start"] == str(START)
    assert re.fullmatch(r"[\d.]+", result["NWB version"])
    assert result["Units"].isdecimal()
    assert "trials (" in result["Intervals"]


def test_in_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.nwb.zarr")
    s3.put("a.nwb.zarr", {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()})
    assert session(s3.url("a.nwb.zarr"), s3.options) == session(path)


def test_without_consolidated_metadata_it_is_the_same_and_damage_is_reported_in_its_place(tmp_path: Path) -> None:
    convert(write_hdf5(tmp_path / "a.nwb"), tmp_path / "a.nwb.zarr")
    before = session(tmp_path / "a.nwb.zarr")
    assert before["Subject"] == EXPECTED["Subject"]
    (tmp_path / "a.nwb.zarr" / ".zmetadata").unlink()
    assert session(tmp_path / "a.nwb.zarr") == before
    (tmp_path / "a.nwb.zarr" / "general" / "subject" / "species" / "0").write_bytes(b"damaged")
    result = session(tmp_path / "a.nwb.zarr")
    assert result["Subject"] == "m1, cannot be read, female, 90 days old"
    assert result["Description"] == "a small file"


def test_without_checks_neither_pynwb_nor_hdmf_is_imported(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.nwb.zarr")
    code = (
        "import sys; from hdmf_zarr_backend import report; text = report(sys.argv[1], check=False);"
        "assert 'Mus musculus' in text; print({'hdmf', 'pynwb'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def recorded(tmp_path: Path, *series: TimeSeries, nwbfile: NWBFile | None = None) -> str:
    nwbfile = nwbfile or NWBFile("times", "times", START)
    for one in series:
        nwbfile.add_acquisition(one)
    return session(write_zarr(tmp_path / "a.nwb.zarr", nwbfile)).get("Recorded time", "")


def test_the_time_is_that_of_all_series_or_without_them_that_of_the_intervals(tmp_path: Path) -> None:
    regular = TimeSeries(name="a", data=np.zeros(5000, "i2"), unit="V", rate=2.0, starting_time=10.0)
    irregular = TimeSeries(name="b", data=np.zeros(3), unit="V", timestamps=[4.5, 5.0, 5000.0])
    assert recorded(tmp_path, regular, irregular) == "1 h 23 min 16 s, from 4.5 s to 5,000 s in 2 time series"
    first = TimeSeries(name="a", data=np.zeros(3), unit="V", timestamps=[1.0, 2.0, 3.5])
    second = TimeSeries(name="b", data=np.zeros(3), unit="V", timestamps=first)
    empty = TimeSeries(name="c", data=np.zeros(0), unit="V", timestamps=np.zeros(0))
    unknown = TimeSeries(name="d", data=np.zeros(2), unit="V", timestamps=[np.nan, np.nan])
    assert recorded(tmp_path, first, second, empty, unknown) == "2.5 s, from 1 s to 3.5 s in 2 of 4 time series"
    nwbfile = NWBFile("times", "times", START)
    nwbfile.add_trial(start_time=3.0, stop_time=5.0)
    nwbfile.add_trial(start_time=1.0, stop_time=63.0)
    assert recorded(tmp_path, nwbfile=nwbfile) == "1 min 2 s, from 1 s to 63 s in 1 table of intervals"
    assert recorded(tmp_path / "none.nwb.zarr") == ""


def test_where_timestamps_are_damaged_the_first_and_the_last_chunk_count(tmp_path: Path) -> None:
    times = ZarrDataIO(np.arange(400.0), chunks=(100,))
    nwbfile = NWBFile("times", "times", START)
    nwbfile.add_acquisition(TimeSeries(name="a", data=np.zeros(400), unit="V", timestamps=times))
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    for number in ("1", "2"):
        (path / "acquisition" / "a" / "timestamps" / number).write_bytes(b"damaged")
    assert "to 399 s" in session(path)["Recorded time"]


@pytest.mark.parametrize(("age", "said"), [
    ("P90D", "90 days old"), ("P1Y2M", "1 year 2 months old"), ("P90D/P120D", "age P90D/P120D"), ("old", "age old"),
])  # fmt: skip
def test_ages_are_words(tmp_path: Path, age: str, said: str) -> None:
    nwbfile = plain_nwbfile()
    nwbfile.subject = Subject(subject_id="m1", age=age, sex="U")
    assert session(write_zarr(tmp_path / "a.nwb.zarr", nwbfile))["Subject"] == f"m1, unknown sex, {said}"


def test_text_of_a_crafted_file_is_escaped_and_short(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    nwbfile = plain_nwbfile()
    nwbfile.experiment_description = evil + "long " * 10_000
    nwbfile.add_acquisition(TimeSeries(name="a", data=[1.0, 2.0], unit=evil, rate=1.0, description=evil))
    nwbfile.add_unit_column("note", evil)
    nwbfile.add_unit(spike_times=[1.0], note=evil)
    path = write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    text = report(path)
    Page(text)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 5
    assert session(path)["Experiment"].startswith("<script>")
    assert len(session(path)["Experiment"]) < 500


def test_other_files_are_named(tmp_path: Path) -> None:
    write_builder(tmp_path / "a.zarr", GroupBuilder("root"))
    text = report(tmp_path / "a.zarr")
    assert "This is not an NWB file: its root has no type." in text
    assert "Not validated: the file names no schema." in text
    column = VectorData(name="a", description="numbers", data=[1, 2])
    table = DynamicTable(name="table", description="a table", columns=[column])
    with ZarrIO(tmp_path / "b.zarr", "w", manager=get_manager()) as io:
        io.write(table)
    text = report(tmp_path / "b.zarr")
    assert "its root is a DynamicTable of the namespace hdmf-common." in text
    assert "Session" not in text
