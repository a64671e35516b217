"""Every error that this package raises on purpose, and the warnings it gives.

Grouped by what a handler would do::

    ZarrBackendError                    anything from this package
    ├── StoreError                      look at the path or the store
    │   ├── StoreNotFoundError          (also FileNotFoundError)
    │   ├── NotZarrError                there is something, but no Zarr hierarchy
    │   ├── StoreExistsError            (also FileExistsError) refuse to overwrite
    │   ├── StoreRefusedError           (also PermissionError) credentials or permissions are missing, or not enough
    │   ├── StoreFullError              (also OSError) the disk, or a quota, is full
    │   ├── StoreLockedError            another writer has the file open
    │   ├── StoreUnreachableError       (also ConnectionError) no answer, or a server's error, after all retries
    │   ├── ReadOnlyStoreError          this kind of store cannot be written, or not be changed
    │   ├── LinkRefusedError            a link leads to a file that the policy does not let it lead to
    │   └── IncompleteStoreError        a write was interrupted
    ├── DamagedFileError                run `zarrio verify` on the file
    │   ├── MetadataError               a document does not parse or contradicts itself
    │   ├── ChunkError                  a chunk does not decode, or has the wrong size
    │   ├── ReferenceTargetError        (also KeyError) a link or reference points to nothing
    │   └── UnsafeDataError             data that only running code could decode
    ├── WriteError                      change what is written
    │   ├── NameRefusedError            a name that no store can hold
    │   ├── ValueRefusedError           a value that has no place in Zarr
    │   ├── ConflictError               (also ValueError) the file already says something else
    │   └── WorkerLostError             a worker or a whole cluster is gone; run it again
    ├── UsageError                      (also ValueError) change the call
    │   └── ModeError                   not in this mode
    ├── LimitError                      the file asks for more than a limit of `Limits`; raise that, if you trust it
    ├── NestingError                    (also RecursionError) nest less deeply, or raise the limit
    └── UnsupportedFileError            no reader for such a file, e.g. NWB 1.x

An error names the store, the path of the node and what to do; those parts are attributes too.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "ChunkError",
    "ConflictError",
    "DamagedFileError",
    "DamagedMetadataWarning",
    "DroppedChangesWarning",
    "FilterReplacedWarning",
    "FormatsDifferWarning",
    "IncompleteStoreError",
    "JournalWarning",
    "LimitError",
    "LinkRefusedError",
    "MetadataError",
    "MissingNamespacesWarning",
    "ModeError",
    "NaNPayloadWarning",
    "NameRefusedError",
    "NestingError",
    "NotZarrError",
    "PortableNameWarning",
    "ReadOnlyStoreError",
    "ReferenceTargetError",
    "StoreError",
    "StoreExistsError",
    "StoreFullError",
    "StoreLockedError",
    "StoreNotFoundError",
    "StoreRefusedError",
    "StoreUnreachableError",
    "UnlockedWarning",
    "UnreadTypeWarning",
    "UnsafeDataError",
    "UnsupportedFileError",
    "UsageError",
    "ValueRefusedError",
    "WorkerLostError",
    "WriteError",
    "WrongTargetWarning",
    "ZarrBackendError",
]


class ZarrBackendError(Exception):
    """Base of all errors of this package.

    Parameters
    ----------
    problem : str
        What is wrong, without a full stop.
    store : object, optional
        The path or URL of the file; shown as text.
    path : str, optional
        Absolute path of the node inside the file.
    remedy : str, optional
        What to do about it, a sentence; by default the advice of the class.

    Attributes
    ----------
    advice : str
        What to do about errors of the class that do not say it themselves.
    """

    advice: ClassVar[str] = ""

    def __init__(self, problem: str, *, store: object = None, path: str | None = None, remedy: str = "") -> None:
        self.problem = problem
        self.store = None if store is None else str(store)
        self.path = path
        self.remedy = remedy or self.advice
        super().__init__(self._message())

    def _message(self) -> str:
        where = [f"store {self.store!r}"] if self.store is not None else []
        if self.path is not None:
            where.append(f"node {self.path!r}")
        text = self.problem + (f" ({', '.join(where)})" if where else "")
        return f"{text}. {self.remedy}" if self.remedy else text

    def located(self, *, store: object = None, path: str | None = None) -> ZarrBackendError:
        """Return this error with ``store`` and ``path`` filled in where they were not known before."""
        if self.store is None and store is not None:
            self.store = str(store)
        if self.path is None and path is not None:
            self.path = path
        self.args = (self._message(),)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # errors of worker processes travel by pickle, and keyword-only arguments would be lost
        return (_rebuild, (type(self), self.problem, self.store, self.path, self.remedy))


def _rebuild(
    cls: type[ZarrBackendError], problem: str, store: str | None, path: str | None, remedy: str
) -> ZarrBackendError:
    return cls(problem, store=store, path=path, remedy=remedy)


class StoreError(ZarrBackendError):
    """The store itself is not as it should be."""

    advice = "Check the path or the URL, and that you may read it."


class StoreNotFoundError(StoreError, FileNotFoundError):
    """Nothing is there."""


class NotZarrError(StoreError):
    """Something is there, but it is not a Zarr hierarchy that HDMF could read."""


class StoreExistsError(StoreError, FileExistsError):
    """Something is there already and is not to be overwritten."""


class StoreRefusedError(StoreError, PermissionError):
    """The server or the system does not let us in: credentials or permissions are missing, wrong, or not enough."""


class StoreFullError(StoreError, OSError):
    """There is no room left where the file is, or for this user."""


class StoreLockedError(StoreError):
    """Another writer has the file open, or this one has lost its lock; the message names host, process and time."""


class StoreUnreachableError(StoreError, ConnectionError):
    """The server gave no answer, an error of its own, or half an answer, however often it was asked."""


class ReadOnlyStoreError(StoreError):
    """A store of this kind cannot be written, or not be changed once it is written."""


class LinkRefusedError(StoreError):
    """A link or a reference leads to a file that ``external_links`` does not let it lead to."""


class IncompleteStoreError(StoreError):
    """A write to this store was interrupted and not finished."""


class DamagedFileError(ZarrBackendError):
    """The file contradicts itself or the format."""

    advice = "Run `zarrio verify` on the file."


class MetadataError(DamagedFileError):
    """A metadata document cannot be understood."""


class ChunkError(DamagedFileError):
    """A chunk cannot be decoded, or is missing where it must not be."""


class ReferenceTargetError(DamagedFileError, KeyError):
    """A link or a reference points to something that is not there."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr


