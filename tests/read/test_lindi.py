"""Files of references that LINDI makes of NWB files: read, exported and converted like the HDF5 file itself.

``lindi.tar.xz`` has an HDF5 file and what LINDI 0.4.6 made of it.
"""

import json
import math
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.testing import TestCase
from pynwb import NWBHDF5IO
from pynwb.ecephys import ElectricalSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, convert
from hdmf_zarr_backend.errors import ChunkError, MetadataError, ReadOnlyStoreError
from hdmf_zarr_backend.options import ReadOptions

LARGE = np.arange(4000, dtype="i2").reshape(1000, 4)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rich HDF5 file, with a large recording in chunks and numbers that JSON does not have."""
    folder = tmp_path_factory.mktemp("lindi")
    with tarfile.open(Path(__file__).with_name("lindi.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder / "a.nwb"


def with_url(source: Path, target: Path, url: str) -> Path:
    target.write_text(source.with_name("a.lindi.json").read_text().replace('"u1": "URL"', f'"u1": "{url}"'))
    return target


@pytest.fixture(scope="module")
def written(source: Path) -> Path:
    return with_url(source, source.with_name("b.lindi.json"), str(source))


def assert_equal(found: Any, source: Path) -> None:
    with NWBHDF5IO(source, "r") as expected, found as io:
        TestCase().assertContainerEqual(io.read(), expected.read(), ignore_hdmf_attrs=True)


def test_the_containers_are_those_of_the_hdf5_file_with_references_links_and_rows(source, written):
    assert_equal(NWBZarrIO(written, "r"), source)
    with NWBZarrIO(written, "r") as io:
        nwbfile = io.read()
        large = nwbfile.acquisition["large"]
        assert math.isnan(large.resolution)
        assert large.offset == math.inf
        np.testing.assert_array_equal(large.data[:], LARGE)
        assert nwbfile.acquisition["sharing"].timestamps is not None
        assert isinstance(nwbfile.acquisition["raw"], ElectricalSeries)
        shank = nwbfile.electrode_groups["shank0"]
        assert shank.device is nwbfile.devices["probe"]
        assert nwbfile.electrodes["group"][0] is shank
        (row,) = nwbfile.trials["timeseries"][0]
        assert row.timeseries is nwbfile.acquisition["trace"]
        timeseries = nwbfile.trials["timeseries"].target
        assert timeseries.data[0][2] is timeseries.data[:][0][2]
        assert io.read_builder()["acquisition"]["sharing"].links["timestamps"].builder.name == "timestamps"


def test_export_and_conversion(source, written, tmp_path, zarr_format):
    with NWBZarrIO(written, "r") as lindi, NWBZarrIO(tmp_path / "b.zarr", "w", zarr_format=zarr_format) as io:
        io.export(lindi, write_args={"link_data": False})
    convert(written, tmp_path / "c.zarr", zarr_format=zarr_format)
    convert(written, tmp_path / "b.nwb")
    for cls, name in ((NWBZarrIO, "b.zarr"), (NWBZarrIO, "c.zarr"), (NWBHDF5IO, "b.nwb")):
        assert_equal(cls(tmp_path / name, "r"), source)


def test_over_http_with_one_request(source, web):
    (web.folder / "a.nwb").write_bytes(source.read_bytes())
    with_url(source, web.folder / "a.lindi.json", f"{web.url}/a.nwb")
    web.requests = 0
    with NWBZarrIO(f"{web.url}/a.lindi.json", "r") as io:
        nwbfile = io.read()
        assert web.requests == 1
        np.testing.assert_array_equal(nwbfile.acquisition["large"].data[250:350], LARGE[250:350])
        assert web.requests <= 3


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
    """The file of these tests is what lindi makes, and a new one is read."""
    real = tmp_path / "real.lindi.json"
    lindi.run(_REAL, source, real)
    document, expected = (json.loads(path.read_text()) for path in (real, written))
    assert document["refs"] == json.loads(json.dumps(expected["refs"]).replace("{{u1}}", str(source)))
    assert_equal(NWBZarrIO(real, "r", read_options=ReadOptions(external_links="follow")), source)


@pytest.fixture
def external(source: Path, tmp_path: Path) -> Path:
    """A file whose recording LINDI only names, as it does where there are too many chunks."""
    path, data = with_url(source, tmp_path / "e.lindi.json", "https://example.org/a.nwb"), "acquisition/large/data"
    document = json.loads(path.read_text())
    references = {key: value for key, value in document["refs"].items() if not re.match(rf"{data}/\d", key)}
    link = {"link_type": "hdf5_dataset", "url": "https://example.org/a.nwb", "name": data}
    references[f"{data}/.zattrs"]["_EXTERNAL_ARRAY_LINK"] = link
    path.write_text(json.dumps({**document, "refs": references}))
    return path


def check_error(caught: Any, path: Path) -> None:
    error = caught.value
    assert "'acquisition/large/data'" in str(error)
    assert "https://example.org/a.nwb" in str(error)
    assert "zarrio convert https://example.org/a.nwb x.nwb.zarr.json --to virtual" in error.remedy
    assert error.store == str(path)


def test_values_that_are_only_named_are_never_fill_values_nor_in_a_copy(external, tmp_path):
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


def test_the_file_is_read_only_in_any_store(written):
    for mode in ("r+", "a", "w"):
        with pytest.raises(ReadOnlyStoreError):
            ZarrIO(written, mode)
    # where its keys were copied to a store that could be changed: in our words they would be another file
    references = json.loads(written.read_text())["refs"]
    held = {key: json.dumps(value).encode() for key, value in references.items() if isinstance(value, dict)}
    for mode in ("r+", "a"):
        with pytest.raises(ReadOnlyStoreError, match="LINDI"):
            ZarrIO(held, mode)


def test_damage_is_told_that_of_references_when_they_are_read(written, tmp_path):
    document = json.loads(written.read_text())
    document["refs"]["intervals/trials/timeseries/.zattrs"]["_COMPOUND_DTYPE"] = 5
    (tmp_path / "d.json").write_text(json.dumps(document))
    with pytest.raises(MetadataError, match="names and types") as caught:
        ZarrIO(tmp_path / "d.json", "r")
    assert (caught.value.store, caught.value.path) == (str(tmp_path / "d.json"), "/intervals/trials/timeseries")
    document = json.loads(written.read_text())
    document["refs"]["general/extracellular_ephys/electrodes/group/0"] = "nothing"
    (tmp_path / "d.json").write_text(json.dumps(document))
    with ZarrIO(tmp_path / "d.json", "r") as io:
        group = io.read_builder()["general"]["extracellular_ephys"]["electrodes"]["group"]
        with pytest.raises(ChunkError):
            group.data[:]
