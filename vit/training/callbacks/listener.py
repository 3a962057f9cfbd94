"""The observers of a training: listeners (a progress bar, a log, a tracker), callbacks, and the signals that end it"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from vit.training.recipes.recipe import Recipe
from vit.training.signals import Signals

if TYPE_CHECKING:
    from lightning.pytorch import Callback


class Listener(Protocol):
    """Receives the steps, rows and notices of a training, on the first process."""

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """An optimizer step ended.

        Args:
            done: number of steps so far.
            total: number of steps of the whole training.
            loss: average loss of about the last 20 steps. On a GPU the value is up to a second old.
            images_per_second: training images per second so far.
        """

    def row(self, row: dict[str, float], step: int) -> None:
        """A row was added to metrics.csv."""

    def notice(self, text: str) -> None:
        """A message for the user. By default nothing shows it."""
        return

    def replanned(self, recipe: Recipe) -> None:
        """The training starts again with another recipe. By default nothing follows."""
        return


@dataclass(frozen=True)
class Observers:
    """The observers of a training."""

    signals: Signals  # signals that end the training at its next step
    listeners: Sequence[Listener] = ()  # receivers of steps, rows and notices
    callbacks: Sequence["Callback"] = ()  # callbacks beside those that every training has

    def also(self, listener: Listener) -> "Observers":
        """The same with one more listener."""
        return replace(self, listeners=[*self.listeners, listener])

    def notice(self, text: str) -> None:
        """Pass a message for the user to the listeners."""
        for listener in self.listeners:
            listener.notice(text)
