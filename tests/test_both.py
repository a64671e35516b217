"""Files of both formats: the same chunks under the documents of format 2 and of format 3, alike whatever happens."""

from __future__ import annotations

import json
import warnings
from functools import partial
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.build import ReferenceBuilder
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, consolidate, convert, repair, upgrade, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.errors import ConflictError, FormatsDifferWarning, ReadOnlyStoreError, UsageError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.store.base import DOCUMENTS
from hdmf_zarr_backend.store.memory import MemoryStore
from tests import samples, trees
from tests.hostile import seeds
from tests.places import store_files, stored_files

Files = dict[str, bytes]


class Keys(MemoryStore):
    """A mapping at a place that is the same for all copies of a file."""

    def __init__(self, files: Files) -> None:
        super().__init__(files, "/memory.zarr")


class Logged(Files):
    """Keys that remember what was changed."""

    changes: list[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.changes = []

    def __setitem__(self, key: str, value: bytes) -> None:
        self.changes.append(key)
        super().__setitem__(key, value)

    def pop(self, key: str, *default: Any) -> Any:
        self.changes.append(f"-{key}")
        return super().pop(key, *default)


@pytest.fixture(scope="module")
def small() -> Files:
    files: Files = {}
    trees.write_builder(Keys(files), seeds.tree(), zarr_format="both")
    return files


@pytest.fixture(scope="module")
def rich() -> Files:
    files: Files = {}
    with warnings.catch_warnings(action="ignore"):
        samples.write_zarr(Keys(files), zarr_format="both")
    return files


def assert_alike(files: Files) -> None:
    """Assert that both formats say the same, that format 3 is what format 2 becomes, and that nothing complains."""
    with warnings.catch_warnings(action="error", category=FormatsDifferWarning):
        with ZarrIO(Keys(dict(files))) as io:
            assert io.zarr_format == "both"
        copy = dict(files)
        upgrade(Keys(copy), drop=3)
        assert not [key for key in copy if key.endswith("zarr.json") or "/c/" in key]
        upgrade(Keys(copy), keep=True)
    differing = {key for key in copy.keys() | files.keys() if copy.get(key) != files.get(key)}
    assert differing <= {".hdmf_zarr_journal.commit"}  # alone it means nothing
    assert [str(problem) for problem in verify(Keys(dict(files))).problems] == []


def test_objects_that_only_format_3_lists_are_not_dropped(small):
    """After a copy that has lost the consolidated document of format 2 and a group, format 3 tells what is missing."""
    files = {key: value for key, value in small.items() if key != ".zmetadata"}
    name = next(key.split("/")[0] for key in files if key.count("/") > 1)
    lost = {key: files.pop(key) for key in list(files) if key.startswith(f"{name}/")}
    before = dict(files)
    missing = {each.path for each in verify(Keys(files)).problems if each.kind == "document-missing"}
    assert f"/{name}" in missing
    with warnings.catch_warnings(action="ignore", category=FormatsDifferWarning):
        left = repair(Keys(files)).left
        assert missing <= {each.path for each in left if each.kind == "document-missing"}
        with pytest.raises(ConflictError, match=f"only Zarr format 3 has: /{name}"):
            consolidate(Keys(files))
        with pytest.raises(ConflictError, match=f"only Zarr format 3 has: /{name}"):
            ZarrIO(Keys(files), "r+")
        for options in ({}, {"keep": True}, {"drop": 2}, {"drop": 3}):
            with pytest.raises(ConflictError, match=f"only Zarr format 3 has: /{name}"):
                upgrade(Keys(files), **options)
        assert files == before
        whole = {**files, **lost}
        repair(Keys(whole))
        consolidate(Keys(files), forget=True)
    assert_alike(whole)
    assert not {each.kind for each in verify(Keys(files)).problems} & {"document-missing", "formats-differ"}


def only(files: Files, zarr_format: int) -> Files:
    """Return what a program that knows one format reads."""
    return {key: value for key, value in files.items() if key.endswith("zarr.json") == (zarr_format == 3)} | {
        key: value for key, value in files.items() if not key.rpartition("/")[2].startswith((".z", "zarr.json"))
    }


# ---- new files ------------------------------------------------------------------------------------------------------
def test_both_formats_say_the_same(rich, tmp_path):
    assert_alike(rich)
    with warnings.catch_warnings(action="ignore"):
        for number in (2, 3):
            files: Files = {}
            with ZarrIO(Keys(dict(rich)), zarr_format=number) as source, ZarrIO(files, "w") as io:
                io.export(source)
            store_files(tmp_path / f"{number}.nwb.zarr", files)
    assert compare(tmp_path / "2.nwb.zarr", tmp_path / "3.nwb.zarr", ignore={"chunks", "filters", "fill"}) == []


def test_only_references_and_rows_are_stored_twice(rich):
    twice = {key.partition("/c/")[0] for key in rich if "/c/" in key}
    stored = {path: json.loads(rich[f"{path}/.zattrs"])["zarr_dtype"] for path in twice}
    assert stored
    assert all(name == "object" or isinstance(name, list) for name in stored.values())


@pytest.mark.parametrize("number", [2, 3])
def test_zarr_python_opens_it_as_either_format(rich, tmp_path, number):
    path = store_files(tmp_path / "a.nwb.zarr", rich)
    with warnings.catch_warnings(action="error"):
        members = dict(zarr.open_group(path, mode="r", zarr_format=number).members(max_depth=None))
        values = {name: array[...] for name, array in members.items() if isinstance(array, zarr.Array)}
    assert len(values) > 100


def test_a_new_file_in_a_folder_a_zip_file_and_a_bucket(s3, tmp_path):
    nwbfile = samples.plain_nwbfile
    samples.write_zarr(tmp_path / "2.nwb.zarr", nwbfile())
    samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile(), zarr_format="both")
    samples.write_zarr(tmp_path / "a.nwb.zarr.zip", nwbfile(), zarr_format="both")
    url = f"s3://{s3.bucket}/both.nwb.zarr"
    samples.write_zarr(url, nwbfile(), storage_options=s3.options, zarr_format="both")
    for location, options in ((tmp_path / "a.nwb.zarr", {}), (tmp_path / "a.nwb.zarr.zip", {}), (url, s3.options)):
        differences = compare(tmp_path / "2.nwb.zarr", location, ignore={"object_id"}, storage_options=options)
        assert [str(each) for each in differences if "file_create_date" not in str(each)] == []
        report = verify(location, storage_options=options)
        assert report.problems == []
        assert {remark.kind for remark in report.remarks} <= {"unchecked", "no-schema"}
    with samples.edit_zarr(url, storage_options=s3.options) as changed:
        changed.add_acquisition(TimeSeries(name="new", data=np.arange(5.0), unit="V", rate=1.0))
    assert verify(url, storage_options=s3.options).problems == []
    for number in (2, 3):
        read = samples.read_zarr(url, storage_options=s3.options, zarr_format=number)
        assert read.acquisition["new"].data[4] == 4.0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_convert_from_hdf5_and_from_either_format(tmp_path):
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.rich_nwbfile())
    convert(source, tmp_path / "2.nwb.zarr")
    convert(source, tmp_path / "3.nwb.zarr", zarr_format=3)
    for name in ("a.nwb", "2.nwb.zarr", "3.nwb.zarr"):
        target = tmp_path / f"both-{name}.zarr"
        convert(tmp_path / name, target, zarr_format="both")
        assert compare(tmp_path / "2.nwb.zarr", target, ignore={"chunks", "filters", "fill"}) == []
        if name == "a.nwb":
            assert_alike(stored_files(target))
            convert(target, tmp_path / "back.nwb")
            assert compare(source, tmp_path / "back.nwb", ignore={"chunks", "filters", "fill", "layout"}) == []


