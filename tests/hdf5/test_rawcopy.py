"""Chunks of HDF5 become chunks of Zarr as they are, and back; what is read is what h5py reads.

Sources are compared with h5py, and plain zarr reads the stores that are written.
"""

from __future__ import annotations

import gc
import io
import itertools
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import ChunkError, StoreError, UsageError, ZarrBackendError
from hdmf_zarr_backend.execution.tasks import ChunkTask, chunk_indices, region_of
from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.hdf5 import rawcopy
from hdmf_zarr_backend.hdf5.chunks import UNFILTERED, RawChunks
from hdmf_zarr_backend.hdf5.datasets import describe
from hdmf_zarr_backend.hdf5.file_bytes import file_bytes
from hdmf_zarr_backend.hdf5.filters import pipeline_of, set_filters
from hdmf_zarr_backend.hdf5.rawcopy import (
    ContiguousH5Source,
    RawH5Source,
    forget_decoded,
    plan_contiguous,
    plan_raw,
    write_direct,
)
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.local import LocalStore
from tests.hdf5.pipelines import COPIED, DECODED, create_with, pipeline_in

_FILTERED = ("shuffle-gzip", "gzip", "blosc-lz4-1", "shuffle-gzip-fletcher32")
_COMPOUND = np.dtype([("a", "<i2"), ("b", ">f8"), ("c", "?"), ("d", "S3"), ("e", "<u4")])

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(spelling)
    for name, spelling in {
        "i1": "i1", "u2": "<u2", "i8": "<i8", "i4-big": ">i4", "f2": "<f2", "f4-big": ">f4", "f8": "<f8", "bool": "?",
        "complex": "<c16", "complex-big": ">c8", "bytes": "S10", "one-byte": "S1",
    }.items()
} | {"compound": _COMPOUND}  # fmt: skip

#: name -> shape, chunks, what is written (None: all of it), maxshape
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, Any]] = {
    "even": ((40,), (10,), None, None),
    "edge": ((45,), (10,), None, None),
    "edge-2d": ((25, 13), (10, 4), None, None),
    "edge-4d": ((5, 4, 3, 7), (2, 3, 2, 4), None, None),
    "one-chunk": ((7, 5), (7, 5), None, None),
    "chunk-larger": ((3, 4), (8, 6), None, (None, None)),
    "sparse": ((100, 6), (10, 4), (slice(30, 52), slice(0, 3)), None),
    "nothing-written": ((20, 3), (8, 2), (slice(0, 0), slice(0, 0)), None),
    "unlimited": ((31, 2), (8, 2), None, (None, 2)),
    "single-element": ((1,), (1,), None, None),
}


