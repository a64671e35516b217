"""Files of released writers, kept as data: each is read and compared with the content that all of them wrote."""

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, convert, verify
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.errors import DamagedMetadataWarning, MissingNamespacesWarning
from hdmf_zarr_backend.options import ReadOptions
from tests.oldfiles import content
from tests.oldfiles.make import OURS, WRITERS
from tests.samples import edit_zarr, read_zarr

FOLDER = Path(__file__).parent
HDMF_ZARR = [name for name in WRITERS if name.startswith("hdmf-zarr")]
OUR_VERSIONS = ("version-1.0",)
OUR_FILES = [f"{version}/{zarr_format}" for version in OUR_VERSIONS for zarr_format in ("2", "3", "both")]
FILES = [f"{name}/old.nwb.zarr" for name in (*HDMF_ZARR, *OUR_FILES)]
LINKING = [f"{name}/linking.nwb.zarr" for name in (*HDMF_ZARR, *OUR_FILES) if name != "hdmf-zarr-0.1.0"]
LINDI = [f"{name}/old.lindi.json" for name in WRITERS if name.startswith("lindi")]
UP_TO_0_10 = [f"hdmf-zarr-{release}/old.nwb.zarr" for release in ("0.8.0", "0.9.0", "0.10.0")]
"""Their consolidated documents do not have the cached namespaces."""
UNCONSOLIDATED = [f"hdmf-zarr-{release}/old.nwb.zarr" for release in ("0.1.0", "0.3.0")]
"""They have no consolidated documents."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Return a function that unpacks an archive once, and returns the path of a file in it."""
    folder = tmp_path_factory.mktemp("oldfiles")

    def unpack(name: str) -> str:
        archive = name.partition("/")[0]
        if not (folder / archive).exists():
            with tarfile.open(FOLDER / f"{archive}.tar.xz") as packed:
                packed.extractall(folder / archive, filter="data")
        return str(folder / name)

    return unpack


@pytest.fixture(params=FILES + LINDI)
def old(request, unpacked):
    return unpacked(request.param)


@pytest.fixture
def nwbfile(old):
    return read_zarr(old, read_options=ReadOptions(external_links="follow"))


def test_each_writer_has_its_files_and_they_are_small():
    archives = sorted(FOLDER.glob("*.tar.xz"))
    assert [path.name for path in archives] == sorted(f"{name}.tar.xz" for name in (*WRITERS, *OUR_VERSIONS))
    assert OURS in OUR_VERSIONS
    assert sum(path.stat().st_size for path in archives) < 500_000


def test_what_is_in_it_is_as_written(nwbfile, old):
    series = nwbfile.acquisition
    types = {"first": "i2", "linked": "f8", "large": "i4", "grown": "f4", "extended": "i8"}
    assert {name: each.data.dtype for name, each in series.items() if name != "images"} == types
    assert np.asarray(series["first"].data).tolist() == content.RATES
    assert np.asarray(series["first"].timestamps).tolist() == content.TIMES
    assert (series["first"].unit, series["first"].conversion) == ("mV", 0.5)
    np.testing.assert_array_equal(series["large"].data[:], content.LARGE)
    np.testing.assert_array_equal(series["large"].data[20:52, 3], content.LARGE[20:52, 3])
    np.testing.assert_array_equal(series["grown"].data[:], content.GROWN)
    assert (series["grown"].rate, series["grown"].starting_time) == (10.0, 2.0)
    image = series["images"]["image"].data
    assert image.dtype == np.dtype("u1")
    np.testing.assert_array_equal(image[:], content.IMAGE)
    extended = series["extended"]
    assert (type(extended).__name__, extended.gain) == ("Reading", content.GAIN)  # of the schema in the file
    cached = {"hdmf-common", content.EXTENSION} | (set() if old.endswith(".lindi.json") else {"core"})
    assert cached <= NWBZarrIO.get_namespaces(old).keys()
    assert nwbfile.session_description == content.SESSION
    assert nwbfile.session_start_time == content.START
    assert list(nwbfile.keywords[:]) == content.KEYWORDS
    assert nwbfile.subject.species == "Mus musculus"
    assert nwbfile.subject.date_of_birth == content.START
    spans = [nwbfile.trials["timeseries"][row] for row in range(len(content.SPANS))]
    assert [(int(each.idx_start), int(each.count)) for (each,) in spans] == content.SPANS
    assert all(row[0].timeseries is series["first"] for row in spans)
    masks = nwbfile.processing["ophys"]["segmentation"]["cells"]["pixel_mask"]
    result = [masks[row] for row in range(len(content.PIXELS))]
    if old.endswith((*UNCONSOLIDATED, *UP_TO_0_10)):  # stored wrong: each number of a row became a row
        assert result[0].shape == (2, 3)
        result = [[[pixel[0]["x"], pixel[1]["y"], pixel[2]["weight"]] for pixel in mask] for mask in result]
    assert [[list(pixel) for pixel in mask] for mask in result] == content.PIXELS


def test_links_lead_to_their_targets(nwbfile):
    linked = nwbfile.acquisition["linked"]
    assert np.asarray(linked.data).tolist() == [0.0, 1.0, 2.0]
    assert np.asarray(linked.timestamps).tolist() == content.TIMES
    assert linked.timestamp_link is not None
    assert nwbfile.electrode_groups["shank"].device is nwbfile.devices["probe"]
    assert nwbfile.processing["ophys"]["segmentation"]["cells"].imaging_plane is nwbfile.imaging_planes["plane"]


