"""Imports timm without Weights & Biases, which timm imports for a summary that this program never writes"""

import sys
from typing import cast


def import_timm() -> None:
    """Import timm. It is called where timm is imported for the first time; wandb alone is two fifths of that time."""
    if "timm" in sys.modules or "wandb" in sys.modules:
        return
    modules = cast(dict[str, object], sys.modules)
    modules["wandb"] = None  # `import wandb` is an ImportError, which timm.utils.summary expects
    try:
        import timm  # noqa: F401
    finally:
        del modules["wandb"]
