"""Changes in place are dropped, with a warning, when the block that made them ends with an exception."""

from __future__ import annotations

import warnings

from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.errors import DroppedChangesWarning
from hdmf_zarr_backend.model.nodes import absolute

_SHOWN = 5


def drop_changes(edits: Edits, location: str, error: BaseException) -> None:
    """Put everything back as it was before the changes that are not written yet, and name the arrays.

    A row that a table refused is in some of its columns and not in others, and only the program that was stopped knew
    what else belonged together. So nothing of it is written, as nothing would be if the process had died.

    Parameters
    ----------
    edits : Edits
        The changes; nothing happens where there are none, or where a write of them failed and was undone.
    location : str
        The file.
    error : BaseException
        What ended the block.

    Warns
    -----
    DroppedChangesWarning
        Naming the file and the arrays.
    """
    if edits.has_failed or not edits.pending:
        return
    paths = [absolute(path) for path in sorted(edits.changed)]
    edits.undo(error)
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    warnings.warn(
        f"{location}: the changes to {', '.join(paths[:_SHOWN])}{more} were not written, since the block ended by "
        f"{type(error).__name__}; call io.write(container) before it to keep what is complete",
        DroppedChangesWarning,
        stacklevel=3,
    )
