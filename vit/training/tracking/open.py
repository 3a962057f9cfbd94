"""The trackers of a training, opened, as one: whatever goes wrong there is one warning, and the training continues

Reports and studies read our own metrics.csv. Trackers are views for people. Only the first process opens them. The
others take `Trackers` without any, and import no tracker.
"""

from collections.abc import Callable, Mapping

from vit.registry import TRACKERS
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.tracker import WANDB, Tracker, TrackerKind, Tracking, chosen_trackers, describe
from vit.training.tracking.wandb_tracker import open_wandb


def open_trackers(recipe: Recipe, run: Tracking, notify: Callable[[str], None]) -> Tracker:
    """The trackers that a recipe names, as one. They keep their files and the names of their runs in the run folder.

    A resumed training continues the same runs. Texts under names of secrets are not shown, and of an absolute path only
    the last part is. `notify` shows messages to people.
    """
    trackers: dict[str, Tracker] = {}
    for name in chosen_trackers(recipe):
        kind: TrackerKind | None = None if name == WANDB else TRACKERS[name].load()()
        title = "Weights & Biases" if kind is None else kind.title
        try:
            tracker = open_wandb(recipe.wandb, run, notify) if kind is None else kind.open(recipe, run)
        except Exception as error:  # noqa: BLE001  a broken installation or a lost server raises anything
            notify(f"{title} cannot be used ({describe(error)}); training goes on without it")
        else:
            if tracker is not None:
                trackers[title] = tracker
    return Trackers(trackers, notify)


def _to_each(name: str) -> Callable[..., None]:
    """The method of `Trackers` that calls the method with this name of each tracker."""

    def call(self: "Trackers", *args: object, **options: object) -> None:
        for title, tracker in list(self.trackers.items()):
            try:
                getattr(tracker, name)(*args, **options)
            except Exception as error:  # noqa: BLE001  a tracker must never end a training
                del self.trackers[title]
                self.notify(f"{title} stopped ({describe(error)}); training goes on without it")

    return call


class Trackers:
    """A `Tracker` that passes everything on, to {name for people: tracker}; without any, nothing is tracked.

    A tracker that raises an error gets nothing more, and `notify` shows a warning.
    """

    def __init__(self, trackers: Mapping[str, Tracker], notify: Callable[[str], None]) -> None:
        self.trackers = dict(trackers)
        self.notify = notify

    log, figure, table = _to_each("log"), _to_each("figure"), _to_each("table")
    confusion_matrix, configure, summary = _to_each("confusion_matrix"), _to_each("configure"), _to_each("summary")
    artifact, finish, interrupt = _to_each("artifact"), _to_each("finish"), _to_each("interrupt")
