"""Whether a file is whole, valid by its schema and conforming to Zarr, and the repair of what is not."""
