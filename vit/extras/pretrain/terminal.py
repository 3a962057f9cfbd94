"""A pretraining on the terminal: its plan, its progress and its result"""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import shell_command
from vit.commands.training.run_folder import tracker_facts
from vit.commands.training.train_plan import augment_text, batch_text, length_facts, network_text, start_facts
from vit.commands.training.train_progress import TrainProgress
from vit.console import Reporter, count_of, duration, percent
from vit.csv_files import records

if TYPE_CHECKING:
    from vit.checkpoints.result import RunResult
    from vit.checkpoints.run import RunDirectory
    from vit.extras.pretrain.plan import PretrainPlan

KNN = "val/knn_acc1"
METHODS = {
    "diet": "DIET: every image is a class of its own (arXiv 2406.10743)",
    "mae": "MAE: the pixels of hidden patches (arXiv 2111.06377)",
}
NO_PROGRESS = "without labels no accuracy shows the progress: the loss says little, look at the page's neighbors"


def show_pretrain_plan(reporter: Reporter, plan: "PretrainPlan", run: str) -> None:
    """Show what a pretraining will do.

    Args:
        run: the run folder, or why there is none.
    """
    reporter.line(f"Pretraining {plan.spec.name} on {plan.source.name}, without labels")
    reporter.facts(
        [
            ("method", METHODS[plan.recipe.method]),
            ("data", _data(plan)),
            *(("note", note) for note in plan.source.notes),
            ("progress", _progress(plan)),
            ("network", network_text(plan)),
            *start_facts(plan, ""),
            ("augment", augment_text(plan)),
            ("batch", batch_text(plan)),
            *length_facts(plan),
            ("device", f"{plan.device.type}, {plan.precision}"),
            ("run", run),
            *tracker_facts(plan.recipe, run),
        ]
    )


def _data(plan: "PretrainPlan") -> str:
    from vit.extras.pretrain.plan import num_labeled

    num_images, labeled = len(plan.source.splits["train"]), num_labeled(plan.source)
    return f"{count_of(num_images, 'image')} to learn from" + (f", {labeled:,} of them with a label" if labeled else "")


def _progress(plan: "PretrainPlan") -> str:
    """What shows the progress."""
    from vit.extras.pretrain.images import LABELED, QUERIES, has_progress, numbered
    from vit.extras.pretrain.pretrainer import NEIGHBORS

    if not has_progress(plan.source):
        return NO_PROGRESS
    splits = numbered(plan.source)
    return (
        f"accuracy of the {NEIGHBORS} nearest of {len(splits[LABELED]):,} labeled training images, for "
        f"{len(splits[QUERIES]):,} validation images; labels serve for nothing else"
    )


class PretrainProgress(TrainProgress):
    """A listener that shows steps, ends of epochs and notices of a pretraining."""

    def row(self, row: dict[str, float], step: int) -> None:
        """Show a row of metrics.csv that ends an epoch, or that measures the weights before the first step."""
        accuracy = {"k-NN acc": percent(row[KNN])} if KNN in row else {}
        if "train/images_per_second" in row:
            self.add(int(row["epoch"]) + 1, {"train loss": f"{row['train/loss']:.3f}", **accuracy}, row)
        elif accuracy:
            line = f"before the first step  k-NN acc {accuracy['k-NN acc']}"
            self.add(0, {"train loss": "", **accuracy}, row, line)


def show_pretrain_result(reporter: Reporter, run: "RunDirectory", result: "RunResult", plan: "PretrainPlan") -> None:
    """Show the result of a finished pretraining, its files, and the next useful command."""
    reporter.line(f"\n{duration(result.seconds)} in all, {result.speed_text}")
    facts, is_worse = [], False
    if KNN in result.validation:
        first = next((float(row[KNN]) for row in records(run.metrics_path) if row[KNN]), math.nan)
        end = result.validation[KNN]
        facts.append(("k-NN accuracy", f"{percent(first)} before, {percent(end)} after the pretraining"))
        is_worse = end < first
    if result.unreadable_images:
        what = "training images; others stood in for them ('vit data check' lists all)"
        facts.append(("unreadable", f"{result.unreadable_images:,} {what}"))
    reporter.facts([*facts, ("report", str(run.report_path)), ("backbone", str(run.backbone_path))])
    labeled = bool(plan.source.class_names)
    data, config = _shown(plan.recipe.data.source) if labeled else "LABELED_IMAGES", plan.recipe.data
    names = ("root", "groups", "image_column", "label_column") if labeled else ()
    options = {name: getattr(config, name) for name in names if getattr(config, name)}
    start = plan.recipe.model.init_from
    if is_worse:
        reporter.notice(
            "WARNING: the k-NN accuracy fell, so the features fit your classes less than before; a short pretraining "
            "often does that. Compare before you use this backbone"
        )
    if is_worse and start is not None:
        reporter.next_command(
            shell_command("vit", "probe", data, options=options | {"backbones": f"{start},{run.path}"})
        )
    else:
        of_data = {f"data.{name}": value for name, value in options.items()}
        reporter.next_command(shell_command("vit", "train", data, options=of_data | {"init_from": run.path}))


def _shown(source: str) -> str:
    """DATA as a user would type it: a recipe has the absolute path."""
    path = Path(source)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else source
