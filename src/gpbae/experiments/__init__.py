"""Experiments: each one a value (its settings) and a function that turns it into numbers, pictures and a page."""
