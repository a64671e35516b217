"""Who reads how many arrays of one rich file, in each format; every gap has its reason here.

A file of both formats is read in each of them. ``pytest -s`` prints the table. The file has every type of HDMF,
tables, ragged columns, references, compounds, images, two extensions, and an attribute that is NaN.
"""

import json
import math
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import get_type_map

from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.interop import tensorstore_spec
from tests import samples
from tests.extensions import extension, type_name
from tests.interop.exchange import arrays_in, ask
from tests.interop.test_nczarr import netcdf
from tests.javascript import READ_WITH_ZARRITA, run_node, zarrita_folder
from tests.options import arguments
from tests.zarrs import IS_ZARR_2

Arrays = dict[str, LazyArray]
Found = dict[str, Any]


def write_matrix_file(path: Path, **options: Any) -> Path:
    """Write the rich file with containers of two extensions that are made up."""
    type_map, nwbfile = get_type_map(), samples.rich_nwbfile()
    for name in ("ndx-probe", "ndx-arena"):
        type_map.load_namespaces(extension(path.parent, name, dtype="int32"))
        result = type_map.get_dt_container_cls(type_name(name), name)
        series = {"data": [1.0, 2.0], "unit": "m", "rate": 1.0, "knob": 1}
        # the resolution is unknown, and an attribute of the data
        nwbfile.add_acquisition(result(name=name, resolution=math.nan, **series))
    return samples.write_zarr(path, nwbfile, extensions=type_map, **arguments(**options))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int | str], Path]:
    """Writes the file of the matrix, once in each format, and in both."""

    @cache
    def write(zarr_format: int | str) -> Path:
        path = tmp_path_factory.mktemp("matrix") / "rich.nwb.zarr"
        return write_matrix_file(path, zarr_format=zarr_format, nczarr=zarr_format != 3)

    return write


KINDS = {"format2": (2, 2), "format3": (3, 3), "both-as-2": ("both", 2), "both-as-3": ("both", 3)}
"""The format of a file, and that in which it is read."""


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def file(request: pytest.FixtureRequest, written: Callable[[int | str], Path]) -> tuple[int, Path, Arrays]:
    stored, zarr_format = request.param
    path = written(stored)
    arrays = arrays_in(path, zarr_format)
    assert len(arrays) > 100
    return zarr_format, path, arrays


def format_of(arrays: Arrays) -> int:
    return next(iter(arrays.values())).node.stored.zarr_format


def open_by_zarr(path: Path, place: str, zarr_format: int) -> Any:
    import zarr

    named: Any = {} if IS_ZARR_2 else {"zarr_format": zarr_format}
    return zarr.open_array(path, path=place, mode="r", **named)


def read_by_zarr(path: Path, arrays: Arrays) -> Found:
    if IS_ZARR_2 and format_of(arrays) == 3:
        pytest.skip("zarr 2 does not know format 3")
    result: Found = {}
    for location in arrays:
        try:
            result[location] = open_by_zarr(path, location, format_of(arrays))[...]
        except (ValueError, TypeError, KeyError):
            continue
    return result


def read_by_xarray(path: Path, arrays: Arrays) -> Found:
    xarray = pytest.importorskip("xarray")
    result: Found = {}
    for group in {location.rpartition("/")[0] for location in arrays}:
        try:
            options = {"consolidated": False, "zarr_format": format_of(arrays)}
            with xarray.open_zarr(path, group=group or None, chunks=None, **options) as data:
                for name, values in data.variables.items():
                    result[f"{group}/{name}".strip("/")] = values.values
        except (ValueError, TypeError, KeyError):
            continue
    return result


def read_by_pydantic_zarr(path: Path, arrays: Arrays) -> Found:
    pytest.importorskip("pydantic_zarr")
    from pydantic_zarr.v2 import ArraySpec as ArraySpec2
    from pydantic_zarr.v3 import ArraySpec as ArraySpec3

    created = ArraySpec2 if format_of(arrays) == 2 else ArraySpec3
    keys = {(data.node.stored.zarr_format, data.node.stored.chunk_keys.encoding) for data in arrays.values()}
    if (3, "v2") in keys and version("pydantic-zarr").startswith("0.9."):
        pytest.skip("pydantic-zarr 0.9 has no key encoding but the default one in format 3")
    result: Found = {}
    for location in arrays:
        try:
            created.from_zarr(open_by_zarr(path, location, format_of(arrays)))
        except (ValueError, TypeError, KeyError):
            continue
        result[location] = None
    return result


def read_by_tensorstore(path: Path, arrays: Arrays) -> Found:
    ts = pytest.importorskip("tensorstore")
    result: Found = {}
    for location, data in arrays.items():
        try:
            specs = {name: tensorstore_spec(data, name) for name in data.dtype.names or (None,)}
            read = {name: ts.open(spec, open=True).result().read().result() for name, spec in specs.items()}
        except (UsageError, ValueError):
            continue
        if data.dtype.names is None:
            result[location] = read[None]
        else:
            for name, values in read.items():
                np.testing.assert_array_equal(values.reshape(data.shape), data[name])
            result[location] = None
    return result


def read_by_netcdf(path: Path, arrays: Arrays) -> Found:
    pytest.importorskip("netCDF4")
    reported = netcdf(path)["arrays"]
    return {location.strip("/"): np.array(array["values"], array["dtype"]) for location, array in reported.items()}


