"""The trackers that a recipe names, and what --wandb means beside --tracker"""

from importlib.util import find_spec
from typing import Literal, get_args

from vit.errors import UsageError, install, nearest
from vit.training.recipes.recipe import Recipe

TrackerName = Literal["wandb", "tensorboard", "mlflow"]
WandbMode = Literal["auto", "online", "offline", "off"]

_NAMES: tuple[TrackerName, ...] = get_args(TrackerName)
_EXTRAS: dict[TrackerName, str] = {"tensorboard": "tensorboard", "mlflow": "mlflow"}  # extra and package share a name


def chosen_trackers(recipe: Recipe) -> tuple[TrackerName, ...]:
    """The trackers of a training, in the order of `tracker`. Without `tracker`, W&B in the mode of `wandb`.

    Raises:
        UsageError: a name is unknown, or `wandb` and `mlflow_register` contradict `tracker`.
    """
    if recipe.tracker is None:
        names: tuple[TrackerName, ...] = () if recipe.wandb == "off" else ("wandb",)
    else:
        words = [word.strip() for word in recipe.tracker.split(",") if word.strip()]
        names = tuple(dict.fromkeys(map(_named, words)))
        if not names:
            raise UsageError("--tracker names no tracker", f"give {', '.join(_NAMES)}, or --wandb off for none")
        if "wandb" in names and recipe.wandb == "off":
            raise UsageError(f"--wandb off with --tracker {recipe.tracker}", "leave one of them out")
        if "wandb" not in names and recipe.wandb in ("online", "offline"):
            raise UsageError(
                f"--wandb {recipe.wandb} without wandb in --tracker {recipe.tracker}",
                f"give --tracker {','.join((*names, 'wandb'))}, or leave --wandb out",
            )
    if recipe.mlflow_register is not None and "mlflow" not in names:
        raise UsageError("--mlflow_register without mlflow", "give --tracker mlflow too, or leave it out")
    return names


def wandb_mode(recipe: Recipe) -> WandbMode:
    """The mode of W&B: "off" where `tracker` names other trackers alone."""
    return recipe.wandb if "wandb" in chosen_trackers(recipe) else "off"


def check_trackers(recipe: Recipe) -> None:
    """Raise UsageError for a wrong choice of trackers, or one whose package is not installed. This imports nothing."""
    for name in chosen_trackers(recipe):
        if name in _EXTRAS and find_spec(name) is None:
            raise UsageError(f"--tracker {name} needs the package {name}", install(_EXTRAS[name]))


def refuse_register(recipe: Recipe, where: str) -> None:
    """Raise UsageError where each of many trainings would register a model.

    Args:
        where: "a study" or another list of cells.
    """
    if recipe.mlflow_register is not None:
        raise UsageError(f"--mlflow_register in {where}, whose models are many", "leave it out")


def _named(word: str) -> TrackerName:
    for name in _NAMES:
        if word == name:
            return name
    if word == "csv":
        raise UsageError("--tracker csv: every run writes metrics.csv already", "leave csv out")
    raise UsageError(f"--tracker {word} is unknown", nearest(word, _NAMES))
