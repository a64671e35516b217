"""Both formats of Zarr in one class: writing, changing, and converting one to the other."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hdmf.build import DatasetBuilder, LinkBuilder
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, consolidate, convert, dry_run, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.errors import NotZarrError, UsageError
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.store.local import LocalStore
from tests import samples
from tests.documents import is_fresh
from tests.places import keys_of
from tests.smallfiles import hdf5_dataset
from tests.trees import dataset, edit_builder, group, read_builder, root, write_builder
from tests.zarrs import needs_zarr_3

FORMATS = [2, 3]


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("rich")
    return {number: samples.write_zarr(folder / f"{number}.nwb.zarr", zarr_format=number) for number in FORMATS}


# ---- which format ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", FORMATS)
@pytest.mark.parametrize("mode", ["r", "r-", "r+", "a"])
def test_the_format_of_a_file_is_known(rich, number, mode):
    with NWBZarrIO(rich[number], mode) as io:
        assert io.zarr_format == number
        assert io.read().identifier == "rich"


@pytest.mark.parametrize(("number", "other"), [(2, 3), (3, 2)])
@pytest.mark.parametrize("mode", ["r+", "a"])
def test_a_file_keeps_its_format(rich, number, other, mode, tmp_path):
    path = shutil.copytree(rich[number], tmp_path / "file.nwb.zarr")
    with pytest.raises(UsageError, match=f"format {number}"):
        NWBZarrIO(path, mode, zarr_format=other)
    with samples.edit_zarr(path, mode, zarr_format=number) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0, 2.0], unit="m", rate=1.0))
    assert is_fresh(path)
    assert samples.read_zarr(path).acquisition["new"].data[:].tolist() == [1.0, 2.0]
    assert (path / "zarr.json").exists() == (number == 3)
    assert (path / ".zgroup").exists() == (number == 2)


VARIABLE = "HDMF_ZARR_BACKEND_FORMAT"


@pytest.mark.parametrize("value", ["2", "3", "both", ""])
def test_the_environment_names_the_format_of_new_files(tmp_path, monkeypatch, value):
    """Of those for which the call names none, and only of new ones."""
    hdf5 = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    old = write_builder(tmp_path / "old.zarr", root(), zarr_format=5 - int(value) if value in "23" and value else 2)
    monkeypatch.setenv(VARIABLE, value)
    expected = {"2": 2, "3": 3, "both": "both", "": 2}[value]
    write_builder(tmp_path / "new.zarr", root(dataset("d", np.arange(3))))
    samples.write_zarr(tmp_path / "b.nwb.zarr", samples.plain_nwbfile())
    convert(hdf5, tmp_path / "c.nwb.zarr")
    convert(tmp_path / "c.nwb.zarr", tmp_path / "d.nwb.zarr")
    assert dry_run(hdf5).zarr_format == dry_run(samples.plain_nwbfile()).zarr_format == expected
    assert main(["convert", str(hdf5), str(tmp_path / "e.nwb.zarr")]) == 0
    for name in ("new.zarr", "b.nwb.zarr", "c.nwb.zarr", "d.nwb.zarr", "e.nwb.zarr"):
        with ZarrIO(tmp_path / name) as io:
            assert io.zarr_format == expected, name
    convert(hdf5, tmp_path / "c.nwb.zarr.json", to="virtual")
    with ZarrIO(tmp_path / "c.nwb.zarr.json") as io:
        assert io.zarr_format == (3 if value == "3" else 2)
    with ZarrIO(write_builder(tmp_path / "named.zarr", root(), zarr_format=3)) as io:
        assert io.zarr_format == 3
    with ZarrIO(old, "a") as io:
        assert io.zarr_format == (5 - int(value) if value in "23" and value else 2)


def test_a_format_that_does_not_exist(tmp_path, monkeypatch):
    for number in (1, 4, "3"):
        with pytest.raises(UsageError, match="no Zarr format"):
            ZarrIO(tmp_path / "a.zarr", "w", zarr_format=number)
    monkeypatch.setenv(VARIABLE, "4")
    with pytest.raises(UsageError, match=f"{VARIABLE} is '4'.*2, 3 or both"):
        write_builder(tmp_path / "a.zarr", root())
    assert list(tmp_path.iterdir()) == []
    assert read_builder(write_builder(tmp_path / "a.zarr", root(), zarr_format=2)).name == "root"


@pytest.mark.parametrize("value", ["", "2", "both"])
@pytest.mark.parametrize("shards", [(50,), "auto"])
def test_shards_without_a_format_make_format_3(tmp_path, monkeypatch, shards, value):
    monkeypatch.setenv(VARIABLE, value)
    data = np.arange(100)
    write_builder(tmp_path / "a.zarr", root(dataset("d", ZarrDataIO(data, chunks=(10,), shards=shards))))
    hdf5 = tmp_path / "b.h5"
    hdf5_dataset(hdf5, "d", data=data, chunks=(10,))
    convert(hdf5, tmp_path / "b.zarr", shards=shards)
    plain = write_builder(tmp_path / "2.zarr", root(dataset("d", data)), zarr_format=2)
    convert(plain, tmp_path / "c.zarr", shards=shards)
    text = "auto" if shards == "auto" else "50"
    assert main(["convert", str(hdf5), str(tmp_path / "d.zarr"), "--shards", text]) == 0
    assert dry_run(hdf5, shards=shards).zarr_format == 3
    for name in "abcd":
        with ZarrIO(tmp_path / f"{name}.zarr") as io:
            assert (io.zarr_format, io.read_builder()["d"].data[()].tolist()) == (3, data.tolist())
    codecs = json.loads((tmp_path / "a.zarr" / "d" / "zarr.json").read_text())["codecs"]
    assert (codecs[0]["name"] == "sharding_indexed") == (shards != "auto")


@pytest.mark.parametrize("number", [2, "both"])
def test_shards_in_a_format_that_is_named_are_refused(tmp_path, number):
    sharded = dataset("d", ZarrDataIO(np.arange(100), chunks=(10,), shards=(50,)))
    refused = r"neither Zarr format 2 nor a file of both formats has shards.*\(/d\)"
    with pytest.raises(UsageError, match=refused):
        write_builder(tmp_path / "a.zarr", root(sharded), zarr_format=number)
    assert list(tmp_path.iterdir()) == []
    path = write_builder(tmp_path / "a.zarr", root(), zarr_format=number)
    with pytest.raises(UsageError, match=refused), edit_builder(path) as builder:
        builder.set_dataset(sharded)


def test_format_3_counts_where_both_are_there(tmp_path):
    path = write_builder(tmp_path / "a.zarr", root(dataset("old", [1])))
    other = write_builder(tmp_path / "b.zarr", root(dataset("new", [1])), zarr_format=3)
    shutil.copytree(other, path, dirs_exist_ok=True)
    for mode in ("r", "r-"):
        with ZarrIO(path, mode) as io:
            assert (io.zarr_format, list(io.read_builder().datasets)) == (3, ["new"])


# ---- what zarr-python makes of it -----------------------------------------------------------------------------------
@needs_zarr_3
def test_an_array_that_zarr_python_cannot_open_is_reported(tmp_path, monkeypatch):
    path = write_builder(tmp_path / "a.zarr", root(dataset("d", np.zeros(2, [("a", "<i4")]))), zarr_format=3)
    data = read_builder(path)["d"].data

    def refuse(*arguments: Any, **options: Any) -> None:
        raise ValueError("No Zarr data type found that matches 'struct'")

    monkeypatch.setattr(zarr, "open_array", refuse)
    assert data[:].tolist() == [(0,), (0,)]
    with pytest.raises(NotZarrError, match="struct"):
        _ = data.metadata


# ---- changes --------------------------------------------------------------------------------------------------------
@needs_zarr_3
@pytest.mark.parametrize("index_location", ["start", "end"])
def test_shards_of_zarr_python_are_changed_in_place(tmp_path, index_location):
    from zarr.codecs import BytesCodec, ShardingCodec

    path = write_builder(tmp_path / "a.zarr", root(), zarr_format=3)
    codec = ShardingCodec(chunk_shape=(2,), codecs=[BytesCodec()], index_location=index_location)
    array = zarr.open_group(path, mode="r+", use_consolidated=False).create_array(
        "d", shape=(8,), dtype="<i8", chunks=(4,), serializer=codec, compressors=None
    )
    array[:] = np.arange(8)
    assert read_builder(path, "r-")["d"].data[3:6].tolist() == [3, 4, 5]
    consolidate(path)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["d"].data
        data[0] = 5
        data.append([8, 9, 10])
    assert zarr.open_array(path / "d", mode="r")[:].tolist() == [5, *range(1, 11)]
    assert read_builder(path, "r-")["d"].data[:].tolist() == [5, *range(1, 11)]


# ---- one made of the other ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("number", "other"), [(2, 3), (3, 2)])
def test_chunks_are_copied_as_they_are(rich, number, other, tmp_path):
    convert(rich[number], tmp_path / "other.nwb.zarr", zarr_format=other)
    old, new = (parse(LocalStore(str(path))).hierarchy for path in (rich[number], tmp_path / "other.nwb.zarr"))
    copied = 0
    for path, node in old.walk():
        result = new.get(path)
        first = (node.stored.filters or [{}])[0].get("id") if isinstance(node, Dataset) else "group"
        if first in ("group", "json2", "references", "struct") or not isinstance(result, Dataset):
            continue
        for index in np.ndindex(*node.stored.grid):
            stored = (rich[number] / path / node.stored.chunk_name(index)).read_bytes()
            assert (tmp_path / "other.nwb.zarr" / path / result.stored.chunk_name(index)).read_bytes() == stored, path
            copied += 1
    assert copied > 100


@pytest.mark.parametrize("number", [2, 3, "both"])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_conversion_to_the_same_format_is_a_copy(rich, number, is_named, tmp_path):
    source = rich.get(number) or Path(convert(rich[2], tmp_path / "both.zarr", zarr_format=number).target)
    convert(source, tmp_path / "b.zarr", zarr_format=number if is_named else None)
    assert compare(source, tmp_path / "b.zarr") == []
    assert verify(tmp_path / "b.zarr").is_sound
    with NWBZarrIO(tmp_path / "b.zarr") as io:
        assert io.zarr_format == number


@needs_zarr_3
def test_a_copy_keeps_shards(tmp_path):
    data = np.arange(800, dtype="i4").reshape(200, 4)
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=3)
    root.create_array("data", data=data, chunks=(10, 4), shards=(50, 4))
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr")
    convert(tmp_path / "a.zarr", tmp_path / "c.zarr", zarr_format=2)
    convert(tmp_path / "a.zarr", tmp_path / "d.zarr", shards=(100, 4))
    shards = [zarr.open_group(tmp_path / name)["data"].shards for name in ("b.zarr", "c.zarr", "d.zarr")]
    assert shards == [(50, 4), None, (100, 4)]
    assert np.array_equal(zarr.open_group(tmp_path / "b.zarr")["data"][:], data)


@pytest.mark.parametrize("encoding", ["default", "v2"])
def test_a_copy_keeps_the_keys_of_chunks(encoding, tmp_path):
    data = dataset("data", ZarrDataIO(np.zeros((4, 4)), chunks=(2, 2)))
    options = WriteOptions(chunk_key_encoding=encoding)
    write_builder(tmp_path / "a.zarr", root(data), zarr_format=3, write_options=options)
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert keys_of(tmp_path / "a.zarr") == keys_of(tmp_path / "b.zarr")


@pytest.mark.parametrize(("number", "other"), [(2, 3), (3, 2)])
def test_links_and_references_to_other_files_lead_there_from_the_new_place(number, other, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "new" / "deeper").mkdir(parents=True)
    target = group("target", dataset("data", np.arange(3)), object_id="1")
    neighbour = write_builder(tmp_path / "old" / "neighbour.zarr", root(target), zarr_format=number)
    target.source = str(neighbour)
    there = ZarrReference("../neighbour.zarr", "/target")
    holder = group("holder", dataset("refs", [there, there], "object"), attribute=there, several=[there])
    holder.set_link(LinkBuilder(target, "link"))
    fields = [{"name": "i", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    holder.set_dataset(DatasetBuilder("rows", [(1, there)], dtype=fields))
    source = write_builder(tmp_path / "old" / "a.zarr", root(holder), zarr_format=number)
    convert(source, tmp_path / "new" / "deeper" / "a.zarr", zarr_format=other)
    result = read_builder(tmp_path / "new" / "deeper" / "a.zarr")["holder"]
    targets = [result.links["link"].builder, result.attributes["attribute"], *result.attributes["several"],
               *result["refs"].data[:], result["rows"].data[0][1]]  # fmt: skip
    assert {builder.source for builder in targets} == {str(neighbour)}
    assert {builder.location for builder in targets} == {"/"}
