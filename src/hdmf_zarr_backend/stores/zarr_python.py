"""Stores of zarr-python as stores of this package, and the reverse, for the release of zarr-python that is installed.

`stores.zarr_3` and `stores.zarr_2` provide the same functions; each can only be imported with its own release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zarr

from hdmf_zarr_backend.errors import NotZarrError
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import Store

_IS_ZARR_2 = zarr.__version__.startswith("2.")

if _IS_ZARR_2:
    from hdmf_zarr_backend.stores.zarr_2 import store_of_zarr, zarr_location
else:
    from hdmf_zarr_backend.stores.zarr_3 import store_of_zarr, zarr_location

__all__ = ["open_zarr_array", "open_zarr_group", "opens", "store_of_zarr"]


def opens(zarr_format: int | None) -> bool:
    """Return whether the zarr-python that is installed opens files of a format; None: of an unknown one."""
    return zarr_format != 3 or not _IS_ZARR_2


def open_zarr_group(store: Store, zarr_format: int | None = None) -> Any:
    """Return the file as a ``zarr.Group``, without using a consolidated document, which may be stale."""
    options = {} if _IS_ZARR_2 else {"use_consolidated": False}
    remedy = "Check the path; a file of HDMF or NWB has a group at its root."
    return _opened(zarr.open_group, store, "", zarr_format, remedy, **options)


def open_zarr_array(store: Store, path: str, zarr_format: int) -> Any:
    """Return the array at ``path``, of that format, as a ``zarr.Array``."""
    remedy = "Index the dataset itself, or install zarr 3.3 or newer."
    return _opened(zarr.open_array, store, path, zarr_format, remedy)


def _opened(
    function: Callable[..., Any], store: Store, path: str, zarr_format: int | None, remedy: str, **options: Any
) -> Any:
    try:
        if not opens(zarr_format):
            raise ValueError("it opens Zarr format 2 only")
        if not _IS_ZARR_2:
            options["zarr_format"] = zarr_format
        return function(zarr_location(store.unwrapped), mode="r", path=path, **options)
    except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
        raise NotZarrError(
            f"zarr-python {zarr.__version__} cannot open this ({error})",
            store=store.location,
            path=absolute(path),
            remedy=remedy,
        ) from error
