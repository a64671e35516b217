"""Everything in which two HDMF files differ."""
