"""The page of a run, and of an evaluation."""
