"""What stands beside the place of a file until it is whole: how it is called, and what writers that died leave of it.

The names begin with a dot and the name of the file, and end in ``.partial``. What is moved aside while a file is
replaced, on systems that cannot exchange two names, ends in ``.old`` as well, and is the old file itself. What could
not be deleted ends in ``.left``, and nobody looks at it again.

Source: issue "Nothing lost, nobody let in", part 1.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hdmf_zarr_backend.errors import StoreLockedError

PARTIAL = ".partial"
ASIDE = ".old"
LEFT = ".left"

NAME_LETTERS = 40
"""Letters of the file's name in that of what stands beside it, which must not become too long."""


def prefix_of(target: str) -> str:
    """Return what the names of all that stands beside ``target`` begin with; of no other file's."""
    name = os.path.basename(target)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]  # the name is cut, and others may begin like it
    return f".{name[:NAME_LETTERS]}.{digest}"


def partial_path(target: str) -> str:
    """Return a path beside ``target`` that nobody uses yet."""
    return os.path.join(os.path.dirname(target), f"{prefix_of(target)}.{uuid.uuid4().hex}{PARTIAL}")


def sweep(target: str) -> None:
    """Remove what a writer that died has left beside ``target``, and give the old file its place back.

    Whoever calls this is the only writer.
    """
    folder = os.path.dirname(target)
    pattern = re.compile(re.escape(prefix_of(target)) + rf"\.[0-9a-f]{{32}}{PARTIAL}({ASIDE})?")
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            found = pattern.fullmatch(name)
            if found is None:
                continue
            path = os.path.join(folder, name)
            if found[1] and not os.path.lexists(target):
                os.rename(path, target)
            else:
                with suppress(OSError):  # another user's, in a folder for all; its name is never used again
                    discard(path)


def interrupted_conversions(target: str) -> list[str]:
    """Return the paths of what conversions to ``target`` that were interrupted have left, to be resumed."""
    folder = os.path.dirname(target)
    pattern = re.compile(re.escape(conversion_prefix(target)) + r"-[0-9a-f]{12}" + re.escape(PARTIAL))
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if pattern.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def conversion_prefix(target: str) -> str:
    """Return what the names of all that belongs to a conversion to ``target`` begin with."""
    return f"{prefix_of(target)}.conversion"


def remove(path: str) -> None:
    """Delete a file, a link or a whole folder, however deep it is."""
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):  # its paths are too long, or there are too many folders in each other
        _flatten(path)
        shutil.rmtree(path)


def _flatten(path: str) -> None:
    """Move all folders below a folder to its top; two are open at a time, and no path becomes long."""
    if not {os.open, os.rename} <= os.supports_dir_fd or os.scandir not in os.supports_fd:
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with _opened(path, flags) as top:
        waiting = _folders(top)
        while waiting:
            with _opened(waiting.pop(), flags, dir_fd=top) as here:
                for name in _folders(here):
                    new = uuid.uuid4().hex
                    os.rename(name, new, src_dir_fd=here, dst_dir_fd=top)
                    waiting.append(new)


@contextmanager
def _opened(path: str, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folders(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def discard(path: str) -> None:
    """Delete what nobody needs any more; what cannot be deleted gets another name, under which it is in nobody's way.

    Raises
    ------
    OSError
        It can have no other name either.

    Warns
    -----
    UserWarning
        It could not be deleted, and stays.
    """
    try:
        remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        aside = f"{path}.{uuid.uuid4().hex[:8]}{LEFT}"
        os.rename(path, aside)
        warnings.warn(f"{aside!r} could not be deleted: {error}; it is not needed", stacklevel=3)


class Staged:
    """What this process writes beside the place of a file, and removes if it fails.

    A process that was forked meanwhile leaves it alone, however it ends.

    Parameters
    ----------
    target : str
        Absolute path of the file.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._pid = os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether this is the process that began to write."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Make sure that this is the process that began to write.

        Raises
        ------
        StoreLockedError
            It is a fork of that.
        """
        if not self.is_own:
            raise StoreLockedError(
                f"this file is written by process {self._pid}, of which this process is a fork",
                store=self._target,
                remedy="End a forked process with os._exit(), or start it with another method than 'fork'.",
            )

    def discard(self, path: str) -> None:
        """Delete what was written, as far as it can be deleted; not in a fork."""
        if self.is_own:
            with suppress(OSError):
                discard(path)
