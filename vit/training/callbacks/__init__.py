"""Callbacks: what happens around a training step (metrics, checkpoints, NaN, unreadable images)"""
