"""Cells of a study as processes, on this machine or on a cluster."""
