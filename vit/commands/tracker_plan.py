"""The trackers of a training in its plan: which there are, what they get, and where it goes"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.layout import RunLayout
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.trackers import chosen_trackers, wandb_mode

if TYPE_CHECKING:
    from vit.training.tracking.tracker import Sharing


def tracker_facts(recipe: Recipe, run: str) -> list[tuple[str, str]]:
    """A line for each tracker.

    Args:
        run: the run folder, or why there is none.
    """
    from vit.training.tracking.wandb_login import intended

    sharing, names = sharing_of(recipe), chosen_trackers(recipe)
    status, why = intended(wandb_mode(recipe))
    if recipe.tracker is not None and "wandb" not in names:
        why = "not in --tracker"
    facts = [("W&B", sharing.words(status, why))]
    if "tensorboard" in names:
        facts.append(("TensorBoard", f"{RunLayout(Path(run)).tensorboard_dir}, on this machine alone"))
    if "mlflow" in names:
        name = recipe.mlflow_register
        goes = sharing if name is None else replace(sharing, model=True)
        registered = "" if name is None else f"; registers the best checkpoint as {name!r}"
        facts.append(("MLflow", mlflow_words(Path(recipe.out), goes) + registered))
    return facts


def mlflow_words(out: Path, sharing: "Sharing") -> str:
    """Where MLflow keeps runs, and what it gets.

    Args:
        out: parent folder of run folders.
    """
    from vit.training.tracking.mlflow_address import MlflowAddress

    address = MlflowAddress.below(out)
    return f"{address.words()}{', on this machine' if address.is_local else f': {sharing.content()}'}"


def sharing_of(recipe: Recipe) -> "Sharing":
    """What trackers may upload."""
    from vit.training.tracking.tracker import Sharing

    return Sharing(recipe.tracker_media, recipe.tracker_model)
