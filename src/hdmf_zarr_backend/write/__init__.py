"""From builders to a plan, and from a plan to a store."""
