"""Chunks of HDF5 become chunks of Zarr as they are, and back: the values are those that h5py reads, the bytes the same.

Whole files are converted to Zarr and back, in both formats; zarr-python reads those of format 2, h5py what comes back.
"""

import ctypes
import glob
import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.backends.hdf5 import HDF5IO
from hdmf.common import get_manager
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, compare, convert
from hdmf_zarr_backend.errors import ChunkError, UsageError
from hdmf_zarr_backend.hdf5.files import UnreadableHdf5Error
from hdmf_zarr_backend.hdf5.filters import check_chunks
from hdmf_zarr_backend.hdf5.plan import CheckedDataset
from hdmf_zarr_backend.hdf5.rawcopy import RawChunks
from tests import trees
from tests.smallfiles import hdf5_dataset
from tests.zarrs import IS_ZARR_2

_BLOSC = {
    f"blosc-{name}-{shuffle}": dict(hdf5plugin.Blosc(cname=name, clevel=5, shuffle=shuffle))
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
    for shuffle in (0, 1, 2)
}
_GZIP = {"compression": "gzip"}

#: Pipelines whose chunks can be copied: what `h5py.Group.create_dataset` is given.
COPIED: dict[str, dict[str, Any]] = {
    "none": {}, "shuffle": {"shuffle": True}, "gzip": {**_GZIP, "compression_opts": 9},
    "shuffle-gzip": {**_GZIP, "shuffle": True}, "fletcher32": {"fletcher32": True},
    "shuffle-fletcher32": {"shuffle": True, "fletcher32": True}, "gzip-fletcher32": {**_GZIP, "fletcher32": True},
    "shuffle-gzip-fletcher32": {**_GZIP, "shuffle": True, "fletcher32": True}, "zstd": dict(hdf5plugin.Zstd(clevel=7)),
    "zstd-negative": {"compression": 32015, "compression_opts": (2**32 - 3,)},
    "shuffle-zstd": {"shuffle": True, **hdf5plugin.Zstd()},
    "shuffle-zstd-fletcher32": {"shuffle": True, "fletcher32": True, **hdf5plugin.Zstd()},
    "bzip2": dict(hdf5plugin.BZip2(blocksize=5)), "shuffle-bzip2": {"shuffle": True, **hdf5plugin.BZip2()},
    "shuffle-blosc": {"shuffle": True, **hdf5plugin.Blosc()}, "lz4": dict(hdf5plugin.LZ4()),
    "lz4-blocks": dict(hdf5plugin.LZ4(nbytes=128)), "shuffle-lz4": {"shuffle": True, **hdf5plugin.LZ4()}, **_BLOSC,
}  # fmt: skip

#: Pipelines that only HDF5 decodes.
DECODED: dict[str, dict[str, Any]] = {
    "lzf": {"compression": "lzf"}, "shuffle-lzf": {"compression": "lzf", "shuffle": True},
    "scaleoffset": {"scaleoffset": 0}, "bitshuffle": dict(hdf5plugin.Bitshuffle()), "blosc2": dict(hdf5plugin.Blosc2()),
    "blosc-snappy": {"compression": 32001, "compression_opts": (0, 0, 0, 0, 5, 1, 3)},
    "lz4-fletcher32": {"fletcher32": True, **hdf5plugin.LZ4()}, "zfp": dict(hdf5plugin.Zfp(reversible=True)),
}  # fmt: skip

COMPOUND = np.dtype([("a", "<i2"), ("b", ">f8"), ("c", "?"), ("d", "S3"), ("e", "<u4")])

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(spelling)
    for name, spelling in {
        "i1": "i1", "u2": "<u2", "i8": "<i8", "i4-big": ">i4", "f2": "<f2", "f4-big": ">f4", "f8": "<f8", "bool": "?",
        "complex": "<c16", "complex-big": ">c8", "bytes": "S10", "one-byte": "S1",
    }.items()
} | {"compound": COMPOUND}  # fmt: skip

