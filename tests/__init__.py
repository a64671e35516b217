"""Tests of hdmf-zarr-backend; the folders below mirror the package."""
