"""Runs pieces of Python in one process of its own, one after the other: what takes longest is loading the libraries."""

from __future__ import annotations

import io
import os
import socketserver
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What the pieces of code of one page have printed, and what came out on standard error."""

    printed: list[str]
    complaints: str


class PageRunner:
    """A process that runs pages, with these variables besides those of this process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _start, (dict(environment),))

    def run(self, pieces: Sequence[str], folder: Path) -> Answer:
        """Run pieces of code, which share their names, with ``folder`` as the working directory."""
        return self._pool.submit(_run, list(pieces), str(folder)).result()

    def close(self) -> None:
        self._pool.shutdown()


def _run(pieces: list[str], folder: str) -> Answer:
    os.chdir(folder)
    tempfile.tempdir = folder
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: list[str] = []
    complaints = io.StringIO()
    with redirect_stderr(complaints):
        for number, piece in enumerate(pieces):
            output = io.StringIO()
            with redirect_stdout(output):
                try:
                    exec(compile(piece, f"piece {number}", "exec"), names)  # noqa: S102 - our own pages
                except BaseException:  # noqa: BLE001 - reported to the test, which fails
                    traceback.print_exc()
                    break
            printed.append(output.getvalue())
        names.clear()  # what complains when it is thrown away does so now
    return Answer(printed, complaints.getvalue())


def _start(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    warnings.simplefilter("error", UserWarning)
    complain = socketserver.BaseServer.handle_error

    def handle_error(server: socketserver.BaseServer, request: Any, client_address: Any) -> None:
        # fsspec asks whether a file is there by a GET, and reads the answer no further than its first line
        if not isinstance(sys.exception(), ConnectionError):
            complain(server, request, client_address)

    socketserver.BaseServer.handle_error = handle_error  # type: ignore[method-assign]
