"""`OpenGroups`: keeps the groups above an HDF5 object open; and the check of nesting depth. Does not import HDMF."""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.errors import LimitError
from hdmf_zarr_backend.stores.limits import Limits

_LETTERS = 200
"""Characters of a too deep path that a message shows."""


class OpenGroups:
    """The groups above the object that was opened last, kept open.

    HDF5 resolves each path from its start, so opening nested groups by path takes quadratic time.

    Parameters
    ----------
    file : h5py.h5f.FileID
        The file.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._way: list[tuple[bytes, Any]] = []

    def within(self, raw: bytes) -> tuple[Any, bytes]:
        """Return the open parent group of the object at an absolute path, and its name in that group."""
        from h5py import h5g

        parent, _, name = raw.rpartition(b"/")
        if not parent:
            return self._file, raw
        while self._way and not parent.startswith(self._way[-1][0] + b"/") and parent != self._way[-1][0]:
            self._way.pop()
        known, group = self._way[-1] if self._way else (b"", self._file)
        for step in parent[len(known) + 1 :].split(b"/") if known != parent else ():
            known += b"/" + step
            group = h5g.open(group, step)
            self._way.append((known, group))
        return group, name

    def close(self) -> None:
        """Close the groups."""
        self._way.clear()


def check_depth(limits: Limits, location: str, path: str) -> None:
    """Check that a group is not nested too deep.

    Parameters
    ----------
    limits : Limits
        The limits.
    location, path : str
        The file, and the absolute path of the group in it.

    Raises
    ------
    LimitError
        The group is deeper than ``max_depth``; the file and the beginning of the path are named.
    """
    depth = 0 if path == "/" else path.count("/")
    try:
        limits.check("max_depth", depth, f"groups are nested {depth:,} deep or deeper")
    except LimitError as error:
        raise error.located(store=location, path=f"{path[:_LETTERS]}...") from None
