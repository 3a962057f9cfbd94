"""Training: a recipe becomes a plan, and a plan becomes a run folder."""
