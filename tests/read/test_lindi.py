"""Files of references that LINDI makes of NWB files: read, exported and converted like the HDF5 file itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.testing import TestCase
from pynwb import NWBHDF5IO, NWBFile, TimeSeries
from pynwb.ecephys import ElectricalSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, convert
from hdmf_zarr_backend.errors import ChunkError, MetadataError, ReadOnlyStoreError
from hdmf_zarr_backend.options import ReadOptions
from tests import samples
from tests.lindifiles import write_lindi

LARGE = np.arange(4000, dtype="i2").reshape(1000, 4)


def nwbfile_of() -> NWBFile:
    """A rich file, with a large recording and numbers that JSON does not have."""
    nwbfile = samples.rich_nwbfile(positions=False)
    large = TimeSeries(name="large", data=LARGE, unit="V", rate=1.0, resolution=math.nan, offset=math.inf)
    nwbfile.add_acquisition(large)
    times = TimeSeries(name="shared", data=np.arange(3), unit="V", timestamps=[0.0, 0.5, 1.0])
    nwbfile.add_acquisition(times)
    nwbfile.add_acquisition(TimeSeries(name="sharing", data=np.arange(3), unit="V", timestamps=times))
    return nwbfile


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The HDF5 file, with chunks and filters for the large recording."""
    path = tmp_path_factory.mktemp("lindi") / "a.nwb"
    with NWBHDF5IO(path, "w") as io:
        io.write(nwbfile_of())
    with h5py.File(path, "r+") as file:
        attributes = dict(file["acquisition/large/data"].attrs)
        del file["acquisition/large/data"]
        data = file.create_dataset(
            "acquisition/large/data", data=LARGE, chunks=(300, 4), shuffle=True, compression="gzip", compression_opts=4
        )
        data.attrs.update(attributes)
    return path


@pytest.fixture(scope="module")
def written(source: Path) -> Path:
    """What LINDI makes of it."""
    return write_lindi(source, source.with_name("a.lindi.json"), url=str(source))


def test_the_containers_are_those_of_the_hdf5_file(source, written):
    with NWBHDF5IO(source, "r") as expected, NWBZarrIO(written, "r") as io:
        found = io.read()
        TestCase().assertContainerEqual(found, expected.read(), ignore_hdmf_attrs=True)
        large = found.acquisition["large"]
        assert math.isnan(large.resolution)
        assert large.offset == math.inf
        np.testing.assert_array_equal(large.data[:], LARGE)
        assert found.acquisition["sharing"].timestamps is not None
        assert isinstance(found.acquisition["raw"], ElectricalSeries)


def test_it_is_in_words_of_lindi(written):
    """So that the test does not pass with a file in our own words."""
    references = json.loads(written.read_text())["refs"]
    said = {key for value in references.values() if isinstance(value, dict) for key in value}
    assert {"_SCALAR", "_SOFT_LINK", "_COMPOUND_DTYPE"} <= said
    assert not {"zarr_dtype", "zarr_link"} & said
    assert references["acquisition/large/data/.zattrs"]["resolution"] == "NaN"
    assert "_REFERENCE" in references[".zattrs"][".specloc"]
    assert references["acquisition/large/data/0.0"][0] == "{{u1}}"


def test_references_links_and_rows(written):
    with NWBZarrIO(written, "r") as io:
        nwbfile = io.read()
        shank = nwbfile.electrode_groups["shank0"]
        assert shank.device is nwbfile.devices["probe"]
        assert nwbfile.electrodes["group"][0] is shank
        (row,) = nwbfile.trials["timeseries"][0]
        assert row.timeseries is nwbfile.acquisition["trace"]
        timeseries = nwbfile.trials["timeseries"].target
        assert timeseries.data[0][2] is timeseries.data[:][0][2]
        builder = io.read_builder()
        assert builder["acquisition"]["sharing"].links["timestamps"].builder.name == "timestamps"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_export(source, written, tmp_path, zarr_format):
    with NWBZarrIO(written, "r") as lindi, NWBZarrIO(tmp_path / "b.zarr", "w", zarr_format=zarr_format) as io:
        io.export(lindi, write_args={"link_data": False})
    with NWBHDF5IO(source, "r") as expected, NWBZarrIO(tmp_path / "b.zarr", "r") as io:
        TestCase().assertContainerEqual(io.read(), expected.read(), ignore_hdmf_attrs=True)


@pytest.mark.parametrize(("target", "zarr_format"), [("b.nwb", None), ("b.zarr", 3)])
def test_conversion(source, written, tmp_path, target, zarr_format):
    convert(written, tmp_path / target, zarr_format=zarr_format)
    with (
        NWBHDF5IO(source, "r") as expected,
        (NWBHDF5IO if target == "b.nwb" else NWBZarrIO)(tmp_path / target, "r") as io,
    ):
        TestCase().assertContainerEqual(io.read(), expected.read(), ignore_hdmf_attrs=True)


