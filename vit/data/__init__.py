"""Data: files in, batches out; knows nothing of networks."""
