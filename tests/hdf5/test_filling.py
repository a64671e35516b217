"""Values on their way from Zarr to HDF5: chunks kept where they can be, and nothing decoded or encoded twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

from hdmf_zarr_backend import convert
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.codecs import ChunkCodec
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.hdf5 import filling
from hdmf_zarr_backend.hdf5.filling import BlockTask
from hdmf_zarr_backend.options import ReadOptions
from tests.hdf5.pipelines import COPIED, DECODED

VALUES = np.cumsum(np.random.default_rng(0).integers(-3, 4, (21_000, 30), dtype="<i4"), axis=0, dtype="<i4")
CHUNKS = (4000, 16)  # over the edge on both axes


def chunks_of(path: Path, name: str = "x") -> dict[tuple[int, ...], tuple[int, bytes]]:
    with h5py.File(path) as file:
        data = file[name]
        found: list[Any] = []
        data.id.chunk_iter(found.append)
        return {info.chunk_offset: data.id.read_direct_chunk(info.chunk_offset) for info in found}


class Watched:
    """Counts what is decoded and encoded, and which way datasets are filled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self.encoded = 0
        self.tasks: Counter[bool] = Counter()
        decode, encode, run = ChunkReader.decode, ChunkCodec.encode, BlockTask.run

        def counting_decode(reader: ChunkReader, index: tuple[int, ...], data: bytes | None, **options: Any) -> Any:
            self.decoded[reader.path, index] += 1
            return decode(reader, index, data, **options)

        def counting_encode(codec: ChunkCodec, chunk: Any) -> bytes:
            self.encoded += 1
            return encode(codec, chunk)

        def counting_run(task: BlockTask) -> Any:
            self.tasks[task.pipeline is not None] += 1
            return run(task)

        monkeypatch.setattr(ChunkReader, "decode", counting_decode)
        monkeypatch.setattr(ChunkCodec, "encode", counting_encode)
        monkeypatch.setattr(BlockTask, "run", counting_run)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.mark.parametrize("pipeline", COPIED)
def test_chunks_come_back_as_they_were(tmp_path: Path, pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=CHUNKS, **COPIED[pipeline])
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    watched = Watched(monkeypatch)
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert (watched.decoded.total(), watched.encoded, watched.tasks.total()) == (0, 0, 0)
    assert list(compare(tmp_path / "a.h5", tmp_path / "b.h5")) == []
    before, after = chunks_of(tmp_path / "a.h5"), chunks_of(tmp_path / "b.h5")
    if pipeline != "lz4-blocks" and not any(mask for mask, _ in before.values()):
        assert after == before


