"""Metrics of measured images."""
