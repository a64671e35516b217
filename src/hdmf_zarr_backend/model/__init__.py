"""The model of a file: nodes, elements, locations, and facts for comparing. Standard library and NumPy only."""
