"""Whether a file is what its schema says, told from its metadata alone."""
