"""The tree of a file as `zarrio inspect` and `zarrio plan` print it."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.command import symbols_for
from hdmf_zarr_backend.model.render import render

if TYPE_CHECKING:
    from hdmf_zarr_backend.read.outline import Outline


def tree_lines(outline: Outline, arguments: Namespace) -> list[str]:
    """Return the lines of a tree, for standard output; ``arguments`` has ``depth`` and ``all``."""
    symbols = symbols_for(sys.stdout)
    outline.times = symbols.times
    return render(
        outline.hierarchy,
        outline.describe,
        outline.columns,
        depth=arguments.depth,
        whole=arguments.all,
        symbols=symbols,
    )
