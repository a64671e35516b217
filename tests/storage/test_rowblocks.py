"""One row of a large chunk of packed records: a block of it is decoded, and not the chunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.codecs import ChunkCodec
from hdmf_zarr_backend.errors import ChunkError

COUNT = 4000
ROWS = [(number, f"text {number % 7}") for number in range(COUNT)]
FIELDS = [{"name": "number", "dtype": "int"}, {"name": "text", "dtype": "text"}, {"name": "to", "dtype": "object"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    targets = [DatasetBuilder(f"target{number}", [number]) for number in range(5)]
    rows: Any = [(*row, ReferenceBuilder(targets[row[0] % 5])) for row in ROWS]
    table = DatasetBuilder("rows", ZarrDataIO(rows, chunks=(2000,)), dtype=FIELDS)
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=3) as io:
        io.write_builder(GroupBuilder("root", datasets=[*targets, table]))
    return tmp_path / "a.zarr"


def decoded_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which the bytes of each decoded block, and of each chunk as a whole, are added."""
    seen: list[int] = []
    blocks, split = ChunkCodec.decode_blocks, ChunkCodec.split

    def decode_blocks(self: Any, frame: Any, out: Any, **options: Any) -> Any:
        found = blocks(self, frame, out, **options)
        seen.append(found.nbytes)
        return found

    def whole(self: Any, data: Any, **options: Any) -> Any:
        found = split(self, data, **options)
        seen.append(0 if found is None else found.nbytes)
        return found

    monkeypatch.setattr(ChunkCodec, "decode_blocks", decode_blocks)
    monkeypatch.setattr(ChunkCodec, "split", whole)
    return seen


def test_a_row_costs_its_block(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ZarrIO(path, "r") as io:
        data = io.read_builder().datasets["rows"].data
        seen = decoded_bytes(monkeypatch)
        for number in (0, 1, 1999, 2000, 3123, 3999, -1):
            row = data[number]
            assert row[0] == number % COUNT
            assert row[1] == f"text {number % COUNT % 7}"
            assert row[2].name == f"target{number % COUNT % 5}"
        assert 0 < len(seen) <= 4 * 2  # a row may lie in two of them
        assert max(seen) < 2000 * (4 + 512 * 4) // 4
        del seen[:]
        assert data[1][0] == 1
        assert seen == []  # its block is kept


def test_a_chunk_of_one_block_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = DatasetBuilder("rows", [(1, "a"), (2, "b")], dtype=FIELDS[:2])
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=3) as io:
        io.write_builder(GroupBuilder("root", datasets=[table]))
    fetched: list[Any] = []
    plain = ChunkReader._stored

    def noting(self: ChunkReader, index: tuple[int, ...]) -> bytes | None:
        fetched.append(index)
        return plain(self, index)

    monkeypatch.setattr(ChunkReader, "_stored", noting)
    with ZarrIO(tmp_path / "a.zarr", "r") as io:
        data = io.read_builder().datasets["rows"].data
        assert ChunkReader.element(data.dataset._reader, 1) == [2, "b"]
        assert len(fetched) == 1


def test_a_block_that_does_not_decode_is_told_with_its_node(path: Path) -> None:
    chunk = path / "rows" / "c" / "0"
    data = bytearray(chunk.read_bytes())
    data[16 + 4 * 64 :] = bytes(len(data) - 16 - 4 * 64)
    chunk.write_bytes(bytes(data))
    with ZarrIO(path, "r") as io, pytest.raises(ChunkError) as caught:
        rows = io.read_builder().datasets["rows"].data
        for number in range(0, 2000, 100):
            rows[number]
    assert caught.value.path == "/rows"
