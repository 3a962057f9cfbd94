"""The trackers of a training in its plan: which there are, what they get, and where it goes"""

from pathlib import Path
from typing import TYPE_CHECKING

from vit.registry import TRACKERS
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.tracker import WANDB, chosen_trackers, wandb_mode

if TYPE_CHECKING:
    from vit.training.tracking.tracker import Sharing, TrackerKind


def tracker_facts(recipe: Recipe, run: str) -> list[tuple[str, str]]:
    """A line for each tracker.

    Args:
        run: the run folder, or why there is none.
    """
    from vit.training.tracking.wandb_tracker import intended

    sharing = sharing_of(recipe)
    status, why = intended(wandb_mode(recipe))
    if recipe.tracker is not None and WANDB not in chosen_trackers(recipe):
        why = "not in --tracker"
    others = ((kind.title, kind.describe(recipe, Path(run), sharing)) for kind in _kinds(recipe))
    return [("W&B", sharing.describe(status, why)), *others]


def facts_of_cells(recipe: Recipe, folder: Path) -> list[tuple[str, str]]:
    """A line for each tracker of the cells of a study or a cross-validation, and of their tables.

    Args:
        recipe: recipe of a cell.
        folder: folder of the cells.
    """
    has_wandb = WANDB in chosen_trackers(recipe)
    facts = [("W&B", f"{recipe.wandb}: numbers and configuration of every training, no images")] if has_wandb else []
    return [*facts, *((kind.title, kind.describe_cells(folder)) for kind in _kinds(recipe))]


def sharing_of(recipe: Recipe) -> "Sharing":
    """What trackers may upload."""
    from vit.training.tracking.tracker import Sharing

    return Sharing(recipe.tracker_media, recipe.tracker_model)


def _kinds(recipe: Recipe) -> "list[TrackerKind]":
    """The trackers of extras, in the order of the registry."""
    names = chosen_trackers(recipe)
    return [entry.load()() for name, entry in TRACKERS.items() if name in names]
