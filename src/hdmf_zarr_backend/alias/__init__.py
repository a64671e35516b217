"""The package under the name ``hdmf_zarr``, for code that imports a module of that name; only on request."""

from hdmf_zarr_backend.alias.installing import install_hdmf_zarr_alias

__all__ = ["install_hdmf_zarr_alias"]
