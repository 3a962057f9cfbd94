"""A finished pretraining as figures, for its run folder and its tracker, and as one self-contained HTML page"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from vit.checkpoints.io import file_hash
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.console import percent
from vit.csv_files import records
from vit.data.core.samples import label_names
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.loader import EVALUATION_BATCH_SIZE, evaluation_loader
from vit.data.loading.sampler import Key
from vit.errors import DAMAGE, DataError, explained
from vit.extras.pretrain.images import LABELED, QUERIES, numbered, spread
from vit.extras.pretrain.pretrainer import KNN, NEIGHBORS, PretrainPlan
from vit.inference.answers.nearest import nearest
from vit.models.network import Network
from vit.plain_files import read_text
from vit.report.page.image_figures import image_grid
from vit.report.page.page import inline, write_page
from vit.report.page.style import drawn, save
from vit.report.run.run_page import augmented
from vit.report.tables.run_tables import facts
from vit.training.running.result import FitResult
from vit.training.tracking.tracker import Tracker

CURVES, NEIGHBOR_PICTURES, AUGMENTED = "curves", "neighbors", "augmented"
ROWS = 8  # images whose neighbors are shown
MOST_SEARCHED = 2_000  # images among which they are searched
_LOSS, _ACCURACY = "tab:blue", "tab:orange"


def draw_pretraining(
    run: RunDirectory, plan: PretrainPlan, fitted: FitResult, network: Network, tracker: Tracker
) -> None:
    """Curves, augmented images and nearest neighbors."""
    pictures = {AUGMENTED: augmented(plan, fitted.data, has_labels=False), NEIGHBOR_PICTURES: _neighbors(network, plan)}
    for name, figure in {CURVES: pretrain_curves(run.metrics_path), **pictures}.items():
        if figure is not None:
            save(figure, run.figure_path(name))
            tracker.figure(f"figures/{name}", run.figure_path(name), has_images=name in pictures)
    tracker.summary({f"best/{name}": value for name, value in fitted.result.validation.items()})
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


@torch.inference_mode()
def _neighbors(network: Network, plan: PretrainPlan) -> Figure | None:
    """Some images, each followed by its nearest neighbors among training images, with their cosine similarities.

    With labels, the images are validation images. Without labels they are training images, which are not neighbors of
    themselves. There is no picture with fewer training images than neighbors.
    """
    splits, names = numbered(plan.source), plan.source.class_names
    searched = spread(splits.get(LABELED, plan.source.splits["train"]), MOST_SEARCHED)
    queries = spread(splits.get(QUERIES, searched), ROWS)
    if len(searched) <= NEIGHBORS:
        return None
    datasets = [ImageDataset(some, plan.preprocess, None, seed=0, in_memory=False) for some in (searched, queries)]
    features, device = [], next(network.parameters()).device
    for dataset in datasets:  # an image that cannot be read is black
        batches = evaluation_loader(dataset, EVALUATION_BATCH_SIZE, num_workers=0)
        inputs = (plan.preprocess.normalize(batch.image.to(device)) for batch in batches)
        features.append(torch.cat([network(images).flatten(1).float() for images in inputs]).cpu().numpy())
    count = NEIGHBORS if QUERIES in splits else NEIGHBORS + 1  # the image itself is the nearest one
    rows, similarities = nearest(features[0], features[1], count)
    images, captions = [], []
    for query, path in enumerate(queries.paths):
        near = [
            (int(row), f"{similarity:.2f} ")
            for row, similarity in zip(rows[query], similarities[query], strict=True)
            if QUERIES in splits or searched.paths[int(row)] != path
        ]
        for dataset, place, words in [(datasets[1], query, ""), *((datasets[0], *one) for one in near[:NEIGHBORS])]:
            one = dataset.samples.select([place])
            images.append(dataset.__getitems__([Key(-1, place)]).image[0])
            captions.append(words + "".join(label_names(one, names) if one.task.is_exclusive else []))
    title = f"An image, and its {NEIGHBORS} nearest neighbors with their cosine similarity"
    return image_grid(images, captions, title, 1 + NEIGHBORS)


def write_pretrain_report(run: RunDirectory, result: RunResult | None = None) -> None:
    """Write report.html into the folder of a finished pretraining, from its files. Pictures are those in figures/.

    UsageError where the pretraining has not finished; DataError where one of its files is damaged.

    Args:
        result: the result where result.json is not written yet; None: read the file.
    """
    result = result or run.finished_result(with_classes=False)
    figures = {name: run.figure_path(name) for name in (NEIGHBOR_PICTURES, AUGMENTED)}
    with explained(DataError, f"{run.path} is damaged", "restore its files, or pretrain again", DAMAGE):
        pictures = {
            name: inline(path.read_bytes(), "image/png") if path.is_file() else None for name, path in figures.items()
        }
        accuracies = [float(row[KNN]) for row in records(run.metrics_path) if row.get(KNN)]
        content = {
            "network": result.spec.name,
            "data": result.data,
            "folder": run.path.resolve().name,
            "method": result.method,
            "num_images": result.num_images["train"],
            "accuracies": [percent(value, sign="") for value in (accuracies[:1] + accuracies[-1:])],
            "count": NEIGHBORS,
            "curves": drawn(pretrain_curves(run.metrics_path)),
            **pictures,
            "facts": facts(result),
            "config_name": run.config_path.name,
            "config": read_text(run.config_path).splitlines(),
            "backbone": run.backbone_path.name,
        }
    write_page(run.report_path, "pretrain.html", content)
