"""Servers of this machine that the tests read from and write to, with faults on request.

A web server with ranges and without a listing, that of the benchmarks; an S3 server, moto's, in a process of its own;
and a proxy in front of either that counts requests, waits, answers 503, cuts answers short, falls silent, or dies.

``HDMF_ZARR_BACKEND_S3`` names a real object store in place of moto's server, which may be wrong about it: an address
such as ``http://127.0.0.1:7480`` of Ceph, with the access key ``tester`` and the secret ``secret``.
"""

import contextlib
import functools
import http.client
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchmarks.harness.server import CountingServer

_RUNNING = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


class WebServer(CountingServer):
    """A folder behind ``http://``, without any listing."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        handler = self.RequestHandlerClass

        class WithoutListing(handler.func):  # type: ignore[misc,name-defined] # a partial of the handler's class
            def do_GET(self) -> None:
                if not self.server.has_ranges:
                    del self.headers["Range"]
                if self.server.suffix_error and self.headers.get("Range", "").startswith("bytes=-"):
                    self.send_error(self.server.suffix_error)
                else:
                    super().do_GET()

            def list_directory(self, path: Any) -> None:
                self.send_error(HTTPStatus.NOT_FOUND)

            def end_headers(self) -> None:
                path = Path(self.translate_path(self.path))
                if path.is_file():  # without it, a client does not ask for the rest of an answer that was cut
                    self.send_header("ETag", f'"{path.stat().st_size}-{path.stat().st_mtime_ns}"')
                super().end_headers()

        self.folder = folder
        self.has_ranges = True
        self.suffix_error = 0
        """The status of the answer to a range that counts from the end; 0: it is served."""
        self.RequestHandlerClass = lambda *args: WithoutListing(*args, directory=str(folder))  # type: ignore[assignment]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have disconnected."""