def test_the_attributes_of_nczarr_are_in_format_2_only():
    files: Files = {}
    with warnings.catch_warnings(action="ignore"):
        options = WriteOptions(nczarr=True)
        samples.write_zarr(Keys(files), samples.plain_nwbfile(), zarr_format="both", write_options=options)
    assert b"_nczarr_group" in files[".zattrs"]
    assert b"_nczarr_group" not in files["zarr.json"]
    assert_alike(files)
    add_nczarr(Keys(files))
    assert_alike(files)
    assert [problem.kind for problem in verify(Keys(files)).problems] == []


# ---- refusals -------------------------------------------------------------------------------------------------------
def test_what_format_2_lacks_is_refused(tmp_path):
    source = samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile())
    with pytest.raises(UsageError, match="nor a file of both formats has shards"):
        convert(source, tmp_path / "a.nwb.zarr", zarr_format="both", shards="auto")
    with pytest.raises(UsageError, match="one Zarr format"):
        convert(source, tmp_path / "a.nwb.zarr.json", zarr_format="both", to="virtual")
    options = WriteOptions(consolidate_metadata=False)
    with pytest.raises(UsageError, match="consolidated"):
        trees.write_builder(tmp_path / "b.zarr", trees.root(), zarr_format="both", write_options=options)
    assert {path.name for path in tmp_path.iterdir()} == {"a.nwb"}


