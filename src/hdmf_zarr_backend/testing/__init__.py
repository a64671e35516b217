"""A state machine of random histories of a file, to test other stores and encodings; needs hypothesis."""
