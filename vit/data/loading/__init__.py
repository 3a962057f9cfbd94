"""Loaders: order, workers, caches, batches."""
