"""Sharded arrays are written from arrays, iterators, HDF5 and Zarr, and others read them as they read plain ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.common import get_manager
from hdmf.data_utils import DataChunk
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend import WriteOptions, ZarrDataIO, ZarrIO, verify
from hdmf_zarr_backend.array.chunks import ChunkCache
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.array.shards import chunks_in_shard, shard_grid, shard_named
from hdmf_zarr_backend.encoding.layout import SHARD_BYTES, Sharding, shards_by_bytes
from hdmf_zarr_backend.encoding.zarr3 import NEW_KEYS
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.model.nodes import Dataset, Shards, StoredArray
from hdmf_zarr_backend.store.transaction import DirectChange
from hdmf_zarr_backend.write.iterators import GrowingArray
from hdmf_zarr_backend.write.plan import PlannedArray, give_shards
from hdmf_zarr_backend.write.sources import ZarrSource
from tests.blocks import Blocks
from tests.keystores import DictStore
from tests.options import arguments
from tests.places import stored_files
from tests.trees import write_builder

NUMBERS = np.arange(101 * 7, dtype="<f4").reshape(101, 7)
TEXT = [f"text {'é' * (n % 3)}{n}" for n in range(100)]
ROWS = np.array([(n, n / 2) for n in range(50)], dtype=[("a", "<i4"), ("b", "<f8")])
DATASETS: dict[str, tuple[Any, dict[str, Any]]] = {
    "numbers": (NUMBERS, {"chunks": (10, 3), "shards": (40, 6)}),
    "big_endian": (NUMBERS.astype(">i2"), {"chunks": (10, 7), "shards": (60, 7)}),
    "larger_than_the_array": (NUMBERS, {"chunks": (10, 3), "shards": (1000, 30)}),
    "one_chunk_each": (NUMBERS, {"chunks": (10, 3), "shards": (10, 3)}),
    "plain_codec": (NUMBERS, {"chunks": (10, 3), "shards": (50, 3), "compressor": False}),
    "zstd": (NUMBERS, {"chunks": (10, 3), "shards": (50, 3), "compressor": {"id": "zstd", "level": 3}}),
    "fill": (np.full((40,), 9, "<i8"), {"chunks": (4,), "shards": (16,), "fillvalue": 9}),
    "bools": (NUMBERS > 50, {"chunks": (7, 7), "shards": (21, 7)}),
    "text": (TEXT, {"chunks": (8,), "shards": (32,)}),
    "rows": (ROWS, {"chunks": (6,), "shards": (24,)}),
    "chosen_chunks": (NUMBERS, {"shards": (40, 7)}),
}

_UNKNOWN_TO_ZARR = {"rows"} if zarr.__version__.startswith("3.1.") else set()
"""The data type ``struct`` came with 3.2."""


def written(path: Any, datasets: dict[str, Any], *, zarr_format: int = 3, **options: Any) -> Any:
    builders = {name: DatasetBuilder(name, data) for name, data in datasets.items()}
    with ZarrIO(path, "w", manager=get_manager(), zarr_format=zarr_format, **arguments(**options)) as io:
        io.write_builder(GroupBuilder("root", datasets=builders))
    return path


def sharded(path: Any, **options: Any) -> Any:
    return written(path, {name: ZarrDataIO(data, **how) for name, (data, how) in DATASETS.items()}, **options)


def exported(source: Path, target: Path, **options: Any) -> Path:
    options = {"zarr_format": 3, **options}
    with ZarrIO(source, "r", manager=get_manager()) as io, ZarrIO(target, "w", **options) as out:
        out.export(io, write_args={"link_data": False})
    return target


def values_of(path: Any) -> dict[str, Any]:
    with ZarrIO(path, "r", manager=get_manager()) as io:
        return {name: np.asarray(found.data[()]) for name, found in io.read_builder().datasets.items()}


def assert_whole(values: dict[str, Any]) -> None:
    for name, (data, _) in DATASETS.items():
        assert np.array_equal(values[name], np.asarray(data)), name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(sharded(tmp_path_factory.mktemp("shards") / "a.zarr"))


# ---- readers -------------------------------------------------------------------------------------------------------
def test_we_read_it_wherever_it_is_and_verify_finds_nothing(made):
    assert_whole(values_of(made))
    assert [str(problem) for problem in verify(made, level="chunks").problems] == []
    location = "memory://shards-tests/a.zarr"
    sharded(location)
    assert_whole(values_of(location))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(DATASETS) - _UNKNOWN_TO_ZARR))
def test_zarr_python_reads_it(made, name):
    data, how = DATASETS[name]
    array = zarr.open_array(made / name, mode="r")
    assert array.shards == how["shards"]
    assert array.chunks == how.get("chunks", (40, 7))
    assert np.array_equal(np.asarray(array[...], np.asarray(data).dtype), np.asarray(data))


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"text", "rows"}))
def test_tensorstore_reads_it(made, name):
    ts = pytest.importorskip("tensorstore")
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(made / name)}}
    found = ts.open(spec, read=True, open=True).result()
    assert found.chunk_layout.write_chunk.shape == DATASETS[name][1]["shards"]
    assert np.array_equal(found.read().result(), np.asarray(DATASETS[name][0]))


def test_references_lie_in_shards(tmp_path):
    target = GroupBuilder("target")
    data = ZarrDataIO([ReferenceBuilder(target)] * 20, chunks=(4,), shards=(12,))
    root = GroupBuilder("root", groups=[target], datasets=[DatasetBuilder("r", data, dtype="object")])
    write_builder(tmp_path / "a.zarr", root, manager=get_manager(), zarr_format=3)
    assert sorted(file.name for file in (tmp_path / "a.zarr/r/c").iterdir()) == ["0", "1"]
    with ZarrIO(tmp_path / "a.zarr", "r", manager=get_manager()) as io:
        assert [found.name for found in io.read_builder()["r"].data[:]] == ["target"] * 20


# ---- stored shards ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("executor", ["threads", 2, "processes"])
def test_parallel_writes_the_same_bytes(tmp_path, executor):
    data = np.random.default_rng(1).normal(size=(6000, 40)).astype("<f8")
    how = {"chunks": (250, 20), "shards": (1000, 40)}
    serial = written(tmp_path / "a.zarr", {"d": ZarrDataIO(data, **how)})
    parallel = written(tmp_path / "b.zarr", {"d": ZarrDataIO(data, **how)}, executor=executor)
    assert stored_files(serial / "d") == stored_files(parallel / "d")
    assert len(stored_files(serial / "d")) == 7
    again = exported(serial, tmp_path / "c.zarr", write_options=WriteOptions(executor=executor))  # sent to processes
    assert stored_files(serial / "d") == stored_files(again / "d")


# ---- iterators -----------------------------------------------------------------------------------------------------
def blocks(data: Any, size: tuple[int, int], *, order: int = 0) -> Blocks:
    rows, columns = (range(0, n, step) for n, step in zip(data.shape, size, strict=True))
    places = [(slice(r, min(r + size[0], data.shape[0])), slice(c, min(c + size[1], data.shape[1])))
              for r in rows for c in columns]  # fmt: skip
    if order:
        np.random.default_rng(order).shuffle(places)
        places = [tuple(place) for place in places]
    return Blocks([DataChunk(data[place], place) for place in places], (None, data.shape[1]), data.dtype)


@pytest.mark.parametrize("executor", [None, "threads"])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("size", [(10, 3), (20, 7), (7, 7), (13, 2)])
def test_an_iterator_writes_what_an_array_writes(tmp_path, size, order, executor):
    how = {"chunks": (10, 3), "shards": (40, 6)}
    expected = written(tmp_path / "a.zarr", {"d": ZarrDataIO(NUMBERS, **how)})
    data = ZarrDataIO(blocks(NUMBERS, size, order=order), **how)
    found = written(tmp_path / "b.zarr", {"d": data}, executor=executor)
    del (kept := stored_files(expected / "d"))["zarr.json"]
    del (new := stored_files(found / "d"))["zarr.json"]  # states that the length is not bounded
    assert kept == new


def test_a_full_shard_is_written_at_once(tmp_path):
    node: StoredArray = StoredArray((0, 6), (10, 3), "<f4", shards=Shards((20, 6)))
    keys = DictStore()
    array = GrowingArray(DirectChange(keys), "a", node)
    for number in range(5):
        rows = slice(10 * number, 10 * number + 10)
        array.put(DataChunk(NUMBERS[rows, :6], (rows, slice(0, 6))))
        assert sorted(keys.values) == [f"a/{shard}.0" for shard in range((number + 1) // 2)]
    array.put(DataChunk(np.full((1, 1), -1, "<f4"), (slice(3, 4), slice(3, 4))))  # in a shard that is written
    array.finish()
    changed = NUMBERS[:50, :6].copy()
    changed[3, 3] = -1
    assert np.array_equal(LazyArray(keys, "a", Dataset(node), ChunkCache())[...], changed)


@st.composite
def scattered(draw: st.DrawFn) -> tuple[tuple[int, int], tuple[int, int], list[tuple[slice, slice]]]:
    chunks = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    inner = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    span = st.tuples(st.integers(0, 8), st.integers(1, 9)).map(lambda pair: slice(pair[0], pair[0] + pair[1]))
    selections = draw(st.lists(st.tuples(span, span), max_size=6))
    return chunks, tuple(c * n for c, n in zip(chunks, inner, strict=True)), selections


@settings(max_examples=150)
@given(scattered(), st.sampled_from([8, 100, 2**26]))
def test_blocks_that_overlap_in_any_order(case, waiting):
    chunks, shards, selections = case
    full, shape = np.zeros((20, 20), "<i4"), (0, 0)
    node: StoredArray = StoredArray((0, 0), chunks, "<i4", shards=Shards(shards))
    keys = DictStore()
    array = GrowingArray(DirectChange(keys), "a", node, waiting_bytes=waiting)
    for number, selection in enumerate(selections, start=1):
        data = np.arange(full[selection].size, dtype="<i4").reshape(full[selection].shape) + 1000 * number
        full[selection] = data
        shape = tuple(max(n, part.stop) for n, part in zip(shape, selection, strict=True))
        array.put(DataChunk(data, selection))
    array.finish()
    assert node.shape == shape
    assert np.array_equal(LazyArray(keys, "a", Dataset(node), ChunkCache())[...], full[: shape[0], : shape[1]])
    indices = [index for name in keys.values for index in chunks_in_shard(node, shard_named(node, name[2:]))]
    assert len(indices) == int(np.prod(node.grid))


# ---- options -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("options", "message"), [
    ({"chunks": (10, 3), "shards": (45, 6)}, r"shards \(45, 6\) are not a whole number of chunks \(10, 3\)"),
    ({"chunks": (10, 3), "shards": (40,)}, r"shards \(40,\) are for 1 axis, and chunks \(10, 3\) for 2 axes"),
    ({"shards": "all"}, "shards 'all' are not lengths"),
    ({"shards": (0, 3)}, "shards .* below 1"),
    ({"data": None, "shape": (10,), "dtype": "i4", "shards": "auto"}, "cannot be filled later"),
])  # fmt: skip
def test_invalid_shards_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        ZarrDataIO(**{"data": NUMBERS, **options})


@pytest.mark.parametrize(
    ("data", "shards", "message"), [(NUMBERS, (40,), "do not fit the shape"), (np.array(3), (1,), "scalar")]
)
def test_shards_that_do_not_fit(tmp_path, data, shards, message):
    with pytest.raises(UsageError, match=message) as caught:
        written(tmp_path / "a.zarr", {"d": ZarrDataIO(data, shards=shards)})
    assert caught.value.path == "/d"


def test_small_arrays_stay_plain_and_large_ones_get_shards(tmp_path):
    large = np.broadcast_to(np.float32(1), (220_000, 96))
    written(tmp_path / "a.zarr", {"s": ZarrDataIO(NUMBERS, shards="auto"), "l": ZarrDataIO(large, shards="auto")})
    documents = {name: json.loads((tmp_path / "a.zarr" / name / "zarr.json").read_text()) for name in "sl"}
    assert [codec["name"] for codec in documents["s"]["codecs"]] == ["bytes", "blosc"]
    assert [codec["name"] for codec in documents["l"]["codecs"]] == ["sharding_indexed"]
    assert [str(file) for file in stored_files(tmp_path / "a.zarr/l")] == ["c/0/0", "zarr.json"]
    assert values_of(tmp_path / "a.zarr")["l"][::1000].min() == 1


@pytest.mark.parametrize("are_chunks_given", [False, True])
def test_a_terabyte_in_thousands_of_objects(are_chunks_given):
    shape = (1_300_000_000, 384)
    node: StoredArray = StoredArray(shape, (30_000, 64), "<i2", zarr_format=3, chunk_keys=NEW_KEYS)
    planned = PlannedArray(Dataset(node), sharding=Sharding("auto", are_chunks_given=are_chunks_given))
    give_shards(planned)
    assert node.shards is not None
    assert np.prod(node.shards.shape) * 2 <= SHARD_BYTES
    assert 1800 < np.prod(shard_grid(node)) < 2100
    assert (node.chunks == (30_000, 64)) is are_chunks_given
    if not are_chunks_given:
        assert 15 * 2**20 < np.prod(node.chunks) * 2 <= 16 * 2**20


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 10**6)), st.integers(1, 1000)), min_size=1, max_size=4),
    st.integers(1, 10**9),
)
def test_chosen_shards_are_multiples_and_bounded(axes, target):
    shape, chunks = zip(*axes, strict=True)
    shards = shards_by_bytes(shape, chunks, 2, target=target)
    assert all(shard % chunk == 0 for shard, chunk in zip(shards, chunks, strict=True))
    assert shards == chunks or np.prod(shards, dtype=object) * 2 <= target
    assert all(n is None or s - c < max(n, 1) for n, s, c in zip(shape, shards, chunks, strict=True))


# ---- from other files ----------------------------------------------------------------------------------------------
def test_export_keeps_shards_and_copies_chunks_as_they_are(tmp_path, made, monkeypatch):
    monkeypatch.setattr(ZarrSource, "read", lambda *args: pytest.fail("a chunk was decoded"))
    copy = exported(made, tmp_path / "b.zarr")
    for name in ("numbers", "zstd", "fill", "one_chunk_each", "larger_than_the_array"):
        assert stored_files(copy / name) == stored_files(made / name), name


@pytest.mark.filterwarnings("ignore")
def test_export_of_what_zarr_python_sharded_stores_all_chunks(tmp_path, made):
    root = zarr.open_group(made.parent / "z.zarr", mode="w", zarr_format=3)
    root.create_array("d", shape=(64,), chunks=(4,), shards=(16,), dtype="<i4")[:20] = np.arange(20)
    copy = exported(made.parent / "z.zarr", tmp_path / "b.zarr")
    assert sorted(stored_files(copy / "d")) == ["c/0", "c/1", "c/2", "c/3", "zarr.json"]
    assert values_of(copy)["d"].tolist() == [*range(20), *[0] * 44]


def test_export_to_format_2_has_plain_chunks(tmp_path, made):
    copy = exported(made, tmp_path / "b.zarr", zarr_format=2)
    assert_whole(values_of(copy))
    assert len(stored_files(copy / "numbers")) == 33 + 2
