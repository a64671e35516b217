"""Bad input is reported once, by an error or a warning that names the store, the node and a remedy."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import ConstructError
from hdmf.spec import NamespaceCatalog
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, compare, consolidate, convert, repair, upgrade, validate, verify
from hdmf_zarr_backend.errors import (
    ChunkError,
    DamagedFileError,
    MetadataError,
    MissingNamespacesWarning,
    NotZarrError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
    UnreadTypeWarning,
    UnsupportedFileError,
    UsageError,
    ValueRefusedError,
    ZarrBackendError,
)
from hdmf_zarr_backend.hdmf.schema import ContainerError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.zom import to_zom
from tests import samples
from tests.documents import check_error as check
from tests.extensions import extension, write_with
from tests.places import stored_files


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_trial(start_time=0.0, stop_time=1.0, timeseries=[nwbfile.acquisition["trace"]])
    nwbfile.add_acquisition(TimeSeries(name="copy", data=nwbfile.acquisition["trace"], unit="m", rate=10.0))
    return samples.write_zarr(tmp_path_factory.mktemp("written") / "file.nwb.zarr", nwbfile)


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Path:
    """A copy that may be spoiled, read document by document; without the cached specifications, which are many."""
    path = tmp_path / "file.nwb.zarr"
    shutil.copytree(written, path, ignore=shutil.ignore_patterns("specifications", ".zmetadata"))
    return path


def change(document: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(document.read_text(encoding="utf-8"))
    edit(content)
    document.write_text(json.dumps(content), encoding="utf-8")


def make_group(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / ".zgroup").write_text('{"zarr_format": 2}')


def read(path: Path, *, load_namespaces: bool = False) -> Any:
    with NWBZarrIO(path, load_namespaces=load_namespaces) as io:
        return io.read(check=True)


# ---- nothing to read -----------------------------------------------------------------------------------------------
ARRAY = {"shape": [3], "chunks": [3], "dtype": "<i4", "fill_value": 0, "order": "C", "filters": None,
         "compressor": None, "zarr_format": 2}  # fmt: skip


def put(path: Path, **texts: str) -> None:
    """Make a folder of files, whose names have a dot for each underscore."""
    path.mkdir()
    for name, text in texts.items():
        (path / name.replace("_", ".")).write_text(text)


THINGS: dict[str, Callable[[Path], Any]] = {
    "an empty folder": Path.mkdir,
    "other files": lambda path: put(path, thesis_txt="all of it"),
    "a text file": lambda path: path.write_text("no directory"),
    "an HDF5 file": lambda path: samples.write_hdf5(path, samples.plain_nwbfile()),
    "an array": lambda path: put(path, _zarray=json.dumps(ARRAY)),
    "plain Zarr": lambda path: (put(path, _zgroup='{"zarr_format": 2}'), put(path / "x", _zarray=json.dumps(ARRAY))),
}
"""What is at a path that is no file of HDMF in Zarr."""


@pytest.mark.parametrize("mode", ["r", "r-", "r+", "a"])
@pytest.mark.parametrize("thing", [thing for thing in THINGS if thing != "plain Zarr"])
def test_paths_without_a_zarr_file(tmp_path, thing, mode):
    path = tmp_path / "thing.nwb"
    THINGS[thing](path)
    before = stored_files(tmp_path)
    with pytest.raises(NotZarrError) as caught:
        NWBZarrIO(path, mode)
    check(caught.value, path)
    assert thing != "an HDF5 file" or re.search("NWBHDF5IO.*`zarrio convert`", str(caught.value))
    assert not NWBZarrIO.can_read(path)
    assert stored_files(tmp_path) == before


def test_mode_a_of_a_path_without_a_file_has_nothing_to_read(tmp_path):
    """A mistyped path: mode ``a`` would make a new file, so the error of reading says so and names what is similar."""
    (tmp_path / "sesion.nwb.zarr").mkdir()
    for opened in (NWBZarrIO, ZarrIO):
        for location, meant in (("session.nwb.zarr", " Did you mean 'sesion.nwb.zarr'?"), ("other/a.zarr", "")):
            path = tmp_path / location
            missing = pytest.raises(StoreNotFoundError, match="mode 'a' creates a new one")
            with opened(path, "a") as io, missing as caught:
                io.read()
            check(caught.value, path)
            assert caught.value.remedy == f"Check the path.{meant}"
            assert isinstance(caught.value, (FileNotFoundError, UnsupportedOperation))
    assert [path.name for path in tmp_path.iterdir()] == ["sesion.nwb.zarr"]


@pytest.mark.parametrize("mode", ["r", "r-", "r+"])
def test_a_path_without_a_file_names_the_part_that_is_wrong(tmp_path, mode):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b.nwb.zarr").mkdir()
    (tmp_path / "file.nwb").write_text("")
    remedies = {
        "data/a.nwb.zarr": "Check the path. Did you mean 'b.nwb.zarr'? Use mode 'w' to create a new file.",
        "dta/b.nwb.zarr": "Check the path. Did you mean 'data'? Use mode 'w' to create a new file.",
    }
    for location, remedy in remedies.items():
        with pytest.raises(StoreNotFoundError) as caught:
            NWBZarrIO(tmp_path / location, mode)
        check(caught.value, tmp_path / location)
        assert caught.value.remedy == remedy
    with pytest.raises(StoreError, match=r"file\.nwb' is a file, not a folder"):
        NWBZarrIO(tmp_path / "file.nwb" / "acquisition", mode)
    ZipFile(tmp_path / "a.zip", "w").close()
    part = r"a part of the zip file '.*a\.zip', and not a file.* Give the path of the file"
    with pytest.raises(StoreError, match=part):
        NWBZarrIO(tmp_path / "a.zip" / "acquisition", mode)


@pytest.mark.parametrize(("url", "said"), [
    *((f"zip://{{}}/a.zip{path}", "inside a zip file that is not named") for path in ("", "/acquisition")),
    ("zip://acquisition::file://{}/a.zip", r"a part of the Zarr file 'zip://::file://.*a\.zip', and not a file"),
    *((f"{url}{{}}/{name}", "cannot open") for url in ("zip::", "tar::file://") for name in ("text.txt", "folder")),
    ("zip::file://{}/absent.zip", "does not exist: .* No such file"),
])  # fmt: skip
def test_a_url_of_an_archive_that_names_no_file_says_why(tmp_path, url, said):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("text")
    samples.write_zarr(tmp_path / "a.zip", samples.plain_nwbfile())
    with pytest.raises(ZarrBackendError, match=said):
        NWBZarrIO(url.format(tmp_path), "r")


def test_a_target_inside_a_zip_file_is_named(tmp_path):
    samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile())
    ZipFile(tmp_path / "a.zip", "w").close()
    for target in ("a.zip/b.nwb", "a.zip/folder/b.nwb.zarr"):
        with pytest.raises(StoreError, match=r"a part of the zip file '.*a\.zip', and not a file"):
            convert(tmp_path / "a.nwb.zarr", tmp_path / target)


_OF_A_FILE: dict[str, Callable[[Path], Any]] = {
    **{f"mode {mode}": lambda path, mode=mode: NWBZarrIO(path, mode) for mode in ("r", "r-", "r+", "a")},
    **{f"{mode} of ZarrIO": lambda path, mode=mode: ZarrIO(path, mode) for mode in ("r", "a")},
    "namespaces": ZarrIO.get_namespaces, "verify": verify, "validate": validate, "repair": repair,
    "consolidate": consolidate, "upgrade": upgrade, "add_nczarr": add_nczarr, "to_zom": to_zom,
    "compare": lambda path: list(compare(path, path)),
    "to Zarr": lambda path: convert(path, path.parents[1] / "new.nwb.zarr"),
    "to HDF5": lambda path: convert(path, path.parents[1] / "new.nwb"),
}  # fmt: skip


@pytest.fixture(scope="module", params=[2, 3])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "file.nwb.zarr"
    return samples.write_zarr(path, samples.plain_nwbfile(), zarr_format=request.param)


@pytest.mark.parametrize("use", _OF_A_FILE.values(), ids=_OF_A_FILE)
def test_a_group_inside_a_file_is_not_a_file(whole, use):
    before = stored_files(whole.parent)
    with pytest.raises(NotZarrError, match="a part of the Zarr file") as caught:
        use(whole / "acquisition")
    check(caught.value, whole / "acquisition")
    assert caught.value.remedy == f"Give the path of the file: {str(whole)!r}."
    assert not NWBZarrIO.can_read(whole / "acquisition")
    assert stored_files(whole.parent) == before


@pytest.mark.parametrize("place", ["memory://whole.nwb.zarr", "memory://whole", "store of zarr", "open zip file"])
def test_a_group_in_memory_or_in_a_zip_file_is_not_a_file(tmp_path, place):
    """zarr-python 2 opens no files of format 3, so these have format 2."""
    file: Any = place
    if place == "store of zarr":
        file = zarr.storage.MemoryStore()
    elif place == "open zip file":
        file = tmp_path / "whole.nwb.zarr.zip"
    samples.write_zarr(file, samples.plain_nwbfile())
    if place == "open zip file":
        file = zarr.storage.ZipStore(file, mode="r")
    inside = f"{file}/acquisition" if isinstance(file, str) else zarr.open_group(file, mode="r")["acquisition"]
    for use in (lambda: NWBZarrIO(inside, "r"), partial(verify, inside), partial(convert, inside, tmp_path / "a.nwb")):
        with pytest.raises(NotZarrError, match="a part of the Zarr file") as caught:
            use()
        assert caught.value.store.endswith("/acquisition")
    if not isinstance(file, str):
        file.close()
    assert not (tmp_path / "a.nwb").exists()


_NEW_FILES: dict[str, Callable[[Path, Path], Any]] = {
    **{f"mode {mode}": lambda _, path, mode=mode: NWBZarrIO(path, mode) for mode in ("w", "w-", "a")},
    "from HDF5": convert,
    "virtual": lambda source, path: convert(source, path.with_suffix(".zarr.json"), to="virtual"),
    "to HDF5": lambda source, path: convert(path.parents[1], path.with_suffix(".nwb")),
}


@pytest.mark.parametrize("make", _NEW_FILES.values(), ids=_NEW_FILES)
def test_no_file_is_made_inside_another_one(whole, tmp_path, make):
    hdf5 = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    before = stored_files(whole.parent)
    for name in ("trace.zarr", "new.zarr"):
        with pytest.raises(StoreExistsError, match=r"inside the Zarr file|is inside the other"):
            make(hdf5, whole / "acquisition" / name)
    with pytest.raises(StoreExistsError, match="inside the Zarr file"):
        NWBZarrIO(whole / "acquisition" / "trace", "w", force_overwrite=True)
    assert stored_files(whole.parent) == before


def test_files_in_a_group_are_files(tmp_path):
    """A group of zarr that is no file of HDMF may have files as its members, and a file may be put into another one."""
    root = tmp_path / "sessions.zarr"
    root.mkdir()
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    samples.write_zarr(root / "first", samples.plain_nwbfile())
    (root / "first" / ".zmetadata").unlink()
    zarr.consolidate_metadata(str(root))
    assert verify(root / "first").problems == []
    assert read(root / "first", load_namespaces=True).acquisition.keys() == {"trace"}
    whole = samples.write_zarr(tmp_path / "whole.nwb.zarr", samples.plain_nwbfile())
    shutil.copytree(root / "first", whole / "scratch_of_mine")
    assert read(whole / "scratch_of_mine").acquisition.keys() == {"trace"}


def test_a_group_inside_a_file_on_a_web_server(whole, web):
    shutil.copytree(whole, web.folder / "file.nwb.zarr")
    with pytest.raises(ZarrBackendError) as caught:
        NWBZarrIO(f"{web.url}/file.nwb.zarr/acquisition")
    assert f"{web.url}/file.nwb.zarr" in caught.value.remedy


def test_what_cannot_be_opened_at_all(store):
    with pytest.raises(UsageError, match="cannot hold a Zarr file"):
        ZarrIO(3)
    with pytest.raises(UsageError, match="mode 'rw' is unknown"):
        ZarrIO("file.zarr", "rw")
    with pytest.raises(NotZarrError, match="single Zarr array") as caught:
        ZarrIO(store / "acquisition" / "trace" / "data")
    check(caught.value, store / "acquisition" / "trace" / "data")


# ---- Zarr, but not HDMF --------------------------------------------------------------------------------------------
def _plain_zarr(path: Path, **attributes: Any) -> Path:
    group = zarr.create_group(str(path), zarr_format=2, attributes=attributes)
    group.create_array("values", shape=(3,), dtype="i4")
    return path


@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.MissingNamespacesWarning")
def test_a_zarr_file_of_another_program_or_an_empty_one(tmp_path):
    path = _plain_zarr(tmp_path / "other.zarr", answer=42)
    with pytest.raises(UnsupportedFileError, match="Missing NWB version") as caught:
        read(path)
    check(caught.value, path, "/")
    with NWBZarrIO(path) as io, pytest.raises(ContainerError, match="the root has no neurodata_type") as caught:
        io.read(skip_version_check=True)
    check(caught.value, path, "/")
    with ZarrIO(path) as io, pytest.raises(ContainerError, match="the root has no data_type") as caught:
        io.read()
    check(caught.value, path, "/")
    zarr.create_group(str(tmp_path / "empty.zarr"), zarr_format=2)
    with ZarrIO(tmp_path / "empty.zarr") as io, pytest.raises(NotZarrError, match="There are no values") as caught:
        io.read()
    check(caught.value, tmp_path / "empty.zarr")


@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.MissingNamespacesWarning")
@pytest.mark.parametrize(("write", "reason"), [
    (lambda file: file.attrs.update(nwb_version=["2.0.0"]),
     "pynwb cannot read this file: it gives its NWB version as an array"),
    (lambda file: file.create_dataset("nwb_version", data="NWB-1.0.6"),
     "Missing NWB version in file: nwb_version is a dataset, as in NWB 1"),
])  # fmt: skip
def test_an_nwb_version_that_pynwb_cannot_read(tmp_path, write, reason):
    """Old releases of MatNWB wrote an array, NWB 1 has a dataset; both convert with ``check=False``."""
    with h5py.File(tmp_path / "old.nwb", "w") as file:
        write(file)
    convert(tmp_path / "old.nwb", tmp_path / "old.nwb.zarr", check=False)
    with pytest.raises(UnsupportedFileError, match=reason) as caught:
        read(tmp_path / "old.nwb.zarr")
    check(caught.value, tmp_path / "old.nwb.zarr", "/")


def test_no_cached_namespace(store):
    """The installed namespaces do where they know the types; an extension that nothing knows is an error."""
    change(store / ".zattrs", lambda root: root.pop(".specloc"))
    with pytest.warns(MissingNamespacesWarning, match=str(store)):
        assert read(store, load_namespaces=True).identifier == "plain"
    change(store / "acquisition" / "trace" / ".zattrs", lambda node: node.update(namespace="ndx-unheard-of"))
    with pytest.warns(MissingNamespacesWarning), pytest.raises(ContainerError, match="'ndx-unheard-of'") as caught:
        read(store, load_namespaces=True)
    check(caught.value, store, "/acquisition/trace")


def test_what_is_not_in_its_namespace_or_not_what_the_schema_names_is_left_out_with_a_warning(store):
    """hdmf leaves it out silently."""
    change(store / "acquisition" / "copy" / ".zattrs", lambda node: node.update(neurodata_type="SpaceSeries"))
    with pytest.warns(UnreadTypeWarning) as caught:
        nwbfile = read(store)
    messages = [str(warning.message) for warning in caught if warning.category is UnreadTypeWarning]
    assert len(messages) == 1
    assert all(part in messages[0] for part in ("SpaceSeries", "/acquisition/copy", str(store), "core"))
    assert list(nwbfile.acquisition) == ["trace"]
    shutil.rmtree(store / "acquisition")
    shutil.copytree(store / "identifier", store / "acquisition")
    with pytest.warns(UnreadTypeWarning, match="/acquisition in .* is a dataset, and a group in the schema"):
        read(store)


def test_a_reference_to_a_type_that_is_not_in_its_namespace(store):
    change(store / TRACE / ".zattrs", lambda node: node.update(neurodata_type="SpaceSeries"))
    unknown = pytest.raises(ContainerError, match="No specification for 'SpaceSeries'")
    with pytest.warns(UnreadTypeWarning), unknown as caught:
        read(store)
    check(caught.value, store, "/acquisition/copy")


# ---- damaged -------------------------------------------------------------------------------------------------------
def edited(path: str, **values: Any) -> Callable[[Path], None]:
    """Return what changes attributes of a node; None removes one."""

    def edit(attributes: dict[str, Any]) -> None:
        attributes.update(values)
        for name in [name for name, value in values.items() if value is None]:
            del attributes[name]

    return lambda store: change(store / path / ".zattrs", edit)


TRACE, TRIALS, TEXT = "acquisition/trace", "intervals/trials", "session_description"
SPOILED: list[tuple[Callable[[Path], Any], type[ZarrBackendError], str, str]] = [
    (edited(TRACE, namespace=None), ContainerError, "'TimeSeries' has no namespace", f"/{TRACE}"),
    (edited("", namespace=None), ContainerError, "'NWBFile' has no namespace", "/"),
    (edited(TRACE, neurodata_type=["TimeSeries"]), ContainerError, "is not the name of a type", f"/{TRACE}"),
    (edited(f"{TRACE}/data", neurodata_type=[1, 2]), ContainerError, "2.* has no namespace", f"/{TRACE}/data"),
    (edited("", nwb_version="1.0.6"), UnsupportedFileError, "it has NWB version 1.0.6, and pynwb reads version 2", "/"),
    (edited("", nwb_version="1.2.0_beta"), UnsupportedFileError, "it has NWB version 1.2.0_beta", "/"),
    (edited(TRACE, data=3), MetadataError, "the name .data. is that of an attribute", f"/{TRACE}"),
    (lambda store: make_group(store / TRACE / "data"), ContainerError, "a group where the schema", f"/{TRACE}/data"),
    (lambda store: make_group(store / TEXT), ContainerError, "a group where the schema names a dataset", f"/{TEXT}"),
    (lambda store: shutil.rmtree(store / TEXT), ContainerError, TEXT, "/"),
    (lambda store: (store / TEXT / "0").write_bytes(b"\1\2\3"), ChunkError, "the chunk '0", f"/{TEXT}"),
    (edited(f"{TRIALS}/id", neurodata_type="DecompositionSeries", namespace="core"), ContainerError, "no con",
     f"/{TRIALS}"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "error", "words", "node"), SPOILED, ids=[words for _, _, words, _ in SPOILED])
def test_what_makes_no_containers_is_named(store, spoil, error, words, node):
    spoil(store)
    with pytest.raises(error, match=words) as caught:
        read(store)
    check(caught.value, store, node)
    assert error is not ContainerError or isinstance(caught.value, ConstructError)


def test_cached_namespaces_that_are_not_there(written, tmp_path):
    store = Path(shutil.copytree(written, tmp_path / "file.nwb.zarr", ignore=shutil.ignore_patterns(".zmetadata")))
    with pytest.raises(MetadataError, match="'ndx-x' is not cached") as caught:
        ZarrIO.load_namespaces(NamespaceCatalog(), store, namespaces=["ndx-x"])
    check(caught.value, store, "/specifications")
    assert "core" in caught.value.remedy
    (version,) = (folder for folder in (store / "specifications" / "core").iterdir() if folder.is_dir())
    make_group(version / "namespace")
    with pytest.raises(MetadataError, match="'namespace' is missing") as caught:
        read(store, load_namespaces=True)
    check(caught.value, store, f"/specifications/core/{version.name}/namespace")
    assert read(store, load_namespaces=False).identifier == "plain"


def test_waveforms_of_different_electrodes_are_to_be_padded(tmp_path):
    nwbfile = samples.plain_nwbfile()
    for electrodes in (3, 2):
        nwbfile.add_unit(spike_times=[1.0], waveform_mean=np.ones((4, electrodes)).tolist())
    with pytest.raises(ValueRefusedError, match="rows differ in length") as caught:
        samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    assert "pad waveform_mean with NaN" in caught.value.remedy
    assert "another type" not in str(caught.value)
    assert caught.value.path == "/units/waveform_mean"


def test_a_failed_read_does_not_leave_half_a_tree(store):
    """A second read raises the error again, instead of returning a partial tree."""
    change(store / "acquisition" / "trace" / ".zattrs", lambda node: node.update(zarr_link=[{"path": "/x"}]))
    with NWBZarrIO(store, load_namespaces=False) as io:
        for _ in range(2):
            with pytest.raises(MetadataError, match="has no name") as caught:
                io.read_builder()
            check(caught.value, store, "/acquisition/trace")


# ---- links and references to nothing -------------------------------------------------------------------------------
@pytest.mark.parametrize("target", [
    *({"path": f"/acquisition/{path}"} for path in ("nothing", "trace/comments", "copy/data")),
    *({"source": source} for source in ("../absent.zarr", "..", "s3://bucket/absent.zarr")),
], ids=["no node", "an attribute", "itself", "no file", "no Zarr file", "another store"])  # fmt: skip
def test_a_broken_link_is_a_warning_and_the_rest_reads(store, target):
    change(store / "acquisition" / "copy" / ".zattrs", lambda node: node["zarr_link"][0].update(target))
    with pytest.warns(BrokenLinkWarning) as caught, NWBZarrIO(store, load_namespaces=False) as io:
        builder = io.read_builder()
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 1
    assert "/acquisition/copy/data" in messages[0]
    assert str(store) in messages[0]
    assert "data" not in builder["acquisition/copy"]
    assert builder["acquisition/trace/data"].data[:].sum() == np.arange(60).sum()


def test_links_in_a_circle(tmp_path):
    """Within a file and through another file."""
    documents = {
        "a.zarr": [("one", ".", "/two"), ("two", ".", "/one"), ("far", "../b.zarr", "/back")],
        "b.zarr": [("back", "../a.zarr", "/far")],
    }
    for name, links in documents.items():
        entries = [{"name": link, "source": source, "path": path} for link, source, path in links]
        zarr.create_group(str(tmp_path / name), zarr_format=2, attributes={"zarr_link": entries, "data_type": "Group"})
    with ZarrIO(tmp_path / "a.zarr") as io, pytest.warns(BrokenLinkWarning) as caught:
        assert io.read_builder().links == {}
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 3
    for name in ("one", "two", "far"):
        assert any(f"at /{name} in {tmp_path / 'a.zarr'}" in text for text in messages)
    assert all("the links form a circle" in text for text in messages)


def test_an_invalid_reference(store):
    """The elements of an array of references are dicts with a path; anything else is damage, reported on use."""
    chunk = numcodecs.JSON().encode(np.array([["no reference"], [[1]]], dtype=object))
    node = store / "intervals" / "trials" / "timeseries"
    assert (node / "0.0").exists()
    (node / "0.0").write_bytes(numcodecs.Blosc().encode(chunk))
    with NWBZarrIO(store, load_namespaces=False) as io:
        nwbfile = io.read()
        with pytest.raises(DamagedFileError) as caught:
            nwbfile.trials["timeseries"][0]
    check(caught.value, store, "/intervals/trials/timeseries")


# ---- refusing to write ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("thing", THINGS)
def test_other_files_are_replaced_by_force_only(tmp_path, thing):
    path = tmp_path / "thing.nwb"
    THINGS[thing](path)
    before = stored_files(tmp_path)
    for mode in ("w-", "x", "w")[: 2 if thing == "an empty folder" else 3]:  # where there is something to lose
        with pytest.raises(StoreExistsError) as caught:
            NWBZarrIO(path, mode)
        check(caught.value, path)
        assert isinstance(caught.value, FileExistsError)
        assert stored_files(tmp_path) == before
        assert path.exists()
    samples.write_zarr(path, samples.plain_nwbfile("new"), force_overwrite=True)
    assert read(path).identifier == "new"
    assert not (path / "thesis.txt").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thing.nwb"]


@pytest.mark.parametrize(
    "attributes", [{".specloc": "specifications"}, {"namespace": "core"}, {".specloc": {"path": "/specifications"}}]
)
def test_any_hdmf_zarr_file_is_replaced(tmp_path, attributes):
    """Whoever wrote it: its root has ``.specloc`` or ``namespace``."""
    path = _plain_zarr(tmp_path / "old.zarr", **attributes)
    with NWBZarrIO(path, "w") as io:
        assert (path / "values").exists(), "opening alone deletes nothing"
        io.write(samples.plain_nwbfile("new"))
    assert read(path).identifier == "new"
    assert not (path / "values").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["old.zarr"]


# ---- exporting -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spelling", ["same", "dotted", "linked", "forced"])
def test_a_file_is_not_exported_onto_itself(store, tmp_path, monkeypatch, spelling):
    monkeypatch.chdir(tmp_path)
    target: Path | str = store
    if spelling == "dotted":
        target = f"./x/../{store.name}"
        (tmp_path / "x").mkdir()
    if spelling == "linked":
        target = tmp_path / "link.zarr"
        target.symlink_to(store, target_is_directory=True)
    before = stored_files(store)
    with (
        NWBZarrIO(store, load_namespaces=False) as source,
        NWBZarrIO(target, "w", force_overwrite=spelling == "forced") as io,
        pytest.raises(StoreExistsError, match="onto itself") as caught,
    ):
        io.export(source)
    check(caught.value, Path(io.source))
    assert stored_files(store) == before
    hdf5 = samples.write_hdf5(tmp_path / "file.nwb", samples.plain_nwbfile())
    content = hdf5.read_bytes()
    onto_itself = pytest.raises(StoreExistsError, match="onto itself")
    with NWBHDF5IO(hdf5, "r") as source, NWBZarrIO(hdf5, "w", force_overwrite=True) as io, onto_itself:
        io.export(source)
    assert hdf5.read_bytes() == content


# ---- a root without its document ------------------------------------------------------------------------------------
def test_a_file_of_format_3_without_the_document_of_its_root(tmp_path: Path) -> None:
    path = samples.write_zarr(tmp_path / "a.zarr", samples.plain_nwbfile(), zarr_format=3)
    (path / "zarr.json").unlink()
    for use in (ZarrIO, partial(convert, target=tmp_path / "b.h5")):
        with pytest.raises(MetadataError, match="below it has metadata") as caught:
            use(path)
        assert caught.value.path == "/"
        assert "Restore the document of the root" in caught.value.remedy


def test_a_folder_of_files_names_one_of_them(tmp_path: Path) -> None:
    for name in ("b.nwb.zarr", "a.nwb.zarr"):
        samples.write_zarr(tmp_path / name, samples.plain_nwbfile())
    with pytest.raises(NotZarrError, match=r"a folder of Zarr files.*such as 'a\.nwb\.zarr'"):
        NWBZarrIO(tmp_path, "r")


@pytest.mark.parametrize("value", [None, 5, "session"])
def test_what_is_not_a_container_is_refused_before_anything_is_written(tmp_path: Path, value: object) -> None:
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(path, "w") as io:
        with pytest.raises(UsageError, match=f"a {type(value).__name__} cannot be written") as caught:
            io.write(value)
        assert isinstance(caught.value, TypeError)
        assert caught.value.store == str(path)
        assert "NWBFile" in str(caught.value)
    assert not path.exists()


# ---- another version of an extension ---------------------------------------------------------------------------------

_OTHER_VERSION = """
import sys
import warnings
from pathlib import Path

