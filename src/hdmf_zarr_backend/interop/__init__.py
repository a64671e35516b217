"""Other programs that read these files, or whose files are read here."""
