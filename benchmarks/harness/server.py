"""A web server of one folder, for one reader at a time or several, that counts: requests, and bytes that it sends.

Run as a script: it prints its port, and ``/-/counts`` tells the counts so far.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

COUNTS = "/-/counts"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)$")


class CountingServer(ThreadingHTTPServer):
    """Serves a folder on a free port of this machine alone."""

    daemon_threads = True
    request_queue_size = 256  # clients that begin at once

    def __init__(self, folder: str) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=folder))
        self.requests = 0
        self.sent = 0
        self.lock = Lock()


class _Handler(SimpleHTTPRequestHandler):
    server: CountingServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement

    def do_GET(self) -> None:
        """Send a file, a part of it, or a listing."""
        if self.path == COUNTS:
            self._send(
                HTTPStatus.OK, json.dumps({"requests": self.server.requests, "bytes": self.server.sent}).encode()
            )
            return
        with self.server.lock:
            self.server.requests += 1
        wanted = _RANGE.match(self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if wanted and path.is_file():
            self._send_part(path, int(wanted[1]), wanted[2])
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        """Tell the size of a file."""
        with self.server.lock:
            self.server.requests += 1
        super().do_HEAD()

    def _send_part(self, path: Path, first: int, last: str) -> None:
        size = path.stat().st_size
        end = min(int(last) + 1 if last else size, size)
        if first >= size:
            self._send(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", {"Content-Range": f"bytes */{size}"})
            return
        with open(path, "rb") as file:
            file.seek(first)
            body = file.read(end - first)
        self._send(HTTPStatus.PARTIAL_CONTENT, body, {"Content-Range": f"bytes {first}-{end - 1}/{size}"})

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.copyfile(BytesIO(body), self.wfile)

    def end_headers(self) -> None:
        """Say that parts can be asked for."""
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send and count."""
        body = source.read()
        if self.path != COUNTS:
            with self.server.lock:
                self.server.sent += len(body)
        outputfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def main() -> None:
    """Serve the folder that is the first argument until the process is ended."""
    server = CountingServer(sys.argv[1])
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
