"""Telling whether two spellings of a location mean one file."""

from __future__ import annotations

import os

from hdmf_zarr_backend.model.locations import is_url


def full_location(source: str) -> str:
    """Return a URL as it is, and the absolute path of anything else."""
    return source if is_url(source) else os.path.abspath(source)


def is_same_place(one: str, other: str) -> bool:
    """Tell whether two full locations are those of one file, through symbolic links too."""
    if is_url(one) or is_url(other):
        return one == other
    return os.path.realpath(one) == os.path.realpath(other)
