"""The test vectors of `docs/format/vectors`: this package reads each one as its statement describes."""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.spec import NamespaceCatalog
from jsonschema import Draft202012Validator

from hdmf_zarr_backend import RegionReference, ZarrIO
from hdmf_zarr_backend.errors import ZarrBackendError

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "format" / "vectors"
STATEMENTS = sorted(FOLDER.glob("format-*/*.json"))
WORDS = {"utf": "text", "utf8": "text", "ascii": "ascii", "object": "reference", "region": "reference"}
REFERRED = ("link-to-dataset", "link-external-dataset")
"""Vectors to which links of others lead."""


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
    return "/" if builder.location is None else posixpath.join(builder.location, builder.name)


def place_of(builder: Any, source: str) -> dict[str, Any]:
    """Return the place of the target of a reference or a link in the file ``source``."""
    if builder.source == source:
        return {"path": path_of(builder)}
    return {"source": os.path.relpath(builder.source, source).replace(os.sep, "/"), "path": path_of(builder)}


def value_of(value: Any, source: str) -> Any:
    """Return a value that was read from the file ``source`` as the JSON of a statement."""
    if isinstance(value, (GroupBuilder, DatasetBuilder)):
        return place_of(value, source)
    if isinstance(value, RegionReference):
        return {**place_of(value.builder, source), "region": value.region}
    if isinstance(value, ReferenceBuilder):
        return place_of(value.builder, source)
    if isinstance(value, np.void) and value.dtype.names:
        return [value_of(value[name], source) for name in value.dtype.names]
    if isinstance(value, np.ndarray) and (value.dtype.names or value.dtype == object):
        return [value_of(each, source) for each in value] if value.ndim else value_of(value[()], source)
    if isinstance(value, (list, tuple)):
        return [value_of(each, source) for each in value]
    return make.plain(value)


def type_of(builder: DatasetBuilder) -> Any:
    dtype = builder.dtype
    if not isinstance(dtype, list):
        return _type_name(dtype)
    shapes = {name: builder.data.dtype[name].shape for name in getattr(builder.data.dtype, "names", None) or ()}
    return [
        {"name": each["name"], "type": _type_name(each["dtype"])}
        | ({"shape": list(shapes[each["name"]])} if shapes.get(each["name"]) else {})
        for each in dtype
    ]


def _type_name(dtype: Any) -> str:
    if isinstance(dtype, str):
        return WORDS.get(dtype, dtype)
    return {"U": "text", "S": "ascii"}.get(np.dtype(dtype).kind, np.dtype(dtype).name)


def dataset_of(builder: DatasetBuilder) -> dict[str, Any]:
    data = builder.data
    values = value_of(data[:] if getattr(data, "shape", ()) else data, builder.source)
    shape: list[int] = [] if not hasattr(data, "shape") else list(data.shape)
    return {"type": type_of(builder), "shape": shape, "values": values, **attributes_of(builder)}


def attributes_of(builder: Any) -> dict[str, Any]:
    found = {name: value for name, value in builder.attributes.items() if name != ".specloc"}
    types = {name: kind for name, value in found.items() if (kind := make.type_of(value)) is not None}
    attributes = {"attributes": {name: value_of(value, builder.source) for name, value in found.items()}}
    return {**attributes, "attribute_types": types} if types else attributes


def group_of(builder: GroupBuilder) -> dict[str, Any]:
    datasets = {name: dataset_of(each) for name, each in builder.datasets.items()}
    groups = {name: group_of(each) for name, each in builder.groups.items()}
    places = {name: place_of(each.builder, builder.source) for name, each in builder.links.items()}
    links = {name: place if "source" in place else place["path"] for name, place in places.items()}
    return {**attributes_of(builder), "datasets": datasets, "groups": groups, "links": links}


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
    """Return the store of a statement, a folder if it is unpacked."""
    folder = statement.with_suffix(".zarr")
    return folder if folder.exists() else statement.with_suffix(".zarr.zip")


def refers_to_others(statement: Path) -> bool:
    return "external" in statement.stem


def stated_at(statement: Path, place: dict[str, str]) -> dict[str, Any]:
    """Return what another vector states about the object at a place."""
    other = statement.with_name(Path(place["source"]).name).with_suffix(".json")
    found = json.loads(other.read_text(encoding="utf-8"))["root"]
    for name in place["path"].split("/")[1:]:
        found = {**found["groups"], **found["datasets"]}[name]
    return found


def unpacked(statement: Path, folder: Path) -> Path:
    """Return the place of a statement beside its store and those that vectors refer to, all unpacked."""
    for name in (statement.stem, *REFERRED):
        with zipfile.ZipFile(statement.parent / f"{name}.zarr.zip") as store:
            store.extractall(folder / f"{name}.zarr")
    return folder / statement.name


def read(path: Path) -> dict[str, Any]:
    with ZarrIO(store_of(path), "r") as io:
        return group_of(io.read_builder())


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_vector_is_read_as_it_is_stated(path, tmp_path):
    statement = json.loads(path.read_text(encoding="utf-8"))
    error = statement.get("error")
    if refers_to_others(path):
        path = unpacked(path, tmp_path)
    if error is None:
        assert read(path) == statement["root"]
        assert types_in(store_of(path)) == stated_types(statement.get("specifications", {}))
    elif error["path"] == "/link":
        with pytest.warns(BrokenLinkWarning, match="at /link in"):
            assert read(path) == statement["root"]
    else:
        with pytest.raises(ZarrBackendError) as caught, ZarrIO(store_of(path), "r") as io:
            io.read_builder().datasets["data"].data[:]
        assert error["path"] in str(caught.value)


@pytest.mark.parametrize("path", [path for path in STATEMENTS if path.stem.startswith("link-external")],
                         ids=lambda path: f"{path.parent.name}/{path.stem}")  # fmt: skip
def test_an_external_link_leads_to_what_the_other_vector_states(path, tmp_path):
    links = json.loads(path.read_text(encoding="utf-8"))["root"]["links"]
    outside = {name: place for name, place in links.items() if isinstance(place, dict)}
    with ZarrIO(store_of(unpacked(path, tmp_path)), "r") as io:
        root = io.read_builder()
        for name, place in outside.items():
            target = root.links[name].builder
            found = group_of(target) if isinstance(target, GroupBuilder) else dataset_of(target)
            assert found == stated_at(path, place)
    assert outside


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
