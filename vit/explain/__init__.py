"""Explanations: maps of what a network looked at, and a measure of how far each map is true."""
