"""Far files: how many requests they take; servers that are slow, wrong, silent or gone; TLS; other schemes."""

import datetime
import ipaddress
import itertools
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry
from pynwb import TimeSeries
from pynwb.file import NWBFile

from hdmf_zarr_backend import NWBZarrIO, WriteOptions, ZarrDataIO, ZarrIO, errors, repair
from hdmf_zarr_backend.array.shards import ENTRY_BYTES
from hdmf_zarr_backend.encoding.chunk_codec import CRC32C
from hdmf_zarr_backend.errors import IncompleteStoreError, StoreError, StoreRefusedError, StoreUnreachableError
from hdmf_zarr_backend.model.links import CACHES
from hdmf_zarr_backend.store.base import Abilities
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.opening import open_store
from hdmf_zarr_backend.store.remote import REQUESTS
from tests import samples, trees
from tests.places import delete_keys
from tests.servers import S3Server, WebServer, quick
from tests.storekinds import StoreKind
from tests.stores.test_kinds import check_linked_pair, linked_pair

CHUNKED = np.arange(64 * 1000, dtype="i4").reshape(-1, 10)


def nwbfile_of(count: int) -> NWBFile:
    nwbfile = samples.plain_nwbfile()
    for number in range(count):
        nwbfile.add_acquisition(TimeSeries(name=f"s{number}", data=np.arange(3.0), unit="V", rate=1.0))
    return nwbfile


def puts_of(s3: S3Server) -> list[str]:
    """Return the paths that were put, but for the lock beside the file."""
    return [path for method, path in s3.proxy.requests if method == "PUT" and ".lock" not in path]


def write_chunked(place: Any, shards: Any = None, **options: Any) -> None:
    data = ZarrDataIO(CHUNKED, chunks=(100, 10), shards=shards)
    trees.write_builder(place, trees.root(trees.group("g", trees.dataset("data", data)), note="x"), **options)


@contextmanager
def reading(place: Any, options: dict[str, Any] | None = None) -> Iterator[Any]:
    """Give the array of a file of `write_chunked`."""
    with ZarrIO(place, "r", storage_options=options) as io:
        yield io.read_builder()["g/data"].data


# ---- budgets --------------------------------------------------------------------------------------------------------
def test_requests_to_open_and_read(web, s3, zarr_format):
    """One to a file whose format is given, two if it is not, or is the other one; whatever the file holds."""
    samples.write_zarr(web.folder / "a.zarr", nwbfile_of(40), zarr_format=zarr_format)
    samples.write_zarr(s3.url("a.zarr"), nwbfile_of(2), zarr_format=zarr_format, storage_options=s3.options)
    for given, most in ((zarr_format, 1), (5 - zarr_format, 2), (None, 2)):
        web.requests = 0
        s3.proxy.requests.clear()
        for place, options in ((f"{web.url}/a.zarr", None), (s3.url("a.zarr"), s3.options)):
            with NWBZarrIO(place, "r", zarr_format=given, storage_options=options) as io:
                assert (io.read().identifier, io.zarr_format) == ("plain", zarr_format)
        assert web.requests <= most
        assert s3.count("GET") == s3.count() <= most


def test_a_slice_asks_for_its_chunks_at_once(s3, zarr_format):
    write_chunked(s3.url("a.zarr"), storage_options=s3.options, zarr_format=zarr_format)
    with reading(s3.url("a.zarr"), s3.options) as data:
        s3.proxy.requests.clear()
        s3.proxy.together, s3.proxy.most_busy = ("/data/", 6), 0
        np.testing.assert_array_equal(data[150:1250], CHUNKED[150:1250])
        assert s3.count() == 12
        assert s3.proxy.most_busy >= 6
        s3.proxy.requests.clear()
        np.testing.assert_array_equal(data[:], CHUNKED)
        assert s3.count() <= 64
        assert s3.proxy.most_busy <= REQUESTS


