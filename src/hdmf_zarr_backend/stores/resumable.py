"""Folders of new files that another run can continue: their names, and the record of what is written in them.

The name is derived from the target and the record, so that the next run finds the folder, and a worker that outlives
the main process can only set keys that belong there. The record is the first file in the folder. When everything else
is there, it is moved beside the folder, where it stays until the folder has been renamed to the target. It has the
number of the folder, since afterwards the old target may have that name until it is deleted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
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

    The ``record`` has everything that decides what is written, as JSON: runs with equal records write the same keys.
    ``differences`` tells why a run with another one cannot be continued; TypeError, ValueError or KeyError for what is
    no record.
    """

    record: Mapping[str, Any]
    differences: Callable[[dict[str, Any]], list[str]]
    is_asked: bool  # whether to continue what an earlier run left, instead of starting again

    def begin(self, target: str, location: str, discard: Callable[..., object]) -> ResumableFolder:
        """Make the folder beside ``target``, or find it; ``discard`` deletes what other runs have left.

        ConflictError if something is to be continued that another conversion writes.
        """
        path = files.conversion_path(target, hashlib.sha256(dump(self.record)).hexdigest()[:12])
        left = files.conversions(target)
        begun = self._boots(path, location, filter(os.path.lexists, left)) if self.is_asked else []
        for other in left:
            if other != path:
                discard(other, other + files.RECORD)
        if not begun:
            files.discard(path)  # the new folder has this name
            discard(path + files.RECORD)
        now = _this_boot()
        # files that were not checked since the machine was started stay doubtful for later runs too
        boot = begun[0] if begun else now
        os.makedirs(path, exist_ok=True)
        try:
            text = dump({**self.record, "boot": boot, "folder": os.stat(path).st_ino})
            LocalStore(path, location=location)._set(RECORD, text)
        except BaseException:
            if not begun:
                discard(path, path + files.RECORD)
            raise
        return ResumableFolder(path, bool(begun), is_doubtful=boot is None or boot != now)

    def _boots(self, path: str, location: str, folders: Iterable[str]) -> list[str | None]:
        """Return the start of the machine in which the folder at ``path`` was begun; nothing if it does not exist.

        A folder whose record no version of this package has written counts as one that does not exist.
        """
        differences: list[str] = []
        for folder in folders:
            with suppress(MetadataError, TypeError, ValueError, KeyError):
                record = _record_of(folder)
                boot = record.pop("boot")
                if folder == path and dump(record) == dump(self.record):
                    return [boot]
                differences = differences or self.differences(record)
        if differences:
            raise ConflictError(
                f"the interrupted conversion cannot be resumed: {'; '.join(differences)}",
                store=location,
                remedy="Run it without resume=True, which starts again.",
                remedy_cli="Run it without --resume, which starts again.",
            )
        return []


@dataclass(frozen=True, slots=True)
class ResumableFolder:
    """The folder that a run begins or continues."""

    path: str
    is_resumed: bool  # whether an earlier run has begun it
    is_doubtful: bool  # whether the machine may have been restarted since, so that the end of a value may be lost


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
