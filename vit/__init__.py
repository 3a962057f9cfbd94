"""Vision Transformers for image classification: train, evaluate, predict, and compare with CNNs

>>> import vit
>>> run = vit.train("labeled_photos/", network="resnet18", epochs=30)  # doctest: +SKIP
>>> vit.evaluate(run).measurement.metrics.acc1.value  # doctest: +SKIP
>>> vit.predict(run, "photos/", gallery=True)  # doctest: +SKIP
>>> for prediction in vit.load(run).predict("photos/"):  # doctest: +SKIP
...     print(prediction.path, prediction.label, prediction.probability)

A command of the command line is the function of the same name: `vit predict RUN IMAGES --top_k 3` is
`vit.predict(run, images, top_k=3)`. Each takes `quiet=True`, and then prints warnings alone. Not so `data`, `demo`,
`env`, `models`, `runs` and `serve`, which have no function here. Each raises `vit.errors.VitError`, with problem and
fix, where an option, a model or the images cannot be used. The run folder that `vit.train` returns is a path, whose
`result` is what the training found.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vit.version import __version__ as __version__

if TYPE_CHECKING:
    from vit.commands.comparing.compare import compare
    from vit.commands.comparing.crossval import crossval
    from vit.commands.comparing.probe import probe
    from vit.commands.exporting.convert import convert
    from vit.commands.exporting.export import export
    from vit.commands.exporting.soup import soup
    from vit.commands.measuring.evaluate import evaluate
    from vit.commands.predicting.embed import embed
    from vit.commands.predicting.explain import explain
    from vit.commands.predicting.inspect import inspect
    from vit.commands.predicting.predict import predict
    from vit.commands.predicting.similar import similar
    from vit.commands.report import report
    from vit.commands.studies.study import study
    from vit.commands.training.train import train
    from vit.csv_files import read_table, unescape
    from vit.extras.hub.command import push
    from vit.extras.pretrain.command import pretrain
    from vit.inference.predictor import load
    from vit.models.spec import create_network

__all__ = [
    "compare", "convert", "create_network", "crossval", "embed", "evaluate", "explain", "export", "inspect", "load",
    "predict", "pretrain", "probe", "push", "read_table", "report", "similar", "soup", "study", "train", "unescape",
]  # fmt: skip
_HOMES = {
    "create_network": "vit.models.spec",
    "load": "vit.inference.predictor",
    "read_table": "vit.csv_files",
    "unescape": "vit.csv_files",
}
_COMMANDS = frozenset(__all__) - _HOMES.keys()


def __getattr__(name: str) -> Any:
    """Import a function on first use: torch takes seconds, and `vit --help` does not need it."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name not in _COMMANDS:
        raise AttributeError(f"module 'vit' has no attribute {name!r}")
    from vit.commands.cli.command_line import for_python
    from vit.registry import command_module

    function = getattr(command_module(name), name)
    return for_python(function, is_checked=name not in ("train", "pretrain", "crossval", "study"))


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))


class _Package(ModuleType):
    """This package, where `vit.study` stays a function after Python has imported the folder `vit/study`.

    Python sets a subpackage as an attribute of its package. The subpackages `study`, `report`, `export` and `explain`
    have the names of commands, and are imported by their full names.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _COMMANDS or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
