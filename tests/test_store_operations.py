"""The operations on a local store, by what Python opens, lists and renames.

Writing a new file reads nothing, lists nothing in it and sets each key once, the consolidated document last. Opening a
file is one read for each format of Zarr, and what was not asked for is not read.
"""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.data_utils import DataChunkIterator
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from tests import samples
from tests.documents import forget_inlined
from tests.watching import Watched, watching

FIRST = ["zarr.json", ".zmetadata"]
"""The keys that are read when a file is opened: the document of each format that holds all others."""

LAST = {2: ".zmetadata", 3: "zarr.json"}
"""The key that is set last in a file of each format."""


def keys_of(path: Path) -> list[str]:
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())


def in_store(keys: list[str]) -> list[str]:
    """Return keys below a folder as those of the file that is written beside its place in it."""
    return [inner for key in keys if (inner := key.partition("/")[2])]


# ---- writing -------------------------------------------------------------------------------------------------------
def check_new_file(path: Path, watched: Watched, zarr_format: int = 2) -> None:
    sets = in_store(watched.sets)
    assert sorted(sets) == keys_of(path)
    assert sets[-1] == LAST[zarr_format]
    assert in_store(watched.reads) == watched.lists == in_store(watched.deletes) == []  # but for the lock beside it


@pytest.mark.parametrize(("mode", "zarr_format"), [("w", 2), ("w-", 2), ("x", 2), ("a", 2), ("w", 3), ("a", 3)])
def test_writing_a_new_file(tmp_path, mode, zarr_format):
    nwbfile = samples.rich_nwbfile()
    with watching(tmp_path) as watched, NWBZarrIO(tmp_path / "new.zarr", mode, zarr_format=zarr_format) as io:
        io.write(nwbfile)
    check_new_file(tmp_path / "new.zarr", watched, zarr_format)
    assert len(watched.sets) > (500 if zarr_format == 2 else 300)  # a node has two documents in format 2


def test_exporting_from_hdf5(tmp_path, zarr_format):
    source = samples.write_hdf5(tmp_path / "rich.nwb")
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "new.zarr"
    with (
        watching(target.parent) as watched,
        NWBHDF5IO(source, "r") as src,
        NWBZarrIO(target, "w", zarr_format=zarr_format) as io,
    ):
        io.export(src)
    check_new_file(target, watched, zarr_format)


def test_exporting_from_zarr_reads_each_key_of_the_source_once(tmp_path, zarr_format):
    source = samples.write_zarr(tmp_path / "source.zarr", zarr_format=zarr_format)
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "new.zarr"
    with (
        watching(source) as watched,
        watching(target.parent) as written,
        NWBZarrIO(source) as src,
        NWBZarrIO(target, "w") as io,
    ):
        io.export(src)
    assert watched.reads[:2] == FIRST
    assert len(watched.reads) == len(set(watched.reads))
    assert watched.sets == watched.lists == watched.deletes == []
    assert sorted(in_store(written.sets)) == keys_of(target)


def test_replacing_a_file_asks_what_it_is_and_reads_no_more(tmp_path):
    path = samples.write_zarr(tmp_path / "file.zarr")
    keys = keys_of(path)
    with watching(tmp_path) as watched:
        samples.write_zarr(path, samples.plain_nwbfile("new"))
    assert [key for key in watched.reads + in_store(watched.reads) if key in keys] == [".zattrs"]
    assert sorted(in_store(watched.sets)) == keys_of(path)


def test_an_array_that_grows_sets_each_chunk_once(tmp_path):
    """The blocks of the iterator do not end where the chunks do."""
    data = DataChunkIterator(data=iter(np.arange(70).reshape(35, 2)), buffer_size=3)
    dataset = DatasetBuilder(name="data", data=ZarrDataIO(data, chunks=(10, 2)))
    with watching(tmp_path) as watched, ZarrIO(tmp_path / "file.zarr", "w") as io:
        io.write_builder(GroupBuilder(name="root", datasets={"data": dataset}))
    check_new_file(tmp_path / "file.zarr", watched)
    assert [key for key in in_store(watched.sets) if key.startswith("data/")] == [
        "data/0.0", "data/1.0", "data/2.0", "data/3.0", "data/.zarray", "data/.zattrs",
    ]  # fmt: skip


