"""`convert`: HDF5 -> Zarr -> HDF5 loses nothing, whatever is in the file; a failed conversion leaves no trace."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.common import get_manager
from hdmf.testing import TestCase
from pynwb import NWBHDF5IO

from hdmf_zarr_backend import NWBZarrIO, convert, errors, read_nwb, verify
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.errors import ChunkError, NotZarrError, StoreExistsError, UnsupportedFileError, UsageError
from hdmf_zarr_backend.hdf5 import filters
from hdmf_zarr_backend.hdmf.schema import ContainerError
from hdmf_zarr_backend.options import ReadOptions, WriteOptions
from tests import samples
from tests.documents import change_attributes, document
from tests.peers import Peer
from tests.places import Place, stored_files
from tests.smallfiles import edited_json, hdf5_dataset, hdf5_file
from tests.trees import read_builder
from tests.watching import Interrupted

# pynwb 4.2 reads none of these: NWB 1.2, and files whose texts are all arrays
UNREADABLE = {
    *(f"matnwb__{name}.nwb" for name in ("ecephys_tutorial_old", "link_test", "membrane_potential")),
    "nwbexplorer__nwb_test_file.nwb",
}
# what hdmf-zarr 0.13 itself cannot do: pynwb cannot rebuild this container for HDF5
PEER_CANNOT_EXPORT = {"pynapple__sub-4_ses-4_ecephys+image.nwb"}


def there_and_back(source: Path, folder: Path, **options: Any) -> tuple[Path, Path]:
    result, back = folder / f"{source.name}.zarr", folder / f"back_{source.name}"
    convert(source, result, **options)
    convert(result, back, **options)
    return result, back


def differences(one: Place, other: Place, *, ignore: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    return [str(difference) for difference in compare(one, other, ignore=ignore)]


def write_damaged(path: Path) -> None:
    """Write an HDF5 file whose dataset ``group/x`` has a chunk that does not decode."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("group/x", data=np.arange(100_000), chunks=(50_000,), compression="gzip")
        offset = data.id.get_chunk_info(1).byte_offset
    with path.open("r+b") as stream:
        stream.seek(offset + 100)
        stream.write(b"\xff" * 50)


def equal_containers(one: Path, other: Place) -> None:
    """Assert that pynwb makes the same containers of an HDF5 file and a Zarr file, or of two HDF5 files."""
    with warnings.catch_warnings(action="ignore"):  # old files are full of what pynwb warns of
        second = NWBHDF5IO if other.name.endswith(".nwb") else NWBZarrIO
        with NWBHDF5IO(one, "r") as left, second(other, "r") as right:
            a, b = left.read(), right.read()
            if "object_id" in left._file.attrs:  # pynwb makes some up for NWB 2.0b
                assert a.objects.keys() == b.objects.keys()
            assert len(a.objects) == len(b.objects)
            TestCase().assertContainerEqual(a, b, ignore_hdmf_attrs=True)  # they differ in the path of the file


# ---- nothing is lost ------------------------------------------------------------------------------------------------
@pytest.mark.corpus
def test_every_real_file_comes_back_as_it_was(nwbfiles: list[Path], tmp_path: Path) -> None:
    """Also those that pynwb cannot read: conversion does not depend on it."""
    result = {}
    for source in nwbfiles:
        with warnings.catch_warnings(action="ignore", category=BrokenLinkWarning):  # links to files that are not here
            _, back = there_and_back(source, tmp_path, check=False)
        result[source.name] = differences(source, back)
    assert {name: lines for name, lines in result.items() if lines} == {}


@pytest.mark.corpus
def test_every_real_file_has_the_same_containers(some_nwbfiles: list[Path], tmp_path: Path) -> None:
    for source in some_nwbfiles:
        if source.name in UNREADABLE:
            with pytest.raises(UnsupportedFileError, match="pynwb cannot read this file"):
                convert(source, tmp_path / f"{source.name}.zarr")
            continue
        convert(source, tmp_path / f"{source.name}.zarr")
        equal_containers(source, tmp_path / f"{source.name}.zarr")
    assert not [path.name for path in tmp_path.iterdir() if path.name.removesuffix(".zarr") in UNREADABLE]


