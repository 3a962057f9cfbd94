"""A study: a grid of runs, and what they say together."""
