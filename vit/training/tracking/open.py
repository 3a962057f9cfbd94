"""The trackers of a training, opened, as one: whatever goes wrong there is one warning, and the training continues

Reports and studies read our own metrics.csv. Trackers are views for people. Only the first process opens them. The
others take `NoTracker` and import no tracker.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from vit.registry import TRACKERS
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.trackers import WANDB, WandbMode, chosen_trackers
from vit.training.tracking import connection, wandb_tracker
from vit.training.tracking.tracker import (
    NUMBERS_ALONE,
    NoTracker,
    Sharing,
    Tracker,
    TrackerKind,
    Tracking,
    describe,
)


def open_trackers(recipe: Recipe, run: Tracking, notify: Callable[[str], None]) -> Tracker:
    """The trackers that a recipe names, as one. They keep their files and the names of their runs in the run folder.

    A resumed training continues the same runs. Texts under names of secrets are not shown, and of an absolute path only
    the last part is.

    Args:
        recipe: recipe that names the trackers.
        notify: receiver of messages for people.
    """
    trackers: dict[str, Tracker] = {}
    for name in chosen_trackers(recipe):
        if name == WANDB:
            trackers["Weights & Biases"] = open_wandb(
                recipe.wandb, run.folder, run.config, run.name, notify, run.group, run.sharing
            )
            continue
        kind: TrackerKind = TRACKERS[name].load()()
        try:
            trackers[kind.title] = kind.open(recipe, run)
        except Exception as error:  # noqa: BLE001  a broken installation or a lost server raises anything
            notify(f"{kind.title} cannot be used ({describe(error)}); training goes on without it")
    return Trackers(trackers, notify) if trackers else NoTracker()


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
    status, why = connection.intended(mode)
    if status == "off":
        return NoTracker()
    obstacle = why if status == "offline" else ""
    try:
        return wandb_tracker.begin(folder.absolute(), name, group, config, obstacle, notify, sharing)
    except Exception as error:  # noqa: BLE001  a broken installation raises anything
        words = describe(error)
        notify(f"Weights & Biases cannot be used ({words}); training goes on without it")
        return NoTracker()


def _to_each(name: str) -> Callable[..., None]:
    """The method of `Trackers` that calls the method with this name of each tracker."""

    def call(self: "Trackers", *args: object, **options: object) -> None:
        self._each(lambda tracker: getattr(tracker, name)(*args, **options))

    return call


class Trackers:
    """A `Tracker` that passes everything on. A tracker that raises an error gets nothing more.

    Args:
        trackers: {name for people: tracker}.
        notify: receiver of the warning about a failed tracker.
    """

    def __init__(self, trackers: Mapping[str, Tracker], notify: Callable[[str], None]) -> None:
        self._trackers = dict(trackers)
        self._notify = notify

    log, figure, media = _to_each("log"), _to_each("figure"), _to_each("media")
    image_table, table, confusion_matrix = _to_each("image_table"), _to_each("table"), _to_each("confusion_matrix")
    configure, summary, artifact = _to_each("configure"), _to_each("summary"), _to_each("artifact")
    finish, interrupt = _to_each("finish"), _to_each("interrupt")

    def _each(self, action: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                action(tracker)
            except Exception as error:  # noqa: BLE001  a tracker must never end a training
                del self._trackers[name]
                self._notify(f"{name} stopped ({describe(error)}); training goes on without it")
