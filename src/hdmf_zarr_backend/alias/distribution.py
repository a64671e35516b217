"""`AliasDistribution`: the metadata of the distribution hdmf-zarr while this package has that name.

`alias.installing` imports this module only if a program asks for the version.

Source: "Core metadata specifications" (packaging.python.org); ``importlib.metadata.Distribution``.
"""

from __future__ import annotations

import os
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any


class AliasDistribution(Distribution):
    """The distribution ``hdmf_zarr``, for programs that ask ``importlib.metadata`` for its version.

    Parameters
    ----------
    version : str
        The version.
    """

    def __init__(self, version: str) -> None:
        self._files = {
            "METADATA": f"Metadata-Version: 2.1\nName: hdmf_zarr\nVersion: {version}\n",
            "top_level.txt": "hdmf_zarr\n",
        }

    def read_text(self, filename: str) -> str | None:
        """Return a metadata file, None if it does not exist."""
        return self._files.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        """Return the path of a file of the distribution."""
        return Path(__file__).parent / path
