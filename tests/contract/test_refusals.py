"""Missing files, refused writes, and what a failure leaves, wherever the file is.

Damage that is made by hand in documents of format 2 on a local disk is in ``tests/test_bad_input.py``.
"""

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.data_utils import DataChunkIterator
from hdmf.spec import NamespaceCatalog
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, errors
from hdmf_zarr_backend.errors import ChunkError, NameRefusedError, NestingError, StoreNotFoundError, ValueRefusedError
from tests import samples
from tests.documents import arrays, forget_consolidated
from tests.places import Place, contents, delete, put
from tests.test_bad_input import check
from tests.test_io import read
from tests.trees import dataset, edit_builder, group, read_builder, root, write_builder

STAGING = pytest.mark.needs("staging")


def everything_in(folder: Place) -> dict[str, dict[str, bytes]]:
    return {place.name: contents(place) for place in folder.iterdir()}


@pytest.mark.parametrize("mode", ["r", "r-", pytest.param("r+", marks=pytest.mark.needs("append"))])
@pytest.mark.parametrize("io_class", [ZarrIO, NWBZarrIO])
def test_a_path_that_does_not_exist(folder, mode, io_class):
    path = folder / "absent.zarr"
    for use in (lambda: io_class(path, mode), lambda: io_class.load_namespaces(NamespaceCatalog(), path)):
        with pytest.raises(StoreNotFoundError) as caught:
            use()
        check(caught.value, path)
        assert isinstance(caught.value, (FileNotFoundError, UnsupportedOperation))
    assert list(folder.iterdir()) == []


def references(path: Place) -> Place:
    """Write a file whose references, of every form, point to a target that is then deleted."""
    goal, here = group("goal"), group("here", kept=1)
    here.set_attribute("attribute", ReferenceBuilder(goal))
    fields = [{"name": "n", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    for member in (
        dataset("array", [ReferenceBuilder(here), ReferenceBuilder(goal)], "object"),
        dataset("scalar", ReferenceBuilder(goal), "object"),
        dataset("rows", [(1, ReferenceBuilder(here)), (2, ReferenceBuilder(goal))], fields),
    ):
        here.set_dataset(member)
    write_builder(path, root(goal, here))
    delete(path, "goal")
    forget_consolidated(path)
    return path


def test_references_to_nothing_fail_when_they_are_resolved(folder):
    path = references(folder / "file.zarr")
    with ZarrIO(path) as io:
        with pytest.warns(BrokenLinkWarning) as caught:
            here = io.read_builder()["here"]
        messages = sorted(str(warning.message) for warning in caught)
        assert len(messages) == 2
        assert all(str(path) in text and "/goal" in text for text in messages)
        assert "'attribute' of /here" in messages[0]
        assert "/here/scalar" in messages[1]
        assert dict(here.attributes) == {"kept": 1}
        assert sorted(here.datasets) == ["array", "rows"]
        assert here["array"].data[0] is here
        assert here["rows"].data[0]["to"] is here
        for name in ("array", "rows"):
            with pytest.raises(errors.ReferenceTargetError) as failed:
                here[name].data[1]
            check(failed.value, path, "/goal")
            assert isinstance(failed.value, (KeyError, errors.DamagedFileError))


def spoil(path: Place, array: str) -> None:
    node = arrays(path)[array]
    put(path, f"{array}/{node.stored.chunk_name((0,) * len(node.stored.shape))}", b"\1\2\3")


def test_the_rest_of_a_file_with_a_damaged_chunk_reads(plain):
    spoil(plain, "acquisition/trace/data")
    with NWBZarrIO(plain) as io:
        nwbfile = io.read()
        assert nwbfile.identifier == "plain"
        with pytest.raises(ChunkError, match="the chunk '") as caught:
            nwbfile.acquisition["trace"].data[:]
    check(caught.value, plain, "/acquisition/trace/data")


class BrokenError(Exception):
    """What the source of an iterator raises."""


def breaking_after(blocks: int) -> Iterator[Any]:
    for _ in range(blocks):
        yield np.zeros(3)
    raise BrokenError


@pytest.mark.parametrize("present", [True, False], ids=["old file", "no file"])
@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        pytest.param(lambda: DataChunkIterator(breaking_after(5), buffer_size=2), None, BrokenError, marks=STAGING),
        (lambda: np.array([object()], dtype=object), None, ValueRefusedError),
        (lambda: np.zeros(2, "g"), None, ValueRefusedError),
        (lambda: np.array([["ragged"], []], dtype=object), None, ValueRefusedError),
        (lambda: np.full((300, 2), 0.5), "int32", ValueRefusedError),
        (lambda: [0, 1, 2**40], "int32", ValueRefusedError),
    ],
    ids=["iterator", "object", "long double", "ragged", "fractions as integers", "a large number in a list"],
)
def test_a_write_that_fails_leaves_what_was_there(folder, value, dtype, error, present):
    path = folder / "file.nwb.zarr"
    if present:
        samples.write_zarr(path, samples.plain_nwbfile())
    before = everything_in(folder)
    tree = root(dataset("a_good_one", np.arange(4), "int64"), dataset("bad", value(), dtype))
    with pytest.raises(error) as caught:
        write_builder(path, tree)
    if error is ValueRefusedError:
        check(caught.value, path, "/bad")
    if present:
        assert read(path).identifier == "plain"
    else:
        with pytest.raises(StoreNotFoundError):
            ZarrIO(path)
    assert everything_in(folder) == before


