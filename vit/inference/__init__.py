"""Inference: a network applied to files, one row per file, with metrics and calibration."""