def test_five_chunks_of_a_recording_are_under_way_together(web, web_proxy):
    data = ZarrDataIO(np.ones((5, 2**23), "i2"), chunks=(1, 2**23))
    trees.write_builder(web.folder / "a.zarr", trees.root(trees.group("g", trees.dataset("data", data))))
    with reading(f"{web_proxy.url}/a.zarr") as lazy:
        web_proxy.reset()
        web_proxy.together = ("/data/", 5)
        assert lazy[:].all()
    assert len(web_proxy.requests) == web_proxy.most_busy == 5


def test_a_slice_of_shards_asks_for_their_indices_or_beginnings_and_for_its_chunks(s3):
    """The index of each shard once, and the chunks that are wanted of it in one piece."""
    write_chunked(s3.url("a.zarr"), shards=(800, 10), storage_options=s3.options, zarr_format=3)
    assert sum("data/c/" in key for key in s3.contents("a.zarr")) == 8
    with reading(s3.url("a.zarr"), s3.options) as data:
        s3.proxy.requests.clear()
        np.testing.assert_array_equal(data[250:450], CHUNKED[250:450])
        assert s3.count() == 1 + 1
        s3.proxy.requests.clear()
        np.testing.assert_array_equal(data[750:2450], CHUNKED[750:2450])
        assert s3.count() == 3 + 4  # of the first shard the index is known
    with reading(s3.url("a.zarr"), s3.options) as data:
        s3.proxy.requests.clear()
        s3.proxy.together, s3.proxy.most_busy = ("/data/", 4), 0
        np.testing.assert_array_equal(data[800:1750], CHUNKED[800:1750])
        assert s3.count() == s3.proxy.most_busy == 4
        s3.proxy.requests.clear()
        np.testing.assert_array_equal(data[900:2000], CHUNKED[900:2000])
        assert s3.count() == 2  # their indices are known
    with reading(s3.url("a.zarr"), s3.options) as data:
        s3.proxy.requests.clear()
        s3.proxy.together, s3.proxy.most_busy = ("/data/", 2), 0
        np.testing.assert_array_equal(data[:50], CHUNKED[:50])
        assert s3.count() == s3.proxy.most_busy == 2


def test_a_shard_of_zeros_is_an_error(web):
    write_chunked(web.folder / "a.zarr", shards=(800, 10), zarr_format=3)
    (web.folder / "a.zarr/g/data/c/0/0").write_bytes(CRC32C().encode(bytes(8 * ENTRY_BYTES)))
    web.suffix_error = 416
    for rows in (slice(0, 100), slice(100, 200)):
        with reading(f"{web.url}/a.zarr") as data, pytest.raises(errors.ChunkError, match="cannot be decoded"):
            data[rows]


@pytest.mark.parametrize("status", [400, 416])
def test_shards_on_a_server_without_ranges_that_count_from_the_end(web, status):
    write_chunked(web.folder / "a.zarr", shards=(800, 10), zarr_format=3)
    web.suffix_error = status
    data = trees.read_builder(f"{web.url}/a.zarr")["g/data"].data
    np.testing.assert_array_equal(data[250:450], CHUNKED[250:450])
    web.requests = 0
    np.testing.assert_array_equal(data[750:2450], CHUNKED[750:2450])
    assert web.requests == 3 * 2 + 4  # of three new shards the size and the index, and the chunks of four


def test_a_chunk_that_is_decoded_or_missing_is_asked_for_once(s3):
    write_chunked(s3.url("a.zarr"), storage_options=s3.options)
    with reading(s3.url("a.zarr"), s3.options) as data:
        data[50:250]
        s3.proxy.requests.clear()
        np.testing.assert_array_equal(data[60:240], CHUNKED[60:240])
        assert s3.count() <= 1  # the one that was wanted whole went straight to its place
    delete_keys(open_store(s3.url("a.zarr"), s3.options), ["g/data/1.0"])
    with reading(s3.url("a.zarr"), s3.options) as data:
        s3.proxy.requests.clear()
        assert data[50:250].shape == (200, 10)
        assert s3.count() == 4  # and the document of the array: the file had all chunks, so it may have been replaced


