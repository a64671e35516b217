"""An export of containers is what the containers say, however they were changed; what is untouched is copied as it is.

Source: ``HDF5IO.export`` and hdmf-zarr 0.13, which build all containers anew with ``link_data=False``.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.build import ContainerConfigurationError
from numcodecs import GZip
from pynwb import NWBHDF5IO, H5DataIO, NWBFile, TimeSeries
from pynwb.ecephys import LFP
from pynwb.file import Subject
from pynwb.testing.mock.ecephys import mock_ElectricalSeries
from pynwb.testing.mock.file import mock_NWBFile

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, compare, convert
from hdmf_zarr_backend.errors import ConflictError, DroppedChangesWarning, UsageError, ValueRefusedError
from tests import samples
from tests.contract import production
from tests.peers import Peer
from tests.samples import START, write_hdf5
from tests.trees import read_builder

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:hdmf", "ignore::UserWarning:pynwb")

GZIP = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
ZLIB = {"id": "zlib", "level": 9}
SHUFFLE = [{"id": "shuffle", "elementsize": 8}]


def session(wrap: Any = H5DataIO, **settings: Any) -> NWBFile:
    nwbfile = NWBFile(session_description="old", identifier="i", session_start_time=START, notes="old")
    nwbfile.subject = Subject(subject_id="m", age="P1D")
    nwbfile.keywords = ["old"]
    data = wrap(np.arange(1000.0), **settings)
    first = TimeSeries(name="first", data=data, unit="V", rate=1.0, description="old")
    nwbfile.add_acquisition(first)
    nwbfile.add_acquisition(TimeSeries(name="second", data=np.arange(5.0), timestamps=np.arange(5.0), unit="V"))
    nwbfile.create_device(name="device", description="old")
    nwbfile.add_trial_column(name="score", description="old")
    for number in range(10):
        nwbfile.add_trial(start_time=float(number), stop_time=number + 1.0, score=float(number), timeseries=[first])
    nwbfile.add_unit(spike_times=[1.0, 2.0])
    nwbfile.add_unit(spike_times=[3.0])
    return nwbfile


def written(folder: Path, kind: str) -> Path:
    path = folder / ("source.nwb" if kind == "hdf5" else "source.nwb.zarr")
    if kind == "hdf5":
        return write_hdf5(path, session(chunks=(100,), **GZIP))
    nwbfile = session(ZarrDataIO, chunks=(100,), compressor=GZip(9))
    return samples.write_zarr(path, nwbfile, zarr_format=3 if kind == "zarr 3" else 2)


def opened(path: Path, kind: str) -> Any:
    return NWBHDF5IO(path, "r") if kind == "hdf5" else NWBZarrIO(path, "r", lazy=kind != "eager")


KINDS = ("hdf5", "zarr 2", "zarr 3", "eager")


def exported(folder: Path, kind: str, change: Callable[[Any], Any], **options: Any) -> Path:
    target = folder / "target.nwb.zarr"
    with opened(written(folder, kind), kind) as source:
        nwbfile = source.read()
        change(nwbfile)
        with NWBZarrIO(target, "w") as io:
            io.export(src_io=source, nwbfile=nwbfile, **options)
    return target


def _set(container: Callable[[Any], Any], field: str, value: Any) -> Callable[[Any], None]:
    return lambda nwbfile: container(nwbfile).fields.update({field: value})


def _first(nwbfile: Any) -> Any:
    return nwbfile.acquisition["first"]


def _cast(nwbfile: Any) -> None:
    index = nwbfile.units["spike_times"]
    index._Data__data = np.asarray(index.data[:], "u8")


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "a field": (_set(lambda f: f, "session_description", "new"), lambda f: f.session_description, "new"),
    "an empty field": (lambda f: setattr(f, "lab", "L"), lambda f: f.lab, "L"),
    "an empty field of the subject": (lambda f: setattr(f.subject, "genotype", "wt"), lambda f: f.subject.genotype,
                                      "wt"),
    "a dataset": (_set(lambda f: f.subject, "age", "P9D"), lambda f: f.subject.age, "P9D"),
    "an attribute": (_set(_first, "description", "new"), lambda f: _first(f).description, "new"),
    "an attribute of a dataset": (_set(_first, "conversion", 2.5), lambda f: _first(f).conversion, 2.5),
    "values": (_set(_first, "data", np.arange(3) * 9), lambda f: _first(f).data[:].tolist(), [0, 9, 18]),
    "a column's description": (_set(lambda f: f.trials["score"], "description", "new"),
                               lambda f: f.trials["score"].description, "new"),
    "a removed field": (lambda f: f.fields.pop("notes"), lambda f: f.notes, None),
    "a removed series": (lambda f: f.acquisition.pop("second"), lambda f: sorted(f.acquisition), ["first"]),
    "an index that is cast": (_cast, lambda f: f.units["spike_times"].data.dtype.str, "<u8"),
    "a new series": (lambda f: f.add_acquisition(TimeSeries(name="third", data=[1.0], unit="V", rate=1.0)),
                     lambda f: sorted(f.acquisition), ["first", "second", "third"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CHANGES)
def test_an_export_is_what_the_containers_say(tmp_path: Path, kind: str, name: str) -> None:
    change, get, wanted = CHANGES[name]
    nwbfile = samples.read_zarr(exported(tmp_path, kind, change))
    assert get(nwbfile) == wanted
    assert [row.timeseries.name for row in nwbfile.trials["timeseries"][3]] == ["first"]
    assert nwbfile.units["spike_times"][0].tolist() == [1.0, 2.0]
    assert nwbfile.acquisition["first"].unit == "V"
    assert nwbfile.devices["device"].description == "old"


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_moved_keeps_its_values(tmp_path: Path, kind: str) -> None:
    def change(nwbfile: Any) -> None:
        moved, trials = _first(nwbfile), nwbfile.intervals.pop("trials")
        nwbfile.acquisition.pop("first")
        module = nwbfile.create_processing_module(name="moved", description="from acquisition and intervals")
        for container in (moved, trials):
            container.reset_parent()
            module.add(container)
        nwbfile.add_acquisition(TimeSeries(name="first", data=np.zeros(1000), unit="V", rate=1.0))  # where it was
        second = nwbfile.acquisition["second"]
        data, second.fields["data"] = second.data, second.data[:] + 10
        nwbfile.add_acquisition(TimeSeries(name="third", data=data, timestamps=second.timestamps, unit="V"))

    nwbfile = samples.read_zarr(exported(tmp_path, kind, change))
    moved = nwbfile.processing["moved"]
    assert moved["first"].data[:].tolist() == list(range(1000))
    assert not np.any(_first(nwbfile).data[:])
    assert moved["trials"]["score"][:].tolist() == list(range(10))
    assert moved["trials"]["timeseries"][3][0].timeseries is moved["first"]
    assert nwbfile.acquisition["second"].data[:].tolist() == [10, 11, 12, 13, 14]
    assert nwbfile.acquisition["third"].data[:].tolist() == [0, 1, 2, 3, 4]
    if kind != "hdf5":
        assert moved["first"].data.chunks == (100,)


@pytest.mark.parametrize("options", [{}, {"write_args": {"link_data": False}}, {"clear_cache": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_an_export_has_the_settings_that_were_chosen(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    def change(nwbfile: Any) -> None:
        chosen = {"compressor": GZip(1), "chunks": (50,)}
        _first(nwbfile).set_data_io("data", ZarrDataIO, data_io_kwargs=chosen)
        nwbfile.trials["score"].set_data_io(ZarrDataIO, data_io_kwargs=chosen | {"chunks": (5,)})
        nwbfile.trials["timeseries"].target.set_data_io(ZarrDataIO, data_io_kwargs=chosen | {"chunks": (3,)})

    nwbfile = samples.read_zarr(exported(tmp_path, kind, change, **options))
    columns = (_first(nwbfile).data, nwbfile.trials["score"].data)
    assert [(data.compressor, data.chunks) for data in columns] == [(GZip(1), (50,)), (GZip(1), (5,))]
    assert _first(nwbfile).data[:].tolist() == list(range(1000))
    stored = json.loads((tmp_path / "target.nwb.zarr/intervals/trials/timeseries/.zarray").read_text())
    assert (stored["chunks"][0], stored["compressor"]["id"]) == (3, "gzip")


@pytest.mark.parametrize("options", [{}, {"clear_cache": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_an_export_refuses_new_values_that_hdmf_would_change(tmp_path, kind, options):
    def change(nwbfile):
        times = np.array([2**53 + 1])  # the schema wants float64, which does not hold it
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0], timestamps=times, unit="V"))

    with pytest.raises(ValueRefusedError, match=rf"{2**53 + 1} .*hdmf would change the value .*/acquisition/new/times"):
        exported(tmp_path, kind, change, **options)
    assert not (tmp_path / "target.nwb.zarr").exists()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_write_has_the_settings_of_references_and_of_rows_with_them(tmp_path: Path, zarr_format: Any) -> None:
    nwbfile = session()
    given = ZarrDataIO([nwbfile.acquisition["first"]] * 10, chunks=(4,), compressor=GZip(1))
    nwbfile.add_trial_column(name="series", description="references", data=given)
    nwbfile.trials["timeseries"].target.set_data_io(ZarrDataIO, {"chunks": (3,), "compressor": GZip(1)})
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile, zarr_format=zarr_format)
    trials = read_builder(path)["intervals/trials"].datasets
    stored = [trials[name].data.dataset for name in ("series", "timeseries")]
    assert [array.compressor for array in stored] == [GZip(1)] * 2
    assert [array.chunks[0] for array in stored] == [4, 3]
    nwbfile = session()
    nwbfile.trials["timeseries"].target.set_data_io(ZarrDataIO, {"chunks": (3, 99)})
    with pytest.raises(UsageError, match=r"chunks \(3, 99\) do not fit the shape \(10,\)"):
        samples.write_zarr(tmp_path / "b.nwb.zarr", nwbfile, zarr_format=zarr_format)


@pytest.mark.parametrize("kind", ["zarr 2", "eager"])
def test_untouched_arrays_are_copied_byte_by_byte(tmp_path: Path, kind: str) -> None:
    target = exported(tmp_path, kind, lambda nwbfile: nwbfile.fields.update(notes="new"))
    for path in (tmp_path / "source.nwb.zarr").rglob("*"):
        place = path.relative_to(tmp_path / "source.nwb.zarr")
        if path.is_file() and path.name[0] != "." and not {"specifications", "notes"} & set(place.parts):
            assert (target / place).read_bytes() == path.read_bytes(), place


def test_what_no_container_holds_is_exported_as_it_was_read(tmp_path: Path) -> None:
    path = written(tmp_path, "hdf5")
    with h5py.File(path, "r+") as file:
        series = file["acquisition/first"]
        series.attrs["not in the schema"] = "kept"
        series["data"].attrs["conversion"] = np.float32(0.1)
        series["starting_time"].attrs["unit"] = "Seconds"  # pynwb has a value of its own
        series["more"] = np.arange(3)
        file.create_group("general/more").attrs["kept"] = 1
    with NWBHDF5IO(path, "r") as source, NWBZarrIO(tmp_path / "target.nwb.zarr", "w") as io:
        nwbfile = source.read()
        _first(nwbfile).fields["description"] = "new"
        io.export(src_io=source, nwbfile=nwbfile)
    with NWBZarrIO(tmp_path / "target.nwb.zarr", "r") as io:
        root = io.read_builder()
        series = root["acquisition/first"]
        assert series.attributes["not in the schema"] == "kept"
        assert series.attributes["description"] == "new"
        assert series["data"].attributes["conversion"] == np.float32(0.1)
        assert series["data"].attributes["conversion"].dtype == "f4"
        assert series["starting_time"].attributes["unit"] == "Seconds"
        assert series["more"].data[:].tolist() == [0, 1, 2]
        assert root["general/more"].attributes["kept"] == 1


def test_the_source_is_not_changed_by_an_export(tmp_path: Path) -> None:
    with opened(written(tmp_path, "zarr 2"), "zarr 2") as source:
        nwbfile = source.read()
        _first(nwbfile).fields["description"] = "new"
        for number in range(2):
            with NWBZarrIO(tmp_path / f"{number}.nwb.zarr", "w") as io:
                io.export(src_io=source, nwbfile=nwbfile)
        assert nwbfile.trials["timeseries"][0][0].timeseries is _first(nwbfile)
        assert not nwbfile.acquisition["second"].modified
    for number in range(2):
        assert _first(samples.read_zarr(tmp_path / f"{number}.nwb.zarr")).description == "new"


def test_an_export_with_link_data_says_that_it_copies(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="link_data=True has no effect"):
        exported(tmp_path, "zarr 2", lambda nwbfile: None, write_args={"link_data": True})


@pytest.mark.parametrize("backend", [NWBHDF5IO, NWBZarrIO])
def test_a_series_of_another_file_has_the_region_and_the_settings_that_were_chosen(tmp_path, backend):
    for name in ("session", "probe"):
        nwbfile = mock_NWBFile(identifier=name)
        mock_ElectricalSeries(name=name, data=np.arange(50.0).reshape(10, 5), nwbfile=nwbfile)
        with backend(tmp_path / name, "w") as io:
            io.write(nwbfile)
    target = tmp_path / "target.nwb.zarr"
    with backend(tmp_path / "session", "r") as source, backend(tmp_path / "probe", "r") as other:
        nwbfile, series = source.read(), other.read().acquisition["probe"]
        series.reset_parent()
        region = nwbfile.create_electrode_table_region(region=[4, 3, 2, 1, 0], description="of this file")
        series.fields["electrodes"] = region
        region.parent = series
        series.set_data_io("data", ZarrDataIO, data_io_kwargs={"compressor": GZip(1), "chunks": (3, 2)})
        nwbfile.create_processing_module("ecephys", "merged").add(LFP(electrical_series=series))
        with NWBZarrIO(target, "w") as io:
            io.export(src_io=source, nwbfile=nwbfile, write_args={"link_data": False})
    nwbfile = samples.read_zarr(target)
    merged = nwbfile.processing["ecephys"]["LFP"]["probe"]
    assert merged.electrodes.table is nwbfile.electrodes
    assert merged.electrodes.data[:].tolist() == [4, 3, 2, 1, 0]
    assert (merged.data.compressor, merged.data.chunks) == (GZip(1), (3, 2))
    assert merged.data[9].tolist() == [45.0, 46.0, 47.0, 48.0, 49.0]


_CONVERSION = """
import json, sys
from hdmf_zarr import NWBZarrIO, ZarrDataIO
folder = Path(sys.argv[1])
print(json.dumps(converted(folder, folder / "peer.nwb.zarr", NWBZarrIO, ZarrDataIO)))
"""


@pytest.mark.peer
def test_a_production_conversion_keeps_all_that_hdmf_zarr_keeps(tmp_path: Path, peer013: Peer) -> None:
    production.write_sources(tmp_path)
    own = json.loads(json.dumps(production.converted(tmp_path, tmp_path / "own.nwb.zarr", NWBZarrIO, ZarrDataIO)))
    peer = peer013.run(Path(production.__file__).read_text(encoding="utf-8") + _CONVERSION, tmp_path)
    assert own["fields"] == peer["fields"]
    arrays, theirs = own["arrays"], peer["arrays"]
    assert {name: array[:2] for name, array in arrays.items()} == {name: array[:2] for name, array in theirs.items()}
    chosen = [f"root/{name}" for name in ("replaced.data", "repacked.data", "filtered.data", "timed.timestamps")]
    for name in (*chosen, "LFP/lfp.data", "trials/score.data"):
        assert arrays[name] == theirs[name]  # hdmf-zarr gives all others its own chunks and codec
    gzip = {"id": "zlib", "level": 9}
    assert arrays["root/untouched.data"][2:] == [[50_000], gzip]  # small: one chunk
    assert arrays["root/raw.data"][2:] == [[20_000, 4], gzip]
    assert arrays["units/spike_times_index.data"][0] == "uint32"


SIZES = {"small": (100, (10,)), "joined": (500_000, (1000,)), "kept": (500_000, (50_000,)), "one chunk": (500, (500,))}


@pytest.mark.parametrize("way", ["convert", "export", "export containers", "chunks='keep'"])
@pytest.mark.parametrize("size", SIZES)
def test_gzip_and_its_level_stay(tmp_path: Path, way: str, size: str) -> None:
    length, chunks = SIZES[size]
    values = np.cumsum(np.random.default_rng(0).normal(0, 1, length)).round()
    write_hdf5(tmp_path / "a.nwb", session(lambda _: H5DataIO(values, chunks=chunks, **GZIP)))
    target = tmp_path / "a.nwb.zarr"
    if way.startswith("export"):
        with NWBHDF5IO(tmp_path / "a.nwb", "r") as source, NWBZarrIO(target, "w") as io:
            io.export(src_io=source, nwbfile=source.read() if way == "export containers" else None)
    else:
        report = convert(tmp_path / "a.nwb", target, chunks="keep" if "keep" in way else None)
        is_joined = size in ("small", "joined") and "keep" not in way
        assert any("/acquisition/first/data" in remark for remark in report.remarks) == is_joined
    stored = json.loads((target / "acquisition/first/data/.zarray").read_text())
    assert (stored["compressor"], stored["filters"]) == (ZLIB, SHUFFLE)
    if "keep" in way or size in ("kept", "one chunk"):
        assert stored["chunks"] == list(chunks)
    assert np.array_equal(_first(samples.read_zarr(target)).data[:], values)


def test_text_keeps_the_compressor_of_hdf5(tmp_path: Path) -> None:
    nwbfile = session(**GZIP)
    nwbfile.trials.add_column(name="tag", description="text", data=[f"t{number}" for number in range(10)])
    nwbfile.trials["tag"].set_data_io(H5DataIO, data_io_kwargs=GZIP)
    convert(write_hdf5(tmp_path / "a.nwb", nwbfile), tmp_path / "a.nwb.zarr")
    tags = samples.read_zarr(tmp_path / "a.nwb.zarr").trials["tag"].data
    assert tags.compressor.get_config() == ZLIB
    assert list(tags[:]) == [f"t{number}" for number in range(10)]


@pytest.mark.parametrize("mode", ["r+", "a"])
@pytest.mark.parametrize(
    "name", ["an empty field", "an empty field of the subject", "an attribute", "an attribute of a dataset"]
)
def test_an_append_writes_fields_without_set_modified(tmp_path: Path, mode: str, name: str) -> None:
    change, get, wanted = CHANGES[name]
    path = written(tmp_path, "zarr 2")
    with samples.edit_zarr(path, mode) as nwbfile:
        change(nwbfile)
    assert get(samples.read_zarr(path)) == wanted


@pytest.mark.parametrize(("change", "named"), [
    (lambda f: f.acquisition.pop("second"), "TimeSeries 'second' was removed from the NWBFile"),
    (lambda f: f.subject.fields.pop("age"), "field 'age' was removed from the Subject"),
    (lambda f: f.fields.update(keywords=None), "field 'keywords' was removed from the NWBFile"),
    (lambda f: f.fields.update(subject=None), "field 'subject' was removed from the NWBFile"),
    (
        lambda f: _first(f).set_data_io("data", ZarrDataIO, data_io_kwargs={"chunks": (5,)}),
        "ZarrDataIO for /acquisition/first/data",
    ),
    (
        lambda f: f.trials["score"].set_data_io(ZarrDataIO, data_io_kwargs={"chunks": (5,)}),
        "ZarrDataIO for /intervals/trials/score",
    ),
])  # fmt: skip
def test_an_append_says_what_it_cannot_write(tmp_path: Path, change: Callable[[Any], Any], named: str) -> None:
    path = written(tmp_path, "zarr 2")
    with NWBZarrIO(path, "r+") as io, warnings.catch_warnings():
        warnings.simplefilter("error")
        nwbfile = io.read()
        change(nwbfile)
        with pytest.warns(DroppedChangesWarning, match=named):
            io.write(nwbfile)
    nwbfile = samples.read_zarr(path)
    assert (sorted(nwbfile.acquisition), nwbfile.subject.age, _first(nwbfile).data.chunks) == (
        ["first", "second"], "P1D", (100,),
    )  # fmt: skip


@pytest.mark.parametrize("is_new", [False, True], ids=["to a module of the file", "to a new module"])
def test_an_append_refuses_to_write_a_container_a_second_time_below_another_parent(tmp_path, is_new):
    nwbfile = mock_NWBFile()
    nwbfile.add_acquisition(TimeSeries(name="moved", data=[1.0], unit="V", rate=1.0))
    nwbfile.create_processing_module("old", "a module")
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        module = nwbfile.create_processing_module("new", "a module") if is_new else nwbfile.processing["old"]
        module.add(nwbfile.acquisition.pop("moved"))
        with pytest.raises(ConflictError, match="'moved' is in the file already") as caught:
            io.write(nwbfile)
    assert caught.value.path == "/acquisition/moved"
    nwbfile = samples.read_zarr(path)
    assert (sorted(nwbfile.processing), len(nwbfile.processing["old"].data_interfaces)) == (["old"], 0)
    assert nwbfile.objects[nwbfile.acquisition["moved"].object_id] is nwbfile.acquisition["moved"]


@pytest.mark.parametrize("holder", [vars, lambda column: column.fields])
def test_an_append_refuses_other_values_of_a_column(tmp_path: Path, holder: Callable[[Any], dict[str, Any]]) -> None:
    path = written(tmp_path, "zarr 2")
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        values = holder(nwbfile.trials["score"])
        values["_Data__data" if "_Data__data" in values else "data"] = np.arange(10.0) * 2
        with pytest.raises(ConflictError, match="/intervals/trials/score"):
            io.write(nwbfile)


def test_an_export_says_that_data_in_the_fields_of_a_column_are_not_written(tmp_path: Path) -> None:
    with NWBZarrIO(written(tmp_path, "zarr 2")) as source, NWBZarrIO(tmp_path / "b.nwb.zarr", "w") as io:
        nwbfile = source.read()
        nwbfile.trials["score"].fields["data"] = np.arange(10.0) * 2
        with pytest.warns(DroppedChangesWarning, match=r"'score'.*io\.replace\('/intervals/trials/score'"):
            io.export(source, nwbfile)


def test_a_table_that_hdmf_cannot_build_is_exported_and_copied_as_it_was_read(tmp_path, monkeypatch):
    def fails(self: Any, spec: Any, container: Any, manager: Any) -> None:
        raise ContainerConfigurationError("Units 'units' does not have attribute 'a' for mapping to spec: {...}")

    nwbfile = NWBFile("s", "i", START)
    nwbfile.add_unit(spike_times=[1.0])
    path = write_hdf5(tmp_path / "a.nwb", nwbfile)
    monkeypatch.setattr("pynwb.io.misc.UnitsMap.get_attr_value", fails)
    with NWBHDF5IO(path, "r") as source, NWBZarrIO(tmp_path / "a.zarr", "w") as io:
        with pytest.warns(DroppedChangesWarning, match=r"attribute 'a'\); it is written as") as caught:
            io.export(source, source.read())
        assert "mapping to spec" not in str(caught[0].message)
    with NWBHDF5IO(path, "r") as source, NWBZarrIO(tmp_path / "a.zarr", "r+") as io:
        io.remove("/units")
        with pytest.warns(DroppedChangesWarning, match="it is written as it was read"):
            io.copy(source.read().units)
    assert compare(path, tmp_path / "a.zarr", ignore=["maxshape"]) == []
