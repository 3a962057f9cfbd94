"""Tracking: what goes to Weights & Biases, TensorBoard and MLflow, and a training that does not end with them"""