class UnsafeDataError(DamagedFileError):
    """The data could only be decoded by running code that the file names; that is never done."""


class WriteError(ZarrBackendError):
    """Something cannot be written as it was given."""


class LimitError(ZarrBackendError):
    """A file asks for more than one of the `Limits` allows; the error says which, and how it is raised."""


class NestingError(ZarrBackendError, RecursionError):
    """Groups are nested deeper than Python's calls, or the paths of a file system, may be."""


class NameRefusedError(WriteError, ValueError):
    """A name that no Zarr store can hold."""


class ValueRefusedError(WriteError, TypeError):
    """A value that has no place in Zarr."""

    advice = "Convert the value, or give the dataset or attribute a type that holds it."


class ConflictError(WriteError, ValueError):
    """The file already says something else than what is to be written."""


class WorkerLostError(WriteError):
    """A process that worked on this, or the cluster that it was one of, is gone; nothing is wrong with the data."""


class UsageError(ZarrBackendError, ValueError):
    """A call with arguments that do not fit together."""


class ModeError(UsageError):
    """The operation is not possible in the mode in which the file was opened."""


class UnsupportedFileError(ZarrBackendError):
    """A file of a kind that cannot be read, such as NWB 1.x."""


class DamagedMetadataWarning(UserWarning):
    """The consolidated document cannot be used; the documents of the nodes are."""


class DroppedChangesWarning(UserWarning):
    """Changes to arrays were not written, since the block in which they were made ended by an exception."""


class FilterReplacedWarning(UserWarning):
    """A dataset is stored with other filters: its own are not installed, lose precision, or the format lacks them."""


class FormatsDifferWarning(UserWarning):
    """A file has metadata of both formats, and those of one are older; those of the other are read."""


class JournalWarning(UserWarning):
    """A change did not come to its end, and what it has left was undone or finished; or could not be, yet."""


class MissingNamespacesWarning(UserWarning):
    """A file has no cached namespaces; the installed ones are used."""


class NaNPayloadWarning(UserWarning):
    """NaN values lose their sign and payload, since they are stored as JSON."""


class PortableNameWarning(UserWarning):
    """A name is stored that the file systems of other machines cannot hold."""


class UnlockedWarning(UserWarning):
    """Nothing keeps a second writer away from a file."""


class UnreadTypeWarning(UserWarning):
    """A group or dataset of the file is left out, since no container can be made of it."""


class WrongTargetWarning(UserWarning):
    """A link or reference leads to an object with another id than the one that was meant."""
