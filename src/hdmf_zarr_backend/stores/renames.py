"""Files and folders that come to their place whole: by one rename where the system has it, else by two.

Source: issue "Nothing lost, nobody let in", part 1; Linux's ``renameat2``, which exchanges two names, or gives a name
only where it is free.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import warnings
from contextlib import suppress

from hdmf_zarr_backend.stores.partials import ASIDE, remove

_AT_FDCWD = -100
_NO_REPLACE = 1
_EXCHANGE = 2
_NOT_OFFERED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def replace(partial: str, target: str) -> None:
    """Move ``partial`` to ``target`` and delete what was there; if the move fails, what was there is there again.

    Warns
    -----
    UserWarning
        What was there could not be deleted.
    """
    if not os.path.lexists(target):
        os.rename(partial, target)
        return
    if not _renameat2(partial, target, _EXCHANGE):
        aside = f"{partial}{ASIDE}"
        os.rename(target, aside)
        try:
            os.rename(partial, target)
        except BaseException:
            os.rename(aside, target)
            raise
        partial = aside
    try:
        remove(partial)
    except OSError as error:
        warnings.warn(f"the new file is in its place; {partial!r}, the old one, stays: {error}", stacklevel=3)


def place(partial: str, target: str) -> None:
    """Move ``partial`` to ``target``, where nothing may be, whoever else tries the same at this moment.

    Raises
    ------
    FileExistsError
        Something is there; ``partial`` stays where it is.
    """
    if _renameat2(partial, target, _NO_REPLACE):
        return
    if os.name == "nt":
        os.rename(partial, target)  # which replaces nothing there
        return
    if os.path.isfile(partial):
        _link(partial, target)
        return
    os.mkdir(target)  # takes the name, in one step; a folder may then be renamed onto an empty one
    try:
        os.rename(partial, target)
    except BaseException:
        with suppress(OSError):
            os.rmdir(target)
        raise


def _link(partial: str, target: str) -> None:
    """Give a file its name, if that is free, in one step where the file system has hard links."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(target):
            raise
        os.rename(partial, target)
        return
    os.unlink(partial)


def _renameat2(one: str, other: str, flag: int) -> bool:
    """Rename as ``flag`` says, in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_OFFERED:
        return False
    raise OSError(code, os.strerror(code), other)
