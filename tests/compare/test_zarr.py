"""The comparing tool on two Zarr files: exactly the planted difference is found."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hdmf.build import LinkBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO, convert, upgrade
from hdmf_zarr_backend.comparison import compare, open_content
from hdmf_zarr_backend.model.content import DatasetContent, NodeContent
from tests.compare.planted import places
from tests.documents import change_attributes, forget_consolidated
from tests.trees import dataset, root, write_builder

NUMBERS = np.arange(24, dtype="<i4").reshape(6, 4)
SETTINGS: dict[str, Any] = {"chunks": (3, 2), "maxshape": (None, 4), "fillvalue": 7, "compressor": None}


def write(
    path: Path, numbers: Any = NUMBERS, texts: Any = (b"one", b"t\xffo"), link: str = "numbers", **settings: Any
) -> Path:
    chosen = {name: value for name, value in {**SETTINGS, **settings}.items() if value != "none"}
    datasets = [dataset("numbers", ZarrDataIO(numbers, **chosen)), dataset("texts", list(texts), "ascii")]
    tree = root(*datasets, dataset("references", [ReferenceBuilder(datasets[0])], "object"))
    tree.set_link(LinkBuilder(tree[link], name="link"))
    return write_builder(path, tree)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("zarr") / "a.zarr")


@pytest.mark.parametrize(("kind", "place", "changes"), [
    ("dtype", "/numbers", {"numbers": NUMBERS.astype("<i8")}),
    ("byte-order", "/numbers", {"numbers": NUMBERS.astype(">i4")}),
    ("value", "/numbers", {"numbers": np.where(NUMBERS == 23, 99, NUMBERS)}),
    ("value", "/texts", {"texts": (b"one", b"t\xfeo")}), ("maxshape", "/numbers", {"maxshape": (8, 4)}),
    ("maxshape", "/numbers", {"maxshape": "none"}), ("chunks", "/numbers", {"chunks": (6, 2)}),
    ("filters", "/numbers", {"compressor": False}), ("fill", "/numbers", {"fillvalue": 8}),
    ("fill", "/numbers", {"fillvalue": "none"}), ("link", "/link", {"link": "texts"}),
])  # fmt: skip
def test_a_difference_of_files_that_never_were_in_hdf5_is_found(sample, tmp_path, kind, place, changes):
    """All that HDF5 can say is planted in `tests/compare/test_conversions.py`."""
    other = write(tmp_path / "b.zarr", **changes)
    differences = compare(sample, other)
    assert places(differences) == [(kind, place)], list(map(str, differences))
    assert compare(sample, other, ignore={kind}) == []


def test_the_same_tree_written_twice_is_equal(sample, tmp_path):
    assert compare(sample, write(tmp_path / "b.zarr")) == []


def test_an_empty_fill_value_of_text_is_what_an_undefined_one_is(tmp_path):
    """zarr-python has one in each document of text, and a copy has none, so that xarray does not mask empty text."""
    write_builder(tmp_path / "a.zarr", root(dataset("texts", ["a", ""])))
    forget_consolidated(tmp_path / "a.zarr")
    document = tmp_path / "a.zarr" / "texts" / ".zarray"
    document.write_text(json.dumps({**json.loads(document.read_text()), "fill_value": ""}))
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    assert compare(tmp_path / "a.zarr", tmp_path / "b.zarr") == []


@pytest.mark.parametrize(("one", "other", "place", "count"), [
    (np.array([2**62, 5, "NaT"], "M8[s]"), np.array([2**62, 5 * 10**9, "NaT"], "M8[ns]"), "[0]", 1),
    (np.array(["NaT", 5], "m8[Y]"), np.array(["NaT", 5], "m8[D]"), "[1]", 1),
    (np.array([30], "M8[Y]"), np.array([5], "M8[as]"), "[0]", 1),
], ids=["overflow", "years and days", "years and attoseconds"])  # fmt: skip
def test_times_without_a_common_unit_are_different(one, other, place, count):
    a, b = (write_builder({}, root(dataset("when", values))) for values in (one, other))
    for differences in (compare(a, b), compare(b, a)):
        found = [(each.kind, each.place, each.count) for each in differences]
        assert found == [("dtype", "", 1), ("value", place, count)]


def test_no_chunk_is_read_for_the_structure_alone(sample, tmp_path):
    other = Path(shutil.copytree(sample, tmp_path / "b.zarr"))
    for key in other.glob("numbers/[0-9]*"):
        key.write_bytes(b"no chunk")
    assert compare(sample, other, values=False) == []
    (difference,) = compare(sample, other)
    assert (difference.path, difference.kind, difference.a) == ("/numbers", "unreadable", None)
    assert "cannot be decoded" in str(difference.b)
    (mirrored,) = compare(other, sample)
    assert (mirrored.a, mirrored.b) == (difference.b, None)


def content_of(node: NodeContent) -> DatasetContent:
    assert isinstance(node, DatasetContent)
    return node


def test_rows_that_do_not_fit_their_fields_are_told(tmp_path):
    words = [
        {"name": name, "dtype": dtype} for name, dtype in (("number", "int32"), ("text", "utf8"), ("to", "object"))
    ]
    target = dataset("target", NUMBERS)
    table = dataset("table", [(1, "x", ReferenceBuilder(target))], words)
    path = write_builder(tmp_path / "a.zarr", root(target, table))
    change_attributes(path, "table", lambda attributes: attributes.update(zarr_dtype=words[::2]))
    (difference,) = compare(path, path)
    assert (difference.path, difference.kind) == ("/table", "unreadable")


def test_a_region_that_repeats_an_index_is_compared(tmp_path):
    path = write_builder(tmp_path / "a.zarr", root(dataset("data", NUMBERS)))
    other = shutil.copytree(path, tmp_path / "b.zarr")
    for location, index in ((path, [1, 1]), (other, [1, 2])):
        value = {"source": ".", "path": "/data", "region": [{"index": index}]}
        change_attributes(location, "", lambda it, to=value: it.update(to={"zarr_dtype": "region", "value": to}))
    assert compare(path, path) == []
    assert len(compare(path, other)) == 1


def test_a_cached_specification_keeps_its_axis_in_format_3(tmp_path):
    """Only a file that records no type for it, of an old release of hdmf-zarr, may mean a scalar by one axis of one."""
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=3, attributes={".specloc": "specifications"})
    text = root.create_array("specifications/core/1.0.0/namespace", shape=(1,), dtype="string")
    text[:] = np.array(["{}"], dtype=object)
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2)
    convert(tmp_path / "b.zarr", tmp_path / "c.zarr", zarr_format=3)
    convert(tmp_path / "a.zarr", tmp_path / "d.h5")
    upgrade(tmp_path / "b.zarr")
    for name in ("a.zarr", "b.zarr", "c.zarr", "d.h5"):
        with closing(open_content(tmp_path / name)) as content:
            assert content_of(content["/specifications/core/1.0.0/namespace"]).shape == (1,), name
    assert compare(tmp_path / "a.zarr", tmp_path / "c.zarr") == []
