"""A plan reads, chunk by chunk, like the file that is written from it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend.conversion.from_hdf5 import Hdf5Planner
from hdmf_zarr_backend.errors import ModeError
from hdmf_zarr_backend.hdf5.reader import Hdf5Tree
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.transfer.writer import PlannedKeys, Writer


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_each_chunk_is_the_one_that_is_written(tmp_path: Path, zarr_format: int) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/text"] = "a word"
        file["numbers"] = np.arange(12).reshape(3, 4)
        file["texts"] = ["one", "two"]
        values = np.arange(600_000).reshape(300_000, 2)
        file.create_dataset("large", data=values, chunks=(50_000, 1), compression="gzip")
        file.create_dataset("empty", shape=(0, 3), dtype="f4")
    with closing(Hdf5Tree(str(tmp_path / "a.h5"), str(tmp_path / "a.zarr"))) as tree:
        plan = Hdf5Planner(tree).plan_file()
        plan.hierarchy.zarr_format = zarr_format
        planned, written = PlannedKeys(plan, "planned"), LocalStore(str(tmp_path / "a.zarr"))
        Writer(written, plan).write()
        documents = {".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"}
        chunks = [key for key in written.list_prefix("") if key.rpartition("/")[2] not in documents]
        assert len(chunks) == 3 + 12
        for key in chunks:
            assert planned.get(key) == written.get(key)
        assert planned.get_many([chunks[0], "numbers/7.7", "nothing/0"]) == {chunks[0]: written.get(chunks[0])}
        assert planned.get_range(chunks[0], 1, 3) == written.get_range(chunks[0], 1, 3)
        parts = [(0, 2), (-2, None)]
        assert planned.get_ranges(chunks[0], parts) == written.get_ranges(chunks[0], parts)
        for key in ("numbers", "numbers/.zarray", "numbers/x", "empty/0.0", "", "group/0"):
            assert planned.get(key) is None
            assert planned.get_range(key, 0) is None
            assert planned.get_ranges(key, [(0, 1)]) is None


def test_a_plan_is_only_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w"):
        pass
    with closing(Hdf5Tree(str(tmp_path / "a.h5"), str(tmp_path / "a.zarr"))) as tree:
        planned = PlannedKeys(Hdf5Planner(tree).plan_file(), "planned")
    with pytest.raises(ModeError, match="only read"):
        planned.set("a", b"")
    with pytest.raises(ModeError, match="only read"):
        planned.set_many({"a": b""})
    with pytest.raises(ModeError, match="only read"):
        planned.delete(["a"])
    assert (list(planned.list_documents()), list(planned.list_prefix("")), planned.sizes("")) == ([], [], {})
    assert planned.exists()
