"""A page on this machine that labels dropped images"""
