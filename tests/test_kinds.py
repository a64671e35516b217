"""Every kind of element x format x way: what the test vectors state holds after whatever is done with the file.

A vector of `docs/format/vectors` is a stored file and the statement of what it means: numbers, times, text, references,
rows, links, attributes, shapes, codecs and old forms, in formats 2, 3 and both. Each is read, and made again by its
generator; then each of `WAYS` makes another file of it, it is changed where it is, and the result has to be what is
stated.
"""

import importlib.util
import io
import json
import os
import posixpath
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.spec import NamespaceCatalog
from jsonschema import Draft202012Validator

from hdmf_zarr_backend import ZarrIO, compare, convert, upgrade, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.encoding.references import RegionReference
from hdmf_zarr_backend.errors import ValueRefusedError, ZarrBackendError
from tests.trees import read_builder

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "format" / "vectors"
STATEMENTS = sorted(FOLDER.glob("format-*/*.json"))
WORDS = {"utf": "text", "utf8": "text", "ascii": "ascii", "object": "reference", "region": "reference"}
DOCUMENTS = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
REFERRED = ("link-to-dataset", "link-external-dataset")
"""Vectors to which links of others lead."""


_spec = importlib.util.spec_from_file_location("vectors_make", FOLDER / "make.py")
make = importlib.util.module_from_spec(_spec)


@pytest.fixture(scope="module", autouse=True)
def generator():
    sys.modules[_spec.name] = make
    _spec.loader.exec_module(make)
    yield
    del sys.modules[_spec.name]


def path_of(builder: Any) -> str:
    return "/" if builder.location is None else posixpath.join(builder.location, builder.name)


def place_of(builder: Any, source: str) -> dict[str, Any]:
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
    result = {name: value for name, value in builder.attributes.items() if name != ".specloc"}
    types = {name: kind for name, value in result.items() if (kind := make.type_of(value)) is not None}
    attributes = {"attributes": {name: value_of(value, builder.source) for name, value in result.items()}}
    return {**attributes, "attribute_types": types} if types else attributes


def group_of(builder: GroupBuilder) -> dict[str, Any]:
    datasets = {name: dataset_of(each) for name, each in builder.datasets.items()}
    groups = {name: group_of(each) for name, each in builder.groups.items()}
    places = {name: place_of(each.builder, builder.source) for name, each in builder.links.items()}
    links = {name: location if "source" in location else location["path"] for name, location in places.items()}
    return {**attributes_of(builder), "datasets": datasets, "groups": groups, "links": links}


def stated_types(specifications: dict[str, Any]) -> dict[str, str]:
    sources = [text for versions in specifications.values() for entry in versions.values() for text in entry.values()]
    groups = [group for text in sources for group in json.loads(text).get("groups", [])]
    return {group["data_type_def"]: group["doc"] for group in groups}


def types_in(path: Path) -> dict[str, str]:
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


def stated_at(statement: Path, place: dict[str, str]) -> dict[str, Any]:
    """Return what another vector states about the object at a place."""
    other = statement.with_name(Path(place["source"]).name).with_suffix(".json")
    document = json.loads(other.read_text(encoding="utf-8"))["root"]
    for name in place["path"].split("/")[1:]:
        document = {**document["groups"], **document["datasets"]}[name]
    return document


def unpacked(statement: Path, folder: Path) -> Path:
    """Return the place of a statement beside its store and those that vectors refer to, all unpacked."""
    for name in (statement.stem, *REFERRED):
        with zipfile.ZipFile(statement.parent / f"{name}.zarr.zip") as store:
            store.extractall(folder / f"{name}.zarr")
    return folder / statement.name


def content(path: Path) -> dict[str, Any]:
    return group_of(read_builder(path))