#: name -> shape, chunks, what is written (None: all of it), maxshape
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, Any]] = {
    "even": ((40,), (10,), None, None), "edge": ((45,), (10,), None, None), "edge-2d": ((25, 13), (10, 4), None, None),
    "edge-4d": ((5, 4, 3, 7), (2, 3, 2, 4), None, None), "one-chunk": ((7, 5), (7, 5), None, None),
    "chunk-larger": ((3, 4), (8, 6), None, (None, None)),
    "sparse": ((100, 6), (10, 4), (slice(30, 52), slice(0, 3)), None),
    "nothing-written": ((20, 3), (8, 2), (slice(0, 0), slice(0, 0)), None),
    "unlimited": ((31, 2), (8, 2), None, (None, 2)), "single-element": ((1,), (1,), None, None),
}  # fmt: skip


def pipeline_in(dataset: Any) -> list[list[Any]]:
    created = dataset.id.get_create_plist()
    entries = [created.get_filter(number) for number in range(created.get_nfilters())]
    return [[int(code), int(flags), [int(v) for v in values]] for code, flags, values, _ in entries]


def create_with(
    file: Any, name: str, shape: tuple[int, ...], dtype: Any, *, chunks: Any, filters: Any, **kw: Any
) -> Any:
    """Create a dataset with filters in an order of their own, ``[(number, flags, options), ...]``."""
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    created.set_chunk(chunks)
    for number, flags, options in filters:
        created.set_filter(number, flags, tuple(options))
    if kw.get("skip_edges"):
        _library().H5Pset_chunk_opts(created.id, 2)  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
    space = h5py.h5s.create_simple(shape, kw.get("maxshape", shape))
    tid = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), tid, space, created))


def _library() -> Any:
    """Return the HDF5 library that h5py has loaded, for what h5py has no name for."""
    result = glob.glob(os.path.join(os.path.dirname(h5py.__file__), os.pardir, "h5py.libs", "libhdf5-*"))
    if not result:
        pytest.skip("the HDF5 library of this h5py is not beside it")
    library = ctypes.CDLL(result[0])
    library.H5Pset_chunk_opts.argtypes = [ctypes.c_int64, ctypes.c_uint]
    return library


def make_values(shape: tuple[int, ...], dtype: np.dtype[Any], *, seed: int = 3) -> Any:
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.names is not None:
        rows = np.zeros(count, dtype)
        for name in dtype.names:
            rows[name] = make_values(rows[name].shape, rows[name].dtype, seed=seed)
        return rows.reshape(shape)
    if dtype.kind == "S":
        texts = [bytes(random.integers(97, 123, random.integers(0, dtype.itemsize + 1), "u1")) for _ in range(count)]
        return np.array(texts, dtype).reshape(shape)
    if dtype.kind == "b":
        return random.random(shape) < 0.3
    values = np.cumsum(random.normal(0, 3, count))
    if dtype.kind == "c":
        values = values + 1j * values[::-1]
    if dtype.kind in "iu":
        values = values.astype("i8")
    return values.reshape(shape).astype(dtype)


def same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def check(path: Path, zarr_format: int = 2, *, raw: bool = True) -> None:
    """Convert a file to Zarr and back, and compare values and the bytes of chunks; those of LZ4 get another frame."""
    number = len(list(path.parent.glob("*.zarr")))
    stored, back = path.with_name(f"{number}.zarr"), path.with_name(f"{number} back.h5")
    convert(path, stored, zarr_format=zarr_format)
    convert(stored, back)
    with h5py.File(path) as file, h5py.File(back) as again, ZarrIO(stored, "r") as zarr_io:
        builder = zarr_io.read_builder()
        for name, dataset in list(file.items()):  # its view holds the lock of h5py, for which a thread of zarr may wait
            values, result = dataset[()], builder[name].data[...]
            assert same(again[name][()], values), name
            assert result.shape == values.shape, name
            assert result.astype(values.dtype).tobytes() == values.tobytes(), name
            # With numcodecs 0.13, zarr-python 2 does not decode a lone Fletcher32 into more than one axis.
            is_lone = IS_ZARR_2 and pipeline_in(dataset) == [[3, 0, []]]
            if zarr_format == 2 and values.size and not is_lone:
                plain = zarr.open_group(stored, mode="r")[name][...]
                assert np.asarray(plain).astype(values.dtype).tobytes() == values.tobytes(), name
            if raw and dataset.chunks is not None and 32004 not in [code for code, *_ in pipeline_in(dataset)]:
                assert chunks_of(again[name]).items() >= chunks_of(dataset).items(), name


