"""Weights & Biases: whatever goes wrong there is one warning, and the training continues

Reports and studies read our own metrics.csv. Weights & Biases is a view for people. Only the first process opens a
tracker. The others take `NoTracker` and never import wandb.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from vit.training.recipes.trackers import WandbMode
from vit.training.tracking import wandb_login, wandb_tracker
from vit.training.tracking.tracker import NUMBERS_ALONE, NoTracker, Sharing, Tracker, describe


def open_wandb(
    mode: WandbMode,
    folder: Path,
    config: Mapping[str, object],
    name: str,
    notify: Callable[[str], None],
    group: str | None = None,
    sharing: Sharing = NUMBERS_ALONE,
) -> Tracker:
    """A tracker that keeps its files in the run folder, for the first process.

    A resumed training continues the run whose id is in the folder. Texts under names of secrets are not uploaded, and
    of an absolute path only the last part is.

    Args:
        mode: status of the tracker; "auto" is online where a user is logged in and the server answers, else offline.
        config: options of the training.
        name: name of the run.
        notify: receiver of messages for people.
        group: name of the study that the run is a cell of; None for a single training.
    """
    status, why = wandb_login.intended(mode)
    if status == "off":
        return NoTracker()
    obstacle = why if status == "offline" else ""
    try:
        return wandb_tracker.begin(folder.absolute(), name, group, config, obstacle, notify, sharing)
    except Exception as error:  # noqa: BLE001  a broken installation raises anything
        words = describe(error)
        notify(f"Weights & Biases cannot be used ({words}); training goes on without it")
        return NoTracker()
