"""Optional parts, one folder for each extra of pyproject.toml; the core finds them through `vit/registry.py`"""
