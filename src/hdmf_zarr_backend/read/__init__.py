"""From a store to nodes, and from nodes to builders."""
