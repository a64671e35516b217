"""Checks whether a file is complete and valid by its schema; and repairs."""