@pytest.mark.parametrize("number", [1, 40])
def test_the_number_of_operations_does_not_grow_with_attributes_or_references(tmp_path, number):
    """One document for all attributes of a node, one for all links of a group, one chunk for all references."""
    target = GroupBuilder(name="target")
    group = GroupBuilder(name="group", attributes={f"a{i}": i for i in range(number)})
    for i in range(number):
        group.set_attribute(f"r{i}", ReferenceBuilder(target))
    group.set_dataset(DatasetBuilder(name="all", data=[ReferenceBuilder(target)] * number, dtype="object"))
    with watching(tmp_path) as watched, ZarrIO(tmp_path / "file.zarr", "w") as io:
        io.write_builder(GroupBuilder(name="root", groups={"target": target, "group": group}))
    assert sorted(in_store(watched.sets)) == [
        ".zattrs", ".zgroup", ".zmetadata", "group/.zattrs", "group/.zgroup", "group/all/.zarray", "group/all/.zattrs",
        "group/all/0", "target/.zgroup",
    ]  # fmt: skip


# ---- reading -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_zarr(tmp_path_factory.mktemp("rich") / "rich.zarr")


@pytest.fixture(scope="module")
def rich3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_zarr(tmp_path_factory.mktemp("rich3") / "rich.zarr", zarr_format=3)


def test_opening_is_one_read_and_the_values_that_builders_must_hold(rich, tmp_path):
    rich = Path(shutil.copytree(rich, tmp_path / "a.zarr"))
    scalars: set[str] = set()
    with ZarrIO(rich, "r-") as io:
        stack = [("", io.read_builder())]
        while stack:
            here, group = stack.pop()
            stack.extend((f"{here}{name}/", child) for name, child in group.groups.items())
            scalars |= {f"{here}{name}/0" for name, child in group.datasets.items() if not np.shape(child.data)}
    scalars = {key for key in scalars if (rich / key).exists()}
    first_chunks = {key for key in keys_of(rich) if key.endswith("/0")}
    assert len(scalars) > 10
    forget_inlined(rich)
    with watching(rich) as watched, ZarrIO(rich) as io:
        assert watched.reads == FIRST
        io.read_builder()
        reads = list(watched.reads)
        assert io.read_builder() is io.read_builder()
    assert watched.reads == reads
    assert len(reads) == len(set(reads))
    assert scalars <= set(reads)
    rest = set(reads) - scalars - set(FIRST)  # a scalar that is a row or a reference
    assert rest <= first_chunks
    assert len(rest) <= 3
    assert all("specifications" not in key for key in reads)
    assert watched.sets == watched.lists == []


def test_opening_a_small_file_is_one_read(rich, rich3, zarr_format):
    """The scalars and the cached namespaces travel inside the consolidated document."""
    path = {2: rich, 3: rich3}[zarr_format]
    for options, expected in (({}, FIRST), ({"zarr_format": zarr_format}, [LAST[zarr_format]])):
        with watching(path) as watched, NWBZarrIO(path, **options) as io:
            io.read_builder()
        assert watched.reads == expected
        assert watched.sets == watched.lists == []


def test_containers_read_no_array_twice_and_no_recording_at_all(rich):
    with watching(rich) as watched, NWBZarrIO(rich) as io:
        nwbfile = io.read(check=True)
        reads = list(watched.reads)
        assert len(reads) == len(set(reads))
        recordings = ("acquisition/", "processing/ecephys/", "units/", "intervals/", "stimulus/")
        arrays = {"data", "timestamps", "spike_times", "waveform_mean", "start_time", "timeseries", "pixel_mask"}
        assert [key for key in reads if key.startswith(recordings) and key.split("/")[-2] in arrays] == []
        nwbfile.acquisition["raw"].data[0]
        nwbfile.acquisition["raw"].data[1:5]
        assert watched.reads == [*reads, "acquisition/raw/data/0.0"]


def test_without_the_consolidated_document_documents_are_read_once(rich):
    with watching(rich) as watched, ZarrIO(rich, "r-") as io:
        io.read_builder()
    documents = {key for key in keys_of(rich) if key.rpartition("/")[2] in (".zgroup", ".zarray", ".zattrs")}
    result = Counter(key for key in watched.reads if key in documents)
    assert result.keys() == documents
    assert {key for key, count in result.items() if count > 1} <= {".zgroup"}
    assert ".zmetadata" not in watched.reads
    assert watched.sets == []
    chunks = [key for key in watched.lists if (rich / key / ".zarray").exists()]
    assert len(chunks) == len(set(chunks))


@pytest.mark.parametrize("mode", ["r", "r-", "r+", "a"])
def test_opening_and_closing_touches_nothing(rich, mode):
    before = {path: path.stat().st_mtime_ns for path in rich.rglob("*")}
    with watching(rich) as watched, NWBZarrIO(rich, mode) as io:
        io.read()
    assert {path: path.stat().st_mtime_ns for path in rich.rglob("*")} == before
    assert watched.sets == watched.deletes == []
    assert mode == "r-" or watched.lists == []