@contextlib.contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(endpoint, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


_ANSWERS = {
    "403": b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    "404": b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>",
    "503": b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
}

_TOGETHER = 60.0
_STALL = 20.0
"""Seconds of silence; the clients of the tests wait for five."""

Fault = Callable[[str, str, int], str | None]
"""What is wrong with a request: of method, path and number, one of 503, 403, 404, ``cut``, ``stall``, ``reset``.

A URL is where the client is redirected to.
"""


class Proxy(ThreadingHTTPServer):
    """Passes requests on, and notes method, path and names of headers of each; ``status`` is that of a redirect."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        parts = urlsplit(target)
        self.target = (parts.hostname, parts.port)
        self.requests: list[tuple[str, str]] = []
        self.headers: list[set[str]] = []
        self.status = 302
        self.busy = 0
        self.reset()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def passed_on(self, headers: dict[str, str]) -> dict[str, str]:
        """Return the headers of a request as the server behind gets them."""
        return headers

    def passed_path(self, path: str) -> str:
        """Return the path of a request as the server behind gets it."""
        return path

    def reset(self) -> None:
        """Forget the requests, and end all faults."""
        self.requests.clear()
        self.fault: Fault = lambda method, path, number: None
        self.delay = 0.0
        """Seconds that each request takes longer."""
        self.together = ("", 0)
        """Requests with this in their path wait, for a minute at most, until so many have been under way at once."""
        self.most_busy = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have disconnected."""


class _Passing(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _pass(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        server = self.server
        with server.lock:
            server.requests.append((self.command, self.path))
            server.headers.append({name.lower() for name in self.headers})
            fault = server.fault(self.command, self.path, len(server.requests))
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
        try:
            time.sleep(server.delay)
            part, wanted = server.together
            end = time.monotonic() + _TOGETHER
            while part in self.path and server.most_busy < wanted and time.monotonic() < end:
                time.sleep(0.01)
            self._answer(body, fault)
        finally:
            with server.lock:
                server.busy -= 1

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def _answer(self, body: bytes | None, fault: str | None) -> None:
        if fault in _ANSWERS:
            self._send(int(fault), {}, _ANSWERS[fault])
            return
        if fault is not None and fault.startswith("http"):
            self._send(self.server.status, {"Location": fault}, b"")
            return
        if fault in ("reset", "stall"):
            time.sleep(_STALL if fault == "stall" else 0)
            self.close_connection = True
            return
        connection = http.client.HTTPConnection(*self.server.target, timeout=600)
        with contextlib.closing(connection):
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            path = self.server.passed_path(self.path)
            connection.request(self.command, path, body=body, headers=self.server.passed_on(headers))
            answer = connection.getresponse()
            content = answer.read()
            is_cut = fault == "cut" and answer.status < HTTPStatus.MULTIPLE_CHOICES
            self._send(answer.status, dict(answer.getheaders()), content, cut=is_cut)

    def _send(self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        said = {name.lower(): value for name, value in headers.items()}
        length = said.get("content-length", str(len(content))) if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if cut:
            self.close_connection = True
            content = content[: len(content) // 2]
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log."""


class S3Server:
    """An S3 server with a bucket, through a proxy."""

    def __init__(self, endpoint: str, proxy: Proxy, bucket: str) -> None:
        self.endpoint = endpoint
        self.proxy = proxy
        self.bucket = bucket

    @property
    def options(self) -> dict[str, Any]:
        """``storage_options`` with the names of s3fs, which obstore stores accept too."""
        return {
            "key": "tester", "secret": "secret", "endpoint_url": self.proxy.url,
            "client_kwargs": {"region_name": "us-east-1"},
        }  # fmt: skip

    @property
    def direct_options(self) -> dict[str, Any]:
        """The same, past the proxy."""
        return {**self.options, "endpoint_url": self.endpoint}

    @property
    def quick_options(self) -> dict[str, Any]:
        """The same, with bounds of retries that a test can wait for."""
        return {**self.options, **quick()}

    @property
    def s3fs_options(self) -> dict[str, Any]:
        """The same, with something that only s3fs knows."""
        return {**self.options, "config_kwargs": {"retries": {"max_attempts": 2}}}

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": self.proxy.url,
            "AWS_REGION": "us-east-1",
        }  # fmt: skip

    def url(self, name: str) -> str:
        return f"s3://{self.bucket}/{name}"

    def make_bucket(self, bucket: str) -> None:
        s3_client(self.endpoint).create_bucket(Bucket=bucket)

    def _store(self) -> Any:
        from obstore.store import S3Store

        return S3Store(
            self.bucket, endpoint=self.endpoint, access_key_id="tester", secret_access_key="secret", region="us-east-1",
            client_options={"allow_http": True},
        )  # fmt: skip

    def put(self, prefix: str, contents: dict[str, bytes]) -> None:
        store = self._store()
        for key, value in contents.items():
            store.put(f"{prefix}/{key}", value)

    def contents(self, prefix: str) -> dict[str, bytes]:
        store = self._store()
        names = [entry["path"] for batch in store.list(prefix) for entry in batch]
        return {name[len(prefix) + 1 :]: bytes(store.get(name).bytes()) for name in names}

    def count(self, method: str | None = None) -> int:
        return sum(method is None or method == sent for sent, _ in self.proxy.requests)


@functools.cache
def s3_client(endpoint: str) -> Any:
    """Return a client of an S3 server, for what the stores of this package never do."""
    import boto3

    keys = {"aws_access_key_id": "tester", "aws_secret_access_key": "secret"}
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)


def quick() -> dict[str, Any]:
    """Return options with bounds of retries that a test can wait for."""
    from datetime import timedelta

    backoff = {"init_backoff": timedelta(seconds=0.02), "max_backoff": timedelta(seconds=0.1), "base": 2}
    retries = {"max_retries": 4, "backoff": backoff, "retry_timeout": timedelta(seconds=60)}
    return {"retry_config": retries, "client_options": {"timeout": "5s"}}


@contextlib.contextmanager
def moto_server() -> Iterator[str]:
    """Give the address of an S3 server in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                running = _RUNNING.search(line)
                if running:
                    break
            else:
                pytest.fail("moto's server did not start")
            # its further output must not fill the pipe
            threading.Thread(target=lambda pipe=process.stderr: [None for _ in pipe], daemon=True).start()
            yield running[1]
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def _s3_endpoint() -> Iterator[str]:
    if endpoint := os.environ.get("HDMF_ZARR_BACKEND_S3"):
        yield endpoint
        return
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def _s3_session(_s3_endpoint: str) -> Iterator[S3Server]:
    with serving(Proxy(_s3_endpoint)) as proxy:
        yield S3Server(_s3_endpoint, proxy, "")


@pytest.fixture
def s3(_s3_session: S3Server, request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """An S3 server with an empty bucket for this test, well and quick unless the test says otherwise."""
    bucket = f"bucket-{abs(hash(request.node.nodeid)) % 10**12}-{time.time_ns() % 10**6}"
    server = S3Server(_s3_session.endpoint, _s3_session.proxy, bucket)
    server.make_bucket(bucket)
    server.proxy.reset()
    yield server
    server.proxy.reset()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """The folder ``tmp_path / "web"`` behind ``http://``, without a listing."""
    folder = tmp_path / "web"
    folder.mkdir()
    with serving(WebServer(folder)) as server:
        yield server


@pytest.fixture
def web_proxy(web: WebServer) -> Iterator[Proxy]:
    with serving(Proxy(web.url)) as proxy:
        yield proxy
