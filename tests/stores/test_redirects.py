"""Redirects of a web server: the bytes of a file come from its own server, and so do its options go."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import BasicAuth
from hdmf.backends.warnings import BrokenLinkWarning

from hdmf_zarr_backend import ReadOptions, ZarrIO, convert, verify
from hdmf_zarr_backend.errors import LinkRefusedError, StoreError, StoreUnreachableError
from tests import trees
from tests.documents import change_attributes
from tests.servers import Proxy, WebServer, serving
from tests.smallfiles import edited_json, hdf5_dataset

SECRET = {"X-Token": "secret", "Authorization": "token secret"}
OBSTORE = {"client_options": {"default_headers": SECRET}, "retry_config": {"max_retries": 0}}
FSSPEC = {"client_kwargs": {"headers": SECRET}, "retry_config": {"max_retries": 0}}
BOTH = pytest.mark.parametrize("options", [OBSTORE, FSSPEC], ids=["own", "fsspec"])


@contextmanager
def served(folder: Path) -> Iterator[Proxy]:
    """Serve a folder; the proxy in front of it sends redirects, and sees headers."""
    folder.mkdir()
    with serving(WebServer(folder)) as server, serving(Proxy(server.url)) as proxy:
        yield proxy


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of aiohttp 4
    LOGIN = BasicAuth("user", "secret")
CHAINED = {
    "headers": {"headers": SECRET},
    "session": {"client_kwargs": {"headers": SECRET}},
    "cookies": {"cookies": {"session": "secret"}},
    "session-cookies": {"client_kwargs": {"cookies": {"session": "secret"}}},
    "auth": {"auth": LOGIN},
    "session-auth": {"client_kwargs": {"auth": LOGIN}},
}


def redirect(server: Proxy, target: Callable[[str], str | None]) -> None:
    """Let ``target`` tell where a path is redirected to, None for nowhere."""
    server.fault = lambda method, path, number: target(path)


def has_secret(server: Proxy) -> bool:
    """Return whether a server got the headers of the user."""
    return any(names & {name.lower() for name in (*SECRET, "Cookie")} for names in server.headers)


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Proxy]:
    """The server of the file."""
    with served(tmp_path / "near") as server:
        yield server


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Proxy]:
    """Another server, which has the same file with other values."""
    with served(tmp_path / "far") as server:
        yield server


def put(tmp_path: Path, name: str = "a.zarr", **options: Any) -> None:
    """Write a file for both servers; that of the far one has other values."""
    for folder, values in (("near", np.arange(5000.0)), ("far", np.full(5000, 666.0))):
        trees.write_builder(tmp_path / folder / name, trees.root(trees.dataset("x", values)), **options)


def values(place: str, options: dict[str, Any], **rules: Any) -> float:
    return float(trees.read_builder(place, storage_options=options, read_options=ReadOptions(**rules))["x"].data[1])


@BOTH
@pytest.mark.parametrize("rules", [{}, {"external_links": "never"}, {"external_links": "within"}], ids=str)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_chunk_comes_from_another_server(tmp_path, near, far, options, rules, status):
    put(tmp_path)
    near.status = status
    redirect(near, lambda path: far.url + path if "/x/" in path else None)
    with pytest.raises(LinkRefusedError, match=far.url) as caught:
        values(f"{near.url}/a.zarr", options, **rules)
    assert caught.value.store == f"{near.url}/a.zarr"
    assert not far.requests
    assert has_secret(near)


@BOTH
def test_no_document_comes_from_another_server(tmp_path, near, far, options, zarr_format):
    put(tmp_path, zarr_format=zarr_format)
    redirect(near, lambda path: far.url + path)
    with pytest.raises(LinkRefusedError, match=far.url):
        values(f"{near.url}/a.zarr", options)
    with pytest.raises(LinkRefusedError):
        verify(f"{near.url}/a.zarr", storage_options=options)
    assert not far.requests


@BOTH
def test_followed_redirects_get_no_headers(tmp_path, near, far, options):
    put(tmp_path)
    redirect(near, lambda path: far.url + path if "/x/" in path else None)
    assert values(f"{near.url}/a.zarr", options, external_links="follow") == 666
    assert has_secret(near)
    assert far.requests
    assert not has_secret(far)


@pytest.mark.filterwarnings("ignore:.*'auth':DeprecationWarning")
@pytest.mark.parametrize("options", [*CHAINED.values(), {"http": CHAINED["headers"]}], ids=[*CHAINED, "named"])
def test_followed_redirects_and_links_of_a_chain_get_no_secrets(tmp_path, near, far, options):
    put(tmp_path)
    redirect(near, lambda path: far.url + path if "/x/" in path else None)
    place = f"simplecache::{near.url}/a.zarr"
    with pytest.raises(LinkRefusedError, match=far.url):
        values(place, options)
    assert not far.requests
    assert values(place, options, external_links="follow") == 666
    redirect(near, lambda path: None)
    entry = {"name": "l", "source": f"simplecache::{far.url}/a.zarr", "path": "/x"}
    with edited_json(tmp_path / "near" / "a.zarr" / ".zmetadata") as metadata:
        metadata["metadata"][".zattrs"]["zarr_link"] = [entry]
    root = trees.read_builder(place, storage_options=options, read_options=ReadOptions(external_links="follow"))
    assert root.links["l"].builder.data[1] == 666
    assert has_secret(near)
    assert far.requests
    assert not has_secret(far)


@BOTH
def test_redirects_on_the_same_server_are_followed(tmp_path, near, options):
    put(tmp_path)
    redirect(near, lambda path: near.url + path.replace("/old", "") if path.startswith("/old") else None)
    assert values(f"{near.url}/old/a.zarr", options, external_links="never") == 1
    assert all(names >= {"x-token", "authorization"} for names in near.headers)
    redirect(near, lambda path: near.url + path)
    with pytest.raises(StoreError):  # in a circle
        values(f"{near.url}/a.zarr", options)


def test_a_redirect_to_no_address_is_named(near):
    redirect(near, lambda path: "http://host:port/x")
    with pytest.raises(StoreUnreachableError, match="a redirect to 'http://host:port/x'"):
        values(f"{near.url}/a.zarr", OBSTORE, external_links="follow")


@pytest.mark.parametrize("query", ["", "?X-Amz-Signature=1"], ids=["public", "presigned"])
@pytest.mark.parametrize("name", ["a.zarr.zip", "a.h5"])
def test_the_url_that_the_user_gives_may_be_redirected(tmp_path, near, far, name, query):
    """As an archive does, whose addresses lead to a bucket, where a presigned URL allows GET alone."""
    put(tmp_path, "a.zarr.zip")
    hdf5_dataset(tmp_path / "far" / "a.h5", "x", data=666 + np.random.default_rng(1).random(100_000), chunks=(50_000,))
    redirect(near, lambda path: f"{far.url}/{name}{query}")
    if query:
        far.fault = lambda method, path, number: None if (method, path) == ("GET", f"/{name}{query}") else "403"
    place = f"{near.url}/{name}"
    if name == "a.h5":
        place = str(tmp_path / "made.zarr.json")
        convert(f"{near.url}/{name}", place, to="virtual", check=False, storage_options=OBSTORE)
    assert 666 <= values(place, OBSTORE) < 667
    assert not has_secret(far)


def test_a_file_that_was_found_does_not_move_to_another_server(tmp_path, near, far):
    x = trees.dataset("x", np.random.default_rng(1).random(500_000))
    trees.write_builder(tmp_path / "near" / "a.zarr.zip", trees.root(x))
    with ZarrIO(f"{near.url}/a.zarr.zip", "r", storage_options=OBSTORE) as io:
        data = io.read_builder()["x"].data
        redirect(near, lambda path: far.url + path)
        with pytest.raises(LinkRefusedError):
            data[:]
    assert not far.requests


def test_a_link_to_a_file_is_not_redirected(tmp_path, near, far):
    put(tmp_path, "b.zarr.zip")
    redirect(near, lambda path: far.url + path)
    trees.write_builder(tmp_path / "a.zarr", trees.root(unit="V"))
    entry = {"name": "l", "source": f"{near.url}/b.zarr.zip", "path": "/x"}
    change_attributes(tmp_path / "a.zarr", "", lambda attributes: attributes.update(zarr_link=[entry]))
    with pytest.warns(BrokenLinkWarning, match="is not followed"), ZarrIO(tmp_path / "a.zarr", "r") as io:
        assert not io.read_builder().links
    assert not far.requests
    with warnings.catch_warnings(action="error"):
        root = trees.read_builder(tmp_path / "a.zarr", read_options=ReadOptions(external_links="follow"))
        assert root.links["l"].builder.data[1] == 666