def test_requests_to_write_and_to_append(s3, zarr_format):
    with NWBZarrIO(s3.url("a.nwb.zarr"), "w", storage_options=s3.options, zarr_format=zarr_format) as io:
        s3.proxy.requests.clear()
        io.write(nwbfile_of(20))
    keys = len(s3.contents("a.nwb.zarr"))
    # each key once, and: the mark, two deletes, two listings
    assert len(puts_of(s3)) <= keys + 2
    assert s3.count() <= keys + 10  # and two for the lock
    s3.proxy.requests.clear()
    with samples.edit_zarr(s3.url("a.nwb.zarr"), "a", storage_options=s3.options) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=np.arange(3.0), unit="V", rate=1.0))
    # is it there; the documents of both formats; a journal; what is at the new path; the old document; the lock, which
    # is read again before the first put and before the commit
    assert s3.count("GET") <= 9
    assert s3.count() <= 9 + 16


def test_writes_are_under_way_together(s3):
    s3.proxy.together = ("/data/", 5)
    write_chunked(s3.url("a.zarr"), storage_options=s3.options)
    assert s3.count("PUT") > 64
    assert 4 < s3.proxy.most_busy <= 2 * REQUESTS


@pytest.mark.parametrize(("zarr_format", "first", "last"), [(2, 2, [".zattrs", ".zmetadata"]), (3, 1, ["zarr.json"])])
def test_what_commits_a_file_is_put_last(s3, zarr_format, first, last):
    for _ in range(2):  # anew, and over what is there
        s3.proxy.requests.clear()
        write_chunked(s3.url("a.zarr"), storage_options=s3.options, zarr_format=zarr_format)
        puts = [path.partition("?")[0].partition("a.zarr/")[2] for path in puts_of(s3)]
        assert puts[0] == last[0]  # the mark
        assert puts[-len(last) :] == last
        between = puts[first : -len(last)]
        assert not set(last) & set(between)
        assert len(set(between)) == len(between) > 64


# ---- what cannot be -------------------------------------------------------------------------------------------------
def test_without_a_listing_the_consolidated_document_is_needed_and_has_the_specifications(web):
    write_chunked(web.folder / "a.zarr", write_options=WriteOptions(consolidate_metadata=False))
    with pytest.raises(StoreError, match=r"no consolidated .* cannot list") as caught:
        ZarrIO(f"{web.url}/a.zarr", "r")
    assert caught.value.store == f"{web.url}/a.zarr"
    samples.write_zarr(web.folder / "a.nwb.zarr", samples.rich_nwbfile())
    assert NWBZarrIO.get_namespaces(f"{web.url}/a.nwb.zarr") == NWBZarrIO.get_namespaces(web.folder / "a.nwb.zarr")


# ---- servers that do wrong ------------------------------------------------------------------------------------------
def sometimes(fault: str, *, one_in: int) -> Any:
    """Return what goes wrong for one request in so many, and not again when it is sent again."""
    asked: set[tuple[str, str]] = set()

    def fault_of(method: str, path: str, number: int) -> str | None:
        is_new = (method, path) not in asked
        asked.add((method, path))
        # obstore does not ask again for a listing that was cut: that is an error at once
        return fault if is_new and len(asked) % one_in == 1 and "list-type" not in path else None

    return fault_of


@pytest.mark.parametrize("fault", ["503", "reset", "cut"])
def test_what_passes_is_not_noticed(s3, fault):
    s3.proxy.fault = sometimes(fault, one_in=4)
    write_chunked(s3.url("a.zarr"), storage_options=s3.quick_options)
    with reading(s3.url("a.zarr"), s3.quick_options) as data:
        np.testing.assert_array_equal(data[:], CHUNKED)


def test_silence_is_bounded(s3):
    write_chunked(s3.url("a.zarr"), storage_options=s3.quick_options)
    once = iter(["stall"])
    s3.proxy.fault = lambda method, path, number: next(once, None) if "data/3.0" in path else None
    with reading(s3.url("a.zarr"), {**s3.quick_options, "client_options": {"timeout": "2s"}}) as data:
        np.testing.assert_array_equal(data[300:400], CHUNKED[300:400])
    assert next(once, None) is None


