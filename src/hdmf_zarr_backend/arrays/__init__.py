"""Stored arrays: codecs, chunks, shards, the arrays that users index, and changes of them."""
