"""How fast: one step against the least it could cost, and how that grows."""