@pytest.mark.parametrize("pipeline", [*COPIED, *(name for name in DECODED if name != "zfp")])  # zfp may lose precision
def test_chunks_are_encoded_as_the_filters_of_the_dataset_want_it(tmp_path: Path, pipeline: str) -> None:
    options = {**COPIED, **DECODED}[pipeline]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=CHUNKS, **options)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", codec=True)
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert list(compare(tmp_path / "a.h5", tmp_path / "b.h5")) == []


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"order": "F"},
        {"chunks": [40, 4]},
        {"compressor": {"id": "lzma"}},
        {"filters": [{"id": "delta", "dtype": "<i2"}]},
    ],
    ids=["same", "fortran", "longer", "lzma", "delta"],
)
def test_only_chunks_that_hdf5_reads_alike_are_kept(
    tmp_path: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(120, dtype="<i2").reshape(30, 4)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(10, 4), maxshape=(None, 4), compression="gzip")
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    document = json.loads((tmp_path / "a.zarr/x/.zarray").read_text())
    document |= {"chunks": [10, 4], "compressor": {"id": "zlib", "level": 1}, "filters": None, **change}
    (tmp_path / "a.zarr/x/.zarray").write_text(json.dumps(document))
    (tmp_path / "a.zarr/.zmetadata").unlink()
    codecs = [numcodecs.get_codec(step) for step in [*(document["filters"] or []), document["compressor"]]]
    rows = document["chunks"][0]
    for number in range(-(-30 // rows)):
        chunk = np.zeros((rows, 4), "<i2")
        part = values[number * rows : (number + 1) * rows]
        chunk[: len(part)] = part
        data: Any = np.frombuffer(chunk.tobytes(document["order"]), "<i2")
        for codec in codecs:
            data = codec.encode(data)
        (tmp_path / f"a.zarr/x/{number}.0").write_bytes(data)
    watched = Watched(monkeypatch)
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert (watched.decoded.total() == 0) == (change == {})
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"].chunks == (10, 4)
        assert np.array_equal(file["x"][()], values)


@pytest.mark.parametrize(
    "dtype", ["<i2", ">f4", "?", "<c8", "S5", "<f2", [("a", "<i2"), ("b", ">f8")], "enum", "array"]
)
@pytest.mark.parametrize("codec", ["keep", True], ids=["kept", "recoded"])
def test_every_type_comes_back(tmp_path: Path, dtype: Any, codec: Any) -> None:
    count = 2_000_000 // (4 if dtype == "array" else 1)
    kinds: dict[str, Any] = {"enum": h5py.enum_dtype({"a": 0, "b": 1}, "i2"), "array": np.dtype(("<i2", (2, 3)))}
    found = kinds.get(str(dtype), dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (count,), found, chunks=(90_000,), compression="gzip", shuffle=True)
        raw = np.random.default_rng(0).integers(0, 2, count)
        if dtype == "array":
            data[...] = np.arange(count * 6, dtype="<i2").reshape(count, 2, 3)
        else:
            data[...] = raw.astype("i2") if dtype == "enum" else raw.astype(np.dtype(dtype))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", codec=codec)
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert list(compare(tmp_path / "a.h5", tmp_path / "b.h5")) == []


@pytest.mark.parametrize("chunks", [(4000, 16), (1000, 30), (700, 7), (21_000, 1)])
@pytest.mark.parametrize("executor", [None, 2])
def test_no_chunk_is_decoded_or_encoded_twice(
    tmp_path: Path, watched: Watched, chunks: tuple[int, int], executor: Any
) -> None:
    """The Zarr array has other chunks than the dataset gets."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=CHUNKS, compression="gzip")
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", codec=True)
    array = zarr.open_group(tmp_path / "a.zarr", mode="r+", use_consolidated=False)
    attributes = dict(array["x"].attrs)
    array.create_array("x", data=VALUES, chunks=chunks, overwrite=True, attributes=attributes)
    (tmp_path / "a.zarr/.zmetadata").unlink()
    before = watched.encoded
    watched.decoded.clear()
    convert(tmp_path / "a.zarr", tmp_path / "b.h5", executor=executor)
    assert watched.encoded - before == 12
    assert len(watched.decoded) == -(-21_000 // chunks[0]) * -(-30 // chunks[1])
    assert set(watched.decoded.values()) == {1}
    assert watched.tasks[True] >= 1
    assert list(compare(tmp_path / "a.h5", tmp_path / "b.h5")) == []


def plain_zarr(path: Path, values: Any, chunks: tuple[int, ...], **options: Any) -> Any:
    root = zarr.open_group(path, mode="w", zarr_format=2)
    array = root.create_array("x", shape=values.shape, dtype=values.dtype, chunks=chunks, **options)
    array[...] = values
    return array


@pytest.mark.parametrize("shuffled", [False, True])
def test_zlib_of_plain_zarr_is_kept(tmp_path: Path, watched: Watched, shuffled: bool) -> None:
    from numcodecs import Shuffle, Zlib

    filters = [Shuffle(4)] if shuffled else None
    plain_zarr(tmp_path / "a.zarr", VALUES, CHUNKS, filters=filters, compressors=Zlib(2))
    (tmp_path / "a.zarr/x/1.1").unlink()
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert (watched.decoded.total(), watched.encoded, watched.tasks.total()) == (0, 0, 0)
    with h5py.File(tmp_path / "b.h5") as file:
        data = file["x"]
        assert (data.compression, data.compression_opts, data.shuffle, data.chunks) == ("gzip", 2, shuffled, CHUNKS)
        expected = VALUES.copy()
        expected[4000:8000, 16:] = 0
        assert np.array_equal(data[...], expected)
        assert data.id.get_num_chunks() == 11  # what is not there is not there


@pytest.mark.parametrize(("dtype", "fill"), [("<i4", -7), ("<f8", float("nan")), ("S3", b"abc"), ("?", True)])
def test_a_chunk_that_is_missing_is_the_fill_value(tmp_path: Path, dtype: str, fill: Any) -> None:
    from numcodecs import Zlib

    values = np.zeros(1_500_000, dtype)
    plain_zarr(tmp_path / "a.zarr", values, (100_000,), compressors=Zlib(1), fill_value=fill, config={
        "write_empty_chunks": True})  # fmt: skip
    (tmp_path / "a.zarr/x/3").unlink()
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        values[300_000:400_000] = fill
        assert file["x"].compression == "gzip"
        assert file["x"][...].tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("dtype", "fill", "value", "filled"),
    [
        (np.dtype([("a", "<i4"), ("b", "<f4")]), (7, 1.5), (1, 2), (7, 1.5)),
        (h5py.string_dtype(), b"\xff", b"a", b""),  # not UTF-8, which text in Zarr has to be
    ],
    ids=["rows", "text"],
)
def test_a_missing_chunk_is_the_fill_value_that_zarr_knows(
    tmp_path: Path, dtype: np.dtype[Any], fill: Any, value: Any, filled: Any
) -> None:
    """Where only the note says a fill value, for HDF5, a missing chunk is empty all the same."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        fill = np.array(fill, dtype)[()]
        data = file.create_dataset("x", (400_000,), dtype, chunks=(50_000,), compression="gzip", fillvalue=fill)
        data[...] = np.array(value, dtype)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    length = json.loads((tmp_path / "a.zarr/x/.zarray").read_text())["chunks"][0]
    (tmp_path / "a.zarr/x/2").unlink()
    convert(tmp_path / "a.zarr", tmp_path / "b.h5", read_options=ReadOptions(missing_chunks="fill"))
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"].fillvalue == fill
        assert file["x"][2 * length - 1 : 2 * length + 1].tolist() == [value, filled]


def test_a_level_that_was_changed_makes_no_difference(tmp_path: Path, watched: Watched) -> None:
    """Chunks of another level of gzip are chunks of the same filter."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=CHUNKS, compression="gzip", compression_opts=9)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", codec={"id": "zlib", "level": 1})
    watched.encoded = 0
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert (watched.decoded.total(), watched.encoded) == (0, 0)
    assert list(compare(tmp_path / "a.h5", tmp_path / "b.h5")) == []


def test_the_file_does_not_depend_on_the_budget_for_kept_chunks(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=CHUNKS, compression="gzip")
        file.create_dataset("y", data=VALUES, chunks=CHUNKS, compression="lzf")
        file["z"] = VALUES
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    convert(tmp_path / "a.zarr", tmp_path / "b.h5", executor=None)
    convert(tmp_path / "a.zarr", tmp_path / "c.h5", memory_budget=1, executor=4)
    assert list(compare(tmp_path / "b.h5", tmp_path / "c.h5")) == []
    assert chunks_of(tmp_path / "b.h5") == chunks_of(tmp_path / "c.h5")


def test_large_is_a_megabyte() -> None:
    """What the tests above rely on: their arrays go to the workers."""
    assert VALUES.nbytes > filling._LARGE_BYTES
