"""Moving values into stored arrays: sources, iterators, plans, the writer, staging and resuming."""
