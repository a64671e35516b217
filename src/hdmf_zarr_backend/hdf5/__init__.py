"""HDF5 files <-> the model: types, filters, references, raw chunks, virtual files. h5py is imported on use."""
