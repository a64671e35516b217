"""What HDF5 says and Zarr must not forget. h5py is imported on use."""
