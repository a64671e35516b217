"""Variables of netCDF files as the data of HDMF containers, tables above all, copied and linked."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hdmf.common import DynamicTable, VectorData
from pynwb import NWBHDF5IO, NWBFile, TimeSeries, validate

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.interop.netcdf import NetcdfVariable, open_netcdf
from tests import samples
from tests.interop.exchange import ask

WRITE = """
import sys
import netCDF4
import numpy as np

with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=nczarr,file", "w") as d:
    d.createDimension("row", 5)
    for code in sys.argv[2:]:
        d.createVariable(code, code, ("row",), zlib=True, shuffle=True)[:] = np.arange(5).astype(code)
    words = np.array(["a\\u00e4", "b", "", "dd", "e" * 20], object)
    d.createVariable("words", str, ("row",))[:] = words
"""
NUMBERS = ("i1", "u1", "i4", "u8", "f4", "f8")
WORDS = ["a\u00e4", "b", "", "dd", "e" * 20]


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NetcdfVariable]:
    pytest.importorskip("netCDF4")
    path = tmp_path_factory.mktemp("sources") / "model.zarr"
    answer = subprocess.run(
        [sys.executable, "-c", WRITE, str(path), *NUMBERS], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return open_netcdf(path).variables


def with_table(variables: dict[str, NetcdfVariable]) -> NWBFile:
    columns = [VectorData(name=name, description="a column", data=found.data) for name, found in variables.items()]
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_analysis(DynamicTable(name="table", description="of a model", columns=columns))
    return nwbfile


def assert_table(table: Any) -> None:
    assert set(table.colnames) == {*NUMBERS, "words"}
    for code in NUMBERS:
        found = table[code].data[:]
        assert np.asarray(found).dtype.str[1:] == code
        assert list(found) == list(range(5))
    assert list(table["words"].data[:]) == WORDS
    assert {type(word) for word in table["words"].data[:]} == {str}
    assert table["words"][4] == WORDS[4]
    assert table["words"].description == "a column"
    assert list(table.to_dataframe()["words"]) == WORDS


@pytest.mark.parametrize("link_data", [False, True])
def test_a_table(variables, tmp_path, link_data):
    with NWBZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write(with_table(variables), link_data=link_data)
    with NWBZarrIO(tmp_path / "a.zarr", "r") as io:
        assert_table(io.read().analysis["table"])
        assert validate(io=io) == []
    document = json.loads((tmp_path / "a.zarr/analysis/table/words/.zattrs").read_text())
    assert document["zarr_dtype"] == "str"


def test_a_table_in_hdf5(variables, tmp_path):
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(with_table(variables))
    with NWBHDF5IO(tmp_path / "a.nwb", "r") as io:
        assert_table(io.read().analysis["table"])


def test_numbers_of_series_are_linked(variables, tmp_path):
    nwbfile = samples.plain_nwbfile()
    for code in NUMBERS:
        nwbfile.add_acquisition(TimeSeries(name=code, data=variables[code].data, unit="m", rate=1.0))
    with NWBZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write(nwbfile)
    with NWBZarrIO(tmp_path / "a.zarr", "r") as io:
        nwbfile = io.read()
        for code in NUMBERS:
            assert not (tmp_path / "a.zarr/acquisition" / code / "data").exists()
            found = nwbfile.acquisition[code].data
            assert found.dtype.str[1:] == code
            assert found[:].tolist() == list(range(5))


def test_text_is_text_wherever_it_is_read(variables):
    words = variables["words"].data
    assert words.dtype == object
    assert (words[0], words[1:3].tolist(), list(words)) == (WORDS[0], WORDS[1:3], WORDS)
    assert np.asarray(words).tolist() == words.tolist() == WORDS
    assert words.to_dask().compute().tolist() == WORDS
    assert words.to_xarray().values.tolist() == WORDS


_PEER = """
import json, sys
from hdmf_zarr import NWBZarrIO
with NWBZarrIO(json.load(open(sys.argv[1]))[0], "r") as io:
    table = io.read().analysis["table"]
    print(json.dumps([list(table["words"].data[:]), table["u1"].data[:].tolist()]))
"""


@pytest.mark.peer
def test_hdmf_zarr_013_reads_the_table(variables, peer013, tmp_path):
    with NWBZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write(with_table(variables), link_data=False)
    assert ask(peer013, _PEER, [tmp_path / "a.zarr"], tmp_path) == [WORDS, list(range(5))]
