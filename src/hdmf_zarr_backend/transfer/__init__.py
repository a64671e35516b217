"""Writing values to stored arrays: sources, iterators, plans, the writer, resuming."""
