"""Conversions of HDF5 files differ in nothing from them; what one could lose is found."""

import functools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pynwb import NWBHDF5IO

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.comparison import Difference, compare
from hdmf_zarr_backend.conversion import convert as convert_file
from hdmf_zarr_backend.model.element import Target, Text
from tests import samples
from tests.compare import planted
from tests.smallfiles import edited_json, hdf5_file


def changed(converted: Path, folder: Path, plant: Callable[[dict[str, Any]], object]) -> Path:
    path = Path(shutil.copytree(converted, folder / "b.zarr"))
    with edited_json(path / ".zmetadata") as document:
        plant(document["metadata"])
    return path


def hdf5_note(path: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda documents: documents[f"{path}/.zattrs"]["_hdmf"]["hdf5"].__setitem__(name, value)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An HDF5 file with types and links that HDMF never writes, and the Zarr file that `convert` makes of it."""
    folder = tmp_path_factory.mktemp("everything")
    hdf5_file(folder / "other.h5", data=np.arange(3))
    with h5py.File(folder / "a.h5", "w") as file:
        planted.write_sample(file)
        del file["virtual"]  # becomes plain data, which is a difference
    convert_file(folder / "a.h5", folder / "a.zarr")
    return folder / "a.h5", folder / "a.zarr"


def test_everything_that_is_converted_differs_in_nothing(everything):
    hdf5, zarr = everything
    assert list(map(str, compare(hdf5, zarr))) == []
    assert compare(zarr, zarr) == []


HDF5_ONLY = ("hard for soft link", "external, file", "external, path", "chunks", "no chunks any more")
"""What HDF5 says, and of which Zarr files say nothing, or something else."""


@pytest.mark.parametrize("name", [name for name in planted.PLANTED if name != "virtual"])
@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_what_is_planted_in_hdf5_is_found_from_zarr_and_in_zarr(everything, name):
    hdf5, zarr = everything
    kind, location, plant = planted.PLANTED[name]
    other = planted.changed(hdf5, hdf5.parent, plant)  # beside it: the external link is relative
    differences = compare(zarr, other)
    assert planted.places(differences) == [(kind, location)], list(map(str, differences))
    if name in HDF5_ONLY:
        return
    converted = hdf5.with_name("b.zarr")
    convert_file(other, converted, overwrite=True)
    differences = compare(zarr, converted)  # a type may come with other filters, a shape with other chunks
    assert (kind, location) in planted.places(differences)
    assert {where for _, where in planted.places(differences)} == {location}
    mirrored = [{"missing": "extra", "extra": "missing"}.get(one.kind, one.kind) for one in compare(converted, zarr)]
    assert mirrored == [one.kind for one in differences]
    assert compare(zarr, converted, ignore={one.kind for one in differences}) == []


def test_a_chunk_that_is_gone_is_a_difference_in_values(everything, tmp_path):
    hdf5, zarr = everything
    other = changed(zarr, tmp_path, lambda _: None)
    (other / "numbers/0.0").unlink()
    (difference,) = compare(hdf5, other, ignore=("link",))
    assert (difference.path, difference.kind) == ("/numbers", "value")
    assert (difference.a, difference.b, difference.place) == (0, -1, "[0, 0]")


def test_virtual_data_become_plain_data(tmp_path):
    layout = h5py.VirtualLayout((3,), "<f8")
    layout[...] = h5py.VirtualSource("elsewhere.h5", "/data", (3,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
    convert_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    (difference,) = compare(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert str(difference) == "/virtual layout: ('virtual', 'elsewhere.h5:/data') | ('contiguous',)"


@pytest.mark.filterwarnings("ignore:.* are read from the raw file")
def test_data_in_a_raw_file_become_plain_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where HDF5 looks for the raw file
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("raw", (3,), "<f8", external=[("values.raw", 0, 24)])[:] = 1
    convert_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    (difference,) = compare(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert str(difference) == "/raw layout: ('contiguous', 'values.raw:0:24') | ('contiguous',)"


@pytest.mark.parametrize("spoil", [{"fields": [["x", "<i4"]]}, "object", {"text": "ascii"}])
def test_a_noted_type_that_does_not_fit_any_more_says_nothing(everything, tmp_path, spoil):
    assert compare(everything[1], changed(everything[1], tmp_path, hdf5_note("plain", "type", spoil))) == []


ENDLESS = functools.reduce(lambda inner, _: {"sequence": inner}, range(200), "<i4")


@pytest.mark.parametrize(("spoil", "message"), [
    *((spoil, "/plain") for spoil in (
        "nonsense", {}, 7, {"text": "ascii", "size": 3}, {"array": "<i4"}, {"fields": 3})), (ENDLESS, "too deep"),
])  # fmt: skip
def test_a_noted_type_that_is_none_is_told(everything, tmp_path, spoil, message):
    other = changed(everything[1], tmp_path, hdf5_note("plain", "type", spoil))
    (difference,) = compare(everything[1], other)
    assert (difference.path, difference.kind, difference.a) == ("/plain", "unreadable", None)
    assert message in str(difference)


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore:The link:hdmf.backends.warnings.BrokenLinkWarning")
def test_a_converted_real_file_differs_in_nothing(some_nwbfiles, tmp_path):
    unexpected = {}
    for path in some_nwbfiles:
        target = tmp_path / f"{path.name}.zarr"
        convert_file(path, target, check=False)
        if differences := compare(path, target):
            unexpected[path.name] = list(map(str, differences))
        shutil.rmtree(target)
    assert unexpected == {}


def is_documented(d: Difference) -> bool:
    """Tell whether HDF5IO -> builders -> Zarr makes this difference: HDF5IO reads no more than that (hdmf 6.2)."""
    if d.path.startswith("/specifications"):
        return True  # the export caches the namespaces that pynwb has loaded
    if d.attribute == ".specloc":
        return d.kind == "attribute" and d.a is None
    if d.kind in {"text-encoding", "attribute-text-encoding"}:
        # attributes and scalars become str, whatever text they were
        assert isinstance(d.a, Text)
        return d.a.charset == "ascii"
    if d.kind == "dtype":
        return (str(d.a), str(d.b)) == ("region", "reference")
    if d.kind == "reference":
        assert isinstance(d.a, Target)
        return d.a.region is not None and replace(d.a, region=None) == d.b
    return d.kind == "missing" and d.a == "link"  # broken links are dropped, with a warning


def test_an_exported_file_differs_as_documented(tmp_path):
    source, target = samples.write_hdf5(tmp_path / "a.nwb"), tmp_path / "a.zarr"
    with NWBHDF5IO(source, "r") as io, NWBZarrIO(target, "w") as out:
        out.export(src_io=io)
    assert [str(difference) for difference in compare(source, target) if not is_documented(difference)] == []


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore")  # pynwb and hdmf on old files
def test_an_exported_real_file_differs_as_documented(some_nwbfiles, tmp_path):
    unexpected = {}
    compared = 0
    for path in some_nwbfiles:
        if path.name == "nwbexplorer__nwb_test_file.nwb":
            continue  # NWB 1.x
        target = tmp_path / f"{path.name}.zarr"
        with NWBHDF5IO(path, "r", load_namespaces=True) as source, NWBZarrIO(target, "w") as io:
            io.export(src_io=source)
        differences = [difference for difference in compare(path, target) if not is_documented(difference)]
        if differences:
            unexpected[path.name] = list(map(str, differences))
        compared += 1
        shutil.rmtree(target)
    assert unexpected == {}
    assert compared > 0