ERRORS = {"503": StoreUnreachableError, "403": StoreRefusedError, "reset": StoreUnreachableError}
STAYING = [*itertools.product(ERRORS, ("open", "read", "write")), ("cut", "read")]
SILENT = [pytest.param("stall", when, marks=pytest.mark.slow) for when in ("open", "read", "write")]  # 25 seconds


@pytest.mark.parametrize(("fault", "when"), [*STAYING, *SILENT, ("403 by s3fs", "open")])
def test_what_stays_wrong_is_one_error(s3, fault, when):
    url, options = s3.url("a.zarr"), s3.quick_options if "s3fs" not in fault else s3.s3fs_options
    fault = fault.partition(" ")[0]
    if when != "write":
        write_chunked(url, storage_options=options)
    s3.proxy.fault = lambda method, path, number: fault if when == "open" or "data/3.0" in path else None
    with pytest.raises(ERRORS.get(fault, StoreUnreachableError)) as caught:
        if when == "write":
            write_chunked(url, storage_options=options)
        with reading(url, options) as data:
            data[:]
    assert (caught.value.store, caught.value.path) == (url, "/" if when == "open" else "/g/data")
    assert ("data/3.0" in str(caught.value)) == (when != "open")
    assert "credentials" in caught.value.remedy if fault == "403" else caught.value.remedy
    s3.proxy.reset()
    assert (".zmetadata" in s3.contents("a.zarr")) == (when != "write")


def test_a_bucket_that_may_not_be_listed_refuses_what_is_not_there(s3, zarr_format):
    write_chunked(s3.url("a.zarr"), storage_options=s3.options, zarr_format=zarr_format)
    absent = ".zmetadata" if zarr_format == 3 else "zarr.json"
    s3.proxy.fault = lambda method, path, number: "403" if absent in path or "list-type" in path else None
    for given in (2, 3, None):
        with ZarrIO(s3.url("a.zarr"), "r", storage_options=s3.options, zarr_format=given) as io:
            np.testing.assert_array_equal(io.read_builder()["g/data"].data[:], CHUNKED)


def run(script: str, *arguments: Any) -> str:
    command = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout


_LATE = """
import sys
from hdmf_zarr_backend import ZarrIO
url, endpoint = sys.argv[1:]
options = {"key": "tester", "secret": "secret", "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}
io = ZarrIO(url, "r+", storage_options=options)
io.read_builder()["g/data"].data[0] = 7
"""


def test_what_nobody_closed_is_written_when_python_ends(s3):
    write_chunked(s3.url("a.zarr"), storage_options=s3.options)
    run(_LATE, s3.url("a.zarr"), s3.proxy.url)
    assert trees.read_builder(s3.url("a.zarr"), storage_options=s3.options)["g/data"].data[0].tolist() == [7] * 10


_ALIAS = """
import sys
import hdmf_zarr_backend.alias
hdmf_zarr_backend.alias.install_hdmf_zarr_alias()
import pynwb
for place in sys.argv[1:]:
    print(pynwb.read_nwb(place).identifier)
"""


def test_pynwb_reads_urls_and_zip_files_by_the_other_name(web):
    for name in ("a.nwb.zarr", "a.nwb.zarr.zip"):
        samples.write_zarr(web.folder / name, samples.plain_nwbfile())
    assert run(_ALIAS, f"{web.url}/a.nwb.zarr", web.folder / "a.nwb.zarr.zip").split() == ["plain", "plain"]


@pytest.mark.parametrize("options", ["quick_options", "s3fs_options"])
@pytest.mark.parametrize("mode", ["r", "w", "a"])
def test_a_bucket_that_is_not_there(s3, options, mode):
    url, chosen = "s3://no-such-bucket-anywhere/a.zarr", getattr(s3, options)
    with pytest.raises(errors.StoreNotFoundError) as caught, ZarrIO(url, mode, storage_options=chosen) as io:
        io.write_builder(trees.root(note="x"))
    assert caught.value.store == url


