"""The interface of whoever watches a training: a progress bar, a log, a tracker"""

from typing import Protocol

from vit.training.recipes.recipe import Recipe


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
