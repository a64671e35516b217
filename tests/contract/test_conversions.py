"""HDF5 -> Zarr -> HDF5, and Zarr of one format -> Zarr of the other, wherever the Zarr file is.

Conversions of one store or one format are in ``tests/test_conversion.py``.
"""

import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import create_autospec

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.testing import TestCase

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.errors import DamagedFileError, FilterReplacedWarning, NameRefusedError, ValueRefusedError
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.progress import Progress
from tests import samples
from tests.cells import Cell
from tests.documents import arrays
from tests.everything import write_everything
from tests.places import Place, contents
from tests.smallfiles import hdf5_dataset, hdf5_file
from tests.test_conversion import differences, equal_containers, write_damaged
from tests.trees import read_builder


class Rounds(NamedTuple):
    """An HDF5 file, what was made of it, and what was made of that."""

    source: Path
    made: Place
    back: Path


def there_and_back(source: Path, folder: Place) -> Rounds:
    made, back = folder / f"{source.stem}.zarr", source.with_name(f"back_{source.name}")
    convert(source, made)
    convert(made, back)
    return Rounds(source, made, back)


@pytest.fixture(scope="module")
def everything(shared_folder: Place, tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    return there_and_back(write_everything(tmp_path_factory.mktemp("everything") / "all.h5"), shared_folder)


def test_one_of_everything_comes_back_as_it_was_and_a_second_round_changes_nothing(everything, folder):
    assert differences(everything.source, everything.back) == []
    convert(everything.back, folder / "again.zarr")
    assert contents(folder / "again.zarr") == contents(everything.made)


def test_nothing_is_lost_on_the_way_to_the_other_format_and_back(everything, folder, tmp_path, cell):
    other = folder / "other.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what zarr calls unstable in format 3
        convert(everything.made, other, zarr_format=5 - cell.zarr_format)
        convert(other, folder / "again.zarr", zarr_format=cell.zarr_format)
    with ZarrIO(other) as io:
        assert io.zarr_format == 5 - cell.zarr_format
    assert differences(everything.made, other) == []
    # rows with references are encoded again, and those of format 2 are chunked by another size of a row
    assert differences(everything.made, folder / "again.zarr", ignore={"chunks"}) == []
    convert(other, tmp_path / "back.h5")
    assert differences(everything.source, tmp_path / "back.h5") == []


def test_data_in_other_files_become_data_of_the_file(folder: Place, tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((4,), "<f8")
    layout[...] = h5py.VirtualSource("part.h5", "x", (4,))
    with h5py.File(hdf5_file(tmp_path / "part.h5", x=np.arange(4.0)), "r"), h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", (3,), "<i2", external=str(tmp_path / "values.raw"))[...] = [1, 2, 3]
    with pytest.warns(UserWarning, match="/raw are read from the raw file"):
        back = there_and_back(tmp_path / "a.h5", folder).back
    with pytest.warns(UserWarning, match="/raw are read from the raw file"):
        assert differences(tmp_path / "a.h5", back, ignore={"layout"}) == []


def test_a_source_in_the_same_file_needs_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5 looks for sources in the working directory, which another program may have deleted."""
    layout = h5py.VirtualLayout((3,), "<f8")
    layout[...] = h5py.VirtualSource(".", "x", (3,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1.0, 2.0, 3.0]
        file.create_virtual_dataset("virtual", layout)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert zarr.open_group(str(tmp_path / "a.zarr"), mode="r")["virtual"][:].tolist() == [1.0, 2.0, 3.0]


def test_a_generated_nwb_file_comes_back_and_has_the_same_containers(folder: Place, tmp_path: Path) -> None:
    source = samples.write_hdf5(tmp_path / "rich.nwb")
    _, made, back = there_and_back(source, folder)
    assert differences(source, back) == []
    equal_containers(source, made)
    equal_containers(source, back)


def test_arrays_that_never_were_in_hdf5_get_a_sensible_layout(folder: Place, tmp_path: Path) -> None:
    nwbfile = samples.plain_nwbfile()
    values = np.arange(400_000, dtype="<i4").reshape(-1, 4)
    given = {
        "large": values, "small": values[:10], "plain": ZarrDataIO(values, compressor=False),
        "few": ZarrDataIO(values, chunks=(100_000, 1)), "filled": ZarrDataIO(values, fillvalue=-7),
        "growing": ZarrDataIO(values[:10], maxshape=(None, 4)), "bytes": values.astype("u1"),
    }  # fmt: skip
    for name, data in given.items():
        nwbfile.add_acquisition(samples.TimeSeries(name=name, data=data, unit="m", rate=1.0))
    convert(samples.write_zarr(folder / "a.nwb.zarr", nwbfile), tmp_path / "a.nwb")
    with h5py.File(tmp_path / "a.nwb") as file:
        found = {name: file[f"acquisition/{name}/data"] for name in given}
        large = found["large"]
        assert (large.compression, large.compression_opts, large.shuffle) == ("gzip", 4, True)
        assert large.chunks == (100_000, 4)
        assert (found["small"].chunks, found["plain"].chunks) == (None, None)
        assert found["few"].chunks == (100_000, 1)
        assert found["filled"].fillvalue == -7
        assert (found["growing"].maxshape, found["growing"].compression) == ((None, 4), None)
        assert (found["bytes"].compression, found["bytes"].shuffle) == ("gzip", False)
        assert all(np.array_equal(found[name][:], np.asarray(getattr(d, "data", d))) for name, d in given.items())


def test_a_file_that_was_written_here_reads_the_same_in_the_other_format(folder: Place, cell: Cell) -> None:
    nwbfile = samples.rich_nwbfile()
    source = samples.write_zarr(folder / "a.nwb.zarr", nwbfile)
    convert(source, folder / "b.nwb.zarr", zarr_format=5 - cell.zarr_format)
    with NWBZarrIO(folder / "b.nwb.zarr") as io:
        assert io.zarr_format == 5 - cell.zarr_format
        TestCase().assertContainerEqual(io.read(), nwbfile, ignore_hdmf_attrs=True)


def test_what_loses_precision_is_not_applied_twice(folder: Place, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(1000, 3))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("rounded", data=values, chunks=(100, 3), scaleoffset=2)
        file.create_dataset("packed", data=np.arange(1000), chunks=(100,), scaleoffset=0)
    convert(tmp_path / "a.h5", folder / "a.zarr")
    with pytest.warns(FilterReplacedWarning, match="filter 6 is lossy"):
        convert(folder / "a.zarr", tmp_path / "b.h5")
    assert differences(tmp_path / "a.h5", tmp_path / "b.h5", ignore={"filters"}) == []
    with h5py.File(tmp_path / "b.h5") as file:
        assert (file["rounded"].compression, file["rounded"].shuffle) == ("gzip", True)
        assert file["packed"].scaleoffset == 0


VALUES = np.arange(2**20, dtype="i4").reshape(2**14, 64)


@pytest.mark.parametrize(("codec", "stored"), [
    ("blosc", "blosc"), (True, "blosc"), ("zstd", "zstd"), ("zlib", "zlib"), ("none", None), (False, None),
    (numcodecs.Zstd(1), "zstd"), ({"id": "bz2", "level": 1}, "bz2"),
], ids=str)  # fmt: skip
def test_a_codec_is_given_by_name_or_as_it_is(folder, tmp_path, cell, codec, stored):
    """Format 3 has no codec of that name but the same by the name of gzip."""
    if stored == "zlib" and cell.zarr_format == 3:
        stored = "gzip"
    hdf5_dataset(tmp_path / "a.h5", "values", data=VALUES, chunks=(2**11, 64), compression="gzip", shuffle=True)
    path = folder / "a.zarr"
    convert(tmp_path / "a.h5", path, codec=codec)
    node = arrays(path)["values"]
    assert not node.stored.filters
    assert (node.stored.compressor or {"id": None})["id"] == stored
    assert np.array_equal(read_builder(path)["values"].data[:], VALUES)
    chunks = [value for key, value in contents(path).items() if key.startswith("values/") and key[-1].isdigit()]
    if stored == "gzip":
        assert {chunk[4:8] for chunk in chunks} == {bytes(4)}  # no time: equal values are equal chunks


def test_the_report_and_the_progress_say_what_was_done(folder: Place, tmp_path: Path) -> None:
    hdf5_file(tmp_path / "a.h5", group__x=np.arange(100_000), y=np.float32(1), text=["a", "b"])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["soft"], file["hard"] = h5py.SoftLink("/y"), file["y"]
    made = folder / "a.zarr"
    for source, target in ((tmp_path / "a.h5", made), (made, tmp_path / "b.h5")):
        progress = create_autospec(Progress, instance=True)
        report = convert(source, target, write_options=WriteOptions(progress=progress))
        assert (report.groups, report.datasets, report.links, report.nbytes) == (2, 3, 2, 800_020)
        assert (report.source, report.target) == (str(source), str(target))
        assert report.format == ("zarr" if target == made else "hdf5")
        assert str(report).splitlines()[0].endswith(": 2 groups, 3 datasets, 2 links, 800 kB")
        progress.start.assert_called_once_with(800_020)
        assert sum(done for (_, done), _ in progress.advance.call_args_list) == 800_020
        assert {path for (path, _), _ in progress.advance.call_args_list} == {"/group/x", "/hard", "/text"}
        progress.finish.assert_called_once_with()


def ragged() -> Any:
    made = np.empty(2, h5py.vlen_dtype("<i4"))
    made[0], made[1] = np.array([1, 2]), np.array([3])
    return made


@pytest.mark.parametrize(("name", "data", "error", "words"), [
    ("group/ragged", ragged(), ValueRefusedError, r"a\.h5: .*sequences of variable length .*\(/group/ragged\)"),
    ("group/a\\b", np.arange(3), NameRefusedError, r"cannot be stored .*\(/group/a"),
    (".zarray", np.arange(3), NameRefusedError, r"cannot be stored .*\(/.zarray\)"),
    ("long", np.zeros(2, np.longdouble), ValueRefusedError, r"no data type .*\(/long\)"),
])  # fmt: skip
def test_what_zarr_cannot_hold_is_refused_by_name(folder, tmp_path, name, data, error, words):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("first", data=np.arange(1000))
        file.create_dataset(name, data=data)
    with pytest.raises(error, match=words):
        convert(tmp_path / "a.h5", folder / "a.zarr")
    assert [place.name for place in folder.iterdir() if place.name != "a.h5"] == []


@pytest.mark.needs("staging")
def test_damage_in_hdf5_is_reported_with_the_node_and_the_old_file_stays(folder: Place, tmp_path: Path) -> None:
    convert(hdf5_file(tmp_path / "old.h5", y=np.arange(2)), folder / "a.zarr")
    write_damaged(tmp_path / "a.h5")
    with pytest.raises(DamagedFileError, match=r"a\.h5: .*\(/group/x\)"):
        convert(tmp_path / "a.h5", folder / "a.zarr", overwrite=True)
    assert read_builder(folder / "a.zarr")["y"].data[:].tolist() == [0, 1]