def _values(shape: tuple[int, ...], dtype: np.dtype[Any], *, seed: int = 3) -> Any:
    """Return values that compress, and use every byte of the type."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.names is not None:
        rows = np.zeros(count, dtype)
        for name in dtype.names:
            rows[name] = _values(rows[name].shape, rows[name].dtype, seed=seed)
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


def _plan(dataset: Any) -> RawH5Source | None:
    return plan_raw(dataset, describe(dataset))


def _planned(dataset: Any) -> RawH5Source:
    plan = _plan(dataset)
    assert plan is not None
    return plan


def _node(plan: RawH5Source, **changes: Any) -> StoredArray:
    words = {
        "shape": plan.shape, "chunks": plan.chunks, "data_type": zarr_type(plan.dtype),
        "filters": plan.pipeline.filters, "compressor": plan.pipeline.compressor,
    } | changes  # fmt: skip
    return StoredArray(**words)


def _write(folder: Path, name: str, node: StoredArray, source: Any) -> dict[str, bytes]:
    """Write an array as the package does, and return its chunks by the last part of their keys."""
    keys = LocalStore(os.fspath(folder))
    for key, document in zarr2.documents(name, Dataset(node)):
        keys.set(key, dump(document))
    ChunkTask(keys, name, node, source, list(chunk_indices(node))).run()
    found = keys.get_many(f"{name}/{node.chunk_name(index)}" for index in chunk_indices(node))
    return {key.rpartition("/")[2]: data for key, data in found.items()}


def _assert_equal(one: Any, other: Any, what: object = "") -> None:
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape, what
    other = np.ascontiguousarray(other).astype(one.dtype)
    assert np.ascontiguousarray(one).tobytes() == other.tobytes(), what


def _assert_copied(folder: Path, dataset: Any, plan: RawH5Source, what: object = "") -> dict[str, bytes]:
    """Copy a dataset, and compare what plain zarr and h5py read."""
    expected = dataset[()]
    node = _node(plan)
    name = f"array{len(list(folder.glob('*')))}" if folder.exists() else "array"
    chunks = _write(folder, name, node, plan)
    assert len(chunks) == int(np.prod(node.grid)), what
    if node.size:
        whole = tuple(slice(0, n) for n in node.shape)
        _assert_equal(np.asarray(expected).astype(plan.dtype), plan.read(whole), what)
    array = zarr.open_array(folder / name, mode="r")
    _assert_equal(np.asarray(expected).astype(plan.dtype), array[...], what)
    return chunks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    forget_decoded()


# ---- the whole table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", COPIED)
def test_every_dtype_is_copied_through_every_pipeline(tmp_path: Path, path: Path, pipeline: str) -> None:
    with h5py.File(path, "w") as file:
        for name, dtype in DTYPES.items():
            values = _values((45, 7), dtype)
            file.create_dataset(name, data=values, chunks=(20, 4), **COPIED[pipeline])
    with h5py.File(path) as file:
        for name in DTYPES:
            plan = _planned(file[name])
            chunks = _assert_copied(tmp_path / "z", file[name], plan, name)
            _assert_bytes_unchanged(file[name], plan, chunks)


@pytest.mark.parametrize("pipeline", COPIED)
def test_every_shape_is_copied_through_every_pipeline(tmp_path: Path, path: Path, pipeline: str) -> None:
    with h5py.File(path, "w") as file:
        for name, (shape, chunks, written, maxshape) in SHAPES.items():
            dataset = file.create_dataset(
                name, shape, "<i4", chunks=chunks, maxshape=maxshape, fillvalue=-7, **COPIED[pipeline]
            )
            values = _values(shape, np.dtype("<i4"))
            dataset[written or ...] = values[written or ...]
    with h5py.File(path) as file:
        for name in SHAPES:
            plan = _planned(file[name])
            stored = _assert_copied(tmp_path / "z", file[name], plan, name)
            _assert_bytes_unchanged(file[name], plan, stored)


def _assert_bytes_unchanged(dataset: Any, plan: RawH5Source, chunks: dict[str, bytes]) -> None:
    """Compare the chunks that were written with the bytes in the HDF5 file."""
    if pipeline_in(dataset)[-1:] and pipeline_in(dataset)[-1][0] == 32004:
        return  # another frame
    node = _node(plan)
    for number in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(number)
        index = tuple(start // c for start, c in zip(info.chunk_offset, dataset.chunks, strict=True))
        if info.filter_mask == 0:
            assert chunks[node.chunk_name(index)] == dataset.id.read_direct_chunk(info.chunk_offset)[1]


@pytest.mark.parametrize("pipeline", DECODED)
def test_other_pipelines_are_left_to_hdf5(path: Path, pipeline: str) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=np.arange(100, dtype="<i4"), chunks=(30,), **DECODED[pipeline])
        assert _plan(dataset) is None


def test_enumerations_are_copied_as_their_integers(tmp_path: Path, path: Path) -> None:
    dtype = h5py.enum_dtype({"red": 1, "green": 2, "blue": -300}, basetype=">i2")
    with h5py.File(path, "w") as file:
        values = np.random.default_rng(0).choice([1, 2, -300], 50).astype(">i2")
        file.create_dataset("x", data=values, dtype=dtype, chunks=(8,), compression="gzip", shuffle=True)
    with h5py.File(path) as file:
        plan = _planned(file["x"])
        assert plan.dtype == np.dtype(">i2")
        _assert_copied(tmp_path / "z", file["x"], plan)


def test_elements_that_are_arrays_become_axes(tmp_path: Path, path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "x", (30,), np.dtype(("<i2", (3, 2))), chunks=(8,), compression="gzip", shuffle=True
        )
        dataset[:25] = np.arange(150, dtype="<i2").reshape(25, 3, 2)
    with h5py.File(path) as file:
        plan = _planned(file["x"])
        assert (plan.shape, plan.chunks) == ((30, 3, 2), (8, 3, 2))
        assert plan.pipeline.filters == [{"id": "shuffle", "elementsize": 12}]
        _assert_copied(tmp_path / "z", file["x"], plan)


def test_opaque_elements_are_copied(tmp_path: Path, path: Path) -> None:
    values = np.arange(40).astype("M8[s]").astype(h5py.opaque_dtype(np.dtype("M8[s]")))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(16,), compression="gzip")
    with h5py.File(path) as file:
        _assert_copied(tmp_path / "z", file["x"], _planned(file["x"]))


# ---- what is refused ------------------------------------------------------------------------------------------------


def _padded(file: Any) -> Any:
    dtype = np.dtype([("a", "i1"), ("b", "<f8")], align=True)
    return file.create_dataset("x", (50,), dtype, chunks=(8,), compression="gzip")


def _terminated(file: Any) -> Any:
    tid = h5py.h5t.C_S1.copy()
    tid.set_size(6)
    tid.set_strpad(h5py.h5t.STR_NULLTERM)
    return _low_level(file, tid)


def _twelve_bits_type() -> Any:
    tid = h5py.h5t.STD_U16LE.copy()
    tid.set_precision(12)
    tid.set_offset(2)
    return tid


def _twelve_bits(file: Any) -> Any:
    return _low_level(file, _twelve_bits_type())


def _low_level(file: Any, tid: Any, chunks: Any = (8,)) -> Any:
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunks is not None:
        created.set_chunk(chunks)
    return h5py.Dataset(h5py.h5d.create(file.id, b"x", tid, h5py.h5s.create_simple((50,)), created))


def _virtual(file: Any) -> Any:
    file.create_dataset("y", data=np.arange(10), chunks=(5,))
    layout = h5py.VirtualLayout((10,), "i8")
    layout[:] = h5py.VirtualSource(file["y"])
    return file.create_virtual_dataset("x", layout)


@pytest.mark.parametrize(
    "create",
    [
        _padded, _terminated, _twelve_bits, _virtual,
        lambda file: file.create_dataset("x", data=np.arange(10)),
        lambda file: file.create_dataset("x", data=5),
        lambda file: file.create_dataset("x", dtype="i4", shape=h5py.Empty("i4").shape),
        lambda file: file.create_dataset("x", data=["a", "b"] * 9, chunks=(5,)),
        lambda file: file.create_dataset("x", (20,), h5py.ref_dtype, chunks=(5,)),
        lambda file: file.create_dataset("x", (20,), np.dtype([("a", "i4"), ("b", h5py.ref_dtype)]), chunks=(5,)),
    ],
    ids=["padded", "terminated", "twelve-bits", "virtual", "contiguous", "scalar", "null", "text", "reference", "row"],
)  # fmt: skip
def test_what_has_other_bytes_in_zarr_is_left_to_hdf5(path: Path, create: Any) -> None:
    with h5py.File(path, "w") as file:
        assert _plan(create(file)) is None


# ---- chunks one by one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0, 1, 2, 3, 4, 5, 6, 7])
def test_chunks_with_a_filter_mask_are_decoded_by_it_and_encoded_again(tmp_path: Path, path: Path, mask: int) -> None:
    values = np.arange(2000, 2020, dtype="<i4")
    encoders = [numcodecs.Shuffle(4), numcodecs.Zlib(4), numcodecs.Fletcher32()]
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "x", data=np.arange(60, dtype="<i4"), chunks=(20,), compression="gzip", shuffle=True, fletcher32=True
        )
        data: Any = values
        for number, codec in enumerate(encoders):
            data = data if mask >> number & 1 else codec.encode(data)
        dataset.id.write_direct_chunk(
            (20,), np.ascontiguousarray(np.frombuffer(data, "u1")).tobytes(), filter_mask=mask
        )
    with h5py.File(path) as file:
        assert np.array_equal(file["x"][20:40], values)
        plan = _planned(file["x"])
        assert plan.raw.masks().tolist() == [0, mask, 0]
        _assert_copied(tmp_path / "z", file["x"], plan)
        found = plan.encoded((1,))
        assert (found == plan.raw.read((1,))) == (mask == 0)


def test_a_plain_blosc_file_has_chunks_that_hdf5_did_not_compress(tmp_path: Path, path: Path) -> None:
    with h5py.File(path, "w") as file:
        values = np.random.default_rng(0).integers(0, 2000, 4000).astype("<i4")
        values[:1000] = 5
        file.create_dataset("x", data=values, chunks=(500,), **COPIED["blosc-blosclz-0"])
    with h5py.File(path) as file:
        plan = _planned(file["x"])
        masks = plan.raw.masks()
        assert 0 < np.count_nonzero(masks) < len(masks)
        _assert_copied(tmp_path / "z", file["x"], plan)


def test_lz4_chunks_that_hold_several_blocks_or_did_not_shrink_are_encoded_again(tmp_path: Path, path: Path) -> None:
    values = np.zeros((3, 400), "<i4")
    values[1] = np.random.default_rng(0).integers(-(2**31), 2**31, 400)
    with h5py.File(path, "w") as file:
        file.create_dataset("one", data=values, chunks=(1, 400), **COPIED["lz4"])
        file.create_dataset("many", data=values, chunks=(1, 400), **COPIED["lz4-blocks"])
    with h5py.File(path) as file:
        for name, reframed in (("one", [True, False, True]), ("many", [False, False, False])):
            plan = _planned(file[name])
            _assert_copied(tmp_path / "z", file[name], plan)
            data = [plan.raw.read((row, 0)) for row in range(3)]
            assert [plan.pipeline.stored(d or b"") is not None for d in data] == reframed


@pytest.mark.parametrize("fill_time", [h5py.h5d.FILL_TIME_IFSET, h5py.h5d.FILL_TIME_ALLOC, h5py.h5d.FILL_TIME_NEVER])
@pytest.mark.parametrize("value", [None, 0, 9])
def test_chunks_that_are_not_stored_read_as_h5py_reads_them(
    tmp_path: Path, path: Path, fill_time: int, value: int | None
) -> None:
    with h5py.File(path, "w") as file:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((4, 4))
        created.set_deflate(3)
        created.set_fill_time(fill_time)
        if value is not None:
            created.set_fill_value(np.array(value, "<i2"))
        space = h5py.h5s.create_simple((10, 9))
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I16LE, space, created))
        if fill_time != h5py.h5d.FILL_TIME_NEVER:
            dataset[5, 5] = 3
        else:
            dataset[4:8, 4:8] = 3  # the rest of a chunk that is never filled is whatever was in memory
    with h5py.File(path) as file:
        plan = _planned(file["x"])
        assert len(plan.raw) == 1
        _assert_copied(tmp_path / "z", file["x"], plan)


def test_the_fill_value_of_rows_is_kept(tmp_path: Path, path: Path) -> None:
    fill = np.array((5, 2.5, True, b"xyz", 9), _COMPOUND)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (20,), _COMPOUND, chunks=(6,), fillvalue=fill, compression="gzip", shuffle=True)
    with h5py.File(path) as file:
        plan = _planned(file["x"])
        assert plan.fill_scalar() == fill
        _assert_copied(tmp_path / "z", file["x"], plan)


@settings(max_examples=25)
@given(
    steps=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=5),
    pipeline=st.sampled_from(_FILTERED),
)
def test_datasets_that_grew_and_shrank_are_copied(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], pipeline: str
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    with h5py.File(folder / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "x", (17, 9), "<f4", chunks=(5, 4), maxshape=(None, None), fillvalue=np.nan, **COPIED[pipeline]
        )
        dataset[...] = 1
        for number, shape in enumerate(steps, 2):
            dataset.resize(shape)
            dataset[::2] = number
    with h5py.File(folder / "a.h5") as file:
        _assert_copied(folder / "z", file["x"], _planned(file["x"]))


@pytest.mark.parametrize(
    "filters",
    [[(2, 0, ())], [(1, 0, (4,))], [(2, 0, ()), (1, 0, (4,))], [(3, 0, ())], [(2, 0, ()), (1, 0, (1,)), (3, 0, ())]],
    ids=["shuffle", "gzip", "shuffle-gzip", "fletcher32", "all"],
)
@pytest.mark.parametrize("skip_edges", [False, True], ids=["filtered", "unfiltered"])
def test_chunks_at_the_edge_may_be_unfiltered(tmp_path: Path, path: Path, filters: Any, skip_edges: bool) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        for name, values in {
            "random": np.random.default_rng(0).integers(0, 1000, (100, 20)),
            "constant": np.full((100, 20), 7),
            "late": np.where(np.arange(100)[:, None] < 98, 0, np.arange(20) * 70_001),
        }.items():
            dataset = create_with(file, name, (100, 20), "<i4", chunks=(30, 7), filters=filters, skip_edges=skip_edges)
            dataset[...] = values
    with h5py.File(path) as file:
        for name in file:
            plan = _planned(file[name])
            _assert_copied(tmp_path / "z", file[name], plan, name)
            if name == "random":
                unfiltered = plan.raw.masks() == UNFILTERED
                assert unfiltered.tolist() == (plan.raw.is_partial() & skip_edges).tolist()


def test_edges_that_cannot_be_told_are_left_to_hdf5(path: Path) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        dataset = create_with(file, "x", (1000, 3), "<i4", chunks=(10, 2), filters=[(2, 0, ())], skip_edges=True)
        dataset[:] = np.where(np.arange(1000)[:, None] < 900, 0, np.arange(3) * 70_001)
    with h5py.File(path) as file:
        assert _plan(file["x"]) is None  # the first edges read the same either way, the last do not


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(
    ("maxshape", "early"),
    [
        ((9, 30), False), ((9, 30), True), ((None, 30), False), ((None, 90), False), ((9, None), False),
        ((None, None), False), ((60, 90), False),
    ],
    ids=["fixed", "implicit", "rows-grow", "rows-grow-bounded", "columns-grow", "both-grow", "bounded"],
)  # fmt: skip
@pytest.mark.parametrize("pipeline", ["none", "shuffle-gzip"])
def test_every_index_of_chunks_is_listed(
    tmp_path: Path, path: Path, libver: Any, maxshape: Any, early: bool, pipeline: str
) -> None:
    values = np.arange(270, dtype="<i4").reshape(9, 30)
    with h5py.File(path, "w", libver=libver) as file:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY if early else h5py.h5d.ALLOC_TIME_INCR)
        dataset = file.create_dataset(
            "x", (9, 30), "<i4", chunks=(2, 7), maxshape=maxshape, dcpl=created, **COPIED[pipeline]
        )
        for column in range(29, -1, -1):  # from the end, so that the order in the file is another
            dataset[:, column] = values[:, column]
    with h5py.File(path) as file:
        if (maxshape, libver) == ((9, None), "latest"):
            assert _plan(file["x"]) is None  # the library counts along the wrong axes
            return
        plan = _planned(file["x"])
        assert list(plan.raw) == list(itertools.product(range(5), range(5)))
        _assert_copied(tmp_path / "z", file["x"], plan)


@settings(max_examples=100)
@given(data=st.data())
def test_no_chunk_is_ever_taken_for_another(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(1, 6)) for _ in range(rank))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    maxshape = tuple(data.draw(st.sampled_from([n, 2 * n + 1, None])) for n in shape)
    libver = data.draw(st.sampled_from(["earliest", "v110", "latest"]))
    grid = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    stored = data.draw(st.sets(st.tuples(*(st.integers(0, n - 1) for n in grid)), min_size=1))
    folder = tmp_path_factory.mktemp("index")
    with h5py.File(folder / "a.h5", "w", libver=libver) as file:
        dataset = file.create_dataset("x", shape, "<i4", chunks=chunks, maxshape=maxshape, compression="gzip")
        for number, index in enumerate(sorted(stored), 1):
            start = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, chunks, shape, strict=True))
            dataset[start] = number
    with h5py.File(folder / "a.h5") as file:
        plan = _plan(file["x"])
        if plan is None:
            first = maxshape.index(None)
            assert maxshape.count(None) == 1
            assert first > 0
            return
        _assert_copied(folder / "z", file["x"], plan)


@pytest.mark.parametrize("stored", [(0, 1), (1, 0), (4, 0)])
def test_chunks_that_may_have_been_counted_along_another_axis_are_left_to_hdf5(
    path: Path, stored: tuple[int, int]
) -> None:
    """The first chunk, which compresses best, is where the library says."""
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("x", (9, 60), "<i4", chunks=(2, 7), maxshape=(9, None), compression="gzip")
        dataset[:2, :7] = 5
        dataset[2 * stored[0] : 2 * stored[0] + 1, 7 * stored[1] : 7 * stored[1] + 7] = np.arange(7) * 1001
    with h5py.File(path) as file:
        assert _plan(file["x"]) is None


class _Overlaid:
    """Something of which some attributes are others."""

    def __init__(self, real: Any, **others: Any) -> None:
        self._real = real
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Indexed(_Overlaid):
    def __getitem__(self, key: Any) -> Any:
        return self._real._real[key]


def _listing(dataset: Any, chunk_iter: Any) -> Any:
    """Return an ``h5py.Dataset`` that lists other chunks."""
    return _Overlaid(dataset, id=_Overlaid(dataset.id, chunk_iter=chunk_iter))


@pytest.mark.parametrize("start", [(0, 6), (4, 0), (0, 3)], ids=["beside", "below", "twice"])
def test_an_impossible_list_of_chunks_is_refused(path: Path, start: tuple[int, int]) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(24).reshape(4, 6), chunks=(2, 3), compression="gzip")
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
            for index in true:
                offset, size, mask = true.find(index) or (0, 0, 0)
                callback(h5py.h5d.StoreInfo((3 * index[0],), mask, offset - shift, size))

        if shift in (0, userblock):
            raw = RawChunks(_listing(real, chunk_iter))
            assert [raw.read(index) for index in raw] == [true.read(index) for index in true]
            return
        with pytest.raises(UsageError, match="not certain"):
            RawChunks(_listing(real, chunk_iter))


def test_chunks_without_an_address_are_read_through_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(6), chunks=(3,), compression="gzip")
    with h5py.File(path) as file:
        real = file["x"]

        def chunk_iter(callback: Any) -> None:
            real.id.chunk_iter(lambda info: callback(info._replace(byte_offset=None)))

        raw = RawChunks(_listing(real, chunk_iter))
        assert not raw.is_plain_file
        assert raw.read((1,)) == RawChunks(real).read((1,))


def test_what_a_plugin_made_and_numcodecs_does_not_read_is_left_to_hdf5(path: Path) -> None:
    values = np.repeat(np.arange(50), 40).astype("<i4")
    with h5py.File(path, "w") as file:
        snappy = file.create_dataset("snappy", data=values, chunks=(1000,), **DECODED["blosc-snappy"])
        snappy.flush()
        mask, data = snappy.id.read_direct_chunk((1000,))
        assert mask == 0
        dataset = file.create_dataset("x", data=values, chunks=(1000,), **COPIED["blosc-lz4-1"])
        dataset.id.write_direct_chunk((0,), data)  # the filter reads what it is from the chunk
        dataset.id.write_direct_chunk((1000,), data)
    with h5py.File(path) as file:
        assert file["x"][1500] == values[1500]
        assert _plan(file["x"]) is None


def test_a_chunk_that_hdf5_does_not_find_is_an_error(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (40,), "<i4", chunks=(10,), compression="gzip")
        dataset[:10] = 1
        source = _planned(dataset)
        assert not source.raw.is_plain_file
        shown = _listing(dataset, lambda callback: callback(h5py.h5d.StoreInfo((20,), 0, 100, 20)))
        with pytest.raises(ChunkError, match=r"a\.h5.*chunk \(2,\).*\(/x\)"):
            RawChunks(shown).read((2,))


def test_elements_of_another_size_than_the_chunk_has_are_left_to_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (40,), "<i4", chunks=(10,), shuffle=True)
        description = describe(dataset)
        assert plan_raw(dataset, description) is not None
        description.note["filters"] = [[2, 1, [12]]]
        assert plan_raw(dataset, description) is None


def test_a_file_that_another_process_may_be_writing_is_left_to_hdf5(path: Path) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=np.arange(40), chunks=(10,))
        file.create_dataset("y", data=np.arange(40))
    with h5py.File(path, "r", libver="latest", swmr=True) as file:
        assert _plan(file["x"]) is None
        assert plan_contiguous(file["y"], describe(file["y"])) is None


# ---- regions, threads, other chunks ---------------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_any_region_is_what_h5py_reads(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    bounds = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    region = tuple(slice(a, b) for a, b in bounds)
    path = tmp_path_factory.mktemp("region") / "a.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", shape, "<i4", chunks=chunks, compression="gzip", shuffle=True, fillvalue=4)
        dataset[tuple(slice(0, (n + 1) // 2) for n in shape)] = 5
    with h5py.File(path) as file:
        source = _planned(file["x"])
        for _ in range(2):  # the second time from what was kept
            _assert_equal(file["x"][region], source.read(region))


@pytest.mark.parametrize("workers", [1, 4])
def test_other_chunks_and_codecs_are_written_from_decoded_ones(tmp_path: Path, path: Path, workers: int) -> None:
    values = _values((300, 70), np.dtype("<i2"))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(50, 16), compression="gzip", shuffle=True)
    with h5py.File(path) as file:
        plan = _planned(file["x"])
    source = plan.decoded()
    assert not hasattr(source, "encoded")
    node = _node(plan, chunks=(33, 40), filters=None, compressor={"id": "zstd", "level": 1})
    keys = LocalStore(os.fspath(tmp_path / "z"))
    keys.set("x/.zarray", dump(zarr2.encode_array(node)))
    tasks = [ChunkTask(keys, "x", node, source, [index]) for index in chunk_indices(node)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(ChunkTask.run, tasks))
    assert np.array_equal(zarr.open_array(tmp_path / "z" / "x", mode="r")[...], values)


def test_chunks_that_are_asked_for_in_part_are_decoded_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(1000), chunks=(100,), compression="gzip")
    with h5py.File(path) as file:
        source = _planned(file["x"])
    decoded: list[Any] = []
    decode = RawH5Source.decode
    monkeypatch.setattr(RawH5Source, "decode", lambda self, index: decoded.append(index) or decode(self, index))
    blocks = [source.read((slice(start, start + 30),)) for start in range(0, 990, 30)]
    assert np.array_equal(np.concatenate(blocks), np.arange(990))
    assert decoded == [(number,) for number in range(10)]
    decoded.clear()
    source.read((slice(0, 1000),))  # whole chunks: from what was kept, else decoded and not kept
    forget_decoded()
    source.read((slice(0, 1000),))
    source.read((slice(0, 1000),))
    assert len(decoded) == 20


def test_what_is_kept_of_decoded_chunks_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recent = rawcopy._Recent(5000)
    monkeypatch.setattr(rawcopy, "_recent", recent)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(10_000), chunks=(100,), compression="gzip")
        file.create_dataset("y", data=np.arange(10_000), chunks=(1000,), compression="gzip")
    with h5py.File(path) as file:
        for name in ("x", "y"):  # the chunks of the second are too large to be kept, and drive none out
            source = _planned(file[name])
            for start in range(0, 10_000, 50):
                assert source.read((slice(start, start + 50),))[0] == start
                assert sum(chunk.nbytes for chunk in recent._chunks.values()) == recent._bytes <= 5000
            assert recent._bytes == 4800


# ---- the file -------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(1000, dtype="<i4"), chunks=(100,), compression="gzip", shuffle=True)
    return path


@pytest.mark.parametrize("size", [0, 512, 4096])
def test_offsets_count_from_the_beginning_of_the_file(tmp_path: Path, path: Path, size: int) -> None:
    with h5py.File(path, "w", userblock_size=size) as file:
        file.create_dataset("x", data=np.arange(1000), chunks=(64,), compression="gzip")
    with h5py.File(path) as file:
        plan = _planned(file["x"])
        assert plan.raw.is_plain_file
        _assert_copied(tmp_path / "z", file["x"], plan)


def _descriptors(path: Path) -> int:
    """Return how many descriptors of this process are of that file."""
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        pytest.skip("this system does not show the descriptors of a process")
    places = [os.path.join(folder, name) for name in os.listdir(folder)]
    return sum(os.path.exists(place) and os.path.samefile(place, path) for place in places)


def test_all_datasets_of_a_file_share_one_descriptor(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for number in range(50):
            file.create_dataset(f"x{number}", data=np.arange(100), chunks=(10,))
    with h5py.File(path) as file:
        before = _descriptors(path)
        plans = [_planned(dataset) for dataset in file.values()]
        assert _descriptors(path) == before + 1
        del plans
        gc.collect()
        assert _descriptors(path) == before


def test_the_hdf5_file_may_be_closed_when_the_chunks_are_read(filled: Path) -> None:
    with h5py.File(filled) as file:
        source = _planned(file["x"])
    assert np.array_equal(source.read((slice(0, 1000),)), np.arange(1000))


def _in_memory(path: Path) -> Any:
    return h5py.File(path, driver="core", backing_store=False)


def _file_like(path: Path) -> Any:
    return h5py.File(io.BytesIO(path.read_bytes()), "r")


def _being_written(path: Path) -> Any:
    file = h5py.File(path, "r+")
    file["x"][150:250] = -1  # in the chunk cache, not yet in the file
    return file


def test_a_chunk_that_is_written_after_the_plan_is_an_error(filled: Path) -> None:
    with h5py.File(filled, "r+") as file:
        source = _planned(file["x"])
        assert source.encoded((2,)) is not None
        file["x"][200:300] = np.random.default_rng(0).integers(0, 2**31, 100)
        file.flush()
        with pytest.raises(StoreError, match=r"a\.h5.*changed since.*\(/x\)"):
            source.encoded((2,))


@pytest.mark.parametrize("opened", [_in_memory, _file_like, _being_written])
def test_files_that_are_not_plain_are_read_through_hdf5(tmp_path: Path, filled: Path, opened: Any) -> None:
    with opened(filled) as file:
        plan = _planned(file["x"])
        assert not plan.raw.is_plain_file
        _assert_copied(tmp_path / "z", file["x"], plan)
        with pytest.raises(UsageError, match="threads"):
            pickle.dumps(plan)


def test_a_file_that_was_replaced_under_its_name_is_read_through_hdf5(tmp_path: Path, filled: Path) -> None:
    with h5py.File(filled) as file:
        os.rename(filled, tmp_path / "b.h5")
        filled.write_bytes((tmp_path / "b.h5").read_bytes())
        plan = _planned(file["x"])
        assert not plan.raw.is_plain_file
        assert np.array_equal(plan.read((slice(0, 1000),)), np.arange(1000))


def test_a_relative_name_is_found_from_another_directory(
    tmp_path: Path, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5") as file:
        source = _planned(file["x"])
        assert source.raw.is_plain_file
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        assert not _planned(file["x"]).raw.is_plain_file
    assert np.array_equal(pickle.loads(pickle.dumps(source)).read((slice(5, 10),)), np.arange(5, 10))


def test_a_dataset_behind_an_external_link_is_read_from_its_own_file(tmp_path: Path, filled: Path) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["y"] = h5py.ExternalLink("a.h5", "/x")
    with h5py.File(tmp_path / "b.h5") as file:
        source = _planned(file["y"])
    assert source.raw.location == os.fspath(filled)
    assert np.array_equal(source.read((slice(0, 1000),)), np.arange(1000))


def test_a_file_that_changed_since_is_an_error(filled: Path) -> None:
    with h5py.File(filled) as file:
        source = _planned(file["x"])
    sent = pickle.dumps(source)
    later = time.time_ns() + 10**9
    os.utime(filled, ns=(later, later))
    with pytest.raises(StoreError, match=r"a\.h5.*changed since.*\(/x\)"):
        source.read((slice(0, 10),))
    del source
    gc.collect()
    with pytest.raises(StoreError, match="changed since"):
        pickle.loads(sent).encoded((0,))
    os.unlink(filled)
    with pytest.raises(StoreError, match="cannot be opened"):
        pickle.loads(sent).encoded((0,))


def test_a_file_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    found = file_bytes(os.fspath(tmp_path / "a"))
    assert found.read(2, 5) == b"23456"
    with pytest.raises(ChunkError, match="ends before byte 12"):
        found.read(8, 4)
    for offset in (-1, 2**64 - 1):
        with pytest.raises(StoreError, match=f"4 bytes from {offset} cannot be read"):
            found.read(offset, 4)
    with pytest.raises(StoreError, match="cannot be opened"):
        file_bytes(os.fspath(tmp_path / "b"))


def test_reads_that_come_in_pieces_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    found = file_bytes(os.fspath(tmp_path / "a"))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: pread(descriptor, min(size, 7), offset))
    assert found.read(10, 60) == bytes(range(10, 70))


def test_where_there_is_no_pread_threads_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(np.arange(20_000, dtype="<i4").tobytes())
    monkeypatch.delattr(os, "pread")
    seek = os.lseek

    def seek_slowly(descriptor: int, offset: int, how: int) -> int:
        place = seek(descriptor, offset, how)
        time.sleep(0.0002)  # another thread has time to move it
        return place

    monkeypatch.setattr(os, "lseek", seek_slowly)
    found = file_bytes(os.fspath(tmp_path / "a"))
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda start: found.read(4 * start, 400), range(0, 20_000, 100)))
    assert b"".join(blocks) == (tmp_path / "a").read_bytes()


@pytest.mark.parametrize("pipeline", ["gzip", "shuffle-gzip-fletcher32", "zstd", "bzip2", "lz4", "blosc-lz4-1"])
def test_damaged_chunks_are_errors_that_name_file_and_dataset(path: Path, pipeline: str) -> None:
    with h5py.File(path, "w") as file:
        group = file.create_group("g")
        dataset = group.create_dataset("x", data=np.arange(400, dtype="<i4"), chunks=(100,), **COPIED[pipeline])
        dataset.flush()
        data = bytes(dataset.id.read_direct_chunk((100,))[1])
        dataset.id.write_direct_chunk((100,), data[: len(data) // 2])
    with h5py.File(path) as file:
        plan = _plan(file["g/x"])
    if plan is None:
        return  # it was seen at once, and h5py will say so
    with pytest.raises(ChunkError) as caught:
        plan.read((slice(100, 200),))
    assert (caught.value.store, caught.value.path) == (os.fspath(path), "/g/x")
    assert np.array_equal(plan.read((slice(0, 100),)), np.arange(100))


# ---- to other processes ---------------------------------------------------------------------------------------------


def test_a_part_is_small_and_knows_its_chunks_only(tmp_path: Path, path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(20_000), chunks=(2,), compression="gzip", fillvalue=1)
        file.create_dataset("sparse", (20_000,), "<i8", chunks=(2,), compression="gzip", fillvalue=1)
        file["sparse"][6:8] = 9
    with h5py.File(path) as file:
        source, sparse = (_planned(file[name]) for name in ("x", "sparse"))
    part = source.part([(3,), (9_999,), (3,)])
    assert isinstance(part, RawH5Source)
    assert len(part.raw) == 2
    data = pickle.dumps(part)
    assert len(data) < 2000 < len(pickle.dumps(source))
    again = pickle.loads(data)
    assert again.encoded((3,)) == source.encoded((3,))
    assert again.read((slice(19_998, 20_000),)).tolist() == [19_998, 19_999]
    with pytest.raises(UsageError, match="not in this part"):
        again.encoded((4,))
    with pytest.raises(UsageError, match="not in this part"):
        again.read((slice(5, 8),))
    with pytest.raises(UsageError, match="not in this part"):
        again.part([(4,)]).read((slice(8, 10),))
    unwritten = sparse.part([(2,), (3,)])
    assert unwritten.read((slice(4, 8),)).tolist() == [1, 1, 9, 9]
    with pytest.raises(UsageError, match="not in this part"):
        unwritten.read((slice(8, 10),))
    assert sparse.covering([(slice(1, 5),), (slice(4, 8),)]) == {(0,), (1,), (2,), (3,)}


def test_a_process_without_h5py_copies_and_decodes(tmp_path: Path, path: Path) -> None:
    values = _values((90, 8), np.dtype(">i4"))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(20, 3), compression="gzip", shuffle=True)
    with h5py.File(path) as file:
        plan = _planned(file["x"])
    node = _node(plan)
    indices = list(chunk_indices(node))
    task = ChunkTask(LocalStore(os.fspath(tmp_path / "z")), "x", node, plan.part(indices), indices)
    region = region_of(node, (2, 1))
    (tmp_path / "task").write_bytes(pickle.dumps((task, region)))
    program = textwrap.dedent("""
        import pickle, sys
        sys.modules["h5py"] = None
        with open(sys.argv[1], "rb") as file:
            task, region = pickle.load(file)
        task.run()
        print(task.source.read(region).tolist())
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, os.fspath(tmp_path / "task")],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert done.stdout.strip() == str(values[region].tolist())
    (tmp_path / "z" / "x" / ".zarray").write_bytes(dump(zarr2.encode_array(node)))
    assert np.array_equal(zarr.open_array(tmp_path / "z" / "x", mode="r")[...], values)


