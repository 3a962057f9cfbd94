"""Serving: predictions over HTTP, computed by the code of `vit predict`."""
