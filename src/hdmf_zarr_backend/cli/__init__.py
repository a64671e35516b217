"""The command line, `zarrio`."""