@pytest.fixture(params=[2, 3])
def chunked(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    nwbfile = samples.plain_nwbfile()
    data = ZarrDataIO(np.arange(50 * 6).reshape(50, 6), chunks=(10, 2))
    nwbfile.add_acquisition(TimeSeries(name="chunked", data=data, unit="m", rate=1.0))
    return samples.write_zarr(tmp_path / "chunked.zarr", nwbfile, zarr_format=request.param)


@pytest.mark.parametrize(("key", "chunks"), [
    (0, ["0.0", "0.1", "0.2"]), ((12, 3), ["1.1"]), ((slice(5, 15), 0), ["0.0", "1.0"]),
    ((slice(None), -1), ["0.2", "1.2", "2.2", "3.2", "4.2"]), (([0, 49], 1), ["0.0", "4.0"]),
    ((slice(0, 50, 25), slice(2, 4)), ["0.1", "2.1"]), (slice(20, 20), []),
], ids=str)  # fmt: skip
def test_only_the_chunks_that_are_needed_are_read(chunked, key, chunks):
    with NWBZarrIO(chunked) as io:
        data = io.read().acquisition["chunked"].data
        with watching(chunked) as watched:
            values = data[key]
            data[key]  # decoded chunks are kept
        is_3, prefix = (chunked / "zarr.json").exists(), "acquisition/chunked/data/"
        assert sorted(watched.reads) == [
            prefix + (f"c/{chunk.replace('.', '/')}" if is_3 else chunk) for chunk in chunks
        ]
        assert np.array_equal(values, np.arange(300).reshape(50, 6)[key])


def test_shape_and_type_of_an_array_cost_nothing(chunked):
    with NWBZarrIO(chunked) as io:
        data = io.read().acquisition["chunked"].data
        with watching(chunked) as watched:
            assert (data.shape, data.chunks, len(data), data.ndim, data.nbytes) == ((50, 6), (10, 2), 50, 2, 2400)
            assert (str(data.dtype), data.compressor.codec_id) == ("int64", "blosc")
            assert data.name == "/acquisition/chunked/data"
            repr(data)
    assert watched.reads == []


def test_rows_of_references_are_read_once(rich):
    with NWBZarrIO(rich) as io:
        trials, electrodes = io.read().trials, io.read().electrodes
        with watching(rich) as watched:
            for i in range(4):
                trials["timeseries"][i]
                electrodes["group"][i]
            trials.to_dataframe()
    assert len(watched.reads) == len(set(watched.reads))
    assert "intervals/trials/timeseries/0.0" in watched.reads


def test_a_link_to_another_file_is_opened_once(tmp_path, zarr_format):
    """What a file of format 3 links to is likely one too."""
    (tmp_path / "first").mkdir()
    first = samples.write_zarr(tmp_path / "first" / "a.zarr", samples.plain_nwbfile("first"), zarr_format=zarr_format)
    opening = FIRST if zarr_format == 2 else FIRST[:1]
    chunk = "acquisition/trace/data/" + ("0.0" if zarr_format == 2 else "c/0/0")
    second = tmp_path / "second.zarr"
    with NWBZarrIO(first) as source, NWBZarrIO(second, "w", zarr_format=zarr_format) as io:
        nwbfile = samples.plain_nwbfile("second")
        for i in range(3):
            data = source.read().acquisition["trace"].data
            nwbfile.add_acquisition(TimeSeries(name=f"far{i}", data=data, unit="m", rate=1.0))
        io.write(nwbfile)
    with NWBZarrIO(second) as io:
        nwbfile = io.read()
        with watching(first) as watched:
            assert len(nwbfile.objects) > 3
            assert watched.reads == opening
            assert nwbfile.acquisition["far2"].data[0].tolist() == [0, 1, 2]
    assert watched.reads == [*opening, chunk]
    assert watched.lists == []


# ---- appending -----------------------------------------------------------------------------------------------------
def test_an_append_reads_what_it_needs_and_sets_what_is_new(tmp_path, zarr_format):
    """A series costs its own keys and the consolidated document, which is set last, whatever else is in the file."""
    path = samples.write_zarr(tmp_path / "file.zarr", zarr_format=zarr_format)
    before = set(keys_of(path))
    with watching(path) as watched, NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="new", data=np.arange(3.0), unit="m", rate=1.0))
        io.write(nwbfile)
    new = set(keys_of(path)) - before
    assert new
    assert all(key.startswith("acquisition/new/") for key in new)
    sets = [key for key in watched.sets if "journal" not in key]
    assert set(sets) == new | {LAST[zarr_format]}
    assert sets[-1] == LAST[zarr_format]
    assert len(watched.reads) <= 14
    assert not [key for key in watched.reads if key.endswith("/0.0")]
