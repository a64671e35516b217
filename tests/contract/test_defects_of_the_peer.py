"""Defects that hdmf-zarr 0.13 was measured to have, by their numbers in that list: none of them is here.

Some are tested at length elsewhere, and in short here: D-2 (code in files) in ``tests/test_hostile.py`` and
``tests/hostile``, D-3 and D-7 (parallel writes) in ``tests/execution``, D-10b (appends that fail) in ``tests/faults``,
D-12 (links over the web) in ``tests/stores``, D-15 (memory) in ``tests/execution/test_memory.py``.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.hdf5 import HDF5IO, H5DataIO
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.common import get_manager
from hdmf.data_utils import DataChunkIterator, GenericDataChunkIterator
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, consolidate, convert, verify
from hdmf_zarr_backend.errors import StoreExistsError, UnsafeDataError, ZarrBackendError
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.progress import TerminalProgress
from hdmf_zarr_backend.stores.base import Abilities
from hdmf_zarr_backend.stores.local import LocalStore
from tests import samples, trees
from tests.contract.test_6_iterators import check_nothing
from tests.documents import arrays
from tests.places import Place, contents, delete, keys_of, put
from tests.watching import watching

APPEND = pytest.mark.needs("append")


def filters(place: Place) -> set[str]:
    return {str(codec["id"]) for node in arrays(place).values() for codec in node.stored.filters or []}


def test_d1_own_files_need_no_unsafe_switch(folder, monkeypatch):
    monkeypatch.delenv("NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE", raising=False)
    path = samples.write_zarr(folder / "a.nwb.zarr", samples.rich_nwbfile())
    assert filters(path)
    assert "pickle" not in filters(path)
    with NWBZarrIO(path) as io:
        assert len(io.read().electrodes.to_dataframe())


def chunks_of(place: Place, path: str) -> list[str]:
    """Return the keys of the chunks of an array."""
    documents = {".zarray", ".zattrs", "zarr.json"}
    return sorted(
        key for key in keys_of(place) if key.startswith(f"{path}/") and key.rpartition("/")[2] not in documents
    )


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def test_d2_no_code_of_a_file_runs(tmp_path, monkeypatch):
    """It ran when a file was opened, of a cached specification, before anything was read."""
    monkeypatch.setenv("NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE", "1")
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile())
    (path / ".zmetadata").unlink()
    (path / "specifications" / "core").rename(path / "specifications" / "ndx-evil")
    (namespace,) = (path / "specifications" / "ndx-evil").glob("*/namespace")
    node = json.loads((namespace / ".zarray").read_text())
    node |= {"filters": [{"id": "pickle", "protocol": 5}], "compressor": None}
    (namespace / ".zarray").write_text(json.dumps(node))
    value = np.empty(1, object)
    value[0] = Payload(tmp_path / "marker")
    (namespace / "0").write_bytes(pickle.dumps(value, 5))
    with pytest.raises(UnsafeDataError, match="a pickle holds more than data"):
        NWBZarrIO(path)
    assert not (tmp_path / "marker").exists()


class Blocks(GenericDataChunkIterator):
    """An iterator whose blocks do not end with the chunks that are written, and that may fail."""

    def __init__(self, values: Any, broken_from: int = 2**63, **options: Any) -> None:
        self.values, self.broken_from = values, broken_from
        super().__init__(buffer_shape=(300,), chunk_shape=(100,), **options)

    def _get_data(self, selection: tuple[slice, ...]) -> Any:
        if selection[0].stop > self.broken_from:
            raise ZeroDivisionError("the amplifier is gone")
        return self.values[selection]

    def _get_maxshape(self) -> tuple[int, ...]:
        return self.values.shape

    def _get_dtype(self) -> Any:
        return self.values.dtype


def test_d3_jobs_do_not_write_over_each_other(folder):
    values = np.arange(100_000)
    data = ZarrDataIO(Blocks(values), chunks=(1024,))
    path = trees.write_builder(
        folder / "a.zarr", trees.root(trees.dataset("x", data)), write_options=WriteOptions(executor=4)
    )
    with ZarrIO(path) as io:
        found = io.read_builder()["x"].data
        assert found.chunks == (1024,)
        assert np.array_equal(found[:], values)


def test_d4_links_of_the_root_are_written(folder):
    root = trees.root(trees.group("box"))
    root.set_link(LinkBuilder(builder=root["box"], name="link"))
    with ZarrIO(trees.write_builder(folder / "a.zarr", root)) as io:
        assert io.read_builder().links["link"].builder.name == "box"


def test_d5_a_list_of_references_in_an_attribute(folder):
    root = trees.root(trees.group("a"), trees.group("b"))
    root.set_attribute("refs", [ReferenceBuilder(root["a"]), ReferenceBuilder(root["b"])])
    with ZarrIO(trees.write_builder(folder / "a.zarr", root)) as io:
        assert [getattr(ref, "builder", ref).name for ref in io.read_builder().attributes["refs"]] == ["a", "b"]


def test_d6_arguments_of_the_class_for_nwb_are_honoured(folder):
    path = folder / "a.nwb.zarr"
    put(path, "note.txt", b"no file of ours")
    with NWBZarrIO(path, "w", force_overwrite=True) as io:
        io.write(samples.rich_nwbfile())
    assert "note.txt" not in keys_of(path)


@pytest.mark.needs("staging")
@pytest.mark.parametrize("jobs", [1, 2])
def test_d7_a_failing_worker_leaves_no_silent_hole(folder, jobs, capfd):
    """The error was taken for one of the progress bar, and the write returned with elements missing."""
    blocks = Blocks(np.arange(3000), broken_from=1500, display_progress=True)
    with (
        ZarrIO(
            folder / "a.zarr", "w", write_options=WriteOptions(executor=jobs, progress=TerminalProgress("writing"))
        ) as io,
        pytest.raises(ZeroDivisionError, match="amplifier"),
    ):
        builder = trees.root(trees.dataset("x", ZarrDataIO(blocks, chunks=(64,))))
        io.write_builder(builder)
    check_nothing(folder / "a.zarr")


def test_d7_nor_is_one_whose_chunk_cannot_be_encoded(folder):
    values = np.array(["text"] * 999 + [5], dtype=object)
    data = ZarrDataIO(values, chunks=(100,))
    with (
        ZarrIO(
            folder / "a.zarr", "w", write_options=WriteOptions(executor=2, progress=TerminalProgress("writing"))
        ) as io,
        pytest.raises(ZarrBackendError, match=r"5.*\(/x\)"),
    ):
        builder = trees.root(trees.dataset("x", data, "utf8"))
        io.write_builder(builder)
    check_nothing(folder / "a.zarr")


@pytest.mark.parametrize("io_class", [ZarrIO, NWBZarrIO])
def test_d8_a_folder_that_is_not_a_file_of_ours_is_not_emptied(tmp_path, io_class):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "important.txt").write_text("all of it")
    with pytest.raises(StoreExistsError):
        io_class(tmp_path / "thesis", mode="w")
    assert (tmp_path / "thesis" / "important.txt").read_text() == "all of it"


def test_d8_an_export_onto_the_source_is_refused(folder):
    path = trees.write_builder(folder / "a.zarr", trees.root(trees.dataset("x", [1, 2])))
    with ZarrIO(path) as source, pytest.raises(StoreExistsError), ZarrIO(path, "w") as target:
        target.export(source)
    with ZarrIO(path) as io:
        assert io.read_builder()["x"].data[:].tolist() == [1, 2]


def test_d9_a_root_of_any_name(folder):
    builder = GroupBuilder("mytable", datasets={"x": DatasetBuilder("x", [1])})
    with ZarrIO(trees.write_builder(folder / "a.zarr", builder)) as io:
        assert io.read_builder()["x"].data[:].tolist() == [1]


@APPEND
def test_d10a_no_stale_consolidated_document_is_left(folder):
    path = samples.write_zarr(folder / "a.nwb.zarr")
    with NWBZarrIO(path, "r+", write_options=WriteOptions(consolidate_metadata=False)) as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="late", data=[1.0], unit="V", rate=1.0))
        io.write(nwbfile)
    with NWBZarrIO(path) as io:
        assert "late" in io.read().acquisition
    assert not [problem for problem in verify(path, "structure").problems if problem.kind == "consolidated-stale"]


@APPEND
def test_d10b_an_append_that_fails_is_seen_by_nobody(folder):
    path = samples.write_zarr(folder / "a.nwb.zarr", samples.plain_nwbfile())
    before = contents(path)

    def broken() -> Iterator[float]:
        yield 1.0
        raise OSError("the amplifier is gone")

    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="finished", data=[1.0], unit="V", rate=1.0))
        late = DataChunkIterator(data=broken(), buffer_size=1)
        nwbfile.add_acquisition(TimeSeries(name="late", data=late, unit="V", rate=1.0))
        with pytest.raises(OSError, match="amplifier"):
            io.write(nwbfile)
    assert contents(path) == before
    for mode in ("r", "r-"):
        with NWBZarrIO(path, mode) as io:
            assert list(io.read().acquisition) == ["trace"]


def test_d10c_a_write_that_fails_leaves_nothing_that_looks_like_a_file(folder):
    root = trees.root(trees.dataset("good", [1]), trees.dataset("bad", [object()]))
    with ZarrIO(folder / "a.zarr", "w") as io, pytest.raises(ZarrBackendError):
        io.write_builder(root)
    check_nothing(folder / "a.zarr")


def test_d10d_a_chunk_that_is_gone_is_found(folder):
    path = trees.write_builder(folder / "a.zarr", trees.root(trees.dataset("x", np.arange(10))))
    (chunk,) = chunks_of(path, "x")
    delete(path, chunk)
    assert {(problem.path, problem.kind) for problem in verify(path).problems} == {("/x", "chunk-missing")}


class Unlisted(LocalStore):
    """A server that lists nothing."""

    abilities = Abilities(write=False, change=False, listing=False, why="it is read-only")

    def list_documents(self) -> Iterator[str]:
        raise AssertionError

    def sizes(self, prefix: str) -> dict[str, int]:
        raise AssertionError


def test_d11_namespaces_come_without_a_listing(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr")
    with NWBZarrIO(Unlisted(str(path))) as io:
        assert io.read().identifier == "rich"
    assert "core" in NWBZarrIO.get_namespaces(path)


@pytest.mark.parametrize("kind", ["web", "bucket"])
def test_d12_a_link_leads_to_the_neighbour(kind, request):
    """Over the web it was requested below the file itself, and in a bucket it led back to the file."""
    if kind == "web":
        server = request.getfixturevalue("web")
        folder: Any = server.folder
        url, options = server.url, {}
    else:
        server = request.getfixturevalue("s3")
        url, options = server.url("folder"), {"storage_options": server.direct_options}
        folder = url
    first = trees.root(trees.dataset("x", [1, 2, 3]), trees.group("box", trees.dataset("y", [4])))
    with ZarrIO(f"{folder}/a.zarr", "w", **options) as io:
        io.write_builder(first)
    with ZarrIO(f"{folder}/a.zarr", **options) as source, ZarrIO(f"{folder}/b.zarr", "w", **options) as io:
        found = source.read_builder()
        second = trees.root(trees.dataset("data", found["x"].data), trees.dataset("x", [9]))
        second.set_link(LinkBuilder(builder=found["box"], name="box"))
        second.set_attribute("reference", ReferenceBuilder(found["box"]))
        io.write_builder(second)
    with ZarrIO(f"{url}/b.zarr", **options) as io:
        builder = io.read_builder()
        assert builder.links["data"].builder.data[:].tolist() == [1, 2, 3]
        assert builder.links["box"].builder["y"].data[:].tolist() == [4]
        assert builder.links["box"].builder.source == f"{url}/a.zarr"
        assert builder.attributes["reference"] is builder.links["box"].builder


def test_d13_the_newest_version_is_by_number(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr")
    (stored,) = (path / "specifications" / "hdmf-common").glob("*.*.*")
    for version in ("91.9.0", "91.11.0", "91.10.1"):
        shutil.copytree(stored, stored.parent / version)
    consolidate(path)
    assert NWBZarrIO.get_namespaces(path)["hdmf-common"] == "91.11.0"


def test_d14_an_iterator_keeps_its_type(folder):
    iterator = DataChunkIterator(data=iter(np.array([2**30, 2**30 + 1], "i4")), buffer_size=1)
    path = trees.write_builder(folder / "a.zarr", trees.root(trees.dataset("x", iterator)))
    with ZarrIO(path) as io:
        data = io.read_builder()["x"].data
        assert data.dtype == np.dtype("i4")
        assert data[:].tolist() == [2**30, 2**30 + 1]


@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_d14_settings_of_hdf5_are_used_or_reported(folder, tmp_path, backend):
    values = np.arange(40, dtype="i2").reshape(10, 4)
    settings = {"chunks": (5, 2), "maxshape": (None, 4), "fillvalue": -1}
    filters = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}
    if backend == "hdf5":  # hdmf itself warns that they have no effect on a dataset of HDF5
        with h5py.File(tmp_path / "a.h5", "w") as file:
            data = file.create_dataset("x", data=values, chunks=(10, 4), maxshape=(10, None))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrapped = H5DataIO(data, **settings, **filters)
            path = trees.write_builder(folder / "a.zarr", trees.root(trees.dataset("x", wrapped)))
    else:
        with pytest.warns(
            UserWarning, match="/x: compression, compression_opts, shuffle, fletcher32 of H5DataIO are"
        ) as caught:
            path = trees.write_builder(
                folder / "a.zarr", trees.root(trees.dataset("x", H5DataIO(values, **settings, **filters)))
            )
        assert str(path) in str(caught[0].message)
        trees.write_builder(
            folder / "b.zarr", trees.root(trees.dataset("x", H5DataIO(values, **settings)))
        )  # nothing to report
    with ZarrIO(path) as io:
        data = io.read_builder()["x"].data
        expected = ((10, 4), (10, None), None) if backend == "hdf5" else ((5, 2), (None, 4), -1)
        assert (data.chunks, data.maxshape, data.fill_value) == expected
        assert np.array_equal(data[:], values)


def test_d14_settings_of_hdf5_around_what_was_read_from_zarr(folder):
    path = trees.write_builder(
        folder / "a.zarr", trees.root(trees.dataset("x", ZarrDataIO(np.arange(20), chunks=(20,))))
    )
    with ZarrIO(path) as source:
        wrapped = H5DataIO(source.read_builder()["x"].data, chunks=(7,))
        copied = trees.write_builder(folder / "b.zarr", trees.root(trees.dataset("x", wrapped)), link_data=False)
    with ZarrIO(copied) as io:
        data = io.read_builder()["x"].data
        assert (data.chunks, data[:].tolist()) == ((7,), list(range(20)))


@pytest.mark.parametrize("chunks", [None, (2**17,)], ids=["contiguous", "chunked"])
def test_d15_an_export_from_hdf5_holds_no_complete_dataset(tmp_path, chunks):
    size = 2**23  # of 8 bytes: 64 MiB
    with HDF5IO(tmp_path / "a.h5", "w", manager=get_manager()) as io:
        io.write_builder(trees.root(trees.dataset("small", [1])))
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.create_dataset("x", data=np.arange(size), chunks=chunks)
    tracemalloc.start()
    try:
        with (
            HDF5IO(tmp_path / "a.h5", "r", manager=get_manager()) as source,
            ZarrIO(tmp_path / "a.zarr", "w", write_options=WriteOptions(memory_budget=8 * 2**20)) as io,
        ):
            io.export(source, cache_spec=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size * 8 / 2
    with ZarrIO(tmp_path / "a.zarr") as io:
        data = io.read_builder()["x"].data
        assert data[::1_000_003].tolist() == list(range(0, size, 1_000_003))


def test_d16_nothing_is_compressed_twice(folder, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(2**20, dtype="i4"), chunks=(2**16,), compression="gzip", shuffle=True)
    convert(tmp_path / "a.h5", folder / "a.zarr", check=False)
    node = arrays(folder / "a.zarr")["x"]
    assert [codec["id"] for codec in (*(node.stored.filters or []), node.stored.compressor)] == ["shuffle", "zlib"]


def test_d17_no_file_for_each_row(folder):
    iterator = DataChunkIterator(data=(np.arange(4) for _ in range(4000)), buffer_size=1, dtype=np.dtype("i8"))
    path = trees.write_builder(folder / "a.zarr", trees.root(trees.dataset("x", iterator)))
    assert len(chunks_of(path, "x")) == 1


def test_d18_the_consolidated_document_is_set_once(tmp_path):
    with watching(tmp_path) as watched:
        samples.write_zarr(tmp_path / "a.nwb.zarr")
    names = [key.partition("/")[2] for key in watched.sets if "/" in key]  # below the folder that is renamed at the end
    assert names.count(".zmetadata") == 1
    assert names[-1] == ".zmetadata"
    assert len(names) == len(set(names))


def test_d19_the_settings_of_a_user_stay_as_they_are(folder):
    wrapped = ZarrDataIO(np.arange(4), compressor=False)
    before = dict(wrapped.io_settings)
    trees.write_builder(folder / "a.zarr", trees.root(trees.dataset("x", wrapped)))
    assert wrapped.io_settings == before
