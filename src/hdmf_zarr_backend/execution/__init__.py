"""Tasks along the chunks of the target, and the executors that run them."""
