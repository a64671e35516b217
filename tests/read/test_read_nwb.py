"""`read_nwb` opens any source: Zarr in a folder, a zip file, a store or at a URL, and HDF5, here or at a URL."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.local import LocalFileSystem
from hdmf.build import GroupBuilder
from pynwb import TimeSeries
from upath import UPath

from hdmf_zarr_backend import (
    Limits,
    NWBZarrIO,
    ReadOptions,
    compare,
    convert,
    errors,
    read_nwb,
    report,
    validate,
    verify,
    virtual,
)
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import NotZarrError, StoreNotFoundError, StoreRefusedError, UsageError, ZarrBackendError
from hdmf_zarr_backend.hdf5.files import UnreadableHdf5Error
from hdmf_zarr_backend.nwb import UnsupportedNWBError
from tests import samples
from tests.servers import Proxy, WebServer, serving
from tests.smallfiles import hdf5_file
from tests.trees import write_builder

SQUARE = np.arange(1_000_000, dtype="i4").reshape(1000, 1000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    nwbfile = samples.rich_nwbfile()
    nwbfile.add_acquisition(TimeSeries(name="large", data=SQUARE, unit="V", rate=1.0))
    samples.write_hdf5(folder / "a.nwb", nwbfile)
    convert(folder / "a.nwb", folder / "a.nwb.zarr")
    convert(folder / "a.nwb", folder / "a.nwb.zarr.zip")
    convert(folder / "a.nwb", folder / "a.nwb.zarr.json", to="virtual")
    return folder


SOURCES = {
    "HDF5": lambda folder: folder / "a.nwb",
    "HDF5, UPath": lambda folder: UPath(folder / "a.nwb"),
    "folder": lambda folder: str(folder / "a.nwb.zarr"),
    "zip": lambda folder: folder / "a.nwb.zarr.zip",
    "references": lambda folder: folder / "a.nwb.zarr.json",
    "group": lambda folder: zarr.open_group(str(folder / "a.nwb.zarr"), mode="r"),
    "mapping": lambda folder: fsspec.get_mapper(str(folder / "a.nwb.zarr")),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_any_source(folder, source):
    nwbfile = read_nwb(source(folder))
    assert nwbfile.identifier == "rich"
    np.testing.assert_array_equal(nwbfile.acquisition["large"].data[5, 10:20], SQUARE[5, 10:20])
    nwbfile.read_io.close()


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(WebServer(folder)) as server:
        yield server.url


NAMES = ("a.nwb", "a.nwb.zarr", "a.nwb.zarr.json", "a.nwb.zarr.zip")


@pytest.mark.parametrize("name", [*NAMES, *(f"{name}?key=1.nwb/2" for name in NAMES)])
def test_a_url(url, name):
    nwbfile = read_nwb(f"{url}/{name}")
    assert nwbfile.identifier == "rich"
    assert nwbfile.read_io.source == f"{url}/{name}"
    data = nwbfile.acquisition["large"].data
    np.testing.assert_array_equal(data[5, 10:20], SQUARE[5, 10:20])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data))[7], SQUARE[7])


@pytest.fixture
def signed(url: str) -> Iterator[Proxy]:
    """A server that answers GET at the URLs with a signature alone, as S3 does for URLs presigned for GET."""
    with serving(Proxy(url)) as proxy:
        allowed = {f"/{name}?{SIGNATURE}" for name in ("a.nwb", "a.nwb.zarr.zip")}
        proxy.fault = lambda method, path, number: None if method == "GET" and path in allowed else "403"
        yield proxy


SIGNATURE = "X-Amz-Date=2026&X-Amz-Signature=abc"


@pytest.mark.parametrize("name", ["a.nwb", "a.nwb.zarr.zip"])
def test_a_presigned_url(folder, signed, tmp_path, capsys, name):
    place = f"{signed.url}/{name}?{SIGNATURE}"
    data = read_nwb(place).acquisition["large"].data
    np.testing.assert_array_equal(data[5, 10:20], SQUARE[5, 10:20])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data))[7], SQUARE[7])
    assert sum(method == "HEAD" for method, _ in signed.requests) <= 4  # of each store one
    if name != "a.nwb":
        return
    assert main(["inspect", place]) == main(["verify", place]) == 0
    assert main(["inspect", f"{place}d"]) == 2
    shown, problem = capsys.readouterr()
    assert problem.count(f"{signed.url}/a.nwb?") == 1
    assert not compare(place, folder / name)
    assert read_nwb(place).objects.keys() == read_nwb(folder / name).objects.keys()
    assert validate(place).is_valid
    page = report(place)
    assert "<h1>a.nwb</h1>" in page
    done = convert(place, tmp_path / "a.nwb.zarr.json", to="virtual")
    assert read_nwb(tmp_path / "a.nwb.zarr.json").acquisition["large"].data[5, 5] == SQUARE[5, 5]
    copied = convert(place, tmp_path / "a.nwb.zarr")
    assert not compare(tmp_path / "a.nwb.zarr", folder / "a.nwb.zarr")
    assert not [text for text in (shown, problem, page, str(done), str(copied)) if "=abc" in text]
    with pytest.raises(UsageError, match=r"the source is HDF5 already.*download an HDF5 file with other tools"):
        convert(place, tmp_path / "copy.nwb")
    with pytest.raises(NotZarrError, match="this is an HDF5 file"):
        NWBZarrIO(place, "r")


@pytest.mark.parametrize("function", [read_nwb, verify, lambda place: compare(place, place)])
@pytest.mark.parametrize("name", ["a.nwb.zarr", "a.nwb", "a.nwb.zarr.zip"])
def test_a_url_that_is_refused(signed, name, function):
    with pytest.raises(StoreRefusedError, match=r"403 .*Check the credentials") as caught:
        function(f"{signed.url}/{name}?X-Amz-Signature=wrong")
    assert "wrong" not in str(caught.value)


def test_an_hdf5_file_at_a_url_may_be_larger_than_the_largest_chunk(url):
    nwbfile = read_nwb(f"{url}/a.nwb", read_options=ReadOptions(limits=Limits(max_stored_bytes=SQUARE.nbytes)))
    assert nwbfile.acquisition["large"].data[5, 5] == SQUARE[5, 5]


@pytest.mark.parametrize("name", ["a.nwb", "a.nwb.zarr"])
def test_s3(folder, s3, name):
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).parts[0] == name:
            s3.put("door", {path.relative_to(folder).as_posix(): path.read_bytes()})
    nwbfile = read_nwb(s3.url(f"door/{name}"), storage_options=s3.options)
    np.testing.assert_array_equal(nwbfile.acquisition["large"].data[5, 10:20], SQUARE[5, 10:20])


def test_the_dandi_archive_where_fsspec_knows_it(folder, monkeypatch):
    class Archive(LocalFileSystem):
        protocol = "dandi"

        @classmethod
        def _strip_protocol(cls, path):
            return str(path).replace("dandi://dandi/000001", str(folder))

    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "dandi", Archive)
    for name in ("a.nwb", "a.nwb.zarr"):
        nwbfile = read_nwb(f"dandi://dandi/000001/{name}")
        np.testing.assert_array_equal(nwbfile.acquisition["large"].data[5, 10:20], SQUARE[5, 10:20])
    with pytest.raises(ZarrBackendError, match="read only"):
        NWBZarrIO("dandi://dandi/000001/b.nwb.zarr", "w")


def test_the_dandi_archive_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dandifs", None)
    with pytest.raises(UsageError, match="pip install dandifs") as caught:
        read_nwb("dandi://dandi/000001/a.nwb")
    assert caught.value.store == "dandi://dandi/000001/a.nwb"


def test_what_cannot_be_read(folder, url, tmp_path):
    with pytest.raises(StoreNotFoundError, match=r"does not exist\. Check the path\.$"):
        read_nwb(tmp_path / "none.nwb")
    with pytest.raises(ZarrBackendError, match=r"none\.nwb"):
        read_nwb(f"{url}/none.nwb")
    (tmp_path / "cut.nwb").write_bytes((folder / "a.nwb").read_bytes()[:1000])
    with pytest.raises(UnreadableHdf5Error, match=r"cut\.nwb"):
        read_nwb(tmp_path / "cut.nwb")
    hdf5_file(tmp_path / "other.h5", data=1)
    with pytest.raises(UnsupportedNWBError, match="Missing NWB version"):
        read_nwb(tmp_path / "other.h5")
    with pytest.raises(NotZarrError, match="this is a part of the Zarr file"):
        read_nwb(folder / "a.nwb.zarr" / "acquisition")


@pytest.mark.parametrize("version", ["1.0.6", "NWB-1.0.6"])
def test_an_old_version_is_named_whole(tmp_path, version):
    write_builder(tmp_path / "old.zarr", GroupBuilder("root", attributes={"nwb_version": version}))
    with pytest.warns(UserWarning, match=r"has NWB 1\.0\.6, which is too old"):
        assert not NWBZarrIO.can_read(tmp_path / "old.zarr")


@pytest.mark.parametrize("options", [{"lazy": True}, {"read_options": ReadOptions(missing_chunks="error")}])
def test_an_option_without_an_effect_is_refused(folder, options):
    with pytest.raises(UsageError, match="does not apply"):
        read_nwb(folder / "a.nwb", **options)


def test_much_that_only_hdf5_can_decode_is_not_downloaded_unasked(url, monkeypatch):
    monkeypatch.setattr(virtual, "MOST_INLINED", 10)
    with pytest.raises(errors.WriteError, match="Download the file"):
        read_nwb(f"{url}/a.nwb")


@pytest.mark.parametrize("words", [["verify"], []])
def test_the_package_is_the_command_line(folder, words):
    command = [sys.executable, "-m", "hdmf_zarr_backend", *words, *([folder / "a.nwb.zarr"] if words else [])]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert ("no damage" in answer.stdout) if words else ("convert HDF5 to Zarr" in answer.stdout)
