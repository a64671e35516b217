"""One Zarr file: documents read from a store into the model, its outline, its session, its contents for comparison."""
