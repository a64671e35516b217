"""The test vectors of `docs/format/vectors`: this package reads each one as its statement describes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.spec import NamespaceCatalog
from jsonschema import Draft202012Validator

from hdmf_zarr_backend import RegionReference, ZarrIO
from hdmf_zarr_backend.errors import ZarrBackendError

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "format" / "vectors"
STATEMENTS = sorted(FOLDER.glob("format-*/*.json"))
WORDS = {"utf": "text", "utf8": "text", "ascii": "ascii", "object": "reference", "region": "reference"}

_spec = importlib.util.spec_from_file_location("vectors_make", FOLDER / "make.py")
make = importlib.util.module_from_spec(_spec)


@pytest.fixture(scope="module", autouse=True)
def generator():
    import sys

    sys.modules[_spec.name] = make
    _spec.loader.exec_module(make)
    yield
    del sys.modules[_spec.name]


def path_of(builder: Any) -> str:
    names = []
    while builder.parent is not None:
        names.append(builder.name)
        builder = builder.parent
    return "/" + "/".join(reversed(names))


def value_of(value: Any) -> Any:
    """Return a value that was read as the JSON of a statement."""
    if isinstance(value, (GroupBuilder, DatasetBuilder)):
        return {"path": path_of(value)}
    if isinstance(value, RegionReference):
        return {"path": path_of(value.builder), "region": value.region}
    if isinstance(value, ReferenceBuilder):
        return {"path": path_of(value.builder)}
    if isinstance(value, np.void):
        return [value_of(value[name]) for name in value.dtype.names]
    if isinstance(value, np.ndarray):
        if value.dtype.names or value.dtype == object:
            return [value_of(each) for each in value]
        return make.plain(value)
    if isinstance(value, (list, tuple)):
        return [value_of(each) for each in value]
    return make.plain(value)


def type_of(builder: DatasetBuilder) -> Any:
    dtype = builder.dtype
    if isinstance(dtype, list):
        return [{"name": each["name"], "type": _type_name(each["dtype"])} for each in dtype]
    return _type_name(dtype)


def _type_name(dtype: Any) -> str:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    return WORDS.get(name, name)


def dataset_of(builder: DatasetBuilder) -> dict[str, Any]:
    data = builder.data
    values = value_of(data[:] if getattr(data, "shape", ()) else data)
    shape: list[int] = [] if not hasattr(data, "shape") else list(data.shape)
    return {"type": type_of(builder), "shape": shape, "values": values, "attributes": attributes_of(builder)}


def attributes_of(builder: Any) -> dict[str, Any]:
    return {name: value_of(value) for name, value in builder.attributes.items() if name != ".specloc"}


def group_of(builder: GroupBuilder, *, without: str | None = None) -> dict[str, Any]:
    datasets = {name: dataset_of(each) for name, each in builder.datasets.items() if path_of(each) != without}
    groups = {name: group_of(each, without=without) for name, each in builder.groups.items()}
    links = {name: path_of(each.builder) for name, each in builder.links.items()}
    return {"attributes": attributes_of(builder), "datasets": datasets, "groups": groups, "links": links}


def stated_types(specifications: dict[str, Any]) -> dict[str, str]:
    """Return the types of the stated specifications with their descriptions."""
    sources = [text for versions in specifications.values() for found in versions.values() for text in found.values()]
    groups = [group for text in sources for group in json.loads(text).get("groups", [])]
    return {group["data_type_def"]: group["doc"] for group in groups}


def types_in(path: Path) -> dict[str, str]:
    """Return the types of the cached specifications of a file with their descriptions."""
    catalog = NamespaceCatalog()
    if not ZarrIO.get_namespaces(path):
        return {}
    ZarrIO.load_namespaces(catalog, path)
    return {
        name: catalog.get_spec(namespace, name)["doc"]
        for namespace in ZarrIO.get_namespaces(path)
        for name in catalog.get_namespace(namespace).get_registered_types()
    }


def store_of(statement: Path) -> Path:
    return statement.with_suffix(".zarr.zip")


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_vector_is_read_as_it_is_stated(path):
    statement = json.loads(path.read_text(encoding="utf-8"))
    error = statement.get("error")
    if error is None:
        with ZarrIO(store_of(path), "r") as io:
            assert group_of(io.read_builder()) == statement["root"]
        assert types_in(store_of(path)) == stated_types(statement.get("specifications", {}))
        return
    with pytest.raises(ZarrBackendError) as caught, ZarrIO(store_of(path), "r") as io:
        io.read_builder().datasets["data"].data[:]
    assert error["path"] in str(caught.value)


def test_the_vectors_are_those_that_the_generator_makes():
    named = {f"format-{zarr_format}/{name}": (name, zarr_format, case) for name, zarr_format, case in make.vectors()}
    assert {f"{path.parent.name}/{path.stem}" for path in STATEMENTS} == set(named)
    assert len(named) >= 150
    for place, vector in named.items():
        _, statement = make.made(*vector)
        assert (FOLDER / f"{place}.json").read_bytes() == statement, place


def test_statements_follow_the_schema():
    schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for path in STATEMENTS:
        found = [error.message for error in validator.iter_errors(json.loads(path.read_text(encoding="utf-8")))]
        assert found == [], path.name
    assert not validator.is_valid({"name": "x", "about": "y", "zarr_format": 4, "root": {}})
