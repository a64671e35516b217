"""Conversion, inspection and comparing where one of the files is in a bucket, behind a web server or in a zip file."""

import json
import shutil

import pytest

from hdmf_zarr_backend import compare, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import StoreExistsError
from hdmf_zarr_backend.store.opening import open_store
from tests import samples
from tests.places import put


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
