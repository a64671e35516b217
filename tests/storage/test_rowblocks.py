"""One row of a large chunk of packed records: a block of it is decoded, and not the chunk."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.encoding.chunk_codec import ChunkCodec
from hdmf_zarr_backend.errors import ChunkError
from tests import trees

COUNT = 4000
ROWS = [(number, f"text {number % 7}") for number in range(COUNT)]
FIELDS = [{"name": "number", "dtype": "int"}, {"name": "text", "dtype": "text"}, {"name": "to", "dtype": "object"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    targets = [DatasetBuilder(f"target{number}", [number]) for number in range(5)]
    rows: Any = [(*row, ReferenceBuilder(targets[row[0] % 5])) for row in ROWS]
    table = DatasetBuilder("rows", ZarrDataIO(rows, chunks=(2000,)), dtype=FIELDS)
    return trees.write_builder(tmp_path / "a.zarr", trees.root(*targets, table), zarr_format=3)


def test_a_row_costs_its_block(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def noting(plain: Any) -> Any:
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            found = plain(self, *arguments, **options)
            seen.append(0 if found is None else found.nbytes)
            return found

        return call

    for name in ("decode_blocks", "split"):  # of blocks, and of whole chunks
        monkeypatch.setattr(ChunkCodec, name, noting(getattr(ChunkCodec, name)))
    with ZarrIO(path, "r") as io:
        data = io.read_builder().datasets["rows"].data
        seen.clear()
        for number in (0, 1, 1999, 2000, 3123, 3999, -1):
            row = data[number]
            assert (row[0], row[1]) == ROWS[number]
            assert row[2].name == f"target{number % COUNT % 5}"
        assert 0 < len(seen) <= 4 * 2  # a row may lie in two of them
        assert max(seen) < 2000 * (4 + 512 * 4) // 4
        seen.clear()
        assert data[3998][0] == 3998
        assert seen == []  # its block is kept


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


def test_the_elements_of_a_chunk_are_freed_when_nobody_has_them() -> None:
    codec = ChunkCodec("|O", [{"id": "json2"}], None, "C")
    references = np.array([{"source": ".", "path": f"/{number}"} for number in range(3)], dtype=object)
    elements = codec.split(codec.encode(references))
    assert elements is not None
    assert elements[1] == references[1]
    known = weakref.ref(elements)
    gc.disable()
    try:
        del elements
        assert known() is None
    finally:
        gc.enable()
