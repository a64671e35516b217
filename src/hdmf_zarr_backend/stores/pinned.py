"""The directory of a file, held so that what is read of it is never of another one that took its place.

A file is replaced by a rename, and by its path a reader would find chunks of the new file under documents of the old
one. While a descriptor of a directory is open the system gives its number to no other, and names are looked up in it
wherever it was moved.

Source: issue "Nothing lost, nobody let in", "Done when": no reader sees a mixed state.
"""

from __future__ import annotations

import os
import sys

from hdmf_zarr_backend.errors import StoreError

_CAN_PIN = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")


class PinnedFolder:
    """A directory that is held open.

    Parameters
    ----------
    descriptor : int
        Of the directory; closed with this. Negative: it was not there any more.
    identity : int
        Number of the directory in its file system.
    root : str
        Where it was.
    """

    def __init__(self, descriptor: int, identity: int, root: str) -> None:
        self._descriptor = descriptor
        self._identity = identity
        self._root = root

    @classmethod
    def at(cls, root: str) -> PinnedFolder | None:
        """Hold the directory at ``root``; None where there is none, or it cannot be held: many files are open."""
        if not _CAN_PIN:
            return None
        try:
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):  # ValueError: no path, such as one with a NUL
            return None
        if descriptor > _most_descriptors():
            os.close(descriptor)
            return None
        return cls(descriptor, os.fstat(descriptor).st_ino, root)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self._root, self._identity)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def open(self, key: str, flags: int) -> int:
        """Open a file in the directory.

        Raises
        ------
        OSError
            As of ``os.open``.
        """
        if self._descriptor < 0:
            raise FileNotFoundError(self._root)
        return os.open(key, flags, dir_fd=self._descriptor)

    def check(self, location: str) -> None:
        """Make sure that this directory is still in its place.

        Raises
        ------
        StoreError
            It was replaced, moved or removed; ``location`` is the file to name.
        """
        if not self._is_there():
            problem = "the file was replaced or removed while it was open"
            raise StoreError(problem, store=location, remedy="Open it again.")

    def _is_there(self) -> bool:
        if self._descriptor < 0:
            return False
        try:
            return os.path.samestat(os.stat(self._root), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False


def _most_descriptors() -> int:
    """Return the number of the last descriptor that may hold a directory; half of all are left for reading files."""
    import resource  # of systems that can hold directories

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit // 2


def _again(root: str, identity: int) -> PinnedFolder:
    """Hold the same directory in another process; by its number alone, since other machines number disks anew."""
    found = PinnedFolder.at(root)
    if found is None or found._identity != identity:
        return PinnedFolder(-1, identity, root)
    return found
