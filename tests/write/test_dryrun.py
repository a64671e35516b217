"""What would be written is what is written: documents, numbers of objects, bytes."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hdmf.build import BuildManager, TypeMap
from hdmf.common import DynamicTable, get_manager
from hdmf.data_utils import DataChunkIterator
from hdmf.spec import NamespaceCatalog
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, WriteOptions, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.array.chunks import ChunkCache
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.dryrun import DryRun, dry_run
from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.errors import StoreNotFoundError, UnsupportedFileError, UsageError, ValueRefusedError
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.zom import model_json
from tests import samples
from tests.blocks import Windows
from tests.documents import metadata

GIVEN: dict[str, dict[str, Any]] = {
    "2": {"zarr_format": 2},
    "3": {"zarr_format": 3},
    "both": {"zarr_format": "both"},
    "keys of one level": {"zarr_format": 3, "write_options": WriteOptions(chunk_key_encoding="v2")},
    "nczarr": {"write_options": WriteOptions(nczarr=True)},
    "strict JSON": {"zarr_format": 2, "write_options": WriteOptions(strict_json=True)},
}
ALL_WAYS = pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)


def assert_came_true(found: DryRun, path: Path, *, sizes: float = 0.0) -> None:
    assert metadata(found.hierarchy) == metadata(path)
    keys, cache = LocalStore(str(path)), ChunkCache()
    nodes = parse(keys).hierarchy.walk()
    arrays = [LazyArray(keys, place, node, cache) for place, node in nodes if isinstance(node, Dataset)]
    # neither text nor references, nor rows with some
    assert found.nbytes == sum(data.size * data.dtype.itemsize for data in arrays if not data.dtype.hasobject)
    files = [file for file in path.rglob("*") if file.is_file()]
    assert found.objects == len(files)
    assert found.stored_bytes is not None
    stored = sum(file.stat().st_size for file in files)
    assert abs(found.stored_bytes - stored) <= sizes * stored


@ALL_WAYS
def test_a_container_is_written_as_it_was_planned_and_a_plan_leaves_no_trace(tmp_path, given):
    nwbfile = samples.rich_nwbfile()
    planned = dry_run(nwbfile, tmp_path / "one.zarr", **given)
    children = nwbfile.all_children()
    assert {child.container_source for child in children} == {None}
    assert len(children) > 50
    assert metadata(dry_run(nwbfile, tmp_path / "two.zarr", **given).hierarchy) == metadata(planned.hierarchy)
    assert list(tmp_path.iterdir()) == []
    assert_came_true(planned, samples.write_zarr(tmp_path / "three.zarr", nwbfile, **given))


def test_options_of_the_write_count(tmp_path):
    nwbfile = samples.plain_nwbfile()
    plain = dry_run(nwbfile, cache_spec=False)
    assert plain.nbytes == 20 * 3 * 2 + 8  # a trace, and the time at which it starts
    assert plain.hierarchy.get("specifications") is None
    assert plain.documents < dry_run(nwbfile).documents
    loose = dry_run(nwbfile, write_options=WriteOptions(consolidate_metadata=False), cache_spec=False)
    assert loose.documents == plain.documents - 1
    assert dry_run(nwbfile, estimate=False).stored_bytes is None


@ALL_WAYS
def test_an_export_is_written_as_it_was_planned(tmp_path, given):
    source = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.rich_nwbfile())
    target = tmp_path / "b.nwb.zarr"
    with NWBZarrIO(source, "r") as io:
        planned = dry_run(io, target, **given, write_args={"link_data": False})
        with NWBZarrIO(target, "w", **given) as out:
            out.export(io, write_args={"link_data": False})
    assert_came_true(planned, target)


def test_an_export_of_hdf5_is_written_as_it_was_planned(tmp_path):
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.rich_nwbfile())
    with NWBHDF5IO(source, "r") as io:
        planned = dry_run(io, tmp_path / "b.nwb.zarr")
        with NWBZarrIO(tmp_path / "b.nwb.zarr", "w") as out:
            out.export(io)
    assert_came_true(planned, tmp_path / "b.nwb.zarr")


@ALL_WAYS
def test_a_conversion_is_written_as_it_was_planned(tmp_path, given):
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.rich_nwbfile())
    planned = dry_run(source, tmp_path / "a.nwb.zarr", **given)
    convert(source, tmp_path / "a.nwb.zarr", **given)
    assert_came_true(planned, tmp_path / "a.nwb.zarr")


@pytest.mark.corpus
@ALL_WAYS
def test_all_real_files_are_written_as_they_were_planned(some_nwbfiles, tmp_path, given):
    number = 0
    for source in some_nwbfiles:
        path = tmp_path / f"{source.stem}.nwb.zarr"
        try:
            convert(source, path, **given)
        except UnsupportedFileError:
            continue
        assert_came_true(dry_run(source, path, **given), path, sizes=0.05)
        number += 1
    assert number > 0.75 * len(some_nwbfiles)


def rows() -> Iterator[Any]:
    for _ in range(10):
        yield np.arange(3)


def test_an_iterator_without_a_length_is_unknown(tmp_path):
    nwbfile = samples.plain_nwbfile()
    data = DataChunkIterator(rows(), dtype=np.dtype("i8"), buffer_size=2)
    unread = SimpleNamespace(shape=(1000, 4), dtype=np.dtype("i2"))  # no block may be asked for
    nwbfile.add_acquisition(TimeSeries(name="grows", data=data, unit="V", rate=1.0))
    nwbfile.add_acquisition(TimeSeries(name="blocks", data=Windows(unread), unit="V", rate=1.0))
    planned = dry_run(nwbfile, tmp_path / "a.zarr")
    assert planned.unknown == ["/acquisition/grows/data"]
    assert planned.objects is None
    assert planned.stored_bytes is None
    grows = planned.arrays["/acquisition/grows/data"]
    assert (grows.shape, grows.objects, grows.nbytes, grows.stored_bytes) == ((None, 3), None, None, None)
    blocks = planned.arrays["/acquisition/blocks/data"]
    assert (blocks.shape, blocks.objects, blocks.nbytes, blocks.stored_bytes) == ((1000, 4), 1, 8000, None)
    assert planned.nbytes == blocks.nbytes + 2 * 8 + dry_run(samples.plain_nwbfile()).nbytes  # each has a starting time
    assert len(list(data)) == 5, "no block is missing"


def test_an_iterator_of_known_length_is_written_as_it_was_planned(tmp_path):
    nwbfile = samples.plain_nwbfile()
    data = DataChunkIterator(rows(), maxshape=(10, 3), dtype=np.dtype("i8"))
    nwbfile.add_acquisition(TimeSeries(name="rows", data=data, unit="V", rate=1.0))
    planned = dry_run(nwbfile, tmp_path / "a.zarr")
    samples.write_zarr(tmp_path / "a.zarr", nwbfile)
    assert metadata(planned.hierarchy) == metadata(tmp_path / "a.zarr")


def test_large_arrays_are_estimated_from_one_chunk(tmp_path):
    nwbfile = samples.plain_nwbfile()
    rng = np.random.default_rng(0)
    data = rng.integers(0, 50, (20_000, 8), dtype="i2")
    wrapped = ZarrDataIO(data, chunks=(3000, 3), compressor={"id": "zlib", "level": 1})
    nwbfile.add_acquisition(TimeSeries(name="many", data=wrapped, unit="V", rate=1.0))
    planned = dry_run(nwbfile, tmp_path / "a.zarr")
    array = planned.arrays["/acquisition/many/data"]
    assert (array.objects, array.nbytes, array.codecs) == (7 * 3, data.nbytes, ("zlib 1",))
    samples.write_zarr(tmp_path / "a.zarr", nwbfile)
    assert_came_true(planned, tmp_path / "a.zarr", sizes=0.1)


def test_a_table_of_hdmf_needs_no_manager(tmp_path):
    table, other = (DynamicTable(name="root", description="x", id=[1, 2, 3]) for _ in range(2))
    table.add_column("a", "x", data=[1, 2, 3])
    planned = dry_run(table, tmp_path / "a.zarr")
    with ZarrIO(tmp_path / "a.zarr", "w", manager=get_manager()) as io:
        io.write(table)
    assert_came_true(planned, tmp_path / "a.zarr")
    with pytest.raises(ValueError, match=r"ObjectMapper|not mapped"):
        dry_run(other, manager=BuildManager(TypeMap(NamespaceCatalog())))


def test_what_is_wrong_is_reported_before_the_write():
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_acquisition(TimeSeries(name="bad", data=[[1.0, 2.0], [3.0]], unit="V", rate=1.0))
    for target in ([], ["mine.zarr"]):
        with pytest.raises(ValueRefusedError, match="/acquisition/bad/data") as caught:
            dry_run(nwbfile, *target)
        assert caught.value.store == (str(Path("mine.zarr").absolute()) if target else None)
        assert (".zarr" in str(caught.value)) == bool(target)


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        dry_run(5)
    with pytest.raises(StoreNotFoundError):
        dry_run(tmp_path / "no.nwb")
    (tmp_path / "text.nwb").write_text("text")
    with pytest.raises(UnsupportedFileError, match="not an HDF5 file"):
        dry_run(tmp_path / "text.nwb")
    with pytest.raises(UsageError, match="no attributes in format 3"):
        dry_run(tmp_path / "no.nwb", zarr_format=3, write_options=WriteOptions(nczarr=True))


def test_options_that_do_not_fit_are_refused_as_by_a_write_or_a_conversion(tmp_path):
    options = WriteOptions(chunk_key_encoding="v2")
    for call in (dry_run, lambda container, path, **given: samples.write_zarr(path, container, **given)):
        with pytest.raises(UsageError, match="only Zarr format 3 has chunk_key_encoding"):
            call(samples.plain_nwbfile(), tmp_path / "a.nwb.zarr", write_options=options)
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    for call in (dry_run, convert):
        with pytest.raises(UsageError, match="storage_options are for URLs"):
            call(source, tmp_path / "a.nwb.zarr", storage_options={"anon": True})


def test_the_command_line_tells_it(tmp_path, capsys):
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.rich_nwbfile())
    planned = dry_run(source, tmp_path / "a.nwb.zarr")
    assert main(["dry-run", str(source)]) == 0
    shown = capsys.readouterr().out
    assert f"objects: {planned.objects:,}, {planned.documents:,} of them metadata" in shown
    assert main(["dry-run", str(source), "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["objects"], document["stored_bytes"]) == (planned.objects, planned.stored_bytes)
    assert len(document["arrays"]) == len(planned.arrays)
    assert {array["shards"] for array in document["arrays"]} == {None}
    assert main(["dry-run", str(source), "--model", "--zarr-format", "3", "--no-estimate"]) == 0
    assert json.loads(capsys.readouterr().out)["zarr_format"] == 3
    assert not (tmp_path / "a.nwb.zarr").exists()
    convert(source, tmp_path / "a.nwb.zarr")
    assert main(["inspect", str(tmp_path / "a.nwb.zarr"), "--model"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == model_json(planned.hierarchy).keys()