def cut(dataset: Any, start: tuple[int, ...]) -> None:
    dataset.flush()
    dataset.id.write_direct_chunk(start, dataset.id.read_direct_chunk(start)[1][:-1])


def convert_and_read(path: Path, **options: Any) -> Any:
    convert(path, path.with_suffix(".zarr"), **options)
    return trees.read_builder(path.with_suffix(".zarr"))["x"].data[:]


def chunks_of(dataset: Any) -> dict[Any, bytes]:
    infos = [dataset.id.get_chunk_info(number) for number in range(dataset.id.get_num_chunks())]
    return {info.chunk_offset: dataset.id.read_direct_chunk(info.chunk_offset)[1] for info in infos
            if info.filter_mask == 0 and info.size}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


# ---- the whole table ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pipeline", COPIED)
def test_every_dtype_and_shape_through_every_pipeline(path, pipeline, zarr_format):
    with h5py.File(path, "w") as file:
        for name, dtype in DTYPES.items():
            file.create_dataset(name, data=make_values((45, 7), dtype), chunks=(20, 4), **COPIED[pipeline])
        for name, (shape, chunks, written, maxshape) in SHAPES.items():
            options = {"chunks": chunks, "maxshape": maxshape, "fillvalue": -7, **COPIED[pipeline]}
            dataset = file.create_dataset(f"shape {name}", shape, "<i4", **options)
            dataset[written or ...] = make_values(shape, np.dtype("<i4"))[written or ...]
    check(path, zarr_format)


@pytest.mark.parametrize("pipeline", DECODED)
def test_pipelines_that_only_hdf5_decodes(path, pipeline, zarr_format):
    hdf5_dataset(path, "x", data=np.arange(100, dtype="<i4"), chunks=(30,), **DECODED[pipeline])
    assert convert_and_read(path, zarr_format=zarr_format).tolist() == list(range(100))


@pytest.mark.parametrize("shuffle", [False, True])
def test_chunks_of_another_level_stay_what_they_are(path, shuffle):
    values = make_values((1000,), np.dtype("<i4"))
    options = {"chunks": (1000,), "compression": "gzip", "compression_opts": 9, "shuffle": shuffle}
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=values, **options)
        chunk = bytes(numcodecs.Zlib(1).encode(numcodecs.Shuffle(4).encode(values) if shuffle else values))
        assert chunk != dataset.id.read_direct_chunk((0,))[1]
        dataset.id.write_direct_chunk((0,), chunk)
    check(path)


# ---- chunks one by one ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mask", range(8))
def test_chunks_with_a_filter_mask(path, mask, zarr_format):
    data: Any = np.arange(2000, 2020, dtype="<i4")
    with h5py.File(path, "w") as file:
        options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        dataset = file.create_dataset("x", data=np.arange(60, dtype="<i4"), chunks=(20,), **options)
        for number, codec in enumerate([numcodecs.Shuffle(4), numcodecs.Zlib(4), numcodecs.Fletcher32()]):
            data = data if mask >> number & 1 else codec.encode(data)
        raw = np.ascontiguousarray(np.frombuffer(data, "u1")).tobytes()
        dataset.id.write_direct_chunk((20,), raw, filter_mask=mask)
    check(path, zarr_format)


