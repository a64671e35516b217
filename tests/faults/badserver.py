"""A web server that answers wrongly, each of its ways on a port of its own."""

from __future__ import annotations

import contextlib
import gzip
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

_HEAD = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nLast-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\nAccept-Ranges: bytes\r\n'
_SECONDS = 900
"""How long an answer takes that does not end."""

Answer = Callable[[socket.socket], None]


def _plain(head: bytes, body: bytes = b"") -> Answer:
    return lambda client: client.sendall(head + b"\r\n" + body)


def _redirect(place: bytes) -> Answer:
    return _plain(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: " + place + b"\r\n")


def _status(number: int) -> Answer:
    return _plain(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\nConnection: close\r\n" % number, b"no")


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _silent(client: socket.socket) -> None:
    time.sleep(_SECONDS)


def _slow(client: socket.socket) -> None:
    client.sendall(_HEAD + b"Content-Length: 100000\r\n\r\n")
    for _ in range(_SECONDS * 10):
        client.sendall(b" ")
        time.sleep(0.1)


def _endless(client: socket.socket) -> None:
    client.sendall(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        client.sendall(b"10000\r\n" + bytes(2**16) + b"\r\n")


def _endless_headers(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        client.sendall(b"X: " + b"y" * 1000 + b"\r\n")


_BOMB = gzip.compress(bytes(2**26))
_ZIPPED = gzip.compress(b'{"zarr_format": 2}')

ANSWERS: dict[str, Answer] = {
    "redirect-loop": _redirect(b"/again"),
    "redirect-to-file": _redirect(b"file:///etc/passwd"),
    "redirect-to-nobody": _redirect(b"http://nobody.invalid/"),
    "redirect-to-refused": _redirect(b"http://127.0.0.1:1/"),
    "longer-than-said": _plain(_HEAD + b"Content-Length: 10\r\n", b"x" * 1000),
    "shorter-than-said": _plain(_HEAD + b"Content-Length: 1000\r\nConnection: close\r\n", b"x" * 10),
    "negative-length": _plain(_HEAD + b"Content-Length: -5\r\n", b"x"),
    "enormous-length": _plain(_HEAD + b"Content-Length: 9223372036854775807\r\n", b"x"),
    "gzip": _plain(_HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(_ZIPPED), _ZIPPED),
    "gzip-bomb": _plain(_HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(_BOMB), _BOMB),
    "no-gzip": _plain(_HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n", b"{}{}"),
    "no-http": _plain(b"hello\r\n"),
    "nothing": lambda client: None,
    "reset": _reset,
    "status-500": _status(500),
    "status-429": _status(429),
    "status-418": _status(418),
    "wrong-range": _plain(
        b'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 7-8/3\r\nETag: "1"\r\n'
        b"Last-Modified: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Length: 2\r\n",
        b"{}",
    ),
    "endless-headers": _endless_headers,
    "silent": _silent,
    "slow": _slow,
    "endless": _endless,
}


@contextlib.contextmanager
def bad_server(name: str, asked: list[float] | None = None) -> Iterator[str]:
    """Give the address of a server that answers every request in one of the `ANSWERS`; ``asked``: when it was asked."""
    answer = ANSWERS[name]
    listening = socket.create_server(("127.0.0.1", 0))

    def one(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if client.recv(2**16):
                if asked is not None:
                    asked.append(time.monotonic())
                answer(client)

    def run() -> None:
        with contextlib.suppress(OSError):  # it is closed when the test ends
            while True:
                threading.Thread(target=one, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()
