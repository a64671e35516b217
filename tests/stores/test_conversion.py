"""Conversion, inspection and comparing where one of the files is in a bucket, behind a web server or in a zip file."""

import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hdmf.backends.hdf5 import H5DataIO
from pynwb import TimeSeries
from upath import UPath

from hdmf_zarr_backend import WriteOptions, compare, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import StoreError, StoreExistsError
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.store.opening import open_store
from tests import samples
from tests.places import put, stored_files


def test_what_is_in_a_bucket_is_replaced_only_on_request(s3, tmp_path):
    origin = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    put(open_store(s3.url("a.nwb.zarr"), s3.options), "readme.txt", b"mine")
    for _ in ("another kind", "a file"):
        before = s3.contents("a.nwb.zarr")
        with pytest.raises(StoreExistsError, match="overwrite=True"):
            convert(origin, s3.url("a.nwb.zarr"), storage_options=s3.options)
        assert s3.contents("a.nwb.zarr") == before
        convert(origin, s3.url("a.nwb.zarr"), storage_options=s3.options, overwrite=True)
    assert "readme.txt" not in s3.contents("a.nwb.zarr")


def test_comparing(web, tmp_path):
    """A file behind a web server, and what it is converted to."""
    samples.write_zarr(web.folder / "a.nwb.zarr", samples.plain_nwbfile())
    url = f"{web.url}/a.nwb.zarr"
    convert(url, tmp_path / "a.nwb")
    assert list(compare(url, tmp_path / "a.nwb", ignore=("chunks", "filters", "layout"))) == []
    shutil.copytree(web.folder / "a.nwb.zarr", tmp_path / "b.nwb.zarr")
    assert list(compare(url, tmp_path / "b.nwb.zarr")) == []
    document = tmp_path / "b.nwb.zarr" / ".zmetadata"
    document.write_text(document.read_text().replace('"neurodata_type":"NWBFile"', '"neurodata_type":"Other"'))
    assert [difference.kind for difference in compare(url, tmp_path / "b.nwb.zarr")] == ["attribute"]


def test_the_command_line(s3, tmp_path, capsys):
    origin = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    url = s3.url("a.nwb.zarr")
    options = [f"-O{name}={json.dumps(value)}" for name, value in s3.options.items()]
    assert main(["convert", *options, str(origin), url]) == 0
    s3.proxy.requests.clear()
    assert main(["inspect", *options, url, "--json"]) == 0
    assert s3.count() <= 2
    assert json.loads(capsys.readouterr().out.partition("\n[")[2].join(["[", ""]))[0]["location"] == url
    assert main(["inspect", "-O", "nonsense", url]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


# ---- an HDF5 file at a URL ------------------------------------------------------------------------------------------
@pytest.fixture
def recording(web) -> Path:
    """An HDF5 file behind a web server, with contiguous data, and chunks that are joined, raw or decoded."""
    nwbfile, values = samples.rich_nwbfile(), np.arange(600_000, dtype="i4").reshape(-1, 3)
    small = H5DataIO(values, chunks=(500, 3), compression="gzip")
    large = H5DataIO(values, chunks=(100_000, 3), compression="gzip", shuffle=True)
    for name, data in (("plain", values), ("small", small), ("large", large)):
        nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="V", rate=1.0))
    return samples.write_hdf5(web.folder / "a.nwb", nwbfile)


@pytest.mark.parametrize("options", [
    {},
    {"zarr_format": 3, "shards": "auto", "chunks": "keep"},
    {"zarr_format": "both", "codec": "zstd"},
    {"settings": {"acquisition/large/data": {"chunks": (5000, 3)}}, "write_options": WriteOptions(nczarr=True)},
    {"write_options": WriteOptions(executor="processes")},
], ids=["default", "format 3", "both", "settings", "processes"])  # fmt: skip
def test_an_hdf5_file_at_a_url_becomes_what_the_one_on_disk_becomes(web, recording, tmp_path, options):
    here = convert(recording, tmp_path / "here.nwb.zarr", **options)
    far = convert(f"{web.url}/a.nwb", tmp_path / "far.nwb.zarr", **options)
    assert not compare(f"{web.url}/a.nwb", tmp_path / "far.nwb.zarr", ignore=("chunks", "filters"))
    assert stored_files(tmp_path / "far.nwb.zarr") == stored_files(tmp_path / "here.nwb.zarr")
    assert far.lines(name="a") == here.lines(name="a")


def test_an_hdf5_file_of_any_name_is_found_by_its_first_bytes(s3, tmp_path):
    origin = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    put(open_store(s3.url(""), s3.options), "recording", origin.read_bytes())
    for source in (UPath(s3.url("recording"), **s3.options), s3.url("recording")):
        convert(source, s3.url("b.zarr"), storage_options=s3.options, overwrite=True)
        assert not compare(origin, s3.url("b.zarr"), storage_options=s3.options)


def at_start(effect: Any) -> WriteOptions:
    """Return options by which something happens when the first values are written."""
    return WriteOptions(progress=Mock(Progress, start=Mock(side_effect=effect)))


def test_an_hdf5_file_at_a_url_that_changes_meanwhile_is_not_copied(web, recording, tmp_path):
    options = at_start(lambda total: os.utime(recording, (1, 1)))
    with pytest.raises(StoreError, match="the source has changed since the copy was planned"):
        convert(f"{web.url}/a.nwb", tmp_path / "a.nwb.zarr", write_options=options)
    assert os.listdir(tmp_path) == ["web"]


def test_a_conversion_from_a_url_is_resumed_with_another_signature(web, recording, tmp_path):
    url, target = f"{web.url}/a.nwb?X-Amz-Signature=", tmp_path / "a.nwb.zarr"
    with pytest.raises(KeyboardInterrupt):
        convert(f"{url}secret1", target, resume=True, write_options=at_start(KeyboardInterrupt))
    assert not [data for data in stored_files(tmp_path).values() if b"secret1" in data]
    convert(f"{url}secret2", target, resume=True)
    assert not compare(recording, target, ignore=("chunks",))
    assert not [data for data in stored_files(tmp_path).values() if b"secret" in data]
