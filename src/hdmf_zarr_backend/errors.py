"""All errors that this package raises on purpose, and its warnings.

Grouped by what a handler would do:

.. code-block:: text

    ZarrBackendError                anything from this package
    ├── StoreError                  look at the path or the store
    │   ├── StoreNotFoundError      (also FileNotFoundError)
    │   ├── NotZarrError            something else is there
    │   │   └── IsHdf5Error         an HDF5 file
    │   ├── StoreExistsError        (also FileExistsError) choose another path, or overwrite
    │   ├── StoreRefusedError       (also PermissionError) no permission, or no credentials
    │   ├── StoreFullError          (also OSError) the disk, or a quota, is full
    │   ├── StoreLockedError        another writer has the file open
    │   ├── StoreUnreachableError   (also ConnectionError) no answer, or a server error
    │   ├── ReadOnlyStoreError      this kind of store cannot be changed
    │   ├── LinkRefusedError        a link to a file that is not allowed
    │   └── IncompleteStoreError    a write was interrupted
    ├── DamagedFileError            run `zarrio verify` on the file
    │   ├── MetadataError           a document does not parse or contradicts itself
    │   ├── ChunkError              a chunk does not decode, or has the wrong size
    │   ├── ReferenceTargetError    (also KeyError) the target does not exist
    │   └── UnsafeDataError         data that could only be decoded by running code
    ├── WriteError                  change what is written
    │   ├── NameRefusedError        a name that no store can hold
    │   ├── ValueRefusedError       a value that Zarr cannot store
    │   ├── ConflictError           (also ValueError) something else is there already
    │   ├── MissingTargetError      (also ValueError) a link or reference would lead to nothing
    │   └── WorkerLostError         a worker or a whole cluster has died; run it again
    ├── UsageError                  (also ValueError) change the call
    │   ├── ModeError               not possible in this mode
    │   └── WrongArgumentError      (also TypeError) no such argument, or one of another type
    ├── LimitError                  a limit of `Limits`; raise it if you trust the file
    ├── NestingError                (also RecursionError) nest less deeply
    ├── ResourceError               too many files are open; close some, or raise the limit
    │   └── OutOfMemoryError        (also MemoryError) free memory, or read less at a time
    └── UnsupportedFileError        a kind of file that cannot be read, e.g. NWB 1.x
        └── MissingCodecError       (also MetadataError) install the codec, or register it

An error reads ``FILE: problem (node). Remedy.``; these parts are also attributes. `at` gives errors their place.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import currentframe
from typing import ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def printable(text: str) -> str:
    """Return text on one line, with escapes for control characters and marks that change the direction of text.

    For all text of a file, which may be crafted, in what is printed: names, values, and errors that quote them.
    """
    # a name with escape sequences could clear the screen, or print what looks like a verdict of `zarrio verify`
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# user and password before a host (RFC 3986, 3.2.1); parameters of signed URLs of S3, Google and Azure
_USER = re.compile(r"(?<=://)[^\s/?#@:]*:[^\s/?#@]+(?=@)")
_HIDDEN = r"[\w-]*(?:sig|token|secret|password|credential|key|accessid)[\w-]*"
_SIGNED = re.compile(rf"(?i)(?<=[?&])({_HIDDEN})=[^\s&#'\")]+(?<!\.)")  # without the full stop of a sentence


def without_secrets(text: str) -> str:
    """Return text with ``***`` for the passwords and signatures in URLs, since logs and reports quote errors."""
    return _SIGNED.sub(r"\1=***", _USER.sub("***", text)) if "://" in text else text


def _one_line(message: str) -> str:
    """Return a message on one line, without secrets; the lines of a text of another library in it are joined."""
    # hdmf and h5py put line breaks into messages; `zarrio` promises one line for each error
    text = " ".join(map(str.strip, message.splitlines())) if "\n" in message else message
    return printable(without_secrets(text))


_LIBRARIES = frozenset({"hdmf_zarr_backend", "hdmf", "pynwb", "contextlib"})


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with a message that may quote a file, at the line of the user that led here."""
    # Python 3.11 has no `skip_file_prefixes`, and hdmf calls constructors and writes through functions of its own
    frame, level = currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(_one_line(message), category, stacklevel=level)


_LONGEST_PATH = 400  # letters of the path of a node in a message