def test_over_http_with_one_request(source, web):
    (web.folder / "a.nwb").write_bytes(source.read_bytes())
    write_lindi(source, web.folder / "a.lindi.json", url=f"{web.url}/a.nwb")
    web.requests = 0
    with NWBZarrIO(f"{web.url}/a.lindi.json", "r") as io:
        nwbfile = io.read()
        assert web.requests == 1
        np.testing.assert_array_equal(nwbfile.acquisition["large"].data[250:350], LARGE[250:350])
        assert web.requests <= 3


def test_what_is_in_it_is_shown(written):
    with NWBZarrIO(written, "r") as io:
        shown = io._repr_html_()
    assert "_SOFT_LINK" not in shown
    assert "float64" in shown


_REAL = """
import json
import sys
import lindi
store = lindi.LindiH5ZarrStore.from_file(sys.argv[1], url=sys.argv[1])
store.write_reference_file_system(sys.argv[2])
print(json.dumps(None))
"""


@pytest.mark.peer
def test_lindi_itself(lindi, source, written, tmp_path):
    """The file made by hand is what lindi makes, and its own is read."""
    real = tmp_path / "real.lindi.json"
    lindi.run(_REAL, source, real)
    found, expected = (json.loads(path.read_text()) for path in (real, written))
    assert found["refs"] == json.loads(json.dumps(expected["refs"]).replace("{{u1}}", str(source)))
    with NWBHDF5IO(source, "r") as hdf5, NWBZarrIO(real, "r", read_options=ReadOptions(external_links="follow")) as io:
        TestCase().assertContainerEqual(io.read(), hdf5.read(), ignore_hdmf_attrs=True)


# ---- what is not there ----------------------------------------------------------------------------------------------


@pytest.fixture
def external(source: Path, tmp_path: Path) -> Path:
    """A file whose recording LINDI only names."""
    return write_lindi(
        source, tmp_path / "e.lindi.json", url="https://example.org/a.nwb", external=("acquisition/large/data",)
    )


def check_error(caught: Any, path: Path) -> None:
    error = caught.value
    assert "'acquisition/large/data'" in str(error)
    assert "https://example.org/a.nwb" in str(error)
    assert "zarrio convert https://example.org/a.nwb x.nwb.zarr.json --to virtual" in error.remedy
    assert error.store == str(path)


def test_values_that_are_only_named_are_never_fill_values(external):
    with NWBZarrIO(external, "r") as io:
        nwbfile = io.read()
        assert nwbfile.acquisition["trace"].data[0].tolist() == [0, 1, 2]
        data = nwbfile.acquisition["large"].data
        assert data.shape == LARGE.shape
        for key in (0, slice(None), (slice(5, 700), 1), ()):
            with pytest.raises(ChunkError) as caught:
                data[key]
            check_error(caught, external)
            assert caught.value.path == "/acquisition/large/data"


def test_nor_in_a_copy(external, tmp_path):
    with (
        NWBZarrIO(external, "r") as lindi,
        NWBZarrIO(tmp_path / "b.zarr", "w") as io,
        pytest.raises(ChunkError) as caught,
    ):
        io.export(lindi, write_args={"link_data": False})
    check_error(caught, external)
    for target, zarr_format in (("b.nwb", None), ("c.zarr", 3)):
        with pytest.raises(ChunkError) as caught:
            convert(external, tmp_path / target, zarr_format=zarr_format)
        check_error(caught, external)
        assert not (tmp_path / target).exists()


def test_the_file_is_read_only(written):
    for mode in ("r+", "a", "w"):
        with pytest.raises(ReadOnlyStoreError):
            ZarrIO(written, mode)


def test_nor_is_it_changed_in_another_store(written):
    """Where its keys were copied to a store that could be changed: in our words they would be another file."""
    references = json.loads(written.read_text())["refs"]
    held = {key: json.dumps(value).encode() for key, value in references.items() if isinstance(value, dict)}
    for mode in ("r+", "a"):
        with pytest.raises(ReadOnlyStoreError, match="LINDI"):
            ZarrIO(held, mode)


def test_damage_is_told(written, tmp_path):
    document = json.loads(written.read_text())
    document["refs"]["intervals/trials/timeseries/.zattrs"]["_COMPOUND_DTYPE"] = 5
    (tmp_path / "d.json").write_text(json.dumps(document))
    with pytest.raises(MetadataError, match="names and types") as caught:
        ZarrIO(tmp_path / "d.json", "r")
    assert (caught.value.store, caught.value.path) == (str(tmp_path / "d.json"), "/intervals/trials/timeseries")


def test_a_chunk_of_references_that_is_damaged_is_told_when_it_is_read(written, tmp_path):
    document = json.loads(written.read_text())
    document["refs"]["general/extracellular_ephys/electrodes/group/0"] = "nothing"
    (tmp_path / "d.json").write_text(json.dumps(document))
    with ZarrIO(tmp_path / "d.json", "r") as io:
        group = io.read_builder()["general"]["extracellular_ephys"]["electrodes"]["group"]
        with pytest.raises(ChunkError):
            group.data[:]