def of(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("path", paths, ids=lambda path: f"{path.parent.name}/{path.stem}")


# ---- as they are -----------------------------------------------------------------------------------------------------
@of(STATEMENTS)
def test_a_vector_is_read_as_it_is_stated(path, tmp_path):
    statement = json.loads(path.read_text(encoding="utf-8"))
    error = statement.get("error")
    if "external" in path.stem:
        path = unpacked(path, tmp_path)
    if error is None:
        assert content(store_of(path)) == statement["root"]
        assert types_in(store_of(path)) == stated_types(statement.get("specifications", {}))
    elif error["path"] == "/link":
        with pytest.warns(BrokenLinkWarning, match="at /link in"):
            assert content(store_of(path)) == statement["root"]
    else:
        with pytest.raises(ZarrBackendError) as caught, ZarrIO(store_of(path), "r") as file:
            file.read_builder().datasets["data"].data[:]
        assert error["path"] in str(caught.value)


@of([path for path in STATEMENTS if path.stem.startswith("link-external")])
def test_an_external_link_leads_to_what_the_other_vector_states(path, tmp_path):
    links = json.loads(path.read_text(encoding="utf-8"))["root"]["links"]
    outside = {name: location for name, location in links.items() if isinstance(location, dict)}
    root = read_builder(store_of(unpacked(path, tmp_path)))
    for name, location in outside.items():
        target = root.links[name].builder
        result = group_of(target) if isinstance(target, GroupBuilder) else dataset_of(target)
        assert result == stated_at(path, location)
    assert outside


def test_each_vector_is_made_by_the_generator():
    result = {f"format-{zarr_format}/{name}" for name, zarr_format, _ in make.vectors()}
    assert {f"{path.parent.name}/{path.stem}" for path in STATEMENTS} == result


@of(STATEMENTS)
def test_a_vector_is_written_byte_by_byte(path):
    number = path.parent.name.removeprefix("format-")
    store, statement = make.made(path.stem, number if number == "both" else int(number), make.cases()[path.stem])
    assert path.read_bytes() == statement
    result, known = stored_in(io.BytesIO(store)), stored_in(path.with_suffix(".zarr.zip"))
    assert result.keys() == known.keys()
    for key, value in result.items():
        assert value == known[key], key


def stored_in(file: Any) -> dict[str, Any]:
    """Return documents as JSON, and chunks of gzip and zlib, which are several libraries, as they decode."""
    with zipfile.ZipFile(file) as store:
        values = {name: store.read(name) for name in store.namelist()}
    return {key: _plain(key, value) for key, value in values.items()}


def _plain(key: str, value: bytes) -> Any:
    if key.rpartition("/")[2] in DOCUMENTS:
        try:
            return json.loads(value)
        except ValueError:
            return value
    try:
        return zlib.decompress(value, wbits=47)
    except zlib.error:
        return value


def test_statements_follow_the_schema():
    schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for path in STATEMENTS:
        document = [error.message for error in validator.iter_errors(json.loads(path.read_text(encoding="utf-8")))]
        assert document == [], path.name
    assert not validator.is_valid({"name": "x", "about": "y", "zarr_format": 4, "root": {}})


# ---- what is done with a file ----------------------------------------------------------------------------------------

WHOLE = [path for path in STATEMENTS if not path.stem.startswith("broken-")]
ALONE = [path for path in WHOLE if "external" not in path.stem and path.stem not in ("specifications", "missing-chunk")]
"""Vectors that are one whole file; a chunk that is missing is refused by all that copies it."""


def stated(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))["root"]


def unpack(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path.with_suffix(".zarr.zip")) as store:
        store.extractall(folder / "source.zarr")
    return folder / "source.zarr"


def export(source: Path, target: Path, zarr_format: Any) -> None:
    with ZarrIO(source, "r") as file, ZarrIO(target, "w", zarr_format=zarr_format) as new:
        new.export(src_io=file)


def convert_zarr(source: Path, target: Path, zarr_format: Any) -> None:
    convert(source, target, to="zarr", zarr_format=zarr_format)
    is_both = (source / ".zgroup").exists() and (source / "zarr.json").exists()
    assert compare(source, target, ignore=("filters",) if is_both else ()) == []


def convert_hdf5(source: Path, target: Path, zarr_format: Any) -> None:
    convert(source, target.with_suffix(".h5"))
    convert(target.with_suffix(".h5"), target, zarr_format=zarr_format)
    assert compare(target.with_suffix(".h5"), target) == []


WAYS = {"export": export, "convert": convert_zarr, "HDF5": convert_hdf5}