# The message is put together where it is shown: file and node are often filled in later, by `at`, far from where the
# problem was noticed.
class ZarrBackendError(Exception):
    """Base of all errors of this package.

    Parameters
    ----------
    problem : str
        What is wrong, without a full stop.
    store : object, optional
        The path or URL of the file; shown as text.
    path : str, optional
        Path of the node inside the file; shown with a leading slash.
    remedy : str, optional
        What to do about it, as a sentence; by default the advice of the class.
    remedy_cli : str, optional
        The same for the command line, where it differs: with options of `zarrio` in place of arguments of Python.

    Attributes
    ----------
    advice : str
        What to do about errors of the class that have no remedy of their own.
    """

    advice: ClassVar[str] = ""

    def __init__(
        self, problem: str, *, store: object = None, path: str | None = None, remedy: str = "", remedy_cli: str = ""
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.store: str | None = None
        self.path: str | None = None
        self.remedy = remedy or self.advice
        self.remedy_cli = remedy_cli
        self.locate(store, path)

    def locate(self, store: object = None, path: str | None = None) -> None:
        """Name the store and the node, each unless it is known already.

        Parameters
        ----------
        store : object, optional
            A store, a file or an array, which has a ``location``; or the location itself.
        path : str, optional
            Path of the node.
        """
        # the innermost block knows best: an error of a linked file keeps the name of that file
        if self.store is None and store is not None:
            self.store = str(getattr(store, "location", store))
        if self.path is None and path is not None:
            self.path = path if path.startswith("/") else f"/{path}"

    def __str__(self) -> str:
        return self._message(self.remedy)

    def cli_text(self) -> str:
        """Return the message for the command line."""
        return self._message(self.remedy_cli or self.remedy)

    def _message(self, remedy: str) -> str:
        file = "" if self.store is None else f"{_one_line(self.store)}: "
        path = printable(self.path or "")
        if len(path) > _LONGEST_PATH:  # a file may have names of 65,000 letters
            path = f"{path[: _LONGEST_PATH // 2]}...{path[-_LONGEST_PATH // 2 :]}"
        node = f" ({path})" if path else ""
        return f"{file}{_one_line(self.problem)}{node}{f'. {_one_line(remedy)}' if remedy else ''}"

    def __reduce__(self) -> tuple[object, ...]:
        # errors of worker processes are pickled, and Exception pickles only the arguments by position
        make = partial(type(self), store=self.store, path=self.path, remedy=self.remedy, remedy_cli=self.remedy_cli)
        return make, (self.problem,)


# A class and not a generator with `contextmanager`: it is entered for each read of an array, and costs a third.
class at:  # reads as a part of the statement: with at(store, path)
    """Name the store and the node in errors of the block that do not name them; as for `ZarrBackendError.locate`."""

    __slots__ = ("path", "store")

    def __init__(self, store: object = None, path: str | None = None) -> None:
        self.store = store
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ZarrBackendError):
            error.locate(self.store, self.path)


class StoreError(ZarrBackendError):
    """Something is wrong with the store itself."""

    advice = "Check the path or the URL, and that you may read it."


class StoreNotFoundError(StoreError, FileNotFoundError):
    """Nothing exists at this location."""


class NotZarrError(StoreError):
    """Something exists at this location, but not a Zarr hierarchy that HDMF can read."""


class IsHdf5Error(NotZarrError):
    """An HDF5 file is at this location, which this function does not read; others go on with it."""


class StoreExistsError(StoreError, FileExistsError):
    """Something exists at this location, and may not be overwritten."""


class StoreRefusedError(StoreError, PermissionError):
    """The server or the system denies access: credentials or permissions are missing, wrong or insufficient."""


class StoreFullError(StoreError, OSError):
    """The disk, or the quota of the user, is full."""


class StoreLockedError(StoreError):
    """Another writer has the file open, or this one has lost its lock. The message names host, process and time."""


class StoreUnreachableError(StoreError, ConnectionError):
    """The server sent no answer, an incomplete answer or a server error, also after retries."""


class ReadOnlyStoreError(StoreError):
    """A store of this kind cannot be written, or cannot be changed after it was written."""


class LinkRefusedError(StoreError):
    """A link or reference points to a file that ``external_links`` does not allow."""


class IncompleteStoreError(StoreError):
    """A write to this store was interrupted."""


class ResourceError(ZarrBackendError):
    """The process, or the machine, is out of file descriptors or memory. The file is not at fault."""


class OutOfMemoryError(ResourceError, MemoryError):
    """There is not enough memory. The file is not at fault."""


class DamagedFileError(ZarrBackendError):
    """The file contradicts itself or the format."""

    advice = "Run `zarrio verify` on the file."


class MetadataError(DamagedFileError):
    """A metadata document is not valid."""


class ChunkError(DamagedFileError):
    """A chunk cannot be decoded, or a required chunk is missing."""


RESTORE_CHUNK = (
    "Restore it from a copy, or save the rest with `zarrio convert --missing-chunks fill` (an HDF5 file: after `zarrio "
    "convert --chunks keep`), which names each lost chunk and writes the fill value for it."
)


class ReferenceTargetError(DamagedFileError, KeyError):
    """A link or reference points to something that does not exist."""


class UnsafeDataError(DamagedFileError):
    """The data could only be decoded by running code that the file names, which this package never does."""


class WriteError(ZarrBackendError):
    """Something cannot be written in the given form."""


class LimitError(ZarrBackendError):
    """A file exceeds one of the `Limits`. The message names the limit and how to raise it."""


