"""Formats of other libraries: their tensor names translated to ours."""
