"""Limits and rules of reading: how much of a file is read before it is refused, and where its links may lead.

A file can state anything: a document of a terabyte, a chunk of an exabyte, a kilobyte that becomes gigabytes. Each
thing that grows with what a file states has a limit here, and an error that names it. The rules are kept with the
store, so that all who read from it, in whatever thread or process, hold to the same.

Source: issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from hdmf_zarr_backend.errors import LimitError, UsageError

MissingChunks = Literal["fill", "error"]
ExternalLinks = Literal["follow", "within", "never"]

_MEMORY_UNKNOWN = 2**40


def _memory() -> int:
    """Return the bytes of memory of this machine: nothing larger can be read at once."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return _MEMORY_UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a file may ask for. Each limit has a name, which the error of a file that exceeds it contains.

    Attributes
    ----------
    max_document_bytes : int
        Bytes of one metadata document, the consolidated one included, and of all that are read together.
    max_documents : int
        Metadata documents of one file.
    max_depth : int
        Groups inside of each other.
    max_stored_bytes : int
        Bytes of one stored chunk or shard index, as they are in the store.
    max_chunk_bytes : int
        Bytes of one decoded chunk (8 for each object).
    max_object_bytes : int
        Bytes that a chunk of text, bytes, references or rows decompresses to, or a compressed entry of a zip file.
    max_read_bytes : int
        Bytes that one selection of an array asks for (8 for each object); default: the memory of the machine.
    max_read_chunks : int
        Chunks that one selection of an array touches.
    max_unwritten_bytes : int
        Bytes of the values of those chunks of one array that are stated and not stored, where the array is copied: the
        copy has them all. A chunk counts as 64 KiB at least. Likewise the values of a dataset of HDF5 that were never
        written.
    max_links : int
        Links that lead from one to the next.
    max_files : int
        Other files that a file leads to by its links.
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

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if type(value) is not int or value < 0:
                raise UsageError(f"{entry.name}={value!r} is no limit", remedy="Give a whole number, 0 or more.")

    def check(self, name: str, value: int, what: str) -> None:
        """Raise if ``value`` is more than the limit ``name``.

        Parameters
        ----------
        name : str
            Of an attribute.
        value : int
            What the file asks for.
        what : str
            What it is, for the message: ``"the chunks have 4398046511104 bytes each"``.

        Raises
        ------
        LimitError
            Naming the limit, and how it is raised.
        """
        if value > getattr(self, name):
            raise self.exceeded(name, value, what)

    def exceeded(self, name: str, value: int, what: str) -> LimitError:
        """Return the error of `check` for the limit ``name``; ``value`` and ``what`` as there."""
        return LimitError(
            f"{what}: the limit {name} is {getattr(self, name):,}",
            remedy=f"If this file is to be trusted, raise it: limits=Limits({name}={_rounded(value)}).",
        )


def _rounded(value: int) -> str:
    """Return a number that is easy to type and no less."""
    power = max(0, (value - 1).bit_length())
    return f"2**{power}" if value > 10**6 else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """What holds when a file is read.

    Attributes
    ----------
    limits : Limits
        How much.
    missing_chunks : {"fill", "error"}, optional
        What a chunk that is not stored reads as: the fill value, or a `ChunkError`. None: the fill value; but an error
        where the chunk is to be copied, and the file states that all its chunks were stored.
    is_whole, is_copied : bool
        Whether the file states that, and whether it is being copied.
    is_linked : bool
        Whether it was not the user but another file that named this one.
    external_links : {"follow", "within", "never"}, optional
        Which other files links and references may lead to: all; those in the folder of the file, and below; none. None:
        "follow" for a local file, as with HDF5, and "within" for a remote one. Never from a remote file to a local one.
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
