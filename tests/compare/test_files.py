"""The comparing tool: exactly the planted difference is found, in HDF5 files made here and in real ones."""

import json
import shutil
import tracemalloc
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend.comparison import KINDS, Difference, compare, compare_values, open_content, summarise
from hdmf_zarr_backend.model.content import DatasetContent
from hdmf_zarr_backend.model.element import Number, Target
from hdmf_zarr_backend.model.render import Form
from tests.compare.planted import PLANTED, SPEC, attribute, changed, dropped, field, places, put, write_sample
from tests.smallfiles import hdf5_dataset


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "a.h5"
    with h5py.File(path, "w") as file:
        write_sample(file)
    return path


@pytest.mark.parametrize(("kind", "place", "plant"), PLANTED.values(), ids=PLANTED)
def test_the_planted_difference_alone_is_found(sample, tmp_path, kind, place, plant):
    other = changed(sample, tmp_path, plant)
    differences = compare(sample, other)
    assert places(differences) == [(kind, place)], list(map(str, differences))
    assert compare(sample, other, ignore={kind}) == []
    (mirrored,) = compare(other, sample)
    assert mirrored.kind == {"missing": "extra", "extra": "missing"}.get(kind, kind)
    assert (repr(mirrored.a), repr(mirrored.b)) == (repr(differences[0].b), repr(differences[0].a))
    assert place.partition("@")[0] in str(differences[0])
    assert kind in str(differences[0])


def test_every_kind_is_planted():
    assert {kind for kind, *_ in PLANTED.values()} == KINDS - {"unreadable"}  # damage, planted in the tests below


def test_the_same_file_written_twice_is_equal(sample, tmp_path):
    with h5py.File(tmp_path / "b.h5", "w", userblock_size=1024, libver="latest") as file:
        write_sample(file)
    assert compare(sample, tmp_path / "b.h5") == []


def test_the_finding_tells_values_place_and_count(sample, tmp_path):
    def plant(file: h5py.File) -> None:
        file["numbers"][4:, 1] = -5
        field("note", "z")(file)

    differences = {d.path: d for d in compare(sample, changed(sample, tmp_path, plant))}
    assert differences["/numbers"] == Difference("/numbers", "value", 17, -5, place="[4, 1]", count=2)
    assert differences["/table"] == Difference("/table", "value", "y", "z", place="[1]['note']", count=1)
    assert str(differences["/numbers"]) == "/numbers value[4, 1] (2 elements, largest difference 26): 17 | -5"


def test_the_text_of_a_finding_shows_where_long_texts_part():
    shown = str(Difference("/notes", "value", "x" * 5000 + "left", "x" * 5000 + "right"))
    assert "left" in shown
    assert "right" in shown
    assert len(shown) < 200


def test_findings_are_counted_by_kind_and_only_kinds_are_ignored(sample, tmp_path):
    def plant(file: h5py.File) -> None:
        del file["flags"], file["soft"]
        file["plain"][0] = 1

    assert summarise(compare(sample, changed(sample, tmp_path, plant))) == {"missing": 2, "value": 1}
    assert summarise([]) == {}
    with pytest.raises(ValueError, match="colour"):
        compare(sample, sample, ignore=["colour"])


def write(path: Path, **datasets: object) -> Path:
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            file[name] = value
    return path


