"""A new local file comes into being beside its place and is moved there when it is whole.

Until then the old file, if there is one, is untouched. If the write fails nothing is left; if the process dies, what is
left is a directory whose name says that it is partial.

Source: issue "Nothing lost, nobody let in", part 1.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hdmf_zarr_backend.errors import StoreExistsError
from hdmf_zarr_backend.storage.keys import LocalKeys
from hdmf_zarr_backend.storage.renames import place, replace

NAME_LETTERS = 40
"""Letters of the file's name in that of the directory, which must not become too long."""


@contextmanager
def staged(target: str, *, exclusive: bool = False) -> Iterator[LocalKeys]:
    """Give the keys of a directory beside ``target`` that takes its place when the block ends without an error.

    Parameters
    ----------
    target : str
        Absolute path of the file. What is there is replaced.
    exclusive : bool
        Replace nothing, not even what another writer has put there in the meantime.

    Raises
    ------
    StoreExistsError
        Something has come to be at ``target`` that is not to be replaced.
    """
    folder, name = os.path.split(target)
    partial = os.path.join(folder, f".{name[:NAME_LETTERS]}.{uuid.uuid4().hex}.partial")
    made = _missing(folder)
    os.makedirs(partial)
    try:
        yield LocalKeys(partial, replace=False, location=target)
        if exclusive:
            _place(partial, target)
        else:
            replace(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for path in made:
            with suppress(OSError):  # somebody else uses it by now
                os.rmdir(path)
        raise


def _place(partial: str, target: str) -> None:
    try:
        place(partial, target)
    except FileExistsError as error:
        raise StoreExistsError(
            "something has come to be there while this file was written, and is not replaced",
            store=target,
            remedy="Choose another path, or mode 'w' to replace it.",
        ) from error


def _missing(folder: str) -> list[str]:
    """Return the folders above a file that are not there yet, the innermost first."""
    missing = []
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing
