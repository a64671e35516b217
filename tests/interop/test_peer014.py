"""hdmf-zarr 0.14 reads what we write in format 3, and we read what it writes and what it makes of older files.

Each test runs over all real files; the peer works on all of them in one process.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, upgrade
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.conversion import convert
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.errors import UnsupportedFileError
from tests import samples
from tests.interop import exchange
from tests.interop.conftest import CANNOT_BUILD, CANNOT_READ, NO_NWB_2
from tests.interop.exchange import ask, ask_of_each, assert_only, converted, export, exports_that_differ, failures, used
from tests.peers import Peer
from tests.trees import dataset, group, root, write_builder

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

CANNOT_VALIDATE = {"pynapple__sub-4_ses-4_ecephys+image": r"experimental\.yaml"}
"""Files that pynwb cannot validate, from HDF5 neither: a cached namespace lacks a source."""

_UNSIGNED = re.compile(r"incorrect type - expected 'uint(8|32)', got 'int64'$")
MORE_ERRORS = {
    "ndxpose__test_pose", "nwbexplorer__test_SweepTable", "rich", "rich_without_positions", "rich_as_written",
}  # fmt: skip
"""What 0.14 finds and pynwb does not find in the HDF5 file: it loses that attributes are unsigned."""

CANNOT_EXPORT = dict.fromkeys(
    (
        "dandi__sub-anm369963_ses-20170228", "dandi__sub-anm372793_ses-20170508", "nwbexplorer__test_SweepTable",
        "nwbexplorer__test_TimeIntervals", "nwbexplorer__test_Units",
    ),
    r"VectorIndex '.*_index': 'HDMFZarrArray' object has no attribute 'astype'",
)  # fmt: skip
"""Files that 0.14 cannot export to HDF5, not even when it has written them itself."""

CANNOT_UPGRADE = {
    **CANNOT_READ, "dandi__sub-anm369963_ses-20170228": "astype", "dandi__sub-anm372793_ses-20170508": "astype",
    "neuroconv__doric_fiber_photometry": "ArrayArrayCodec", "neuroconv__mock_ttl_examples": "ArrayArrayCodec",
    "nwbexplorer__test_SweepTable": "bad link", "nwbexplorer__test_TimeIntervals": "bad link",
    "nwbexplorer__test_Units": "astype", "pynwb__1.5.1_timeintervals_non_ndtype_tsref": "bad link",
    "rich_without_positions": "",
}  # fmt: skip
"""Files of 0.13 that the converter of 0.14 cannot convert, and what it says."""

_VALIDATE_HDF5 = """
def act(source):
    with NWBHDF5IO(source, "r") as io:
        return [str(error) for error in validate(io=io)]
"""

_UPGRADE = """
def act(source, target):
    hdmf_zarr.NWBZarrV2IO.convert_to_v3(source, target, allow_pickle=True)
"""

_READ_BUILDERS = """
from hdmf.common import get_manager

def act(path):
    with hdmf_zarr.ZarrIO(path, "r", manager=get_manager()) as io:
        return sorted(io.read_builder().groups)
"""


@pytest.fixture(scope="module")
def ours3(sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All files converted by us to format 3, and one that was written by us."""
    folder = tmp_path_factory.mktemp("ours3")
    result = {"rich_as_written": samples.write_zarr(folder / "rich_as_written.nwb.zarr", zarr_format=3)}
    for name, source in sources.items():
        try:
            convert(source, folder / f"{name}.nwb.zarr", zarr_format=3)
            result[name] = folder / f"{name}.nwb.zarr"
        except UnsupportedFileError:
            assert name in NO_NWB_2
    return result


