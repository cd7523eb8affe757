"""Algorithm 1: where chains begin, how they move, and a whole run from start to the last draw."""
