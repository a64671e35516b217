"""Conversions of HDF5 files differ in nothing from them; what one could lose is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.hdf5 import HDF5IO
from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.comparison import Difference, compare, open_content
from hdmf_zarr_backend.conversion.convert import convert as convert_file
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.content import DatasetContent, NodeContent
from hdmf_zarr_backend.model.elements import Element, Reference
from tests.compare import planted
from tests.compare.planted_zarr import changed, edit


def write_hdf5(path: Path) -> Path:
    """One of everything that HDF5IO reads and that HDF5 can say more about than Zarr."""
    with h5py.File(path, "w") as file:
        file.attrs["namespace"] = "core"
        file.attrs["object_id"] = "root-id"
        group = file.create_group("group")
        group.attrs["count"] = np.uint8(5)
        group.attrs["rates"] = np.array([1.0, np.nan, 3.0], dtype="<f4")
        group.attrs["big"] = np.array([1, 2], dtype="<u8")
        group.attrs["matrix"] = np.arange(4.0).reshape(2, 2)
        group.attrs["flag"] = np.True_
        group.attrs.create("labels", ["a", "ß"], dtype=h5py.string_dtype("utf-8"))
        numbers = file.create_dataset(
            "numbers",
            (60, 4),
            "<i4",
            chunks=(30, 2),
            maxshape=(None, 4),
            compression="gzip",
            shuffle=True,
            fillvalue=-1,
        )
        numbers[...] = np.arange(240).reshape(60, 4)
        numbers.attrs["unit"] = "V"
        file.create_dataset("lzf", data=np.arange(5), chunks=(2,), compression="lzf", fletcher32=True)
        file["plain"] = np.array([0.0, -0.0, np.nan, np.inf])
        file["big_endian"] = np.array([1, 2], ">i2")
        file["half"] = np.array([1.5], "<f2")
        file["flags"] = np.array([True, False])
        file["scalar"] = np.float64(2.5)
        file["no_rows"] = np.zeros((0, 3))
        file.create_dataset("text", data=["one", "två", ""], dtype=h5py.string_dtype("utf-8"), maxshape=(None,))
        file.create_dataset("ascii", data=["one", "two"], dtype=h5py.string_dtype("ascii"))
        file.create_dataset("word", data="ä", dtype=h5py.string_dtype("utf-8"))
        file.create_dataset("fixed", data=np.array([b"abc", b"de"], dtype="S5"))
        file.create_dataset("colour", data=[1, 2], dtype=h5py.enum_dtype({"red": 1, "blue": 2}, basetype="i1"))
        file["rows"] = np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])
        file["link"] = h5py.SoftLink("/plain")
        file["refs"] = np.array([file["plain"].ref, file["group"].ref], dtype=h5py.ref_dtype)
        table = np.dtype([("start", "<i4"), ("target", h5py.ref_dtype), ("note", h5py.string_dtype())])
        made = file.create_dataset("table", (2,), table, chunks=(1,), maxshape=(None,))
        made[...] = np.array([(1, file["plain"].ref, "x"), (2, file["numbers"].ref, "y")], table)
        group.attrs["target"] = file["plain"].ref
        file["specifications/core/2.0/namespace"] = json.dumps({"namespaces": []})
        file.attrs[".specloc"] = file["specifications"].ref
    return path


def convert(source: Path, target: Path) -> Path:
    """Convert without any schema: builders from HDF5 are written as they are."""
    manager = BuildManager(TypeMap(NamespaceCatalog()))
    with HDF5IO(source, manager=manager, mode="r") as a, ZarrIO(target, "w") as b:
        b.export(src_io=a, cache_spec=False)
    return target


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hdf5(tmp_path_factory.mktemp("hdf5") / "a.h5")


@pytest.fixture(scope="module")
def converted(hdf5: Path) -> Path:
    return convert(hdf5, hdf5.with_suffix(".zarr"))


def note(path: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda documents: documents[f"{path}/.zattrs"]["_hdmf"].__setitem__(name, value)


def hdf5_note(path: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda documents: documents[f"{path}/.zattrs"]["_hdmf"]["hdf5"].__setitem__(name, value)


# a change of what was converted -> the one difference from the HDF5 file
LOSSES: dict[str, tuple[str, str, str | None, Callable[[dict[str, Any]], object]]] = {
    "chunks": ("chunks", "/numbers", None, hdf5_note("numbers", "chunks", [60, 4])),
    "no chunks": ("chunks", "/numbers", None, lambda d: d["numbers/.zattrs"]["_hdmf"]["hdf5"].pop("chunks")),
    "level": ("filters", "/numbers", None, hdf5_note("numbers", "filters", [[2, 1, [4]], [1, 1, [9]]])),
    "no filters": ("filters", "/lzf", None, lambda d: d["lzf/.zattrs"]["_hdmf"]["hdf5"].pop("filters")),
    "maxshape": ("maxshape", "/numbers", None, note("numbers", "maxshape", [60, 4])),
    "maxshape of rows": ("maxshape", "/table", None, note("table", "maxshape", [2])),
    "fill": ("fill", "/numbers", None, edit("numbers/.zarray", "fill_value", None)),
    "enumeration": ("dtype", "/colour", None, lambda d: d["colour/.zattrs"]["_hdmf"]["hdf5"].pop("enum")),
    "ascii": ("text-encoding", "/ascii", None, lambda d: d["ascii/.zattrs"]["_hdmf"].pop("text")),
    "attribute type": (
        "attribute-dtype",
        "/group",
        "count",
        lambda d: d["group/.zattrs"]["_nczarr_attr"]["types"].pop("count"),
    ),
    "attribute": ("attribute", "/group", "count", edit("group/.zattrs", "count", 6)),
    "reference": (
        "reference",
        "/group",
        "target",
        lambda d: d["group/.zattrs"]["target"]["value"].__setitem__("path", "/numbers"),
    ),
    "place of the specifications": (
        "reference",
        "/",
        ".specloc",
        lambda d: d[".zattrs"].__setitem__(".specloc", "group"),
    ),
    "link": ("link", "/link", None, lambda d: d[".zattrs"]["zarr_link"][0].__setitem__("path", "/text")),
}


def besides_specifications(found: list[Difference]) -> list[Difference]:
    """Leave out the cached specifications, which are not builders and come from a catalogue, here from none."""
    return [
        d
        for d in found
        if not d.path.startswith("/specifications") and not (d.attribute == ".specloc" and None in (d.a, d.b))
    ]


def test_a_conversion_differs_in_nothing(hdf5: Path, converted: Path) -> None:
    assert list(map(str, besides_specifications(compare(hdf5, converted)))) == []
    assert besides_specifications(compare(converted, hdf5)) == []


@pytest.mark.parametrize(("kind", "path", "attribute", "plant"), LOSSES.values(), ids=LOSSES.keys())
def test_what_a_conversion_could_lose_is_found(
    hdf5: Path,
    converted: Path,
    tmp_path: Path,
    kind: str,
    path: str,
    attribute: str | None,
    plant: Callable[[dict[str, Any]], object],
) -> None:
    other = changed(converted, tmp_path, plant)
    found = besides_specifications(compare(hdf5, other))
    assert [(d.kind, d.path, d.attribute) for d in found] == [(kind, path, attribute)], list(map(str, found))


def test_a_chunk_that_is_gone_is_a_difference_in_values(hdf5: Path, converted: Path, tmp_path: Path) -> None:
    other = changed(converted, tmp_path, lambda _: None)
    (other / "numbers/0.0").unlink()
    (found,) = besides_specifications(compare(hdf5, other))
    assert found == Difference("/numbers", "value", 0, -1, place="[0, 0]", count=240)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An HDF5 file with types and links that HDMF never writes, and the Zarr file that `convert` makes of it."""
    folder = tmp_path_factory.mktemp("everything")
    with h5py.File(folder / "other.h5", "w") as file:
        file["data"] = np.arange(3)
    with h5py.File(folder / "a.h5", "w") as file:
        planted.write_sample(file)
        del file["virtual"]  # becomes plain data, which is a difference
    convert_file(folder / "a.h5", folder / "a.zarr")
    return folder / "a.h5", folder / "a.zarr"


