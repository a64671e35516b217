"""A file of format 2 becomes one of format 3 where it is: same values, chunks untouched, never a mix of both."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numcodecs
import numpy as np
import pytest
import zarr

from hdmf_zarr_backend import WriteOptions, ZarrIO, compare, convert, upgrade, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.errors import ConflictError, ReadOnlyStoreError, StoreLockedError, UsageError, ZarrBackendError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.store.local import LocalStore
from tests import samples
from tests.everything import write_everything
from tests.hostile import seeds
from tests.options import arguments
from tests.places import store_files
from tests.transaction.steps import State, Steps, states
from tests.trees import read_builder, write_builder
from tests.zarrs import needs_zarr_3

OLD = {".zgroup", ".zarray", ".zattrs", ".zmetadata"}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_zarr(tmp_path_factory.mktemp("rich") / "rich.nwb.zarr")


def stats(path: Path) -> dict[str, tuple[int, int, int]]:
    found = {str(file.relative_to(path)): file.stat() for file in path.rglob("*") if file.is_file()}
    return {key: (state.st_ino, state.st_mtime_ns, state.st_size) for key, state in found.items()}


# ---- kept files ----------------------------------------------------------------------------------------------------
def test_chunks_stay_the_files_that_they_were(rich, tmp_path):
    path = shutil.copytree(rich, tmp_path / "a.nwb.zarr")
    before, old = stats(path), parse(LocalStore(str(path))).hierarchy
    report = upgrade(path)
    after, new = stats(path), parse(LocalStore(str(path))).hierarchy
    assert compare(rich, path, ignore={"chunks", "filters"}) == []
    assert {Path(key).name for key in after} & OLD == set()
    arrays = {p: node for p, node in new.walk() if isinstance(node, Dataset)}
    encoded = {p for p, node in arrays.items() if node.stored.chunk_keys.encoding == "default"}
    assert encoded == {p for p, node in old.walk() if isinstance(node, Dataset) and "json2" in str(node.stored.filters)}
    chunks = {key for key in before if Path(key).name not in OLD and str(Path(key).parent) not in encoded}
    assert len(chunks) > 100
    assert {key: after[key] for key in chunks} == {key: before[key] for key in chunks}
    assert (report.kept, report.encoded) == (len(arrays) - len(encoded), len(encoded))
    assert report.removed == len(before) - len(chunks)
    assert [str(problem) for problem in verify(path, "chunks").problems] == []
    convert(rich, tmp_path / "b.nwb.zarr", zarr_format=3)
    assert compare(path, tmp_path / "b.nwb.zarr") == []


def test_what_another_program_stores_in_place_of_a_note_does_not_matter(tmp_path):
    attributes = {"_hdmf": {"attributes": "x"}, "mine": {"zarr_dtype": 1}}
    path = store_files(tmp_path / "a.zarr", {".zgroup": {"zarr_format": 2}, ".zattrs": attributes})
    upgrade(path)
    assert read_builder(path).attributes == {"mine": {"zarr_dtype": 1}}


def test_one_of_everything(tmp_path):
    write_everything(tmp_path / "a.h5")
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    upgrade(tmp_path / "a.zarr")
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert compare(tmp_path / "a.h5", tmp_path / "b.h5") == []


_CODECS: dict[str, dict[str, Any]] = {
    "slashes": {"chunk_key_encoding": {"name": "v2", "separator": "/"}, "chunks": (7, 3)},
    "fortran": {"order": "F", "chunks": (7, 3)},
    "delta": {"filters": [numcodecs.Delta("<i4")], "compressors": numcodecs.Zlib(1), "chunks": (7, 3)},
    "shuffled": {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zstd(1)},
    "gzip": {"compressors": numcodecs.GZip(1), "chunks": (20, 1)},
    "plain": {"compressors": None},
    "big": {"dtype": ">i4", "chunks": (4, 4)},
    "one": {"chunks": (20, 5), "fill_value": 7},
}
_NUMBERS = np.arange(100).reshape(20, 5)


@pytest.mark.filterwarnings("ignore")
def test_what_zarr_python_wrote(tmp_path):
    path = tmp_path / "a.zarr"
    root = zarr.open_group(path, mode="w", zarr_format=2)
    for name, how in _CODECS.items():
        array = root.create_array(name, shape=(20, 5), **{"dtype": "<i4", "chunks": (20, 5), **how})
        array[:10] = _NUMBERS[:10]
    before = stats(path)
    upgrade(path)
    after = stats(path)
    chunks = {key for key in before if Path(key).name not in OLD}
    assert {key: after.get(key) for key in chunks} == {key: before[key] for key in chunks}
    fills = {name: how.get("fill_value", 0) for name, how in _CODECS.items()}
    expected = {name: np.vstack([_NUMBERS[:10], np.full((10, 5), fill)]) for name, fill in fills.items()}
    group = zarr.open_group(path, mode="r", zarr_format=3)
    datasets = read_builder(path).datasets
    for name, values in expected.items():
        assert np.array_equal(datasets[name].data[:], values), name
        assert np.array_equal(group[name][...], values), name
    report = verify(path, "chunks")
    assert report.problems == []
    # the file does not state that all chunks are stored
    assert "unwritten" in {problem.kind for problem in report.remarks}


@pytest.mark.filterwarnings("ignore")
def test_the_executor_encodes_what_is_encoded_again(tmp_path):
    values, codecs = np.arange(2**19), [numcodecs.Zlib(1), numcodecs.Delta("u1")]  # not in this order in format 3
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("a", data=values, chunks=(2**16,), filters=codecs)
    with ThreadPoolExecutor(2) as pool, patch.object(pool, "submit", wraps=pool.submit) as submit:
        assert upgrade(tmp_path / "a.zarr", write_options=WriteOptions(executor=pool)).encoded == 1
    assert submit.called
    assert np.array_equal(read_builder(tmp_path / "a.zarr")["a"].data[:], values)


def test_the_attributes_of_nczarr_are_left_out(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile())
    add_nczarr(path)
    upgrade(path)
    text = (path / "zarr.json").read_text()
    assert "_nczarr_group" not in text
    assert "_nczarr_superblock" not in text


# ---- where it is not done -------------------------------------------------------------------------------------------
def test_a_file_of_format_3_stays_as_it_is_and_a_zip_file_is_refused(tmp_path):
    path = write_builder(tmp_path / "a.zarr", samples.reference_tree(), zarr_format=3)
    before = stats(path)
    assert str(upgrade(path)) == "Zarr format 3 already"
    assert stats(path) == before
    with pytest.raises(ReadOnlyStoreError, match="zip"):
        upgrade(write_builder(tmp_path / "a.zarr.zip", samples.reference_tree()))


@pytest.mark.parametrize(("key", "value"), [(".zattrs", {"new": 1}), ("acquisition/new/.zgroup", {"zarr_format": 2})])
def test_a_consolidated_document_that_is_not_true_is_refused_in_a_dry_run_too(rich, tmp_path, key, value):
    path = store_files(Path(shutil.copytree(rich, tmp_path / "a.nwb.zarr")), {key: value})
    before = stats(path)
    for is_dry in (True, False):
        with pytest.raises(ConflictError, match="the documents of the nodes"):
            upgrade(path, dry_run=is_dry)
    with pytest.raises(UsageError, match="format 2 only"):
        upgrade(path, dry_run=True, drop=2)
    assert stats(path) == before


def test_nodes_that_only_format_2_knows_are_not_lost(tmp_path):
    files = seeds.written(2)
    files |= {"zarr.json": b'{"zarr_format": 3, "node_type": "group"}'}
    before = dict(files)
    with pytest.raises(ConflictError, match="in format 2 only"):
        upgrade(files)
    assert files == before


def test_a_file_that_is_open_for_writing_is_refused(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile())
    with ZarrIO(path, "r+") as io:
        io.read_builder()
        with pytest.raises(StoreLockedError):
            upgrade(path)


# ---- whatever happens -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def small() -> dict[str, bytes]:
    return seeds.written(2)


ENCODINGS = pytest.mark.parametrize("encoding", ["default", "v2"])
"""Of the keys of chunks that are encoded anew; those of the other are left over by no upgrade."""


def _upgraded(files: State, encoding: str = "default") -> Steps:
    store = Steps(files)
    upgrade(store, write_options=WriteOptions(chunk_key_encoding=encoding))
    return store


@ENCODINGS
@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.JournalWarning")
def test_a_killed_upgrade_is_one_format_or_the_other_and_can_be_repeated(small, encoding):
    finished, other = _upgraded(small, encoding), _upgraded(small, "v2" if encoding == "default" else "default")
    numbers = []
    for values in list(states(small, finished.log))[::3]:
        with ZarrIO(Steps(values)) as io:
            numbers.append(io.zarr_format)
        whole = small if numbers[-1] == 2 else finished.values
        assert {key: values.get(key) for key in whole} == whole
        assert _upgraded(values, encoding).values == finished.values
        again = _upgraded(values, "v2" if encoding == "default" else "default")
        assert again.values == (finished if numbers[-1] == 3 else other).values
    assert numbers == sorted(numbers)
    assert {*numbers} == {2, 3}


@ENCODINGS
def test_nodes_and_chunks_that_an_earlier_format_3_left_are_deleted(small, encoding):
    encoded = upgrade(dict(small), dry_run=True).encoded_arrays[0].removeprefix("/")
    left = {"gone/zarr.json": b'{"zarr_format": 3, "node_type": "group"}', f"{encoded}/c/99": b""}
    assert _upgraded({**small, **left}, encoding).values == _upgraded(small, encoding).values


def test_readers_of_format_2_find_the_complete_file_or_nothing(small):
    for values in states(small, _upgraded(small).log):
        left = {key: value for key, value in values.items() if not key.endswith("zarr.json")}
        try:
            hierarchy = parse(Steps(left)).hierarchy
        except ZarrBackendError:
            assert "zarr.json" in values  # it is one of format 3 by then
            assert ".zmetadata" not in values
        else:
            assert hierarchy.flat().keys() == parse(Steps(small)).hierarchy.flat().keys()


# ---- other stores, and the command line -----------------------------------------------------------------------------
def test_in_a_bucket(s3, tmp_path):
    path, url = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile()), s3.url("a.nwb.zarr")
    with ZarrIO(path) as source, ZarrIO(url, "w", storage_options=s3.options) as io:
        io.export(source)
    assert upgrade(url, storage_options=s3.options).kept > 5
    with ZarrIO(path) as local, ZarrIO(url, storage_options=s3.options) as far:
        assert far.zarr_format == 3
        here, there = (io.read_builder()["acquisition"]["trace"]["data"].data for io in (local, far))
        assert np.array_equal(here[:], there[:])


def test_on_the_command_line(tmp_path, capsys):
    good = write_builder(tmp_path / "good.zarr", samples.reference_tree())
    assert main(["upgrade", "--chunk-key-encoding", "v2", str(tmp_path / "absent.zarr"), str(good)]) == 2
    assert not [path for path in good.rglob("c") if path.is_dir()]
    shown = capsys.readouterr()
    assert "Zarr format 3 now" in shown.out
    assert "the file does not exist" in shown.err
    assert main(["upgrade", "--json", str(good)]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert outcome == {
        "source": str(good), "error": None, "location": str(good), "kept": 0, "encoded": 0, "removed": 0,
        "formats": [3], "encoded_arrays": [], "dry_run": False, "warnings": [],
    }  # fmt: skip


# ---- what an upgrade would do ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("zarr_format", "options"),
    [(2, {}), (2, {"keep": True}), (2, {"chunk_key_encoding": "v2"}), ("both", {}), ("both", {"keep": True}),
     ("both", {"drop": 2}), ("both", {"drop": 3})],
    ids=str,
)  # fmt: skip
def test_a_dry_run_reports_what_an_upgrade_does(rich: Path, zarr_format: Any, options: Any, tmp_path: Path) -> None:
    path = Path(shutil.copytree(rich, tmp_path / "a.nwb.zarr"))
    if zarr_format == "both":
        upgrade(path, keep=True)
    before = stats(path)
    planned = upgrade(path, dry_run=True, **arguments(**options))
    assert stats(path) == before
    assert all(name in str(planned) for name in planned.encoded_arrays[:5])
    done = upgrade(path, **arguments(**options))
    assert replace(planned, dry_run=False) == done
    assert done.encoded == len(done.encoded_arrays)
    if "drop" not in options:
        assert ("would have" in str(planned)) == (stats(path) != before)
        assert "already" in str(upgrade(path, dry_run=True, **arguments(**options)))


def test_a_dry_run_on_the_command_line(rich: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [Path(shutil.copytree(rich, tmp_path / name)) for name in ("a.nwb.zarr", "b.nwb.zarr")]
    before = [stats(path) for path in paths]
    assert main(["upgrade", "--dry-run", *map(str, paths)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{paths[0]}: would have Zarr format 3: ")
    assert lines[-1] == "2 of 2 files can be upgraded"
    assert [stats(path) for path in paths] == before


@needs_zarr_3
def test_a_document_of_attributes_that_only_the_consolidated_one_has_is_no_difference(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    group.create_array("x", data=np.arange(3))
    (tmp_path / "a.zarr" / "x" / ".zattrs").unlink()  # as TensorStore writes an array
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    assert verify(tmp_path / "a.zarr").problems == []
    assert upgrade(tmp_path / "a.zarr").kept == 1
