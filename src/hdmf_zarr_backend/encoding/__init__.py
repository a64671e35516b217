"""What elements are outside of the model: types of HDF5, JSON, chunks of objects, and all forms of references."""
