"""The names that a Zarr store can hold."""

from __future__ import annotations

from hdmf_zarr_backend.errors import NameRefusedError

_STORE_NAMES = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"})


def checked_name(name: str) -> str:
    """Return ``name``, which a group, a dataset or a link is to have.

    Raises
    ------
    NameRefusedError
        No store can hold it (issue "Nothing lost, nobody let in", part 6), or it is no text.
    """
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0") or name in _STORE_NAMES:
        raise NameRefusedError(f"the name {name!r} cannot be stored", remedy="Rename it.")
    if not name.isprintable() and any("\ud800" <= mark <= "\udfff" for mark in name):
        raise NameRefusedError(f"the name {name!r} is no UTF-8", remedy="Rename it.")
    return name
