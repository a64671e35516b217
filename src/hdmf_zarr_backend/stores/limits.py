"""`Limits` and `ReadRules`: how much of a file is read before it is refused, and which codecs and links it may use.

A file can state anything: a document of a terabyte, a chunk of an exabyte, a kilobyte that expands to gigabytes. Every
size that a file states has a limit here, and an error that names the limit. The rules are kept with the store, so that
they hold for all its readers, in any thread or process.

Source: docs/explanation/bad-input.md, "Sizes"; CWE-409, for data that expand when they are decompressed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from hdmf_zarr_backend.errors import LimitError, UsageError, known_arguments

MissingChunks = Literal["fill", "error"]
ExternalLinks = Literal["follow", "within", "never"]

_MEMORY_UNKNOWN = 2**40


def _memory() -> int:
    """Return the bytes of memory of this machine: nothing larger can be read at once."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return _MEMORY_UNKNOWN


MEMORY_BUDGET = 128 * 2**20
"""Default limit for the bytes of values in memory, in addition to the caller's own arrays."""


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
        Bytes of the values of the chunks of one array that are not stored, when the array is copied, since the copy has
        them all. A chunk counts as at least 64 KiB. Likewise the values of an HDF5 dataset that were never written.
    max_links : int
        Length of a chain of links.
    max_files : int
        Other files that a file names in its links.
    plug_in_codecs : bool
        Whether codecs of other installed packages decode chunks. False: only those of numcodecs and this package.
    """

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
            raise UsageError(f"plug_in_codecs={self.plug_in_codecs!r} is not a choice", remedy="Give True or False.")
        for entry in fields(self):
            value = 0 if entry.name == "plug_in_codecs" else getattr(self, entry.name)
            if type(value) is not int or value < 0:
                raise UsageError(f"{entry.name}={value!r} is not a limit", remedy="Give a whole number, 0 or more.")

    def check(self, name: str, value: int, what: str) -> None:
        """Raise if ``value`` is more than the limit ``name``.

        Parameters
        ----------
        name : str
            Name of the limit.
        value : int
            The size in the file.
        what : str
            Description for the message: ``"the chunks have 4398046511104 bytes each"``.

        Raises
        ------
        LimitError
            The error names the limit, and how to raise it.
        """
        if value > getattr(self, name):
            raise self.exceeded(name, value, what)

    def exceeded(self, name: str, value: int, what: str, advice: str = "") -> LimitError:
        """Return the error of `check` for the limit ``name``; ``advice`` is what else to do about it."""
        limits = f"limits=Limits({name}={_rounded(value)})"
        return LimitError(
            f"{what}: the limit {name} is {getattr(self, name):,}",
            remedy=f"{advice}If you trust this file, raise it: {limits}.",
            remedy_cli=f"{advice}If you trust this file, raise it in Python: {limits}.",
        )


Limits.__init__ = known_arguments(Limits.__init__)  # type: ignore[method-assign] # that of the dataclass


def _rounded(value: int) -> str:
    """Return a number that is easy to type and not smaller."""
    power = max(0, (value - 1).bit_length())
    return f"2**{power}" if value > 10**6 else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """Rules for reading a file.

    Attributes
    ----------
    limits : Limits
        Limits of sizes.
    missing_chunks : {"fill", "error"}, optional
        Whether a chunk that is not stored reads as the fill value, or raises a `ChunkError`. None: the fill value;
        but an error if the chunk is copied, and the file states that all its chunks were stored.
    is_whole, is_copied : bool
        Whether the file states that, and whether it is being copied.
    is_linked : bool
        Whether another file, not the user, named this one.
    external_links : {"follow", "within", "never"}, optional
        Which other files links and references may name: all; those in the folder of the file and below; none. None
        means "follow" for a local file, as with HDF5, and "within" for a remote one. A remote file never leads to a
        local one.
    """

    limits: Limits = field(default_factory=Limits)
    missing_chunks: MissingChunks | None = None
    external_links: ExternalLinks | None = None
    is_whole: bool = False
    is_copied: bool = False
    is_linked: bool = False

    def __post_init__(self) -> None:
        for name, known in (("missing_chunks", get_args(MissingChunks)), ("external_links", get_args(ExternalLinks))):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise UsageError(f"{name}={value!r} is unknown", remedy=f"Use one of {', '.join(known)}.")

    @property
    def refuses_absent(self) -> bool:
        """Whether a chunk that is not stored is an error."""
        return self.missing_chunks == "error" or (self.missing_chunks is None and self.is_whole and self.is_copied)


DEFAULT_RULES = ReadRules()
