"""The package under the name ``hdmf_zarr``, for code that looks for a module of that name; only on request."""