@pytest.mark.parametrize(
    ("a", "b", "kinds"),
    [
        (np.array([1, 2], "i4"), np.array([1, 2], "i8"), {"dtype"}),
        (np.array([1, 2], "i4"), np.array([1.0, 2.5]), {"dtype", "value"}),
        (np.array([2**53 + 1]), np.array([2.0**53]), {"dtype", "value"}),
        (np.array([2**53]), np.array([2.0**53]), {"dtype"}),
        (np.array([2**64 - 1], "u8"), np.array([-1], "i8"), {"dtype", "value"}),
        (np.array([0.1], "f4"), np.array([0.1], "f8"), {"dtype", "value"}),
        (np.array([0.5, np.nan], ">f4"), np.array([0.5, np.nan], "<f4"), {"byte-order"}),
        (np.array([0.5], "f4"), np.array([0.5], "c8"), {"dtype"}),
        (np.array([complex(np.nan, 1)]), np.array([complex(np.nan, 2)]), {"value"}),
        (np.array([np.nan]), np.array([-np.nan]), set()),
        (np.array([True]), np.array([1], "u1"), {"dtype"}),
        (np.array([b"ab"], "S2"), ["ab"], {"text-encoding"}),
        (np.array([b"ab"], "S2"), ["ac"], {"text-encoding", "value"}),
        (np.array(["ab"], object), np.array([1]), {"dtype"}),
        (np.float64(1), np.array([2.0]), {"shape", "value"}),
        (np.zeros((2, 3)), np.zeros((3, 2)), {"shape"}),
        (np.zeros(2, [("x", "i4"), ("y", "i4")]), np.zeros(2, [("x", "i4"), ("z", "i4")]), {"dtype"}),
        (np.zeros(2, [("x", "i4")]), np.ones(2, [("x", "f4"), ("z", "i4")]), {"dtype", "value"}),
        (np.zeros(2, [("x", "i4", (2,))]), np.zeros(2, [("x", "i4", (3,))]), {"dtype"}),
    ],
    ids=lambda value: (
        " ".join(sorted(value)) or "none" if isinstance(value, set) else f"{getattr(value, 'dtype', value)}"
    ),
)
def test_values_are_compared_across_types(tmp_path, a, b, kinds):
    left, right = write(tmp_path / "a.h5", data=a), write(tmp_path / "b.h5", data=b)
    assert {d.kind for d in compare(left, right)} == kinds
    assert {d.kind for d in compare(right, left)} == kinds


@pytest.mark.parametrize(("shape", "other", "text"), [
    ((1000,), (1200,), "value[3] (2 of 1,000 common elements, largest difference 9.0): 1.0 | 10.0"),
    ((4, 3), (5, 2), "value[3, 0] (1 of 8 common elements): 1.0 | 10.0"),
])  # fmt: skip
def test_arrays_of_different_lengths_are_compared_in_their_common_part(tmp_path, shape, other, text):
    a, b = np.ones(shape), np.ones(other)
    b.flat[3 * b[0].size] = 10
    b[999:1000] = 2
    for name, values in (("a.h5", a), ("b.h5", b)):
        hdf5_dataset(tmp_path / name, "data", data=values, chunks=values.shape)
    differences = compare(tmp_path / "a.h5", tmp_path / "b.h5")
    assert [each.kind for each in differences] == ["shape", "value"]  # no chunks: they follow the shape
    assert differences[1].text == text


def table(path: Path, ids: list[int], tags: dict[int, list[int]], **columns: object) -> Path:
    with h5py.File(path, "w") as file:
        group = file.create_group("trials")
        group.attrs["colnames"] = [*columns, "tags"]
        rows = [np.array(tags.get(each, [each] * (each % 3)), dtype="i4") for each in ids]
        ends = np.cumsum([len(row) for row in rows])
        columns |= {"id": ids, "tags_index": ends, "tags": np.concatenate([np.zeros(0, "i4"), *rows])}
        for name, values in columns.items():
            group[name] = np.asarray(values, dtype="f8" if name == "start" else "i4")
    return path


