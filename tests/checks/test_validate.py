"""`validate` says of a file, in Zarr and HDF5, what ``pynwb.validate`` says of HDF5; namespaces, links, the command."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pynwb
import pytest
from hdmf.common import DynamicTable, VectorData

from hdmf_zarr_backend import NWBZarrIO, consolidate, convert, validate, verify
from hdmf_zarr_backend.check.findings import KINDS
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import ChunkError, MetadataError, NotZarrError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.hdmf.schema import ContainerError
from hdmf_zarr_backend.options import ReadOptions
from tests import documents, samples
from tests.extensions import extension, write_with
from tests.places import stored_files
from tests.smallfiles import edited_json, write_container

TRACE = "acquisition/trace"
SHANK = "general/extracellular_ephys/shank0"
Said = frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_hdf5(tmp_path_factory.mktemp("files") / "rich.nwb")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return samples.write_zarr(tmp_path / "plain.zarr", samples.plain_nwbfile())


def change(path: Path, node: str, work: Callable[[dict[str, Any]], object]) -> None:
    with edited_json(path / ".zmetadata") as document:
        work(document["metadata"].setdefault(f"{node}/.zattrs".lstrip("/"), {}))


def drop(path: Path, node: str) -> None:
    with edited_json(path / ".zmetadata") as document:
        metadata = document["metadata"]
        document["metadata"] = {key: value for key, value in metadata.items() if not key.startswith(f"{node}/")}
    shutil.rmtree(path / node)


def places(source: Any, **options: Any) -> list[tuple[str, str]]:
    return [(finding.place, finding.kind) for finding in validate(source, **options).findings]


# ---- what pynwb says ------------------------------------------------------------------------------------------------
def said_by_pynwb(path: Path) -> Said | None:
    """Return place and message of each error; None if pynwb cannot validate the file."""
    with warnings.catch_warnings(action="ignore"):
        try:
            errors = pynwb.validate(path=str(path))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
    return frozenset((f"/{error.location or ''}", _named(error)) for error in errors)


def _named(error: Any) -> str:
    """Return the message of an error; that of a missing object with its name, which the message of hdmf lacks."""
    name = error.name.rpartition("/")[2]
    return f"{name!r} is missing" if error.reason == "argument missing" else str(error.reason)


def said_by_us(path: Path) -> Said | None:
    try:
        report = validate(path)
    except MetadataError:
        return None
    if any(finding.kind == "failed" for finding in report.findings):
        return None
    return frozenset((one.place, one.message) for one in report.findings if one.kind != "target")


def converted(source: Path, target: Path, **options: Any) -> Path:
    with warnings.catch_warnings(action="ignore"):  # links to nothing are kept
        convert(source, target, check=False, **options)
    return target


def _set(node: str, name: str, value: Any) -> Callable[[h5py.File], object]:
    return lambda file: file[node].attrs.__setitem__(name, value)


def _replace(node: str, value: Any) -> Callable[[h5py.File], None]:
    def work(file: h5py.File) -> None:
        attributes = dict(file[node].attrs)
        del file[node]
        file[node] = value
        file[node].attrs.update(attributes)

    return work


#: name -> the change of a valid file, and the kinds that are found
DEFECTS: dict[str, tuple[Callable[[h5py.File], object], set[str]]] = {
    "nothing": (lambda f: None, set()),
    "no attribute": (lambda f: f[f"{TRACE}/data"].attrs.pop("unit"), {"missing"}),
    "no dataset": (lambda f: f.pop("identifier"), {"missing"}),
    "no column": (lambda f: f.pop("intervals/trials/stop_time"), {"missing"}),
    "number for text": (_set(TRACE, "description", 5), {"dtype"}),
    "texts for numbers": (_replace("intervals/trials/start_time", ["a", "b"]), {"dtype"}),
    "too many axes": (_replace("general/keywords", [["a"], ["b"]]), {"shape"}),
    "a value for a list": (_set("units", "colnames", "spike_times"), {"shape"}),
    "no time": (_replace("session_start_time", "yesterday"), {"dtype"}),
    "no time zone": (_replace("session_start_time", "2026-03-14T12:00:00"), {"time"}),
    "reference to another type": (
        lambda f: f["acquisition/raw/electrodes"].attrs.__setitem__("table", f[TRACE].ref),
        {"target-type"},
    ),
    "link to another type": (
        lambda f: (f.pop(f"{SHANK}/device"), f[SHANK].__setitem__("device", h5py.SoftLink("/general/subject"))),
        {"missing"},
    ),
    "more than is known": (_set(TRACE, "remark", "good"), set()),
    "an unknown type at the root": (_set("/", "neurodata_type", "Nothing"), {"failed"}),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect(name, zarr_format, rich, tmp_path):
    plant, kinds = DEFECTS[name]
    source = tmp_path / "a.nwb"
    shutil.copy(rich, source)
    with h5py.File(source, "a") as file:
        plant(file)
    path = converted(source, tmp_path / "a.zarr", zarr_format=zarr_format)
    assert set(validate(path).counts) == kinds
    assert said_by_us(path) == said_by_us(source) == said_by_pynwb(source)  # of Zarr and of HDF5


def _empty(table: h5py.Group) -> None:
    columns = {name: column for name, column in table.items() if isinstance(column, h5py.Dataset)}
    for name, column in columns.items():
        del table[name]
        table.create_dataset(name, (0, *column.shape[1:]), column.dtype).attrs.update(column.attrs)
    for name in columns:
        if "target" in table[name].attrs:
            table[name].attrs["target"] = table[name.removesuffix("_index")].ref


def test_a_table_without_rows(zarr_format, rich, tmp_path):
    """No column has a row: numbers, texts, references, and rows of fields with references and without."""
    source = tmp_path / "a.nwb"
    shutil.copy(rich, source)
    with h5py.File(source, "a") as file:
        cells = file["processing/ophys/ImageSegmentation/cells"]
        for table in (cells, file["intervals/trials"], file["units"]):
            _empty(table)
        assert file["intervals/trials/timeseries"].shape == cells["pixel_mask"].shape == (0,)
    assert said_by_pynwb(source) is not None  # it takes references without rows for text
    path = converted(source, tmp_path / "a.zarr", zarr_format=zarr_format)
    assert validate(path).findings == validate(source).findings == []
    for mode in ("r", "r+"):
        with NWBZarrIO(path, mode) as io:
            assert pynwb.validate(io=io) == []


@pytest.mark.corpus
def test_real_files(some_nwbfiles, tmp_path):
    for source in some_nwbfiles:
        expected = said_by_pynwb(source)
        result = said_by_us(converted(source, tmp_path / f"{source.name}.zarr"))
        assert result == expected or (expected is None and result), source.name  # pynwb refuses to read some versions


# ---- namespaces -----------------------------------------------------------------------------------------------------
def test_a_valid_file_wherever_it_is(plain, tmp_path):
    report = validate(plain)
    assert report.is_valid
    assert list(report.namespaces) == ["core"]
    assert report.cached
    assert report.source == str(plain)
    assert validate(stored_files(plain)).is_valid
    assert validate(samples.write_zarr(tmp_path / "plain.zarr.zip", samples.plain_nwbfile())).is_valid


def test_a_file_without_namespaces_is_checked_against_the_installed_ones(plain):
    drop(plain, "specifications")
    change(plain, "", lambda attributes: attributes.pop(".specloc"))
    report = validate(plain)
    assert report.is_valid
    assert not report.cached
    drop(plain, "identifier")
    assert places(plain) == [("/", "missing")]


@pytest.mark.parametrize("options", [{}, {"use_cached": False}])
def test_a_version_of_nwb_that_is_not_that_of_the_schema_is_told(plain, options):
    version = validate(plain).namespaces["core"]
    assert "nwb_version" not in str(validate(plain, **options))
    change(plain, "", lambda attributes: attributes.update(nwb_version="2.99.0"))
    report = validate(plain, **options)
    assert (report.is_valid, report.namespaces["core"], report.nwb_version) == (True, version, "2.99.0")
    assert str(report).endswith("; its nwb_version is 2.99.0)")


@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.MissingNamespacesWarning")
def test_an_extension_that_is_not_known_is_a_remark(tmp_path):
    schema = extension(tmp_path, "ndx-lab")
    path = write_with(tmp_path / "a.nwb.zarr", schema, cache_spec=False)
    with pytest.raises(ContainerError, match=r'Import the package.*extensions="ndx-lab.namespace.yaml"') as caught:
        NWBZarrIO(path, "r").read().acquisition["ndx-lab"]
    assert "Pass a manager" not in str(caught.value)
    result = validate(path)
    (remark,) = result.remarks
    assert (remark.path, remark.kind) == ("/acquisition/ndx-lab", "type-unknown")
    assert remark.message == "'ndx-lab' is not known: 1 object was not checked"
    assert result.is_valid
    assert remark.message in str(result)
    with NWBZarrIO(path, "r", extensions=schema) as source, NWBZarrIO(tmp_path / "b.nwb.zarr", "w") as io:
        io.export(source, source.read())
    result = validate(tmp_path / "b.nwb.zarr")
    assert (result.remarks, list(result.namespaces)) == ([], ["ndx-lab"])
    assert [remark.kind for remark in validate(tmp_path / "b.nwb.zarr", use_cached=False).remarks] == ["type-unknown"]


def test_a_namespace_by_name(plain):
    assert validate(plain, namespace="core").is_valid
    assert places(plain, namespace="hdmf-common") == [("/", "failed")]
    with pytest.raises(UsageError, match="'gone'"):
        validate(plain, namespace="gone")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    columns = [VectorData(name="a", description="numbers", data=np.arange(3))]
    write_container(tmp_path / "a.zarr", DynamicTable(name="table", description="a table", columns=columns))
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("use_cached", [True, False])
def test_a_file_of_hdmf_alone(table, use_cached):
    report = validate(table, use_cached=use_cached)
    assert report.is_valid
    assert list(report.namespaces) == ["hdmf-common"]
    assert report.cached == use_cached
    drop(table, "id")
    change(table, "a", lambda attributes: attributes.pop("description"))
    assert places(table, use_cached=use_cached) == [("/", "missing"), ("/a", "missing")]


def test_a_root_without_a_namespace_or_with_an_unknown_one(table, tmp_path):
    change(table, "", lambda attributes: attributes.update(namespace="gone"))
    with pytest.raises(MetadataError, match="'gone', which does not exist"):
        validate(table)
    with h5py.File(tmp_path / "old.nwb", "w") as file:  # as in NWB 1
        file["nwb_version"] = "NWB-1.0.6"
    convert(tmp_path / "old.nwb", tmp_path / "old.nwb.zarr", check=False)
    with pytest.raises(MetadataError, match="the root has no attribute 'namespace'"):
        validate(tmp_path / "old.nwb.zarr")


def test_damaged_namespaces(plain):
    (source,) = (plain / "specifications/core").glob("*/nwb.base")
    drop(plain, source.relative_to(plain).as_posix())
    with pytest.raises(MetadataError, match=r"nwb\.base") as caught:
        validate(plain)
    assert "use_cached=False" in str(caught.value)
    assert validate(plain, use_cached=False).is_valid


def test_a_file_that_cannot_be_read(plain, tmp_path):
    with pytest.raises(StoreNotFoundError):
        validate(tmp_path / "gone.zarr")
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "a.txt").write_text("text")
    with pytest.raises(NotZarrError):
        validate(tmp_path / "a.zarr")
    (plain / "identifier/0").write_bytes(b"short")
    (plain / ".zmetadata").unlink()
    with pytest.raises(ChunkError) as caught:
        validate(plain)
    assert (caught.value.store, caught.value.path) == (str(plain), "/identifier")


# ---- links ----------------------------------------------------------------------------------------------------------
def test_links_to_another_file_are_followed(plain, tmp_path):
    other = samples.write_zarr(tmp_path / "other.zarr", samples.plain_nwbfile("other"))
    drop(plain, f"{TRACE}/data")
    link = {"name": "data", "source": "../other.zarr", "path": f"/{TRACE}/data"}
    documents.change_attributes(plain, TRACE, lambda attributes: attributes.update(zarr_link=[link]))
    consolidate(plain)
    assert validate(plain).is_valid
    never = ReadOptions(external_links="never")  # what is behind it is not missing
    result, report = validate(plain, read_options=never), verify(plain, "schema", read_options=never)
    assert result.is_valid and report.is_sound
    for remarks in (result.remarks, [each for each in report.remarks if each.kind == "link-refused"]):
        assert [(remark.path, remark.kind) for remark in remarks] == [(f"/{TRACE}/data", "link-refused")]
    assert f"remark: /{TRACE}/data: link-refused" in str(result)
    with NWBZarrIO(plain, "r") as io, NWBZarrIO(tmp_path / "own.zarr", "w") as new:  # as docs/how-to/verify.md says
        new.export(io, write_args={"link_data": False})
    assert not validate(tmp_path / "own.zarr", read_options=never).remarks
    change(other, f"{TRACE}/data", lambda attributes: attributes.pop("unit"))
    assert places(plain) == [("/data", "missing")]  # for hdmf, what a link leads to has no parent


def test_links_in_a_circle(plain):
    def links(*pairs: tuple[str, str]) -> Callable[[dict[str, Any]], None]:
        entries = [{"name": name, "source": ".", "path": path} for name, path in pairs]
        return lambda attributes: attributes.update(zarr_link=entries)

    change(plain, TRACE, links(("data_again", f"/{TRACE}/data")))
    change(plain, "acquisition", links(("around", "/acquisition/round"), ("round", "/acquisition/around")))
    assert places(plain) == [("/acquisition/around", "target"), ("/acquisition/round", "target")]


# ---- the command line -----------------------------------------------------------------------------------------------
@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = samples.write_zarr(tmp_path / "broken.zarr", samples.plain_nwbfile())
    drop(path, "identifier")
    for name in ("unit", "_nczarr_attr"):
        change(path, f"{TRACE}/data", lambda attributes, name=name: attributes.pop(name, None))
    change(path, f"{TRACE}/data", lambda attributes: attributes.update(conversion="one"))
    return path


def test_command_which_continues_after_a_file_that_cannot_be_read(broken, plain, tmp_path, capsys):
    assert main(["validate", str(plain)]) == 0
    assert capsys.readouterr().out.startswith(f"{plain}: valid (core 2.")
    assert main(["validate", str(plain), str(broken)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[1:4]) == [
        f"/: missing: 'identifier' is missing. {KINDS['missing']}",
        f"/acquisition/trace/data.conversion: dtype: incorrect type - expected 'float32', got 'utf'. {KINDS['dtype']}",
        f"/acquisition/trace/data: missing: 'unit' is missing. {KINDS['missing']}",
    ]
    assert lines[4].startswith(f"{broken}: 3 findings (core ")
    assert main(["validate", str(broken), "--limit", "1"]) == 1
    assert "--limit 0 shows them all" in capsys.readouterr().out
    assert main(["validate", str(tmp_path / "gone.zarr"), str(broken), "--json"]) == 2
    captured = capsys.readouterr()
    assert "the file does not exist" in captured.err
    gone, report = json.loads(captured.out)
    assert (gone["source"], report["error"]) == (str(tmp_path / "gone.zarr"), None)
    assert "the file does not exist" in gone["error"]
    assert report["valid"] is False
    assert report["counts"] == {"missing": 2, "dtype": 1}
    (finding,) = [finding for finding in report["findings"] if finding["kind"] == "dtype"]
    assert finding.keys() == {"path", "attribute", "kind", "message", "rule", "place", "remedy"}
    assert (finding["attribute"], finding["place"]) == ("conversion", f"{finding['path']}.conversion")
