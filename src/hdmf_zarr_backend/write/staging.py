"""A new local file comes into being beside its place and is moved there when it is whole.

Until then the old file, if there is one, is untouched. If the write fails nothing is left; if the process dies, what is
left is a directory whose name says that it is partial, which the next writer removes.

Source: issue "Nothing lost, nobody let in", part 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hdmf_zarr_backend.errors import StoreExistsError
from hdmf_zarr_backend.stores.disk import told
from hdmf_zarr_backend.stores.durable import sync_files, sync_folder
from hdmf_zarr_backend.stores.local import LocalKeys
from hdmf_zarr_backend.stores.partials import Staged, interrupted_conversions, partial_path
from hdmf_zarr_backend.stores.renames import place, replace


@contextmanager
def staged(
    target: str, *, exclusive: bool = False, durable: bool = False, location: str | None = None
) -> Iterator[LocalKeys]:
    """Give the keys of a directory beside ``target`` that takes its place when the block ends without an error.

    Whoever calls this is the only writer of ``target``.

    Parameters
    ----------
    target : str
        Absolute path of the file. What is there is replaced.
    exclusive : bool
        Replace nothing, not even what another program has put there in the meantime.
    durable : bool
        As of `moved`.
    location : str, optional
        What the user calls the file, if it is not ``target`` (a symbolic link to it).

    Raises
    ------
    StoreExistsError
        Something has come to be at ``target`` that is not to be replaced.
    StoreError
        The system refuses something.
    """
    partial, own = partial_path(target), Staged(target)
    made = _missing(os.path.dirname(target))
    try:
        with told(target, "written"):
            os.makedirs(partial)
        yield LocalKeys(partial, replace=False, location=location or target)
        own.check()
        moved(partial, target, exclusive=exclusive, durable=durable)
        for path in interrupted_conversions(target):  # nobody goes on to make what has been made otherwise
            own.discard(path)
    except BaseException:
        own.discard(partial)
        for path in made if own.is_own else ():
            with suppress(OSError):  # somebody else uses it by now
                os.rmdir(path)
        raise


def moved(partial: str, target: str, *, exclusive: bool, durable: bool) -> None:
    """Move what is whole to its place.

    Parameters
    ----------
    partial, target : str
        From where, and to where.
    exclusive : bool
        Replace nothing.
    durable : bool
        Return when all of it is on the disk, under its name: one call for all files before they are moved, and one for
        the folder after.

    Raises
    ------
    StoreExistsError
        ``exclusive``, and something has come to be at ``target``.
    """
    with told(target, "written"):
        if durable:
            sync_files(partial)
        (_place if exclusive else replace)(partial, target)
        if durable:
            sync_folder(os.path.dirname(target))


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