@pytest.mark.parametrize("fault", ["503", "reset", "cut", pytest.param("stall", marks=pytest.mark.slow)])
def test_a_web_server_that_does_wrong(web, web_proxy, fault):
    write_chunked(web.folder / "a.zarr")
    web_proxy.fault = sometimes(fault, one_in=5)
    with reading(f"{web_proxy.url}/a.zarr", quick()) as data:
        np.testing.assert_array_equal(data[:], CHUNKED)
        web_proxy.fault = lambda method, path, number: fault
        with pytest.raises(StoreUnreachableError) as caught:
            data[:]
    assert (caught.value.store, caught.value.path) == (f"{web_proxy.url}/a.zarr", "/g/data")


def test_a_web_server_by_fsspec(web, web_proxy):
    """Options that only aiohttp knows: what fsspec says is one error as well."""
    write_chunked(web.folder / "a.zarr")
    options = {"client_kwargs": {"headers": {"X-Test": "1"}}, "retry_config": {"max_retries": 1}}
    with reading(f"{web_proxy.url}/a.zarr", options) as data:
        np.testing.assert_array_equal(data[:], CHUNKED)
        kinds = {"503": StoreUnreachableError, "403": StoreRefusedError, "cut": StoreUnreachableError}
        for fault, error in kinds.items():
            web_proxy.fault = lambda method, path, number, fault=fault: fault
            with pytest.raises(error) as caught:
                data[:]
            assert (caught.value.store, caught.value.path) == (f"{web_proxy.url}/a.zarr", "/g/data")


class Moment(LocalStore):
    """A server without a listing, on which the writer of a file has just hidden it for a moment."""

    abilities = Abilities(write=False, change=False, listing=False, why="it is read-only")
    is_hidden = True

    def get(self, key: str) -> bytes | None:
        if key == ".zmetadata" and self.is_hidden:
            self.is_hidden = False
            return None
        return super().get(key)


def test_a_file_that_was_hidden_when_its_documents_were_requested_is_read(tmp_path):
    write_chunked(tmp_path / "a.zarr")
    with reading(Moment(str(tmp_path / "a.zarr"))) as data:
        np.testing.assert_array_equal(data[:], CHUNKED)
    (tmp_path / "a.zarr" / ".zmetadata").unlink()
    with pytest.raises(StoreError, match="no consolidated document"):
        ZarrIO(Moment(str(tmp_path / "a.zarr")), "r")


# ---- writes that do not come to their end ---------------------------------------------------------------------------
@pytest.mark.parametrize("options", ["quick_options", "s3fs_options"])
def test_a_failed_write_is_told_when_all_is_quiet(s3, options):
    chosen = getattr(s3, options)
    s3.proxy.delay = 0.02
    s3.proxy.fault = lambda method, path, number: "403" if "data/20.0" in path else None
    with pytest.raises(StoreRefusedError) as caught:
        write_chunked(s3.url("a.zarr"), storage_options=chosen)
    count = s3.count()
    assert caught.value.path == "/g/data"
    time.sleep(0.3)
    assert s3.count() == count  # nothing goes on behind the error
    s3.proxy.reset()
    assert ".zmetadata" not in s3.contents("a.zarr")
    with pytest.raises(IncompleteStoreError, match="being written") as caught:
        ZarrIO(s3.url("a.zarr"), "r", storage_options=chosen)
    assert caught.value.store == s3.url("a.zarr")
    assert f"its writer died: process {os.getpid()} on" in caught.value.problem
    (left,) = repair(s3.url("a.zarr"), storage_options=chosen).left
    assert (left.kind, "Write the file again" in left.remedy, "repair" in left.remedy) == ("incomplete", True, False)
    write_chunked(s3.url("a.zarr"), storage_options=chosen)  # without force
    with reading(s3.url("a.zarr"), chosen) as data:
        np.testing.assert_array_equal(data[:], CHUNKED)


def test_a_server_that_dies_while_it_is_written_to(s3):
    s3.proxy.fault = lambda method, path, number: "reset" if number > 20 else None
    with pytest.raises(StoreUnreachableError) as caught:
        write_chunked(s3.url("a.zarr"), storage_options=s3.quick_options)
    assert caught.value.store == s3.url("a.zarr")
    s3.proxy.reset()
    with pytest.raises(IncompleteStoreError):
        ZarrIO(s3.url("a.zarr"), "r", storage_options=s3.options)


