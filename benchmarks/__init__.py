"""Measured comparisons with hdmf-zarr, HDF5 and the physical floors."""
