"""hdmf-zarr 0.13 reads what we write, with no unsafe switch, and we read what it writes, pickles included.

Each test runs over all real files; the peer works on all of them in one process.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.conversion import convert
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.options import WriteOptions
from tests import samples
from tests.interop import exchange
from tests.interop.conftest import CANNOT_BUILD, CANNOT_READ
from tests.interop.exchange import SWITCH, ask, assert_only, check_added, export, exports_that_differ, failures, used
from tests.interop.test_nczarr import assert_equal_values, netcdf, numbers_of
from tests.peers import Peer

pytestmark = [
    pytest.mark.peer,
    # old files state less than the present schema requires, in many ways; pynwb and hdmf report each
    pytest.mark.filterwarnings("ignore"),
]

OWN_LOSSES = {
    name: ["/general/extracellular_ephys/shank1/position shape: () | (1,)"] for name in ("rich", "rich_as_written")
}
"""What 0.13 makes of what it reads: a row in one piece becomes an array of one row."""


@pytest.fixture(scope="module")
def read_by_013(ours: dict[str, Path], peer013: Peer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("exports")
    return used(peer013, ours, folder, "read", "export"), folder


def test_013_reads_every_file_that_we_make_and_exports_what_we_export(read_by_013, sources, ours, tmp_path):
    reported, folder = read_by_013
    assert_only(failures(reported, "read"), CANNOT_READ, reported)
    assert_only(failures(reported, "export"), CANNOT_READ | CANNOT_BUILD, reported)
    exported = reported.keys() - failures(reported, "export").keys()
    expected = {name: lost for name, lost in OWN_LOSSES.items() if name in exported}
    assert exports_that_differ(ours, folder, sources, exported, tmp_path) == expected


def test_what_013_reads_is_what_zarr_2_reads(ours, peer013, tmp_path, theirs):
    """In plain zarr 2; with no switch of ours, and with the one for pickles of theirs."""
    assert _different_arrays(ours, peer013, tmp_path) == {}
    assert _different_arrays(theirs, peer013, tmp_path, **SWITCH) == {}


def test_we_read_every_file_that_013_makes(theirs):
    """Pickles included, without any switch; also the one that 0.13 cannot read back."""
    assert "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE" not in os.environ
    assert [path for path in theirs.values() if '"pickle"' in (path / ".zmetadata").read_text()]
    for path in theirs.values():
        assert samples.read_zarr(path).identifier is not None


def test_we_read_the_containers_that_013_reads(sources, theirs, peer013, tmp_path):
    """Both exports to HDF5 of what 0.13 wrote are equal in all but the types that 0.13 has no place for."""
    (tmp_path / "theirs").mkdir()
    reported = used(peer013, theirs, tmp_path / "theirs", "read", "export", **SWITCH)
    for step in ("read", "export"):
        assert_only(failures(reported, step), CANNOT_READ, reported)
    for name in theirs.keys() & CANNOT_READ:
        export(theirs[name], tmp_path / "ours.nwb")  # we can
    compared = theirs.keys() - CANNOT_READ.keys()
    assert exports_that_differ(theirs, tmp_path / "theirs", sources, compared, tmp_path) == {}


def test_a_file_of_013_is_added_to_and_013_reads_it_and_then_it_is_replaced(theirs, peer013, tmp_path):
    """With the pickles that were there, and ours in the form that needs none."""
    path = tmp_path / "alone" / "file.nwb.zarr"
    shutil.copytree(theirs["rich_without_positions"], path)
    check_added(peer013, path, tmp_path, **SWITCH)
    samples.write_zarr(path, samples.plain_nwbfile("new"))
    assert samples.read_zarr(path).identifier == "new"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.nwb.zarr"]


def _different_arrays(files: dict[str, Path], peer: Peer, folder: Path, **environment: str) -> dict[str, Any]:
    """Compare the values that we decode, as they are stored, with those that zarr 2 decodes in the peer's process."""
    answer = folder / "digests.json"
    assert ask(peer, exchange.READ_WITH_ZARR_2, [*files.items()], folder, answer, **environment) == len(files)
    different, number = {}, 0
    for name, arrays in json.loads(answer.read_text()).items():
        expected, result = {path: values for path, (values, _) in arrays.items()}, exchange.digests_of(files[name])
        number += len(result)
        wrong = {path for path in expected.keys() | result.keys() if expected.get(path) != result.get(path)}
        if wrong:
            different[name] = {path: (expected.get(path), result.get(path)) for path in sorted(wrong)[:5]}
    assert number > 100
    return different


def test_013_finds_no_more_errors_in_a_file_with_them(sources, peer013, tmp_path):
    files = {name: tmp_path / f"{name}.nwb.zarr" for name in ("with", "without")}
    for name, path in files.items():
        convert(sources["ndxpose__test_pose"], path, write_options=WriteOptions(nczarr=name == "with"))
    reported = used(peer013, files, tmp_path, "validate")
    assert reported["with"]["errors"] == reported["without"]["errors"] != []


def test_netcdf_opens_a_file_that_hdmf_zarr_013_wrote(theirs, tmp_path):
    """Columns that are ragged have one label, and other lengths."""
    path = Path(shutil.copytree(theirs["rich_without_positions"], tmp_path / "a.nwb.zarr"))
    listed = add_nczarr(path)
    answer = netcdf(path)
    assert set(listed) == numbers_of(path) == answer["arrays"].keys()
    assert_equal_values(answer, path)
    for name, array in answer["arrays"].items():
        _, dimensions = answer["groups"][name.rpartition("/")[0]]
        assert [dimensions[dimension][0] for dimension in array["dims"]] == array["shape"]
    renamed = [
        name
        for name, array in answer["arrays"].items()
        if array["dims"] != json.loads((path / name.strip("/") / ".zattrs").read_text()).get("_ARRAY_DIMENSIONS")
    ]
    assert renamed


def test_013_sees_all_attributes_of_ours(sources, ours, read_by_013):
    """The exports were compared with each other; this one with the file that was converted."""
    reported, folder = read_by_013
    assert not reported["rich"]["export"]
    differences = compare(sources["rich"], folder / "rich.nwb", ignore=exchange.LOSSES)
    assert [str(difference) for difference in differences] == OWN_LOSSES["rich"]
