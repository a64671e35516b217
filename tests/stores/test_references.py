"""Files of references: a JSON that says where in other files the bytes of a Zarr file lie."""

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import MetadataError, NotZarrError, ReadOnlyStoreError, StoreError, StoreNotFoundError
from hdmf_zarr_backend.store.opening import open_store
from tests import samples, trees
from tests.places import put


def refer(folder: Path, data: Path, *, url: str, version: int = 1) -> dict[str, Any]:
    """Return references to all keys of a Zarr file: documents inline, chunks in one file of bytes, ``data``."""
    references: dict[str, Any] = {}
    offset, parts = 7, [b"before "]
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        key, content = path.relative_to(folder).as_posix(), path.read_bytes()
        if path.name.startswith((".z", "zarr.")):
            references[key] = content.decode() if path.name != ".zattrs" else json.loads(content)
        elif len(content) < 40:
            references[key] = f"base64:{base64.b64encode(content).decode()}"
        else:
            references[key] = [url, offset, len(content)]
            offset += len(content)
            parts.append(content)
    data.write_bytes(b"".join(parts) + b" after")
    return references if version == 0 else {"version": 1, "templates": {"u": url}, "refs": references}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Zarr file that nobody wrote beside its references."""
    return samples.write_zarr(tmp_path / "origin" / "a.nwb.zarr", samples.rich_nwbfile())


@pytest.mark.parametrize(("url", "version"), [
    ("data.bin", 0), ("data.bin", 1), ("absolute", 0), ("absolute", 1), ("template", 1), ("none", 1)
])  # fmt: skip
def test_local(folder, tmp_path, url, version):
    said = {"absolute": str(tmp_path / "data.bin"), "template": "{{u}}"}.get(url, "data.bin")
    document = refer(folder, tmp_path / "data.bin", url=said, version=version)
    if url == "template":
        document["templates"]["u"] = "data.bin"
    if url == "none":
        document |= {"templates": None, "gen": []}
    (tmp_path / "b.nwb.zarr.json").write_text(json.dumps(document))
    with NWBZarrIO(tmp_path / "b.nwb.zarr.json", "r") as io, NWBZarrIO(folder, "r") as other:
        one, two = io.read(), other.read()
        assert io.source == str(tmp_path / "b.nwb.zarr.json")
        for name, series in two.acquisition.items():
            if hasattr(series, "data"):
                np.testing.assert_array_equal(one.acquisition[name].data[:], series.data[:])


def test_over_http_and_s3(folder, web, s3):
    document = refer(folder, web.folder / "data.bin", url="data.bin")
    (web.folder / "b.nwb.zarr.json").write_text(json.dumps(document))
    assert samples.read_zarr(f"{web.url}/b.nwb.zarr.json").identifier == "rich"
    assert samples.read_zarr(f"reference::{web.url}/b.nwb.zarr.json").identifier == "rich"
    assert samples.read_zarr(f"reference::{web.folder}/b.nwb.zarr.json").identifier == "rich"
    bucket = open_store(s3.url("folder"), s3.options)
    for name in ("data.bin", "b.nwb.zarr.json"):
        put(bucket, name, (web.folder / name).read_bytes())
    assert samples.read_zarr(s3.url("folder/b.nwb.zarr.json"), storage_options=s3.options).identifier == "rich"


def test_by_fsspec(folder, tmp_path):
    document = refer(folder, tmp_path / "data.bin", url=str(tmp_path / "data.bin"))
    plain = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in document["refs"].items()}
    options = {"fo": {"version": 1, "refs": plain}, "remote_protocol": "file"}
    assert samples.read_zarr("reference://", storage_options=options).identifier == "rich"


def test_read_only(folder, tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(refer(folder, tmp_path / "data.bin", url="data.bin")))
    for mode in ("w", "w-", "x", "r+", "a"):
        with pytest.raises(ReadOnlyStoreError, match="references"):
            ZarrIO(tmp_path / "b.json", mode)
    with pytest.raises(ReadOnlyStoreError):
        put(open_store(tmp_path / "b.json"), "x", b"")


@pytest.mark.parametrize("shapes", [{}, {"chunks": (100,), "shards": (1000,)}], ids=["chunk", "shard"])
def test_arrays_travel_to_other_processes_and_what_was_cut_is_told(tmp_path, shapes):
    values = np.random.default_rng(1).random(1000)
    trees.write_builder(tmp_path / "a.zarr", trees.root(trees.dataset("data", ZarrDataIO(values, **shapes))))
    (tmp_path / "b.json").write_text(json.dumps(refer(tmp_path / "a.zarr", tmp_path / "data.bin", url="data.bin")))
    data = pickle.loads(pickle.dumps(trees.read_builder(tmp_path / "b.json")["data"].data))
    np.testing.assert_array_equal(data[:], values)
    content = (tmp_path / "data.bin").read_bytes()
    for change in (lambda path: path.write_bytes(content[: len(content) // 2]), Path.unlink):
        change(tmp_path / "data.bin")
        with ZarrIO(tmp_path / "b.json", "r") as io, pytest.raises(StoreError, match="not exist") as caught:
            io.read_builder().datasets["data"].data[:]
        assert caught.value.store == str(tmp_path / "b.json")


def test_no_local_file_by_a_reference_from_a_server(web, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    for url in (f"file://{secret}", str(secret)):
        references = {".zgroup": '{"zarr_format": 2}', ".zattrs": {}, "x": [url]}
        (web.folder / "b.json").write_text(json.dumps(references))
        for prefix in ("", "reference::"):
            with pytest.raises(StoreError, match="files of this machine"):
                open_store(f"{prefix}{web.url}/b.json").get("x")


@pytest.mark.parametrize(("text", "error"), [
    ("{", NotZarrError), ("[]", NotZarrError), ('{"version": 1, "refs": []}', NotZarrError),
    ('{"version": 1, "gen": [], "refs": {}}', NotZarrError), ('{"refs": {".zgroup": 3}}', MetadataError),
    ('{"refs": {".zgroup": ["u", -1, 3]}}', MetadataError), ('{"refs": {".zgroup": ["u", 1]}}', MetadataError),
    ('{"refs": {".zgroup": "base64:%%"}}', MetadataError), ("{}", StoreError),
])  # fmt: skip
def test_damaged(tmp_path, text, error):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(error) as caught:
        ZarrIO(tmp_path / "b.json", "r")
    assert caught.value.store == str(tmp_path / "b.json")


def test_nothing_is_there(tmp_path):
    with pytest.raises(StoreNotFoundError):
        ZarrIO(tmp_path / "b.json", "r")
