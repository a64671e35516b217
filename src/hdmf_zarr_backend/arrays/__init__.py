"""Stored arrays: codecs, chunks, shards, and the arrays that users index."""
