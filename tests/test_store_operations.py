"""The number of store operations, counted twice: at our own `LocalStore`, and by what Python opens and lists.

Writing a new file asks once whether the target exists, then reads nothing, lists nothing in it and sets each key once,
the consolidated document last; what interrupted conversions have left beside it is looked for when it is whole. Opening
a file is one get for each format of Zarr, and what was not asked for is not read.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.data_utils import DataChunkIterator
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.stores.local import LocalStore, OpenFolder
from tests import samples
from tests.documents import forget_inlined
from tests.watching import listening

FIRST = ["zarr.json", ".zmetadata"]
"""The keys that are read when a file is opened: the document of each format that holds all others."""

LAST = {2: ".zmetadata", 3: "zarr.json"}
"""The key that is set last in a file of each format."""

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])

WATCHED = {
    "open", "os.listdir", "os.scandir", "os.walk", "glob.glob", "os.rename", "os.remove", "os.rmdir", "os.mkdir",
    "os.link", "os.symlink", "os.truncate", "shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree",
}  # fmt: skip


class Counts:
    """Calls of the methods of `LocalStore`, as pairs of method and key ("" where there is none)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def of(self, *methods: str) -> list[str]:
        return [key for method, key in self.calls if method in methods]

    @property
    def methods(self) -> Counter[str]:
        return Counter(method for method, _ in self.calls)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    counts = Counts()

    def count(name: str) -> None:
        method = getattr(LocalStore, name)

        def counted(self: LocalStore, *args: Any, **options: Any) -> Any:
            keys = args[0] if args else ""
            if name == "delete":
                args = (list(keys), *args[1:])
                counts.calls.extend((name, key) for key in args[0])
            else:
                counts.calls.append((name, keys))
            return method(self, *args, **options)

        monkeypatch.setattr(LocalStore, name, counted)

    # all other methods use these, or query the disk without reading or writing a value
    counted = (
        "get", "get_ranges", "open_value", "set", "delete", "exists", "list_documents", "sizes", "delete_below",
        "stream",
    )  # fmt: skip
    for name in counted:
        count(name)
    others = {
        "pin", "opens_values", "streams_values", "state", "sync", "link_value", "delete_unfinished", "is_empty_folder",
        "keys_outside", "names_without_values", "is_blocked", "check_inside",
    }  # fmt: skip
    assert {name for name in vars(LocalStore) if name[0] != "_"} == {*counted, *others}
    return counts


