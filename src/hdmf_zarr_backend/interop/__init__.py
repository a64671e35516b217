"""Datasets and files for other programs: netCDF, TensorStore, xarray and dask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["add_nczarr", "open_netcdf", "tensorstore_spec", "to_dask", "to_xarray"]

if TYPE_CHECKING:
    from hdmf_zarr_backend.interop.nczarr import add_nczarr
    from hdmf_zarr_backend.interop.netcdf import open_netcdf
    from hdmf_zarr_backend.interop.tensorstore import tensorstore_spec
    from hdmf_zarr_backend.interop.xarray import to_dask, to_xarray

_MODULES = {
    "add_nczarr": "nczarr",
    "open_netcdf": "netcdf",
    "tensorstore_spec": "tensorstore",
    "to_dask": "xarray",
    "to_xarray": "xarray",
}


def __getattr__(name: str) -> Any:
    """Load a name on first use: a dataset of dask must not load the modules that change files."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
