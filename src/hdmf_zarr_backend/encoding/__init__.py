"""What elements look like on disk: one module for each kind, with all its encodings."""
