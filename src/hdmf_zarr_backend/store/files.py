"""New local files: beside their target until they are complete, moved into its place in one step, and cleaned up.

A file that is written beside its target has a name that begins with a dot and the name of the target, and ends in
``.partial``. On systems that cannot exchange two names, the old target gets the ending ``.old`` in addition while it is
replaced. What cannot be deleted gets the ending ``.left``, and is ignored afterwards.

The folder of a conversion can be continued by another run. Its name is derived from the target and the record, so that
the next run finds it, and a worker that outlives the main process can only set keys that belong there. The record is
the first file in the folder. When everything else is there, it is moved beside the folder, where it stays until the
folder has been renamed to the target. It has the number of the folder, since afterwards the old target may have that
name until it is deleted.

Source: Linux's ``renameat2``, which exchanges two names or gives a name only where it is free.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.errors import ConflictError, MetadataError, StoreError, StoreExistsError, warn
from hdmf_zarr_backend.model.json_text import dump, load
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.local import PARTIAL, LocalStore, last_error, linux_call, sync_files

BESIDE = ".record"
_ASIDE = ".old"
_LEFT = ".left"
_NEW = "[0-9a-f]{32}"
_CONVERSION = "conversion-[0-9a-f]{12}"
_EITHER = f"({_NEW}|{_CONVERSION})"
_NAME_LETTERS = 40


def check_link(path: str) -> None:
    """Refuse to write to a symbolic link whose target does not exist: a disk may be missing."""
    if os.path.islink(path) and not os.path.exists(path):
        problem = f"this is a symbolic link to {os.readlink(path)!r}, which does not exist"
        raise StoreExistsError(problem, store=path, remedy="Delete the link, or create its target.")


def sync_folder(path: str) -> None:
    """Wait until the names in a folder are on disk, after a rename; not needed where folders cannot be opened."""
    with suppress(PermissionError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- moving into place ----------------------------------------------------------------------------------------------

_AT_FDCWD = -100
_NO_REPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def replace(partial: str, target: str) -> str | None:
    """Move ``partial`` to ``target``; return where the old target is now. If the move fails, the old target stays."""
    if not os.path.lexists(target):
        os.rename(partial, target)
        return None
    # where two names cannot be exchanged, nothing is at the path between the two renames; see `restore_old`
    if not _renameat2(partial, target, _EXCHANGE):
        aside = f"{partial}{_ASIDE}"
        os.rename(target, aside)
        try:
            os.rename(partial, target)
        except BaseException:
            os.rename(aside, target)
            raise
        return aside
    return partial


def move_into_place(partial: str, target: str, *, exclusive: bool, durable: bool) -> None:
    """Move a complete file or folder to its place; with ``exclusive`` only if nothing is there."""
    if durable:
        sync_files(partial)
    old = (move_exclusively if exclusive else replace)(partial, target)
    # before the old file is deleted: after a power cut, the path would have a part of it
    if durable:
        sync_folder(os.path.dirname(target))
    try:
        if old is not None:
            remove(old)
    except OSError as error:
        warn(f"the new file is complete; {old!r}, the old one, could not be deleted: {error}")


def move_exclusively(partial: str, target: str) -> None:
    """Move ``partial`` to ``target``, which must not exist, in one step among competing processes."""
    try:
        if _renameat2(partial, target, _NO_REPLACE):
            return
        # os.rename replaces a file on POSIX, and not on Windows
        if os.name == "nt":
            os.rename(partial, target)
        elif os.path.isfile(partial):
            try:
                os.link(partial, target)
            except OSError as error:
                if isinstance(error, FileExistsError) or os.path.lexists(target):
                    raise
                os.rename(partial, target)  # this file system has no hard links
            else:
                os.unlink(partial)
        else:
            # mkdir reserves the name in one step, and a folder can be renamed onto an empty one
            os.mkdir(target)
            try:
                os.rename(partial, target)
            except BaseException:
                with suppress(OSError):
                    os.rmdir(target)
                raise
    except FileExistsError as error:
        problem = "another file was created there while this one was written, and it is not replaced"
        raise not_replaced(problem, target) from error


def not_replaced(problem: str, location: str) -> StoreExistsError:
    """Return the error for a file that exists by now, and is not replaced."""
    remedy = "Choose another path, or mode 'w' to replace it."
    remedy_cli = "Choose another path, or use --overwrite to replace it."
    return StoreExistsError(problem, store=location, remedy=remedy, remedy_cli=remedy_cli)


def _renameat2(one: str, other: str, flag: int) -> bool:
    """Rename according to ``flag``, in one step; return False if the system cannot."""
    call = linux_call("renameat2")
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), flag) == 0:
        return True
    error = last_error(other)
    if error.errno in _UNSUPPORTED:
        return False
    raise error


# ---- files beside a target -------------------------------------------------------------------------------------------


def partial_path(target: str) -> str:
    """Return a path beside ``target`` that is not used yet."""
    return _named(target, uuid.uuid4().hex)


def _named(target: str, name: str) -> str:
    folder, last = os.path.split(target)
    # names have at most 255 bytes, and other targets may begin with the same letters
    digest = hashlib.sha256(os.fsencode(last)).hexdigest()[:8]
    return os.path.join(folder, f".{last[:_NAME_LETTERS]}.{digest}.{name}{PARTIAL}")


def _beside(target: str, names: str, ending: str = "") -> list[str]:
    """Return the paths beside ``target`` that belong to it, whose own names match a pattern and have an ``ending``."""
    folder = os.path.dirname(target)
    start = os.path.basename(_named(target, "")).removesuffix(PARTIAL)
    pattern = re.compile(re.escape(start) + names + re.escape(PARTIAL) + ending)
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if pattern.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def unfinished(target: str) -> list[str]:
    """Return the paths of the new files beside ``target`` whose writers are running or have died."""
    try:
        return _beside(target, _NEW)
    except OSError:  # the folder cannot be listed
        return []


def conversions(target: str) -> list[str]:
    """Return the paths of the folders of interrupted conversions to ``target``, also where only a record is left."""
    return sorted({path.removesuffix(BESIDE) for path in _beside(target, _CONVERSION, rf"(\{BESIDE})?")})


def moved_aside(target: str) -> list[str]:
    """Return the path of the old target if a writer died between the two renames of `replace`."""
    return [] if os.path.lexists(target) else _beside(target, _EITHER, rf"\{_ASIDE}")


def restore_old(target: str) -> None:
    """Move the old target back to its place if it was moved aside; its lock must be held."""
    for aside in moved_aside(target)[:1]:
        os.rename(aside, target)


def sweep(target: str) -> None:
    """Remove the new files that dead writers left beside ``target``, and old ones; its lock must be held."""
    # a conversion may be continued, and stays
    done = [path + BESIDE for path in conversions(target) if not os.path.lexists(path)]
    for path in [*_beside(target, _NEW), *_beside(target, _EITHER, rf"\{_ASIDE}"), *done]:
        # what belongs to another user stays, and is in nobody's way: its name is never used again
        with suppress(OSError):
            discard(path)


def remove(path: str) -> None:
    """Delete a file, a link or a folder with its content, of any depth."""
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        # paths are too long, or folders are nested too deep: all of them are moved to the top first
        folders = [path]
        for folder in folders:
            for entry in list(os.scandir(folder)):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(os.path.join(path, uuid.uuid4().hex))
                    os.rename(entry.path, folders[-1])
        shutil.rmtree(path)


def discard(path: str) -> None:
    """Delete a file or folder; one that cannot be deleted is renamed."""
    try:
        remove(path)
    except FileNotFoundError:
        return
    except OSError:
        aside = f"{path}.{uuid.uuid4().hex[:8]}{_LEFT}"
        os.rename(path, aside)
        # a worker that was not stopped may have put a file there meanwhile; it does not know the new name
        try:
            remove(aside)
        except OSError as error:
            warn(f"{aside!r} could not be deleted: {error}; it is not needed")


# ---- folders of new files --------------------------------------------------------------------------------------------


class NewFolder(LocalStore):
    """The folder of a new file, which exists; its keys are not replaced.

    If it ``is_kept`` for another run, its chunks are complete whenever its writer dies. If it ``is_resumed`` from one,
    values that are there are not set again; these are doubtful if the machine may have been restarted since, so that
    the end of a value may be lost.
    """

    is_kept = is_resumed = is_doubtful = False

    def _set(self, key: str, value: bytes) -> None:
        if not self.is_resumed or self.get(key) != value:
            super()._set(key, value)

    def _replaces(self, key: str) -> bool:
        # nobody reads a new file before it is complete, unless another run continues it; that one writes all documents
        return self.is_kept and key.rpartition("/")[2] not in DOCUMENTS

    def kept(self, path: str, is_whole: Callable[[str, bytes], bool]) -> frozenset[str]:
        """Return the keys of the complete chunks of an array, from one listing."""
        sizes = self.sizes(path) if self.is_resumed else {}
        keys = [key for key, size in sizes.items() if size and not key.endswith((*DOCUMENTS, PARTIAL))]
        return frozenset(key for key in keys if not self.is_doubtful or is_whole(key, self.get(key) or b""))

    def _make_root(self) -> None:
        # a worker on another machine may not see this disk, and would write to a folder that nobody renames; one that
        # works on after an error would make the folder again
        if not os.path.isdir(self.root):
            problem = f"the folder {self.root!r} does not exist for this process"
            remedy = "Workers on other machines need access to the folder of the target under the same path."
            raise StoreError(problem, store=self.location, remedy=remedy)


RECORD = ".hdmf_conversion.json"  # name of the record in the folder, or its key in a bucket
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # where Linux has an id of the present start of the machine


def may_resume(store: Store) -> bool:
    """Return whether another run can continue a new file: its values are complete, whenever a writer dies."""
    return store.folder is not None or (store.abilities.is_remote and store.stream_bytes is not None)


@dataclass(frozen=True, slots=True)
class Resumption:
    """What makes a new file that another run can continue, in a local folder or a bucket.

    The ``record`` has everything that decides what is written, as JSON: runs with equal records write the same keys.
    ``differences`` tells why a run with another one cannot be continued; TypeError, ValueError or KeyError for what is
    no record.
    """

    record: Mapping[str, Any]
    differences: Callable[[dict[str, Any]], list[str]]
    is_asked: bool  # whether to continue what an earlier run left, instead of starting again

    def begin(self, target: str, location: str, drop: Callable[..., object]) -> NewFolder:
        """Make the folder beside ``target``, or find it; ``drop`` deletes what other runs have left."""
        path = _named(target, f"conversion-{hashlib.sha256(dump(self.record)).hexdigest()[:12]}")
        left = conversions(target)
        begun: list[str | None] = []  # the start of the machine in which the folder was begun, if it is continued
        differences: list[str] = []
        for folder in filter(os.path.lexists, left) if self.is_asked else ():
            # a folder whose record no version of this package has written counts as one that does not exist
            with suppress(MetadataError, TypeError, ValueError, KeyError):
                if os.path.islink(folder):
                    continue
                inside = LocalStore(folder).get(RECORD)
                beside = LocalStore(os.path.dirname(folder)).get(os.path.basename(folder) + BESIDE)
                record = dict(load(inside or beside or b"", key=RECORD))
                number = record.pop("folder", None)
                # with another number, it is the old target: the two have exchanged their names
                if not inside and number != os.stat(folder).st_ino:
                    continue
                boot = record.pop("boot")
                if folder == path and dump(record) == dump(self.record):
                    begun = [boot]
                    break
                differences = differences or self.differences(record)
        else:
            self._check(differences, location)
        for other in {*left} - {path}:
            drop(other, other + BESIDE)
        if not begun:
            discard(path)  # the new folder has this name
            drop(path + BESIDE)
        now: str | None = None
        with suppress(OSError):  # not Linux
            now = _BOOT.read_text(encoding="ascii").strip()
        # a restart, as after a power cut, may have lost the ends of chunks. Files that were not checked since then stay
        # doubtful for later runs too
        boot = begun[0] if begun else now
        os.makedirs(path, exist_ok=True)
        new = NewFolder(path, location=location)
        new.is_kept, new.is_doubtful = True, boot is None or boot != now
        try:
            new._set(RECORD, dump({**self.record, "boot": boot, "folder": os.stat(path).st_ino}))
        except BaseException:
            if not begun:
                drop(path, path + BESIDE)
            raise
        new.is_resumed = bool(begun)
        return new

    def continues(self, store: Store) -> bool:
        """Return whether this conversion is to go on in a store without a rename, which has the record of one."""
        value = store.get(RECORD) if self.is_asked else None
        if value is None:
            return False
        differences = ["its record cannot be read"]
        with suppress(MetadataError, TypeError, ValueError, KeyError):
            record = dict(load(value, key=RECORD))
            if dump(record) == dump(self.record):
                return True
            differences = self.differences(record)
        self._check(differences, store.location)
        return False

    def _check(self, differences: list[str], location: str) -> None:
        """Refuse to continue a conversion that differs from this one."""
        if differences:
            problem = f"the interrupted conversion cannot be resumed: {'; '.join(differences)}"
            remedy = "Run it without resume=True to start again."
            if all(difference.startswith("--") for difference in differences):  # only options differ
                remedy = remedy[:-1] + ", or with the options of the first call to continue."
            remedy_cli = remedy.replace("resume=True", "--resume")
            raise ConflictError(problem, store=location, remedy=remedy, remedy_cli=remedy_cli)