def test_blosc_chunks_that_hdf5_did_not_compress_and_lz4_chunks_of_several_blocks(path):
    values = np.random.default_rng(0).integers(0, 2000, 4000).astype("<i4")
    values[:1000] = 5
    with h5py.File(path, "w") as file:
        file.create_dataset("blosc", data=values, chunks=(500,), **COPIED["blosc-blosclz-0"])
        file.create_dataset("one", data=values, chunks=(400,), **COPIED["lz4"])
        file.create_dataset("many", data=values, chunks=(400,), **COPIED["lz4-blocks"])
    check(path)


def test_what_a_plugin_made_and_numcodecs_does_not_read(path):
    values = np.repeat(np.arange(50), 40).astype("<i4")
    with h5py.File(path, "w") as file:
        snappy = file.create_dataset("snappy", data=values, chunks=(1000,), **DECODED["blosc-snappy"])
        snappy.flush()
        data = snappy.id.read_direct_chunk((1000,))[1]
        dataset = file.create_dataset("x", data=values, chunks=(1000,), **COPIED["blosc-lz4-1"])
        dataset.id.write_direct_chunk((1000,), data)  # the filter reads what it is from the chunk
    assert convert_and_read(path).tolist() == values.tolist()


@pytest.mark.parametrize("pipeline", [
    "bzip2", "zstd", "lz4", "blosc-lz4-1", "shuffle-zstd", "lzf", "shuffle-lzf", "gzip", "shuffle-gzip-fletcher32",
])  # fmt: skip
@pytest.mark.parametrize(("size", "dtype"), [(600, "<i4"), (600_000, "<i4"), (600, "S5")])
def test_a_chunk_that_is_cut_off_is_an_error(path, pipeline, size, dtype):
    values = np.arange(size).astype(dtype)
    with h5py.File(path, "w") as file:
        cut(file.create_dataset("x", data=values, chunks=(size // 3,), **(COPIED | DECODED)[pipeline]), (0,))
    error, match = ChunkError, "a chunk of HDF5 cannot be decoded"
    if size == 600 and "gzip" in pipeline:  # HDF5 reads small datasets, and its own filters notice it
        error, match = UnreadableHdf5Error, "HDF5 cannot read this"
    for chosen in ({"codec": "zlib"}, {"codec": "zlib", "chunks": "keep"}):
        with pytest.raises(error, match=match) as caught:
            convert(path, path.with_suffix(".zarr"), **chosen)
        assert (caught.value.store, caught.value.path) == (str(path), "/x")
        assert not path.with_suffix(".zarr").exists()
    assert [one.kind for one in compare(path, path)] == ["unreadable"]


@pytest.mark.parametrize(
    ("dtype", "first"), [(h5py.string_dtype(), "a"), ([("a", h5py.string_dtype())], ("a",)), ("S5", b"a"), ("<i4", 1)]
)
def test_the_chunks_of_a_dataset_given_as_data_are_checked_whatever_its_type(path, dtype, first):
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", shape=(600,), dtype=np.dtype(dtype), chunks=(200,), compression="lzf")
        dataset[0] = np.array(first, dtype)
        cut(dataset, (0,))
        with pytest.raises(ChunkError, match="LZF: it does not become") as caught:
            trees.write_builder(path.with_suffix(".zarr"), trees.root(trees.dataset("x", dataset)))
    assert caught.value.path == "/x"


def test_the_chunks_of_references_that_hdmf_has_read_are_checked(path):
    with h5py.File(path, "w") as file:
        references = np.full(400, file.create_group("group").ref, h5py.ref_dtype)
        cut(file.create_dataset("x", data=references, chunks=(200,), compression="lzf"), (200,))
    with (
        HDF5IO(path, "r", manager=get_manager()) as source,
        ZarrIO(path.with_suffix(".zarr"), "w", manager=get_manager()) as target,
        pytest.raises(ChunkError, match="LZF: it does not become") as caught,
    ):
        target.export(source)
    assert caught.value.path == "/x"


@contextmanager
def _calls(function: str) -> Iterator[list[str]]:
    calls = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_qualname == function:
            calls.append(event)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def test_a_chunk_is_checked_once_for_all_blocks_that_are_read_of_it(path):
    with h5py.File(path, "w") as file:
        values = np.arange(4000).reshape(-1, 4)
        dataset = file.create_dataset("x", data=values, chunks=(500, 4), **COPIED["zstd"])
        tree = trees.root(trees.dataset("x", ZarrDataIO(dataset, chunks=(100, 4))))
        with _calls("CodecPipeline.decode") as checks:
            trees.write_builder(path.with_suffix(".zarr"), tree)
    assert len(checks) == 2


def test_many_chunks_of_lzf_are_checked_with_one_file_in_memory(path):
    with h5py.File(path, "w") as file:
        node = file.create_dataset("x", data=np.zeros((300, 30), "i4"), chunks=(10, 10), compression="lzf").id
        with _calls("File.__init__") as files:
            check_chunks(node, [(0, 250), (0, 30)])
        assert len(files) == 1
        start, (mask, data) = (290, 20), node.read_direct_chunk((290, 20))
        node.write_direct_chunk(start, data[:-1], mask)
        with pytest.raises(ChunkError, match="it does not become 400 bytes"):
            check_chunks(node, [(250, 300), (0, 30)])


@pytest.mark.parametrize("key", [-1, np.int64(-1), 290, [0, 299], (Ellipsis, -1), np.arange(300) == 299])
def test_each_selected_chunk_is_checked_before_it_is_decoded(path, key):
    with h5py.File(path, "w") as file:
        values, options = np.arange(9000).reshape(300, 30), {"chunks": (10, 30), "compression": "lzf"}
        intact, dataset = (file.create_dataset(name, data=values, **options) for name in "xy")
        assert np.array_equal(CheckedDataset(intact)[key], values[key])
        cut(dataset, (290, 0))
        with pytest.raises(ChunkError, match="it does not become 2400 bytes"):
            CheckedDataset(dataset)[key]


@pytest.mark.parametrize("pipeline", ["bzip2", "zstd", "lz4"])  # Blosc divides by zero for such text
def test_text_of_any_length_in_filtered_chunks(path, pipeline):
    text = h5py.string_dtype()
    rows = np.array([("abc", 1, [2, 3])] * 300, [("name", text), ("n", "i4"), ("pair", "i2", (2,))])
    with h5py.File(path, "w") as file:
        file.create_dataset("text", data=["abc", "de"] * 250, chunks=(100,), dtype=text, **COPIED[pipeline])
        file.create_dataset("rows", data=rows, chunks=(100,), **COPIED[pipeline])
    convert(path, path.with_suffix(".zarr"))
    assert compare(path, path.with_suffix(".zarr")) == []


@pytest.mark.parametrize("fill_time", [h5py.h5d.FILL_TIME_IFSET, h5py.h5d.FILL_TIME_ALLOC, h5py.h5d.FILL_TIME_NEVER])
@pytest.mark.parametrize("value", [None, 0, 9])
def test_chunks_that_are_not_stored(path, fill_time, value):
    with h5py.File(path, "w") as file:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((4, 4))
        created.set_deflate(3)
        created.set_fill_time(fill_time)
        if value is not None:
            created.set_fill_value(np.array(value, "<i2"))
        space = h5py.h5s.create_simple((10, 9))
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I16LE, space, created))
        dataset[4:8, 4:8] = 3  # the rest of a chunk that is never filled is whatever was in memory
        fill = np.array((5, 2.5, True, b"xyz", 9), COMPOUND)
        file.create_dataset("rows", (20,), COMPOUND, chunks=(6,), fillvalue=fill, compression="gzip", shuffle=True)
    check(path)


@settings(max_examples=15)
@given(
    steps=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=5),
    pipeline=st.sampled_from(["shuffle-gzip", "gzip", "blosc-lz4-1", "shuffle-gzip-fletcher32"]),
)
def test_datasets_that_grew_and_shrank(tmp_path_factory, steps, pipeline):
    path = tmp_path_factory.mktemp("grown") / "a.h5"
    options = {"chunks": (5, 4), "maxshape": (None, None), "fillvalue": np.nan, **COPIED[pipeline]}
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (17, 9), "<f4", **options)
        dataset[...] = 1
        for number, shape in enumerate(steps, 2):
            dataset.resize(shape)
            dataset[::2] = number
    check(path)


