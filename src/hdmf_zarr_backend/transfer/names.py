"""Checks of the names of groups, datasets and links: names that a store cannot hold, or that are not portable."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable

from hdmf_zarr_backend.errors import NameRefusedError, NestingError, PortableNameWarning, at, warn
from hdmf_zarr_backend.model.nodes import absolute, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.files import partial_path
from hdmf_zarr_backend.stores.journal import JOURNAL

_STORE_NAMES = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"})
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\x01-\x1f]|[. ]$|^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)', re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN = 5
_LETTERS = 200
_LONGEST_KEY_NAME = 64
"""Bytes of the names of documents and most chunks, while they are written."""


def checked_name(name: str) -> str:
    """Return ``name`` if it is valid for a group, a dataset or a link."""
    is_taken = name in _STORE_NAMES or name.startswith(JOURNAL)
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0") or is_taken:
        raise NameRefusedError(f"the name {name!r} cannot be stored", remedy="Rename it.")
    if not name.isprintable() and any("\ud800" <= mark <= "\udfff" for mark in name):
        raise NameRefusedError(f"the name {name!r} is not UTF-8", remedy="Rename it.")
    return name


def check_names(paths: Iterable[str], store: Store) -> None:
    """Refuse names in ``paths``, those of the nodes to be written, that are not valid in the keys of a store."""
    if store.folder is not None:
        paths = list(paths)
        _check_lengths(paths, store.folder)
    if store.abilities.control_characters:
        return
    for path in paths:
        if _CONTROL.search(path):
            problem = "the name has a control character, which this store does not allow in keys"
            with at(store, path):
                raise NameRefusedError(problem, remedy="Rename it, or write to a local place.")


def warn_of_names(paths: Iterable[str], location: str) -> None:
    """Warn of names that are not valid on Windows, or equal to another one there or on macOS (case, accents)."""
    first: dict[tuple[str, str], str] = {}
    found = []
    for path in paths:
        parent, name = split(path)
        plain = name if name.isascii() else unicodedata.normalize("NFC", name)
        if _NOT_ON_WINDOWS.search(name) or first.setdefault((parent, plain.casefold()), name) != name:
            found.append(absolute(path))
    if found:
        shown = ", ".join(map(repr, found[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
        warn(
            f"names that are not valid on Windows, or equal to another one there: {shown} in {location}. They are "
            "stored; a copy of the file on such a system would lack them.",
            PortableNameWarning,
            stacklevel=2,
        )


def _check_lengths(paths: list[str], root: str) -> None:
    """Refuse paths that are too long for the file system."""
    longest = max(paths, key=len, default="")
    folder = os.path.dirname(root)
    try:
        most = os.pathconf(folder if os.path.isdir(folder) else "/", "PC_PATH_MAX")
    except (AttributeError, OSError, ValueError):
        return  # the limit of the system is unknown
    size = len(os.fsencode(longest)) + len(os.fsencode(partial_path(root))) + _LONGEST_KEY_NAME
    if most > 0 and size >= most:
        depth = longest.count("/") + 1
        what = f"a path of {len(longest):,} letters, {depth:,} groups deep,"
        with at(root, f"{absolute(longest)[:_LETTERS]}..."):
            raise NestingError(
                f"{what} is too long for this file system ({most:,} bytes with the folder)",
                remedy="Write to a zip file or an object store, or nest less deeply.",
            )
