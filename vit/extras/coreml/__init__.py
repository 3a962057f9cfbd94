"""Core ML: an export format"""