class NestingError(ZarrBackendError, RecursionError):
    """Groups are nested deeper than the recursion limit of Python or the path limit of a file system allows."""


class NameRefusedError(WriteError, ValueError):
    """A name that no Zarr store can hold."""


class ValueRefusedError(WriteError, TypeError):
    """A value that Zarr cannot store."""

    advice = "Convert the value, or give the dataset or attribute a type that can hold it."


class ConflictError(WriteError, ValueError):
    """The file already contains something else."""


class MissingTargetError(WriteError, ValueError):
    """A link or reference to be written has no target, or has another object as its target."""


class WorkerLostError(WriteError):
    """A worker process, or its cluster, has died. The data are not at fault."""


class UsageError(ZarrBackendError, ValueError):
    """A call with invalid arguments, or with arguments that do not fit together."""


class ModeError(UsageError):
    """The operation is not possible in the mode in which the file was opened."""


class WrongArgumentError(UsageError, TypeError):
    """An argument that does not exist, or has the wrong type."""


OPTIONS: dict[str, str] = {}  # filled by `options`, which imports this module
"""Field of an option class -> how it is given: ``"read_options=ReadOptions"``."""

_UNNEEDED = ("allow_pickle", "max_threads_per_process", "multiprocessing_context", "object_codec_class", "synchronizer")
_OF_HDMF_ZARR: dict[str, str] = {"number_of_jobs": "executor", **dict.fromkeys(_UNNEEDED, "")}
"""Argument of hdmf-zarr that only the alias takes -> the option here; empty if it is not needed."""


# Python itself suggests names from 3.13 on only, and raises TypeError, which says nothing about option classes.
def known_arguments(function: Callable[P, T], *, called: str = "") -> Callable[P, T]:
    """Make a function (``called`` in errors) name the most similar argument when it gets one that it does not take."""
    code = function.__code__  # once, when the function is defined: the check is a comparison of sets in each call
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self", "cls"}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not known.issuperset(kwargs):
            raise unknown_argument(called or function.__qualname__.removesuffix(".__init__"), kwargs, known)
        return function(*args, **kwargs)

    return call


def unknown_argument(name: str, arguments: Iterable[str], known: frozenset[str]) -> WrongArgumentError:
    """Return the error for the first of the ``arguments`` that the function or class ``name`` does not take."""
    from difflib import get_close_matches  # imported here: few calls have a mistake

    unknown = next(argument for argument in arguments if argument not in known)
    meant = _OF_HDMF_ZARR.get(unknown, unknown)
    option = OPTIONS.get(meant, "")
    similar = get_close_matches(unknown, known, n=1)
    if not meant:
        remedy = "Leave it out."
    elif option.partition("=")[0] in known:
        remedy = f"Give {option}({meant}=...)."
    elif option and "IO." in name:
        remedy = f"Give it when you open the file: {option}({meant}=...)."
    else:
        remedy = f"Did you mean {similar[0]!r}?" if similar else f"It takes {', '.join(sorted(known))}."
    return WrongArgumentError(f"{name} does not take the argument {unknown!r}", remedy=remedy)


class UnsupportedFileError(ZarrBackendError):
    """A file of a kind that cannot be read, such as NWB 1.x."""


class MissingCodecError(UnsupportedFileError, MetadataError):
    """A codec that is not installed, or not registered here. What goes on past a `MetadataError` goes on past this."""


class DamagedMetadataWarning(UserWarning):
    """The consolidated document cannot be used; the documents of the nodes are read instead."""


class DroppedChangesWarning(UserWarning):
    """Changes to arrays were not written because an exception ended the block in which they were made."""


class FilterReplacedWarning(UserWarning):
    """A dataset is stored with other filters, because its own are lossy, not installed, or unknown to the format."""


class FormatsDifferWarning(UserWarning):
    """A file has metadata in both formats, and one of them is out of date. The newer one is read."""


class JournalWarning(UserWarning):
    """A change was interrupted. What it left was undone or completed, or cannot be yet."""


class LengthWarning(UserWarning):
    """Data have another length now, which their timestamps, ranges of samples, or other series do not fit."""


class MissingNamespacesWarning(UserWarning):
    """A file has no cached namespaces, so the installed ones are used."""


class NaNPayloadWarning(UserWarning):
    """NaN values lose their sign and payload, because they are stored as JSON."""


class PortableNameWarning(UserWarning):
    """A name is stored that is not valid in the file systems of other machines."""


class UnlockedWarning(UserWarning):
    """A file is changed without a lock, so a second writer could change it at the same time."""


class UnreadTypeWarning(UserWarning):
    """A group or dataset of the file is left out, because no container can be made for it."""


class WrongTargetWarning(UserWarning):
    """A link or reference points to an object with another id than the one recorded."""


# the page of errors lists `__all__`: a new class is on it at once
_PUBLIC = (ZarrBackendError, UserWarning)
__all__ = [name for name, cls in sorted(globals().items()) if isinstance(cls, type) and issubclass(cls, _PUBLIC)]
