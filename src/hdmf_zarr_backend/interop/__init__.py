"""Datasets and files for other programs: netCDF, TensorStore, xarray and dask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["add_nczarr", "open_netcdf", "tensorstore_spec", "to_dask", "to_datatree", "to_xarray"]

if TYPE_CHECKING:
    from hdmf_zarr_backend.interop.datasets import tensorstore_spec, to_dask
    from hdmf_zarr_backend.interop.labelled import to_datatree, to_xarray
    from hdmf_zarr_backend.interop.netcdf import add_nczarr, open_netcdf

_MODULES = {
    "add_nczarr": "netcdf",
    "open_netcdf": "netcdf",
    "tensorstore_spec": "datasets",
    "to_dask": "datasets",
    "to_datatree": "labelled",
    "to_xarray": "labelled",
}


def __getattr__(name: str) -> Any:
    """Load a name on first use: a dataset of dask must not load the modules that change files."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
