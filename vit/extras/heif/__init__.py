"""HEIC photographs, by pillow-heif"""
