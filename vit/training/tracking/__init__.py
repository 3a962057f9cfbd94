"""Tracking: what goes to Weights & Biases, and a training that does not end with it"""
