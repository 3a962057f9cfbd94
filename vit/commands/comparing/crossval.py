"""`vit crossval DATA`: every image tested once, by a network that has not trained on it"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import EXECUTOR_OPTIONS, ExecutorOptions, PositiveInt, StrPath, without
from vit.commands.cli.command_line import Parser
from vit.commands.cli.recipe_options import MAIN, NO_TRIALS, make_parser
from vit.commands.studies.study_cells import StudyProgress
from vit.commands.studies.study_report import report_crossval
from vit.commands.studies.study_series import ONE_DEVICE, tracking_of_cells
from vit.commands.training.run_folder import facts_of_cells, find_bursts, read_images
from vit.commands.training.train_options import TrainOptions, find_start, read_values, to_options, unused_options
from vit.console import Reporter
from vit.errors import UsageError
from vit.launch import forget_launcher
from vit.options import Option, options_of, read_value
from vit.study.running.cluster import describe_share, share_of
from vit.training.recipes.values import dump
from vit.training.tracking.tracker import SHARED, refuse_register

if TYPE_CHECKING:
    from vit.study.crossval import CrossvalDirectory
    from vit.study.findings import JsonValue
    from vit.study.grid import Cell

OUT = "crossval"  # parent folder, where --out is not given
_ABOUT = (
    "Divide all images of DATA into N folds, and train N networks, each without one fold. Every image is tested once, "
    "by the network that has not seen it. The predictions also show labels that may be wrong ('vit data check DATA "
    "--labels FOLDER'). Takes the options of vit train below. Give the same command again to continue."
)
_REFUSED = ("resume", "data.fold", "data.test", "optim.time", "mlflow.register", *ONE_DEVICE, *SHARED)  # and a teacher
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
    number: int = read_value(PositiveInt, folds, "vit.crossval: folds")
    folder = run_crossval(read_values(data, config, None, options), number, where, Reporter())
    if folder is None:
        raise UsageError("a dry run leaves no folder", "leave dry_run out, or use the command line")
    return folder


def crossval_parser() -> Parser:
    """The parser of `vit crossval`."""
    recipe = make_parser()
    folds = Option("folds", PositiveInt, "number of folds, 2 or more", 5)
    options = (*recipe.options, folds, *options_of(ExecutorOptions))
    main = {"folds": {"--folds N": "number of folds", "--jobs N": "folds at a time; else by devices"}, **MAIN}
    parser = replace(recipe, command="crossval", about=_ABOUT, example=_EXAMPLE, options=options, main=main)
    return parser.changed(NO_TRIALS | {"out": {"default": OUT}}).without(_REFUSED, ("distill",))


def main(words: Sequence[str]) -> int:
    """`vit crossval`: `crossval` with the options of a command line; returns the exit code."""
    values = crossval_parser().read_words(words)
    further = {name: values.pop(name) for name in ("folds", *EXECUTOR_OPTIONS) if name in values}
    options = to_options(values)
    folds, reporter = int(further.pop("folds", 5)), Reporter()
    run_crossval(options, folds, ExecutorOptions.of("crossval", further), reporter)
    if options.dry_run:
        reporter.next_command(f"vit crossval {without(words, '--dry_run')}".rstrip())
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
    reasons |= dict.fromkeys(SHARED, "sends numbers alone")
    for name, reason in reasons.items():
        if name in options.layers.options:
            raise UsageError(f"--{name} is for vit train: each fold {reason}", "leave it out")
    where.check(options.dry_run)
    plan = make_crossval_plan(options, folds, reporter)
    show_crossval(reporter, plan, where)
    if options.dry_run:
        return None
    folder, num_train = plan.folder.path, max(cell.num_images for cell in plan.cells)
    plan.folder.describe(plan.cells, plan.facts)
    num_images = {"train": num_train, "others": len(plan.digests) - num_train}
    StudyProgress(reporter, folder, plan.cells, num_images).run(plan.cells, where, plan.digests)
    report_crossval(reporter, folder)
    return folder


@dataclass(frozen=True)
class CrossvalPlan:
    """A cross-validation, fully decided."""

    cells: "list[Cell]"
    folder: "CrossvalDirectory"
    digests: Mapping[str, str]
    facts: "Mapping[str, JsonValue]"  # what crossval.json says of it: data, classes, network, folds, seed
    notes: list[str]  # what the user should know about the images, and about the weights to start from


def make_crossval_plan(options: TrainOptions, folds: int, reporter: Reporter) -> CrossvalPlan:
    """Read and divide the images, and make every choice; DataError where they cannot be divided into so many folds."""
    if not options.layers.says("out"):
        options = replace(options, layers=options.layers.with_option("out", OUT))
    start = find_start(options, reporter)
    if start.recipe.data.fold is not None:
        raise UsageError("data.fold is one fold, and vit crossval trains all", "leave it out")

    from vit.checkpoints.run import slug
    from vit.data.checks.contents import known_contents
    from vit.data.core.samples import Source
    from vit.data.splits.split import pooled
    from vit.data.splits.stratified import describe_division
    from vit.study.crossval import CrossvalDirectory, fold_cells
    from vit.study.grid import Inputs, of_cells
    from vit.training.planning.images import at_revision, chosen_part, divided, kept_together, opened_data
    from vit.training.planning.plan import make_plan, open_inputs
    from vit.training.running.run_images import OF_FOLDS, seen_before
    from vit.weights.open import weights_hash

    refuse_register(start.recipe, "a cross-validation")
    forget_launcher()  # a cross-validation that a launcher has started plans and trains alone
    recipe = of_cells(start.recipe, "a cross-validation", "give --epochs or --optim.steps")
    recipe = replace(recipe, wandb=tracking_of_cells(recipe.wandb, recipe.tracker))
    dataset = start.listed or opened_data(recipe.data)
    recipe = at_revision(recipe, dataset)
    data = recipe.data
    of_folds = [replace(recipe, data=replace(data, fold=f"{number}/{folds}")) for number in range(1, folds + 1)]
    dataset.check_one_class("vit crossval")
    opened = open_inputs(of_folds[0], dataset)
    find_bursts(dataset, data, reporter)
    first = make_plan(of_folds[0], opened)
    reporter.notice("; ".join(unused_options(options.layers.options, first.recipe, ()).values()))
    joined = kept_together(dataset, of_folds[0].data)
    sources, whole = [chosen_part(divided(dataset, one.data), one.data, one.seed) for one in of_folds], pooled(joined)
    listed = Source(dataset.name, dataset.class_names, {"test": whole})  # each is tested, so that all must be readable
    contents = read_images(listed, reporter)
    digests = contents.by_path(listed)
    if recipe.distill.teacher is not None:
        fix = "train a teacher of each fold with --data.fold I/N, and its students with the same fold"
        raise UsageError("--teacher with vit crossval: one teacher has trained on images that the folds test", fix)
    seen = seen_before(recipe, listed, contents, OF_FOLDS)
    reporter.warn(*seen)
    weights = {path: weights_hash(path) for path in (recipe.model.init_from,) if path is not None}
    inputs = []
    for source in sources:
        known = known_contents(source, digests)
        assert known is not None  # all images have just been read
        inputs.append(Inputs(dataset.name, known.split_hashes(source), weights))
    notes = list(joined.notes)
    if len(dataset.splits) > 1:
        counts = ", ".join(f"{len(samples):,} {split}" for split, samples in dataset.splits.items())
        notes.insert(0, f"the splits of {dataset.name} ({counts}) do not count: every image is tested once")
    if data.train_images is not None:
        notes.append(f"fold 1: {sources[0].notes[-1]}")
    notes += [start.why] if start.why else []
    facts: dict[str, JsonValue] = {
        "data": dataset.name, "source": data.source, "classes": list(dataset.class_names), "images": len(whole),
        "network": first.spec.name, "folds": folds,
        "division": f"{describe_division(whole)}, seed {data.split_seed}", "seed": recipe.seed,
    }  # fmt: skip
    if seen:
        facts["seen_before"] = list(seen)
    cells = fold_cells(recipe, first.spec.name, inputs, [len(source.splits["train"]) for source in sources])
    folder = CrossvalDirectory(Path(recipe.out).expanduser() / (recipe.name or slug(dataset.name)))
    return CrossvalPlan(cells, folder, digests, facts, notes)


def show_crossval(reporter: Reporter, plan: CrossvalPlan, where: ExecutorOptions) -> None:
    """Show what a cross-validation will do."""
    facts, sizes = plan.facts, sorted({cell.num_images for cell in plan.cells})
    assert isinstance(facts["classes"], list)
    share = share_of(where.executor, where.cluster_options, where.jobs)
    each = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    reporter.line(f"Cross-validation of {facts['network']} on {facts['data']}")
    reporter.facts(
        [
            ("data", f"{facts['images']:,} images; {len(facts['classes']):,} classes"),
            *(("note", note) for note in plan.notes),
            ("folds", f"{facts['folds']}, {facts['division']}"),
            ("training", f"{each} images each"),
            ("jobs", describe_share(where.executor, share)),
            *facts_of_cells(plan.cells[0].recipe, plan.folder.path),
            ("folder", str(plan.folder.path)),
        ]
    )
