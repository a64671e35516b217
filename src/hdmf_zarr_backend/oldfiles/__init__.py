"""Pickles in files of hdmf-zarr up to 0.13, read without running them."""
