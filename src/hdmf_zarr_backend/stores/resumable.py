"""Folders of new files that another run can continue: their names, and the record of what is written in them.

The name is derived from the target and the record, so that the next run finds the folder, and a worker that outlives
the main process can only set keys that belong there. The record is the first file in the folder. When everything else
is there, it is moved beside the folder, where it stays until the folder has been renamed to the target. It has the
number of the folder, since afterwards the old target may have that name until it is deleted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.errors import ConflictError, MetadataError
from hdmf_zarr_backend.stores import files
from hdmf_zarr_backend.stores.json_text import dump, load
from hdmf_zarr_backend.stores.local import LocalStore

RECORD = ".hdmf_conversion.json"
"""Name of the record in the folder."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Resumption:
    """What makes a folder that another run can continue.

    Attributes
    ----------
    record : mapping
        Everything that decides what is written, as JSON. Runs with equal records write the same keys.
    differences : callable
        Returns why a run with another record cannot be continued. Raises TypeError, ValueError or KeyError for what is
        no record.
    is_asked : bool
        Whether to continue what an earlier run left, instead of starting again.
    """

    record: Mapping[str, Any]
    differences: Callable[[dict[str, Any]], list[str]]
    is_asked: bool

    def folder_beside(self, target: str) -> str:
        """Return the path of the folder."""
        identity = hashlib.sha256(dump(self.record)).hexdigest()[:12]
        name = f"{files.conversion_prefix(target)}-{identity}{files.PARTIAL}"
        return os.path.join(os.path.dirname(target), name)


@dataclass(frozen=True, slots=True)
class ResumableFolder:
    """The folder that a run begins or continues.

    Attributes
    ----------
    path : str
        Where it is.
    is_resumed : bool
        Whether an earlier run has begun it.
    is_doubtful : bool
        Whether the machine may have been restarted since, so that the end of a value may be lost.
    """

    path: str
    is_resumed: bool
    is_doubtful: bool

    @classmethod
    def begin(
        cls, target: str, location: str, resumption: Resumption, discard: Callable[..., object]
    ) -> ResumableFolder:
        """Make the folder beside ``target``, or find it; ``discard`` deletes what other runs have left.

        Raises
        ------
        ConflictError
            Something is to be continued, but it is what another conversion writes.
        """
        path = resumption.folder_beside(target)
        interrupted = files.interrupted_conversions(target)
        begun = _boots(path, location, interrupted, resumption) if resumption.is_asked else []
        left = {*interrupted, *(name.removesuffix(files.RECORD) for name in files.records_of_conversions(target))}
        for other in left - {path}:
            discard(other, other + files.RECORD)
        if not begun:
            files.discard(path)  # the new folder has this name
            discard(path + files.RECORD)
        now = _this_boot()
        # files that were not checked since the machine was started stay doubtful for later runs too
        boot = begun[0] if begun else now
        os.makedirs(path, exist_ok=True)
        try:
            text = dump({**resumption.record, "boot": boot, "folder": os.stat(path).st_ino})
            LocalStore(path, location=location).set(RECORD, text)
        except BaseException:
            if not begun:
                discard(path, path + files.RECORD)
            raise
        return cls(path, bool(begun), is_doubtful=boot is None or boot != now)

    def end(self) -> None:
        """Move the record beside the folder, which is complete; without it the folder would be started again."""
        with suppress(FileNotFoundError):  # an earlier run has moved it
            os.replace(os.path.join(self.path, RECORD), self.path + files.RECORD)


def _boots(path: str, location: str, folders: list[str], resumption: Resumption) -> list[str | None]:
    """Return the start of the machine in which the folder at ``path`` was begun; nothing if it does not exist.

    A folder whose record no version of this package has written counts as one that does not exist.
    """
    differences: list[str] = []
    for folder in folders:
        with suppress(MetadataError, TypeError, ValueError, KeyError):
            record = _record_of(folder)
            boot = record.pop("boot")
            if folder == path and dump(record) == dump(resumption.record):
                return [boot]
            differences = differences or resumption.differences(record)
    if differences:
        raise ConflictError(
            f"the interrupted conversion cannot be resumed: {'; '.join(differences)}",
            store=location,
            remedy="Run it without resume=True, which starts again.",
            remedy_cli="Run it without --resume, which starts again.",
        )
    return []


def _record_of(folder: str) -> dict[str, Any]:
    """Return the record of a folder, which is in it or beside it."""
    if os.path.islink(folder):
        raise ValueError(folder)
    inside = LocalStore(folder).get(RECORD)
    beside = LocalStore(os.path.dirname(folder)).get(os.path.basename(folder) + files.RECORD)
    record = dict(load(inside or beside or b"", key=RECORD))
    number = record.pop("folder", None)
    if not inside and number != os.stat(folder).st_ino:
        raise ValueError(folder)  # it is the old target: the two have exchanged their names
    return record


def _this_boot() -> str | None:
    """Return an id of the present start of the machine, None if the system has none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None
