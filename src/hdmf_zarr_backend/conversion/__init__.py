"""Conversions of files: HDF5 to Zarr and back, virtual files, and Zarr format 2 to format 3."""
