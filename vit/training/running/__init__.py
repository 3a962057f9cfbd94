"""What surrounds the loop: retries, checkpoints, images of the run, its result."""
