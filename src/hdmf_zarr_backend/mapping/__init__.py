"""HDMF's words and Zarr's words for the same things. Pure: no store is touched here."""