# ---- TLS ------------------------------------------------------------------------------------------------------------
def certificate(path: Path) -> Path:
    """Write a certificate for this machine, with its key, that nobody has signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
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


def test_a_pair_of_files_over_tls(secure, web, zarr_format):
    linked_pair(StoreKind(web.folder), zarr_format)
    trusting = {"client_options": {"allow_invalid_certificates": True, "timeout": "5s"}}
    check_linked_pair(f"{secure}/second.nwb.zarr", storage_options=trusting)


def test_a_certificate_that_nobody_has_signed_is_refused(secure, web):
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


def test_links_and_sources_of_another_scheme(tmp_path, monkeypatch):
    """hdmf takes ``oss://`` for a relative path."""
    monkeypatch.setitem(_registry, "oss", _Bucket)
    store = StoreKind(tmp_path, "oss", lambda name: f"oss://bucket/folder/{name}")
    linked_pair(store)
    check_linked_pair(store.place("second.nwb.zarr"))
    with NWBZarrIO(store.place("second.nwb.zarr"), "r") as io:
        assert io.source == "oss://bucket/folder/second.nwb.zarr"
        assert io.read().container_source == io.source
    _Bucket.store.clear()
    assert list(tmp_path.iterdir()) == []


def test_an_append_that_a_server_refuses_is_undone(s3):
    url, options = s3.url("a.zarr"), s3.quick_options
    write_chunked(url, storage_options=options)
    before, s3.proxy.delay = s3.contents("a.zarr"), 0.02  # so that other puts are under way
    with pytest.raises(StoreRefusedError), trees.edit_builder(url, storage_options=options) as root:
        root["g/data"].data[:] = 7
        root.set_group(trees.group("new", trees.dataset("data", np.arange(3))))
        s3.proxy.fault = lambda method, path, number: "403" if method == "PUT" and path.endswith("g/data/0.0") else None
    s3.proxy.reset()
    assert s3.contents("a.zarr") == before


class _Slow(LocalFileSystem):
    protocol: ClassVar[Any] = "slow"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).removeprefix("slow://"))

    def get_file(self, path: str, lpath: str, **options: Any) -> None:
        value = Path(self._strip_protocol(path)).read_bytes()
        with open(lpath, "wb", buffering=0) as file:
            file.write(value[:10])
            time.sleep(0.05)
            file.write(value[10:])


@pytest.mark.parametrize("kind", ["simplecache", "filecache"])
def test_threads_read_shards_through_a_cache(tmp_path, monkeypatch, kind):
    monkeypatch.setitem(_registry, "slow", _Slow)
    write_chunked(tmp_path / "a.zarr", shards=(800, 10), zarr_format=3)
    options = {kind: {"cache_storage": str(tmp_path / "cache")}}
    with reading(f"{kind}::slow://{tmp_path}/a.zarr", options) as data, ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda start: data[start : start + 90], range(0, 400, 100)))
        np.testing.assert_array_equal(parts, [CHUNKED[start : start + 90] for start in range(0, 400, 100)])
        np.testing.assert_array_equal(data[50:1750], CHUNKED[50:1750])


@pytest.mark.parametrize("kind", sorted(CACHES))
def test_a_file_is_not_changed_through_a_cache(tmp_path, kind):
    write_chunked(tmp_path / "a.zarr")
    with pytest.raises(errors.ReadOnlyStoreError, match="what is read through a cache is read only"):
        ZarrIO(f"{kind}::file://{tmp_path}/a.zarr", "r+")


def test_options_of_a_chain_are_those_of_the_server(s3, tmp_path):
    write_chunked(s3.url("a.zarr"), storage_options=s3.options)
    for more in ({}, {"cache_storage": str(tmp_path / "cache")}):  # one of the cache keeps its meaning
        store = open_store(f"simplecache::{s3.url('a.zarr')}", {**s3.options, **more})
        assert store.get(".zgroup") is not None
    assert any((tmp_path / "cache").iterdir())
