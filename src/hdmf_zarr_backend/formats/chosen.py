"""The format that a user has chosen for new files, for programs that cannot be changed. Standard library only."""

from __future__ import annotations

import os
from typing import Any

from hdmf_zarr_backend.errors import UsageError

VARIABLE = "HDMF_ZARR_BACKEND_FORMAT"
"""The environment variable with the format of new files: it reaches programs that name none, and their processes."""

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