@STAGING
def test_the_old_file_stays_until_the_new_one_is_complete(folder, plain):
    seen = []

    def rows() -> Iterator[Any]:
        for i in range(6):
            seen.append(read(plain).identifier)
            yield np.full(3, i)

    nwbfile = samples.plain_nwbfile("new")
    data = DataChunkIterator(data=rows(), buffer_size=2)
    nwbfile.add_acquisition(TimeSeries(name="stream", data=data, unit="m", rate=1.0))
    samples.write_zarr(plain, nwbfile)
    assert seen == ["plain"] * 6
    assert read(plain).identifier == "new"
    assert [place.name for place in folder.iterdir()] == [plain.name]


@pytest.mark.parametrize(
    "name", [".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json", ".", "..", "a\\b", "a\0b"]
)
def test_names_that_no_store_can_hold(folder, name):
    linked = root(group("target"))
    linked.set_link(LinkBuilder(builder=linked["target"], name=name))
    for tree, node in ((root(group("inner", GroupBuilder(name=name))), "/inner"), (linked, "/")):
        with pytest.raises(NameRefusedError) as caught:
            write_builder(folder / "file.zarr", tree)
        check(caught.value, folder / "file.zarr", node)
        assert repr(name) in caught.value.problem
    assert list(folder.iterdir()) == []


@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.PortableNameWarning")
@pytest.mark.parametrize("mode", ["w", pytest.param("a", marks=pytest.mark.needs("append"))])
def test_a_name_with_a_control_character(folder, cell, mode):
    """The library behind S3 rejects such a path; the existing file stays as it is."""
    path = write_builder(folder / "file.zarr", root(group("first")))
    with ZarrIO(path, mode) as io:
        builder = io.read_builder() if mode == "a" else root()
        builder.set_group(group("outer", GroupBuilder(name="a\tb")))
        if cell.kind == "s3":
            with pytest.raises(NameRefusedError, match="control character") as caught:
                io.write_builder(builder)
            assert (caught.value.store, caught.value.path) == (str(path), "/outer/a\tb")
        else:
            io.write_builder(builder)
    kept = {"first"} if cell.kind == "s3" or mode == "a" else set()
    assert set(read_builder(path).groups) == kept | (set() if cell.kind == "s3" else {"outer"})


@STAGING
def test_an_export_that_fails_leaves_what_was_there(folder, plain):
    target = samples.write_zarr(folder / "target.nwb.zarr", samples.plain_nwbfile("target"))
    spoil(plain, "acquisition/trace/data")
    before = everything_in(folder)
    with NWBZarrIO(plain) as source, NWBZarrIO(target, "w") as io, pytest.raises(ChunkError) as caught:
        io.export(source)
    check(caught.value, plain, "/acquisition/trace/data")
    assert read(target).identifier == "target"
    assert everything_in(folder) == before


