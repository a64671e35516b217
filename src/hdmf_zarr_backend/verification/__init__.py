"""Whether a file is whole and true to itself, and what can be mended."""