@pytest.fixture(scope="module")
def read_by_014(ours3: dict[str, Path], peer014: Peer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("exports")
    return used(peer014, ours3, folder, "read", "validate", "export"), folder


def test_014_reads_every_file_that_we_make_and_exports_what_we_export(read_by_014, sources, ours3, tmp_path):
    reported, folder = read_by_014
    assert_only(failures(reported, "read"), CANNOT_READ, reported)
    assert_only(failures(reported, "export"), CANNOT_READ | CANNOT_BUILD | CANNOT_EXPORT, reported)
    exported = reported.keys() - failures(reported, "export").keys()
    assert exports_that_differ(ours3, folder, sources, exported, tmp_path) == {}


def test_014_finds_no_errors_that_hdf5_has_not(read_by_014, sources, peer014, tmp_path):
    reported, _ = read_by_014
    assert_only(failures(reported, "validate"), CANNOT_VALIDATE, reported)
    in_hdf5, _ = ask_of_each(peer014, _VALIDATE_HDF5, list(sources.items()), tmp_path)
    more = {
        name: [error for error in answer["errors"] if error not in in_hdf5.get(name, ())]
        for name, answer in reported.items()
        if len(answer["errors"]) > len(in_hdf5.get(name, ()))
    }
    assert more.keys() == MORE_ERRORS & reported.keys(), more
    assert all(_UNSIGNED.search(error) for errors in more.values() for error in errors), more


@pytest.fixture(scope="module")
def theirs3(sources: dict[str, Path], peer014: Peer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return converted(peer014, sources, tmp_path_factory.mktemp("theirs3"), {**NO_NWB_2, **CANNOT_BUILD})


@pytest.fixture(scope="module")
def upgraded(theirs: dict[str, Path], peer014: Peer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the converter of 0.14 makes of files of 0.13."""
    folder = tmp_path_factory.mktemp("upgraded")
    rows = [[name, path, folder / f"{name}.nwb.zarr"] for name, path in theirs.items()]
    result, failed = ask_of_each(peer014, _UPGRADE, rows, folder, **exchange.SWITCH)
    assert_only(failed, CANNOT_UPGRADE, theirs)
    return {name: folder / f"{name}.nwb.zarr" for name in result}


@pytest.mark.parametrize("made_by", ["theirs3", "upgraded"])
def test_we_read_what_014_makes(sources, made_by, ours3, request, tmp_path):
    """Our export of it to HDF5 is that of our own conversion."""
    result = {}
    for name, path in request.getfixturevalue(made_by).items():
        export(path, tmp_path / "theirs.nwb")
        export(ours3[name], tmp_path / "ours.nwb")
        lost = compare(tmp_path / "ours.nwb", tmp_path / "theirs.nwb", ignore={*exchange.LOSSES, "object_id"})
        result[name] = [str(difference) for difference in lost]
    # pynwb puts the models of devices elsewhere, since 0.14 has cached a newer namespace than the file had
    result.pop("pynwb__3.0.0_ophys_devices_extension", None)
    assert {name: lost for name, lost in result.items() if lost} == {}


@pytest.mark.parametrize("made_by", ["theirs3", "upgraded"])
def test_files_of_014_become_format_2_and_back(made_by, request, tmp_path):
    for name, path in request.getfixturevalue(made_by).items():
        two, three = tmp_path / f"{name}.2.nwb.zarr", tmp_path / f"{name}.3.nwb.zarr"
        convert(path, two, zarr_format=2, check=False)
        convert(two, three, zarr_format=3, check=False)
        assert [str(difference) for difference in compare(path, two)] == [], name
        assert [str(difference) for difference in compare(path, three, ignore={"chunks", "filters"})] == [], name


def test_a_file_of_014_is_added_to_and_014_reads_it(theirs3, peer014, tmp_path):
    path = tmp_path / "file.nwb.zarr"
    shutil.copytree(theirs3["rich_without_positions"], path)
    exchange.check_added(peer014, path, tmp_path)


HERE = ZarrReference(".", "/target")
THERE = ZarrReference("../other.zarr", "/target")
PART = ZarrReference(".", "/target/data", region=(slice(0, 1), slice(None)))
FIELDS = [{"name": "i", "dtype": "int32"}, {"name": "r", "dtype": "object"}]

EXTENSIONS: dict[str, Any] = {
    "a list of references": lambda: group("x", a=[HERE, HERE]),
    "a reference to another file": lambda: group("x", a=THERE),
    "a region in an attribute": lambda: group("x", a=PART),
    "bytes in an attribute": lambda: group("x", a=b"\xff\xfe"),
    "JSON that looks like a reference": lambda: group("x", a={"zarr_dtype": "q"}),
    "typed attributes": lambda: group("x", a=np.uint8(1), b=np.array([1, 2], "f4"), c=np.array([], "i2")),
    "references to another file": lambda: group("x", dataset("d", [THERE, HERE], "object")),
    "references with two axes": lambda: group("x", dataset("d", [[HERE, HERE], [HERE, HERE]], "object")),
    "regions": lambda: group("x", dataset("d", [PART, PART], "region")),
    "rows that refer to another file": lambda: group("x", dataset("d", [(1, THERE), (2, HERE)], FIELDS)),
    "a reference alone": lambda: group("x", dataset("d", HERE, "object")),
    "bytes that are not text": lambda: group("x", dataset("d", [b"\xff", b"a"], "bytes")),
    "complex numbers": lambda: group("x", dataset("d", np.array([1j, 2]))),
    "dates": lambda: group("x", dataset("d", np.array(["2020-01-01"], "M8[ns]"))),
    "bytes of fixed length": lambda: group("x", dataset("d", np.array([b"abc", b"d"]))),
    "fields with axes": lambda: group("x", dataset("d", np.zeros(2, [("a", "<i4", (3,)), ("b", "S2")]))),
    "rows with two axes": lambda: group("x", dataset("d", np.zeros((2, 2), [("a", "<i4"), ("b", "f8")]))),
    "big-endian numbers": lambda: group("x", dataset("d", np.arange(3, dtype=">i4"))),
}


def test_014_reads_the_rest_of_files_with_our_extensions(peer014, tmp_path):
    def target() -> Any:
        return group("target", dataset("data", np.arange(6.0).reshape(2, 3)))

    paths = {"other": tmp_path / "other.zarr"}
    write_builder(paths["other"], root(target()), zarr_format=3)
    for number, (name, result) in enumerate(EXTENSIONS.items()):
        paths[name] = tmp_path / f"{number}.zarr"
        write_builder(paths[name], root(target(), result()), zarr_format=3)
    reported, failed = ask_of_each(peer014, _READ_BUILDERS, list(paths.items()), tmp_path)
    assert failed == {}
    assert reported == {name: ["target"] if name == "other" else ["target", "x"] for name in paths}


def test_014_follows_links_to_other_files(peer014, tmp_path):
    first = samples.write_zarr(tmp_path / "first.nwb.zarr", samples.rich_nwbfile(positions=False), zarr_format=3)
    with NWBZarrIO(first) as io:
        nwbfile = samples.plain_nwbfile("second")
        data = io.read().acquisition["raw"].data
        nwbfile.add_acquisition(TimeSeries(name="linked", data=data, unit="m", rate=1.0))
        expected = data[:].tolist()
        samples.write_zarr(tmp_path / "second.nwb.zarr", nwbfile, zarr_format=3)
    script = """
import json, sys
from hdmf_zarr import NWBZarrIO
with NWBZarrIO(json.load(open(sys.argv[1]))[0], "r") as io:
    print(json.dumps(io.read().acquisition["linked"].data[:].tolist()))
"""
    assert ask(peer014, script, [tmp_path / "second.nwb.zarr"], tmp_path) == expected


def test_files_of_013_become_format_3_and_014_reads_them(theirs, peer014, tmp_path):
    """Pickles included: the way from 0.13 to 0.14 without any switch, and for the files that its converter refuses."""
    result = {}
    for name, path in theirs.items():
        result[name] = tmp_path / f"{name}.nwb.zarr"
        convert(path, result[name], zarr_format=3, check=False)
        # 0.13 declared a fill value of "0" for the JSON of namespaces, and rows as pickles
        lost = compare(path, result[name], ignore={"fill", "filters", "chunks"})
        assert [str(difference) for difference in lost] == [], name
    for name in {"rich_without_positions", "nwbexplorer__test_Units"} & theirs.keys():  # pickles; ragged columns
        path = Path(shutil.copytree(theirs[name], tmp_path / f"{name}.upgraded.nwb.zarr"))
        upgrade(path)
        assert [str(difference) for difference in compare(result[name], path)] == [], name
        result[f"{name}, upgraded"] = path
        convert(theirs[name], tmp_path / f"{name}.both.nwb.zarr", zarr_format="both")
        convert(theirs[name], copy := tmp_path / f"{name}.2.nwb.zarr", zarr_format=2)
        upgrade(copy)  # dates are bytes in it, as in the original
        assert [str(difference) for difference in compare(result[name], copy)] == [], name
        result |= {f"{name}, both": tmp_path / f"{name}.both.nwb.zarr", f"{name}, copied and upgraded": copy}
    reported = used(peer014, result, tmp_path, "read")
    assert_only(failures(reported, "read"), CANNOT_READ, reported)


def test_014_adds_to_a_file_of_ours_and_changes_nothing_else(peer014, tmp_path):
    path = samples.write_zarr(tmp_path / "file.nwb.zarr", zarr_format=3)
    before = shutil.copytree(path, tmp_path / "before.nwb.zarr")
    script = """
import json, sys
from hdmf_zarr import NWBZarrIO
from pynwb import TimeSeries
with NWBZarrIO(json.load(open(sys.argv[1]))[0], "r+") as io:
    nwbfile = io.read()
    nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0, 2.0], unit="m", rate=1.0))
    io.write(nwbfile)
print(json.dumps(True))
"""
    assert ask(peer014, script, [path], tmp_path) is True
    assert samples.read_zarr(path).acquisition["new"].data[:].tolist() == [1.0, 2.0]
    assert {difference.path.split("/")[2] for difference in compare(before, path)} == {"new"}
