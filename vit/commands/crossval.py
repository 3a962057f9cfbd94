"""`vit crossval DATA`: every image tested once, by a network that has not trained on it"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from vit.commands.arguments import PositiveInt, StrPath, without_dry_run
from vit.commands.crossval_plan import CrossvalPlan, make_crossval_plan, show_crossval
from vit.commands.crossval_report import report_crossval
from vit.commands.executor_options import EXECUTOR_OPTIONS, ExecutorOptions, add_executor_options
from vit.commands.parser import Parser
from vit.commands.recipe_options import NO_TRIALS, make_parser
from vit.commands.study_cells import StudyProgress
from vit.commands.study_series import ONE_DEVICE
from vit.commands.train_options import TrainOptions, read_values, read_with
from vit.console import Reporter
from vit.errors import StoppedError, UsageError
from vit.training.recipes.recipe import DistillConfig
from vit.training.recipes.values import dump

_ABOUT = (
    "Divide all images of DATA into N folds, and train N networks, each without one fold. Every image is tested once, "
    "by the network that has not seen it. The predictions also show labels that may be wrong ('vit data check DATA "
    "--labels FOLDER'). Takes the options of vit train below. Give the same command again to continue."
)
_REFUSED = ("resume", "data.fold", "data.test", "optim.time", "mlflow.register", *ONE_DEVICE)  # and those of a teacher
_EXAMPLE = "vit crossval photos/ --folds 5 --network resnet18 --epochs 30"


def crossval(
    data: StrPath | None = None,
    *,
    folds: int = 5,
    config: StrPath | Sequence[StrPath] | None = None,
    **options: object,
) -> Path:
    """Test every image once, by networks that have not trained on it: accuracy over all images, with its interval.

    Finished folds of the same cross-validation are not trained again.

    Args:
        data: images as `vit.train` takes them. All their splits are divided into the folds.
        folds: number of folds, 2 or more.
        config: recipe files, or names of shipped recipes.
        options: options of `vit.train`; and jobs=2, executor="slurm", cluster={"time": "2h"} as for `vit.study`.

    Returns:
        The folder of the cross-validation, with predictions.csv, summary.json and report.html.

    Raises:
        VitError: an option, the data or the machine does not allow it, or a fold failed.

    Example:
        vit.crossval("photos/", folds=5, network="resnet18", epochs=30)
    """
    where = ExecutorOptions.of("crossval", {name: options.pop(name) for name in EXECUTOR_OPTIONS if name in options})
    found = run_crossval(read_values(data, config, None, options), folds, where, Reporter())
    if found is None:
        raise UsageError("a dry run leaves no folder", "leave dry_run out, or use the command line")
    return found


def crossval_parser() -> Parser:
    """The parser of `vit crossval`."""
    parser = make_parser()
    parser.prog, parser.command, parser.description = "vit crossval", "crossval", _ABOUT
    parser.epilog = f"example: {_EXAMPLE}"
    parser.add_argument("--folds", type=PositiveInt, default=5, help="number of folds, 2 or more")
    add_executor_options(parser)
    parser.set_defaults({"out": "crossval"})
    parser.hide((*_REFUSED, "distill", *(f"distill.{item.name}" for item in fields(DistillConfig))))
    parser.describe(NO_TRIALS)
    return parser


def main(words: Sequence[str]) -> int:
    """`vit crossval`: `crossval` with the options of a command line; returns the exit code."""
    options, further = read_with(crossval_parser(), words, ("folds", *EXECUTOR_OPTIONS))
    folds, reporter = int(further.pop("folds", 5)), Reporter()
    run_crossval(options, folds, ExecutorOptions.of("crossval", further), reporter)
    if options.dry_run:
        reporter.next_command(f"vit crossval {without_dry_run(words)}".rstrip())
    return 0


def run_crossval(options: TrainOptions, folds: int, where: ExecutorOptions, reporter: Reporter) -> Path | None:
    """Train the folds without a result, then write and show the report; None where nothing was to be trained."""
    if options.print_config:
        print(dump(options.given.recipe()), end="")
        return None
    if folds < 2:
        raise UsageError(f"--folds {folds}", "give 2 or more; 5 and 10 are usual")
    if options.resume is not None:
        raise UsageError("--resume is for vit train", "leave it out: the same 'vit crossval' command continues")
    if options.given.has_option("data.test"):
        raise UsageError("--data.test is for vit train: each fold is the test of its network", "leave it out")
    for name in ONE_DEVICE:
        if options.given.has_option(name):
            raise UsageError(f"--{name} is for vit train: each fold trains on one device", "leave it out")
    where.check(options.dry_run)
    plan = make_crossval_plan(options, folds, where, reporter)
    show_crossval(reporter, plan)
    if options.dry_run:
        return None
    plan.folder.describe(plan.cells, plan.facts)
    _run_folds(plan, reporter)
    report_crossval(reporter, plan.folder.path)
    return plan.folder.path


def _run_folds(plan: CrossvalPlan, reporter: Reporter) -> None:
    from vit.study.executors import run_cells_on

    num_train = max(cell.num_images for cell in plan.cells)
    num_images = {"train": num_train, "others": len(plan.digests) - num_train}
    where, folder = plan.where, plan.folder.path
    progress = StudyProgress(reporter, folder, plan.cells, num_images)
    try:
        run_cells_on(
            where.executor, folder, plan.cells, where.cluster_options, where.jobs, plan.digests, progress.notify
        )
    except KeyboardInterrupt as error:
        raise StoppedError(130, "interrupted", "to continue, give the same command again") from error
    finally:
        progress.close()
