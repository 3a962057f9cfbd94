"""The version of this program, also of a copy that pip has not installed"""

__version__ = "0.1.0"
