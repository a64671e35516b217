"""The file operations on a local store, from Python's audit events, whichever module makes them."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.progress import Progress

_listening: list[Callable[[str, tuple[Any, ...]], None]] = []
_installed: list[bool] = []


class Watched:
    """The keys of a local store that are read, set and deleted, and the folders that are listed, in order.

    A value that is written beside its place counts when it is renamed there.
    """

    def __init__(self, root: Path) -> None:
        self._root = f"{root}{os.sep}"
        self.reads: list[str] = []
        self.sets: list[str] = []
        self.deletes: list[str] = []
        self.lists: list[str] = []

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not arguments[2] & getattr(os, "O_DIRECTORY", 0):
            is_write = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
            self._note(self.sets if is_write else self.reads, arguments[0])
        elif event == "os.rename":
            self._note(self.sets, arguments[1])
        elif event == "os.remove":
            self._note(self.deletes, arguments[0])
        elif event in ("os.scandir", "os.listdir"):
            self._note(self.lists, arguments[0])

    def _note(self, keys: list[str], path: Any) -> None:
        if not isinstance(path, (str, os.PathLike)):
            return
        key = os.fspath(path)
        # a relative path is one in a folder that is held open
        if (key.startswith(self._root) or not os.path.isabs(key)) and not key.endswith(".partial"):
            keys.append(key.removeprefix(self._root).rstrip("/"))


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    for function in list(_listening):
        function(event, arguments)


@contextmanager
def listening(function: Callable[[str, tuple[Any, ...]], None]) -> Iterator[None]:
    """Call ``function`` with each audit event; an exception from it replaces the operation."""
    if not _installed:
        sys.addaudithook(_hear)
        _installed.append(True)
    _listening.append(function)
    try:
        yield
    finally:
        _listening.remove(function)


class Interrupted(Progress):
    """Ends the work after some bytes, as a user would."""

    def advance(self, path: str, done: int) -> None:
        raise KeyboardInterrupt


@contextmanager
def watching(root: Path) -> Iterator[Watched]:
    watched = Watched(root)
    with listening(watched.hear):
        yield watched
