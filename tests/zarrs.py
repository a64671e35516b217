"""zarr-python as an independent reader and writer in tests, version 2 and version 3 alike.

Tests that call what only version 3 has are skipped where version 2 is installed: single ones by `needs_zarr_3`, those
of `PARTS`, and the modules of `NEED_ZARR_3`, which may not even be imported there.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zarr

IS_ZARR_2 = zarr.__version__.startswith("2.")

REASON = "zarr-python 2 is installed, and this calls what only version 3 has"

needs_zarr_3 = pytest.mark.skipif(IS_ZARR_2, reason=REASON)

NEED_ZARR_3 = frozenset(
    {
        "tests/interop/test_orders.py",
        "tests/storage/test_zarr_plugin.py",
        "tests/stores/test_icechunk.py",
        "tests/stores/test_locations.py",
    }
)
"""Modules of tests of what zarr-python 3 brings: what it wrote in format 3, its registry of data types, Icechunk."""

PARTS = re.compile(
    r"tests/interop/test_plain_readers"
    r"|tests/interop/test_matrix\.py::.*(xarray|pydantic-zarr)"
    r"|tests/write/.*(zarr_python|others_read_what_a_conversion_sharded|the_executor_encodes)"
    r"|tests/checks/test_strays\.py::test_the_document_of_an_array_with_slashes"
    r"|tests/checks/test_repair\.py::(test_a_change_of_another_program|test_what_is_new_is_seen)"
    r"|tests/checks/test_verify\.py::(test_what_zarr_consolidates|test_shards)"
    r"|tests/compare/test_zarr\.py::test_a_cached_specification_keeps"
    r"|tests/contract/test_1_append\.py::(test_an_index_grows_beyond_its_type|test_a_table_of_two_rows).*\[3"
    r"|tests/hostile/test_our_errors\.py::(test_more_axes_than_numpy_has|test_shards_of_2_to_the_50_chunks)"
    r"|tests/suites/test_suites\.py::test_a_sample_of_a_suite"
    r"|tests/test_bad_input\.py::(test_a_zarr_file_of_another_program|test_links_in_a_circle)"
    r"|tests/test_bad_input\.py::test_any_hdmf_zarr_file_is_replaced"
    r"|tests/test_both\.py::test_zarr_python_opens_it"
    r"|tests/test_conversion\.py::(test_chunks_of_zarr_that|test_files_of_plain_zarr|test_text_that_hdf5)"
    r"|tests/test_existing_targets\.py::test_a_conversion_to_a_link_is_resumed"
    r"|tests/test_inlined_block\.py::test_a_file_that_zarr_consolidated_again"
    r"|tests/test_io\.py::(test_an_io_knows_what_it_is|test_compressor)\[3"
    r"|tests/test_project\.py::test_an_entry_point_leads_somewhere\[hdmf_zarr_backend"
    r"|tests/test_virtual\.py::(test_all_kinds|test_the_last_chunk_does_not|test_xarray_reads_it|test_over_http)"
    r"|tests/write/test_chunk_keys\.py::test_written_read_and_changed"
    r"|tests/stores/.*[\[-]obstore\]"
    r"|tests/stores/test_kinds\.py::(test_zarr_itself_sees_the_file|test_zarr_reads_a_zip_file|test_a_zip_store_is_read_that)"
    r"|tests/stores/test_keys\.py::(test_a_place_in_a_store|test_local_folders_are_made_whoever_opens_them\[.*store\])"
    r"|tests/contract/test_converted_dimensions\.py::test_a_converted_file_has_the_names"
    r"|tests/contract/test_dates\.py::(test_what_zarr_writes|test_dates_come_back)"
    r"|tests/contract/test_as_with_hdf5io\.py::(test_text_of_an_array|test_an_array_that_zarr_itself)"
    r"|tests/contract/test_as_with_hdf5io\.py::test_cached_namespaces_by_version\[3"
    r"|tests/test_docs_gallery\.py::.*\[plot_(other_tools|write|verify_and_repair)\]"
    r"|tests/test_docs_howto\.py::.*\[docs/how-to/(look|other-tools|stores|validate|verify)\.md\]"
)
"""Cases by their names: readers that open these files by way of zarr-python 3, its own stores, those of obstore."""


def skip_what_needs_zarr_3(items: list[pytest.Item]) -> None:
    for item in items:
        if IS_ZARR_2 and PARTS.match(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=REASON))


class _Skipped(pytest.Module):
    def collect(self) -> Iterable[Any]:
        pytest.skip(REASON, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Any:
    """Skip the modules of `NEED_ZARR_3` under version 2."""
    name = module_path.relative_to(parent.config.rootpath).as_posix()
    return _Skipped.from_parent(parent, path=module_path) if IS_ZARR_2 and name in NEED_ZARR_3 else None


def value_of(store: Any, key: str) -> bytes:
    return bytes(store[key]) if IS_ZARR_2 else bytes(store._store_dict[key].to_bytes())


def open_array(store: Any, mode: Any = "r", **options: Any) -> Any:
    return zarr.open_array(store, mode=mode, **options, **({} if IS_ZARR_2 else {"zarr_format": 2}))


def open_group(store: Any, mode: Any = "r", zarr_format: int | None = None) -> Any:
    """Return a group without the consolidated document; one of format 3 skips the test under version 2."""
    if not IS_ZARR_2:
        return zarr.open_group(store, mode=mode, zarr_format=zarr_format, use_consolidated=False)
    if zarr_format == 3:
        pytest.skip(REASON)
    return zarr.open_group(store, mode=mode)
