"""Checks whether a file is complete, valid by its schema and conforming to Zarr; and repairs."""
