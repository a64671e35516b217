"""Tasks that write chunks, and the executors that run them."""
