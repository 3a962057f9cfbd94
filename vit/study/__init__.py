"""Studies: a grid of runs, and the statistics over them."""
