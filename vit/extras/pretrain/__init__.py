"""Pretraining: learning from images without labels, and the backbone that is kept"""
