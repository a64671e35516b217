"""Other people's tests, run against this project: pynwb's and hdmf's tests of HDF5 files, and hdmf-zarr's own."""
