"""`validate` on all kinds of files: namespaces cached and installed, stores near and far, links; the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.common import DynamicTable, VectorData, get_manager
from jsonschema import Draft202012Validator

from hdmf_zarr_backend import ZarrIO, convert, validate
from hdmf_zarr_backend.checks.findings import KINDS
from hdmf_zarr_backend.checks.json_schema import describe, json_schema_for
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import MetadataError, NotZarrError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.options import ReadOptions
from tests import samples
from tests.checks.drafts import Draft
from tests.checks.planted import TRACE
from tests.servers import Proxy, WebServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def rich(folder: Path) -> Path:
    return samples.write_zarr(folder / "rich.zarr", samples.rich_nwbfile())


@pytest.fixture(scope="module")
def plain(folder: Path) -> Draft:
    return Draft.of(samples.write_zarr(folder / "plain.zarr", samples.plain_nwbfile()))


def saved(draft: Draft, path: Path) -> Path:
    for key, value in draft.keys().items():
        (path / key).parent.mkdir(parents=True, exist_ok=True)
        (path / key).write_bytes(value)
    return path


def places(source: Any, **options: Any) -> list[tuple[str, str]]:
    return [(finding.place, finding.kind) for finding in validate(source, **options).findings]


# ---- namespaces ----------------------------------------------------------------------------------------------------


def test_a_valid_file(rich: Path) -> None:
    found = validate(rich)
    assert found.is_valid
    assert list(found.namespaces) == ["core"]
    assert found.cached
    assert found.source == str(rich)
    assert found.items > 150


def test_format_3(folder: Path) -> None:
    path = samples.write_zarr(folder / "three.zarr", samples.rich_nwbfile(), zarr_format=3)
    assert validate(path).is_valid


def test_an_open_mapping_and_an_archive(rich: Path, folder: Path) -> None:
    assert validate(Draft.of(rich).keys()).is_valid
    path = samples.write_zarr(folder / "plain.zarr.zip", samples.plain_nwbfile())
    assert validate(path).is_valid


def test_a_file_without_namespaces_is_held_against_the_installed_ones(plain: Draft) -> None:
    draft = plain.copy()
    draft.drop("specifications")
    del draft.attributes("")[".specloc"]
    found = validate(draft.keys())
    assert found.is_valid
    assert not found.cached
    draft.drop("identifier")
    assert places(draft.keys()) == [("/", "missing")]


def test_installed_namespaces_on_request(rich: Path) -> None:
    found = validate(rich, use_cached=False)
    assert found.is_valid
    assert not found.cached


def test_a_namespace_by_name(rich: Path) -> None:
    assert validate(rich, namespace="core").is_valid
    assert places(rich, namespace="hdmf-common")[0] == ("/", "unknown-type")
    with pytest.raises(UsageError, match="'gone'"):
        validate(rich, namespace="gone")


def test_a_file_of_hdmf_alone(tmp_path: Path) -> None:
    columns = [VectorData(name="a", description="numbers", data=np.arange(3))]
    table = DynamicTable(name="table", description="a table", columns=columns)
    with ZarrIO(tmp_path / "a.zarr", "w", manager=get_manager()) as io:
        io.write(table)
    found = validate(tmp_path / "a.zarr")
    assert found.is_valid
    assert list(found.namespaces) == ["hdmf-common"]
    assert validate(tmp_path / "a.zarr", full=True).is_valid
    draft = Draft.of(tmp_path / "a.zarr")
    draft.drop("id")
    del draft.attributes("a")["description"]
    assert places(draft.keys()) == places(draft.keys(), full=True) == [("/", "missing"), ("/a", "missing")]


def test_an_unknown_namespace_at_the_root(tmp_path: Path) -> None:
    columns = [VectorData(name="a", description="numbers", data=np.arange(3))]
    table = DynamicTable(name="table", description="a table", columns=columns)
    with ZarrIO(tmp_path / "a.zarr", "w", manager=get_manager()) as io:
        io.write(table)
    draft = Draft.of(tmp_path / "a.zarr")
    draft.attributes("")["namespace"] = "gone"
    with pytest.raises(MetadataError, match="'gone', which does not exist"):
        validate(draft.keys())


def test_a_root_without_a_namespace(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "old.nwb", "w") as file:  # as in NWB 1
        file["nwb_version"] = "NWB-1.0.6"
    convert(tmp_path / "old.nwb", tmp_path / "old.nwb.zarr", check=False)
    with pytest.raises(MetadataError, match="the root has no attribute 'namespace'"):
        validate(tmp_path / "old.nwb.zarr")


def test_damaged_namespaces(plain: Draft) -> None:
    draft = plain.copy()
    (source,) = [key for key in draft.metadata if key.endswith("/nwb.base/.zarray")]
    draft.drop(source.removesuffix("/.zarray"))
    with pytest.raises(MetadataError, match=r"nwb\.base"):
        validate(draft.keys())
    assert validate(draft.keys(), use_cached=False).is_valid


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError):
        validate(tmp_path / "gone.zarr")
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "a.txt").write_text("text")
    with pytest.raises(NotZarrError):
        validate(tmp_path / "a.zarr")


# ---- how little is read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_file_on_a_server_costs_what_opening_costs(web: WebServer, web_proxy: Proxy, zarr_format: int) -> None:
    samples.write_zarr(web.folder / "rich.zarr", samples.rich_nwbfile(), zarr_format=zarr_format)
    assert validate(f"{web_proxy.url}/rich.zarr").is_valid
    # one round: which of both is there says of which format the file is
    assert sorted(web_proxy.requests) == [("GET", "/rich.zarr/.zmetadata"), ("GET", "/rich.zarr/zarr.json")]


def test_neither_hdmf_nor_zarr_is_loaded(rich: Path) -> None:
    code = (
        "import sys; from hdmf_zarr_backend import validate\n"
        f"assert validate({str(rich)!r}).is_valid\n"
        "print(*(name for name in ('hdmf', 'pynwb', 'zarr', 'h5py') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_values_that_are_not_at_hand_are_looked_at_in_full(plain: Draft) -> None:
    draft = plain.copy()
    draft.write_text("session_start_time", "yesterday")
    assert places(draft.keys()) == [("/session_start_time", "time")]
    draft.forget_inlined()
    assert places(draft.keys()) == []
    assert places(draft.keys(), full=True) == [("/session_start_time", "dtype")]


def test_times_in_a_file_of_format_2_without_inlined_values(rich: Path) -> None:
    draft = Draft.of(rich).copy()
    draft.forget_inlined()
    assert validate(draft.keys()).is_valid


# ---- links ---------------------------------------------------------------------------------------------------------


def test_links_to_another_file_are_followed(plain: Draft, tmp_path: Path) -> None:
    other = plain.copy()
    saved(other, tmp_path / "other.zarr")
    draft = plain.copy()
    draft.drop(f"{TRACE}/data")
    draft.link(TRACE, "data", "/acquisition/trace/data", source="other.zarr")
    path = saved(draft, tmp_path / "a.zarr")
    draft.links(TRACE)[0]["source"] = "../other.zarr"
    path = saved(draft, tmp_path / "b.zarr")
    assert validate(path).is_valid
    assert places(path, read_options=ReadOptions(external_links="never")) == [(f"/{TRACE}", "missing")]
    del other.attributes(f"{TRACE}/data")["unit"]
    saved(other, tmp_path / "other.zarr")
    assert places(path) == [(f"/{TRACE}/data", "missing")]
    assert places(path, full=True) == [("/data", "missing")]  # for hdmf, what a link leads to has no parent


def test_links_in_a_circle(plain: Draft) -> None:
    draft = plain.copy()
    draft.link(TRACE, "data_again", "/acquisition")
    draft.link("acquisition", "around", "/acquisition/round")
    draft.link("acquisition", "round", "/acquisition/around")
    draft.link("general", "up", "/")
    found = validate(draft.keys()).findings  # two of the links lead to nothing; that to the root leads to the root
    assert [(each.place, each.kind) for each in found] == [
        ("/acquisition/around", "target"),
        ("/acquisition/round", "target"),
    ]
    schema = Draft202012Validator(json_schema_for(draft.keys()))
    assert schema.is_valid(describe(draft.keys()))


# ---- documents -----------------------------------------------------------------------------------------------------


def test_a_description(plain: Draft) -> None:
    root = describe(plain.keys())
    assert (root["name"], root["kind"], root["data_type"]) == ("root", "group", "NWBFile")
    assert "specifications" not in {member["name"] for member in root["members"]}
    (acquisition,) = [member for member in root["members"] if member["name"] == "acquisition"]
    (trace,) = acquisition["members"]
    (data,) = [member for member in trace["members"] if member["name"] == "data"]
    assert data == {
        "name": "data", "kind": "dataset", "is_link": False, "data_type": None, "path": "/acquisition/trace/data",
        "attributes": {
            "conversion": {"dtype": "float64", "shape": []}, "offset": {"dtype": "float64", "shape": []},
            "resolution": {"dtype": "float64", "shape": []}, "unit": {"dtype": "utf", "shape": None, "format": "other"},
        },
        "dtype": "int16", "shape": [20, 3],
    }  # fmt: skip
    (start,) = [member for member in root["members"] if member["name"] == "session_start_time"]
    assert start["format"] == "isodatetime"
    assert json.loads(json.dumps(root)) == root


def test_a_schema_of_one_type(rich: Path) -> None:
    schema = json_schema_for(rich, "core")
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "TimeSeries" in schema["$defs"]
    (trace,) = [
        series
        for group in describe(rich)["members"]
        if group["name"] == "acquisition"
        for series in group["members"]
        if series["name"] == "trace"
    ]
    validator = Draft202012Validator({**schema, "properties": {}, "allOf": [{"$ref": "#/$defs/TimeSeries"}]})
    assert validator.is_valid(trace)
    trace["attributes"]["description"]["dtype"] = "int64"
    assert not validator.is_valid(trace)
    with pytest.raises(UsageError, match="unknown options: full"):
        json_schema_for(rich, full=True)


def test_a_schema_of_what_is_installed(rich: Path) -> None:
    assert json_schema_for() == json_schema_for(rich, use_cached=False)
    assert "NWBFile" not in json_schema_for(namespace="hdmf-common")["$defs"]
    with pytest.raises(MetadataError, match="'gone' is missing"):
        json_schema_for(namespace="gone")


# ---- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def broken(plain: Draft, tmp_path: Path) -> Path:
    draft = plain.copy()
    draft.drop("identifier")
    del draft.attributes(f"{TRACE}/data")["unit"]
    draft.attributes(f"{TRACE}/data")["conversion"] = "one"
    draft.attributes(f"{TRACE}/data").pop("_nczarr_attr")
    return saved(draft, tmp_path / "broken.zarr")


def test_command_on_a_valid_file(rich: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(rich)]) == 0
    assert capsys.readouterr().out.startswith(f"{rich}: valid (core 2.")


def test_command_on_a_file_that_is_not(broken: Path, rich: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(rich), str(broken)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == [
        "/: missing: the dataset 'identifier' is missing. Write what is missing.",
        "/acquisition/trace/data: missing: the attribute 'unit' is missing. Write what is missing.",
        f"/acquisition/trace/data.conversion: dtype: expected float32, found utf. {KINDS['dtype']}",
    ]
    assert lines[4].startswith(f"{broken}: 3 findings (core ")
    assert main(["validate", str(broken), "--limit", "1"]) == 1
    assert "... and 2 more; --limit 0 shows them all" in capsys.readouterr().out


def test_command_goes_on_past_what_is_no_file(broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(tmp_path / "gone.zarr"), str(broken), "--json"]) == 2
    captured = capsys.readouterr()
    assert "the file does not exist" in captured.err
    gone, report = json.loads(captured.out)
    assert (gone["source"], report["error"]) == (str(tmp_path / "gone.zarr"), None)
    assert "the file does not exist" in gone["error"]
    assert report["valid"] is False
    assert report["counts"] == {"missing": 2, "dtype": 1}
    assert report["findings"][2].keys() == {"path", "attribute", "kind", "message", "rule", "remedy"}
    assert report["findings"][2]["attribute"] == "conversion"


def test_command_in_full(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(broken), "--full", "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"missing": 2, "dtype": 1}


def test_command_prints_a_schema(rich: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(rich), "--schema", "--namespace", "hdmf-common"]) == 0
    Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))
    assert main(["validate", str(rich), "--schema", "--json"]) == 2


def test_every_kind_has_a_remedy() -> None:
    assert all(text.endswith(".") for text in KINDS.values())
