"""Encodings of the model: Zarr 2, Zarr 3, LINDI, NCZarr and TensorStore metadata. Does not access stores."""
