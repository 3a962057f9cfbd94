"""Linear probes on frozen networks."""