@pytest.mark.skipif(os.name != "posix", reason="Windows opens the file for each read")
def test_a_source_that_is_renamed_is_read_on(path):
    hdf5_dataset(path, "a", data=np.arange(1000), chunks=(100,))
    with h5py.File(path) as file:
        raw = RawChunks(file["a"])
    path.rename(path.with_name("b.h5"))
    assert raw.read((3,)) == np.arange(300, 400).tobytes()
    assert pickle.loads(pickle.dumps(raw)).file is raw.file


FILTERS = {"shuffle": [(2, 0, ())], "gzip": [(1, 0, (4,))], "fletcher32": [(3, 0, ())],
           "all": [(2, 0, ()), (1, 0, (1,)), (3, 0, ())]}  # fmt: skip


@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("skip_edges", [False, True], ids=["filtered", "unfiltered"])
def test_chunks_at_the_edge_may_be_unfiltered(path, filters, skip_edges):
    late = np.where(np.arange(1000)[:, None] < 900, 0, np.arange(20) * 70_001)  # only the last edges tell
    with h5py.File(path, "w", libver="latest") as file:
        random = np.random.default_rng(0).integers(0, 1000, (100, 20))
        for name, values in {"random": random, "constant": np.full((100, 20), 7), "late": late}.items():
            options = {"chunks": (30, 7), "filters": filters, "skip_edges": skip_edges}
            create_with(file, name, values.shape, "<i4", **options)[...] = values
    check(path, raw=not skip_edges)  # edges have no filters, and say that they have


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("maxshape", [(9, 30), (None, 30), (None, 90), (9, None), (None, None), (60, 90)], ids=str)
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("pipeline", ["none", "shuffle-gzip"])
def test_every_index_of_chunks(path, libver, maxshape, early, pipeline):
    """One that grows along its last axis only, in the newest format, has chunks that the library counts wrongly."""
    values = np.arange(270, dtype="<i4").reshape(9, 30)
    with h5py.File(path, "w", libver=libver) as file:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY if early else h5py.h5d.ALLOC_TIME_INCR)
        options = {"chunks": (2, 7), "maxshape": maxshape, "dcpl": created, **COPIED[pipeline]}
        dataset = file.create_dataset("x", (9, 30), "<i4", **options)
        for column in range(29, -1, -1):  # from the end, so that the order in the file is another
            dataset[:, column] = values[:, column]
    check(path, raw=(maxshape, libver) != ((9, None), "latest"))


