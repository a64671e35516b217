"""The Zarr object model: nodes of a hierarchy and their metadata documents. Standard library only."""
