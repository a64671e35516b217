"""What stands beside the place of a file until it is whole: how it is called, and what writers that died leave of it.

The names begin with a dot and the name of the file, and end in ``.partial``. What is moved aside while a file is
replaced, on systems that cannot exchange two names, ends in ``.old`` as well, and is the old file itself.

Source: issue "Nothing lost, nobody let in", part 1.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import uuid
from contextlib import suppress

PARTIAL = ".partial"
ASIDE = ".old"

NAME_LETTERS = 40
"""Letters of the file's name in that of what stands beside it, which must not become too long."""


def prefix_of(target: str) -> str:
    """Return what the names of all that stands beside ``target`` begin with; of no other file's."""
    name = os.path.basename(target)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]  # the name is cut, and others may begin like it
    return f".{name[:NAME_LETTERS]}.{digest}"


def partial_path(target: str) -> str:
    """Return a path beside ``target`` that nobody uses yet."""
    return os.path.join(os.path.dirname(target), f"{prefix_of(target)}.{uuid.uuid4().hex}{PARTIAL}")


def sweep(target: str) -> None:
    """Remove what a writer that died has left beside ``target``, and give the old file its place back.

    Whoever calls this is the only writer.
    """
    folder = os.path.dirname(target)
    pattern = re.compile(re.escape(prefix_of(target)) + rf"\.[0-9a-f]{{32}}{PARTIAL}({ASIDE})?")
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            found = pattern.fullmatch(name)
            if found is None:
                continue
            path = os.path.join(folder, name)
            if found[1] and not os.path.lexists(target):
                os.rename(path, target)
            else:
                remove(path)


def interrupted_conversions(target: str) -> list[str]:
    """Return the paths of what conversions to ``target`` that were interrupted have left, to be resumed."""
    folder = os.path.dirname(target)
    pattern = re.compile(re.escape(conversion_prefix(target)) + r"-[0-9a-f]{12}" + re.escape(PARTIAL))
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if pattern.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def conversion_prefix(target: str) -> str:
    """Return what the names of all that belongs to a conversion to ``target`` begin with."""
    return f"{prefix_of(target)}.conversion"


def remove(path: str) -> None:
    """Delete a file, a link or a whole folder."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
