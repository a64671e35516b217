"""Conversions of whole files: HDF5 to Zarr and back, virtual files, and format 2 to format 3."""
