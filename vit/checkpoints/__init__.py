"""Checkpoints and run folders: their format, their file names, safe reading and durable writing."""
