"""Exports: a trained network in another format, compared with the checkpoint before it is kept."""
