"""An S3 server of the folders in one folder, each a bucket, that counts and can be told to be as slow as a far one.

It knows what readers and writers of Zarr ask for: objects and ranges of them, listings, puts and deletions; nobody's
signature is looked at. Run as a script with the folder and the seconds that each request takes longer, it prints its
port; ``/-/counts`` tells the counts so far, and ``/-/delay/0.1`` changes these seconds.

Source: Amazon S3 API reference, "GetObject", "ListObjectsV2", "DeleteObjects".
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections.abc import Iterator
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

COUNTS = "/-/counts"
DELAY = "/-/delay/"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)$")
_SUFFIX = re.compile(r"bytes=-(\d+)$")
_PAGE = 1000
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class BucketServer(ThreadingHTTPServer):
    """Serves buckets on a free port of this machine alone.

    Parameters
    ----------
    folder : pathlib.Path
        Holds a folder for each bucket.
    delay : float
        Seconds that each request waits before it is answered.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: Path, delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.delay = delay
        self.requests = 0
        self.sent = 0
        self.lock = Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that have hung up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: BucketServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement

    def do_GET(self) -> None:
        """Send an object, a range of it, or a listing."""
        if self.path.startswith(DELAY):
            self.server.delay = float(self.path.removeprefix(DELAY))
        if self.path.startswith((COUNTS, DELAY)):
            counts = {"requests": self.server.requests, "bytes": self.server.sent}
            self._send(HTTPStatus.OK, json.dumps(counts).encode())
            return
        bucket, key, query = self._begin()
        if not key:
            self._send(HTTPStatus.OK, _listing(self.server.folder / bucket, query).encode())
        else:
            self._send_object(self.server.folder / bucket / key)

    def do_HEAD(self) -> None:
        """Tell the size of an object."""
        bucket, key, _ = self._begin()
        path = self.server.folder / bucket / key
        if path.is_file() or (not key and path.is_dir()):
            self._send(HTTPStatus.OK, b"", _facts(path), size=path.stat().st_size if key else 0)
        else:
            self._send(HTTPStatus.NOT_FOUND, b"")

    def do_PUT(self) -> None:
        """Take an object, if what is there is as the client wants it; it is there whole or not at all."""
        bucket, key, _ = self._begin()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.server.folder / bucket / key
        there = _facts(path)["ETag"] if path.is_file() else None
        wanted = self.headers.get("If-Match")
        if (there and self.headers.get("If-None-Match") == "*") or wanted not in (None, there):
            self._send(HTTPStatus.PRECONDITION_FAILED, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.server.folder / f".{uuid.uuid4().hex}.partial"
        partial.write_bytes(body)
        os.replace(partial, path)
        self._send(HTTPStatus.OK, b"", _facts(path))

    def do_DELETE(self) -> None:
        """Delete an object."""
        bucket, key, _ = self._begin()
        (self.server.folder / bucket / key).unlink(missing_ok=True)
        self._send(HTTPStatus.NO_CONTENT, b"")

    def do_POST(self) -> None:
        """Delete the objects that the body names."""
        bucket, _, _ = self._begin()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            (self.server.folder / bucket / unescape(key)).unlink(missing_ok=True)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._send(HTTPStatus.OK, f"<DeleteResult {_NAMESPACE}>{deleted}</DeleteResult>".encode())

    def _begin(self) -> tuple[str, str, dict[str, str]]:
        """Count the request, wait, and return bucket, key and query."""
        with self.server.lock:
            self.server.requests += 1
        time.sleep(self.server.delay)
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        return bucket, key, {name: values[0] for name, values in parse_qs(parts.query).items()}

    def _send_object(self, path: Path) -> None:
        if not path.is_file():
            self._send(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        facts, size = _facts(path), path.stat().st_size
        wanted, suffix = (pattern.match(self.headers.get("Range", "")) for pattern in (_RANGE, _SUFFIX))
        if not (wanted or suffix):
            self._send(HTTPStatus.OK, path.read_bytes(), facts)
            return
        first = int(wanted[1]) if wanted else max(0, size - int(suffix[1])) if suffix else 0
        end = min(int(wanted[2]) + 1, size) if wanted and wanted[2] else size
        if first >= size:
            self._send(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"<Error><Code>InvalidRange</Code></Error>")
            return
        facts["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        with path.open("rb") as file:
            file.seek(first)
            self._send(HTTPStatus.PARTIAL_CONTENT, file.read(end - first), facts)

    def _send(
        self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None, *, size: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        if not self.path.startswith((COUNTS, DELAY)):
            with self.server.lock:
                self.server.sent += len(body)
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _facts(path: Path) -> dict[str, str]:
    info = path.stat()
    return {
        "ETag": f'"{info.st_size}-{info.st_mtime_ns}"',
        "Last-Modified": formatdate(info.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
    }


def _listing(bucket: Path, query: dict[str, str]) -> str:
    """Return a page of the answer to ListObjectsV2."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token") or query.get("start-after", "")
    most = min(int(query.get("max-keys", _PAGE)), _PAGE)
    names = sorted(set(_names(bucket, prefix, delimiter)))
    page = [name for name in names if name > after][: most + 1]
    is_cut = len(page) > most
    parts = [f"<Name>{escape(bucket.name)}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>{most}</MaxKeys>"]
    parts.append(f"<KeyCount>{min(len(page), most)}</KeyCount><IsTruncated>{str(is_cut).lower()}</IsTruncated>")
    if is_cut:
        parts.append(f"<NextContinuationToken>{escape(page[most - 1])}</NextContinuationToken>")
    for name in page[:most]:
        if delimiter and name.endswith(delimiter):
            parts.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            continue
        info = (bucket / name).stat()
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(info.st_mtime))
        parts.append(
            f"<Contents><Key>{escape(name)}</Key><LastModified>{when}</LastModified>"
            f"<ETag>&quot;{info.st_size}-{info.st_mtime_ns}&quot;</ETag><Size>{info.st_size}</Size></Contents>"
        )
    return f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult {_NAMESPACE}>{"".join(parts)}</ListBucketResult>'


def _names(bucket: Path, prefix: str, delimiter: str) -> Iterator[str]:
    """Yield the keys that begin with ``prefix``, each cut after the first delimiter behind it."""
    above = bucket / prefix.rpartition("/")[0]
    for folder, _, names in os.walk(above):
        for name in names:
            key = Path(folder, name).relative_to(bucket).as_posix()
            if key.startswith(prefix):
                rest = key[len(prefix) :]
                head, found, _ = rest.partition(delimiter) if delimiter else (rest, "", "")
                yield prefix + head + found


def main() -> None:
    """Serve the folder that is the first argument, each request later by the second, until the process is ended."""
    server = BucketServer(Path(sys.argv[1]), float(sys.argv[2]))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
