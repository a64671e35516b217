"""A new local file comes into being beside its place and is moved there when it is whole.

Until then the old file, if there is one, is untouched. If the write fails nothing is left; if the process dies, what is
left is a directory whose name says that it is partial.

Source: issue "Nothing lost, nobody let in", part 1; the exchange is Linux's ``renameat2``, elsewhere two renames.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hdmf_zarr_backend.storage.keys import LocalKeys

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NAME = 40  # letters of the file's name in that of the directory, which must not become too long
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


@contextmanager
def staged(target: str) -> Iterator[LocalKeys]:
    """Give the keys of a directory beside ``target`` that takes its place when the block ends without an error.

    Parameters
    ----------
    target : str
        Absolute path of the file. What is there is replaced.
    """
    folder, name = os.path.split(target)
    partial = os.path.join(folder, f".{name[:_NAME]}.{uuid.uuid4().hex}.partial")
    made = _missing(folder)
    os.makedirs(partial)
    try:
        yield LocalKeys(partial, replace=False, location=target)
        replace(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for path in made:
            with suppress(OSError):  # somebody else uses it by now
                os.rmdir(path)
        raise


def _missing(folder: str) -> list[str]:
    """Return the folders above a file that are not there yet, the innermost first."""
    missing = []
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def replace(partial: str, target: str) -> None:
    """Move ``partial`` to ``target`` and delete what was there; if that fails, what was there is there again."""
    if not os.path.lexists(target):
        os.rename(partial, target)
        return
    if not _exchange(partial, target):
        aside = f"{partial}.old"
        os.rename(target, aside)
        try:
            os.rename(partial, target)
        except BaseException:
            os.rename(aside, target)
            raise
        partial = aside
    if os.path.isdir(partial) and not os.path.islink(partial):
        shutil.rmtree(partial)
    else:
        os.unlink(partial)


def _exchange(one: str, other: str) -> bool:
    """Exchange two names in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), other)
