"""HDF5 files <-> the model: types, filters, references, raw chunks, virtual files."""
