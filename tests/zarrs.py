"""zarr-python as an independent reader and writer in tests, version 2 and version 3 alike.

Tests that call what only version 3 has are skipped where version 2 is installed: single ones by `needs_zarr_3`, and
the modules of `NEED_ZARR_3`, which may not even be imported there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

IS_ZARR_2 = zarr.__version__.startswith("2.")

REASON = "zarr-python 2 is installed, and this calls what only version 3 has"

needs_zarr_3 = pytest.mark.skipif(IS_ZARR_2, reason=REASON)

NEED_ZARR_3 = frozenset(
    {
        "tests/storage/test_changed_shards.py",
        "tests/storage/test_shards.py",
        "tests/storage/test_zarr_plugin.py",
        "tests/stores/test_icechunk.py",
    }
)
"""Modules of tests of what zarr-python 3 brings: shards that it wrote, its registry of data types, Icechunk."""


class _Skipped(pytest.Module):
    """A module that is not imported."""

    def collect(self) -> Iterable[Any]:
        pytest.skip(REASON, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Any:
    """Skip the modules of `NEED_ZARR_3` under version 2."""
    name = module_path.relative_to(parent.config.rootpath).as_posix()
    return _Skipped.from_parent(parent, path=module_path) if IS_ZARR_2 and name in NEED_ZARR_3 else None


def memory_store(values: Mapping[str, bytes] | None = None) -> Any:
    """Return a store of zarr-python in memory that holds ``values``."""
    if IS_ZARR_2:
        return zarr.storage.KVStore(dict(values or {}))
    from zarr.core.buffer import cpu

    return zarr.storage.MemoryStore({key: cpu.Buffer.from_bytes(value) for key, value in (values or {}).items()})


def value_of(store: Any, key: str) -> bytes:
    """Return what a store of `memory_store` holds at ``key``."""
    return bytes(store[key]) if IS_ZARR_2 else bytes(store._store_dict[key].to_bytes())


def open_array(store: Any, mode: Any = "r", **options: Any) -> Any:
    """Return an array of format 2."""
    return zarr.open_array(store, mode=mode, **options, **({} if IS_ZARR_2 else {"zarr_format": 2}))


def open_group(store: Any, mode: Any = "r", zarr_format: int | None = None) -> Any:
    """Return a group without the consolidated document; one of format 3 skips the test under version 2."""
    if not IS_ZARR_2:
        return zarr.open_group(store, mode=mode, zarr_format=zarr_format, use_consolidated=False)
    if zarr_format == 3:
        pytest.skip(REASON)
    return zarr.open_group(store, mode=mode)


def array_in_memory(data: Any) -> Any:
    """Return an array of zarr-python in memory."""
    return zarr.array(np.asarray(data)) if IS_ZARR_2 else zarr.create_array(memory_store(), data=np.asarray(data))
