"""How deep a tree is, and the error for one that is nested deeper than Python can recurse.

Apart from `io`, because a plan and a file are limited in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.errors import NestingError


@contextmanager
def limited_nesting(root: Any, *, store: object, doing: str) -> Iterator[None]:
    """Turn the RecursionError of a block into an error that names the limit and the deepest group.

    Parameters
    ----------
    root : GroupNode or builder
        The tree: what has ``members`` or ``groups`` by name.
    store : object
        The file, for the message.
    doing : str
        What cannot be done, such as ``"written"``.

    Raises
    ------
    NestingError
        In the place of a RecursionError.
    """
    try:
        yield
    except RecursionError as error:
        depth, path = deepest(root)
        raise NestingError(
            f"groups that are nested {depth} deep cannot be {doing} under Python's limit of "
            f"{sys.getrecursionlimit()} nested calls",
            store=store,
            path=path,
            remedy=f"Nest less deeply, or raise the limit: sys.setrecursionlimit({max(4 * depth, 2000)}).",
        ) from error


def deepest(root: Any) -> tuple[int, str]:
    """Return depth and absolute path of the deepest group; the root has depth 0."""
    names: list[str] = []
    found: list[str] = []
    stack: list[tuple[int, str, Any]] = [(0, "", root)]
    while stack:
        depth, name, node = stack.pop()
        names[max(0, depth - 1) :] = [name] if depth else []
        if depth > len(found):
            found = list(names)
        members = getattr(node, "members", None) or getattr(node, "groups", None) or {}
        stack.extend((depth + 1, child_name, child) for child_name, child in members.items())
    return len(found), "/" + "/".join(found)
