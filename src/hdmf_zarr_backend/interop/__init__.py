"""Files for other programs, and files from other programs."""
