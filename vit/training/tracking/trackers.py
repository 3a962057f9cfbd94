"""Several trackers as one: the failure of one is a warning, and neither ends the training nor silences the others"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vit.training.tracking.tracker import Tracker, describe


class Trackers:
    """A `Tracker` that passes everything on. A tracker that raises an error gets nothing more.

    Args:
        trackers: {name for people: tracker}.
        notify: receiver of the warning about a failed tracker.
    """

    def __init__(self, trackers: Mapping[str, Tracker], notify: Callable[[str], None]) -> None:
        self._trackers = dict(trackers)
        self._notify = notify

    def log(self, row: Mapping[str, float], step: int) -> None:
        self._each(lambda tracker: tracker.log(row, step))

    def figure(self, name: str, path: Path, caption: str = "") -> None:
        self._each(lambda tracker: tracker.figure(name, path, caption))

    def media(self, name: str, path: Path, caption: str = "") -> None:
        self._each(lambda tracker: tracker.media(name, path, caption))

    def image_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self._each(lambda tracker: tracker.image_table(name, columns, rows))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self._each(lambda tracker: tracker.table(name, columns, rows))

    def confusion_matrix(
        self, name: str, labels: Sequence[int], predictions: Sequence[int], class_names: Sequence[str]
    ) -> None:
        self._each(lambda tracker: tracker.confusion_matrix(name, labels, predictions, class_names))

    def configure(self, config: Mapping[str, object]) -> None:
        self._each(lambda tracker: tracker.configure(config))

    def summary(self, values: Mapping[str, float]) -> None:
        self._each(lambda tracker: tracker.summary(values))

    def artifact(self, path: Path, name: str, metadata: Mapping[str, object]) -> None:
        self._each(lambda tracker: tracker.artifact(path, name, metadata))

    def finish(self) -> None:
        self._each(lambda tracker: tracker.finish())

    def interrupt(self) -> None:
        self._each(lambda tracker: tracker.interrupt())

    def _each(self, action: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                action(tracker)
            except Exception as error:  # noqa: BLE001  a tracker must never end a training
                del self._trackers[name]
                self._notify(f"{name} stopped ({describe(error)}); training goes on without it")
