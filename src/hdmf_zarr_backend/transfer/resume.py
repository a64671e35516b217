"""`staged_conversion`: the store for a conversion that can be interrupted and resumed, and the record of its inputs.

The folder of the new file is beside the target. Its name is derived from the target and the record, so the next run
finds it, and a worker that outlives the main process can only set keys that belong there. Its chunks are complete,
because each is renamed into place. The record is the first file in it. When everything is written, it is moved beside
the folder, which is renamed to the target, and deleted at the end.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.shards import shard_named, split_shard
from hdmf_zarr_backend.errors import (
    ConflictError,
    DamagedFileError,
    MetadataError,
    ResourceError,
    StoreError,
    WorkerLostError,
)
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.registry import FORMATS
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.options import DEFAULT_OPTIONS, WriteOptions
from hdmf_zarr_backend.stores import files
from hdmf_zarr_backend.stores.failures import os_errors
from hdmf_zarr_backend.stores.files import (
    PARTIAL,
    conversion_prefix,
    discard,
    interrupted_conversions,
    move_into_place,
    records_of_conversions,
)
from hdmf_zarr_backend.stores.json_text import dump, load
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.stores.transaction import Change, Writer
from hdmf_zarr_backend.transfer.plan import WritePlan

RECORD = ".hdmf_conversion.json"
"""Name of the record in the folder."""

_DOCUMENTS = zarr2.DOCUMENT_NAMES | {zarr3.DOCUMENT}
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ConversionRecord:
    """The inputs of a conversion. Conversions with equal records write the same keys.

    Attributes
    ----------
    version : str
        Version of this package.
    sources : dict
        ``{absolute path: [bytes, time of the last change in ns]}`` of the files that are read.
    options : dict
        The options that affect what is written, as JSON.
    plan : str
        Hash of all planned documents.
    """

    version: str
    sources: dict[str, list[int]]
    options: dict[str, Any] = field(default_factory=dict)
    plan: str = ""

    @classmethod
    def of(cls, plan: WritePlan, sources: Iterable[str], options: dict[str, Any]) -> ConversionRecord:
        """Return the record of a plan; ``sources`` are the absolute paths of the input files."""
        everything = FORMATS[plan.hierarchy.zarr_format].last(plan.hierarchy, {}, consolidate=True)
        found = {}
        for path in sorted(sources):
            with os_errors(path, "read"):
                state = os.stat(path)
            found[path] = [state.st_size, state.st_mtime_ns]
        # the root package sets its version, and cannot be imported here
        version = sys.modules[__name__.partition(".")[0]].__version__
        return cls(str(version), found, options, hashlib.sha256(dump(everything)).hexdigest())

    def identity(self) -> str:
        """Return a short id of this record."""
        return hashlib.sha256(dump(asdict(self))).hexdigest()[:12]

    def differences(self, other: ConversionRecord) -> list[str]:
        """Return messages about the differences from ``other``, the present record; causes, as far as known."""
        if self.version != other.version:
            return [f"it was started by version {self.version} of this package, and this is {other.version}"]
        gone = [f"{path} was read then and is not read now" for path in self.sources.keys() - other.sources.keys()]
        new = [f"{path} is read now and was not read then" for path in other.sources.keys() - self.sources.keys()]
        changed = [
            f"{path} has changed since"
            for path in self.sources.keys() & other.sources.keys()
            if self.sources[path] != other.sources[path]
        ]
        options = [
            f"{name} was {self.options.get(name)!r} and is {other.options.get(name)!r}"
            for name in sorted(self.options.keys() | other.options.keys())
            if self.options.get(name) != other.options.get(name)
        ]
        found = [*sorted(gone), *sorted(new), *sorted(changed), *options]
        return found or ["the plan has changed, because of another version of a library or another environment"]


class StagedKeys(LocalStore):
    """The folder of a conversion."""

    def __init__(self, root: str, location: str, *, is_resumed: bool, is_doubtful: bool) -> None:
        super().__init__(root, replace=True, location=location)
        self.is_resumed = is_resumed
        self.is_doubtful = is_doubtful
        self._is_there = False

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``, unless it has this value already."""
        self._check_folder()
        if not (self.is_resumed and self._has(key, value)):
            super().set(key, value)

    @contextmanager
    def stream(self, key: str) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that appends to a new value of ``key``; raises the errors of `set`."""
        self._check_folder()
        with super().stream(key) as write:
            yield write

    def _check_folder(self) -> None:
        if not self._is_there and not os.path.isdir(self.root):
            raise StoreError(
                f"the folder {self.root!r} does not exist for this process",
                store=self.location,
                remedy="Workers on other machines need access to the folder of the target under the same path.",
            )
        self._is_there = True

    def _replaces(self, key: str) -> bool:
        """Tell whether a value is first written to another file; a resumed conversion compares documents."""
        return key.rpartition("/")[2] not in _DOCUMENTS

    def _has(self, key: str, value: bytes) -> bool:
        state = self.state(key)
        return state is not None and state.size == len(value) and self.get(key) == value

    def complete_chunks(self, path: str, stored: StoredArray) -> frozenset[str]:
        """Return the keys of the chunks of an array that need not be written again, from one listing."""
        if not self.is_resumed:
            return frozenset()
        return frozenset(
            key
            for key, size in self.sizes(path).items()
            if size and _is_chunk(key) and not (self.is_doubtful and not self._decodes(path, key, stored))
        )

    def _decodes(self, path: str, key: str, stored: StoredArray) -> bool:
        data = self.get(key)
        shard = None if stored.shards is None else shard_named(stored, key.removeprefix(f"{path}/"))
        if data is None or (stored.shards is not None and shard is None):
            return False
        try:
            for chunk in [data] if shard is None else split_shard(data, stored, shard):
                chunk_codec(stored).decode(chunk, stored.chunks)
        except DamagedFileError:
            return False
        return True

    def finish(self) -> None:
        """Remove what does not belong to the file: the record, and keys that were not renamed into place."""
        if self.is_resumed:
            self.delete([key for key in self.sizes("") if key.endswith(PARTIAL)])
        with os_errors(self.location, "written"), suppress(FileNotFoundError):  # an earlier run has moved it
            os.rename(os.path.join(self.root, RECORD), self.root + files.RECORD)


def _is_chunk(key: str) -> bool:
    return not key.endswith(PARTIAL) and key.rpartition("/")[2] not in _DOCUMENTS


@contextmanager
def staged_conversion(
    target: LocalStore,
    record: ConversionRecord,
    *,
    resume: bool,
    exclusive: bool = False,
    options: WriteOptions = DEFAULT_OPTIONS,
) -> Iterator[Change]:
    """Yield the change that makes a folder, which replaces ``target`` when the block ends without an error.

    The folder is kept, to be resumed, if the process dies, is interrupted or stopped (KeyboardInterrupt, SystemExit) or
    loses its workers, and with ``resume`` also after an error of the operating system. After other errors it is
    removed.
    """
    with Writer(target, replaces=True, durable=options.durable) as writer:
        with os_errors(target.location, "written"):
            store = _open(target, record, writer, resume=resume)
        try:
            yield Change(store)
            writer.lock.check()
            store.finish()
            with os_errors(target.root, "written"):
                move_into_place(store.root, target.root, exclusive=exclusive, durable=options.durable)
            writer.discard(store.root + files.RECORD)
        except (KeyboardInterrupt, SystemExit) as stop:
            stop.add_note(f"The finished part of {target.location!r} is kept; continue with resume=True (--resume).")
            raise
        except WorkerLostError as error:
            error.locate(target)
            error.remedy = "The finished part is kept; pass resume=True to continue."
            error.remedy_cli = "The finished part is kept; `zarrio convert --resume` continues."
            raise
        except (StoreError, ResourceError, OSError):
            if not resume:
                writer.discard(store.root, store.root + files.RECORD)
            raise
        except BaseException:
            writer.discard(store.root, store.root + files.RECORD)
            raise


def _open(store: LocalStore, record: ConversionRecord, writer: Writer, *, resume: bool) -> StagedKeys:
    target = store.root
    name = f"{conversion_prefix(target)}-{record.identity()}{PARTIAL}"
    root = os.path.join(os.path.dirname(target), name)
    found = interrupted_conversions(target)
    begun = _begun(found) if resume else {}
    if begun and root not in begun:
        reasons = next(iter(begun.values())).record.differences(record)
        raise ConflictError(
            f"the interrupted conversion cannot be resumed: {'; '.join(reasons)}",
            store=store.location,
            remedy="Run it without resume=True, which starts again.",
            remedy_cli="Run it without --resume, which starts again.",
        )
    for path in {*found, *(path.removesuffix(files.RECORD) for path in records_of_conversions(target))} - {root}:
        writer.discard(path, path + files.RECORD)
    if not begun:
        discard(root)  # the new folder has this name
        writer.discard(root + files.RECORD)
    now = _boot()
    # files that were not checked since the restart stay doubtful for later runs too
    boot = begun[root].boot if begun else now
    os.makedirs(root, exist_ok=True)
    try:
        LocalStore(root, location=store.location).set(RECORD, dump({**asdict(record), "boot": boot}))
    except BaseException:
        if not begun:
            writer.discard(root, root + files.RECORD)
        raise
    return StagedKeys(root, store.location, is_resumed=bool(begun), is_doubtful=boot is None or boot != now)


@dataclass(frozen=True, slots=True)
class _Begun:
    """An existing record, and the id of the machine's start when it was made (None if unknown)."""

    record: ConversionRecord
    boot: str | None


def _begun(folders: Iterable[str]) -> dict[str, _Begun]:
    """Return the folders of interrupted conversions that can be resumed, with their records."""
    records = {path: _recorded(path) for path in folders if not os.path.islink(path)}
    return {path: record for path, record in records.items() if record is not None}


def _recorded(root: str) -> _Begun | None:
    """Return the record of a folder, None if it cannot be read."""
    text = LocalStore(root).get(RECORD) or LocalStore(os.path.dirname(root)).get(os.path.basename(root) + files.RECORD)
    if not text:
        return None
    try:
        said = load(text, key=RECORD)
        record = ConversionRecord(str(said["version"]), dict(said["sources"]), dict(said["options"]), str(said["plan"]))
        return _Begun(record, said["boot"])
    except (MetadataError, TypeError, ValueError, KeyError):
        return None  # not written by any version of this package


def _boot() -> str | None:
    """Return an id of the present start of the machine, None if the system has none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None