@pytest.mark.parametrize("block_bytes", [1, 40, 10_000])
def test_rows_of_tables_are_compared_by_id(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr("hdmf_zarr_backend.comparison.BLOCK_BYTES", block_bytes)
    ids, kept = np.arange(100), np.delete(np.arange(102), [3, *range(40, 100, 2)])
    a = table(tmp_path / "a.h5", [*ids], {}, start=ids * 2.0)
    b = table(tmp_path / "b.h5", [*kept], {5: [5, 8], 8: [8] * 4}, start=np.where(kept == 51, 7, kept * 2.0))
    assert list(map(str, compare(a, b))) == [
        "/trials rows: 31 removed (id 3, 40, 42, 44, 46 and 26 more), 2 added (id 100, 101)",
        "/trials/start value[51]: 102.0 | 7.0",
        "/trials/tags value[5]: 5 | 8",
        "/trials/tags_index value[8] length: 2 | 4",
    ]
    assert [each.kind for each in compare(a, b, values=False)] == ["shape"] * 4


@pytest.mark.parametrize(("ids", "places"), [
    ([0, 1, 1, 2], ["rows", "id value", "tags_index value"]),
    ([2, 1, 0, 3], ["rows", "id value", "tags_index value"]),
    ([0, 1, 2, 3], ["rows"]),
])  # fmt: skip
def test_rows_are_compared_by_position_where_ids_do_not_tell_them(tmp_path, ids, places):
    a = table(tmp_path / "a.h5", [0, 1, 2], {}, start=np.zeros(3))
    differences = compare(a, table(tmp_path / "b.h5", ids, {}, start=np.zeros(4)))
    found = [f"{each.path.removeprefix('/trials/')} {each.kind}".removeprefix("/trials ") for each in differences]
    assert found == places
    text = "rows by position, since ids repeat or are in another order: 3 | 4"
    assert differences[0].text == (text if len(places) > 1 else "rows: 1 added (id 3)")


def test_all_rows_of_a_table_are_removed_and_a_longer_row_moves_no_other(tmp_path):
    a, b = (table(tmp_path / name, ids, {9: [9]}, start=ids) for name, ids in (("a.h5", [4, 9]), ("b.h5", [])))
    assert list(map(str, compare(a, b))) == ["/trials rows: 2 removed (id 4, 9)"]
    a, b = (table(tmp_path / name, [4, 5, 6], {4: tags}) for name, tags in (("a.h5", [1]), ("b.h5", [1, 2])))
    assert list(map(str, compare(a, b))) == ["/trials/tags_index value[0] length: 1 | 2"]
    with h5py.File(b, "r+") as file:
        file["trials/tags_index"][...] = [5, 1, 2]  # not in order: compared as numbers
    assert [each.kind for each in compare(a, b)] == ["shape", "value", "value"]


def test_what_has_another_name_is_renamed_and_compared(tmp_path):
    def make(name: str, group: str, column: str, **values: object) -> Path:
        path = write(tmp_path / name, **{f"{group}/deep/{column}": [1, 2], f"{group}/kept": 1} | values)
        with h5py.File(path, "r+") as file:
            file[group].attrs["object_id"] = "one"
            file[f"{group}/deep/{column}"].attrs["object_id"] = "two"
        return path

    a = make("a.h5", "group", "corect", left=[1.5, 2])
    b = make("b.h5", "new/group", "correct", right=[1.5, 2])
    with h5py.File(b, "r+") as file:
        file["new/group/kept"][()] = 5
    assert list(map(str, compare(a, b))) == [
        "/group renamed: /group -> /new/group",
        "/group/deep/corect renamed: corect -> correct",
        "/group/kept value: 1 | 5",
        "/left missing: 'dataset' | None",
        "/new extra: None | 'group'",
        "/right extra: None | 'dataset'",
    ]


def test_specifications_are_compared_as_documents_and_those_that_one_file_has_are_one_line(sample, tmp_path):
    path = "specifications/core/2.0/namespace"
    document = json.dumps(SPEC, indent=2, sort_keys=True, ensure_ascii=False)
    assert compare(sample, changed(sample, tmp_path, put(path, (), document))) == []
    assert summarise(compare(sample, changed(sample, tmp_path, put(path, (), "{")))) == {"value": 1}
    # elsewhere the same text is text
    a, b = write(tmp_path / "c.h5", data='{"a": 1}'), write(tmp_path / "d.h5", data='{"a":1}')
    assert summarise(compare(a, b)) == {"value": 1}

    def plant(file: h5py.File) -> None:
        file.move("specifications/core/2.0", "specifications/core/2.1")
        file["specifications/new/0.1/namespace"], file["specifications/new/0.1/types"] = "{}", "{}"
        file["specifications/core/2.1/more"] = "{}"

    differences = compare(sample, changed(sample, tmp_path, plant))
    assert differences.lines()[-3:] == [
        "cached specifications only in A: core 2.0",
        "cached specifications only in B: core 2.1, new 0.1",
        "9 differences: 7 extra, 2 missing",
    ]
    assert differences.lines(Form(limit=0))[:-1] == list(map(str, differences))
    other = changed(sample, tmp_path, lambda file: file.create_dataset("specifications/core/2.0/more", data="{}"))
    assert compare(sample, other).lines()[0].startswith("/specifications/core/2.0/more extra")


def test_the_length_of_a_text_is_no_difference_beside_its_value(sample, tmp_path):
    other = changed(sample, tmp_path, attribute("/", "namespace", np.bytes_(b"longer than core")))
    assert [str(each) for each in compare(sample, other)] == ["/ attribute 'namespace': 'core' | 'longer than core'"]


def test_links_are_equal_by_text_or_by_what_is_meant(tmp_path):
    a = write(tmp_path / "a.h5", **{"g/data": 1, "g/link": h5py.SoftLink("./data")})
    assert compare(a, write(tmp_path / "b.h5", **{"g/data": 1, "g/link": h5py.SoftLink("/g/data")})) == []
    (tmp_path / "deep").mkdir()
    a = write(tmp_path / "a.h5", link=h5py.ExternalLink("other.h5", "/data"))
    moved = write(tmp_path / "deep/b.h5", link=h5py.ExternalLink("other.h5", "/data"))
    rewritten = write(tmp_path / "deep/c.h5", link=h5py.ExternalLink("../other.h5", "/data"))
    assert compare(a, moved) == []
    assert compare(a, rewritten) == []
    assert summarise(compare(moved, rewritten)) == {"link": 1}


def regions_in(path: Path) -> Any:
    with closing(open_content(path)) as content:
        regions: Any = content["/regions"]
        return regions.read((slice(0, 3),))


@pytest.mark.parametrize("swap", [False, True])
def test_regions_are_equal_however_they_are_spelled(tmp_path, swap):
    shape = (6, 5)

    def select(file: h5py.File, parts: list[tuple[slice, slice]]) -> h5py.RegionReference:
        data = file.require_dataset("data", shape, "i4")
        space = h5py.h5s.create_simple(shape)
        space.select_none()
        for rows, columns in parts:
            start, count = (rows.start, columns.start), (rows.stop - rows.start, columns.stop - columns.start)
            space.select_hyperslab(start, count, op=h5py.h5s.SELECT_OR)
        return h5py.h5r.create(data.id, b".", h5py.h5r.DATASET_REGION, space)

    def store(name: str, *selections: list[tuple[slice, slice]]) -> Path:
        with h5py.File(tmp_path / name, "w") as file:
            result = [select(file, parts) for parts in selections]
            file.create_dataset("regions", data=np.array(result, h5py.regionref_dtype), dtype=h5py.regionref_dtype)
        return tmp_path / name

    block = [(slice(1, 5), slice(0, 3))]
    corner = [(slice(0, 2), slice(0, 4)), (slice(2, 4), slice(0, 1))]
    block_in_parts = [(slice(1, 3), slice(0, 3)), (slice(2, 5), slice(0, 1)), (slice(3, 5), slice(0, 3))]
    corner_in_parts = [(slice(0, 4), slice(0, 1)), (slice(0, 2), slice(1, 4))]
    lattice = [(slice(row, row + 1), slice(0, 2)) for row in (0, 1, 4)]
    files = store("a.h5", block, corner, lattice), store("b.h5", block_in_parts, corner_in_parts, lattice[::-1])
    assert compare(*files[:: -1 if swap else 1]) == []
    regions = regions_in(files[0])
    assert regions[0] == Target("/data", (("slice", (1, 5, 1)), ("slice", (0, 3, 1))))
    points = tuple((row, column) for row in range(4) for column in range(4) if row < 2 or column < 1)
    assert regions[1].region == (("points", points),)
    assert regions[2].region == (("index", (0, 1, 4)), ("slice", (0, 2, 1)))
    assert summarise(compare(files[0], store("c.h5", block, corner, block))) == {"reference": 1}


def test_point_strided_and_empty_selections_are_told_apart(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("data", data=np.arange(10))
        spaces = [h5py.h5s.create_simple((10,)) for _ in range(3)]
        spaces[0].select_elements(np.array([[7], [2]]))
        spaces[1].select_hyperslab((1,), (3,), stride=(3,), block=(1,))
        spaces[2].select_none()
        result = [h5py.h5r.create(data.id, b".", h5py.h5r.DATASET_REGION, space) for space in spaces]
        file.create_dataset("regions", data=np.array(result, h5py.regionref_dtype), dtype=h5py.regionref_dtype)
    regions = [reference.region for reference in regions_in(tmp_path / "a.h5")]
    assert regions == [(("points", ((7,), (2,))),), (("slice", (1, 8, 3)),), (("none", ()),)]


def test_a_reference_to_nothing_is_a_finding_and_no_failure(tmp_path):
    a = write(tmp_path / "a.h5", data=1, kept=2)
    with h5py.File(a, "r+") as file:
        file["ref"] = file["data"].ref
    b = changed(a, tmp_path, dropped("data"))
    assert summarise(compare(a, b)) == {"missing": 1, "reference": 1}


def test_values_that_hdf5_returns_as_addresses_are_unreadable(tmp_path):
    new_reference = h5py.h5t.decode(b"\x03\0G\x12\0\0@\0\0\0")  # H5T_STD_REF, which h5py lacks
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        types = {"sequence": h5py.h5t.vlen_create(h5py.h5t.STD_REF_DSETREG), "reference": new_reference}
        for name, tid in types.items():
            h5py.h5d.create(file.id, name.encode(), tid, h5py.h5s.create_simple((2,)))
            h5py.h5a.create(file.id, name.encode(), tid, h5py.h5s.create_simple((2,)))
    found = compare(path, path)
    assert [(each.path, each.attribute) for each in found] == [
        ("/", "reference"), ("/", "sequence"), ("/reference", None), ("/sequence", None),
    ]  # fmt: skip
    assert {each.kind for each in found} == {"unreadable"}
    assert "H5T_STD_REF" in str(found[2])
    assert "sequences of region references" in str(found[3])


def test_values_without_a_filter_are_unreadable_and_others_are_compared(tmp_path):
    path, other = write(tmp_path / "a.h5", later=np.zeros(3)), tmp_path / "b.h5"
    with h5py.File(path, "r+") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((4,))
        creation.set_filter(32099, h5py.h5z.FLAG_OPTIONAL, ())  # a number without a filter
        result = h5py.h5d.create(file.id, b"data", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4,)), creation)
        result.write_direct_chunk((0,), b"0123456789abcdef")
    shutil.copy(path, other)
    with h5py.File(other, "a") as file:
        file["later"][1] = 5
    differences = compare(path, other)
    assert [(d.path, d.kind) for d in differences] == [("/data", "unreadable"), ("/later", "value")]
    assert "hdf5plugin" in str(differences[0])
    assert "filter" in str(differences[0].a)
    assert differences[0].a == differences[0].b


