"""Vision Transformers for image classification: train, evaluate, predict, and compare with CNNs.

>>> import vit
>>> model = vit.load("runs/photos/vit_tiny_patch16_224/20260101-120000/checkpoints/best.ckpt")  # doctest: +SKIP
>>> for prediction in model.predict("photos/"):  # doctest: +SKIP
...     print(prediction.path, prediction.label, prediction.probability)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vit.models.catalog import create_network
    from vit.prediction.predictor import load

__version__ = "0.1.0"
__all__ = ["create_network", "load"]

_HOMES = {"create_network": "vit.models.catalog", "load": "vit.prediction.predictor"}


def __getattr__(name: str) -> Any:
    """Import what is asked for on first use: torch takes seconds, and `vit --help` needs none of it."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vit' has no attribute {name!r}")
