"""A finished pretraining as figures, for its run folder and its tracker, and as one self-contained HTML page"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.figure import Figure
from torch import Tensor

from vit.checkpoints.io import file_hash
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.csv_files import records
from vit.data.core.samples import Samples, label_names
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.loader import EVALUATION_BATCH_SIZE, evaluation_loader
from vit.data.loading.sampler import Key
from vit.data.pixels.preprocess import Preprocess
from vit.errors import DataError
from vit.extras.pretrain.fit import Pretrained
from vit.extras.pretrain.images import LABELED, QUERIES, numbered, spread
from vit.extras.pretrain.plan import PretrainPlan
from vit.extras.pretrain.pretrainer import KNN, NEIGHBORS
from vit.inference.answers.nearest import nearest
from vit.models.network import Network
from vit.plain_files import read_text
from vit.report.page.image_figures import displayable, image_grid
from vit.report.page.page import inline, write_page
from vit.report.page.style import drawn, save
from vit.report.tables.run_tables import facts
from vit.training.tracking.tracker import Tracker

ROWS = 8  # images whose neighbors are shown
MOST_SEARCHED = 2_000  # images among which they are searched


@dataclass(frozen=True)
class ShownImage:
    """A picture with its caption."""

    pixels: Tensor  # (3, S, S) uint8, as the network sees the image without augmentation
    caption: str  # class of the image, if it has one; of a neighbor also its cosine similarity


def neighbor_rows(network: Network, plan: PretrainPlan) -> list[list[ShownImage]]:
    """Some images, each followed by its nearest neighbors among training images.

    With labels, the images are validation images. Without labels they are training images, which are not neighbors of
    themselves. There are no rows with fewer training images than neighbors.
    """
    splits, class_names = numbered(plan.source), plan.source.class_names
    searched = spread(splits.get(LABELED, plan.source.splits["train"]), MOST_SEARCHED)
    queries = spread(splits.get(QUERIES, searched), ROWS)
    if len(searched) <= NEIGHBORS:
        return []
    there, asked = _Shown(searched, plan.preprocess), _Shown(queries, plan.preprocess)
    features, query_features = there.features(network), asked.features(network)
    count = NEIGHBORS if QUERIES in splits else NEIGHBORS + 1  # the image itself is the nearest one
    rows, similarities = nearest(features, query_features, count)
    shown_rows = []
    for query in range(len(queries)):
        others = [
            there.image(int(row), class_names, f"{similarity:.2f} ")
            for row, similarity in zip(rows[query], similarities[query], strict=True)
            if QUERIES in splits or searched.paths[int(row)] != queries.paths[query]
        ]
        shown_rows.append([asked.image(query, class_names), *others[:NEIGHBORS]])
    return shown_rows


class _Shown:
    """Images prepared as for evaluation."""

    def __init__(self, samples: Samples, preprocess: Preprocess) -> None:
        self.samples, self.preprocess = samples, preprocess
        self.dataset = ImageDataset(samples, preprocess, None, seed=0, in_memory=False)

    @torch.inference_mode()
    def features(self, network: Network) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Features (n, D) of all images; an image that cannot be read is black."""
        device = next(network.parameters()).device
        loader = evaluation_loader(self.dataset, EVALUATION_BATCH_SIZE, num_workers=0)
        batches = [network(self.preprocess.normalize(batch.image.to(device))).flatten(1).float() for batch in loader]
        return torch.cat(batches).cpu().numpy()

    def image(self, index: int, class_names: Sequence[str], words: str = "") -> ShownImage:
        """One image with its class."""
        pixels = self.dataset.__getitems__([Key(-1, index)]).image[0]
        one = self.samples.select([index])
        names = label_names(one, class_names) if one.task.is_exclusive else []
        return ShownImage(pixels, words + "".join(names))


CURVES, NEIGHBOR_PICTURES, AUGMENTED, RECONSTRUCTED = "curves", "neighbors", "augmented", "reconstructions"
MOST_SAMPLES, MOST_RECONSTRUCTED = 24, 8
_LOSS, _ACCURACY = "tab:blue", "tab:orange"


def draw_pretraining(run: RunDirectory, plan: PretrainPlan, found: Pretrained, tracker: Tracker) -> None:
    """Curves, augmented images, nearest neighbors, and the pictures that the objective makes."""
    show_numbers, show_pictures = tracker.figure, tracker.media
    figures = [(CURVES, pretrain_curves(run.metrics_path), show_numbers)]
    figures.append((AUGMENTED, _augmented(plan, found), show_pictures))
    rows = neighbor_rows(found.objective.network, plan)
    if rows:
        images = [image.pixels for row in rows for image in row]
        captions = [image.caption for row in rows for image in row]
        title = f"An image, and its {NEIGHBORS} nearest neighbors with their cosine similarity"
        figures.append((NEIGHBOR_PICTURES, image_grid(images, captions, title, 1 + NEIGHBORS), show_pictures))
    reconstructed = _reconstructions(plan, found)
    if reconstructed is not None:
        figures.append((RECONSTRUCTED, reconstructed, show_pictures))
    for name, figure, show in figures:
        save(figure, run.figure_path(name))
        show(f"figures/{name}", run.figure_path(name))
    tracker.summary({f"best/{name}": value for name, value in found.fit.result.validation.items()})
    tracker.artifact(
        run.backbone_path, f"{plan.source.name}-{plan.spec.name}", {"sha256": file_hash(run.backbone_path)}
    )


