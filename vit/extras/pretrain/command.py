"""`vit pretrain DATA`: from images without labels to a backbone that trainings start from"""

import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import StrPath, shell_command, without
from vit.commands.cli.recipe_options import check_names
from vit.commands.training.resuming import newest_for_all, recipe_for_all, recipe_of
from vit.commands.training.run_folder import noticed_failure, open_run, read_on_first, tracker_facts, tracker_of
from vit.commands.training.train_options import TrainOptions, in_one_process, read_values, read_words, unused_options
from vit.commands.training.train_plan import augment_text, length_facts, network_text, start_facts, warn_of_space
from vit.commands.training.train_progress import TrainProgress, troubles
from vit.console import Reporter, count_of, duration, percent
from vit.csv_files import records
from vit.errors import DisagreementError, StoppedError, UsageError
from vit.launch import is_first
from vit.training.recipes.pretrain_recipe import PretrainRecipe
from vit.training.recipes.values import dump
from vit.training.tracking.tracker import Tracker, tracked

if TYPE_CHECKING:
    from vit.checkpoints.result import RunResult
    from vit.checkpoints.run import RunDirectory, RunPath
    from vit.data.checks.contents import Contents
    from vit.data.core.samples import Source
    from vit.extras.pretrain.pretrainer import PretrainPlan
    from vit.models.network import Network
    from vit.training.distributed.processes import Rendezvous
    from vit.training.running.result import FitResult

KNN = "val/knn_acc1"
METHODS = {
    "diet": "DIET: every image is a class of its own (arXiv 2406.10743)",
    "mae": "MAE: the pixels of hidden patches (arXiv 2111.06377)",
}
NO_PROGRESS = "without labels no accuracy shows the progress: the loss says little, look at the page's neighbors"


def pretrain(
    data: StrPath | None = None,
    *,
    config: StrPath | Sequence[StrPath] | None = None,
    resume: StrPath | None = None,
    **options: object,
) -> "RunPath":
    """Learn from images without labels, and leave a run folder with a backbone that trainings start from.

    Args:
        data: a folder of images at any depth, a CSV with a column path, or labeled data as `vit.train` takes them, of
            which only the training images are learned from; None: the recipe's.
        config: recipe files, or names of shipped recipes; a later one stands above an earlier one.
        resume: unfinished pretraining to resume; "auto": the newest one below `out` that has these options, else a new
            run.
        options: options of the recipe by their names on the command line: method="diet", init_from="weights.pth",
            epochs=100. A name with dots is given as `**{"data.unlabeled": "more_photos/"}`. One device trains, unless
            torchrun has started the program.

    Returns:
        The run folder, which `init_from` takes.

    Raises:
        VitError: an option, the data or the machine does not allow the pretraining, or it ended early.

    Example:
        vit.pretrain("photos/", network="vit_tiny_patch16_224", epochs=100)
    """
    run = run_pretraining(in_one_process(read_values(data, config, resume, options, PretrainRecipe)))
    if run is None:
        raise UsageError("a dry run leaves no run folder", "leave dry_run out, or use the command line")

    from vit.checkpoints.run import RunPath

    return RunPath(run.path)


def main(words: Sequence[str]) -> int:
    """`vit pretrain`: `pretrain` with the options of a command line; returns the exit code."""
    options = read_words(words, PretrainRecipe)
    run_pretraining(options)
    if options.dry_run:
        Reporter().next_command(f"vit pretrain {without(words, '--dry_run')}".rstrip())
    return 0


def run_pretraining(options: TrainOptions) -> "RunDirectory | None":
    """Carry a pretraining out; None where it was only to be shown."""
    if options.print_config:
        print(dump(options.layers.recipe()), end="")
        return None
    reporter = Reporter(quiet=not is_first())
    recipe, rendezvous = options.layers.recipe(), None
    if options.run is not None:
        recipe, rendezvous = recipe_for_all(options.run, options.layers, recipe_of)
    assert isinstance(recipe, PretrainRecipe)
    check_names(recipe, options.run is not None)

    from vit.checkpoints.run import RunDirectory
    from vit.extras.pretrain.images import only_used
    from vit.extras.pretrain.pretrainer import make_pretrain_plan, pretraining_images
    from vit.training.distributed.devices import device_and_world_size
    from vit.training.distributed.processes import Rendezvous

    if not options.names_data:
        reporter.notice("no DATA is given: digits are learned from, which come with the installation")
    reporter.notice("; ".join(unused_options(options.layers.options, recipe, ()).values()))
    images = pretraining_images(recipe.data, recipe.seed)
    if options.dry_run:
        plan = make_pretrain_plan(recipe, only_used(images))
        _show_plan(reporter, plan, "none: a dry run learns nothing")
        return None
    rendezvous = rendezvous or Rendezvous(device_and_world_size(recipe.trainer)[1])
    images, contents = _without_copies(images, recipe, rendezvous, reporter)
    plan = make_pretrain_plan(recipe, images)
    resumed = options.run
    if options.resume is not None and resumed is None:
        resumed, plan = newest_for_all(plan, rendezvous, images, contents, reporter)
    with ExitStack() as lock:

        def decide() -> str:
            assert contents is not None
            return str(open_run(plan, resumed, contents, lock, plan.recipe.name or plan.recipe.method).path)

        run = RunDirectory(Path(rendezvous.decided("run", decide)))
        _show_plan(reporter, plan, str(run.path))
        if is_first():
            warn_of_space(reporter, plan, run)
        _pretrain(plan, run, resumed is not None, reporter)
    return run


