"""How work is cut into tasks, and who runs them."""
