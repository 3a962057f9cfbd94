"""Distributed training: several processes, their rendezvous point, devices and sharded weights."""
