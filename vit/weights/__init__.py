"""Pretrained weights: found, read safely, matched to a network, resampled."""
