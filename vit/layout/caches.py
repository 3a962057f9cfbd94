"""Folders of this user's cache, which hold what can be made again"""

import os
from pathlib import Path


def cache_folder(part: str) -> Path:
    """The cache folder of a part of this program: below XDG_CACHE_HOME, or else below ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).expanduser() / "vit-lightning" / part
