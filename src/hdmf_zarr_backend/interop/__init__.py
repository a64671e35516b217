"""Datasets and files for other programs: netCDF, TensorStore, xarray and dask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["add_nczarr", "open_netcdf", "tensorstore_spec", "to_dask", "to_xarray"]

if TYPE_CHECKING:
    from hdmf_zarr_backend.interop.datasets import tensorstore_spec, to_dask, to_xarray
    from hdmf_zarr_backend.interop.netcdf import add_nczarr, open_netcdf


def __getattr__(name: str) -> Any:
    """Load a name on first use: a dataset of dask must not load the modules that change files."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "netcdf" if name in ("add_nczarr", "open_netcdf") else "datasets"
    return getattr(import_module(f"{__name__}.{module}"), name)
