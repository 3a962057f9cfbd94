"""`vit crossval DATA`: every image tested once, by a network that has not trained on it"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vit.commands.cli.arguments import EXECUTOR_OPTIONS, ExecutorOptions, PositiveInt, StrPath, without_dry_run
from vit.commands.cli.command_line import Parser
from vit.commands.cli.options import Option, options_of
from vit.commands.cli.recipe_options import MAIN, NO_TRIALS, make_parser
from vit.commands.comparing.crossval_plan import OUT, make_crossval_plan, report_crossval, show_crossval
from vit.commands.studies.study_cells import StudyProgress
from vit.commands.studies.study_series import ONE_DEVICE
from vit.commands.training.train_options import TrainOptions, read_values, to_options
from vit.console import Reporter
from vit.errors import StoppedError, UsageError
from vit.training.recipes.values import dump

_ABOUT = (
    "Divide all images of DATA into N folds, and train N networks, each without one fold. Every image is tested once, "
    "by the network that has not seen it. The predictions also show labels that may be wrong ('vit data check DATA "
    "--labels FOLDER'). Takes the options of vit train below. Give the same command again to continue."
)
_REFUSED = ("resume", "data.fold", "data.test", "optim.time", "mlflow.register", *ONE_DEVICE)  # and those of a teacher
_EXAMPLE = "vit crossval photos/ --folds 5 --network resnet18 --epochs 30"


def crossval(
    data: StrPath | None = None, *, folds: int = 5, config: StrPath | Sequence[StrPath] | None = None, **options: object
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
    recipe = make_parser()
    folds = Option("folds", PositiveInt, "number of folds, 2 or more", 5)
    parser = replace(
        recipe,
        command="crossval",
        about=_ABOUT,
        example=_EXAMPLE,
        options=(*recipe.options, folds, *options_of(ExecutorOptions)),
        main={"folds": {"--folds N": "number of folds", "--jobs N": "folds at a time; else by devices"}, **MAIN},
    )
    return parser.changed(NO_TRIALS | {"out": {"default": OUT}}).without(_REFUSED, ("distill",))


def main(words: Sequence[str]) -> int:
    """`vit crossval`: `crossval` with the options of a command line; returns the exit code."""
    values = crossval_parser().read_words(words)
    further = {name: values.pop(name) for name in ("folds", *EXECUTOR_OPTIONS) if name in values}
    options = to_options(values)
    folds, reporter = int(further.pop("folds", 5)), Reporter()
    run_crossval(options, folds, ExecutorOptions.of("crossval", further), reporter)
    if options.dry_run:
        reporter.next_command(f"vit crossval {without_dry_run(words)}".rstrip())
    return 0


def run_crossval(options: TrainOptions, folds: int, where: ExecutorOptions, reporter: Reporter) -> Path | None:
    """Train the folds without a result, then write and show the report; None where nothing was to be trained."""
    if options.print_config:
        print(dump(options.layers.recipe()), end="")
        return None
    if folds < 2:
        raise UsageError(f"--folds {folds}", "give 2 or more; 5 and 10 are usual")
    if options.resume is not None:
        raise UsageError("--resume is for vit train", "leave it out: the same 'vit crossval' command continues")
    reasons = {"data.test": "is the test of its network", **dict.fromkeys(ONE_DEVICE, "trains on one device")}
    for name, reason in reasons.items():
        if name in options.layers.options:
            raise UsageError(f"--{name} is for vit train: each fold {reason}", "leave it out")
    where.check(options.dry_run)
    plan = make_crossval_plan(options, folds, reporter)
    show_crossval(reporter, plan, where)
    if options.dry_run:
        return None

    from vit.study.running.cluster import run_cells_on

    folder, cells = plan.folder.path, plan.cells
    plan.folder.describe(cells, plan.facts)
    num_train = max(cell.num_images for cell in cells)
    num_images = {"train": num_train, "others": len(plan.digests) - num_train}
    progress = StudyProgress(reporter, folder, cells, num_images)
    try:
        run_cells_on(where.executor, folder, cells, where.cluster_options, where.jobs, plan.digests, progress.notify)
    except KeyboardInterrupt as error:
        raise StoppedError(130, "interrupted", "to continue, give the same command again") from error
    finally:
        progress.close()
    report_crossval(reporter, folder)
    return folder
