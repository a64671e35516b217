"""What JavaScript makes of our files: `JSON.parse` of each document, and zarrita with the consolidated one."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate
from hdmf_zarr_backend.errors import DroppedChangesWarning, UsageError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.options import WriteOptions
from tests import samples
from tests.interop.exchange import arrays_in
from tests.interop.test_matrix import GAPS, NO_JSON, ask_zarrita, is_odd_for_zarrita, write_matrix_file
from tests.javascript import run_node
from tests.options import arguments
from tests.places import stored_files
from tests.trees import edit_builder, read_builder, write_builder

pytestmark = pytest.mark.peer

_PARSE = """
import fs from "node:fs";
const reported = {};
for (const name of JSON.parse(fs.readFileSync(0, "utf8"))) {
  try {
    reported[name] = JSON.parse(fs.readFileSync(name, "utf8"));
  } catch (error) {
    reported[name] = String(error);
  }
}
console.log(JSON.stringify(reported));
"""
DOCUMENTS = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json"})


def documents(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.name in DOCUMENTS)


def not_parsed(store: Path, folder: Path) -> set[str]:
    paths = documents(store)
    reported = run_node(_PARSE, folder, told=[str(path) for path in paths])
    assert len(reported) == len(paths)
    return {Path(name).relative_to(store).as_posix() for name, value in reported.items() if not isinstance(value, dict)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, bool], Path]:
    """Writes the file of the matrix, once for each format and strictness; who changes it changes a copy."""

    @cache
    def write(zarr_format: int, strict: bool) -> Path:
        folder = tmp_path_factory.mktemp("javascript")
        return write_matrix_file(folder / "rich.zarr", strict_json=strict, zarr_format=zarr_format)

    return write


def written_odd(path: Path, **options: Any) -> Path:
    nan, inf = float("nan"), float("inf")
    attributes = samples.attribute_values() | {
        "list": [1.0, nan], "nested": [[inf], [-inf]], "dict": {"a": {"b": [nan, 1]}}, "text": "NaN",
        "half": np.float16(inf), "complex": complex(nan, -inf), "row": np.array((1, nan), "i4,f8"),
    }  # fmt: skip
    root = GroupBuilder("root", datasets=samples.dataset_builders())
    root.set_group(GroupBuilder("attributes", attributes=attributes))
    for fill in (nan, inf, -inf):
        data = ZarrDataIO(np.arange(3.0), fillvalue=fill)
        root.set_dataset(DatasetBuilder(f"fill {fill}", data, attributes={"conversion": fill}))
    root.set_group(GroupBuilder("inner", attributes={"offset": np.array([nan, 1], "f4")}))
    return write_builder(path, root, **arguments(**options))


def test_every_document_is_strict_json(written, tmp_path, zarr_format):
    odd = written_odd(tmp_path / "odd.zarr", strict_json=True, zarr_format=zarr_format)
    for path in (odd, written(zarr_format, True)):
        assert len(documents(path)) > 50
        assert not_parsed(path, tmp_path / "js") == set(), path.name


@pytest.mark.parametrize(("zarr_format", "own", "whole"), [(2, ".zattrs", ".zmetadata"), (3, "zarr.json", "zarr.json")])
def test_what_is_no_strict_json_is_noticed(written, tmp_path, zarr_format, own, whole):
    """Just the documents with such numbers, and the consolidated one, which holds them all."""
    series = {f"acquisition/ndx-{name}/data/{own}" for name in ("probe", "arena")}
    assert not_parsed(written(zarr_format, False), tmp_path / "js") == {whole, *series}


def add_more(path: Path) -> None:
    with edit_builder(path, write_options=WriteOptions(strict_json=True)) as root:
        root["fill inf"].data.append(np.array([3.0]))
        root.set_dataset(DatasetBuilder("more", np.arange(3.0), attributes={"offset": float("nan")}))


def test_what_changes_a_strict_file_keeps_it_strict(tmp_path, zarr_format):
    path = written_odd(tmp_path / "odd.zarr", strict_json=True, zarr_format=zarr_format)
    add_more(path)
    if zarr_format == 2:
        add_nczarr(path, write_options=WriteOptions(strict_json=True))
    consolidate(path)
    assert not_parsed(path, tmp_path / "js") == set()
    root = read_builder(path)
    assert np.isnan(root["more"].attributes["offset"])
    assert root["fill inf"].attributes["conversion"] == np.inf
    assert root["fill inf"].data[:].tolist() == [0, 1, 2, 3]


def test_a_file_with_tokens_does_not_become_strict_by_the_way(tmp_path):
    """One error before anything is changed; an export makes it strict."""
    path = written_odd(tmp_path / "odd.zarr")
    before = stored_files(path)
    with pytest.warns(DroppedChangesWarning), pytest.raises(UsageError, match="not strict JSON") as caught:
        add_more(path)
    assert (caught.value.store, caught.value.path) == (str(path), "/attributes")
    with pytest.raises(UsageError, match="not strict JSON"):
        add_nczarr(path, write_options=WriteOptions(strict_json=True))
    assert stored_files(path) == before
    strict = tmp_path / "strict.zarr"
    with ZarrIO(path, "r") as io, ZarrIO(strict, "w", write_options=WriteOptions(strict_json=True)) as out:
        out.export(io)
    assert not_parsed(strict, tmp_path / "js") == set()
    assert np.isnan(read_builder(strict)["inner"].attributes["offset"][0])


def test_zarrita_reads_the_consolidated_document_and_every_array_that_it_can_type(written, zarr_format):
    path = written(zarr_format, True)
    arrays = arrays_in(path)
    expected = {location for location, data in arrays.items() if not is_odd_for_zarrita(data)}
    reported = ask_zarrita(path, arrays, consolidated=True)
    print(f"\nformat {zarr_format}, {len(reported['arrays'])} of {len(arrays)} arrays, consolidated")  # noqa: T201 - the count
    assert expected - reported["arrays"].keys() == set()
    assert set(reported["listed"]) == set(arrays)


def test_the_consolidated_document_of_a_default_file_is_none_for_zarrita(written, zarr_format):
    """One NaN in one attribute spoils it; the reason is in `GAPS`."""
    path = written(zarr_format, False)
    assert NO_JSON in GAPS["zarrita", zarr_format][1]
    with pytest.raises(AssertionError, match="JSON"):
        ask_zarrita(path, arrays_in(path), consolidated=True)