def test_tables_are_as_written(nwbfile):
    electrodes = nwbfile.electrodes
    assert list(electrodes["location"][:]) == content.LOCATIONS
    np.testing.assert_array_equal(electrodes["imp"][:], content.IMPEDANCES)
    assert list(electrodes["good"][:]) == content.GOOD
    assert electrodes["good"].data.dtype == np.dtype("?")
    units = nwbfile.units
    spikes = [np.asarray(units["spike_times"][row]).tolist() for row in range(len(content.SPIKES))]
    assert spikes == content.SPIKES
    assert units["electrodes"].target.table is electrodes
    assert list(units["electrodes"][1]["location"]) == [content.LOCATIONS[0], content.LOCATIONS[2]]


def test_references_lead_to_their_targets(nwbfile):
    shank, first = nwbfile.electrode_groups["shank"], nwbfile.acquisition["first"]
    assert all(group is shank for group in nwbfile.electrodes["group"][:])
    targets = nwbfile.get_scratch("targets", convert=False)["target"]
    assert targets[0] is shank
    assert targets[1] is first


@pytest.mark.parametrize("name", UP_TO_0_10)
def test_an_append_adds_the_cached_namespaces_to_the_consolidated_document(unpacked, name, tmp_path):
    path = shutil.copytree(unpacked(name), tmp_path / "a.nwb.zarr")
    with edit_zarr(path) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=np.arange(3), unit="V", rate=1.0))
    consolidated = json.loads((path / ".zmetadata").read_text())["metadata"]
    assert consolidated[".zattrs"][".specloc"] == "specifications"
    assert f"specifications/{content.EXTENSION}/0.1.0/namespace/.zarray" in consolidated
    assert verify(path).problems == []


@pytest.mark.parametrize(("key", "text"), [(".zattrs", "{"), ("specifications/core/.zgroup", "[]")])
def test_without_them_a_file_is_read_where_they_are_damaged(unpacked, tmp_path, key, text):
    path = shutil.copytree(unpacked(UP_TO_0_10[0]), tmp_path / "a.nwb.zarr")
    (path / key).write_text(text)
    with (
        pytest.warns(DamagedMetadataWarning, match="without its cached namespaces"),
        pytest.warns(MissingNamespacesWarning),
        NWBZarrIO(path, mode="r") as io,
    ):
        assert io.read_builder()["identifier"].data == "old-file"


def test_they_are_not_looked_for_where_the_attributes_have_none(unpacked, tmp_path):
    path = shutil.copytree(unpacked(UP_TO_0_10[0]), tmp_path / "a.nwb.zarr")
    for text in ("[]", "{}", '{".specloc": "nowhere"}'):
        (path / ".zattrs").write_text(text)
        with NWBZarrIO(path, mode="r", load_namespaces=False) as io:
            assert io.read_builder()["identifier"].data == "old-file"
        assert NWBZarrIO.get_namespaces(path) == {}


@pytest.mark.parametrize("name", LINKING)
def test_a_link_to_another_file_leads_there(unpacked, name):
    with NWBZarrIO(unpacked(name), load_namespaces=False, read_options=ReadOptions(external_links="follow")) as io:
        outside = io.read().acquisition["outside"]
        assert outside.data.dtype == np.dtype("i8")
        assert np.asarray(outside.timestamps).tolist() == content.TIMES


def test_a_server_that_cannot_list_is_not_asked_for_them(unpacked, web):
    shutil.copytree(unpacked(UP_TO_0_10[0]), web.folder / "a.nwb.zarr")
    assert NWBZarrIO.get_namespaces(f"{web.url}/a.nwb.zarr") == {}
    assert web.requests <= 2  # the first documents of either format


@pytest.mark.parametrize(("release", "problems"), [("0.1.0", set()), ("0.10.0", {"consolidated-stale"})])
def test_a_file_is_whole_under_another_name(unpacked, tmp_path, release, problems):
    """All its links and references have the name that the file had, in 0.1 with the folder where it was."""
    path = shutil.copytree(unpacked(f"hdmf-zarr-{release}/old.nwb.zarr"), tmp_path / "renamed.nwb.zarr")
    assert {problem.kind for problem in verify(path).problems} == problems
    convert(path, tmp_path / "a.nwb")
    convert(path, tmp_path / "b.nwb.zarr", zarr_format=3)
    alone = ReadOptions(external_links="never")
    zarr = (NWBZarrIO(each, read_options=alone) for each in (path, tmp_path / "b.nwb.zarr"))
    for io in (*zarr, NWBHDF5IO(tmp_path / "a.nwb", mode="r")):
        with io:
            nwbfile = io.read()
            test_links_lead_to_their_targets(nwbfile)
            test_references_lead_to_their_targets(nwbfile)
            test_tables_are_as_written(nwbfile)
    differences = [each.kind for each in compare(path, tmp_path / "a.nwb")]
    assert not {kind for kind in differences if "link" in kind or "reference" in kind or "value" in kind}, differences


@pytest.mark.parametrize("name", FILES + LINKING + LINDI)
def test_verify_finds_what_is_wrong_in_them(unpacked, name):
    problems = {
        (problem.kind, problem.path.startswith("/specifications"))
        for problem in verify(unpacked(name), read_options=ReadOptions(external_links="follow")).problems
    }
    stale = {("consolidated-stale", False), ("consolidated-stale", True)}
    assert problems == (stale if name in UP_TO_0_10 else set())
