"""Tasks: what differs between images with one class each and images with several labels."""
