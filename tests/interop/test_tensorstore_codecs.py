"""TensorStore opens each array of numbers of a converted file whose codecs it has; the others are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from pynwb import H5DataIO, TimeSeries

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.interop import tensorstore_spec
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.stores.local import LocalStore
from tests import samples
from tests.interop.test_tensorstore import open_spec

pytest.importorskip("tensorstore")

# ---- converted files -------------------------------------------------------------------------------------------------

PIPELINES: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "shuffled": {"compression": "gzip", "shuffle": True},
    "summed": {"compression": "gzip", "fletcher32": True},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an HDF5 file with large datasets under several filters."""
    nwbfile = samples.rich_nwbfile()
    numbers = (np.arange(1_200_000) % 1999).astype("i2").reshape(-1, 4)
    for name, pipeline in PIPELINES.items():
        data = H5DataIO(numbers, chunks=(10_000, 4), **pipeline)
        nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="V", rate=1.0))
    return samples.write_hdf5(tmp_path_factory.mktemp("recorded") / "a.nwb", nwbfile)


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def arrays_of(path: Path) -> dict[str, LazyArray]:
    """Return all arrays of a file but the cached specifications."""
    keys, cache = LocalStore(str(path)), ChunkCache()
    nodes = parse(keys).hierarchy.walk()
    arrays = {place: LazyArray(keys, place, node, cache) for place, node in nodes if isinstance(node, Dataset)}
    return {place: data for place, data in arrays.items() if not place.startswith("specifications/")}


def opened_by_tensorstore(arrays: dict[str, LazyArray]) -> tuple[set[str], dict[str, str]]:
    """Return which arrays TensorStore opens, with equal values, and why there is no spec for the others."""
    opened, refused = set(), {}
    for place, data in arrays.items():
        for field in data.dtype.names or (None,):
            try:
                spec = tensorstore_spec(data, field)
            except UsageError as error:
                refused[place] = error.problem
                break
            values = np.asarray(data[()]) if field is None else np.asarray(data[field])
            np.testing.assert_array_equal(open_spec(spec).read().result(), values, err_msg=place)
        else:
            opened.add(place)
    return opened, refused


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["keep", "blosc", "zstd", "zlib", "none"])
def test_converted_files_open_or_are_refused(recorded, tmp_path, name, zarr_format):
    path = tmp_path / "a.nwb.zarr"
    convert(recorded, path, codec=name, zarr_format=zarr_format)
    arrays = arrays_of(path)
    opened, refused = opened_by_tensorstore(arrays)
    large = {series: f"acquisition/{series}/data" for series in PIPELINES}
    assert set(large.values()) <= arrays.keys()
    assert len(opened) > 20
    closed = {place: why for place, why in refused.items() if not arrays[place].dtype.hasobject}
    expected = set()
    if name == "keep":  # a chunk of HDF5 is not decoded, and format 3 has another frame for what is deflated
        expected = {large[series] for series in ("gzip", "shuffled", "summed") if (series, zarr_format) != ("gzip", 2)}
    assert closed.keys() == expected
    assert all("does not have the codec" in why for why in closed.values())


# ---- zlib, which format 3 has as gzip --------------------------------------------------------------------------------

ZLIB = [({"id": "zlib"}, 1), ({"id": "zlib", "level": 4}, 4), ({"id": "zlib", "level": -1}, 6)]


@pytest.mark.parametrize(("asked", "level"), ZLIB)
def test_new_arrays_of_format_3_are_deflated_in_the_frame_that_others_read(tmp_path, asked, level):
    values = np.arange(500) % 7
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=3) as io:
        data = ZarrDataIO(values, chunks=(100,), compressor=asked)
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", data)}))
    document = json.loads((tmp_path / "a.zarr/a/zarr.json").read_text())
    assert document["codecs"][-1] == codec("gzip", level=level)
    (data,) = arrays_of(tmp_path / "a.zarr").values()
    np.testing.assert_array_equal(data[()], values)
    np.testing.assert_array_equal(open_spec(tensorstore_spec(data)).read().result(), values)


def test_stored_chunks_keep_the_frame_that_they_have(tmp_path):
    values = np.arange(500) % 7
    with ZarrIO(tmp_path / "2.zarr", "w") as io:
        data = ZarrDataIO(values, chunks=(100,), compressor={"id": "zlib", "level": 4})
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", data)}))
    convert(tmp_path / "2.zarr", tmp_path / "3.zarr", zarr_format=3)
    document = json.loads((tmp_path / "3.zarr/a/zarr.json").read_text())
    assert document["codecs"][-1] == codec("numcodecs.zlib", level=4)
    assert (tmp_path / "3.zarr/a/c/0").read_bytes() == (tmp_path / "2.zarr/a/0").read_bytes()
    (data,) = arrays_of(tmp_path / "3.zarr").values()
    np.testing.assert_array_equal(data[()], values)
