"""Vision Transformers for image classification: train, evaluate, predict, and compare with CNNs

>>> import vit
>>> run = vit.train("labeled_photos/", network="resnet18", epochs=30)  # doctest: +SKIP
>>> vit.evaluate(run).metrics["acc1"]  # doctest: +SKIP
>>> vit.predict(run, "photos/", gallery=True)  # doctest: +SKIP
>>> for prediction in vit.load(run).predict("photos/"):  # doctest: +SKIP
...     print(prediction.path, prediction.label, prediction.probability)

A command of the command line is the function of the same name: `vit predict RUN IMAGES --top_k 3` is
`vit.predict(run, images, top_k=3)`.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vit.commands.compare import compare
    from vit.commands.explain import explain
    from vit.commands.export import export
    from vit.commands.predict import predict
    from vit.commands.report import report
    from vit.inference.predictor import load
    from vit.models.spec import create_network

__version__ = "0.1.0"
__all__ = ["compare", "create_network", "explain", "export", "load", "predict", "report", "train"]

_COMMANDS = ("compare", "explain", "export", "predict", "report")
_HOMES = {"create_network": "vit.models.spec", "load": "vit.inference.predictor"}
_HOMES |= {name: f"vit.commands.{name}" for name in _COMMANDS}


def __getattr__(name: str) -> Any:
    """Import a function on first use: torch takes seconds, and `vit --help` does not need it."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vit' has no attribute {name!r}")


class _Package(ModuleType):
    """This package, where `vit.study` stays a function after Python has imported the folder `vit/study`.

    Python sets a subpackage as an attribute of its package. The subpackages `study`, `report`, `export` and `explain`
    have the names of commands, and are imported by their full names.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _COMMANDS or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


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