# ---- stored documents ----------------------------------------------------------------------------------------------
def test_what_zarr_can_say_is_not_noted_and_the_place_of_the_specifications_may_be_text(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["text"], file.attrs["number"] = "a", 5
        file["text"], file["numbers"] = "a", np.arange(3)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert "hdf5" not in document(tmp_path / "a.zarr", ".zattrs")["_hdmf"]
    assert "_hdmf" not in document(tmp_path / "a.zarr", "text/.zattrs")
    assert document(tmp_path / "a.zarr", "numbers/.zattrs")["_hdmf"] == {"hdf5": {}}  # in one piece
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["cached/core/2.0/namespace"] = "{}"
        file.attrs[".specloc"] = "/cached"
    result, back = there_and_back(tmp_path / "b.h5", tmp_path)
    assert document(result, ".zattrs")[".specloc"] == "cached"
    assert differences(tmp_path / "b.h5", result) == differences(tmp_path / "b.h5", back) == []


# ---- links to other files -------------------------------------------------------------------------------------------
@pytest.fixture
def neighbours(tmp_path: Path) -> Path:
    """``a.h5`` with links into ``b.h5``, which has links and references of its own."""
    with h5py.File(tmp_path / "b.h5", "w") as file:
        group = file.create_group("outer/inner")
        group["data"] = np.arange(5.0)
        group["up"], group["aside"] = h5py.SoftLink("/outer/inner/data"), h5py.SoftLink("/elsewhere")
        group["nowhere"], group["back"] = h5py.SoftLink("/nothing"), h5py.ExternalLink("a.h5", "/own")
        file["elsewhere"] = np.arange(3)
        group.attrs["ref"] = group["data"].ref
        group.attrs["object_id"] = "id of the group"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["own"] = np.arange(2)
        file["link"] = h5py.ExternalLink("b.h5", "/outer/inner")
        file["again"] = h5py.ExternalLink("b.h5", "/outer/inner/data")
        file["to itself"] = h5py.ExternalLink("a.h5", "/own")
        file["through"] = h5py.SoftLink("/link/data")
    return tmp_path


def test_what_an_external_link_leads_to_is_copied_to_its_place(neighbours: Path, tmp_path: Path) -> None:
    with pytest.warns(BrokenLinkWarning, match="/outer/inner/nowhere in .*b.h5 points to /nothing"):
        convert(neighbours / "a.h5", tmp_path / "a.zarr")
    root = zarr.open_group(tmp_path / "a.zarr", mode="r")
    # the first path in the order of names is that of "again"
    assert root["again"][:].tolist() == [0, 1, 2, 3, 4]
    assert root["link/aside"][:].tolist() == [0, 1, 2]
    links = {entry["name"]: entry["path"] for entry in root["link"].attrs["zarr_link"]}
    assert links == {"data": "/again", "up": "/again", "nowhere": "/nothing", "back": "/own"}
    assert root["link"].attrs["ref"]["value"]["path"] == "/again"
    assert {e["name"]: e["path"] for e in root.attrs["zarr_link"]} == {"to itself": "/own", "through": "/again"}


def test_external_links_become_external_links_again_or_copies(neighbours: Path, tmp_path: Path) -> None:
    """Copies on request, and where their file is gone."""
    with pytest.warns(BrokenLinkWarning):
        convert(neighbours / "a.h5", tmp_path / "a.zarr")
    convert(tmp_path / "a.zarr", tmp_path / "back.h5")
    # a link to the file itself would lead back to the old file
    result = differences(neighbours / "a.h5", tmp_path / "back.h5")
    assert result == ["/to itself link: external link to a.h5:/own | soft link to /own"]
    for name, options in (("copied.h5", {"link_data": False}), ("alone.h5", {})):
        if name == "alone.h5":
            (neighbours / "b.h5").unlink()
        with pytest.warns(BrokenLinkWarning, match="points to .:/nothing"):
            convert(tmp_path / "a.zarr", tmp_path / name, **options)
        with h5py.File(tmp_path / name) as file:
            assert not [key for key in file if isinstance(file.get(key, getlink=True), h5py.ExternalLink)]
            assert file["link/data"][:].tolist() == [0, 1, 2, 3, 4]
            assert file["link/aside"][:].tolist() == [0, 1, 2]
            assert file[file["link"].attrs["ref"]] == file["again"]


def test_a_link_to_a_missing_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = np.arange(3)
        file["gone"] = h5py.ExternalLink("far/gone.h5", "/x")
        file["dangling"] = h5py.SoftLink("/nothing")
    with pytest.warns(BrokenLinkWarning, match="does not exist") as caught:
        convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert len(caught) == 2
    links = {entry["name"]: entry for entry in document(tmp_path / "a.zarr", ".zattrs")["zarr_link"]}
    assert (links["gone"]["source"], links["gone"]["path"]) == ("../far/gone.h5", "/x")
    with pytest.warns(BrokenLinkWarning):
        convert(tmp_path / "a.zarr", tmp_path / "far" / "back.h5")
    with h5py.File(tmp_path / "far" / "back.h5") as file:
        link = file.get("gone", getlink=True)
        assert (link.filename, link.path) == ("gone.h5", "/x")
        assert file.get("dangling", getlink=True).path == "/nothing"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """``a.zarr`` with links into ``b.nwb.zarr``; made from HDF5 files that are not there any more."""
    convert(hdf5_file(tmp_path / "b.nwb", outer__data=np.arange(4), other=np.arange(2)), tmp_path / "b.nwb.zarr")
    convert(hdf5_file(tmp_path / "a.h5", own=np.arange(3)), tmp_path / "a.zarr")
    entries = [("group", "/outer"), ("data", "/outer/data"), ("missing", "/nothing")]
    links = [{"name": name, "source": "../b.nwb.zarr", "path": path} for name, path in entries]
    change_attributes(tmp_path / "b.nwb.zarr", "outer", lambda a: a.update(
        zarr_link=[{"name": "near", "source": ".", "path": "/outer/data"},
                   {"name": "far", "source": "../b.nwb.zarr", "path": "/other"}],
        ref={"zarr_dtype": "object", "value": {"source": ".", "path": "/other"}},
    ))  # fmt: skip
    change_attributes(tmp_path / "a.zarr", "", lambda attributes: attributes.update(zarr_link=links))
    (tmp_path / "a.h5").unlink()
    return tmp_path


@pytest.mark.parametrize("folder", [".", "out"])
def test_a_link_to_a_zarr_neighbour_leads_to_its_hdf5_neighbour(linked: Path, folder: str) -> None:
    """Beside the target first."""
    (linked / folder).mkdir(exist_ok=True)
    if folder == "out":
        shutil.copy(linked / "b.nwb", linked / "out" / "b.nwb")
    with pytest.warns(BrokenLinkWarning, match="/missing"):
        convert(linked / "a.zarr", linked / folder / "a.nwb")
    with h5py.File(linked / folder / "a.nwb") as file:
        for name, path in (("group", "/outer"), ("data", "/outer/data"), ("missing", "/nothing")):
            link = file.get(name, getlink=True)
            is_beside_the_source = folder == "out" and name == "missing"  # as that of the target has no such node
            assert (link.filename, link.path) == ("../b.nwb" if is_beside_the_source else "b.nwb", path)
        assert file["data"][:].tolist() == [0, 1, 2, 3]


def test_without_hdf5_neighbour_the_target_of_a_link_is_copied(linked: Path) -> None:
    (linked / "b.nwb").unlink()
    with pytest.warns(BrokenLinkWarning, match="/missing"):
        convert(linked / "a.zarr", linked / "a.nwb")
    with h5py.File(linked / "a.nwb") as file:
        assert file["group/data"][:].tolist() == [0, 1, 2, 3]
        assert file["group/far"][:].tolist() == [0, 1]
        assert file.get("data", getlink=True).path == "/group/data"
        assert file.get("group/near", getlink=True).path == "/group/data"
        assert file[file["group"].attrs["ref"]] == file["group/far"]
        assert file.get("missing", getlink=True).filename == "b.nwb"


@pytest.mark.parametrize("suffix", ["zarr", "h5"])
def test_a_link_that_the_policy_refuses_is_not_said_to_lead_to_nothing(linked: Path, suffix: str) -> None:
    (linked / "in").mkdir()
    if suffix == "zarr":
        source = Path(shutil.move(linked / "a.zarr", linked / "in" / "a.zarr"))
        far = {"name": "far", "source": "../../b.nwb.zarr", "path": "/other"}
        change_attributes(source, "", lambda attributes: attributes.update(zarr_link=[far]))
        (linked / "b.nwb").unlink()
    else:
        source = linked / "in" / "a.h5"
        with h5py.File(source, "w") as file:
            file["far"] = h5py.ExternalLink("../b.nwb", "/other")
    target = source.with_name("new.h5" if suffix == "zarr" else "new.zarr")
    said = r"/other, which was not followed \(external_links='within', --external-links within\); the link is kept"
    with pytest.warns(BrokenLinkWarning, match=said):
        convert(source, target, read_options=ReadOptions(external_links="within"))


def test_a_reference_to_another_file_becomes_null_with_a_warning(linked: Path) -> None:
    value = {"zarr_dtype": "object", "value": {"source": "../b.nwb.zarr", "path": "/other"}}
    change_attributes(linked / "a.zarr", "own", lambda attributes: attributes.update(ref=value))
    with pytest.warns(BrokenLinkWarning) as caught:
        convert(linked / "a.zarr", linked / "a.nwb")
    assert "references cannot leave their file" in str(caught[-1].message)
    with h5py.File(linked / "a.nwb") as file:
        assert not file["own"].attrs["ref"]


# ---- files that never were in HDF5 ----------------------------------------------------------------------------------
def test_chunks_of_zarr_that_are_too_large_for_hdf5_are_cut(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    root.create_array("x", shape=(3_000_000,), chunks=(1_500_000,), dtype="<f8")[:] = 1.5
    convert(tmp_path / "a.zarr", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].chunks == (125_000,)  # 12 of them are one chunk of Zarr
        assert (file["x"][:] == 1.5).all()


def test_files_of_plain_zarr_convert(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    unlike = {"mixed": [1, "a"], "flags": [True, 2.5], "ragged": [[1], [2, 3]], "large": 2**70, "none in it": [None, 1]}
    unlike["nested"] = {"a": [None, "x"], "b": [2**70, {}]}
    root.attrs.update({"list": [1, 2.5], **unlike, "flag": True, "none": None})
    root.create_array("0-d", shape=(), dtype="<i4")[...] = 5
    root.create_array("big", shape=(4, 3), chunks=(3, 2), dtype=">f8", order="F")[...] = np.arange(12).reshape(4, 3)
    root.create_array("slash", data=np.arange(4), chunks=(2,), chunk_key_encoding={"name": "v2", "separator": "/"})
    root.create_array("unwritten", shape=(3,), dtype="<i2", fill_value=7)
    (remark,) = convert(tmp_path / "a.zarr", tmp_path / "a.h5").remarks
    assert "HDF5 has no type for 6 attributes" in remark
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["0-d"][()] == 5
        assert file["big"].dtype.str == ">f8"
        assert file["big"][:].tolist() == np.arange(12.0).reshape(4, 3).tolist()
        assert file["slash"][:].tolist() == [0, 1, 2, 3]
        assert (file["unwritten"][:].tolist(), file["unwritten"].fillvalue) == ([7, 7, 7], 7)
        assert {name: json.loads(file.attrs[name]["json"]) for name in unlike} == unlike
        assert (file.attrs["list"].tolist(), file.attrs["flag"], "none" in file.attrs) == ([1, 2.5], True, False)
    convert(tmp_path / "a.h5", tmp_path / "b.zarr")
    assert unlike.items() <= dict(zarr.open_group(tmp_path / "b.zarr", mode="r").attrs).items()
    assert compare(tmp_path / "a.h5", tmp_path / "b.zarr") == compare(tmp_path / "a.h5", tmp_path / "a.zarr") == []


def test_many_attributes_are_read_in_time_that_grows_with_their_number(tmp_path, monkeypatch):
    source = tmp_path / "source.h5"
    with h5py.File(source, "w", libver="latest") as file:
        file.attrs.update({f"a{index}": index for index in range(20)})
    open_attribute = h5py.h5a.open

    def refuse_index(*args: Any, **kwargs: Any) -> Any:  # for which HDF5 sorts all attributes, each time
        assert not kwargs
        return open_attribute(*args)

    monkeypatch.setattr(h5py.h5a, "open", refuse_index)
    convert(source, tmp_path / "made.zarr")
    assert compare(source, tmp_path / "made.zarr") == []


def test_a_note_that_does_not_fit_any_more_is_not_heeded(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["fixed"], file.attrs["small"] = np.bytes_(b"abc"), np.array([1, 2], ">u1")
        file.attrs.create("byte", 5, dtype="<u2")
        file.create_dataset("x", data=np.arange(6).reshape(2, 3), chunks=(2, 3))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")

    def change(attributes: dict[str, Any]) -> None:
        attributes.update(fixed="longer than three", byte=-1, small=["now", "text"])
        attributes["_nczarr_attr"]["types"].clear()

    change_attributes(tmp_path / "a.zarr", "", change)
    change_attributes(
        tmp_path / "a.zarr", "x", lambda attributes: attributes["_hdmf"]["hdf5"].update(chunks=[1], type="<f4")
    )
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert (file.attrs["fixed"], file.attrs["byte"]) == ("longer than three", -1)
        assert file.attrs["small"].tolist() == ["now", "text"]
        assert file["x"].dtype == np.int64
        assert file["x"][:].tolist() == [[0, 1, 2], [3, 4, 5]]


# ---- bad input ------------------------------------------------------------------------------------------------------
def leftovers(folder: Path, *known: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in known)


@pytest.mark.parametrize(("source", "target", "options", "error", "words"), [
    ("missing.h5", "b.zarr", {}, errors.StoreNotFoundError, "the file does not exist"),
    ("text.txt", "b.zarr", {}, NotZarrError, "neither an HDF5 file nor a Zarr directory"),
    ("folder", "b.h5", {}, NotZarrError, "not a Zarr hierarchy"),
    ("a.h5", "b.h5", {}, UsageError, "HDF5 already"),
    ("a.h5", "b.h5", {"to": "netcdf"}, UsageError, "not a format"),
    ("a.zarr", "b.h5", {"zarr_format": 3}, UsageError, "zarr_format=3"),
    ("a.h5", "a.h5", {"to": "zarr"}, StoreExistsError, "the same file"),
    ("a.zarr", "a.zarr/b.h5", {}, StoreExistsError, "one is inside the other"),
    ("folder/c.h5", "folder", {"to": "zarr", "overwrite": True}, StoreExistsError, "one is inside the other"),
    ("a.h5", "nowhere/b.zarr", {}, errors.StoreNotFoundError, "folder of the target"),
    ("short.h5", "b.zarr", {}, UnsupportedFileError, "HDF5 cannot open this file"),
    ("short.h5", "b.zarr", {"check": False}, UnsupportedFileError, "HDF5 cannot open this file"),
])  # fmt: skip
def test_calls_that_are_refused_touch_nothing(tmp_path, source, target, options, error, words):
    hdf5_file(tmp_path / "a.h5", x=np.arange(3))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    (tmp_path / "folder").mkdir()
    shutil.copy(tmp_path / "a.h5", tmp_path / "folder" / "c.h5")
    (tmp_path / "text.txt").write_text("some text")
    (tmp_path / "short.h5").write_bytes((tmp_path / "a.h5").read_bytes()[:1000])
    before = stored_files(tmp_path)
    with pytest.raises(error, match=words):
        convert(tmp_path / source, tmp_path / target, **options)
    assert stored_files(tmp_path) == before


def test_damage_in_zarr_is_reported_with_the_node(tmp_path: Path) -> None:
    convert(hdf5_file(tmp_path / "a.h5", group__x=np.arange(1000)), tmp_path / "a.zarr")
    hdf5_file(tmp_path / "b.h5", y=np.arange(2))
    (tmp_path / "a.zarr/group/x/0").write_bytes(b"no chunk")
    with pytest.raises(ChunkError, match=r"a\.zarr: .*\(/group/x\)"):
        convert(tmp_path / "a.zarr", tmp_path / "b.h5", overwrite=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert list(file) == ["y"]
    assert leftovers(tmp_path, "a.h5", "a.zarr") == ["b.h5"]


def test_text_that_hdf5_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    convert(samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile()), tmp_path / "a.zarr")
    root = zarr.open_group(tmp_path / "a.zarr", mode="r+", use_consolidated=False)
    root["session_description"][:] = np.array(["a\0b"], dtype=object)
    with pytest.raises(errors.ValueRefusedError, match=r"a\.zarr: .*\(/session_description\)"):
        convert(tmp_path / "a.zarr", tmp_path / "b.nwb", check=False)
    assert leftovers(tmp_path, "a.nwb", "a.zarr") == []


@pytest.mark.parametrize("target", ["b.zarr", "b.h5"])
def test_an_interrupted_conversion_leaves_the_old_file(tmp_path: Path, target: str) -> None:
    hdf5_file(tmp_path / "a.h5", x=np.arange(5))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    hdf5_file(tmp_path / "b.h5", y=np.arange(2))
    convert(tmp_path / "b.h5", tmp_path / "b.zarr")
    source = tmp_path / ("a.h5" if target == "b.zarr" else "a.zarr")
    with pytest.raises(KeyboardInterrupt):
        convert(source, tmp_path / target, write_options=WriteOptions(progress=Interrupted()), overwrite=True)
    assert differences(tmp_path / "b.h5", tmp_path / "b.zarr", ignore={"chunks", "filters"}) == []
    kept = [name for name in leftovers(tmp_path, "a.h5", "a.zarr") if name not in ("b.h5", "b.zarr")]
    resumable = [f.name for f in tmp_path.glob(".b.zarr.*.conversion-*.partial")]  # of an HDF5 file nothing is
    assert kept == resumable
    assert len(kept) == (1 if target == "b.zarr" else 0)


TRACE = "acquisition/trace"


@pytest.mark.parametrize(("path", "attribute", "value", "words"), [
    ("/", "nwb_version", None, "it has no NWB version"),
    ("/", "nwb_version", np.array([b"2.0"]), "gives its NWB version as an array"),
    ("/", "nwb_version", "1.0.6", "NWB version 1.0.6"),
    ("nwb_version", None, "NWB-1.0.6", "NWB version 1.x, and pynwb"),
    ("session_start_time", None, None, r"pynwb cannot read this file \(\w+Error: "),
    ("session_start_time", None, "2020-02-31T00:00:00+00:00", "pynwb cannot read this file"),
    (f"{TRACE}/starting_time", "rate", None, r"Could not construct TimeSeries .*, at /acquisition/trace\)"),
    (f"{TRACE}/starting_time", None, None, "pynwb cannot read this file"),
    (TRACE, "comments", ["two", "texts"], "pynwb cannot read this file"),
    (TRACE, "neurodata_type", np.arange(3), "pynwb cannot read this file"),
    ("acquisition/again", None, h5py.SoftLink(f"/{TRACE}"), "pynwb cannot read this file"),
])  # fmt: skip
def test_what_pynwb_cannot_read_is_refused_unless_requested(tmp_path, path, attribute, value, words):
    """A node or an attribute is gone, or another one."""
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    with h5py.File(source, "r+") as file:
        if path == "nwb_version":  # as NWB 1 has it
            del file.attrs[path]
        location, name = (file, path) if attribute is None else (file[path].attrs, attribute)
        if name in location:
            del location[name]
        if value is not None:
            location[name] = value
    with pytest.raises(UnsupportedFileError, match=words) as caught:
        convert(source, tmp_path / "a.nwb.zarr")
    assert "\n" not in str(caught.value)
    assert leftovers(tmp_path, "a.nwb") == []
    convert(source, tmp_path / "a.nwb.zarr", check=False)
    with pytest.raises(UnsupportedFileError, match="pynwb cannot read this file"):
        convert(tmp_path / "a.nwb.zarr", tmp_path / "b.nwb")
    convert(tmp_path / "a.nwb.zarr", tmp_path / "b.nwb", check=False)
    assert differences(source, tmp_path / "b.nwb") == []


@pytest.mark.parametrize(("source", "policy", "says"), [
    ("/etc/passwd", None, "'/etc/passwd' is not a Zarr file"), ("../../x", None, "'../../x' does not exist"),
    ("../b.nwb.zarr", "never", "links to other files are not followed"),
])  # fmt: skip
def test_a_link_that_pynwb_needs_is_named(tmp_path: Path, source: str, policy: Any, says: str) -> None:
    nwbfile = samples.plain_nwbfile()
    nwbfile.create_electrode_group("shank", "a shank", "CA1", device=nwbfile.create_device("probe"))
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    with edited_json(path / ".zmetadata") as content:
        content["metadata"]["general/extracellular_ephys/shank/.zattrs"]["zarr_link"][0]["source"] = source
    with pytest.raises(UnsupportedFileError, match="shank/device in ") as caught:
        convert(path, tmp_path / "c.nwb", read_options=ReadOptions(external_links=policy))
    assert says in str(caught.value)
    assert "io.replace" not in str(caught.value)


def test_no_name_leads_out_of_the_copy(tmp_path: Path, zarr_format: Any) -> None:
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile(), zarr_format=zarr_format)
    with edited_json(path / (".zmetadata" if zarr_format == 2 else "zarr.json")) as content:
        if zarr_format == 2:
            content["metadata"]["../../evil/.zgroup"] = {"zarr_format": 2}
        else:
            content["consolidated_metadata"]["metadata"]["../../evil"] = {"zarr_format": 3, "node_type": "group"}
    with pytest.warns(errors.DamagedMetadataWarning, match="'../../evil' is not a path inside the file"):
        convert(path, tmp_path / "b.nwb")
    with h5py.File(tmp_path / "b.nwb") as file:
        assert ".." not in list(file)
    assert next(each.remedy for each in verify(path).problems if "evil" in each.path).startswith("Do not trust")


@pytest.mark.parametrize(
    ("field", "value"), [("session_description", "licks"), ("identifier", "a"), ("session_start_time", samples.START)]
)
def test_a_field_that_is_missing_is_added_to_the_copy(tmp_path: Path, field: str, value: Any) -> None:
    """As the messages say."""
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    with h5py.File(source, "r+") as file:
        del file[field]
    target = tmp_path / "a.nwb.zarr"
    with pytest.raises(UnsupportedFileError, match=r"io\.replace adds it") as caught:
        convert(source, target)
    assert "--no-check" in caught.value.remedy_cli
    with pytest.raises(ContainerError, match=r"zarrio convert --no-check.*io\.replace"):
        read_nwb(source)
    convert(source, target, check=False)
    with pytest.raises(ContainerError, match=r"io\.replace\("):
        read_nwb(target)
    with NWBZarrIO(target, "r+") as io:
        io.replace(f"/{field}", value.isoformat() if field == "session_start_time" else value)
    convert(target, tmp_path / "b.nwb")
    for path in (target, tmp_path / "b.nwb"):
        nwbfile = read_nwb(path)
        assert getattr(nwbfile, field) == value
        nwbfile.read_io.close()


def _reads_with_pynwb(source: Path) -> bool:
    with warnings.catch_warnings(action="ignore"):
        try:
            with NWBHDF5IO(source, "r") as io:
                io.read()
        except Exception:  # noqa: BLE001 - pynwb and hdmf raise errors of many classes
            return False
    return True


def test_the_check_says_of_damaged_files_what_pynwb_says_of_them(tmp_path: Path) -> None:
    """What is planned is read in the place of the file; that must not make a difference."""
    whole = tmp_path / "whole.nwb"
    with NWBHDF5IO(whole, "w") as io:
        io.write(samples.plain_nwbfile(), cache_spec=False)
    paths: list[str] = []
    with h5py.File(whole) as file:
        file.visit(paths.append)
    refused = 0
    for number, path in enumerate(paths):
        # each node is gone, a group, or numbers
        source = Path(shutil.copy(whole, tmp_path / f"{number}.nwb"))
        with h5py.File(source, "r+") as file:
            del file[path]
            if number % 3 == 1:
                file.create_group(path)
            elif number % 3 == 2:
                file[path] = np.arange(4)
        target, to = (tmp_path / "a.zarr.json", "virtual") if number % 2 else (tmp_path / "a.zarr", "zarr")
        if _reads_with_pynwb(source):
            convert(source, target, overwrite=True, to=to)  # type: ignore[arg-type]
            continue
        refused += 1
        with pytest.raises(UnsupportedFileError, match="pynwb cannot read this file") as caught:
            convert(source, target, overwrite=True, to=to)  # type: ignore[arg-type]
        assert str(source) in str(caught.value)
        assert target.name not in str(caught.value)
    assert refused > 3


@pytest.mark.parametrize("zarr_format", [2, 3, "both"])
def test_a_length_in_place_of_a_label_in_the_schema_becomes_text(tmp_path: Path, zarr_format: Any) -> None:
    """``dims: [3]`` is in ndx-aibs-ecephys, which many files of the Allen Institute have."""
    corner = {"name": "corner", "doc": "a place", "dtype": "float32", "shape": [None], "dims": [3]}
    namespace = {"name": "lab", "version": "1.0", "doc": "", "author": "", "contact": "", "schema": [{"source": "box"}]}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs.update(namespace="lab", data_type="Box", object_id="1")
        file["corner"] = np.arange(3, dtype="f4")
        file["specifications/lab/1.0/namespace"] = json.dumps({"namespaces": [namespace]})
        file["specifications/lab/1.0/box"] = json.dumps(
            {"groups": [{"data_type_def": "Box", "doc": "a box", "datasets": [corner]}]}
        )
        file.attrs[".specloc"] = file["specifications"].ref
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=zarr_format)
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert read_builder(tmp_path / "a.zarr", manager=get_manager())["corner"].dimension_labels == ("3",)
    assert differences(tmp_path / "a.h5", tmp_path / "b.h5") == []


def test_axes_of_a_file_without_a_schema_have_the_names_of_the_installed_one(tmp_path: Path) -> None:
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    with h5py.File(source, "r+") as file:
        del file["specifications"], file.attrs[".specloc"]
    convert(source, tmp_path / "a.zarr")
    result = zarr.open_group(tmp_path / "a.zarr")["acquisition/trace/data"].attrs["_ARRAY_DIMENSIONS"]
    assert result == ["num_times", "num_DIM2"]


def test_a_filter_that_is_not_installed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5_dataset(tmp_path / "a.h5", "x", data=np.arange(1000), chunks=(100,), compression="lzf", shuffle=True)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    monkeypatch.setattr(filters, "usable", lambda pipeline: pipeline[0][0] != 32000)
    with pytest.warns(errors.FilterReplacedWarning, match="filter 32000"):
        convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert (file["x"].compression, file["x"].compression_opts, file["x"].shuffle) == ("gzip", 4, True)
        assert file["x"][:].tolist() == list(range(1000))


def test_a_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    """In a process of its own: a plugin that is registered stays so."""
    pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        filters = {"compression": 32008, "compression_opts": (0, 0)}
        file.create_dataset("group/x", data=np.arange(9000).reshape(-1, 3), chunks=(7, 3), **filters)
    hide = "import sys; sys.modules['hdf5plugin'] = None\n"
    turn = f"{hide}from hdmf_zarr_backend import convert; convert(sys.argv[1], sys.argv[2])"
    paths = [str(tmp_path / name) for name in ("a.h5", "a.zarr")]
    answer = subprocess.run([sys.executable, "-c", turn, *paths], capture_output=True, text=True, check=False)
    assert "HDF5 filter 32008 is not installed" in answer.stderr
    assert "(/group/x). Install hdf5plugin." in answer.stderr
    assert leftovers(tmp_path, "a.h5") == []


# ---- report, progress, memory ---------------------------------------------------------------------------------------
def test_paths_may_be_relative_and_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5_file(tmp_path / "a.h5", x=np.arange(3))
    monkeypatch.chdir(tmp_path)
    assert convert("a.h5", Path("b.zarr")).target == os.path.join(tmp_path, "b.zarr")


@pytest.mark.parametrize("chunks", [None, (250, 12), (40_000, 1)])
def test_memory_is_bounded_whatever_the_chunks(tmp_path: Path, chunks: tuple[int, int] | None) -> None:
    hdf5_dataset(tmp_path / "a.h5", "x", data=np.arange(40_000 * 256, dtype="<f8").reshape(-1, 256), chunks=chunks)
    for source, target in (("a.h5", "a.zarr"), ("a.zarr", "b.h5")):
        tracemalloc.start()
        convert(tmp_path / source, tmp_path / target, write_options=WriteOptions(memory_budget=32 * 2**20))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 40e6, target
    assert differences(tmp_path / "a.h5", tmp_path / "b.h5") == []


# ---- hdmf-zarr ------------------------------------------------------------------------------------------------------

_WRITE = """
import json, sys, warnings
warnings.simplefilter("ignore")
from hdmf_zarr import NWBZarrIO
from pynwb import NWBHDF5IO
done = []
for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        with NWBHDF5IO(source, "r") as src, NWBZarrIO(target, "w") as io:
            io.export(src, write_args={"link_data": False})
        done.append(source)
    except Exception as error:
        print(source, type(error).__name__, error, file=sys.stderr)
print(json.dumps(done))
"""


@pytest.mark.peer
@pytest.mark.corpus
def test_files_of_hdmf_zarr_convert_to_hdf5(peer013: Peer, some_nwbfiles: list[Path], tmp_path: Path) -> None:
    """With pickled references and rows, which it only writes and reads with its unsafe switch on."""
    sources = [path for path in some_nwbfiles if path.name not in UNREADABLE]
    pairs = [part for path in sources for part in (path, tmp_path / f"{path.name}.zarr")]
    done = peer013.run(_WRITE, *pairs, env={"NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"})
    assert len(done) >= len(sources) - len(PEER_CANNOT_EXPORT)
    for name in (Path(source).name for source in done):
        convert(tmp_path / f"{name}.zarr", tmp_path / name)
        equal_containers(tmp_path / name, tmp_path / f"{name}.zarr")