class Watch:
    """The audit events about one folder: ``(event, path relative to it, writing)``."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.events: list[tuple[str, str, bool]] = []

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        path = args[0] if args else None
        if event not in WATCHED or not isinstance(path, (str, bytes, os.PathLike)):
            return
        path = os.path.abspath(os.fsdecode(path))
        if path != self.folder and not path.startswith(self.folder + os.sep):
            return
        flags = args[2] if event == "open" and len(args) > 2 and isinstance(args[2], int) else 0
        if path.endswith(".lock") or flags & os.O_DIRECTORY:
            return  # the lock of a writer (tests/storage/test_locks.py), and the directory that a reader holds
        writing = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        self.events.append((event, os.path.relpath(path, self.folder), writing))

    @property
    def read(self) -> list[str]:
        return [path for event, path, writing in self.events if event == "open" and not writing]

    @property
    def written(self) -> list[str]:
        return [path for event, path, writing in self.events if event == "open" and writing]

    @property
    def others(self) -> Counter[str]:
        return Counter(event for event, _, _ in self.events if event != "open")


@contextmanager
def watching(folder: Path) -> Iterator[Watch]:
    watch = Watch(folder)
    plain = OpenFolder.open

    def opened(self: OpenFolder, key: str, flags: int) -> int:
        watch.hear("open", (f"{self._root}/{key}", None, flags))  # the hook gets a path within a directory only
        return plain(self, key, flags)

    OpenFolder.open = opened  # type: ignore[method-assign]
    try:
        with listening(watch.hear):
            yield watch
    finally:
        OpenFolder.open = plain  # type: ignore[method-assign]


def keys_of(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def in_store(paths: list[str]) -> list[str]:
    """Return paths below a folder as keys of the file that is written beside its place in it."""
    return [path.partition("/")[2] for path in paths]


def test_the_watch_sees_what_happens(tmp_path):
    (tmp_path / "a").write_text("a")
    with watching(tmp_path) as watch:
        (tmp_path / "a").read_text()
        (tmp_path / "b").write_text("b")
        os.listdir(tmp_path)
        list(os.scandir(tmp_path))
        list(tmp_path.glob("*"))
        os.rename(tmp_path / "a", tmp_path / "c")
    assert (watch.read, watch.written) == (["a"], ["b"])
    assert watch.others["os.listdir"] >= 1
    assert watch.others["os.scandir"] >= 2
    assert watch.others["os.rename"] <= 1  # where it must not replace anything, it is a call of the system's own


# ---- writing -------------------------------------------------------------------------------------------------------


def _check_new_file(path: Path, counts: Counts, watch: Watch, zarr_format: int = 2) -> None:
    sets = counts.of("set")
    assert sorted(sets) == keys_of(path)
    assert len(sets) == len(set(sets))
    assert sets[-1] == LAST[zarr_format]
    assert dict(counts.methods) == {"exists": 1, "set": len(sets)}
    assert counts.calls[0][0] == "exists"
    # and as the operating system sees it
    assert watch.read == []
    assert sorted(in_store(watch.written)) == keys_of(path)
    assert in_store(watch.written)[-1] == LAST[zarr_format]
    assert set(watch.others) <= {"os.mkdir", "os.rename", "os.listdir"}
    assert [path for event, path, _ in watch.events if event == "os.listdir"] == ["."]
    assert watch.others["os.rename"] <= 1  # where it must not replace anything, it is a call of the system itself
    folders = [path for event, path, _ in watch.events if event == "os.mkdir"]
    # the folder of the file is made before anything is set in it; in format 3, `c/0` is missed before `c` is made
    assert len(folders) <= len(set(folders)) + 1 + sum(path.endswith("/c") for path in set(folders))


@pytest.mark.parametrize(("mode", "zarr_format"), [("w", 2), ("w-", 2), ("x", 2), ("a", 2), ("w", 3), ("a", 3)])
def test_writing_a_new_file(tmp_path, counts, mode, zarr_format):
    nwbfile = samples.rich_nwbfile()
    with watching(tmp_path) as watch, NWBZarrIO(tmp_path / "new.zarr", mode, zarr_format=zarr_format) as io:
        assert counts.calls == [("exists", "")]
        io.write(nwbfile)
    _check_new_file(tmp_path / "new.zarr", counts, watch, zarr_format)
    assert len(counts.of("set")) > (500 if zarr_format == 2 else 300)  # a node has two documents in format 2


@FORMATS
def test_exporting_from_hdf5(tmp_path, counts, zarr_format):
    source = samples.write_hdf5(tmp_path / "rich.nwb")
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "new.zarr"
    with (
        watching(target.parent) as watch,
        NWBHDF5IO(source, "r") as src,
        NWBZarrIO(target, "w", zarr_format=zarr_format) as io,
    ):
        io.export(src)
    _check_new_file(target, counts, watch, zarr_format)


@FORMATS
def test_exporting_from_zarr_reads_each_key_of_the_source_once(tmp_path, counts, zarr_format):
    source = samples.write_zarr(tmp_path / "source.zarr", zarr_format=zarr_format)
    counts.calls.clear()
    with watching(source) as watch, NWBZarrIO(source) as src, NWBZarrIO(tmp_path / "new.zarr", "w") as io:
        io.export(src)
    gets = counts.of("get")
    assert gets[:2] == FIRST
    assert len(gets) == len(set(gets))
    assert sorted(watch.read) == sorted(gets)
    assert watch.written == []
    assert watch.others == Counter()
    assert set(counts.methods) == {"get", "exists", "set"}
    assert counts.methods["exists"] == 1
    sets = counts.of("set")
    assert sorted(sets) == keys_of(tmp_path / "new.zarr")
    assert len(sets) == len(set(sets))


def test_replacing_a_file_asks_what_it_is_and_reads_no_more(tmp_path, counts):
    path = samples.write_zarr(tmp_path / "file.zarr")
    counts.calls.clear()
    samples.write_zarr(path, samples.plain_nwbfile("new"))
    assert counts.of("get") == [".zattrs"]
    assert {key: number for key, number in counts.methods.items() if key != "set"} == {"exists": 1, "get": 1}
    sets = counts.of("set")
    assert sorted(sets) == keys_of(path)
    assert len(sets) == len(set(sets))


def test_an_array_that_grows_sets_each_chunk_once(tmp_path, counts):
    """The blocks of the iterator do not end where the chunks do."""
    data = DataChunkIterator(data=iter(np.arange(70).reshape(35, 2)), buffer_size=3)
    dataset = DatasetBuilder(name="data", data=ZarrDataIO(data, chunks=(10, 2)))
    with watching(tmp_path) as watch, ZarrIO(tmp_path / "file.zarr", "w") as io:
        io.write_builder(GroupBuilder(name="root", datasets={"data": dataset}))
    _check_new_file(tmp_path / "file.zarr", counts, watch)
    assert [key for key in counts.of("set") if key.startswith("data/")] == [
        "data/0.0", "data/1.0", "data/2.0", "data/3.0", "data/.zarray", "data/.zattrs",
    ]  # fmt: skip


@pytest.mark.parametrize("number", [1, 40])
def test_the_number_of_operations_does_not_grow_with_attributes_or_references(tmp_path, counts, number):
    """One document for all attributes of a node, one for all links of a group, one chunk for all references."""
    target = GroupBuilder(name="target")
    group = GroupBuilder(name="group", attributes={f"a{i}": i for i in range(number)})
    for i in range(number):
        group.set_attribute(f"r{i}", ReferenceBuilder(target))
    group.set_dataset(DatasetBuilder(name="all", data=[ReferenceBuilder(target)] * number, dtype="object"))
    with ZarrIO(tmp_path / "file.zarr", "w") as io:
        io.write_builder(GroupBuilder(name="root", groups={"target": target, "group": group}))
    assert sorted(counts.of("set")) == [
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


def _scalar_chunks(path: Path) -> set[str]:
    with ZarrIO(path, "r-") as io:
        root = io.read_builder()
    found, stack = set(), [("", root)]
    while stack:
        here, group = stack.pop()
        stack.extend((f"{here}{name}/", child) for name, child in group.groups.items())
        found |= {f"{here}{name}/0" for name, child in group.datasets.items() if not getattr(child.data, "shape", ())}
    return {key for key in found if (path / key).exists()}


def test_opening_is_one_get_and_the_values_that_builders_must_hold(rich, counts, tmp_path):
    rich = Path(shutil.copytree(rich, tmp_path / "a.zarr"))
    scalars, first_chunks = _scalar_chunks(rich), {key for key in keys_of(rich) if key.endswith("/0")}
    assert len(scalars) > 10
    forget_inlined(rich)
    counts.calls.clear()
    with watching(rich) as watch, ZarrIO(rich) as io:
        assert counts.calls == [("get", key) for key in FIRST]
        io.read_builder()
        gets = counts.of("get")
        assert dict(counts.methods) == {"get": len(gets)}
        assert len(gets) == len(set(gets))
        assert scalars <= set(gets)
        rest = set(gets) - scalars - set(FIRST)
        assert rest <= first_chunks
        assert all("specifications" not in key for key in gets)
        # a scalar that is a row or a reference
        assert len(rest) <= 3
        before = len(counts.calls)
        assert io.read_builder() is io.read_builder()
        assert len(counts.calls) == before
    assert watch.read == gets
    assert watch.written == []
    assert watch.others == Counter()


@FORMATS
def test_opening_a_small_file_is_one_get(rich, rich3, counts, zarr_format):
    """The scalars and the cached namespaces travel inside the consolidated document."""
    path = {2: rich, 3: rich3}[zarr_format]
    with watching(path) as watch, NWBZarrIO(path) as io:
        io.read_builder()
        assert counts.calls == [("get", key) for key in FIRST]
    assert counts.calls == [("get", key) for key in FIRST]
    assert [event for event in watch.events if event[0] == "open"] == [("open", key, False) for key in FIRST]
    assert watch.others == Counter()


@FORMATS
def test_a_file_of_a_known_format_is_one_get(rich, rich3, counts, zarr_format):
    path = {2: rich, 3: rich3}[zarr_format]
    with NWBZarrIO(path, zarr_format=zarr_format) as io:
        io.read_builder()
    assert counts.calls == [("get", LAST[zarr_format])]


def test_containers_read_no_array_twice_and_no_recording_at_all(rich, counts):
    with NWBZarrIO(rich) as io:
        nwbfile = io.read(check=True)
        gets = counts.of("get")
        assert len(gets) == len(set(gets))
        recordings = ("acquisition/", "processing/ecephys/", "units/", "intervals/", "stimulus/")
        arrays = {"data", "timestamps", "spike_times", "waveform_mean", "start_time", "timeseries", "pixel_mask"}
        assert [key for key in gets if key.startswith(recordings) and key.split("/")[-2] in arrays] == []
        assert set(counts.methods) == {"get"}
        counts.calls.clear()
        nwbfile.acquisition["raw"].data[0]
        nwbfile.acquisition["raw"].data[1:5]
        assert counts.calls == [("get", "acquisition/raw/data/0.0")]


def test_without_the_consolidated_document_documents_are_read_once(rich, counts):
    with watching(rich) as watch, ZarrIO(rich, "r-") as io:
        io.read_builder()
    gets = counts.of("get")
    documents = [key for key in keys_of(rich) if key.rpartition("/")[2] in (".zgroup", ".zarray", ".zattrs")]
    assert Counter(key for key in gets if key in documents and key != ".zgroup") == Counter(
        key for key in documents if key != ".zgroup"
    )
    assert ".zmetadata" not in gets
    assert watch.written == []
    chunks = [path for event, path, _ in watch.events if event == "os.scandir" and (rich / path / ".zarray").exists()]
    assert len(chunks) == len(set(chunks))


@pytest.mark.parametrize("mode", ["r", "r-", "r+", "a"])
def test_opening_and_closing_touches_nothing(rich, counts, mode):
    before = {path: path.stat().st_mtime_ns for path in rich.rglob("*")}
    with watching(rich.parent) as watch, NWBZarrIO(rich, mode) as io:
        io.read()
    assert {path: path.stat().st_mtime_ns for path in rich.rglob("*")} == before
    assert watch.written == []
    assert not set(watch.others) - {"os.scandir"}
    assert set(counts.methods) <= {"get", "exists", "list_documents"}
    assert counts.methods["list_documents"] == (1 if mode == "r-" else 0)


@pytest.fixture(params=[2, 3])
def chunked(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An array of 5 by 3 chunks, in a file of each format."""
    nwbfile = samples.plain_nwbfile()
    data = ZarrDataIO(np.arange(50 * 6).reshape(50, 6), chunks=(10, 2))
    nwbfile.add_acquisition(TimeSeries(name="chunked", data=data, unit="m", rate=1.0))
    return samples.write_zarr(tmp_path / "chunked.zarr", nwbfile, zarr_format=request.param)


