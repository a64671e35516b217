"""What only some kinds of stores can do, asked of any store."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress

from hdmf_zarr_backend.errors import StoreError, StoreExistsError
from hdmf_zarr_backend.storage.diskfiles import check_followed, told
from hdmf_zarr_backend.storage.keys import KeyStore, innermost, is_outside
from hdmf_zarr_backend.storage.localkeys import LocalKeys
from hdmf_zarr_backend.storage.openvalue import OpenValue

_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")


def opens_values(keys: KeyStore) -> bool:
    """Tell whether parts of a value can be read from a store, by `open_value`, at no more cost than the whole."""
    return hasattr(innermost(keys), "open_value")


def open_value(keys: KeyStore, key: str) -> OpenValue | None:
    """Return the value of ``key``, open, to read parts of it; None where it is not there, or the store cannot do so."""
    offered = getattr(keys, "open_value", None)
    found: OpenValue | None = None if offered is None else offered(key)
    return found


def link_value(keys: KeyStore, source: str, target: str) -> bool:
    """Let a value have a second key without a copy of it, where the store can do so; tell whether it has."""
    store = innermost(keys)
    if not isinstance(store, LocalKeys) or is_outside(source):
        return False
    try:
        if not stat.S_ISREG(os.lstat(f"{store.root}/{source}").st_mode):
            return False  # a symbolic link may lead somewhere else from another place
        os.link(f"{store.root}/{source}", f"{store.root}/{target}")
    except OSError:
        return False  # not every file system has such links
    return True


def delete_below(keys: KeyStore, path: str) -> None:
    """Delete all keys below ``path/``, and the folders that held them where a store has folders."""
    store = innermost(keys)
    if isinstance(store, LocalKeys):
        store.delete_below(path)
    else:
        store.delete(list(store.list_prefix(path)))


def is_empty_folder(keys: KeyStore) -> bool:
    """Tell whether a local folder is there, and nothing in it that could be lost."""
    store = innermost(keys)
    if not isinstance(store, LocalKeys) or not os.path.isdir(store.root):
        return False
    with told(store.location, "read"), os.scandir(store.root) as entries:
        return next(entries, None) is None


def check_free(keys: KeyStore, *, overwrite: bool, empty_folder: bool = True) -> None:
    """Refuse to make a file where something is.

    Parameters
    ----------
    keys : KeyStore
        Where the file will be.
    overwrite : bool
        Refuse nothing.
    empty_folder : bool
        Whether an empty folder may be used.

    Raises
    ------
    StoreExistsError
        Something is there, or a symbolic link that leads nowhere.
    """
    check_followed(keys.location)
    if not overwrite and keys.exists() and not (empty_folder and is_empty_folder(keys)):
        raise StoreExistsError(
            "the target exists already",
            store=keys.location,
            remedy="Choose another path, or pass overwrite=True to replace it.",
        )


def remove_empty_folder(keys: KeyStore) -> None:
    """Remove the empty folder that a new file is to take the place of, if there is one."""
    store = innermost(keys)
    if isinstance(store, LocalKeys):
        with suppress(OSError):
            os.rmdir(store.root)


def delete_partial(keys: KeyStore, folders: Iterable[str]) -> None:
    """Delete the files in ``folders`` that were being written when their writer died."""
    store = innermost(keys)
    if not isinstance(store, LocalKeys):
        return
    for folder in folders:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{store.root}/{folder}") as entries:
            for entry in entries:
                if _PARTIAL.search(entry.name) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)


def check_inside(keys: KeyStore, names: Iterable[str], paths: Iterable[str]) -> None:
    """Refuse keys and paths of nodes that would lead out of a store, by their name or by a symbolic link.

    Raises
    ------
    StoreError
        One does.
    """
    store = innermost(keys)
    paths = list(paths)
    folders = {name.rpartition("/")[0] for name in names if not is_outside(name)} | set(paths)
    outside = [name for name in (*names, *paths) if not name or is_outside(name)]
    if isinstance(store, LocalKeys):
        root = os.path.realpath(store.root)
        outside += [folder for folder in folders if not is_outside(folder) and not _is_below(root, folder)]
        outside += [path for path in paths if not is_outside(path) and _real(root, path) == root]
    if outside:
        raise StoreError(
            f"{outside[0]!r} leads out of the store",
            store=store.location,
            remedy="Do not trust the file, or the one who put a link there.",
        )


def _is_below(root: str, folder: str) -> bool:
    return f"{_real(root, folder)}/".startswith(f"{root}/")


def _real(root: str, folder: str) -> str:
    try:
        return os.path.realpath(os.path.join(root, folder))
    except UnicodeEncodeError:  # no file system has such a name
        return ""
