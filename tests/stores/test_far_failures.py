"""A server that goes wrong for good while a file is opened or written; how long is waited; TLS; other schemes."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from hdmf_zarr_backend.errors import StoreRefusedError, StoreUnreachableError, ZarrBackendError
from tests import samples, trees
from tests.servers import S3Server, WebServer
from tests.storekinds import StoreKind
from tests.stores.test_kinds import check_linked_pair, linked_pair

VALUES = np.arange(1000, dtype="i4").reshape(100, 10)

FAULTS = pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("503", StoreUnreachableError),
        ("403", StoreRefusedError),
        ("reset", StoreUnreachableError),
        pytest.param("stall", StoreUnreachableError, marks=pytest.mark.slow),
    ],
)


def write(url: str, options: dict[str, Any]) -> None:
    with ZarrIO(url, "w", storage_options=options) as io:
        io.write_builder(trees.root(trees.dataset("data", VALUES)))


@FAULTS
def test_what_stays_wrong_while_a_file_is_opened(s3: S3Server, fault: str, error: type[ZarrBackendError]) -> None:
    write(s3.url("a.zarr"), s3.options)
    s3.proxy.fault = lambda method, path, number: fault
    with pytest.raises(error) as caught:
        ZarrIO(s3.url("a.zarr"), "r", storage_options=s3.quick_options)
    assert caught.value.store == s3.url("a.zarr")
    assert caught.value.remedy


@FAULTS
def test_what_stays_wrong_while_a_file_is_written(s3: S3Server, fault: str, error: type[ZarrBackendError]) -> None:
    s3.proxy.fault = lambda method, path, number: fault if method == "PUT" and "data/" in path else None
    with pytest.raises(error) as caught:
        write(s3.url("a.zarr"), s3.quick_options)
    assert caught.value.store == s3.url("a.zarr")
    assert caught.value.path == "/data"
    s3.proxy.reset()
    assert ".zmetadata" not in s3.contents("a.zarr")


# ---- TLS ------------------------------------------------------------------------------------------------------------


def certificate(path: Path) -> Path:
    """Write a certificate for this machine, with its key, that nobody has signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    signed = made.add_extension(address, critical=True).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(web: WebServer, tmp_path: Path) -> str:
    """Address of the web server, which speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path / "server.pem"))
    web.socket = context.wrap_socket(web.socket, server_side=True)
    return web.url.replace("http:", "https:")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_pair_of_files_over_tls(secure: str, web: WebServer, zarr_format: int) -> None:
    linked_pair(StoreKind(web.folder), zarr_format)
    trusting = {"client_options": {"allow_invalid_certificates": True, "timeout": "5s"}}
    check_linked_pair(f"{secure}/second.nwb.zarr", storage_options=trusting)


def test_a_certificate_that_nobody_has_signed_is_refused(secure: str, web: WebServer) -> None:
    samples.write_zarr(web.folder / "a.nwb.zarr", samples.plain_nwbfile())
    impatient = {"client_options": {"timeout": "1s"}, "retry_config": {"max_retries": 0}}
    with pytest.raises(StoreUnreachableError) as caught:
        NWBZarrIO(f"{secure}/a.nwb.zarr", "r", storage_options=impatient)
    assert caught.value.store == f"{secure}/a.nwb.zarr"


# ---- other schemes --------------------------------------------------------------------------------------------------


class _Bucket(MemoryFileSystem):
    """What stands in for the library of a cloud: its scheme, and its bucket in the path."""

    protocol = "oss"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).removeprefix("oss://"))


def test_links_and_sources_of_another_scheme(tmp_path: Path) -> None:
    """hdmf takes ``oss://`` for a relative path."""

    class Cloud(StoreKind):
        def place(self, name: str) -> str:
            return f"oss://bucket/folder/{name}"

    before = fsspec.registry.get("oss")
    fsspec.register_implementation("oss", _Bucket, clobber=True)
    try:
        store = Cloud(tmp_path)
        linked_pair(store)
        check_linked_pair(store.place("second.nwb.zarr"))
        with NWBZarrIO(store.place("second.nwb.zarr"), "r") as io:
            assert io.source == "oss://bucket/folder/second.nwb.zarr"
            assert io.read().container_source == io.source
    finally:
        if before is not None:
            fsspec.register_implementation("oss", before, clobber=True)
        else:
            _registry.pop("oss", None)
        _Bucket.store.clear()
    assert list(tmp_path.iterdir()) == []
