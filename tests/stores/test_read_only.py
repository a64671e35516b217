"""What can only be read: each operation that would write to a web server ends in the error that says so."""

from collections.abc import Callable
from typing import Any

import pytest

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, consolidate, convert, repair, upgrade
from hdmf_zarr_backend.errors import ReadOnlyStoreError
from hdmf_zarr_backend.interop import add_nczarr
from tests import samples
from tests.places import stored_files

MODES = ("w", "w-", "x", "r+", "a")


def written(path: Any, **options: Any) -> Any:
    return samples.write_zarr(path, samples.plain_nwbfile(), **options)


def export(url: str, tmp_path: Any) -> None:
    with NWBZarrIO(written(tmp_path / "a.nwb.zarr")) as source, NWBZarrIO(url, "w", force_overwrite=True) as io:
        io.export(source)


def to_other_format(url: str, tmp_path: Any, zarr_format: Any) -> None:
    convert(written(tmp_path / "a.nwb.zarr", zarr_format=5 - zarr_format), url, zarr_format=zarr_format)


def from_hdf5(url: str, tmp_path: Any, **options: Any) -> None:
    convert(samples.write_hdf5(tmp_path / "a.nwb", samples.plain_nwbfile()), url, **options)


OPERATIONS: dict[str, Callable[[str, Any], Any]] = {
    **{f"mode {mode}": lambda url, _, mode=mode: ZarrIO(url, mode) for mode in MODES},
    **{f"mode {mode} of NWB": lambda url, _, mode=mode: NWBZarrIO(url, mode) for mode in MODES},
    "write": lambda url, _: written(url),
    "export to": export,
    "convert from HDF5 to": from_hdf5,
    "convert from HDF5 to, with force": lambda url, path: from_hdf5(url, path, overwrite=True),
    "convert from format 2 to": lambda url, path: to_other_format(url, path, 3),
    "convert from format 3 to": lambda url, path: to_other_format(url, path, 2),
    "convert virtually to": lambda url, _: convert(f"{url.rpartition('/')[0]}/source.nwb", f"{url}.json", to="virtual"),
    "upgrade": lambda url, _: upgrade(url),
    "repair": lambda url, _: repair(url),
    "consolidate": lambda url, _: consolidate(url),
    "add_nczarr": lambda url, _: add_nczarr(url),
}
"""Whatever would change the file at a URL."""


@pytest.mark.parametrize(
    ("operation", "zarr_format"),
    [(name, number) for name in OPERATIONS for number in (2, 3) if name != "upgrade" or number == 2],
)
def test_nothing_is_written_to_a_web_server(web, tmp_path, operation, zarr_format):
    written(web.folder / "file.nwb.zarr", zarr_format=zarr_format)
    samples.write_hdf5(web.folder / "source.nwb", samples.plain_nwbfile())
    before = stored_files(web.folder)
    with pytest.raises(ReadOnlyStoreError, match=r"read.only") as caught:
        OPERATIONS[operation](f"{web.url}/file.nwb.zarr", tmp_path)
    assert caught.value.store.startswith(f"{web.url}/file.nwb.zarr")
    assert caught.value.remedy
    assert stored_files(web.folder) == before
