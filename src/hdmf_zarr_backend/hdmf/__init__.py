"""HDMF builders <-> the model: reading, planning a write, and the difference of an append."""