@pytest.mark.parametrize(
    ("key", "chunks"),
    [
        (0, ["0.0", "0.1", "0.2"]),
        ((12, 3), ["1.1"]),
        ((slice(5, 15), 0), ["0.0", "1.0"]),
        ((slice(None), -1), ["0.2", "1.2", "2.2", "3.2", "4.2"]),
        (([0, 49], 1), ["0.0", "4.0"]),
        ((slice(0, 50, 25), slice(2, 4)), ["0.1", "2.1"]),
        (slice(20, 20), []),
    ],
    ids=str,
)
def test_only_the_chunks_that_are_needed_are_read(chunked, counts, key, chunks):
    with NWBZarrIO(chunked) as io:
        data = io.read().acquisition["chunked"].data
        counts.calls.clear()
        with watching(chunked) as watch:
            values = data[key]
        is_3, prefix = (chunked / "zarr.json").exists(), "acquisition/chunked/data/"
        keys = [prefix + (f"c/{chunk.replace('.', '/')}" if is_3 else chunk) for chunk in chunks]
        assert sorted(counts.of("get")) == sorted(watch.read) == keys
        assert set(counts.methods) <= {"get"}
        assert np.array_equal(values, np.arange(300).reshape(50, 6)[key])
        data[key]
        assert len(counts.calls) == len(chunks), "decoded chunks are kept"


