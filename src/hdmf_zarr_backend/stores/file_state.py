"""Which file it is, and whether it is still the same: size, time of the last change, the server's tag of the content.

Source: issue "Format 3, shards, and any store, near or far", part 4: a changed source is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SAMPLE_BYTES = 2**16
"""Bytes at each end of a file that tell a copy of it from another file of its size."""


@dataclass(frozen=True, slots=True)
class FileState:
    """What can be known of a file without reading it.

    Attributes
    ----------
    size : int
        Bytes.
    etag : str, optional
        What a server says of the content; without quotes.
    mtime_ns : int, optional
        When it was changed last, in nanoseconds since 1970.
    """

    size: int
    etag: str | None = None
    mtime_ns: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what is recorded of the file: the server's tag where there is one, since it says more than a time."""
        said = {"etag": self.etag} if self.etag is not None else {"mtime_ns": self.mtime_ns}
        return {"size": self.size, **{name: value for name, value in said.items() if value is not None}}

    def is_certainly(self, other: FileState) -> bool:
        """Tell whether tag or time say that this is the same content in the same place."""
        if self.size != other.size:
            return False
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag
        return self.mtime_ns is not None and self.mtime_ns == other.mtime_ns

    def has_same_kind(self, other: FileState) -> bool:
        """Tell whether both have a tag, or both a time, by which they can be compared."""
        both_tagged = self.etag is not None and other.etag is not None
        return both_tagged or (self.mtime_ns is not None and other.mtime_ns is not None)


def plain_tag(tag: object) -> str | None:
    """Return an entity tag without what is not part of it."""
    return tag.removeprefix("W/").strip('"') or None if isinstance(tag, str) else None


def digest_of(parts: Iterable[bytes]) -> str:
    """Return the digest of the parts of a file by which a copy of it is recognized."""
    return hashlib.sha256(b"".join(parts)).hexdigest()