def pretrain_curves(metrics: Path) -> Figure:
    """The loss over steps, and the accuracy of nearest neighbors where metrics.csv has it."""
    table = records(metrics)
    has_accuracy = bool(table) and KNN in table[0]
    figure = Figure(figsize=(9 if has_accuracy else 5.4, 3.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, 1 + has_accuracy))
    smoothed = [row for row in table if row["train/smoothed_loss"]]
    losses = [float(row["train/smoothed_loss"]) for row in smoothed]
    panels[0].plot([int(row["step"]) for row in smoothed], losses, color=_LOSS)
    panels[0].set(xlabel="optimizer step", ylabel="loss", title="Training loss")
    if has_accuracy:
        measured = [row for row in table if row[KNN]]
        steps, values = [int(row["step"]) for row in measured], [100 * float(row[KNN]) for row in measured]
        panels[1].plot(steps, values, color=_ACCURACY, marker="o", markersize=3)
        panels[1].axhline(values[0], color="gray", linestyle="--", label="before the first step")
        panels[1].set(xlabel="optimizer step", ylabel="accuracy (%)", title="Nearest neighbors")
        panels[1].legend(frameon=False)
    return figure


def _augmented(plan: PretrainPlan, found: Pretrained) -> Figure:
    """The first training images as the network sees them in the first epoch."""
    data = found.fit.data
    count = min(MOST_SAMPLES, len(plan.source.splits["train"]))
    batch = data.augmented(data.dataset("train").__getitems__([Key(0, index) for index in range(count)]))
    images = displayable(batch.image, plan.preprocess.mean, plan.preprocess.std)
    return image_grid(list(images), [""] * count, "Training images as the network sees them")


@torch.no_grad()
def _reconstructions(plan: PretrainPlan, found: Pretrained) -> Figure | None:
    """Some images with what the objective makes of them; None for an objective that makes no pictures."""
    data, objective = found.fit.data, found.objective
    count = min(MOST_RECONSTRUCTED, len(plan.source.splits["train"]))
    batch = data.augmented(data.dataset("train").__getitems__([Key(0, index) for index in range(count)]))
    made = objective.reconstructions(batch.image.to(next(objective.parameters()).device))
    if not made:
        return None
    kinds = {"image": batch.image, **made}
    shown = {title: displayable(some, plan.preprocess.mean, plan.preprocess.std) for title, some in kinds.items()}
    pictures = [images[index] for index in range(count) for images in shown.values()]
    return image_grid(pictures, [*shown] * count, "What the objective makes of training images", len(shown))


def write_pretrain_report(run: RunDirectory, result: RunResult | None = None) -> None:
    """Write report.html into the folder of a finished pretraining, from its files. Pictures are those in figures/.

    Args:
        result: the result where result.json is not written yet; None: read the file.

    Raises:
        UsageError: the pretraining has not finished.
        DataError: one of its files is damaged.
    """
    result = result or run.read_result()
    if result is None:
        raise run.unfinished()
    try:
        accuracies = [float(row[KNN]) for row in records(run.metrics_path) if row.get(KNN)]
        content = {
            "network": result.spec.name,
            "data": result.data,
            "folder": run.path.resolve().name,
            "method": result.method,
            "num_images": result.num_images["train"],
            "accuracies": [f"{100 * value:.2f}" for value in (accuracies[:1] + accuracies[-1:])],
            "count": NEIGHBORS,
            "curves": drawn(pretrain_curves(run.metrics_path)),
            "neighbors": _figure(run, NEIGHBOR_PICTURES),
            "reconstructions": _figure(run, RECONSTRUCTED),
            "augmented": _figure(run, AUGMENTED),
            "facts": facts(result),
            "config_name": run.config_path.name,
            "config": read_text(run.config_path).splitlines(),
            "backbone": run.backbone_path.name,
        }
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"{run.path} is damaged: {error}", "restore its files, or pretrain again") from error
    write_page(run.report_path, "pretrain.html", content)


def _figure(run: RunDirectory, name: str) -> Markup | None:
    """A figure of the run folder as the source of an <img>; None where there is none."""
    path = run.figure_path(name)
    return inline(path.read_bytes(), "image/png") if path.is_file() else None