def _without_copies(
    images: "Source", recipe: PretrainRecipe, rendezvous: "Rendezvous", reporter: Reporter
) -> "tuple[Source, Contents | None]":
    """The images without copies of unseen images, and on the first process the contents of those that are used.

    Images beside DATA may be copies of its validation and test images, by any name. The first process decides for all.
    """
    from vit.extras.pretrain.images import copies_of_unseen, only_used, without_rows

    if recipe.data.unlabeled is None:
        used = only_used(images)
        return used, read_on_first(used, reporter, rendezvous)
    contents = read_on_first(images, reporter, rendezvous)

    def decide() -> str:
        assert contents is not None
        return json.dumps(copies_of_unseen(images, contents))

    rows = set(json.loads(rendezvous.decided("copies", decide)))
    return without_rows(images, contents, rows)


def _pretrain(plan: "PretrainPlan", run: "RunDirectory", resume: bool, reporter: Reporter) -> None:
    from vit.extras.pretrain.pretrainer import fit_pretraining
    from vit.training.fit import TrackedRows, finish

    tracker = tracker_of(plan, run, reporter)
    progress = _PretrainProgress(reporter, plan.validation_name, plan.rounds)
    try:
        with tracked(tracker):
            fitted, network = fit_pretraining(plan, run, [TrackedRows(tracker), progress], resume)
    except (StoppedError, DisagreementError):
        if is_first():
            raise
        return  # the first process says it; a launcher that sees another code first would cut that short
    finally:
        progress.close()
    if not fitted.is_first_process:
        return
    draw = partial(_draw, reporter, run, plan, fitted, network, tracker)
    finish(run, fitted, tracker, draw, plan.recipe.trainer.keep_state)
    _show_result(reporter, run, fitted.result, plan)


def _draw(
    reporter: Reporter,
    run: "RunDirectory",
    plan: "PretrainPlan",
    fitted: "FitResult",
    network: "Network",
    tracker: Tracker,
) -> None:
    from vit.extras.pretrain.page import draw_pretraining, write_pretrain_report

    with noticed_failure(reporter, run):
        draw_pretraining(run, plan, fitted, network, tracker)
        write_pretrain_report(run, fitted.result)


def _show_plan(reporter: Reporter, plan: "PretrainPlan", run: str) -> None:
    """Show what a pretraining will do in a run folder, or why there is none."""
    from vit.extras.pretrain.images import LABELED, QUERIES, is_labeled, numbered
    from vit.extras.pretrain.pretrainer import NEIGHBORS

    splits, train, progress = numbered(plan.source), plan.source.splits["train"], NO_PROGRESS
    if QUERIES in splits:
        progress = (
            f"accuracy of the {NEIGHBORS} nearest of {len(splits[LABELED]):,} labeled training images, for "
            f"{len(splits[QUERIES]):,} validation images; labels serve for nothing else"
        )
    num_labeled = int(is_labeled(train).sum())
    with_label = f", {num_labeled:,} of them with a label" if num_labeled else ""
    reporter.line(f"Pretraining {plan.spec.name} on {plan.source.name}, without labels")
    reporter.facts(
        [
            ("method", METHODS[plan.recipe.method]),
            ("data", f"{count_of(len(train), 'image')} to learn from{with_label}"),
            *(("note", note) for note in plan.source.notes),
            ("progress", progress),
            ("network", network_text(plan)),
            *start_facts(plan, ""),
            ("augment", augment_text(plan)),
            *length_facts(plan),
            ("device", f"{plan.device.type}, {plan.precision}"),
            ("run", run),
            *tracker_facts(plan.recipe, run),
        ]
    )


class _PretrainProgress(TrainProgress):
    """A listener that shows steps, ends of epochs and notices of a pretraining."""

    def row(self, row: dict[str, float], step: int) -> None:
        """Show a row of metrics.csv that ends an epoch, or that measures the weights before the first step."""
        accuracy = {"k-NN acc": percent(row[KNN])} if KNN in row else {}
        if "train/images_per_second" in row:
            self.add(int(row["epoch"]) + 1, {"train loss": f"{row['train/loss']:.3f}", **accuracy}, row)
        elif accuracy:
            line = f"before the first step  k-NN acc {accuracy['k-NN acc']}"
            self.add(0, {"train loss": "", **accuracy}, row, line)


def _show_result(reporter: Reporter, run: "RunDirectory", result: "RunResult", plan: "PretrainPlan") -> None:
    reporter.line(f"\n{duration(result.seconds)} in all, {result.speed_text}")
    facts, is_worse = [], False
    if KNN in result.validation:
        first = next((float(row[KNN]) for row in records(run.metrics_path) if row[KNN]), math.nan)
        end = result.validation[KNN]
        facts.append(("k-NN accuracy", f"{percent(first)} before, {percent(end)} after the pretraining"))
        is_worse = end < first
    files = [("report", str(run.report_path)), ("backbone", str(run.backbone_path))]
    reporter.facts([*facts, *troubles(result), *files])
    config, start = plan.recipe.data, plan.recipe.model.init_from
    data, options = "LABELED_IMAGES", dict[str, StrPath | None]()
    if plan.source.class_names:
        path, here = Path(config.source), Path.cwd()  # a recipe has the absolute path
        data = str(path.relative_to(here)) if path.is_relative_to(here) else config.source
        options |= config.places
    if is_worse:
        reporter.warn(
            "the k-NN accuracy fell, so the features fit your classes less than before; a short pretraining "
            "often does that. Compare before you use this backbone"
        )
    if is_worse and start is not None:
        options |= {"backbones": f"{start},{run.path}"}
        reporter.next_command(shell_command("vit", "probe", data, options=options))
    else:
        options = {f"data.{name}": value for name, value in options.items()} | {"init_from": run.path}
        reporter.next_command(shell_command("vit", "train", data, options=options))
