"""Whether a file is there and whole, so that it need not be made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.errors import DamagedFileError, StoreError, StoreRefusedError, StoreUnreachableError
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.read.parser import is_hdmf_zarr, parse
from hdmf_zarr_backend.stores.opening import open_keys


def is_whole(place: str, zarr_format: int, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Tell whether an HDMF Zarr file of a format is at a path or URL, written to its end; its chunks are not looked at.

    Parameters
    ----------
    place : str
        Path or URL.
    zarr_format : {2, 3}
        The format.
    storage_options : mapping, optional
        For a URL.

    Raises
    ------
    StoreRefusedError, StoreUnreachableError
        It cannot be told.
    """
    keys = open_keys(place, storage_options if is_url(place) else None)
    try:
        if not is_hdmf_zarr(keys):
            return False
        parsed = parse(keys, use_inlined=False)
    except (StoreRefusedError, StoreUnreachableError):
        raise
    except (StoreError, DamagedFileError):
        return False
    return parsed.consolidated and parsed.zarr_format == zarr_format
