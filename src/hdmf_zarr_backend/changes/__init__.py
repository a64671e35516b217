"""Changes of a file that exists: one writer, a journal, and recovery after a crash."""
