"""The format page agrees with what the library writes: each JSON example, each table, and some sentences.

After a change of the format: ``python docs/_scripts/format_page.py``, and read what it has changed.
"""

import base64
import json
import re
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hdmf.backends.warnings import BrokenLinkWarning

from hdmf_zarr_backend import convert
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, DTYPE, FORMAT_VERSION, NOTES
from tests.everything import write_everything

SCRIPT = "format_page"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "format" / "format-2.md"
PAGE_3 = PAGE.with_name("format-3.md")
REPAIR = "run: python docs/_scripts/format_page.py"

_FENCE = re.compile(r"^```\S*.*$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("format")
    script.write_examples(folder)
    return folder


@pytest.fixture(scope="module")
def arrays(folder: Path) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """``{path: (.zarray, .zattrs)}`` of all arrays of the example files, by their path in the folder."""
    return {
        path.parent.relative_to(folder).as_posix(): (
            json.loads(path.read_text(encoding="utf-8")),
            json.loads((path.parent / ".zattrs").read_text(encoding="utf-8")),
        )
        for path in sorted(folder.rglob(".zarray"))
    }


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [PAGE.name, PAGE_3.name])
def test_every_block_of_json_is_an_example(script, name):
    text = PAGE.with_name(name).read_text(encoding="utf-8")
    captions = [caption for caption, _ in script.captions(text)]
    assert len([fence for fence in _FENCE.findall(text) if "js" in fence]) == len(captions) == len(set(captions)) > 8


def test_what_the_note_of_format_3_may_say_is_on_a_page(folder):
    listed = set(re.findall(r"`(\w+)`", PAGE_3.read_text(encoding="utf-8") + page().split("## The note")[1]))
    documents = [json.loads(path.read_text("utf-8")) for path in folder.rglob("zarr.json")]
    used = {key for entry in documents for key in entry["attributes"].get(NOTES, {})}
    assert {"version", "escaped", "attributes", "text", "maxshape", "dims", "hdf5"} <= used <= listed


def test_the_pages_are_as_the_script_makes_them(script, folder):
    for path, text in script.pages(folder).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {REPAIR}"


def test_the_version_is_in_the_root_of_every_file(folder):
    roots = {path.parent.name: json.loads(path.read_text("utf-8")) for path in folder.glob("*/.zattrs")}
    assert set(roots) == {"session.zarr", "raw.zarr", "small.zarr", "strict.zarr"}
    assert {attributes[NOTES]["version"] for attributes in roots.values()} == {FORMAT_VERSION}
    assert f"Version: **{FORMAT_VERSION}**" in page()
    assert f"| {FORMAT_VERSION} |" in page().split("## Changes")[1]


def test_what_holds_for_every_array(arrays):
    assert len(arrays) > 15
    for path, (document, attributes) in arrays.items():
        assert document["order"] == "C", path
        assert document["fill_value"] is None, path
        assert "dimension_separator" not in document, path
        if path.endswith("/counts"):  # those of the dataset of HDF5 that it was
            assert document["filters"] == [{"id": "shuffle", "elementsize": 2}], path
        else:
            assert (document["filters"] is None) == (document["dtype"] != "|O"), path
        assert DTYPE in attributes, path
        assert len(attributes[DIMENSIONS]) == len(document["shape"]) == len(set(attributes[DIMENSIONS])), path
        if attributes[DTYPE] == "scalar" or attributes.get(NOTES, {}).get("scalar"):
            assert (document["shape"], document["compressor"]) == ([1], None), path


def test_every_chunk_of_the_grid_is_stored(folder, arrays):
    for path, (document, _) in arrays.items():
        grid = [-(-length // chunk) for length, chunk in zip(document["shape"], document["chunks"], strict=True)]
        names = {""}
        for count in grid:
            names = {f"{name}.{index}" for name in names for index in range(count)}
        stored = {key.name for key in (folder / path).iterdir() if not key.name.startswith(".z")}
        assert stored == {name[1:] for name in names}, path


def test_inlined_chunks_are_stored_as_well(folder, script):
    block = script.example(folder, "session.zarr/.zmetadata")["hdmf_inline"]
    assert block["version"] == 1
    assert {"arrays/number/0", "arrays/date/0", "specifications/lab/1.2.0/namespace/0"} <= block["chunks"].keys()
    for key, coded in block["chunks"].items():
        assert (folder / "session.zarr" / key).read_bytes() == base64.b64decode(coded), key


def test_what_the_note_may_say_is_in_its_table(arrays, folder):
    table = page().split("## The note")[1].split("###")[0]
    listed = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    attributes = [json.loads(path.read_text("utf-8")) for path in folder.rglob(".zattrs")]
    used = {key for entry in attributes for key in entry.get(NOTES, {})}
    assert used <= listed
    assert {"version", "escaped", "attributes", "text", "scalar", "rows", "maxshape", "dims", "hdf5"} <= used
    # one needs a schema, the other a store without a rename: see the tests of the writer and of the stores
    assert listed - used == {"doc", "writing"}


@pytest.fixture(scope="module")
def hdf5_notes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is noted of each object of an HDF5 file with about everything that HDF5 has."""
    folder = tmp_path_factory.mktemp("everything")
    with warnings.catch_warnings(action="ignore", category=BrokenLinkWarning):  # it has broken links as well
        convert(write_everything(folder / "everything.h5"), folder / "everything.zarr", check=False)
    attributes = [json.loads(path.read_text("utf-8")) for path in sorted(folder.rglob(".zattrs"))]
    return [entry[NOTES]["hdf5"] for entry in attributes if "hdf5" in entry.get(NOTES, {})]


def first_cells(section: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE))))


def test_notes_about_hdf5_are_in_the_tables(hdf5_notes):
    section = page().split("### What an object was in HDF5")[1].split("### HDF5 types")[0]
    dataset, attribute, group = re.split(r"^Of .*:$|^Of any object, .*$", section, flags=re.MULTILINE)[1:]
    keys = {key for note in hdf5_notes for key in note}
    remarks = {key for note in hdf5_notes for remark in note.get("attributes", {}).values() for key in remark}
    assert keys == first_cells(dataset) | first_cells(group)
    assert remarks == first_cells(attribute)
    links = [form for note in hdf5_notes for form in note.get("links", {}).values()]
    assert {form if isinstance(form, str) else "+".join(sorted(form)) for form in links} <= {
        "hard", "soft", "path+source",
    }  # fmt: skip


def test_types_of_hdf5_are_in_their_table(hdf5_notes):
    table = page().split("### HDF5 types")[1].split("## ")[0]
    listed = set(re.findall(r'"(\w+)"', table)) | {"fields", "bias", "offsets", "size"}
    words, stack = set(), [remark["type"] for note in hdf5_notes for remark in _typed(note)]
    while stack:
        kind = stack.pop()
        if isinstance(kind, str):
            words |= {kind} if kind[0].isalpha() else set()
            continue
        words |= kind.keys()
        stack += [kind[key] for key in ("base", "array", "sequence", "complex") if key in kind]
        stack += [field[1] for field in kind.get("fields", ()) if isinstance(field, list)]
    assert words <= listed
    assert {"object", "region", "text", "enum", "bitfield", "number", "fields", "array", "sequence"} <= words


def _typed(note: dict[str, Any]) -> list[dict[str, Any]]:
    result = [note, *note.get("attributes", {}).values()]
    for datatype in note.get("datatypes", {}).values():
        result += [datatype, *datatype.get("attributes", {}).values()]
    return [remark for remark in result if "type" in remark]
