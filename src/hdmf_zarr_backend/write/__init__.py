"""Plans, sources of values, and tasks: how stored arrays are written."""
