"""Which tests run over both formats of Zarr, and which of their modules are about one format, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hdmf_zarr_backend.mapping import formats

MODULES = frozenset(
    {
        "tests.test_io",
        "tests.test_conversion",
        "tests.contract.test_1_append",
        "tests.contract.test_2_links_and_references",
        "tests.contract.test_3_region_references",
        "tests.contract.test_4_types",
        "tests.contract.test_5_dimension_labels",
        "tests.contract.test_6_iterators",
        "tests.contract.test_7_specs",
        "tests.contract.test_8_neighbours",
        "tests.contract.test_found_by_the_suites",
        "tests.contract.test_roundtrip_property",
    }
)
"""Modules whose tests write new files in both formats, where they do not say in which."""

_ON_DISK = "looks at files and documents by their names in format 2"
_IDS = "in format 3 a reference in a dataset is a path and no more"
_CODEC = "format 3 knows one codec of references"
_SHARED = "changes a file that its module makes once, which is of format 2"
_OLD = "changes a file into an older form, which was of format 2"

OF_FORMAT_2 = {
    "test_the_codec_of_references_is_the_users_choice": _CODEC,
    "test_how_arrays_are_stored": _ON_DISK,
    "test_strict_json": _ON_DISK,
    "test_where_specifications_are": _ON_DISK,
    "test_each_document_is_one_scalar": _ON_DISK,
    "test_specloc_in_its_old_forms": _OLD,
    "test_an_extension_that_is_passed": _ON_DISK,
    "test_the_newest_of_several_cached_versions_counts": _ON_DISK,
    "test_the_newest_by_version_and_not_the_last_by_name": _ON_DISK,
    "test_a_cached_specification_that_is_no_json_is_an_error": _ON_DISK,
    "test_it_stays_through_an_append": _SHARED,
    "test_links_and_references_carry_the_ids": _IDS,
    "test_a_reference_in_a_dataset_to_another_object_than_was_meant": _IDS,
}
"""Tests of those modules that are about format 2, with the reason."""


@pytest.fixture
def zarr_format(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The Zarr format in which new files are written, where nothing else is said."""
    number = request.param
    monkeypatch.setattr(formats, "DEFAULT_FORMAT", number)
    yield number


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of `MODULES` once for each format; those with hdmf-zarr 0.13, which reads format 2 alone, once."""
    if metafunc.module.__name__ not in MODULES or metafunc.function.__name__ in OF_FORMAT_2:
        return
    if "peer013" in metafunc.fixturenames:
        return
    if "zarr_format" not in metafunc.fixturenames:
        metafunc.fixturenames.insert(0, "zarr_format")
    metafunc.parametrize("zarr_format", [2, 3], ids=["format2", "format3"], indirect=True)
