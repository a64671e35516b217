"""Encodings of the model: Zarr 2, Zarr 3, LINDI, NCZarr, HDF5's types and values, codecs. `parser` reads a file."""
