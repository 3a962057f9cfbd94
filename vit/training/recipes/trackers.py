"""The trackers that a recipe names, and what --wandb means beside --tracker"""

from importlib.util import find_spec
from typing import Literal

from vit.errors import UsageError, install, nearest
from vit.registry import TRACKERS
from vit.training.recipes.recipe import Recipe

WandbMode = Literal["auto", "online", "offline", "off"]
WANDB = "wandb"
_NAMES = (WANDB, *TRACKERS)


def chosen_trackers(recipe: Recipe) -> tuple[str, ...]:
    """The trackers of a training, in the order of `tracker`. Without `tracker`, W&B in the mode of `wandb`.

    Raises:
        UsageError: a name is unknown, or `wandb` and `mlflow.register` contradict `tracker`.
    """
    if recipe.tracker is None:
        names: tuple[str, ...] = () if recipe.wandb == "off" else ("wandb",)
    else:
        words = [word.strip() for word in recipe.tracker.split(",") if word.strip()]
        names = tuple(dict.fromkeys(map(_checked, words)))
        if not names:
            raise UsageError("--tracker names no tracker", f"give {', '.join(_NAMES)}, or --wandb off for none")
        if "wandb" in names and recipe.wandb == "off":
            raise UsageError(f"--wandb off with --tracker {recipe.tracker}", "leave one of them out")
        if "wandb" not in names and recipe.wandb in ("online", "offline"):
            raise UsageError(
                f"--wandb {recipe.wandb} without wandb in --tracker {recipe.tracker}",
                f"give --tracker {','.join((*names, 'wandb'))}, or leave --wandb out",
            )
    if recipe.mlflow.register is not None and "mlflow" not in names:
        raise UsageError("--mlflow.register without mlflow", "give --tracker mlflow too, or leave it out")
    return names


def wandb_mode(recipe: Recipe) -> WandbMode:
    """The mode of W&B: "off" where `tracker` names other trackers alone."""
    return recipe.wandb if "wandb" in chosen_trackers(recipe) else "off"


def check_trackers(recipe: Recipe) -> None:
    """Raise UsageError for a wrong choice of trackers, or one whose package is not installed. This imports nothing."""
    for name in chosen_trackers(recipe):
        if name in TRACKERS and find_spec(name) is None:  # package, extra and tracker share their name
            raise UsageError(f"--tracker {name} needs the package {name}", install(name))


def refuse_register(recipe: Recipe, where: str) -> None:
    """Raise UsageError where each of many trainings would register a model.

    Args:
        where: "a study" or another list of cells.
    """
    if recipe.mlflow.register is not None:
        raise UsageError(f"--mlflow.register in {where}, whose models are many", "leave it out")


def _checked(name: str) -> str:
    """The name of a tracker; UsageError for any other."""
    if name in _NAMES:
        return name
    if name == "csv":
        raise UsageError("--tracker csv: every run writes metrics.csv already", "leave csv out")
    raise UsageError(f"--tracker {name} is unknown", nearest(name, _NAMES))
