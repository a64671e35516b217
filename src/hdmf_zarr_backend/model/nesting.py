"""What Python makes of files with many and deep groups: the error of its recursion limit, and its garbage collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.errors import NestingError


@contextmanager
def limited_nesting(root: Any, *, store: object, doing: str) -> Iterator[None]:
    """Turn a RecursionError in the block into an error that names the limit and the deepest group."""
    try:
        yield
    except RecursionError as error:
        depth, path = deepest(root)
        limit = f"Python's limit of {sys.getrecursionlimit()} nested calls"
        problem = f"groups that are nested {depth} deep cannot be {doing} with {limit}"
        remedy = f"Nest less deeply, or raise the limit: sys.setrecursionlimit({max(4 * depth, 2000)})."
        raise NestingError(problem, store=store, path=path, remedy=remedy) from error


def deepest(root: Any) -> tuple[int, str]:
    """Return depth and absolute path of the deepest group. The root has depth 0."""
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


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector of this process while many objects are made that stay alive."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
