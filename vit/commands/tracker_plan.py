"""The trackers of a training in its plan: which there are, what they get, and where it goes"""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.layout import RunLayout
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.trackers import chosen_trackers, wandb_mode
from vit.training.tracking.mlflow_address import MlflowAddress

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
        folder = RunLayout(Path(run)).tensorboard_dir.name
        facts.append(("TensorBoard", f"{folder}/ in the run folder, on this machine alone"))
    if "mlflow" in names:
        name = recipe.mlflow_register
        goes = sharing if name is None else replace(sharing, model=True)
        registered = "" if name is None else f"; registers the best checkpoint as {name!r}"
        out = Path(run).absolute().parents[2] if Path(run).is_dir() else Path(recipe.out)
        facts.append(("MLflow", mlflow_words(out, goes) + registered))
    return facts


def facts_of_cells(recipe: Recipe, folder: Path) -> list[tuple[str, str]]:
    """A line for each tracker of the cells of a study or a cross-validation, and of their tables.

    Args:
        recipe: recipe of a cell.
        folder: folder of the cells.
    """
    names, what = chosen_trackers(recipe), "numbers and configuration of every training, no images"
    facts = [("W&B", f"{recipe.wandb}: {what}")] if "wandb" in names else []
    if "tensorboard" in names:
        facts.append(("TensorBoard", f"in the folder of every cell: tensorboard --logdir {shlex.quote(str(folder))}"))
    if "mlflow" in names:
        facts.append(("MLflow", f"{MlflowAddress.below(folder).words()}: {what}"))
    return facts


def mlflow_words(out: Path, sharing: "Sharing") -> str:
    """Where MLflow keeps runs, and what it gets.

    Args:
        out: parent folder of run folders.
    """
    address = MlflowAddress.below(out)
    return f"{address.words()}{', on this machine' if address.is_local else f': {sharing.content()}'}"


def sharing_of(recipe: Recipe) -> "Sharing":
    """What trackers may upload."""
    from vit.training.tracking.tracker import Sharing

    return Sharing(recipe.tracker_media, recipe.tracker_model)
