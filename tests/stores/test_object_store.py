"""A real object store, which ``HDMF_ZARR_BACKEND_S3`` names: what a pretended S3 server may be wrong about.

It is an address such as ``http://127.0.0.1:7480`` of Ceph, with the access key ``tester`` and the secret ``secret``.
"""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hdmf.testing import TestCase
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from hdmf_zarr_backend.errors import StoreLockedError
from tests import samples
from tests.servers import Proxy, S3Server, serving
from tests.storekinds import StoreKind
from tests.stores.test_far import CHUNKED, reading, write_chunked

pytestmark = pytest.mark.slow


def make_bucket(endpoint: str, name: str) -> None:
    import boto3

    keys = {"aws_access_key_id": "tester", "aws_secret_access_key": "secret"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=name)


@pytest.fixture(scope="module")
def gateway() -> tuple[str, str]:
    """The address of the server, and a new bucket in it."""
    endpoint = os.environ.get("HDMF_ZARR_BACKEND_S3")
    if not endpoint:
        pytest.skip("HDMF_ZARR_BACKEND_S3 names no object store")
    bucket = f"tests-{uuid.uuid4()}"
    make_bucket(endpoint, bucket)
    return endpoint, bucket


@pytest.fixture
def server(gateway: tuple[str, str]) -> Iterator[S3Server]:
    endpoint, bucket = gateway
    with serving(Proxy(endpoint)) as proxy:
        yield S3Server(endpoint, proxy, bucket)


def options(server: S3Server, zarr_format: int) -> dict[str, Any]:
    return {"storage_options": server.options, "zarr_format": zarr_format}


def test_what_is_written_is_read_and_equals_the_local_file_key_by_key(server, zarr_format, tmp_path):
    nwbfile, url = samples.rich_nwbfile(), server.url(f"whole/{zarr_format}.nwb.zarr")
    local = StoreKind(tmp_path)
    samples.write_zarr(local.place("origin.nwb.zarr"), nwbfile)
    for place, chosen in (
        (local.place("a.nwb.zarr"), {"zarr_format": zarr_format}),
        (url, options(server, zarr_format)),
    ):
        with NWBZarrIO(local.place("origin.nwb.zarr"), "r") as source, NWBZarrIO(place, "w", **chosen) as io:
            io.export(source)
    assert server.contents(f"whole/{zarr_format}.nwb.zarr") == local.contents("a.nwb.zarr")
    with NWBZarrIO(url, "r", storage_options=server.options) as io:
        TestCase().assertContainerEqual(io.read(), nwbfile, ignore_hdmf_attrs=True)


def test_a_file_is_added_to_and_linked_to(server, zarr_format):
    first, second = (server.url(f"linked {zarr_format}/{name}.nwb.zarr") for name in ("first", "second"))
    samples.write_zarr(first, samples.plain_nwbfile(), **options(server, zarr_format))
    with samples.edit_zarr(first, "a", storage_options=server.options) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=np.arange(5.0), unit="m", rate=1.0))
    with NWBZarrIO(first, "r", storage_options=server.options) as source:
        nwbfile = samples.plain_nwbfile("second")
        data = source.read().acquisition["new"].data
        nwbfile.add_acquisition(TimeSeries(name="linked", data=data, unit="m", rate=1.0))
        samples.write_zarr(second, nwbfile, **options(server, zarr_format))
    data = samples.read_zarr(second, storage_options=server.options).acquisition["linked"].data
    assert data.location == first
    assert data[:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_second_writer_is_refused(server):
    """By a put that only creates; this server does it as the real ones do."""
    url = server.url("locked.zarr")
    write_chunked(url, storage_options=server.options)
    with (
        ZarrIO(url, "r+", storage_options=server.options) as io,
        pytest.raises(StoreLockedError),
        ZarrIO(url, "r+", storage_options=server.options) as other,
    ):
        io.read_builder()["g/data"].data[0] = 1
        other.read_builder()["g/data"].data[0] = 2


@pytest.mark.parametrize("fault", ["503", "reset", "cut"])
def test_what_passes_is_not_noticed(server, zarr_format, fault):
    url = server.url(f"faults {fault} {zarr_format}.zarr")
    # obstore does not ask again for a listing that was cut
    server.proxy.fault = lambda method, path, n: fault if n % 4 == 1 and "list-type" not in path else None
    write_chunked(url, **{**options(server, zarr_format), "storage_options": server.quick_options})
    with reading(url, server.quick_options) as data:
        np.testing.assert_array_equal(data[:], CHUNKED)
