"""Stores of zarr-python as stores of this package, and the reverse, for the release of zarr-python that is installed.

`stores.zarr_3` and `stores.zarr_2` provide the same functions.
"""

from __future__ import annotations

import zarr

_IS_ZARR_2 = zarr.__version__.startswith("2.")

if _IS_ZARR_2:
    from hdmf_zarr_backend.stores.zarr_2 import open_zarr_array, open_zarr_group, store_of_zarr
else:
    from hdmf_zarr_backend.stores.zarr_3 import open_zarr_array, open_zarr_group, store_of_zarr

__all__ = ["open_zarr_array", "open_zarr_group", "opens", "store_of_zarr"]


def opens(zarr_format: int | None) -> bool:
    """Return whether the zarr-python that is installed opens files of a format; None: of an unknown one."""
    return zarr_format != 3 or not _IS_ZARR_2
