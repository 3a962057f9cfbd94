"""Commands that measure networks and data: evaluate, data."""
