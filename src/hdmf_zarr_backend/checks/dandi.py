"""`check_dandi`: whether the DANDI archive accepts a file, and the Zarr checksum that it will have there.

Source: dandi-cli, which refuses a file before it is uploaded; zarr_checksum, "The checksum"; Amazon S3, "Object key
names" and "Uploading objects", since the archive keeps each value as an object, and sets it in one request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from hdmf_zarr_backend.checks.findings import DandiAsset, Report
from hdmf_zarr_backend.errors import DamagedFileError, UsageError
from hdmf_zarr_backend.stores.base import Store, node_of
from hdmf_zarr_backend.stores.remote import at_once

DEEPEST = 7
"""Maximum number of names in a key, including the name of the object itself."""

LEFT_OUT = frozenset({".dandi", ".datalad", ".git", ".gitattributes", ".gitmodules"})
"""Names of files and folders that are not uploaded and not part of the checksum."""

LARGEST_VALUE = 5 * 2**30
"""Maximum bytes of an object that is uploaded in one request."""

MANY_VALUES = 1_000_000
"""Number of objects above which an upload may not finish."""

_SUFFIXES = (".zarr", ".ngff")
_LONGEST_KEY = 1024 - len("zarr/00000000-0000-0000-0000-000000000000/")
_PIECE = 2**22
_SHOWN = 3


def check_dandi(store: Store, report: Report) -> DandiAsset:
    """Check the requirements of the archive for a file, and return its checksum."""
    if not store.abilities.listing:
        raise UsageError(
            "this store cannot list its keys, so its checksum cannot be computed",
            store=store.location,
            remedy="Check a copy on a disk.",
        )
    sizes = {key: size for key, size in store.sizes("").items() if not LEFT_OUT & set(key.split("/"))}
    _add_refused(store, sizes, report)
    digests = dict(zip(sizes, at_once(lambda key: _md5(store, key, sizes[key]), sizes), strict=True))
    depth = max((key.count("/") + 1 for key in sizes), default=0)
    return DandiAsset(checksum(digests, sizes), len(sizes), sum(sizes.values()), depth)


def checksum(digests: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """Return the checksum of a tree of values."""
    files: dict[str, list[Any]] = {"": []}
    folders: dict[str, list[Any]] = {}
    for key, digest in digests.items():
        folder, _, name = key.rpartition("/")
        files.setdefault(folder, []).append(_entry(digest, name, sizes[key]))
        while folder and folder not in folders:
            folders[folder] = []
            folder = folder.rpartition("/")[0]
    folders.setdefault("", [])
    found = ""
    for folder in sorted(folders, key=lambda path: -path.count("/") - bool(path)):  # innermost folders first
        found, size = _digest(folders[folder], files.get(folder, []))
        if folder:
            parent, _, name = folder.rpartition("/")
            folders[parent].append(_entry(found, name, size))
    return found


def _entry(digest: str, name: str, size: int) -> dict[str, Any]:
    return {"digest": digest, "name": name, "size": size}


def _digest(folders: list[Any], files: list[Any]) -> tuple[str, int]:
    """Return the checksum of a folder, and the size of its content in bytes."""
    count = len(files) + sum(int(folder["digest"].split("-")[1]) for folder in folders)
    size = sum(entry["size"] for entry in (*folders, *files))
    listed = {
        name: sorted(entries, key=itemgetter("name")) for name, entries in (("directories", folders), ("files", files))
    }
    text = json.dumps(listed, separators=(",", ":"))
    return f"{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()}-{count}--{size}", size


def _md5(store: Store, key: str, size: int) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for start in range(0, size, _PIECE):
        piece = store.get_range(key, start, min(start + _PIECE, size))
        if piece is None:
            raise DamagedFileError(f"the value {key!r} was deleted", store=store.location, remedy="Check it again.")
        digest.update(piece)
    return digest.hexdigest()


def _add_refused(store: Store, sizes: Mapping[str, int], report: Report) -> None:
    """Report what the archive does not accept: one finding for each node and kind."""
    if not store.location.endswith(_SUFFIXES):
        report.add("/", "dandi-name", f"the name of the file does not end in {' or '.join(_SUFFIXES)}")
    if len(sizes) > MANY_VALUES:
        report.add("/", "dandi-count", f"it has {len(sizes):,} objects, more than {MANY_VALUES:,}")
    refused: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
        ("dandi-depth", f"keys of more than {DEEPEST} names", lambda key: key.count("/") >= DEEPEST),
        ("dandi-name", f"keys of over {_LONGEST_KEY} bytes", lambda key: len(key.encode()) > _LONGEST_KEY),
        ("dandi-name", "keys with control characters", lambda key: not key.isprintable()),
        ("dandi-name", "keys with a backslash", lambda key: "\\" in key),
        ("dandi-size", f"values of over {LARGEST_VALUE:,} bytes", lambda key: sizes[key] > LARGEST_VALUE),
    )
    for kind, what, is_refused in refused:
        by_node: dict[str, list[str]] = {}
        for key in filter(is_refused, sizes):
            by_node.setdefault(node_of(key), []).append(key)
        for node, several in sorted(by_node.items()):
            shown = ", ".join(sorted(several)[:_SHOWN])
            more = f" and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
            report.add(node, kind, f"{what}: {shown}{more}")