BYTES_BEFORE_NUMBERS = [{"id": "zlib", "level": 1}, {"id": "delta", "dtype": "|u1"}]
"""Filters in an order that format 3, whose codecs on arrays come first, cannot express."""


BOTH_ORDERS = [{"id": "delta", "dtype": "<i4", "astype": ">i8"}]
"""A filter whose numbers have another byte order than the array, while format 3 has one for both."""


def with_filters(filters: list[dict[str, Any]]) -> GroupBuilder:
    return root(dataset("x", ZarrDataIO(np.arange(4000, dtype="i4"), filters=filters, compressor=False)))


def with_pickled_text() -> GroupBuilder:
    return root(dataset("x", ZarrDataIO(["some", "text"], filters=[{"id": "pickle"}])))


@pytest.mark.parametrize(
    "builder", [partial(with_filters, BYTES_BEFORE_NUMBERS), partial(with_filters, BOTH_ORDERS), with_pickled_text]
)
def test_codecs_that_format_3_cannot_express_are_refused_and_the_old_file_stays(folder, builder):
    path = write_builder(folder / "file.zarr", root(group("first")), zarr_format=3)
    before = everything_in(folder)
    with pytest.raises(errors.UsageError, match=r"zlib, delta|codecs delta|pickle") as caught:
        write_builder(path, builder(), zarr_format=3)
    check(caught.value, path, "/x")
    assert everything_in(folder) == before


@pytest.mark.parametrize("filters", [BYTES_BEFORE_NUMBERS, BOTH_ORDERS], ids=["place", "byte order"])
def test_a_copy_in_format_3_has_other_codecs_where_it_must_and_the_same_values(folder, filters):
    write_builder(folder / "old.zarr", with_filters(filters), zarr_format=2)
    with (
        ZarrIO(folder / "old.zarr") as source,
        ZarrIO(folder / "new.zarr", "w", zarr_format=3) as io,
        pytest.warns(errors.FilterReplacedWarning, match=r"new\.zarr.*, /x: .* delta; .* blosc"),
    ):
        io.export(source)
    assert read_builder(folder / "new.zarr")["x"].data[:].tolist() == list(range(4000))


def builders(depth: int) -> GroupBuilder:
    """Return nested groups; hdmf's own constructor has a limit too, so they are hung in from above."""
    root = here = GroupBuilder("root", source="here")
    for _ in range(depth):
        below = GroupBuilder("g")
        here.set_group(below)
        here = below
    return root


def test_groups_that_are_nested_400_deep_are_written_read_and_appended_to(tmp_path):
    path, depth = tmp_path / "deep.zarr", 400
    write_builder(path, builders(depth))
    with edit_builder(path) as root:
        root["/".join("g" * depth)].set_group(GroupBuilder("new", attributes={"a": 1}))
    for mode in ("r", "r-"):
        assert read_builder(path, mode)["/".join("g" * depth) + "/new"].attributes == {"a": 1}


def test_deeper_than_the_limit_is_one_clear_error_and_the_file_stays(tmp_path):
    path, depth, limit = tmp_path / "deep.zarr", 900, sys.getrecursionlimit()
    tree = builders(depth)
    write_builder(path, tree)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    with ZarrIO(path, "r+") as io:
        root = io.read_builder()
        root.set_group(GroupBuilder("new"))
        sys.setrecursionlimit(limit - 300)
        with pytest.raises(NestingError, match="nested 900 deep cannot be written with Python's limit") as caught:
            io.write_builder(root)
        sys.setrecursionlimit(limit)
    assert caught.value.store == str(path)
    assert caught.value.path == "/g" * depth
    assert isinstance(caught.value, RecursionError)
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
    sys.setrecursionlimit(int(caught.value.remedy.rpartition("(")[2].rstrip(").")))
    try:
        with edit_builder(path) as root:
            root.set_group(GroupBuilder("new"))
    finally:
        sys.setrecursionlimit(limit)
    assert "new" in read_builder(path).groups
