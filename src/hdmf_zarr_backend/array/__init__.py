"""Stored arrays: chunks, shards, the arrays that users index, changes of them, and contents for comparing."""
