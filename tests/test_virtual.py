"""Virtual conversion: one JSON, whose large data stay in the HDF5 file."""

import json
import os
import pickle
import shutil
import warnings
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, errors
from hdmf_zarr_backend import virtual as writing
from hdmf_zarr_backend.check.verify import verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.conversion import convert
from hdmf_zarr_backend.errors import LinkRefusedError, StoreError, StoreExistsError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.hdf5 import plan
from hdmf_zarr_backend.options import ExternalLinks, Limits, ReadOptions, ReadRules
from hdmf_zarr_backend.store.opening import open_store
from tests import samples
from tests.places import delete_keys, put
from tests.smallfiles import hdf5_file
from tests.trees import read_builder

DATA = np.arange(1_000_003, dtype="i4")
SQUARE = DATA[:1_000_000].reshape(1000, 1000)


def make_kinds(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file.attrs["namespace"] = "none"
        file["one_piece"] = DATA.astype(">f8")
        file.create_dataset("filtered", data=SQUARE, chunks=(300, 300), compression="gzip", shuffle=True)
        file.create_dataset("shuffled", data=SQUARE, chunks=(300, 300), shuffle=True)
        single_bytes = np.tile(SQUARE.astype("u1"), (2, 2))
        file.create_dataset("shuffled_bytes", data=single_bytes, chunks=(130, 130), shuffle=True)
        file.create_dataset("chunked", data=DATA, chunks=(100_000,))
        for name, fill in (("few_chunks", 5.0), ("few_chunks_of_zero", 0.0)):
            few = file.create_dataset(name, (3000, 1000), "f8", chunks=(500, 500), compression="gzip", fillvalue=fill)
            few[500:1000, :500] = 3
        file.create_dataset("never_written", (3000, 1000), "f8")
        file.create_dataset("never_written_7", (3000, 1000), "i2", fillvalue=7)
        masked = file.create_dataset("masked", (1000, 1000), "i4", chunks=(500, 500), compression="gzip", shuffle=True)
        masked[...] = SQUARE
        masked.id.write_direct_chunk((0, 500), SQUARE[:500, 500:].tobytes(), filter_mask=3)
        plain = file.create_dataset("mostly_masked", (1000, 1000), "i4", chunks=(500, 500), compression="gzip")
        plain[...] = SQUARE
        for start in ((0, 0), (0, 500), (500, 0)):
            part = SQUARE[start[0] : start[0] + 500, start[1] : start[1] + 500]
            plain.id.write_direct_chunk(start, part.tobytes(), filter_mask=1)
        file.create_dataset("lzf", data=DATA, chunks=(100_000,), compression="lzf")
        file.create_dataset("very_small_chunks", data=(DATA % 7).astype("u1"), chunks=(100,), compression="gzip")
        file.create_dataset("small_chunks", data=DATA, chunks=(1000,))
        file.create_dataset("small", data=np.arange(10))
        file.create_dataset("text", data=["a", "ä"])
        file["last"] = DATA
    return path


def references(path: Path) -> Any:
    return json.loads(path.read_text())["refs"]


def referred(path: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key, value in references(path).items():
        if isinstance(value, list):
            counts[key.split("/")[0]] = counts.get(key.split("/")[0], 0) + 1
    return counts


def through_fsspec(path: Path | str, zarr_format: Any = 2, **options: Any) -> zarr.Group:
    """Open a file of references as any other reader does."""
    import fsspec
    from zarr.storage import FsspecStore

    options = {"remote_protocol": "file", **options}
    filesystem = fsspec.filesystem(
        "reference", fo=str(path), asynchronous=True, remote_options={"asynchronous": True}, **options
    )
    return zarr.open_group(FsspecStore(filesystem, path=""), mode="r", zarr_format=zarr_format)


def read(location: Any, name: str, **options: Any) -> Any:
    return read_builder(location, **options).datasets[name].data[:]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    source = tmp_path / "a" / "x.nwb"
    source.parent.mkdir()
    with h5py.File(source, "w") as file:
        file.attrs["namespace"] = "none"
        file.create_dataset("data", data=SQUARE, chunks=(500, 500), compression="gzip")
        file["last"] = DATA
    target = tmp_path / "a" / "x.nwb.zarr.json"
    convert(source, target, to="virtual")
    return source, target


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
def test_all_kinds(tmp_path, zarr_format):
    source, target = make_kinds(tmp_path / "a.h5"), tmp_path / "a.zarr.json"
    report = convert(source, target, to="virtual", zarr_format=zarr_format)
    assert (report.groups, report.datasets, report.format) == (1, 17, "zarr")
    assert compare(source, target) == []
    assert referred(target) == {
        "one_piece": 2, "filtered": 16, "shuffled": 16, "shuffled_bytes": 256, "chunked": 11, "few_chunks": 1,
        "few_chunks_of_zero": 1, "masked": 3, "mostly_masked": 3, "small_chunks": 1001, "last": 1,
    }  # fmt: skip
    group = through_fsspec(target, zarr_format)
    with h5py.File(source, "r") as file:
        for name in set(file) - {"text"}:
            np.testing.assert_array_equal(group[name][...], file[name][...], err_msg=name)


def test_differs_from_a_copy_in_nothing_but_how_it_is_stored(tmp_path):
    source = make_kinds(tmp_path / "a.h5")
    convert(source, tmp_path / "a.zarr.json", to="virtual")
    convert(source, tmp_path / "b.zarr")
    differences = compare(tmp_path / "a.zarr.json", tmp_path / "b.zarr", ignore=["filters", "chunks"])
    # what is not written is the fill value, where the copy has the values
    assert {(one.path, one.kind) for one in differences} == {("/never_written", "fill")}
    notes = json.loads(references(tmp_path / "a.zarr.json")[".zattrs"])["_hdmf"]
    assert "chunks" not in notes  # a missing chunk is not damage


def test_all_chunks_are_promised_where_they_are_there_and_documents_are_bounded(pair):
    assert json.loads(references(pair[1])[".zattrs"])["_hdmf"]["chunks"] == "all"
    with ZarrIO(pair[1], "r", read_options=ReadOptions(missing_chunks="error")) as io:
        np.testing.assert_array_equal(io.read_builder().datasets["data"].data[:], SQUARE)
    keys = open_store(pair[1])
    keys.read_rules = ReadRules(limits=Limits(max_document_bytes=100))
    with pytest.raises(errors.LimitError, match="max_document_bytes"):
        keys.get(".zgroup")


def test_the_last_chunk_does_not_reach_beyond_the_file(tmp_path):
    values = np.random.default_rng(1).integers(0, 200, 2**22 + 15, "u1")  # a prime number of elements
    hdf5_file(tmp_path / "a.h5", a=values, b=values[::-1])
    convert(tmp_path / "a.h5", tmp_path / "a.zarr.json", to="virtual")
    said = references(tmp_path / "a.zarr.json")
    end = (tmp_path / "a.h5").stat().st_size
    assert isinstance(said["a/1"], list) and isinstance(said["b/1"], str)
    assert all(value[1] + value[2] <= end for value in said.values() if isinstance(value, list))
    assert compare(tmp_path / "a.h5", tmp_path / "a.zarr.json") == []
    np.testing.assert_array_equal(through_fsspec(tmp_path / "a.zarr.json")["b"][...], values[::-1])


def test_chunks_that_the_library_may_count_wrongly(tmp_path):
    """HDF5 counts chunks along the wrong axis where only a later one is unlimited."""
    values = np.arange(2 * 10**6, dtype="i4").reshape(1000, 2000)
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.create_dataset("a", data=values, chunks=(100, 500), maxshape=(1000, None))
        file.create_dataset("b", data=values[:100], chunks=(100, 500), maxshape=(1000, None))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr.json", to="virtual")
    assert compare(tmp_path / "a.h5", tmp_path / "a.zarr.json") == []


def test_edges_that_are_not_filtered(tmp_path):
    """Only the bytes of such chunks show it, not the index of the file."""
    source = tmp_path / "a.h5"
    values = np.arange(1000 * 1000, dtype="i4").reshape(1000, 1000)
    with h5py.File(source, "w") as file:
        data = file.create_dataset("a", (1000, 1000), "i4", chunks=(300, 1000), compression="gzip")
        data[...] = values
        edge = np.zeros((300, 1000), "i4")
        edge[:100] = values[900:]
        data.id.write_direct_chunk((900, 0), edge.tobytes(), filter_mask=1)
    convert(source, tmp_path / "a.zarr.json", to="virtual")
    assert isinstance(references(tmp_path / "a.zarr.json")["a/3.0"], str)
    np.testing.assert_array_equal(read(tmp_path / "a.zarr.json", "a"), values)


def test_nwb_containers(tmp_path):
    nwbfile = samples.rich_nwbfile()
    nwbfile.add_acquisition(TimeSeries(name="large", data=SQUARE, unit="V", rate=1.0))
    source = samples.write_hdf5(tmp_path / "a.nwb", nwbfile)
    convert(source, tmp_path / "a.nwb.zarr.json", to="virtual")
    assert compare(source, tmp_path / "a.nwb.zarr.json") == []
    assert referred(tmp_path / "a.nwb.zarr.json") == {"acquisition": 1}
    with NWBZarrIO(tmp_path / "a.nwb.zarr.json", "r") as io:
        result = io.read()
        assert result.identifier == "rich"
        np.testing.assert_array_equal(result.acquisition["large"].data[10:20, 5], SQUARE[10:20, 5])
        again = pickle.loads(pickle.dumps(result.acquisition["large"].data))
        np.testing.assert_array_equal(again[-3:], SQUARE[-3:])
    with pytest.raises(errors.ReadOnlyStoreError):
        NWBZarrIO(tmp_path / "a.nwb.zarr.json", "r+")


def test_xarray_reads_it(pair):
    xarray = pytest.importorskip("xarray")
    store = through_fsspec(pair[1]).store
    with xarray.open_zarr(store, consolidated=True, zarr_format=2, drop_variables=["last"]) as result:
        np.testing.assert_array_equal(result["data"].values, SQUARE)


@pytest.mark.corpus
@pytest.mark.parametrize("size", [64, pytest.param(2**20, marks=pytest.mark.slow)])
def test_real_files(some_nwbfiles, tmp_path, monkeypatch, size):
    for module in (writing, plan):  # most of their datasets are small
        monkeypatch.setattr(module, "WHOLE_BYTES", size)
    count = 0
    for number, source in enumerate(some_nwbfiles):
        target = tmp_path / f"{number}.nwb.zarr.json"
        with warnings.catch_warnings(action="ignore"):
            convert(source, target, to="virtual", check=False)
            assert compare(source, target) == [], source.name
        count += sum(isinstance(value, list) for value in references(target).values())
    assert size > 64 or count > 5


# ---- the source moves, changes, vanishes ----------------------------------------------------------------------------
def test_a_pair_moves_together_or_the_json_alone(pair, tmp_path):
    source, target = pair
    source.parent.rename(tmp_path / "b")
    np.testing.assert_array_equal(read(tmp_path / "b" / target.name, "data"), SQUARE)
    (tmp_path / "c").mkdir()
    moved = Path(shutil.move(tmp_path / "b" / target.name, tmp_path / "c" / "y.nwb.zarr.json"))
    with pytest.raises(StoreNotFoundError):
        read(moved, "last")
    (tmp_path / "b").rename(source.parent)
    # the record proves that it is that file
    np.testing.assert_array_equal(read(moved, "last"), DATA)


def test_a_copied_pair_is_read_though_the_original_has_changed(pair, tmp_path):
    source, target = pair
    shutil.copytree(source.parent, tmp_path / "b", copy_function=shutil.copyfile)  # other times
    with h5py.File(source, "r+") as file:
        file["more"] = 1
    np.testing.assert_array_equal(read(tmp_path / "b" / target.name, "data"), SQUARE)
    with pytest.raises(StoreError, match="has changed"):
        read(target, "data")


@pytest.mark.parametrize("change", ["touched", "grown", "other", "gone"])
def test_a_changed_source_is_reported(pair, change):
    source, target = pair
    if change == "touched":
        os.utime(source, ns=(1, 1))
    elif change == "grown":
        with source.open("ab") as file:
            file.write(b"x")
    elif change == "other":
        source.write_bytes(os.urandom(source.stat().st_size))
    else:
        source.unlink()
    with ZarrIO(target, "r") as io, pytest.raises(StoreNotFoundError if change == "gone" else StoreError) as caught:
        io.read_builder().datasets["data"].data[:]
    assert str(source) in str(caught.value) and str(target) in str(caught.value)
    assert "again" in str(caught.value)
    (problem,) = {each.remedy for each in verify(target).problems}
    assert problem == caught.value.remedy and "again" in problem
    if change in ("touched", "grown"):
        convert(source, target, to="virtual", overwrite=True)
        np.testing.assert_array_equal(read(target, "data"), SQUARE)


def test_a_source_that_changes_while_it_is_open_or_listed_is_reported(pair, monkeypatch):
    source, target = pair
    with ZarrIO(target, "r") as io:
        data = io.read_builder().datasets["data"].data
        np.testing.assert_array_equal(data[:5], SQUARE[:5])
        os.utime(source, ns=(1, 1))
        with pytest.raises(StoreError, match="has changed"):
            data[600:]
    plan = writing._leave

    def touch(*arguments: Any) -> Any:
        os.utime(source, ns=(2, 2))
        return plan(*arguments)

    monkeypatch.setattr(writing, "_leave", touch)
    before = target.read_bytes()
    with pytest.raises(StoreError, match="changed"):
        convert(source, target, to="virtual", overwrite=True)
    assert target.read_bytes() == before


def test_a_link_to_another_hdf5_file_has_two_sources(pair, tmp_path):
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["own"] = DATA
        file["other"] = h5py.ExternalLink("a/x.nwb", "/data")
    convert(tmp_path / "b.h5", tmp_path / "b.zarr.json", to="virtual")
    record = json.loads((tmp_path / "b.zarr.json").read_text())["_hdmf"]["sources"]
    assert {entry["relative"] for entry in record.values()} == {"b.h5", "a/x.nwb"}
    np.testing.assert_array_equal(read(tmp_path / "b.zarr.json", "other"), SQUARE)
    os.utime(pair[0], ns=(1, 1))
    np.testing.assert_array_equal(read(tmp_path / "b.zarr.json", "own"), DATA)
    with pytest.raises(StoreError, match="has changed"):
        read(tmp_path / "b.zarr.json", "other")


# ---- servers --------------------------------------------------------------------------------------------------------
def test_over_http(web, tmp_path):
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_acquisition(TimeSeries(name="large", data=SQUARE, unit="V", rate=1.0))
    samples.write_hdf5(web.folder / "a.nwb", nwbfile)
    size = (web.folder / "a.nwb").stat().st_size
    convert(f"{web.url}/a.nwb", tmp_path / "a.nwb.zarr.json", to="virtual")
    url = f"{web.url}/a.nwb"
    record = json.loads((tmp_path / "a.nwb.zarr.json").read_text())["_hdmf"]["sources"]
    assert record[url]["size"] == size and "etag" in record[url]
    assert compare(web.folder / "a.nwb", tmp_path / "a.nwb.zarr.json") == []
    group = through_fsspec(tmp_path / "a.nwb.zarr.json", remote_protocol="http")
    np.testing.assert_array_equal(group["acquisition/large/data"][3], SQUARE[3])
    # both on the server, and both downloaded
    shutil.copyfile(tmp_path / "a.nwb.zarr.json", web.folder / "a.nwb.zarr.json")
    (tmp_path / "down").mkdir()
    for name in ("a.nwb", "a.nwb.zarr.json"):
        shutil.copyfile(web.folder / name, tmp_path / "down" / name)
    for location in (f"{url}.zarr.json", tmp_path / "down" / "a.nwb.zarr.json"):
        np.testing.assert_array_equal(samples.read_zarr(location).acquisition["large"].data[:], SQUARE)
    os.utime(web.folder / "a.nwb", ns=(1, 1))
    with NWBZarrIO(f"{url}.zarr.json", "r") as io, pytest.raises(StoreError, match="has changed") as caught:
        io.read().acquisition["large"].data[:]
    assert url in str(caught.value)


@pytest.mark.parametrize("library", ["obstore", "fsspec"])
def test_few_requests_for_the_index(web, tmp_path, library):
    with h5py.File(web.folder / "a.h5", "w") as file:
        for number in range(200):
            group = file.create_group(f"group{number}")
            group.attrs["number"] = number
            group["data"] = np.arange(10.0)
        file.create_dataset("large", data=np.tile(DATA, 8), chunks=(250_000,), compression="gzip")
    options = {"client_kwargs": {"trust_env": False}} if library == "fsspec" else {}
    sent, requests = web.sent, web.requests
    convert(f"{web.url}/a.h5", tmp_path / "a.zarr.json", to="virtual", storage_options=options)
    assert web.requests - requests <= 24
    assert web.sent - sent < 4 * 2**20 < (web.folder / "a.h5").stat().st_size
    np.testing.assert_array_equal(read(tmp_path / "a.zarr.json", "large", storage_options=options)[-5:], DATA[-5:])


def test_a_pair_that_was_uploaded_is_read_in_few_requests_unless_it_has_changed(pair, web, web_proxy):
    uploaded = [Path(shutil.copyfile(path, web.folder / path.name)) for path in pair]
    datasets = read_builder(f"{web.url}/{uploaded[1].name}").datasets
    before = web.requests
    np.testing.assert_array_equal(datasets["data"].data[:], SQUARE)
    assert web.requests - before == 4  # its size, both of its ends, and all chunks
    np.testing.assert_array_equal(datasets["last"].data[-5:], DATA[-5:])
    assert web.requests - before == 5
    for selection in (np.s_[:], np.s_[:10, :10]):  # several chunks, and one
        data = read_builder(f"{web_proxy.url}/{uploaded[1].name}").datasets["data"].data
        web_proxy.reset()
        np.testing.assert_array_equal(data[selection], SQUARE[selection])
        assert len(web_proxy.requests) == 4
    url = f"{web.url}/{uploaded[1].name}"
    np.testing.assert_array_equal(read(url, "data"), SQUARE)
    content = bytearray(uploaded[0].read_bytes())
    content[100] ^= 1
    uploaded[0].write_bytes(content)
    with pytest.raises(StoreError, match="has changed"):
        read(url, "data")


def test_a_pair_on_a_server_that_was_moved(pair, s3):
    bucket = open_store(s3.url("folder"), s3.options)
    put(bucket, "x.nwb", pair[0].read_bytes())
    convert(s3.url("folder/x.nwb"), s3.url("folder/x.nwb.zarr.json"), to="virtual", storage_options=s3.options)
    np.testing.assert_array_equal(read(s3.url("folder/x.nwb.zarr.json"), "data", storage_options=s3.options), SQUARE)
    moved = open_store(s3.url("moved"), s3.options)
    for name in ("x.nwb", "x.nwb.zarr.json"):
        put(moved, name, bucket.get(name))
    delete_keys(bucket, ["x.nwb"])
    # to the place where it was, too
    options = {"storage_options": s3.options, "read_options": ReadOptions(external_links="follow")}
    np.testing.assert_array_equal(read(s3.url("moved/x.nwb.zarr.json"), "data", **options), SQUARE)
    put(moved, "x.nwb", pair[0].read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match="has changed"):
        read(s3.url("moved/x.nwb.zarr.json"), "data", storage_options=s3.options)
    delete_keys(moved, ["x.nwb"])
    with pytest.raises(StoreNotFoundError, match="does not exist"):
        read(s3.url("moved/x.nwb.zarr.json"), "data", **options)


def make_huge(path: Path, size: int) -> None:
    """Write a sparse file: a dataset of ``size`` bytes in one piece, and one in chunks, few of which are there."""
    with h5py.File(path, "w") as file:
        file.attrs["namespace"] = "none"
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        created.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((size // 1024, 512))
        h5py.h5d.create(file.id, b"one_piece", h5py.h5t.STD_I16LE, space, dcpl=created)
        file["one_piece"][-1] = np.arange(512)
        chunked = file.create_dataset("chunked", (size // 1024, 512), "i2", chunks=(4096, 512), compression="gzip")
        chunked[4096:8192] = 3
        chunked[-4096:] = 4


def test_the_time_goes_with_the_metadata(web, tmp_path):
    size = 128 * 2**30
    make_huge(web.folder / "huge.h5", size)
    assert (web.folder / "huge.h5").stat().st_size > size
    sent, requests = web.sent, web.requests
    convert(f"{web.url}/huge.h5", tmp_path / "huge.zarr.json", to="virtual")
    assert web.sent - sent < 8 * 2**20
    assert web.requests - requests < 40
    before = _read_here()
    convert(web.folder / "huge.h5", tmp_path / "local.zarr.json", to="virtual")
    assert _read_here() - before < 32 * 2**20
    for name in ("huge", "local"):
        datasets = read_builder(tmp_path / f"{name}.zarr.json").datasets
        np.testing.assert_array_equal(datasets["one_piece"].data[-1], np.arange(512))
        assert datasets["chunked"].data[5000, 3] == 3 and datasets["chunked"].data[-1, -1] == 4
        assert datasets["chunked"].data[10**6, 0] == 0


def _read_here() -> int:
    """Return the bytes that this process has read by system calls."""
    said = Path("/proc/self/io")
    return int(said.read_text().split()[1]) if said.exists() else 0


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_a_file_on_a_server_leads_to_no_file_of_this_machine(web, tmp_path):
    hdf5_file(tmp_path / "secret.h5", secret=DATA)
    with h5py.File(web.folder / "a.h5", "w") as file:
        file["absolute"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/secret")
        file["above"] = h5py.ExternalLink("../secret.h5", "/secret")
        file["escaped"] = h5py.ExternalLink("%2e%2e/secret.h5", "/secret")
        file["url"] = h5py.ExternalLink(f"{web.url}/b.h5", "/data")
        file["soft"] = h5py.SoftLink("/absolute")
        file["root"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/")
        file["through"] = h5py.SoftLink("/root/secret")
        file["neighbour"] = h5py.ExternalLink("b.h5", "/data")
    hdf5_file(web.folder / "b.h5", data=DATA)
    with warnings.catch_warnings(action="ignore"):
        convert(f"{web.url}/a.h5", tmp_path / "a.zarr.json", to="virtual")
    said = references(tmp_path / "a.zarr.json")
    assert {key.partition("/")[0] for key in said if key.endswith(".zarray")} == {"neighbour"}
    assert {value[0] for value in said.values() if isinstance(value, list)} == {f"{web.url}/b.h5"}
    np.testing.assert_array_equal(read(tmp_path / "a.zarr.json", "neighbour"), DATA)
    # a check names the location that the conversion keeps
    kept = {link["name"]: link["source"] for link in json.loads(said[".zattrs"])["zarr_link"]}
    checked = {remark.path[1:]: remark.message for remark in verify(f"{web.url}/a.h5", "links").remarks}
    for name in ("absolute", "above", "escaped", "url"):
        said = f"{kept[name]!r} was not checked: links of a file on a server out of its folder"
        assert checked[name].startswith(said)
    assert checked["neighbour"].startswith(f"'{web.url}/b.h5' was not checked: other files at a URL")
    assert kept["absolute"].endswith(f"{tmp_path}/secret.h5")


# ---- what a stranger's file of references may name ------------------------------------------------------------------
def _stranger(path: Path, url: str, **record: Any) -> Path:
    said: dict[str, Any] = {"version": 1, "refs": {".zgroup": '{"zarr_format": 2}', "x": [url, 0, 6]}}
    if record:
        said["_hdmf"] = {"version": "1.0", "sources": {url: record}}
    path.write_text(json.dumps(said))
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that no file of references may read."""
    path = tmp_path / "secret.txt"
    path.write_text("secret")
    return path


@pytest.mark.parametrize("form", ["path", "url", "relative", "link"])
def test_out_of_the_folder_only_by_leave(secret, tmp_path, form):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    url = {"path": str(secret), "url": f"file://{secret}", "relative": "../secret.txt", "link": "link"}[form]
    target = _stranger(folder / "a.zarr.json", url)
    with pytest.raises(LinkRefusedError, match="external_links"):
        open_store(target).get("x")
    for policy in ("within", "never"):
        assert _refused(target, policy)
    keys = open_store(target)
    keys.read_rules = ReadRules(external_links="follow")
    assert keys.get("x") == b"secret"
    assert pickle.loads(pickle.dumps(keys)).get("x") == b"secret"


def _refused(target: Path | str, policy: ExternalLinks | None) -> bool:
    keys = open_store(target)
    keys.read_rules = ReadRules(external_links=policy)
    with pytest.raises(LinkRefusedError):
        keys.get("x")
    return True


def test_within_the_folder_but_not_for_never(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"inside")
    target = _stranger(tmp_path / "a.zarr.json", "data.bin")
    for policy in (None, "within", "follow"):
        keys = open_store(target)
        keys.read_rules = ReadRules(external_links=policy)
        assert keys.get("x") == b"inside"
    assert _refused(target, "never")


@pytest.mark.parametrize("record", [
    {}, {"mtime_ns": 1}, {"mtime_ns": "own"}, {"sample": "00", "etag": "x"}, {"sample": "00", "mtime_ns": "own"},
], ids=str)  # fmt: skip
def test_a_record_without_proof_opens_nothing(secret, tmp_path, record):
    (tmp_path / "folder").mkdir()
    record = {"size": 6, **record}
    if record.get("mtime_ns") == "own":  # size and time can be guessed
        record["mtime_ns"] = secret.stat().st_mtime_ns
    target = _stranger(tmp_path / "folder" / "a.zarr.json", str(secret), **record, relative="../secret.txt")
    with pytest.raises(StoreError, match="has changed" if "sample" in record else "is refused"):
        open_store(target).get("x")


def test_a_server_names_no_local_file_and_no_other_server(secret, web, tmp_path):
    for url in (str(secret), f"file://{secret}", f"simplecache::file://{secret}"):
        _stranger(web.folder / "a.zarr.json", url, size=6, mtime_ns=secret.stat().st_mtime_ns)
        for policy in (None, "within", "never", "follow"):
            assert _refused(f"{web.url}/a.zarr.json", policy)
    (web.folder / "data.bin").write_bytes(b"inside")
    (web.folder / "below").mkdir()
    for url in (f"{web.url}/data.bin", "../data.bin", "http://127.0.0.1:9/data.bin"):
        _stranger(web.folder / "below" / "a.zarr.json", url)
        assert _refused(f"{web.url}/below/a.zarr.json", None)
    _stranger(web.folder / "below" / "a.zarr.json", f"{web.url}/data.bin")
    keys = open_store(f"{web.url}/below/a.zarr.json")
    keys.read_rules = ReadRules(external_links="follow")
    assert keys.get("x") == b"inside"


@pytest.mark.parametrize(
    "record", [3, {"sources": []}, {"sources": {"u": 1}}, {"sources": {"u": {"size": "6"}}},
               {"sources": {"u": {"size": 6, "etag": 3}}}, {"sources": {"u": {"size": 6, "mtime_ns": "1"}}}],
)  # fmt: skip
def test_a_damaged_record(tmp_path, record):
    target = tmp_path / "a.zarr.json"
    target.write_text(json.dumps({"version": 1, "_hdmf": record, "refs": {".zgroup": "{}"}}))
    with pytest.raises(errors.MetadataError) as caught:
        open_store(target).get(".zgroup")
    assert caught.value.store == str(target)


# ---- options --------------------------------------------------------------------------------------------------------
def test_large_data_that_cannot_stay(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("szip", data=DATA, chunks=(100_000,), compression="lzf")
        file.create_dataset("good", data=DATA, chunks=(100_000,))
    monkeypatch.setattr(writing, "MUCH_INLINED", 2**20)
    with pytest.warns(UserWarning, match="bytes of /szip in .*a.h5 are stored in the JSON file"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr.json", to="virtual")
    assert compare(tmp_path / "a.h5", tmp_path / "a.zarr.json") == []
    monkeypatch.setattr(writing, "MOST_INLINED", 2**21)
    said = r"at most 2,097,152 are allowed: /szip \(4,000,012 bytes\).*Convert without to=\"virtual\""
    with pytest.raises(errors.WriteError, match=said):
        convert(tmp_path / "a.h5", tmp_path / "b.zarr.json", to="virtual")
    assert not (tmp_path / "b.zarr.json").exists()


def test_a_dataset_with_mostly_odd_chunks_is_encoded_again(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MUCH_INLINED", 2**20)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("a", (1000, 1000), "i4", chunks=(250, 1000), compression="gzip", shuffle=True)
        data[...] = SQUARE
        for row in (0, 250, 500):
            data.id.write_direct_chunk((row, 0), zlib.compress(SQUARE[row : row + 250].tobytes()), filter_mask=1)
    with pytest.warns(UserWarning, match="are stored in the JSON file"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr.json", to="virtual")
    assert referred(tmp_path / "a.zarr.json") == {}
    assert compare(tmp_path / "a.h5", tmp_path / "a.zarr.json") == []


@pytest.mark.parametrize("options", [{"codec": True}, {"resume": True}, {"target": "a.zarr"}, {"zarr_format": 4}])
def test_what_has_no_meaning(pair, tmp_path, options):
    target = tmp_path / options.pop("target", "b.zarr.json")
    with pytest.raises(UsageError):
        convert(pair[0], target, to="virtual", **options)
    assert not target.exists()


def test_no_source_and_references_on_a_server_to_a_local_file(pair, s3, web, tmp_path):
    with pytest.raises(UsageError, match="on a server"):
        convert(pair[0], s3.url("b.zarr.json"), to="virtual", storage_options=s3.options)
    for source in (tmp_path / "a.h5", f"{web.url}/a.h5"):
        with pytest.raises(StoreNotFoundError):
            convert(source, tmp_path / "a.zarr.json", to="virtual")


def test_nothing_else_is_replaced(pair, tmp_path):
    for content in ("{}", "no json", '{"refs": {}}'):
        (tmp_path / "b.json").write_text(content)
        with pytest.raises(StoreExistsError):
            convert(pair[0], tmp_path / "b.json", to="virtual")
        assert (tmp_path / "b.json").read_text() == content
    convert(pair[0], tmp_path / "b.json", to="virtual", overwrite=True)
    with pytest.raises(StoreExistsError):
        convert(pair[0], tmp_path / "b.json", to="virtual")
    (tmp_path / "c.zarr.json").mkdir()
    with pytest.raises(StoreExistsError, match="directory"):
        convert(pair[0], tmp_path / "c.zarr.json", to="virtual", overwrite=True)


def test_command_and_back_to_hdf5(pair, tmp_path, capsys):
    assert main(["convert", str(pair[0]), "--to", "virtual", "--output", str(tmp_path / "out")]) == 0
    assert "2 datasets" in capsys.readouterr().out
    np.testing.assert_array_equal(read(tmp_path / "out" / "x.nwb.zarr.json", "data"), SQUARE)
    assert main(["convert", str(pair[0]), str(tmp_path / "x.json"), "--to", "virtual", "--resume"]) != 0
    assert "Leave --resume out" in capsys.readouterr().err
    assert main(["compare", str(pair[0]), str(tmp_path / "out" / "x.nwb.zarr.json")]) == 0
    assert main(["verify", str(tmp_path / "out" / "x.nwb.zarr.json")]) == 0
    convert(pair[1], tmp_path / "back.nwb")
    assert compare(pair[0], tmp_path / "back.nwb") == []