def test_nothing_waits_for_ever_while_zarr_runs_in_other_threads(tmp_path: Path) -> None:
    """A deadlock would hang this process, so that another one is asked."""
    program = textwrap.dedent("""
        import gc, sys, threading, time
        import h5py, numpy as np, zarr
        from hdmf_zarr_backend.hdf5.datasets import describe
        from hdmf_zarr_backend.hdf5.rawcopy import plan_raw

        folder = sys.argv[1]
        gc.set_threshold(20)
        array = zarr.create_array(folder + "/z", shape=(1000,), chunks=(10,), dtype="i4")
        array[:] = 1
        with h5py.File(folder + "/a.h5", "w") as file:
            file.create_dataset("x", data=np.arange(3000), chunks=(3,), compression="gzip")
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                assert array[:].sum() == 1000
                cycle = [h5py.File(folder + "/a.h5")["x"]]
                cycle.append(cycle)  # freed by the collector, in whichever thread it runs

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        with h5py.File(folder + "/a.h5") as file:
            for _ in range(15):
                source = plan_raw(file["x"], describe(file["x"]))
                assert (source.read((slice(0, 3000),)) == np.arange(3000)).all()
        done.set()
        for thread in threads:
            thread.join()
        print("done")
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, os.fspath(tmp_path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout.strip() == "done", done.stderr


def test_threads_read_one_source_at_once(filled: Path) -> None:
    with h5py.File(filled) as file:
        source = _planned(file["x"])
    barrier = threading.Barrier(4)

    def read(_: int) -> bool:
        barrier.wait()
        starts = range(0, 960, 40)
        return all(np.array_equal(source.read((slice(s, s + 40),)), np.arange(s, s + 40)) for s in starts)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [True] * 4


@pytest.mark.parametrize("decoded", [False, True], ids=["raw", "decoded"])
def test_memory_does_not_grow_with_the_dataset(tmp_path: Path, path: Path, decoded: bool) -> None:
    with h5py.File(path, "w") as file:
        values = np.random.default_rng(0).integers(0, 50, 2**18).astype("<i4")
        dataset = file.create_dataset(
            "x", (32 * 2**18,), "<i4", chunks=(2**18,), compression="gzip", compression_opts=1
        )
        for start in range(0, len(dataset), 2**18):
            dataset[start : start + 2**18] = values
    with h5py.File(path) as file:
        plan = _planned(file["x"])
    node = _node(plan, compressor={"id": "zlib", "level": 1})
    keys = LocalStore(os.fspath(tmp_path / "z"))
    task = ChunkTask(keys, "x", node, plan.decoded() if decoded else plan, list(chunk_indices(node)))
    tracemalloc.start()
    try:
        assert task.run() == 32 * 2**20
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (5 if decoded else 1) * 2**20  # chunks of 1 MiB


def test_the_index_is_taken_in_one_pass(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20_000
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (count, 2), "i1", chunks=(1, 2))
        dataset[...] = 1
    calls: list[str] = []

    class Recorded(_Overlaid):
        def __getattr__(self, name: str) -> Any:
            if "chunk" in name:
                calls.append(name)
            return super().__getattr__(name)

    with h5py.File(path) as file:
        real = file["x"]
        raw = RawChunks(_Overlaid(real, id=Recorded(real.id)))
        assert len(raw) == count
        assert sorted(set(calls)) == ["chunk_iter", "read_direct_chunk"]
        assert calls.count("read_direct_chunk") == 1  # one chunk, to compare
        assert raw.find((count - 1, 0)) is not None
        assert list(itertools.islice(raw, 2)) == [(0, 0), (1, 0)]


def test_datasets_without_chunks_have_no_index(path: Path) -> None:
    with h5py.File(path, "w") as file, pytest.raises(UsageError, match="no chunks"):
        RawChunks(file.create_dataset("x", data=np.arange(10)))


# ---- in one piece ---------------------------------------------------------------------------------------------------


def _contiguous(dataset: Any) -> ContiguousH5Source:
    source = plan_contiguous(dataset, describe(dataset))
    assert source is not None
    return source


@settings(max_examples=60)
@given(data=st.data())
def test_any_region_of_a_dataset_in_one_piece_is_what_h5py_reads(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)))
    bounds = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    region = tuple(slice(a, b) for a, b in bounds)
    path = tmp_path_factory.mktemp("region") / "a.h5"
    with h5py.File(path, "w", userblock_size=data.draw(st.sampled_from([0, 512]))) as file:
        file["x"] = np.arange(np.prod(shape), dtype=">i4").reshape(shape)
    with h5py.File(path) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rawcopy, "_LEAST_RUN", data.draw(st.sampled_from([0, 2**16])))
        patch.setattr(rawcopy, "_SLAB", data.draw(st.sampled_from([1, 50, 2**20])))
        patch.setattr(rawcopy, "_MOST_WASTE", data.draw(st.sampled_from([1, 3, 100])))
        source = _contiguous(file["x"])
        _assert_equal(file["x"][region], source.read(region))
        _assert_equal(file["x"][region], pickle.loads(pickle.dumps(source.part([]))).read(region))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_every_dtype_is_read_in_one_piece(tmp_path: Path, path: Path, dtype: np.dtype[Any]) -> None:
    values = _values((45, 7), dtype)
    with h5py.File(path, "w") as file:
        file["x"] = values
    with h5py.File(path) as file:
        source = _contiguous(file["x"])
    node: StoredArray = StoredArray((45, 7), (20, 4), zarr_type(dtype))
    _write(tmp_path / "z", "x", node, source)
    _assert_equal(values, zarr.open_array(tmp_path / "z" / "x", mode="r")[...])


def test_elements_that_are_arrays_are_read_in_one_piece(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (30,), np.dtype(("<i2", (3, 2))))
        dataset[:] = np.arange(180, dtype="<i2").reshape(30, 3, 2)
    with h5py.File(path) as file:
        source = _contiguous(file["x"])
        assert source.shape == (30, 3, 2)
        _assert_equal(file["x"][4:9][:, :, 1:2], source.read((slice(4, 9), slice(0, 3), slice(1, 2))))


def _external(file: Any) -> Any:
    name = os.path.join(os.path.dirname(file.filename), "raw")
    return file.create_dataset("x", data=np.arange(10), external=[(name, 0, h5py.h5f.UNLIMITED)])


def _compact(file: Any) -> Any:
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    created.set_layout(h5py.h5d.COMPACT)
    return file.create_dataset("x", data=np.arange(10), dcpl=created)


@pytest.mark.parametrize(
    "create",
    [
        _external, _compact, _virtual,
        lambda file: file.create_dataset("x", data=np.arange(10), chunks=(5,)),
        lambda file: file.create_dataset("x", (10,), "i4"),
        lambda file: file.create_dataset("x", (0,), "i4"),
        lambda file: _low_level(file, _twelve_bits_type(), chunks=None).write_direct(np.zeros(50, "<u2")),
        lambda file: file.create_dataset("x", data=5),
        lambda file: file.create_dataset("x", data=["a", "b"]),
        lambda file: file.create_dataset("x", data=np.zeros(9, np.dtype([("a", "i1"), ("b", "<f8")], align=True))),
    ],
    ids=["external", "compact", "virtual", "chunked", "unallocated", "empty", "bits", "scalar", "text", "padded"],
)  # fmt: skip
def test_what_does_not_lie_in_one_piece_is_left_to_hdf5(path: Path, create: Any) -> None:
    with h5py.File(path, "w") as file:
        create(file)
    with h5py.File(path) as file:
        assert plan_contiguous(file["x"], describe(file["x"])) is None


def test_a_wrong_offset_is_left_to_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(100)
    with h5py.File(path) as file:
        real = file["x"]
        for shift, is_right in ((0, True), (8, False), (-512, False), (10**6, False)):
            shown = _Overlaid(real, id=_Overlaid(real.id, get_offset=lambda by=shift: real.id.get_offset() + by))
            assert (plan_contiguous(_Indexed(shown), describe(real)) is not None) == is_right


def test_errors_of_a_dataset_in_one_piece_name_file_and_dataset(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["g/x"] = np.arange(100)
    with h5py.File(path) as file:
        source = _contiguous(file["g/x"])
    os.utime(path, ns=(0, 0))
    with pytest.raises(StoreError, match=r"a\.h5.*changed since.*\(/g/x\)"):
        source.read((slice(0, 5),))


# ---- Zarr -> HDF5 ---------------------------------------------------------------------------------------------------


def _create_direct(file: Any, node: StoredArray, pipeline: Any, **more: Any) -> Any:
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    set_filters(created, pipeline)
    dtype = (
        np.dtype([tuple(f) for f in node.data_type]) if isinstance(node.data_type, list) else np.dtype(node.data_type)
    )
    return file.create_dataset("x", node.shape, dtype, chunks=node.chunks, dcpl=created, **more)


@pytest.mark.parametrize("pipeline", COPIED)
def test_chunks_go_to_zarr_and_back_as_they_are(tmp_path: Path, path: Path, pipeline: str) -> None:
    values = _values((45, 7), np.dtype("<i4"))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(20, 4), **COPIED[pipeline])
    with h5py.File(path) as file:
        plan = _planned(file["x"])
        noted = pipeline_in(file["x"])
    node = _node(plan)
    chosen = pipeline_of(node.filters, node.compressor, values.dtype, noted=noted)
    assert chosen == noted
    with h5py.File(tmp_path / "b.h5", "w") as file:
        dataset = _create_direct(file, node, chosen)
        written = write_direct(dataset, ((index, plan.encoded(index)) for index in chunk_indices(node)))
        assert written >= dataset.id.get_storage_size() > 0
    with h5py.File(tmp_path / "b.h5") as file, h5py.File(path) as before:
        assert np.array_equal(file["x"][()], values)
        assert pipeline_in(file["x"]) == noted
        if plan.raw.masks().any() or pipeline == "lz4-blocks":
            return
        for index in chunk_indices(node):
            start = tuple(i * c for i, c in zip(index, node.chunks, strict=True))
            assert file["x"].id.read_direct_chunk(start) == before["x"].id.read_direct_chunk(start)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize(
    "compressor",
    [None, {"id": "zlib", "level": 2}, {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 1, "blocksize": 0},
     {"id": "zstd", "level": 3}, {"id": "lz4", "acceleration": 1}],
    ids=lambda value: value["id"] if value else "none",
)  # fmt: skip
def test_what_plain_zarr_wrote_goes_into_hdf5_as_it_is(tmp_path: Path, dtype: np.dtype[Any], compressor: Any) -> None:
    values = _values((45, 7), dtype)
    node: StoredArray = StoredArray((45, 7), (20, 4), zarr_type(dtype), compressor=compressor)
    keys = LocalStore(os.fspath(tmp_path / "z"))
    keys.set(".zarray", dump(zarr2.encode_array(node)))
    array = zarr.open_array(tmp_path / "z", mode="r+")
    array[...] = values
    pipeline = pipeline_of(node.filters, node.compressor, dtype)
    assert pipeline is not None
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = _create_direct(file, node, pipeline)
        write_direct(dataset, ((index, keys.get(node.chunk_name(index))) for index in chunk_indices(node)))
    with h5py.File(tmp_path / "a.h5") as file:
        _assert_equal(values, file["x"][()])


def test_chunks_that_are_not_there_stay_unallocated(tmp_path: Path) -> None:
    node: StoredArray = StoredArray((30,), (10,), "<i2")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = _create_direct(file, node, [], fillvalue=3)
        data = np.arange(10, dtype="<i2").tobytes()
        assert write_direct(dataset, [((0,), None), ((1,), data), ((2,), None)]) == 20
        assert dataset[()].tolist() == [3] * 10 + list(range(10)) + [3] * 10
        assert dataset.id.get_num_chunks() == 1


def test_a_chunk_longer_than_the_array_needs_an_axis_that_may_grow(tmp_path: Path) -> None:
    node: StoredArray = StoredArray((3,), (8,), "<i2", compressor={"id": "zlib", "level": 1})
    pipeline = pipeline_of(node.filters, node.compressor, np.dtype("<i2"))
    assert pipeline is not None
    data = numcodecs.Zlib(1).encode(np.arange(8, dtype="<i2"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = _create_direct(file, node, pipeline, maxshape=(None,))
        write_direct(dataset, [((0,), data)])
        assert dataset[()].tolist() == [0, 1, 2]


@pytest.mark.parametrize("index", [(3,), (-1,), (0, 0), ()])
def test_chunks_outside_are_refused(tmp_path: Path, index: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", (30,), "i1", chunks=(10,))
        with pytest.raises(UsageError, match="outside"):
            write_direct(dataset, [(index, b"0123456789")])
        with pytest.raises(ChunkError, match="9 bytes instead of 10"):
            write_direct(dataset, [((0,), b"012345678")])


# ---- real files -----------------------------------------------------------------------------------------------------


@pytest.mark.corpus
def test_real_files_are_copied_chunk_by_chunk(tmp_path: Path, nwbfiles: list[Path]) -> None:
    copied = 0
    for found in nwbfiles:
        with h5py.File(found) as file:
            datasets: list[Any] = []
            file.visititems(
                lambda _, node, into=datasets: into.append(node) if isinstance(node, h5py.Dataset) else None
            )
            for number, dataset in enumerate(datasets):
                try:
                    plan = _plan(dataset)
                except ZarrBackendError:
                    continue  # a type that has no place in HDMF
                if plan is not None:
                    _assert_copied(tmp_path / found.name / str(number), dataset, plan, f"{found.name}{dataset.name}")
                    copied += 1
    assert copied
