"""Runs the Python of pages one after the other in one process of its own: what takes longest is loading the libraries.

``python -m tests.pagerunner`` reads a line of JSON for each page, with a folder and pieces of code, and answers with a
line: the output of each piece, and what was written to standard error.
"""

from __future__ import annotations

import io
import json
import os
import socketserver
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Answer(NamedTuple):
    """What the pieces of code of one page have printed, and what came out on standard error."""

    printed: list[str]
    complaints: str


class PageRunner:
    """A process that runs pages.

    Parameters
    ----------
    environment : mapping
        Variables for it, besides those of this process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error::UserWarning", "-m", "tests.pagerunner"],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(self, pieces: Sequence[str], folder: Path) -> Answer:
        """Run pieces of code, which share their names, with ``folder`` as the working directory."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"pieces": pieces, "folder": str(folder)}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process has ended"
        return Answer(**json.loads(answer))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _run(pieces: list[str], folder: str) -> dict[str, Any]:
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
    return {"printed": printed, "complaints": complaints.getvalue()}


def _let_clients_hang_up() -> None:
    """Keep the servers of pages from complaining of clients that had heard enough.

    fsspec asks whether a file is there by a GET, and reads the answer no further than its first line.
    """
    complain = socketserver.BaseServer.handle_error

    def handle_error(server: socketserver.BaseServer, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            complain(server, request, client_address)

    socketserver.BaseServer.handle_error = handle_error  # type: ignore[method-assign]


def main() -> None:
    """Answer until there is nothing more to run."""
    _let_clients_hang_up()
    answers = sys.stdout
    for line in sys.stdin:
        print(json.dumps(_run(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