from pynwb import load_namespaces

from hdmf_zarr_backend import NWBZarrIO, convert
from hdmf_zarr_backend.errors import ZarrBackendError

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
load_namespaces(sys.argv[2])

def read(mode):
    with NWBZarrIO(folder / "a.nwb.zarr", mode) as io:
        io.read(check=True)

for call, arguments in (
    (read, ["r"]), (read, ["r+"]), (convert, [folder / "a.nwb.zarr", folder / "b.nwb"]),
    (convert, [folder / "a.nwb", folder / "b.nwb.zarr"]),
):
    try:
        call(*arguments)
    except ZarrBackendError as error:
        print(error)
"""


def test_another_version_of_an_extension_is_named_and_not_the_file(tmp_path):
    write_with(tmp_path / "a.nwb.zarr", extension(tmp_path / "old", "ndx-thing", knob="gain"), knob="gain")
    convert(tmp_path / "a.nwb.zarr", tmp_path / "a.nwb")
    other = extension(tmp_path / "new", "ndx-thing", version="0.2.0", knob="amplification")
    command = [sys.executable, "-c", _OTHER_VERSION, str(tmp_path), other]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "'ndx-thing' 0.2.0 is loaded, and the file has 0.1.0" in line
        assert line.endswith("a process that does not import the extension takes it from there.")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("b.")]
    assert read(tmp_path / "a.nwb.zarr", load_namespaces=True).acquisition["ndx-thing"].gain == 7
