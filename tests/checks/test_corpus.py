"""`validate` of real NWB files that were converted says what ``pynwb.validate`` says, of HDF5 and of Zarr."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hdmf_zarr_backend import convert, validate
from hdmf_zarr_backend.checks.json_schema import describe, json_schema_for
from hdmf_zarr_backend.errors import MetadataError
from tests.checks import oracle
from tests.checks.oracle import Oracle, Verdict

#: some of each kind: old and new, with an extension, from MATLAB, with links, not valid
SAMPLE = (
    "matnwb__link_test.nwb",
    "nwbexplorer__test_timestamps_linking.nwb",
    "pynwb__1.0.2_str_experimenter.nwb",
    "pynwb__1.2.1_extension.nwb",
    "pynwb__1.5.1_timeseries_no_unit.nwb",
)


def ours(path: Path, **options: Any) -> Verdict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return oracle.of(validate(path, **options))
        except MetadataError as error:
            return Verdict(None, str(error))


def assert_agreement(source: Path, folder: Path) -> tuple[Path, Verdict]:
    """Compare what is said of a file, by pynwb of it in HDF5 and by us of it in Zarr; return the latter."""
    path = folder / f"{source.name}.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # links to nothing are kept
        convert(source, path, check=False)
    expected, found = oracle.of_hdf5(source), ours(path)
    assert found.is_valid == expected.is_valid, (source.name, found, expected)
    if expected.places is not None:  # else pynwb gave up
        assert found.places == expected.places, source.name
    return path, found


@pytest.mark.corpus
@pytest.mark.parametrize("name", SAMPLE)
def test_some_real_files(name: str, nwbfiles: list[Path], tmp_path: Path) -> None:
    (source,) = [path for path in nwbfiles if path.name == name]
    assert_agreement(source, tmp_path)


@pytest.mark.corpus
@pytest.mark.slow
def test_all_real_files(nwbfiles: list[Path], tmp_path: Path) -> None:
    """By pynwb in HDF5 and in Zarr, by us from the metadata and in full."""
    valid = 0
    for source in nwbfiles:
        path, found = assert_agreement(source, tmp_path)
        valid += found.is_valid
        if found.places is not None:
            assert ours(path, full=True).is_valid == Oracle(path).of(path).is_valid == found.is_valid, source.name
    assert len(nwbfiles) > 50
    assert 10 < valid < len(nwbfiles) - 10


# jsonschema looks at what many links point to as often as they do, and takes minutes where we take milliseconds
LARGE = 150_000


@pytest.mark.corpus
@pytest.mark.slow
def test_all_real_files_as_json_schema(nwbfiles: list[Path], tmp_path: Path) -> None:
    number = 0
    for source in nwbfiles:
        path = tmp_path / f"{source.name}.zarr"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # links to nothing are kept
            convert(source, path, check=False)
        found, document = ours(path), describe(path)
        if found.places is None or len(json.dumps(document)) > LARGE:
            continue
        # one at a time: a file is valid if it is so by each of its namespaces
        result = validate(path)
        schemas = [json_schema_for(path, name, use_cached=result.cached) for name in result.namespaces]
        assert all(Draft202012Validator(schema).is_valid(document) for schema in schemas) == found.is_valid, source.name
        number += 1
    assert number > 45
