"""Stores: keys and bytes of one Zarr file, wherever it is."""
