"""The contract: types of attributes and datasets; HDF5 -> Zarr -> HDF5."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.build import GroupBuilder, ReferenceBuilder
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, convert
from hdmf_zarr_backend.errors import StoreNotFoundError, ValueRefusedError
from tests import samples
from tests.cells import Cell
from tests.documents import document, forget_consolidated
from tests.places import Place, contents, keys_of, put
from tests.test_io import identical, read
from tests.trees import dataset, group, read_builder, root, round_trip, write_builder

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")

# ---- attributes --------------------------------------------------------------------------------------------------

ATTRIBUTES: dict[str, Any] = {
    **{f"smallest {code}": np.array(np.iinfo(code).min, code)[()] for code in INTEGERS},
    **{f"largest {code}": np.array(np.iinfo(code).max, code)[()] for code in INTEGERS},
    **{f"array of {code}": np.array([0, 1, 2], code) for code in INTEGERS},
    **{f"empty {code}": np.empty(0, code) for code in (*INTEGERS, "f2", "f4", "f8", "?")},
    **{f"scalar {code}": np.array(0.1, code)[()] for code in ("f2", "f4", "f8")},
    "bool": np.bool_(True),
    "bools": np.array([True, False]),
    "bytes": b"a\x00\xffb",
    "fixed bytes": np.array([b"ab", b"c"], "S2"),
    "fixed text": np.array(["ab", "ä"], "U2"),
    "matrix": np.arange(6, dtype="u2").reshape(2, 3),
    "empty matrix": np.empty((0, 3), "f4"),
    "three axes": np.arange(8.0).reshape(2, 2, 2),
    "complex": np.complex128(1.5 - 2j),
    "complex array": np.array([1j, np.nan], "c8"),
    "date": np.datetime64("2024-02-29T12:34:56.789", "ms"),
    "dates": np.array(["2024-02-29", "NaT"], "M8[D]"),
    "duration": np.timedelta64(5, "us"),
    "NaN": np.float32("nan"),
    "infinities": np.array([np.inf, -np.inf, np.nan, -0.0]),
    "text": "größer als ∑ 🐁",
}


@pytest.fixture(scope="module")
def attributes(shared_folder: Place) -> dict[str, Any]:
    return dict(round_trip(shared_folder / "attributes.zarr", root(**ATTRIBUTES)).attributes)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_comes_back_with_type_and_shape(attributes, name):
    wanted, found = ATTRIBUTES[name], attributes[name]
    assert identical(found, wanted), (found, wanted)
    assert isinstance(found, type(wanted)) or isinstance(wanted, np.ndarray)


@pytest.mark.parametrize(
    ("value", "comes_back"),
    [
        (np.array(3, "u1"), np.uint8(3)),
        ([1, 2], np.array([1, 2])),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ([[["a"], ["b"]]], np.array([[["a"], ["b"]]], object)),
        ((1.5, 2.5), np.array([1.5, 2.5])),
    ],
    ids=["0-d", "list", "nested list", "nested text", "tuple"],
)
def test_an_attribute_that_comes_back_as_with_hdf5(folder, value, comes_back):
    """What has no axes as a scalar; a list as an array."""
    assert identical(round_trip(folder / "file.zarr", root(it=value)).attributes["it"], comes_back)


@pytest.mark.parametrize("value", [2**53 + 1, True, 0.1, "text", -(2**63)])
def test_a_value_of_python_stays_one(folder, value):
    found = round_trip(folder / "file.zarr", root(it=value)).attributes["it"]
    assert found == value
    assert np.asarray(found).dtype.kind == np.asarray(value).dtype.kind


def test_attributes_of_datasets_and_groups_alike(folder):
    values = {name: ATTRIBUTES[name] for name in ("largest u8", "empty f4", "NaN", "bools", "fixed bytes")}
    found = round_trip(
        folder / "file.zarr", root(group("g", **values), dataset("d", np.arange(2), attributes=dict(values)))
    )
    for node in (found["g"], found["d"]):
        for name, value in values.items():
            assert identical(node.attributes[name], value)


# ---- datasets ----------------------------------------------------------------------------------------------------

SUB_ARRAYS = np.array([(1, [[0.5, 1.5]], b"ab")], dtype=[("a", "u1"), ("b", "f4", (1, 2)), ("c", "S2")])

DATASETS: dict[str, Any] = {
    **{f"numbers {code}": samples.number_values(code) for code in samples.NUMBERS},
    "uint64 index": np.array([2**63, 2**64 - 1, 0], "u8"),
    "dates": np.array(["2024-02-29", "NaT"], "M8[s]"),
    "sub-arrays": SUB_ARRAYS,
    "empty": np.empty((0, 4), "u2"),
}


@pytest.fixture(scope="module")
def datasets(shared_folder: Place) -> GroupBuilder:
    path = shared_folder / "datasets.zarr"
    return round_trip(path, root(*(dataset(name, data) for name, data in DATASETS.items())))


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_comes_back_with_its_type(datasets, name):
    data = datasets[name].data
    assert identical(data[()], DATASETS[name])
    assert data.dtype == DATASETS[name].dtype


def test_big_endian(folder):
    values = np.array([1, 2, 3], ">i4")
    data = round_trip(folder / "file.zarr", root(dataset("it", values)))["it"].data
    assert data[:].tolist() == [1, 2, 3]
    assert data.dtype == ">i4"
    assert document(folder / "file.zarr", "it/.zarray")["dtype"] == ">i4"


def test_text_of_fixed_length_and_ascii(folder):
    members = (
        dataset("fixed", np.array(["ab", "ä"], "U2"), "utf8"),
        dataset("bytes", np.array([b"ab", b"c"], "S2"), "bytes"),
        dataset("ascii", [b"one", b"two"], "ascii"),
        dataset("utf8", ["ä", ""], "utf8"),
    )
    found = round_trip(folder / "file.zarr", root(*members))
    assert {name: list(found[name].data[:]) for name in ("fixed", "bytes", "ascii", "utf8")} == {
        "fixed": ["ab", "ä"],
        "bytes": [b"ab", b"c"],
        "ascii": [b"one", b"two"],
        "utf8": ["ä", ""],
    }
    assert {name: found[name].dtype for name in ("ascii", "utf8")} == {"ascii": "ascii", "utf8": "utf8"}


def test_bools_are_enums_in_hdf5(folder, tmp_path):
    source = tmp_path / "file.h5"
    with h5py.File(source, "w") as file:
        file["it"] = np.array([True, False])
        file["levels"] = np.array([0, 2], h5py.enum_dtype({"low": 0, "high": 2}, "u1"))
    convert(source, folder / "file.zarr")
    found = read_builder(folder / "file.zarr")
    assert identical(found["it"].data[:], np.array([True, False]))
    assert identical(found["levels"].data[:], np.array([0, 2], "u1"))
    convert(folder / "file.zarr", tmp_path / "back.h5")
    with h5py.File(tmp_path / "back.h5") as file:
        assert file["it"].dtype == bool
        assert h5py.check_enum_dtype(file["levels"].dtype) == {"low": 0, "high": 2}


def test_a_compound_scalar(folder):
    nwbfile = samples.plain_nwbfile()
    device = nwbfile.create_device(name="probe")
    nwbfile.create_electrode_group(name="g", description="d", location="l", device=device, position=(1.5, 2.0, -3.0))
    path = samples.write_zarr(folder / "file.zarr", nwbfile)
    position = read(path).electrode_groups["g"].position
    assert position.tolist() == (1.5, 2.0, -3.0)
    assert position.dtype.names == ("x", "y", "z")
    with NWBZarrIO(path) as source, NWBZarrIO(folder / "copy.zarr", "w") as io:
        io.export(source)
    assert read(folder / "copy.zarr").electrode_groups["g"].position.tolist() == (1.5, 2.0, -3.0)


def test_a_compound_scalar_with_text_and_references_stays_a_scalar(folder):
    target = group("target")
    fields = [{"name": "n", "dtype": "int32"}, {"name": "text", "dtype": "utf8"}, {"name": "to", "dtype": "object"}]
    row = np.empty((), [("n", "i4"), ("text", "O"), ("to", "O")])
    row["n"], row["text"], row["to"] = 7, "ä", ReferenceBuilder(target)
    path = write_builder(folder / "first.zarr", root(dataset("a row", row, fields), target))
    with ZarrIO(path) as source, ZarrIO(folder / "second.zarr", "w") as io:
        io.export(source, cache_spec=False)
    for file in (path, folder / "second.zarr"):
        found = read_builder(file)
        data = found["a row"].data
        assert np.ndim(data) == 0
        assert (data["n"], data["text"]) == (7, "ä")
        assert data["to"].item() is found["target"]
        assert [field["name"] for field in found["a row"].dtype] == ["n", "text", "to"]


MISSING: dict[str, tuple[Callable[[], Any], str]] = {
    "text": (lambda: np.array(["a", None, "b"], object), "element 1"),
    "first of the text": (lambda: np.array([None, "b"], object), "element 0"),
    "a matrix of text": (lambda: np.array([["a", "b"], ["c", None]], object), r"element \[1, 1\]"),
    "numbers": (lambda: np.array([1, 2, None], object), "element 2"),
    "a list of numbers": (lambda: [1.5, None], "element 1"),
    "a list of text": (lambda: ["a", "b", None], "element 2"),
}


@pytest.mark.parametrize("name", list(MISSING))
def test_none_among_objects_is_refused_with_its_place(folder, name):
    make, place = MISSING[name]
    with pytest.raises(ValueRefusedError, match=place) as caught:
        write_builder(folder / "file.zarr", root(dataset("it", make())))
    assert "None" in str(caught.value)
    assert (caught.value.path, caught.value.store) == ("/it", str(folder / "file.zarr"))
    with pytest.raises(StoreNotFoundError):
        ZarrIO(folder / "file.zarr")
    assert list(folder.iterdir()) == []


def test_none_in_a_row_is_refused_with_its_place(folder):
    fields = [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "utf8"}]
    with pytest.raises(ValueRefusedError, match=r"element \[1, 1\].*None"):
        write_builder(folder / "file.zarr", root(dataset("it", [(1, "a"), (2, None)], fields)))


def test_dates_of_python_are_text(folder):
    found = round_trip(folder / "file.zarr", root(dataset("it", datetime.date(2024, 2, 29), "isodatetime")))
    assert found["it"].data == "2024-02-29"


# ---- HDF5 -> Zarr -> HDF5 ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def there_and_back(cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("hdf5")
    values = np.arange(600, dtype="i4").reshape(60, 10)
    with h5py.File(folder / "other.h5", "w") as file:
        file["far"] = [1, 2]
    with h5py.File(folder / "first.h5", "w") as file:
        file.create_dataset("plain", data=values)
        file.create_dataset("growing", data=values, maxshape=(None, 10), chunks=(7, 10))
        file.create_dataset(
            "filtered", data=values, chunks=(20, 5), compression="gzip", compression_opts=7, shuffle=True
        )
        file.create_dataset("checked", data=values, chunks=(60, 10), fletcher32=True)
        file.create_dataset("ascii", data="plain", dtype=h5py.string_dtype("ascii"))
        file.create_dataset("utf8", data="größe", dtype=h5py.string_dtype("utf-8"))
        file.create_dataset("fixed", data=np.array([b"ab", b"c"], "S4"))
        file.create_dataset("filled", (4,), "f4", fillvalue=-1.0)
        file["hard"] = file["plain"]
        file["soft"] = h5py.SoftLink("/plain")
        file["external"] = h5py.ExternalLink("other.h5", "/far")
    convert(folder / "first.h5", folder / "first.zarr")
    convert(folder / "first.zarr", folder / "back.h5")
    return folder / "first.h5", folder / "back.h5"


ARRAYS = ("plain", "growing", "filtered", "checked", "ascii", "utf8", "fixed", "filled")


@pytest.mark.parametrize("name", ARRAYS)
def test_what_hdf5_says_of_a_dataset_comes_back(there_and_back, name):
    with h5py.File(there_and_back[0]) as one, h5py.File(there_and_back[1]) as other:
        a, b = one[name], other[name]
        for what in (
            "shape",
            "maxshape",
            "chunks",
            "compression",
            "compression_opts",
            "shuffle",
            "fletcher32",
            "dtype",
        ):
            assert getattr(a, what) == getattr(b, what), what
        assert h5py.check_string_dtype(a.dtype) == h5py.check_string_dtype(b.dtype)
        assert a.fillvalue == b.fillvalue
        assert np.array_equal(a[()], b[()])
        pipelines = [[p.get_filter(i)[:3] for i in range(p.get_nfilters())] for p in
                     (a.id.get_create_plist(), b.id.get_create_plist())]  # fmt: skip
        assert pipelines[0] == pipelines[1]


@pytest.mark.parametrize("name", ["hard", "soft", "external"])
def test_the_kinds_of_links_come_back(there_and_back, name):
    with h5py.File(there_and_back[0]) as one, h5py.File(there_and_back[1]) as other:
        kinds = [type(file.get(name, getlink=True)) for file in (one, other)]
        assert kinds[0] is kinds[1]
        assert np.array_equal(one[name][()], other[name][()])
        if name == "hard":
            assert other["hard"] == other["plain"]
        else:
            assert one.get(name, getlink=True).path == other.get(name, getlink=True).path


# ---- NaN from other writers ----------------------------------------------------------------------------------------


def as_others_write_it(place: Place, node: str, **attributes: Any) -> None:
    """Change attributes of a node of a file, of which no types are kept then, nor a consolidated document."""
    forget_consolidated(place)
    key = next(key for key in (f"{node}/zarr.json", f"{node}/.zattrs") if key in keys_of(place))
    stored = json.loads(contents(place)[key])
    held = stored if key.endswith(".zattrs") else stored["attributes"]
    for name in ("_nczarr_attr", "_hdmf"):
        held.pop(name, None)
    held.update(attributes)
    put(place, key, json.dumps(stored).encode())


def test_a_file_in_which_nan_is_a_text(folder):
    """As Zindi and LINDI write it: hdmf could make no container of it."""
    path = samples.write_zarr(folder / "a.zarr", samples.plain_nwbfile())
    as_others_write_it(
        path, "acquisition/trace/data", conversion="NaN", offset="-Infinity", resolution="Infinity", unit="NaN"
    )
    trace = read(path).acquisition["trace"]
    assert math.isnan(trace.conversion)
    assert (trace.offset, trace.resolution, trace.unit) == (-math.inf, math.inf, "NaN")
    with NWBZarrIO(path) as io, NWBZarrIO(folder / "b.zarr", "w") as target:
        target.export(io)
    assert math.isnan(read(folder / "b.zarr").acquisition["trace"].conversion)


def test_so_it_is_in_a_file_that_another_one_links_to(folder):
    first = samples.write_zarr(folder / "a.zarr", samples.plain_nwbfile("first"))
    with NWBZarrIO(first) as source, NWBZarrIO(folder / "b.zarr", "w") as io:
        second = samples.plain_nwbfile("second")
        data = source.read().acquisition["trace"].data
        second.add_acquisition(TimeSeries(name="linked", data=data, unit="V", rate=1.0))
        io.write(second)
    as_others_write_it(first, "acquisition/trace/data", conversion="NaN")
    linked = read(folder / "b.zarr").acquisition["linked"]
    assert linked.data.location == str(first)
    assert math.isnan(linked.conversion)
