"""The contract: types of attributes and datasets; HDF5 -> Zarr -> HDF5."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hdmf.build import ReferenceBuilder
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from hdmf_zarr_backend.errors import ValueRefusedError
from tests import samples
from tests.documents import forget_consolidated
from tests.places import Place, contents, keys_of, put
from tests.test_io import identical, read
from tests.trees import dataset, group, read_builder, root, round_trip, write_builder


@pytest.mark.parametrize(("value", "comes_back"), [
    (np.array(3, "u1"), np.uint8(3)), ([1, 2], np.array([1, 2])), ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
    ([[["a"], ["b"]]], np.array([[["a"], ["b"]]], object)), ((1.5, 2.5), np.array([1.5, 2.5])),
], ids=["0-d", "list", "nested list", "nested text", "tuple"])  # fmt: skip
def test_an_attribute_that_comes_back_as_with_hdf5(folder, value, comes_back):
    """What has no axes as a scalar; a list as an array."""
    assert identical(round_trip(folder / "file.zarr", root(it=value)).attributes["it"], comes_back)


def test_a_compound_scalar_with_text_and_references_stays_a_scalar(folder):
    target = group("target")
    fields = [{"name": "n", "dtype": "int32"}, {"name": "text", "dtype": "utf8"}, {"name": "to", "dtype": "object"}]
    row = np.empty((), [("n", "i4"), ("text", "O"), ("to", "O")])
    row["n"], row["text"], row["to"] = 7, "ä", ReferenceBuilder(target)
    path = write_builder(folder / "first.zarr", root(dataset("a row", row, fields), target))
    with ZarrIO(path) as source, ZarrIO(folder / "second.zarr", "w") as io:
        io.export(source, cache_spec=False)
    for file in (path, folder / "second.zarr"):
        builder = read_builder(file)
        data = builder["a row"].data
        assert np.ndim(data) == 0
        assert (data["n"], data["text"]) == (7, "ä")
        assert data["to"].item() is builder["target"]
        assert [field["name"] for field in builder["a row"].dtype] == ["n", "text", "to"]


def test_none_in_a_row_is_refused_with_its_place(folder):
    fields = [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "utf8"}]
    with pytest.raises(ValueRefusedError, match=r"element \[1, 1\].*None"):
        write_builder(folder / "file.zarr", root(dataset("it", [(1, "a"), (2, None)], fields)))


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


def test_a_file_in_which_nan_is_a_text_and_one_that_links_to_it(folder):
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
    first = samples.write_zarr(folder / "c.zarr", samples.plain_nwbfile("first"))
    second, data = samples.plain_nwbfile("second"), read(first).acquisition["trace"].data
    second.add_acquisition(TimeSeries(name="linked", data=data, unit="m", rate=1.0))
    samples.write_zarr(folder / "d.zarr", second)
    as_others_write_it(first, "acquisition/trace/data", conversion="NaN")
    linked = read(folder / "d.zarr").acquisition["linked"]
    assert linked.data.location == str(first)
    assert math.isnan(linked.conversion)
