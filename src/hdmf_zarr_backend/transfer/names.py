"""Checks of the names of groups, datasets and links: what a store cannot hold, and what is not portable."""

from __future__ import annotations

import os
import re
import unicodedata
import warnings
from collections.abc import Iterable

from hdmf_zarr_backend.changes.journal import JOURNAL
from hdmf_zarr_backend.errors import NameRefusedError, NestingError, PortableNameWarning
from hdmf_zarr_backend.model.nodes import absolute, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.files import partial_path

_STORE_NAMES = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"})
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\x01-\x1f]|[. ]$|^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)', re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN = 5
_LETTERS = 200
_LONGEST_KEY_NAME = 64
"""Bytes of the names of documents and most chunks, while they are written."""


def checked_name(name: str) -> str:
    """Return ``name``, which a group, a dataset or a link is to have.

    Raises
    ------
    NameRefusedError
        No store can hold it (issue "Nothing lost, nobody let in", part 6), or it is not text.
    """
    is_taken = name in _STORE_NAMES or name.startswith(JOURNAL)
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0") or is_taken:
        raise NameRefusedError(f"the name {name!r} cannot be stored", remedy="Rename it.")
    if not name.isprintable() and any("\ud800" <= mark <= "\udfff" for mark in name):
        raise NameRefusedError(f"the name {name!r} is not UTF-8", remedy="Rename it.")
    return name


def check_names(paths: Iterable[str], keys: Store) -> None:
    """Refuse names that the keys of a store cannot have.

    Parameters
    ----------
    paths : iterable of str
        Of nodes that are to be written.
    keys : Store
        The store of the file.

    Raises
    ------
    NameRefusedError
        A name has a control character, and the store takes none.
    NestingError
        A path is longer than the file system takes.
    """
    if keys.folder is not None:
        paths = list(paths)
        _check_lengths(paths, keys.folder)
    if keys.abilities.control_characters:
        return
    for path in paths:
        if _CONTROL.search(path):
            raise NameRefusedError(
                "the name has a control character, which no key of this store may have",
                store=keys.location,
                path=absolute(path),
                remedy="Rename it, or write to a local place.",
            )


def warn_of_names(paths: Iterable[str], location: str) -> None:
    """Tell of names that Windows cannot hold, and of those that it or macOS takes for one: case, accents.

    Parameters
    ----------
    paths : iterable of str
        Of nodes that are written.
    location : str
        The file.

    Warns
    -----
    PortableNameWarning
        There are some; one warning for all of them.
    """
    first: dict[tuple[str, str], str] = {}
    found = []
    for path in paths:
        parent, name = split(path)
        plain = name if name.isascii() else unicodedata.normalize("NFC", name)
        if _NOT_ON_WINDOWS.search(name) or first.setdefault((parent, plain.casefold()), name) != name:
            found.append(absolute(path))
    if found:
        shown = ", ".join(map(repr, found[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
        warnings.warn(
            f"names that Windows cannot hold, or takes for one with another: {shown} in {location}. They are stored; "
            "a copy of the file on such a system would lack them.",
            PortableNameWarning,
            stacklevel=2,
        )


def _check_lengths(paths: list[str], root: str) -> None:
    """Refuse paths for which a file system has no place."""
    longest = max(paths, key=len, default="")
    folder = os.path.dirname(root)
    try:
        most = os.pathconf(folder if os.path.isdir(folder) else "/", "PC_PATH_MAX")
    except (AttributeError, OSError, ValueError):
        return  # the system does not say
    size = len(os.fsencode(longest)) + len(os.fsencode(partial_path(root))) + _LONGEST_KEY_NAME
    if most > 0 and size >= most:
        depth = longest.count("/") + 1
        raise NestingError(
            f"a path of {len(longest):,} letters, {depth:,} groups deep, is longer than this file system takes "
            f"({most:,} bytes with the folder)",
            store=root,
            path=f"{absolute(longest)[:_LETTERS]}...",
            remedy="Write to a zip file or an object store, or nest less deeply.",
        )
