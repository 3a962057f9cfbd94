"""Vision Transformers for image classification: train, evaluate, predict, and compare with CNNs.

>>> import vit
>>> run = vit.train("labeled_photos/", network="resnet18", epochs=30)  # doctest: +SKIP
>>> model = vit.load(run)  # doctest: +SKIP
>>> for prediction in model.predict("photos/"):  # doctest: +SKIP
...     print(prediction.path, prediction.label, prediction.probability)
"""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vit.inference.predictor import load
    from vit.models.spec import create_network

__version__ = "0.1.0"
__all__ = ["create_network", "load", "train"]

_HOMES = {"create_network": "vit.models.spec", "load": "vit.inference.predictor"}


def __getattr__(name: str) -> Any:
    """Import what is asked for on first use: torch takes seconds, and `vit --help` needs none of it."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vit' has no attribute {name!r}")


def train(data: str | os.PathLike[str], **options: object) -> Path:
    """Train a classifier as `vit train DATA` does, and return its run folder, which `load` takes.

    Args:
        data: a folder of class folders, a CSV file, "digits", or the name of a torchvision data set.
        options: the options of `vit train` by their names: network="resnet18", epochs=30, seed=1, wandb="off". Names
            with dots go in as `**{"model.network.pos_embed": "none"}`.

    Raises:
        VitError: what the command would refuse, in the same words.
    """
    from vit.commands.train import train_run

    tokens = [f"--{name}={_as_option(value)}" for name, value in options.items()]
    return train_run([f"--data.source={os.fspath(data)}", *tokens]).path


def _as_option(value: object) -> str:
    """A value as the command line takes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_option, value))}]"
    return str(value)
