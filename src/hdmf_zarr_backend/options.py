"""`ReadOptions`, `WriteOptions` and `Limits`: how bytes are read and written. Made by the user, and passed on whole.

A file can state anything: a document of a terabyte, a chunk of an exabyte, a kilobyte that expands to gigabytes. Every
size that a file states has a limit here, and an error that names the limit. The store keeps the options for reading, so
that they apply to everything that reads it, in any thread or process.

Source: docs/explanation/bad-input.md, "Sizes"; CWE-409, for data that expand when they are decompressed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from hdmf_zarr_backend.errors import OPTIONS, LimitError, UsageError, known_arguments
from hdmf_zarr_backend.progress import SILENT, Progress, as_progress

MissingChunks = Literal["fill", "error"]
ExternalLinks = Literal["follow", "within", "never"]
ChunkKeyEncoding = Literal["default", "v2"]


def _memory() -> int:
    """Return the bytes of memory of this machine: nothing larger can be read at once."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 2**40


MEMORY_BUDGET = 128 * 2**20
"""Default limit for the bytes of values in memory, in addition to the caller's own arrays."""

# Here and not in `encoding`, because the command line loads this module without loading that package.
CodecName = Literal["blosc", "zstd", "zlib", "none"]
CODECS: dict[CodecName, Any] = {
    "blosc": True,
    "zstd": {"id": "zstd", "level": 3},
    "zlib": {"id": "zlib", "level": 4},
    "none": False,
}
"""Compressors by the names that users give; True is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for the sizes that a file states. The error for a file beyond a limit contains its name.

    Attributes
    ----------
    max_document_bytes : int
        Bytes of one metadata document, the consolidated one included, and of all that are read together.
    max_documents : int
        Metadata documents of one file.
    max_depth : int
        Nesting depth of groups.
    max_stored_bytes : int
        Bytes of one stored chunk or shard index, as they are in the store.
    max_chunk_bytes : int
        Bytes of one decoded chunk (8 for each object).
    max_object_bytes : int
        Bytes that a chunk of text, bytes, references or rows decompresses to, or a compressed entry of a zip file.
    max_read_bytes : int
        Bytes of one selection of an array (8 for each object); default: the memory of the machine.
    max_read_chunks : int
        Chunks that one selection of an array touches.
    max_unwritten_bytes : int
        Bytes of the values in chunks of one array that are not stored, when the array is copied, because the copy
        stores them all. A chunk counts as at least 64 KiB. Also the values of an HDF5 dataset that were never written.
    max_links : int
        Length of a chain of links.
    max_files : int
        Other files that a file names in its links.
    plug_in_codecs : bool
        Decode chunks with codecs of other installed packages too. False: only with those of numcodecs and this package.
    """

    # far above real files, far below what fills a machine
    max_document_bytes: int = 2**28
    max_documents: int = 2_000_000
    max_depth: int = 2_000
    max_stored_bytes: int = 2**32
    max_chunk_bytes: int = 2**31
    max_object_bytes: int = 2**29
    max_read_bytes: int = field(default_factory=_memory)
    max_read_chunks: int = 10_000_000
    max_unwritten_bytes: int = 2**36
    max_links: int = 64
    max_files: int = 10_000
    plug_in_codecs: bool = True

    def __post_init__(self) -> None:
        if type(self.plug_in_codecs) is not bool:
            raise UsageError(f"plug_in_codecs={self.plug_in_codecs!r} is invalid", remedy="Give True or False.")
        # each limit is compared with `>`, for which a text, NaN or None would end in an error far from here, or in no
        # limit
        for entry in fields(self):
            value = 0 if entry.name == "plug_in_codecs" else getattr(self, entry.name)
            if type(value) is not int or value < 0:  # True is an int too
                raise UsageError(f"{entry.name}={value!r} is not a limit", remedy="Give a whole number, 0 or more.")

    def check(self, name: str, value: int, what: str, advice: str = "") -> None:
        """Refuse a ``value`` beyond the limit ``name``, with ``advice``; ``what``: ``"it has 2**42 bytes"``."""
        if value > getattr(self, name):
            raise self.exceeded(name, value, what, advice)

    def exceeded(self, name: str, value: int, what: str, advice: str = "") -> LimitError:
        """Return the error of `check` for ``name``, ``value`` and ``what``, with other ``advice`` before its own."""
        # 17179869185 would be copied with a digit too few; the next power of two is easy to type
        enough = f"2**{(value - 1).bit_length()}" if value > 10**6 else str(value)
        limits = f"read_options=ReadOptions(limits=Limits({name}={enough}))"
        return LimitError(
            f"{what}: the limit {name} is {getattr(self, name):,}",
            remedy=f"{advice}If you trust this file, raise it: {limits}.",
            remedy_cli=f"{advice}If you trust this file, raise it in Python: {limits}.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    def given(self) -> set[str]:
        """Return the names of the options that differ from the defaults."""
        # a frozen dataclass does not record which fields were passed; one with its default value has no effect
        default = type(self)()
        return {each.name for each in fields(self) if getattr(self, each.name) != getattr(default, each.name)}

    def _check_choice(self, name: str, known: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value is not None and value not in known:
            raise UsageError(f"{name}={value!r} is unknown", remedy=f"Use one of {', '.join(known)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(_Options):
    """How a file is read, by everything that reads one.

    Attributes
    ----------
    limits : Limits
        Largest documents, chunks, selections and chains of links that are read. They also apply to the HDF5 datasets
        that are written from.
    missing_chunks : {"fill", "error"}, optional
        How a chunk that is not stored is read: as the fill value, as Zarr does, or as a `ChunkError`. None: the fill
        value; but an error if the chunk is copied, and the file records that all its chunks were stored. With "fill",
        `convert` decodes all chunks first, and writes the fill value for damaged ones too; its report names both.
    external_links : {"follow", "within", "never"}, optional
        Other files that links and references may lead to: any; those in the folder of the file and below; none. None:
        any from a local file, as with HDF5, and those in its folder from a remote file. A remote file never leads to a
        local one. When an HDF5 file is converted, this also applies to raw files with values and to the sources of
        virtual datasets. Raw files can be any file, so None allows them in the folder only, with a warning. Only
        regular files are read.

    Raises
    ------
    UsageError
        An option does not exist, or has an invalid value.
    """

    limits: Limits = field(default_factory=Limits)
    missing_chunks: MissingChunks | None = None
    external_links: ExternalLinks | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Limits):
            raise UsageError(
                f"limits={self.limits!r} is not a Limits", remedy="Give ReadOptions(limits=Limits(NAME=VALUE))."
            )
        self._check_choice("missing_chunks", get_args(MissingChunks))
        self._check_choice("external_links", get_args(ExternalLinks))

    def rules(self) -> ReadRules:
        """Return the rules of a store that was just opened."""
        return ReadRules(limits=self.limits, missing_chunks=self.missing_chunks, external_links=self.external_links)


# The store and not a context carries them: a lazy array may be read in another thread, or in a worker process of dask.
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules(ReadOptions):
    """The options for reading a store, with what is known about its file."""

    is_whole: bool = False  # it states that all its chunks were stored
    is_copied: bool = False  # it is being copied
    is_linked: bool = False  # another file, not the user, named it
    # the damaged chunks that are read as if they were not stored, by path
    lost: Mapping[str, Collection[tuple[int, ...]]] = field(default_factory=dict, compare=False)

    def is_lost(self, path: str, index: tuple[int, ...]) -> bool:
        """Whether a chunk is read as if it were not stored."""
        return bool(self.lost) and index in self.lost.get(path, ())

    @property
    def refuses_absent(self) -> bool:
        """Whether a chunk that is not stored is an error."""
        return self.missing_chunks == "error" or (self.missing_chunks is None and self.is_whole and self.is_copied)


DEFAULT_RULES = ReadRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(_Options):
    """How a file is written, by everything that writes one.

    Attributes
    ----------
    executor : "auto", None, "threads", "processes", int, concurrent.futures.Executor, dask.distributed.Client or str
        Where the chunks of large arrays are read, encoded and written. None: in this thread; a number: in that many
        threads; an address such as ``"tcp://host:8786"``: on the workers of a running dask cluster. "auto": in threads
        for a conversion, else in this thread. Arrays in memory and iterators are processed by threads only, and an HDF5
        file is always written by this thread. The file does not depend on the choice.
    memory_budget : int
        Bytes of values in the memory of each process at a time, beyond the arrays of the caller; a single chunk may be
        larger.
    progress : bool or Progress
        True: show a bar of tqdm, in a terminal or a notebook. A `Progress` receives the number of bytes that are done,
        from all workers. Values that are assigned or appended to datasets of an open file are not counted.
    durable : bool
        Wait until a local file is on the disk, so that it survives a power failure. False: it survives the end of this
        process, but perhaps not a power failure.
    strict_json : bool
        Write documents without NaN and Infinity tokens (hdmf-zarr 0.13 cannot read the text that replaces them). A
        store that needs such documents (Icechunk) always has them.
    consolidate_metadata : bool
        Write the consolidated document, with which one request opens the file.
    chunk_key_encoding : {"default", "v2"}, optional
        For format 3 only: the keys of chunks of new arrays. ``"default"``: ``c/0/0``, with a folder for each axis.
        ``"v2"``: ``0.0``, as in format 2; such keys are not nested as deeply, which DANDI limits. None: the keys of the
        file, or of the file of format 3 that is copied; ``"default"`` in a new file. All programs for format 3 read
        both.
    nczarr : bool
        For format 2 only: add attributes with which netcdf-c can open the file: groups, dimensions and arrays of
        numbers. A file that has them keeps them.
    doc : bool
        Write the documentation in the schema of each group and dataset as its attribute ``doc`` (storage
        specification, tables of attributes); it is hidden when the file is read. Members without a type have it if
        they come from a container.
    commit_message : str, optional
        For an Icechunk session only: commit it with this message after a conversion, or when the file is closed, unless
        an error ends the ``with`` block. None: you commit.

    Raises
    ------
    UsageError
        An option does not exist, or has an invalid value.
    """

    executor: Any = "auto"
    memory_budget: int = MEMORY_BUDGET
    progress: Progress | bool = SILENT
    durable: bool = False
    strict_json: bool = False
    consolidate_metadata: bool = True
    chunk_key_encoding: ChunkKeyEncoding | None = None
    nczarr: bool = False
    doc: bool = False
    commit_message: str | None = None

    def __post_init__(self) -> None:
        if type(self.memory_budget) is not int or self.memory_budget < 1:
            raise UsageError(f"memory_budget={self.memory_budget!r} is not a number of bytes", remedy="Give 1 or more.")
        for name in ("durable", "strict_json", "consolidate_metadata", "nczarr", "doc"):
            if type(getattr(self, name)) is not bool:
                raise UsageError(f"{name}={getattr(self, name)!r} is invalid", remedy="Give True or False.")
        self._check_choice("chunk_key_encoding", get_args(ChunkKeyEncoding))
        object.__setattr__(self, "progress", as_progress(self.progress))  # now, since it may lack a library

    @property
    def receiver(self) -> Progress:
        """What receives progress."""
        return as_progress(self.progress)

    def check_used(self, call: str, *names: str) -> None:
        """Refuse options that ``call`` does not use: those that differ from the defaults, except ``names``.

        Raises
        ------
        UsageError
            There is one.
        """
        for name in sorted(self.given() - set(names)):
            raise UsageError(f"{name} does not apply here: {call} has no use for it", remedy=f"Leave {name}= out.")


# a mistyped option is a UsageError that names the similar one, as in every other call of this package
for _options in (Limits, ReadOptions, WriteOptions):
    _options.__init__ = known_arguments(_options.__init__)  # type: ignore[method-assign] # that of the dataclass

DEFAULT_OPTIONS = WriteOptions()

OPTIONS |= {entry.name: "read_options=ReadOptions" for entry in fields(ReadOptions)}
OPTIONS |= {entry.name: "write_options=WriteOptions" for entry in fields(WriteOptions)}


# `zarrio exec` must set the format in a program that it does not know, and in the processes that this starts.
VARIABLE = "HDMF_ZARR_BACKEND_FORMAT"
"""The environment variable with the format of new files, for programs that name none."""

_FORMATS: dict[str, Any] = {"2": 2, "3": 3, "both": "both"}


def named_format() -> Any:
    """Return the format in the environment, 2, 3 or "both"; None if there is none."""
    text = os.environ.get(VARIABLE, "")
    if text and text not in _FORMATS:
        raise UsageError(f"the environment variable {VARIABLE} is {text!r}", remedy="Set it to 2, 3 or both.")
    return _FORMATS.get(text)


def name_format(zarr_format: Any) -> None:
    """Set the format of new files of this process, and of those that it starts."""
    if zarr_format not in _FORMATS.values():
        raise UsageError(f"there is no Zarr format {zarr_format!r}", remedy="Use 2, 3 or 'both'.")
    os.environ[VARIABLE] = str(zarr_format)