def test_everything_that_is_converted_differs_in_nothing(everything: tuple[Path, Path]) -> None:
    hdf5, zarr = everything
    assert list(map(str, compare(hdf5, zarr))) == []
    assert compare(zarr, zarr) == []


@pytest.mark.parametrize(
    ("kind", "path", "attribute", "plant"),
    [entry for name, entry in planted.PLANTED.items() if name != "virtual"],
    ids=[name for name in planted.PLANTED if name != "virtual"],
)
def test_what_is_planted_in_hdf5_is_found_from_zarr(
    everything: tuple[Path, Path],
    kind: str,
    path: str,
    attribute: str | None,
    plant: Callable[[h5py.File], object],
) -> None:
    hdf5, zarr = everything
    other = planted.changed(hdf5, hdf5.parent, plant)  # beside it: the external link is relative
    found = compare(zarr, other)
    assert [(d.kind, d.path, d.attribute) for d in found] == [(kind, path, attribute)], list(map(str, found))


def test_virtual_data_become_plain_data(tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((3,), "<f8")
    layout[...] = h5py.VirtualSource("elsewhere.h5", "/data", (3,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
    convert_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    (found,) = compare(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert str(found) == "/virtual layout: ('virtual', 'elsewhere.h5:/data') | ('contiguous',)"


@pytest.mark.parametrize("spoil", [{"fields": [["x", "<i4"]]}, "object", {"text": "ascii"}])
def test_a_noted_type_that_does_not_fit_any_more_says_nothing(
    everything: tuple[Path, Path], tmp_path: Path, spoil: Any
) -> None:
    other = changed(everything[1], tmp_path, hdf5_note("plain", "type", spoil))
    assert compare(everything[1], other) == []


@pytest.mark.parametrize("spoil", ["nonsense", {}, 7, {"text": "ascii", "size": 3}, {"array": "<i4"}, {"fields": 3}])
def test_a_noted_type_that_is_none_is_told(everything: tuple[Path, Path], tmp_path: Path, spoil: Any) -> None:
    other = changed(everything[1], tmp_path, hdf5_note("plain", "type", spoil))
    with pytest.raises(MetadataError, match="/plain"):
        compare(everything[1], other)


def test_a_noted_type_cannot_be_nested_without_end(everything: tuple[Path, Path], tmp_path: Path) -> None:
    endless: Any = "<i4"
    for _ in range(200):
        endless = {"sequence": endless}
    other = changed(everything[1], tmp_path, hdf5_note("plain", "type", endless))
    with pytest.raises(MetadataError, match="too deep"):
        compare(everything[1], other)


def dataset(node: NodeContent) -> DatasetContent:
    assert isinstance(node, DatasetContent)
    return node


def test_two_views_of_one_array(converted: Path) -> None:
    own, as_hdf5 = (dataset(open_content(converted, as_hdf5=flag)["/numbers"]) for flag in (False, True))
    assert [step.name for step in as_hdf5.filters] == ["shuffle", "deflate"]
    assert as_hdf5.chunks == (30, 2)
    assert [step.name for step in own.filters] == ["shuffle", "zlib"]
    assert own.chunks == own.grid == as_hdf5.grid == (60, 4)
    assert own.maxshape == as_hdf5.maxshape == (None, 4)


# ---- real files ----------------------------------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore:The link:hdmf.backends.warnings.BrokenLinkWarning")
def test_a_converted_real_file_differs_in_nothing(some_nwbfiles: list[Path], tmp_path: Path) -> None:
    unexpected = {}
    for path in some_nwbfiles:
        target = tmp_path / f"{path.name}.zarr"
        convert_file(path, target, check=False)
        if found := compare(path, target):
            unexpected[path.name] = list(map(str, found))
        shutil.rmtree(target)
    assert unexpected == {}


def is_documented(d: Difference) -> bool:
    """Tell whether HDF5IO -> builders -> Zarr makes this difference: HDF5IO reads no more than that (hdmf 6.2)."""
    if d.path.startswith("/specifications"):
        return True  # the export caches the namespaces that pynwb has loaded
    if d.attribute == ".specloc":
        return d.kind == "attribute" and d.a is None
    if d.kind in {"text-encoding", "attribute-text-encoding"}:
        # attributes and scalars become str, whatever text they were
        assert isinstance(d.a, Element)
        return d.a.encoding == "ascii"
    if d.kind == "dtype":
        return (str(d.a), str(d.b)) == ("region", "reference")
    if d.kind == "reference":
        assert isinstance(d.a, Reference)
        return d.a.region is not None and replace(d.a, region=None) == d.b
    return d.kind == "missing" and d.a == "link"  # broken links are dropped, with a warning


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore")  # pynwb and hdmf on old files
def test_an_exported_real_file_differs_as_documented(some_nwbfiles: list[Path], tmp_path: Path) -> None:
    pynwb = pytest.importorskip("pynwb")
    from hdmf_zarr_backend import NWBZarrIO

    unexpected = {}
    compared = 0
    for path in some_nwbfiles:
        if path.name == "nwbexplorer__nwb_test_file.nwb":
            continue  # NWB 1.x
        target = tmp_path / f"{path.name}.zarr"
        with pynwb.NWBHDF5IO(path, "r", load_namespaces=True) as source, NWBZarrIO(target, "w") as io:
            io.export(src_io=source)
        found = [difference for difference in compare(path, target) if not is_documented(difference)]
        if found:
            unexpected[path.name] = list(map(str, found))
        compared += 1
        shutil.rmtree(target)
    assert unexpected == {}
    assert compared > 0
