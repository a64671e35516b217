"""Stores, chunks and lazy arrays. The only rooms that import zarr."""
