"""Distributed training: several processes, their meeting point, devices and sharded weights."""
