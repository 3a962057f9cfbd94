"""The trackers of a training, opened: whatever goes wrong there is one warning, and the training continues

Reports and studies read our own metrics.csv. Trackers are views for people. Only the first process opens them. The
others take `NoTracker` and import no tracker.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vit.layout import RunLayout
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.trackers import TrackerName, chosen_trackers
from vit.training.tracking.tracker import NoTracker, Sharing, Tracker, describe
from vit.training.tracking.trackers import Trackers
from vit.training.tracking.wandb_open import open_wandb

TITLES: dict[TrackerName, str] = {"wandb": "Weights & Biases", "tensorboard": "TensorBoard", "mlflow": "MLflow"}


@dataclass(frozen=True)
class Tracking:
    """What trackers are told of a run.

    Attributes:
        folder: run folder.
        out: parent folder of run folders, or folder of the study, with the local store of MLflow.
        name: name of the run.
        group: name of the study that the run is a cell of; None for a single training.
        config: options of the training.
        sharing: what may be uploaded.
    """

    folder: Path
    out: Path
    name: str
    group: str | None
    config: Mapping[str, object]
    sharing: Sharing


def open_trackers(recipe: Recipe, run: Tracking, notify: Callable[[str], None]) -> Tracker:
    """The trackers that a recipe names, as one. They keep their files and the names of their runs in the run folder.

    A resumed training continues the same runs. Texts under names of secrets are not shown, and of an absolute path only
    the last part is.

    Args:
        recipe: recipe that names the trackers.
        notify: receiver of messages for people.
    """
    found: dict[str, Tracker] = {}
    for name in chosen_trackers(recipe):
        try:
            found[TITLES[name]] = _open(name, recipe, run, notify)
        except Exception as error:  # noqa: BLE001  a broken installation or a lost server raises anything
            notify(f"{TITLES[name]} cannot be used ({describe(error)}); training goes on without it")
    return Trackers(found, notify) if found else NoTracker()


def _open(name: TrackerName, recipe: Recipe, run: Tracking, notify: Callable[[str], None]) -> Tracker:
    layout = RunLayout(run.folder)
    if name == "wandb":
        return open_wandb(recipe.wandb, run.folder, run.config, run.name, notify, run.group, run.sharing)

    if name == "tensorboard":
        from vit.training.tracking.tensorboard_tracker import TensorBoardTracker

        return TensorBoardTracker(layout.tensorboard_dir, layout.metrics_path, run.config)

    from vit.training.tracking.mlflow_address import MlflowAddress
    from vit.training.tracking.mlflow_tracker import MlflowTracker

    address, paths = MlflowAddress.below(run.out), (layout.mlflow_run_path, layout.metrics_path)
    return MlflowTracker(address, *paths, run.config, run.name, run.group, run.sharing, recipe.mlflow_register)