@settings(max_examples=15)
@given(data=st.data())
def test_no_chunk_is_ever_taken_for_another(tmp_path_factory, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    maxshape = tuple(data.draw(st.sampled_from([n, 2 * n + 1, None])) for n in shape)
    grid = [range(-(-n // c)) for n, c in zip(shape, chunks, strict=True)]
    stored = data.draw(st.sets(st.sampled_from(list(itertools.product(*grid))), min_size=1))
    path = tmp_path_factory.mktemp("index") / "a.h5"
    with h5py.File(path, "w", libver=data.draw(st.sampled_from(["earliest", "v110", "latest"]))) as file:
        dataset = file.create_dataset("x", shape, "<i4", chunks=chunks, maxshape=maxshape, compression="gzip")
        for number, index in enumerate(sorted(stored), 1):
            start = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, chunks, shape, strict=True))
            dataset[start] = number
    check(path, raw=False)


@pytest.mark.parametrize("stored", [(0, 1), (1, 0), (4, 0)])
def test_chunks_that_may_have_been_counted_along_another_axis(path, stored):
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("x", (9, 60), "<i4", chunks=(2, 7), maxshape=(9, None), compression="gzip")
        dataset[:2, :7] = 5
        dataset[2 * stored[0] : 2 * stored[0] + 1, 7 * stored[1] : 7 * stored[1] + 7] = np.arange(7) * 1001
    check(path, raw=False)


# ---- files ----------------------------------------------------------------------------------------------------------
def test_a_block_before_the_file_and_data_in_one_piece(path):
    with h5py.File(path, "w", userblock_size=1024) as file:
        file.create_dataset("x", data=np.arange(600), chunks=(300,), compression="gzip")
        for name, dtype in DTYPES.items():
            file[name] = make_values((45, 7), dtype)
    check(path)


# ---- what the library may say wrongly -------------------------------------------------------------------------------
class _Overlaid:
    def __init__(self, real: Any, **others: Any) -> None:
        self._real = real
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _listing(dataset: Any, chunk_iter: Any) -> Any:
    return _Overlaid(dataset, id=_Overlaid(dataset.id, chunk_iter=chunk_iter))


@pytest.mark.parametrize("start", [(0, 6), (4, 0), (0, 3)], ids=["beside", "below", "twice"])
def test_an_impossible_list_of_chunks_is_refused(path: Path, start: tuple[int, int]) -> None:
    hdf5_dataset(path, "x", data=np.arange(24).reshape(4, 6), chunks=(2, 3), compression="gzip")
    with h5py.File(path) as file:
        real = file["x"]

        def chunk_iter(callback: Any) -> None:
            real.id.chunk_iter(callback)
            callback(h5py.h5d.StoreInfo(start, 0, 100, 20))

        with pytest.raises(UsageError, match=r"a\.h5.*not certain.*\(/x\)"):
            RawChunks(_listing(real, chunk_iter))


@pytest.mark.parametrize("userblock", [0, 1024])
@pytest.mark.parametrize("shift", [0, 1024, 8])
def test_offsets_are_checked_by_one_chunk(path: Path, userblock: int, shift: int) -> None:
    with h5py.File(path, "w", userblock_size=userblock) as file:
        file.create_dataset("x", data=np.arange(6), chunks=(3,), compression="gzip")
    with h5py.File(path) as file:
        real = file["x"]
        true = RawChunks(real)

        def chunk_iter(callback: Any) -> None:
            for index, _ in true.stored():
                offset, size, mask = true.find(index) or (0, 0, 0)
                callback(h5py.h5d.StoreInfo((3 * index[0],), mask, offset - shift, size))

        if shift in (0, userblock):
            raw = RawChunks(_listing(real, chunk_iter))
            assert [raw.read(index) for index, _ in raw.stored()] == [true.read(index) for index, _ in true.stored()]
            return
        with pytest.raises(UsageError, match="not certain"):
            RawChunks(_listing(real, chunk_iter))


def test_chunks_without_an_address_are_read_through_hdf5(path: Path) -> None:
    hdf5_dataset(path, "x", data=np.arange(6), chunks=(3,), compression="gzip")
    with h5py.File(path) as file:
        real = file["x"]

        def chunk_iter(callback: Any) -> None:
            real.id.chunk_iter(lambda info: callback(info._replace(byte_offset=None)))

        raw = RawChunks(_listing(real, chunk_iter))
        assert raw.file is None
        assert raw.read((1,)) == RawChunks(real).read((1,))


THREADS = """
import h5py
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from hdmf_zarr_backend.hdf5.filters import check_chunks

with h5py.File("m", "w", driver="core", backing_store=False) as file:
    values = np.random.default_rng(0).integers(-50, 50, (20_000, 16), "i2")
    node = file.create_dataset("a", data=values, chunks=(2_000, 16), compression="lzf").id
    blocks = [[(start, start + 2_000), (0, 16)] for start in range(0, 20_000, 2_000)] * 60
    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(lambda block: check_chunks(node, block), blocks))) == 600
"""


def test_threads_that_read_raw_chunks_wait_for_each_other():
    """Old releases of h5py call HDF5 for them without their lock: most runs ended in a crash, or in an error."""
    subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=600)
