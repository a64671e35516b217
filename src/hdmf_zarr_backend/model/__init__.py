"""The model of a file: nodes, elements, sources of links, content for comparing. Standard library and NumPy only."""