def test_a_file_of_one_format_stays_one_unless_it_is_upgraded(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile())
    with pytest.raises(UsageError, match="upgrade --keep"):
        ZarrIO(path, "r+", zarr_format="both")
    other = samples.write_zarr(tmp_path / "b.nwb.zarr", samples.plain_nwbfile(), zarr_format=3)
    with pytest.raises(UsageError, match="--zarr-format both"):
        upgrade(other, keep=True)
    for location, number in ((path, 2), (other, 3)):
        with pytest.raises(UsageError, match=f"format {number} only"):
            upgrade(location, drop=number)
    zipped = samples.write_zarr(tmp_path / "a.nwb.zarr.zip", samples.plain_nwbfile(), zarr_format="both")
    with pytest.raises(ReadOnlyStoreError, match="zip"):
        upgrade(zipped, drop=3)


# ---- changes --------------------------------------------------------------------------------------------------------
def append_series(files: Files) -> None:
    with samples.edit_zarr(Keys(files)) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=np.arange(5.0), unit="V", rate=1.0))


def append_rows(files: Files, count: int = 1) -> None:
    with NWBZarrIO(Keys(files), "r+") as io:
        nwbfile = io.read()
        table = nwbfile.electrodes
        row = {name: table[name].data[0] for name in table.colnames}
        for _ in range(count):
            table.add_row(**{**row, "group": nwbfile.electrode_groups["shank1"]})