def ask_zarrita(path: Path, arrays: Arrays, *, consolidated: bool = False) -> Any:
    told = [["file", format_of(arrays), str(path), list(arrays), consolidated]]
    return run_node(READ_WITH_ZARRITA, path.parent / "zarrita", told=told, modules=zarrita_folder())["file"]


def read_by_zarrita(path: Path, arrays: Arrays) -> Found:
    reported = ask_zarrita(path, arrays)["arrays"]
    numbers = {location for location in reported if arrays[location].dtype.kind in "iuf"}
    # numbers are compared; of text and objects JavaScript has other types
    return {
        location: np.array(found["values"], float) if location in numbers else None
        for location, found in reported.items()
    }


_PEER = """
import json, sys, warnings
warnings.simplefilter("ignore")
import zarr
from hdmf_zarr import NWBZarrIO
(path, places), = json.load(open(sys.argv[1]))
with NWBZarrIO(path, "r") as io:
    io.read()
root = zarr.open_group(path, mode="r")
reported = []
for place in places:
    try:
        root[place][...]
    except (ValueError, TypeError, KeyError) as error:
        print(place, type(error).__name__, error, file=sys.stderr)
    else:
        reported.append(place)
print(json.dumps(reported))
"""


def is_object(data: LazyArray) -> bool:
    """Text, bytes, references, and rows that hold those."""
    return bool(data.dtype == object)


def is_rows(data: LazyArray) -> bool:
    return data.dtype.names is not None or data.node.attributes.get("_hdmf", {}).get("rows") is True


def is_no_number(data: LazyArray) -> bool:
    """All that netCDF has no type for."""
    return data.dtype.kind not in "iuf" or data.dtype.itemsize not in (1, 2, 4, 8) or data.dtype.str[1:] == "f2"


def is_odd_for_zarrita(data: LazyArray) -> bool:
    """Rows, arrays without elements, and names that mean something in a URL."""
    is_structured = data.dtype.names is not None or (data.node.stored.zarr_format == 3 and is_rows(data))
    return is_structured or not data.size or "?" in data.path


def is_not_strict(data: LazyArray) -> bool:
    try:
        json.dumps(data.node.attributes, allow_nan=False)
    except ValueError:
        return True
    return False


ZARRITA = "zarrita has no structured types, no arrays without elements, and takes names for URLs"
NO_JSON = "NaN is not JSON, and all that hdmf-zarr reads (there is strict_json=True)"
GAPS: dict[tuple[str, int], tuple[tuple[Callable[[LazyArray], bool], ...], str]] = {
    ("pydantic-zarr", 3): ((is_rows,), "pydantic-zarr takes no data type that is an object, as `struct` is"),
    ("tensorstore", 2): ((is_object,), "TensorStore has no text and no references"),
    ("tensorstore", 3): ((is_object, is_not_strict), f"TensorStore has no text and no references; {NO_JSON}"),
    ("netcdf", 2): ((is_no_number,), "netCDF has types for numbers, not for bool, rows, text and references"),
    ("zarrita", 2): ((is_odd_for_zarrita, is_not_strict), f"{ZARRITA}; {NO_JSON}"),
    ("zarrita", 3): ((is_odd_for_zarrita, is_not_strict), f"{ZARRITA}; {NO_JSON}"),
}
READERS: dict[str, Callable[[Path, Arrays], Found]] = {
    "zarr": read_by_zarr, "xarray": read_by_xarray, "pydantic-zarr": read_by_pydantic_zarr,
    "tensorstore": read_by_tensorstore, "netcdf": read_by_netcdf, "zarrita": read_by_zarrita,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Object at .* is not recognized")  # zarr, of the documents of the other format
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_reads_all_that_it_has_types_for(file, reader):
    zarr_format, path, arrays = file
    if (reader, zarr_format) == ("netcdf", 3):
        pytest.skip("netcdf-c does not read format 3 through NCZarr here")
    _judge(reader, zarr_format, READERS[reader](path, arrays), arrays)


@pytest.mark.peer
@pytest.mark.parametrize(("release", "known"), [("013", 2), ("014", 3)], ids=["0.13", "0.14"])
def test_hdmf_zarr_reads_all_of_it(file, release, known, request, tmp_path):
    zarr_format, path, arrays = file
    if zarr_format != known:
        pytest.skip(f"it knows format {known} only")
    result = ask(request.getfixturevalue(f"peer{release}"), _PEER, [[path, list(arrays)]], tmp_path)
    _judge(f"hdmf-zarr 0.{release[1:]}", known, dict.fromkeys(result), arrays)


def _judge(reader: str, zarr_format: int, found: Found, arrays: Arrays) -> None:
    gaps, reason = GAPS.get((reader, zarr_format), ((), ""))
    expected = {location for location, data in arrays.items() if not any(is_gap(data) for is_gap in gaps)}
    print(f"\nformat {zarr_format} {reader:>15}: {len(found):4} of {len(arrays)} arrays {reason}")  # noqa: T201 - the table
    assert expected - found.keys() == set(), "not read"
    compared = 0
    for location, values in found.items():
        data = arrays[location]
        if values is None or data.dtype.kind not in "biufc":
            continue
        np.testing.assert_array_equal(
            np.asarray(values).reshape(-1), np.asarray(data[()]).reshape(-1), err_msg=location
        )
        compared += 1
    assert compared > 60 or all(values is None for values in found.values())