REFUSED = ("datetime64", "timedelta64", "attribute-datetime64", "attribute-timedelta64", "attribute-bytes-not-text",
           "bytes")  # fmt: skip
"""What HDF5 has no type for, or no place."""


def for_hdf5(stated: Any) -> Any:
    """Return a statement without the types of attributes: numbers of Python become those of HDF5."""
    if not isinstance(stated, dict):
        return stated
    return {name: for_hdf5(each) for name, each in stated.items() if name != "attribute_types"}


@of(ALONE)
@pytest.mark.parametrize("way", WAYS)
def test_another_file_says_the_same(path, way, tmp_path):
    other = 2 if path.parent.name == "format-3" else 3
    source, target = unpack(path, tmp_path), tmp_path / "target.zarr"
    if way == "HDF5" and path.stem.startswith(REFUSED):
        with pytest.raises(ValueRefusedError):
            WAYS[way](source, target, other)
        return
    WAYS[way](source, target, other)
    result, wanted = content(target), stated(path)
    if way == "HDF5":
        result, wanted = for_hdf5(result), for_hdf5(wanted)
    if way == "HDF5" and path.stem == "link-hard":
        assert (result["datasets"].keys(), result["links"]) == ({"link"}, {"trace": "/link"})  # in the order of names
    else:
        assert result == wanted


@of([path for path in ALONE if path.parent.name == "format-2"])
def test_an_upgraded_file_says_the_same(path, tmp_path):
    source = unpack(path, tmp_path)
    upgrade(source)
    assert content(source) == stated(path)
    assert verify(source).problems == []


@of(ALONE)
def test_datasets_and_attributes_are_added_to_their_file_again(path, tmp_path):
    source = unpack(path, tmp_path)
    with ZarrIO(source, "a") as file:
        root = file.read_builder()
        again = GroupBuilder("again", attributes=dict(root.attributes))
        for name, each in root.datasets.items():
            again.set_dataset(DatasetBuilder(name, each.data, dtype=each.dtype, attributes=dict(each.attributes)))
        root.set_group(again)
        file.write_builder(root, link_data=False)
    result, wanted = content(source), stated(path)
    copy = result["groups"].pop("again")
    assert result == wanted
    assert {**copy, "groups": wanted["groups"], "links": wanted["links"]} == wanted
    assert verify(source).problems == []


def has_elements(path: Path) -> bool:
    data = stated(path)["datasets"].get("data")
    return data is not None and data["shape"] != [] and data["shape"][0] > 0


def takes_its_own_elements(path: Path) -> bool:
    """Tell whether it has neither references nor rows of text, as `tests.contract.test_append_tables` has."""
    data = stated(path)["datasets"].get("data", {})
    is_of_objects = "reference" in str(data.get("type")) or "'text'" in str(data.get("type"))
    return has_elements(path) and not is_of_objects


@of([path for path in ALONE if takes_its_own_elements(path)])
def test_elements_are_changed_and_added(path, tmp_path):
    source, wanted = unpack(path, tmp_path), stated(path)
    with ZarrIO(source, "a") as file:
        data = file.read_builder()["data"].data
        data[0] = data[-1]
        data.append(data[:1])
    changed = wanted["datasets"]["data"]
    changed["values"] = [changed["values"][-1], *changed["values"][1:], changed["values"][-1]]
    changed["shape"][0] += 1
    assert content(source) == wanted
    assert verify(source).problems == []


@of([path for path in ALONE if has_elements(path)])
@pytest.mark.parametrize("index", [0, -1, slice(None), slice(1, None, 2), slice(0, 0), [0]], ids=str)
def test_a_part_of_the_values(path, index):
    data = read_builder(store_of(path))["data"].data
    values = stated(path)["datasets"]["data"]["values"]
    wanted = values[index] if not isinstance(index, list) else [values[i] for i in index]
    assert value_of(data[index], str(store_of(path))) == wanted


@of(WHOLE)
def test_what_inspect_prints(path, capsys):
    assert main(["inspect", str(store_of(path))]) == 0
    printed = capsys.readouterr().out
    root = stated(path)
    names = [name for part in ("datasets", "groups", "links") for name in root[part]]
    assert all(name in printed for name in names) or len(names) > 10
