"""One Zarr file: its documents read from a store into the model, its outline, and its contents for comparison."""
