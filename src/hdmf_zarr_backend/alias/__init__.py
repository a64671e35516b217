"""The package under the name ``hdmf_zarr``, for code that imports a module of that name; only on request."""