@pytest.mark.parametrize("block_bytes", [1, 40, 200, 10_000])
@pytest.mark.parametrize("chunks", [None, (1, 1, 1), (3, 2, 4), (5, 1, 9), (8, 8, 8)], ids=str)
def test_blocks_cover_every_element_once_in_whole_chunks(monkeypatch, block_bytes, chunks):
    monkeypatch.setattr("hdmf_zarr_backend.comparison.BLOCK_BYTES", block_bytes)
    values = np.arange(5 * 4 * 9, dtype="<i4").reshape(5, 4, 9)
    times_read = np.zeros(values.shape, dtype=int)

    def read(part: tuple[slice, ...]) -> np.ndarray:
        times_read[part] += 1
        assert all(axis.start % size == 0 for axis, size in zip(part, chunks or (1, 1, 1), strict=True))
        assert values[part].nbytes <= max(block_bytes, 4 * int(np.prod(chunks or 1)))
        return values[part]

    altered = values.copy()
    altered[1, 3, 8] = altered[4, 0, 0] = -1
    shape, fill = values.shape, np.zeros((), "<i4")
    a = DatasetContent({}, Number("int", 4, "<"), shape, shape, chunks, ("contiguous",), (), fill, read)
    b = replace(a, read=lambda part: altered[part])
    (difference,) = compare_values("/data", a, b)
    assert (difference.kind, difference.count) == ("value", 2)
    assert difference.place in {"[1, 3, 8]", "[4, 0, 0]"}
    assert (times_read == 1).all()


@pytest.mark.parametrize("chunks", [None, (1000, 50)], ids=["contiguous", "chunked"])
def test_memory_stays_bounded(tmp_path, chunks, monkeypatch):
    monkeypatch.setattr("hdmf_zarr_backend.comparison.BLOCK_BYTES", 2**20)
    values = np.random.default_rng(1).random((10_000, 500))  # 40 MB
    paths = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for path, last, grid in zip(paths, (1.0, 2.0), (chunks, (100, 500)), strict=True):
        values[-1, -1] = last
        hdf5_dataset(path, "data", data=values, chunks=grid)
    tracemalloc.start()
    try:
        differences = compare(*paths, ignore={"chunks"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert differences == [Difference("/data", "value", 1.0, 2.0, place="[9999, 499]")]
    assert peak < 8 * 2**20


@pytest.mark.corpus
def test_a_real_file_equals_itself(nwbfiles):
    assert {path.name: differences for path in nwbfiles if (differences := list(map(str, compare(path, path))))} == {}
