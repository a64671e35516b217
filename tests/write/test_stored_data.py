"""Stored arrays as data: those of zarr itself, from any store, and of this package; their layout stays in a copy."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.data_utils import DataChunkIterator
from pynwb import TimeSeries

from hdmf_zarr_backend import ZarrDataIO
from tests import samples
from tests.documents import document
from tests.options import arguments
from tests.trees import dataset, read_builder, root, write_builder
from tests.zarrs import IS_ZARR_2, needs_zarr_3

VALUES = (np.arange(1200) % 301).astype("<i2").reshape(300, 4)
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 7, "shuffle": 2, "blocksize": 0}
DELTA = {"id": "delta", "dtype": "<i2", "astype": "<i2"}
FORMAT_2: dict[str, Any] = {} if IS_ZARR_2 else {"zarr_format": 2}


def stored(store: Any, path: str | None = None, **options: Any) -> Any:
    given: dict[str, Any] = {
        "shape": VALUES.shape, "dtype": VALUES.dtype, "chunks": (70, 3), "fill_value": 5,
        "compressor": numcodecs.get_codec(BLOSC), "filters": [numcodecs.Delta("<i2")],
    }  # fmt: skip
    array = zarr.open_array(store, mode="w", **({} if path is None else {"path": path}), **given, **FORMAT_2, **options)
    array[:250] = VALUES[:250]
    return array


def _folder(folder: Path) -> Any:
    return stored(str(folder / "plain.zarr"))


def _member(folder: Path) -> Any:
    zarr.open_group(str(folder / "group.zarr"), mode="w", **FORMAT_2)
    return stored(str(folder / "group.zarr" / "a"))


def _memory(folder: Path) -> Any:
    return stored(zarr.storage.MemoryStore(), "a/b")


def _zip(folder: Path) -> Any:
    with zarr.storage.ZipStore(str(folder / "a.zip"), mode="w") as store:
        stored(store)
    return zarr.open_array(zarr.storage.ZipStore(str(folder / "a.zip"), mode="r"), mode="r")


def _lazy(folder: Path) -> Any:
    data = ZarrDataIO(_folder(folder))
    return read_builder(write_builder(folder / "read.zarr", root(dataset("d", data)), zarr_format=2))["d"].data


SOURCES = [_folder, _member, _memory, _zip, _lazy]
EXPECTED = np.concatenate([VALUES[:250], np.full((50, 4), 5, "<i2")])


def layout(path: Path) -> dict[str, Any]:
    stored = document(path, "d/.zarray")
    return {key: stored[key] for key in ("chunks", "compressor", "filters", "fill_value", "dtype", "order")}


def plain(data: Any) -> Any:
    return data


LAYOUT = {"chunks": [70, 3], "compressor": BLOSC, "filters": [DELTA], "fill_value": 5, "dtype": "<i2", "order": "C"}


def written(folder: Path, data: Any, **options: Any) -> Path:
    path = write_builder(folder / "new.zarr", root(dataset("d", data)), **options)
    assert read_builder(path)["d"].data[()].tolist() == EXPECTED.tolist()
    if hasattr(data, "store") and hasattr(data.store, "close"):
        data.store.close()
    return path


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("wrap", [plain, ZarrDataIO])
def test_a_copy_keeps_chunks_codecs_and_fill_value(tmp_path, source, wrap):
    assert layout(written(tmp_path, wrap(source(tmp_path)), link_data=False, zarr_format=2)) == LAYOUT


@needs_zarr_3
@pytest.mark.parametrize("source", ["folder", "memory"])
@pytest.mark.parametrize("wrap", [plain, ZarrDataIO])
@pytest.mark.parametrize("shards", [None, (100, 4)])
def test_a_copy_of_an_array_of_format_3(tmp_path, source, wrap, shards):
    store = str(tmp_path / "plain.zarr") if source == "folder" else zarr.storage.MemoryStore()
    options = {"chunks": (50, 2), "shards": shards, "fill_value": 5, "compressors": zarr.codecs.GzipCodec(level=8)}
    array = zarr.create_array(store, shape=VALUES.shape, dtype="<i2", zarr_format=3, **options)
    array[:250] = VALUES[:250]
    path = written(tmp_path, wrap(array), zarr_format=3)
    copy = zarr.open_array(str(path / "d"), mode="r")
    assert (copy.chunks, copy.shards, copy.fill_value) == ((50, 2), shards, 5)
    assert copy.compressors == array.compressors


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("options", "changed"), [
    ({"chunks": (100, 4)}, {"chunks": [100, 4]}),
    ({"compressor": numcodecs.Zlib(3)}, {"compressor": {"id": "zlib", "level": 3}, "filters": None}),
    ({"compressor": False}, {"compressor": None, "filters": None}),
    ({"fillvalue": 9}, {"fill_value": 9}),
], ids=["chunks", "compressor", "no compressor", "fill value"])  # fmt: skip
def test_what_is_chosen_is_changed_and_nothing_else(tmp_path, source, options, changed):
    path = written(tmp_path, ZarrDataIO(source(tmp_path), **options), zarr_format=2)
    assert layout(path) == {**LAYOUT, **changed}


def test_the_defaults_can_be_chosen(tmp_path):
    stored = layout(written(tmp_path, ZarrDataIO(_folder(tmp_path), chunks=True, compressor=True), zarr_format=2))
    assert (stored["chunks"], stored["compressor"]["clevel"], stored["filters"]) == ([300, 4], 5, None)


@pytest.mark.parametrize("link_data", [True, False])
def test_an_array_of_another_file_in_a_series(tmp_path, link_data):
    """hdmf iterates over the wrapper, which an array of zarr 3 does not let it."""
    nwbfile = samples.plain_nwbfile()
    wrapped = ZarrDataIO(_member(tmp_path), link_data=link_data)
    nwbfile.add_acquisition(TimeSeries(name="d", data=wrapped, unit="V", rate=1.0))
    lost = pytest.warns(UserWarning, match="not written, since the data are a link .*unit=V")
    with lost if link_data else nullcontext():  # an attribute of the array, which the other file has
        samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    assert samples.read_zarr(tmp_path / "a.nwb.zarr").acquisition["d"].data[()].tolist() == EXPECTED.tolist()
    assert (tmp_path / "a.nwb.zarr" / "acquisition" / "d" / "data").exists() is not link_data


@pytest.mark.parametrize("source", [_folder, _memory, _zip])
def test_a_link_that_cannot_be_is_a_copy_with_a_warning(tmp_path, source):
    data = ZarrDataIO(source(tmp_path), link_data=True)
    with pytest.warns(UserWarning, match=r"/d: link_data=True has no effect: the data are an array that is not in"):
        assert layout(written(tmp_path, data, zarr_format=2)) == LAYOUT


def test_text_of_zarr_itself(tmp_path):
    texts = np.array(["a", "", "ü", "long text"], dtype=object)
    options: dict[str, Any] = {"dtype": str, "zarr_format": 2}
    if IS_ZARR_2:
        options = {"dtype": object, "object_codec": numcodecs.VLenUTF8()}
    array = zarr.open_array(str(tmp_path / "text.zarr"), mode="w", shape=texts.shape, chunks=3, **options)
    array[:] = texts
    assert list(ZarrDataIO(array)) == texts.tolist()
    assert list(ZarrDataIO([1, 2])) == [1, 2]
    assert [block.data.tolist() for block in ZarrDataIO(DataChunkIterator(data=[1, 2]))] == [[1], [2]]
    for name, data in (("plain.zarr", array), ("wrapped.zarr", ZarrDataIO(array))):
        path = write_builder(tmp_path / name, root(dataset("d", data, "utf8")), zarr_format=2)
        assert read_builder(path)["d"].data[()].tolist() == texts.tolist()
        assert document(path, "d/.zarray")["chunks"] == [3]


@needs_zarr_3
@pytest.mark.parametrize("number", [2, 3])
def test_text_that_zarr_has_not_written(tmp_path, number):
    """An array without a group around it, which has one document in format 3: its own and that of the root."""
    array = zarr.create_array(str(tmp_path / "a"), shape=(5,), chunks=(2,), dtype=str, zarr_format=number)
    array[:2] = np.array(["a", "ü"], dtype=object)
    path = write_builder(tmp_path / "new.zarr", root(dataset("d", array)))
    assert read_builder(path)["d"].data[()].tolist() == ["a", "ü", "", "", ""]


@pytest.mark.parametrize("source", [_member, _memory, _zip])
def test_processes_copy_what_they_can_open(tmp_path, source):
    """An array in the memory of this process is read in it."""
    data = source(tmp_path)
    place = zarr.storage.MemoryStore() if source is _memory else str(tmp_path / "large.zarr")
    large = zarr.open_array(place, mode="w", shape=(400_000,), chunks=(100_000,), dtype="<i4", **FORMAT_2)
    large[:] = np.arange(400_000)
    tree = root(dataset("d", data), dataset("large", ZarrDataIO(large)))
    found = read_builder(write_builder(tmp_path / "new.zarr", tree, **arguments(executor="processes", link_data=False)))
    assert found["d"].data[()].tolist() == EXPECTED.tolist()
    assert np.array_equal(found["large"].data[()], np.arange(400_000))
    if hasattr(data.store, "close"):
        data.store.close()


@pytest.mark.parametrize("wrap", [plain, ZarrDataIO])
@pytest.mark.parametrize("number", [2, pytest.param(3, marks=needs_zarr_3)])
@pytest.mark.parametrize("is_member", [True, False])
def test_a_scalar_of_zarr_itself(tmp_path, wrap, number, is_member):
    formats = {} if IS_ZARR_2 else {"zarr_format": number}
    if is_member:
        zarr.open_group(str(tmp_path / "group.zarr"), mode="w", **formats)
    place = str(tmp_path / "group.zarr" / "a") if is_member else str(tmp_path / "a.zarr")
    array = zarr.open_array(place, mode="w", shape=(), dtype="<f8", fill_value=0.0, **formats)
    array[...] = 5.5
    path = write_builder(tmp_path / "new.zarr", root(dataset("d", wrap(array))), link_data=False)
    assert read_builder(path)["d"].data == 5.5
