"""Defects that hdmf-zarr 0.13 was measured to have, by their numbers in that list: none of them is here.

D-2 (code in files), D-3 and D-7 (parallel writes) have their own tests: ``tests/test_hostile.py``, ``tests/execution``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.data_utils import DataChunkIterator
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, convert, verify
from hdmf_zarr_backend.errors import StoreExistsError, ZarrBackendError
from hdmf_zarr_backend.mapping.specs import newest_version
from hdmf_zarr_backend.storage.keys import Abilities, LocalKeys
from tests import samples, trees


def documents(path: Path, name: str = ".zarray") -> dict[str, dict[str, object]]:
    return {str(p.parent.relative_to(path)): json.loads(p.read_text()) for p in path.rglob(name)}


def write(path: Path, builder: GroupBuilder, **options: object) -> Path:
    with ZarrIO(path, "w") as io:
        io.write_builder(builder, **options)
    return path


def test_d1_own_files_need_no_unsafe_switch(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE", raising=False)
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.rich_nwbfile())
    codecs = [codec["id"] for node in documents(path).values() for codec in node["filters"] or []]
    assert "pickle" not in codecs
    with NWBZarrIO(path) as io:
        assert len(io.read().electrodes.to_dataframe())


def test_d4_links_of_the_root_are_written(tmp_path):
    root = trees.root(trees.group("box"))
    root.set_link(LinkBuilder(builder=root["box"], name="link"))
    with ZarrIO(write(tmp_path / "a.zarr", root)) as io:
        assert io.read_builder().links["link"].builder.name == "box"


def test_d5_a_list_of_references_in_an_attribute(tmp_path):
    root = trees.root(trees.group("a"), trees.group("b"))
    root.set_attribute("refs", [ReferenceBuilder(root["a"]), ReferenceBuilder(root["b"])])
    with ZarrIO(write(tmp_path / "a.zarr", root)) as io:
        assert [getattr(ref, "builder", ref).name for ref in io.read_builder().attributes["refs"]] == ["a", "b"]


@pytest.mark.filterwarnings("ignore:Pickled references")
def test_d6_arguments_of_the_class_for_nwb_are_honoured(tmp_path):
    path = tmp_path / "a.nwb.zarr"
    path.mkdir()
    with NWBZarrIO(path, "w", object_codec_class=numcodecs.Pickle, force_overwrite=True) as io:
        io.write(samples.rich_nwbfile())
    assert any({"id": "pickle", "protocol": 5} in (node["filters"] or []) for node in documents(path).values())


@pytest.mark.parametrize("io_class", [ZarrIO, NWBZarrIO])
def test_d8_a_folder_that_is_no_file_is_not_emptied(tmp_path, io_class):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "important.txt").write_text("all of it")
    with pytest.raises(StoreExistsError):
        io_class(tmp_path / "thesis", mode="w")
    assert (tmp_path / "thesis" / "important.txt").read_text() == "all of it"


def test_d8_an_export_onto_the_source_is_refused(tmp_path):
    path = write(tmp_path / "a.zarr", trees.root(trees.dataset("x", [1, 2])))
    with ZarrIO(path) as source, pytest.raises(StoreExistsError), ZarrIO(path, "w") as target:
        target.export(source)
    with ZarrIO(path) as io:
        assert io.read_builder()["x"].data[:].tolist() == [1, 2]


def test_d9_a_root_of_any_name(tmp_path):
    builder = GroupBuilder("mytable", datasets={"x": DatasetBuilder("x", [1])})
    with ZarrIO(write(tmp_path / "a.zarr", builder)) as io:
        assert io.read_builder()["x"].data[:].tolist() == [1]


def test_d10a_no_stale_consolidated_document_is_left(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr")
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="late", data=[1.0], unit="V", rate=1.0))
        io.write(nwbfile, consolidate_metadata=False)
    with NWBZarrIO(path) as io:
        assert "late" in io.read().acquisition
    assert not [problem for problem in verify(path, "structure").problems if problem.kind == "consolidated-stale"]


def test_d10c_a_write_that_fails_leaves_nothing_that_looks_like_a_file(tmp_path):
    root = trees.root(trees.dataset("good", [1]), trees.dataset("bad", [object()]))
    with ZarrIO(tmp_path / "a.zarr", "w") as io, pytest.raises(ZarrBackendError):
        io.write_builder(root)
    assert not (tmp_path / "a.zarr").exists()


def test_d10d_a_chunk_that_is_gone_is_found(tmp_path):
    path = write(tmp_path / "a.zarr", trees.root(trees.dataset("x", np.arange(10))))
    (path / "x" / "0").unlink()
    assert {(problem.path, problem.kind) for problem in verify(path).problems} == {("/x", "chunk-missing")}


class Unlisted(LocalKeys):
    """A server that lists nothing."""

    abilities = Abilities(write=False, change=False, listing=False, why="it is read-only")

    def list_documents(self) -> Iterator[str]:
        raise AssertionError

    def sizes(self, prefix: str) -> dict[str, int]:
        raise AssertionError


def test_d11_namespaces_come_without_a_listing(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr")
    with NWBZarrIO(Unlisted(str(path))) as io:
        assert io.read().identifier == "rich"
    assert "core" in NWBZarrIO.get_namespaces(path)


def test_d13_the_newest_version_is_by_number():
    assert newest_version(["2.9.0", "2.11.0", "2.10.1"]) == "2.11.0"


def test_d14_an_iterator_keeps_its_type(tmp_path):
    iterator = DataChunkIterator(data=iter(np.array([2**30, 2**30 + 1], "i4")), buffer_size=1)
    path = write(tmp_path / "a.zarr", trees.root(trees.dataset("x", iterator)))
    with ZarrIO(path) as io:
        data = io.read_builder()["x"].data
        assert data.dtype == np.dtype("i4")
        assert data[:].tolist() == [2**30, 2**30 + 1]


def test_d16_nothing_is_compressed_twice(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(2**20, dtype="i4"), chunks=(2**16,), compression="gzip", shuffle=True)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", check=False)
    node = documents(tmp_path / "a.zarr")["x"]
    assert [codec["id"] for codec in (*(node["filters"] or []), node["compressor"])] == ["shuffle", "zlib"]


def test_d17_no_file_for_each_row(tmp_path):
    iterator = DataChunkIterator(data=(np.arange(4) for _ in range(4000)), buffer_size=1, dtype=np.dtype("i8"))
    path = write(tmp_path / "a.zarr", trees.root(trees.dataset("x", iterator)))
    assert len([key for key in (path / "x").iterdir() if not key.name.startswith(".")]) == 1


def test_d18_the_consolidated_document_is_set_once(tmp_path, monkeypatch):
    keys: list[str] = []
    plain = LocalKeys.set
    monkeypatch.setattr(LocalKeys, "set", lambda self, key, value: (keys.append(key), plain(self, key, value))[1])
    samples.write_zarr(tmp_path / "a.nwb.zarr")
    assert keys.count(".zmetadata") == 1
    assert keys[-1] == ".zmetadata"
    assert len(keys) == len(set(keys))


def test_d19_the_settings_of_a_user_stay_as_they_are(tmp_path):
    wrapped = ZarrDataIO(np.arange(4), compressor=False)
    before = dict(wrapped.io_settings)
    write(tmp_path / "a.zarr", trees.root(trees.dataset("x", wrapped)))
    assert wrapped.io_settings == before
