"""Models of files are those of pydantic-zarr, and empty files are made of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, dry_run
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import MetadataError, NameRefusedError, NotZarrError, StoreExistsError, UsageError
from hdmf_zarr_backend.zom import from_zom, model_json, to_zom
from tests import samples
from tests.documents import metadata
from tests.places import store_files

v2, v3 = pytest.importorskip("pydantic_zarr.v2"), pytest.importorskip("pydantic_zarr.v3")

ARRAY_2 = {"shape": [4], "chunks": [2], "dtype": "<i2", "compressor": None, "fill_value": None, "order": "C",
           "filters": None, "zarr_format": 2}  # fmt: skip


@pytest.fixture(scope="module", params=[2, 3])
def rich(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_zarr(
        tmp_path_factory.mktemp("rich") / "a.nwb.zarr", samples.rich_nwbfile(), zarr_format=request.param
    )


def array(**changes: Any) -> Any:
    return v2.ArraySpec(attributes={}, dimension_separator=".", **{**ARRAY_2, **changes})


@pytest.mark.skipif(zarr.__version__.startswith("2."), reason="pydantic-zarr reads with zarr-python 3")
def test_it_is_the_model_that_pydantic_zarr_makes(tmp_path, zarr_format):
    values = {"a": np.arange(5), "b": np.arange(6.0).reshape(2, 3), "c": np.zeros(3, "?")}
    datasets = {name: DatasetBuilder(name, data, attributes={"unit": "V"}) for name, data in values.items()}
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=zarr_format) as io:
        io.write_builder(GroupBuilder("root", groups={"g": GroupBuilder("g", datasets=datasets)}))
    theirs = {2: v2, 3: v3}[zarr_format].GroupSpec.from_zarr(zarr.open_group(tmp_path / "a.zarr", mode="r"))
    ours = to_zom(tmp_path / "a.zarr")
    assert type(ours) is type(theirs)
    assert json.loads(ours.model_dump_json()) == json.loads(theirs.model_dump_json())


def test_a_whole_file_and_an_empty_one_made_of_its_model(rich, tmp_path):
    model = to_zom(rich)
    assert len(model.to_flat()) > 200
    for consolidate in (True, False):
        path = tmp_path / f"{consolidate}.zarr"
        from_zom(model, path, consolidate=consolidate)
        assert metadata(path) == metadata(rich)
        assert to_zom(path) == model
        assert not [file for file in path.rglob("*") if file.is_file() and file.name[0] not in ".z"]
    with pytest.raises(StoreExistsError):
        from_zom(model, path)
    from_zom(v2.GroupSpec(attributes={}, members={"a": array()}), path, overwrite=True)
    assert to_zom(path).to_flat().keys() == {"", "/a"}
    assert zarr.open_group(path, mode="r")["a"].shape == (4,)


def test_the_model_of_an_io_and_of_a_dry_run(tmp_path):
    nwbfile = samples.plain_nwbfile()
    planned = dry_run(nwbfile)
    with NWBZarrIO(tmp_path / "a.zarr", "w") as io:
        with pytest.raises(UsageError, match="neither read nor written"):
            to_zom(io)
        io.write(nwbfile)
        written = to_zom(io)
    with NWBZarrIO(tmp_path / "a.zarr", "r") as io:
        assert to_zom(io) == written == to_zom(planned) == to_zom(tmp_path / "a.zarr")


def test_what_documents_leave_out_and_what_they_have_besides(tmp_path, capsys):
    groups = {key: {"zarr_format": 2} for key in (".zgroup", "g/.zgroup")}
    documents = {**groups, "a/.zarray": {**ARRAY_2, "more": 1}, "g/.zattrs": {"x": float("nan")}}
    model = to_zom(store_files(tmp_path / "a.zarr", documents))
    assert model.members["a"].dimension_separator == "."
    assert np.isnan(model.members["g"].attributes["x"])
    assert main(["inspect", "--model", str(tmp_path / "a.zarr")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["members"]["a"] == {**ARRAY_2, "more": 1, "attributes": {}, "dimension_separator": "."}
    assert shown["members"]["g"]["members"] == {}


def test_a_key_called_members_is_renamed():
    root = {"zarr_format": 3, "node_type": "group", "attributes": {}, "members": 1}
    with ZarrIO({"zarr.json": json.dumps(root).encode()}, "r-") as io:
        io.read_builder()
        assert model_json(io._parsed.hierarchy) == {**root, "members": {}, "_members": 1}


def test_groups_may_be_deeper_than_the_recursion_limit():
    model = to_zom({f"{'g/' * depth}.zgroup": b'{"zarr_format": 2}' for depth in range(1200)})
    for _ in range(1199):
        model = model.members["g"]
    assert model.members == {}


def test_what_is_no_file_and_no_model_is_refused(tmp_path):
    with pytest.raises(NotZarrError, match="array"):
        to_zom({".zarray": json.dumps(ARRAY_2).encode()})
    with pytest.raises(MetadataError, match=r"\(/a\)"):
        from_zom(v2.GroupSpec.model_construct(attributes={}, members={"a": array().model_copy(
            update={"chunks": (0,)})}, zarr_format=2), tmp_path / "a.zarr")  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [
    "", ".", "..", "..\\x", "a\\b", "a\0b", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json",
    ".hdmf_zarr_journal", "\udcff",
], ids=ascii)  # fmt: skip
def test_names_that_no_store_holds_are_refused_before_anything_is_written(tmp_path, name):
    inner = v2.GroupSpec.model_construct(attributes={}, members={name: array()}, zarr_format=2)
    with pytest.raises(NameRefusedError, match=r"cannot be stored|not UTF-8") as caught:
        from_zom(v2.GroupSpec.model_construct(attributes={}, members={"inner": inner}, zarr_format=2), tmp_path / "a")
    assert caught.value.path == "/inner"
    assert list(tmp_path.iterdir()) == []