def edit(files: Files) -> None:
    with ZarrIO(Keys(files), "r+") as io:
        io.read_builder()["acquisition"]["raw"]["data"].data[0, 0] = 77


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("change", [append_series, append_rows, edit, lambda files: append_rows(files, 60)])
def test_a_change_is_one_of_both(rich, change):
    files = dict(rich)
    change(files)
    assert files != rich
    assert_alike(files)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_only_what_has_changed_is_put(rich):
    files = Logged(rich)
    append_rows(files)
    put = {key for key in files.changes if key.endswith("zarr.json") or "/c/" in key}
    table = "general/extracellular_ephys/electrodes"
    columns = {key.split("/")[-2] for key in put if key.endswith("/zarr.json")}
    assert columns == {"id", "location", "group", "group_name", "label", "good", "x", "y", "z"}
    assert {key for key in put if "/c/" in key} == {f"{table}/group/c/1"}
    puts = [key for key in files.changes if not key.startswith("-")]
    assert puts[-2:] == [".zmetadata", "zarr.json"]  # the commit of both
    files.changes.clear()
    edit(files)
    assert not [key for key in files.changes if key.endswith("zarr.json")]  # the documents are the same


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_consolidate_and_repair_of_a_file_without_damage_and_with_a_new_attribute(rich, small):
    for files in (Logged(rich), Logged(small)):
        assert repair(Keys(files)).done == []
        assert not [key for key in files.changes if not key.startswith("-")]
        consolidate(Keys(files))
        assert_alike(files)
    files["inner/.zattrs"] = json.dumps({**json.loads(files["inner/.zattrs"]), "more": 1}).encode()
    consolidate(Keys(files))
    assert_alike(files)
    assert json.loads(files["inner/zarr.json"])["attributes"]["more"] == 1


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "gone"])
def test_repair_does_not_spread_a_damaged_chunk_to_the_other_format(small, is_cut):
    for key in [key for key in small if "/" in key and key.rpartition("/")[2] not in DOCUMENTS]:
        files = dict(small)
        if is_cut:
            files[key] = files[key][: len(files[key]) // 2]
        else:
            del files[key]
        left = repair(Keys(files)).left
        files[key] = small[key]
        assert files == small, (key, left)
        assert verify(Keys(files)).problems == []


def test_repair_names_what_cannot_go_to_the_other_format(small):
    files = dict(small)
    files["references/.zattrs"] = b"{}"  # now it is an array of other objects
    repairs = repair(Keys(files))
    assert repairs.done == ["wrote a new consolidated document"]
    kinds = {(problem.path, problem.kind) for problem in repairs.left}
    assert kinds == {("/", "formats-differ"), ("/references", "document-damaged")}


def test_a_file_of_both_formats_without_the_root_of_format_3(tmp_path):
    tree = trees.root(trees.group("inner", trees.dataset("x", [1, 2])), trees.dataset("texts", ["a"]))
    path = trees.write_builder(tmp_path / "a.zarr", tree, zarr_format="both")
    (path / "zarr.json").unlink()
    report = verify(path)
    assert report.is_sound
    assert {"format-3-incomplete"} <= {remark.kind for remark in report.remarks} <= {"format-3-incomplete", "unchecked"}
    upgrade(path, keep=True)
    with ZarrIO(path, "r", zarr_format=3) as io:
        assert io.zarr_format == 3
        assert io.read_builder()["inner/x"].data[:].tolist() == [1, 2]
    assert "format-3-incomplete" not in {remark.kind for remark in verify(path).remarks}


def test_consolidate_keeps_a_file_whose_damaged_chunk_cannot_go_to_the_other_format(small):
    files = dict(small)
    damaged = next(key for key in small if key.startswith("references/") and key.rpartition("/")[2] == "0")
    files[damaged] = files[damaged][: len(files[damaged]) // 2]
    with pytest.warns(FormatsDifferWarning, match="could not be in format 3"):
        consolidate(Keys(files))
    files[damaged] = small[damaged]
    assert repair(Keys(files)).left == []
    assert_alike(files)


# ---- other writers --------------------------------------------------------------------------------------------------
def changed_in_format_2(files: Files) -> Files:
    document = json.loads(files[".zmetadata"])
    document["metadata"]["added/.zgroup"] = {"zarr_format": 2}
    return {**files, "added/.zgroup": b'{"zarr_format": 2}', ".zmetadata": json.dumps(document).encode()}


def changed_in_format_3(files: Files) -> Files:
    document = json.loads(files["zarr.json"])
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    document["consolidated_metadata"]["metadata"]["added"] = group
    return {
        **files, "added/zarr.json": json.dumps(group).encode(), "zarr.json": json.dumps(document, indent=2).encode(),
    }  # fmt: skip


def one_warning(files: Files) -> tuple[str, set[str], Any]:
    """Return the only warning that reading gives, the groups that are read, and the format."""
    with warnings.catch_warnings(record=True, action="always") as caught, ZarrIO(Keys(dict(files))) as io:
        result = set(io.read_builder().groups)
        number = io._parsed.zarr_format if io._parsed is not None else None
    (warning,) = [each for each in caught if issubclass(each.category, FormatsDifferWarning)]
    return str(warning.message), result, number


def test_a_writer_of_format_2(small):
    files = changed_in_format_2(small)
    text, groups, number = one_warning(files)
    assert "zarrio repair" in text
    assert ("added" in groups, number) == (True, 2)
    assert {problem.kind for problem in verify(Keys(files)).problems} == {"formats-differ"}
    other = dict(files)
    assert repair(Keys(files)).done == ["made Zarr format 3 like format 2"]
    assert_alike(files)
    assert "added/zarr.json" in files
    with pytest.warns(FormatsDifferWarning), ZarrIO(Keys(other), "r+") as io:  # opening it for changes repairs it too
        io.read_builder()
    assert other == files


def test_a_writer_of_format_3(small):
    files = changed_in_format_3(small)
    text, groups, number = one_warning(files)
    assert "--drop 2" in text
    assert ("added" in groups, number) == (True, 3)
    assert [(each.kind, each.is_repairable) for each in verify(Keys(files)).problems] == [("formats-differ", False)]
    before = dict(files)
    assert [problem.kind for problem in repair(Keys(files)).left] == ["formats-differ"]
    for change in (partial(ZarrIO, mode="r+"), consolidate, partial(upgrade, keep=True)):
        with pytest.raises(ConflictError, match="--drop 2"), warnings.catch_warnings(action="ignore"):
            change(Keys(files))
    assert files == before
    with pytest.warns(FormatsDifferWarning):
        upgrade(Keys(files), drop=2)
    assert ".zmetadata" not in files
    with ZarrIO(Keys(files)) as io:
        assert "added" in io.read_builder().groups
        assert io.zarr_format == 3
    assert verify(Keys(files)).problems == []


def test_two_writers_that_do_not_know_each_other(small):
    files = changed_in_format_3(changed_in_format_2(small))
    text, _, number = one_warning(files)
    assert "one without the other" in text
    assert number == 2
    with pytest.raises(ConflictError), pytest.warns(FormatsDifferWarning):
        ZarrIO(Keys(files), "r+")
    with pytest.warns(FormatsDifferWarning):
        upgrade(Keys(files), drop=3)
    assert [key for key in files if key.endswith("zarr.json")] == []


def test_documents_that_are_gone(small):
    files = dict(small)
    del files["inner/zarr.json"], files["references/c/0"]
    assert {problem.kind for problem in verify(Keys(files)).problems} == {"formats-differ", "chunk-missing"}
    assert repair(Keys(files)).done == ["made Zarr format 3 like format 2"]
    assert files == small
    del files["inner/.zattrs"]
    assert repair(Keys(files)).done == ["wrote back from the consolidated document: inner/.zattrs"]


def test_one_format_that_is_left_counts(small):
    """Whoever deletes the documents of format 2 has a file of format 3; so has who upgrades, whatever is left."""
    upgraded = dict(small)
    upgrade(Keys(upgraded))
    left = {key: value for key, value in small.items() if key in (".zmetadata", ".zgroup", ".zattrs")}
    for files in (only(small, 3), {**upgraded, **left}):
        with warnings.catch_warnings(action="error", category=FormatsDifferWarning), ZarrIO(Keys(files)) as io:
            io.read_builder()
            assert io.zarr_format == 3


def test_modes_and_hints(small):
    for options, expected in (({"mode": "r-"}, "both"), ({"zarr_format": 2}, 2), ({"zarr_format": "both"}, "both")):
        with ZarrIO(Keys(dict(small)), **{"mode": "r", **options}) as io:
            assert io.zarr_format == expected
            assert len(io.read_builder()["rows"].data) == 2


def test_opening_asks_for_no_more_than_before(small):
    asked: list[str] = []

    class Asked(Keys):
        def get(self, key: str) -> bytes | None:
            asked.append(key)
            return super().get(key)

    trees.read_builder(Asked(dict(small)))
    assert sorted(key for key in asked if key.endswith((".zmetadata", "zarr.json"))) == [".zmetadata", "zarr.json"]
    assert len(asked) == len(set(asked))


# ---- adding and removing a format -----------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_keep_and_drop(rich):
    files = dict(rich)
    assert str(upgrade(Keys(files), keep=True)) == "Zarr formats 2 and 3 already"
    assert files == rich
    report = upgrade(Keys(files), drop=3)
    assert report.formats == (2,)
    assert "format 2 now" in str(report)
    assert str(upgrade(Keys(files), drop=3)) == "Zarr format 2 already"
    one = dict(files)
    report = upgrade(Keys(files), keep=True)
    assert "formats 2 and 3 now" in str(report)
    assert report.encoded > 1
    assert files == rich
    upgrade(Keys(files), drop=2)
    upgrade(Keys(one))
    assert files == one  # what an upgrade without the detour makes


def test_notes_that_nobody_has_written(small):
    text = small["zarr.json"]
    start = text.index(b'"both"')
    for other in (
        text.replace(b'"zmetadata":"', b'"zmetadata":"0'),
        text[:start] + b'"both":{"zmetadata":' + b"[" * 900 + b"]" * 900 + b"}" + text[text.index(b"}", start) + 1 :],
        text.replace(b'"zmetadata"', b'"other"'),
    ):
        with ZarrIO(Keys({**small, "zarr.json": other})) as io:  # not a file of both formats: format 3 counts
            assert io.zarr_format in (2, 3)
            io.read_builder()


def test_on_the_command_line(tmp_path, capsys):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", samples.plain_nwbfile())
    assert main(["upgrade", "--keep", str(path)]) == 0
    assert "formats 2 and 3 now" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0
    assert main(["inspect", str(path)]) == 0
    assert "Zarr formats 2 and 3" in capsys.readouterr().out
    assert main(["upgrade", "--drop", "3", str(path)]) == 0
    assert not (path / "zarr.json").exists()
    assert main(["upgrade", "--drop", "2", str(path)]) == 2
    assert "--drop" in capsys.readouterr().err


# ---- values that one writer has replaced ----------------------------------------------------------------------------
OF_2, OF_3 = ("inner/references/0", "inner/rows/0.0"), ("inner/references/c/0", "inner/rows/c/0")


def with_rows(first: str, second: str) -> Files:
    """Return a file with references and rows to two groups; files with other targets have the same metadata."""
    files: Files = {}
    builders = {name: trees.group(name) for name in ("a", "b")}
    targets = [ReferenceBuilder(builders[first]), ReferenceBuilder(builders[second])]
    fields = [{"name": "to", "dtype": "object"}, {"name": "x", "dtype": "float64"}, {"name": "text", "dtype": "utf8"}]
    rows = [(targets[0], np.nan, first), (targets[1], 1.0, second)]
    inner = trees.group(
        "inner", trees.dataset("references", targets, dtype="object"), trees.dataset("rows", rows, dtype=fields)
    )
    root = trees.root(*builders.values(), inner)
    for name in ("a", "b"):
        builders[name].attributes["object_id"] = name
    trees.write_builder(Keys(files), root, zarr_format="both")
    return files


@pytest.mark.parametrize("keys", [OF_2[:1], OF_2[1:], OF_3[:1], OF_3[1:], OF_2, OF_3])
def test_values_that_were_replaced_in_one_format_are_found(keys):
    """By a program that knows one format; the metadata, and so the digests, are as they were."""
    files, other = with_rows("a", "b"), with_rows("b", "a")
    assert {key for key in files if files[key] != other[key]} == {*OF_2, *OF_3}
    files |= {key: other[key] for key in keys}
    problems = verify(Keys(dict(files))).problems
    assert [(each.path, each.kind, each.is_repairable) for each in problems] == [
        (f"/{key.split('/0')[0].split('/c')[0]}", "formats-differ", True) for key in keys
    ]
    assert verify(Keys(dict(files)), "links").problems == [], "chunks are compared at the level of chunks"
    kept = dict(files)
    upgrade(Keys(kept), drop=2)
    assert {key: kept.get(key) for key in (*OF_2, *OF_3)} == dict.fromkeys(OF_2) | {key: files[key] for key in OF_3}
    assert repair(Keys(files)).done == ["made Zarr format 3 like format 2"]
    assert_alike(files)
    assert all(files[key] == other[key] for key in keys if key in OF_2), "format 2 counts"


def test_equal_values_in_other_bytes_are_equal():
    """Another release of a compressor makes other bytes of the same values."""
    files = with_rows("a", "b")
    document = json.loads(files["inner/references/zarr.json"])
    codec = next(one for one in document["codecs"] if one["name"] == "blosc")["configuration"]
    stored = files["inner/references/c/0"]
    plain = numcodecs.Blosc().decode(stored)
    other = numcodecs.Blosc(cname=codec["cname"], clevel=1, shuffle=0).encode(plain)
    assert other != stored
    files["inner/references/c/0"] = other
    assert verify(Keys(files)).problems == []
