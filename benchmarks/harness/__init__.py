"""How a figure is made, whatever the work."""