def test_shape_and_type_of_an_array_cost_nothing(chunked, counts):
    with NWBZarrIO(chunked) as io:
        data = io.read().acquisition["chunked"].data
        counts.calls.clear()
        assert (data.shape, data.chunks, len(data), data.ndim, data.nbytes) == ((50, 6), (10, 2), 50, 2, 2400)
        assert (str(data.dtype), data.compressor.codec_id, data.name) == ("int64", "blosc", "/acquisition/chunked/data")
        repr(data)
    assert counts.calls == []


def test_rows_of_references_are_read_once(rich, counts):
    with NWBZarrIO(rich) as io:
        trials, electrodes = io.read().trials, io.read().electrodes
        counts.calls.clear()
        for i in range(4):
            trials["timeseries"][i]
            electrodes["group"][i]
        trials.to_dataframe()
        gets = counts.of("get")
        assert len(gets) == len(set(gets))
        assert "intervals/trials/timeseries/0.0" in gets


@FORMATS
def test_a_link_to_another_file_is_opened_once(tmp_path, counts, zarr_format):
    """What a file of format 3 links to is likely one too."""
    first = samples.write_zarr(tmp_path / "first.zarr", samples.plain_nwbfile("first"), zarr_format=zarr_format)
    opening = FIRST if zarr_format == 2 else FIRST[:1]
    chunk = "acquisition/trace/data/" + ("0.0" if zarr_format == 2 else "c/0/0")
    with NWBZarrIO(first) as source, NWBZarrIO(tmp_path / "second.zarr", "w", zarr_format=zarr_format) as io:
        nwbfile = samples.plain_nwbfile("second")
        for i in range(3):
            data = source.read().acquisition["trace"].data
            nwbfile.add_acquisition(TimeSeries(name=f"far{i}", data=data, unit="m", rate=1.0))
        io.write(nwbfile)
    counts.calls.clear()
    with watching(first) as watch, NWBZarrIO(tmp_path / "second.zarr") as io:
        nwbfile = io.read()
        assert watch.read == []
        assert len(nwbfile.objects) > 3
        assert watch.read == opening
        assert nwbfile.acquisition["far2"].data[0].tolist() == [0, 1, 2]
    assert watch.read == [*opening, chunk]
    assert watch.others == Counter()


# ---- appending -----------------------------------------------------------------------------------------------------


@FORMATS
def test_an_append_reads_what_it_needs_and_sets_what_is_new(tmp_path, counts, zarr_format):
    """A series costs its own keys and the consolidated document, which is set last, whatever else is in the file."""
    path = samples.write_zarr(tmp_path / "file.zarr", zarr_format=zarr_format)
    before = set(keys_of(path))
    counts.calls.clear()
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="new", data=np.arange(3.0), unit="m", rate=1.0))
        io.write(nwbfile)
    sets = counts.of("set")
    new = set(keys_of(path)) - before
    assert new
    assert all(key.startswith("acquisition/new/") for key in new)
    assert new | {LAST[zarr_format]} <= set(sets)
    assert {key for key in set(sets) - new if "journal" not in key} == {LAST[zarr_format]}
    assert sets[-1] == LAST[zarr_format] or "journal" in sets[-1]
    gets = counts.of("get")
    assert len(gets) <= 12
    assert not [key for key in gets if key.endswith("/0.0")]
    assert counts.methods["list_prefix"] <= 1
    assert counts.methods["list_documents"] == 0
