"""The tracker that writes event files of TensorBoard into the run folder, where they stay"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml
from PIL import Image

from vit.csv_files import records
from vit.layout import RunLayout
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.tracker import Sharing, Tracker, Tracking, flat, public

if TYPE_CHECKING:
    from lightning.fabric.loggers import TensorBoardLogger


class TensorBoard:
    """The `TrackerKind` of --tracker tensorboard."""

    title = "TensorBoard"

    def open(self, recipe: Recipe, run: Tracking) -> Tracker:
        return TensorBoardTracker(RunLayout(run.folder), run.config)

    def describe(self, recipe: Recipe, run: Path, sharing: Sharing) -> str:
        return f"{RunLayout(run).tensorboard_dir.name}/ in the run folder, on this machine alone"

    def describe_cells(self, folder: Path) -> str:
        return f"in the folder of every cell: tensorboard --logdir {shlex.quote(str(folder))}"


class TensorBoardTracker:
    """A `Tracker` that writes event files through Lightning's logger. Its methods raise what goes wrong.

    A resumed training first removes the numbers after its checkpoint from TensorBoard's charts, as from metrics.csv.
    A row is in metrics.csv before it is logged here.
    """

    def __init__(self, layout: RunLayout, config: Mapping[str, object]) -> None:
        self._layout, self._config, self._step = layout, config, 0
        self._opened: TensorBoardLogger | None = None

    def log(self, row: Mapping[str, float], step: int) -> None:
        logger = self._logger(is_logging=True)
        self._step = max(self._step, step)
        logger.log_metrics(dict(row), step)
        logger.save()  # a checkpoint of this step may be the last act before a signal; rows are few

    def figure(self, name: str, path: Path, has_images: bool = False) -> None:
        # nothing leaves the run folder, which has the same pictures
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
        self._logger().experiment.add_image(name, pixels, self._step, dataformats="HWC")

    def table(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], has_images: bool = False
    ) -> None:
        lines = [columns, ["---"] * len(columns), *rows]  # Markdown, which TensorBoard shows without HTML of its cells
        text = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
        self._logger().experiment.add_text(name, text, self._step)

    def _nothing(self, *_: object) -> None:
        """TensorBoard has no charts of confusion, and keeps no models; the run folder has the picture and the file."""

    confusion_matrix = artifact = _nothing

    def configure(self, config: Mapping[str, object]) -> None:
        self._config = config
        self._show_config(self._logger())

    def summary(self, values: Mapping[str, float]) -> None:
        self._logger().log_hyperparams(flat(self._config), dict(values), self._step)

    def finish(self) -> None:
        self._logger().finalize("success")

    def interrupt(self) -> None:
        if self._opened is not None:
            self.finish()

    def _logger(self, is_logging: bool = False) -> "TensorBoardLogger":
        """The logger, which is made when the training has cut metrics.csv to the rows of its checkpoint."""
        if self._opened is None:
            from lightning.fabric.loggers import TensorBoardLogger

            folder, metrics = self._layout.tensorboard_dir, self._layout.metrics_path
            steps = [int(row["step"]) for row in records(metrics)] if metrics.is_file() else []
            logged = steps[:-1] if is_logging else steps
            purge = max(logged, default=-1) + 1 if folder.exists() else None
            self._step = max(steps, default=0)
            self._opened = TensorBoardLogger(folder, name="", version="", default_hp_metric=False, purge_step=purge)
            self._show_config(self._opened)
        return self._opened

    def _show_config(self, logger: "TensorBoardLogger") -> None:
        text = yaml.safe_dump(public(self._config), sort_keys=False, allow_unicode=True)
        indented = "".join(f"    {line}\n" for line in text.splitlines())  # a code block of Markdown
        logger.experiment.add_text("config", indented, self._step)


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return text.replace("\\", "\\\\").replace("|", "\\|")
