"""A cross-validation: its plan, fully decided, and what its folds have found, both on the terminal"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import ExecutorOptions, shell_command
from vit.commands.cli.recipe_options import read_recipe
from vit.commands.studies.study_series import tracking_of_cells
from vit.commands.training.run_folder import facts_of_cells, find_bursts, read_images
from vit.commands.training.train_options import TrainOptions, find_start
from vit.commands.training.train_plan import warn_of_seen
from vit.console import Reporter, interval
from vit.errors import UsageError
from vit.launch import forget_launcher
from vit.layout import RunLayout
from vit.training.tracking.tracker import refuse_register

if TYPE_CHECKING:
    from vit.study.crossval import CrossvalDirectory
    from vit.study.findings import Interval, JsonValue
    from vit.study.grid import Cell

OUT = "crossval"  # parent folder, where --out is not given


@dataclass(frozen=True)
class CrossvalPlan:
    """A cross-validation, fully decided."""

    cells: "list[Cell]"
    folder: "CrossvalDirectory"
    digests: Mapping[str, str]
    facts: "Mapping[str, JsonValue]"  # what crossval.json says of it: data, classes, network, folds, seed
    notes: list[str]  # what the user should know about the images, and about the weights to start from


def make_crossval_plan(options: TrainOptions, folds: int, reporter: Reporter) -> CrossvalPlan:
    """Read the images, divide them, and make every choice before the first training.

    DataError where the images cannot be divided into so many folds.
    """
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
    found = start.listed or opened_data(recipe.data)
    recipe = at_revision(recipe, found)
    data = recipe.data
    of_folds = [replace(recipe, data=replace(data, fold=f"{number}/{folds}")) for number in range(1, folds + 1)]
    found.check_one_class("vit crossval")
    opened = open_inputs(of_folds[0], found)
    find_bursts(found, data, reporter)
    first = make_plan(of_folds[0], opened)
    joined = kept_together(found, data)
    sources, whole = [chosen_part(divided(found, one.data), one.data, one.seed) for one in of_folds], pooled(joined)
    listed = Source(found.name, found.class_names, {"test": whole})  # each is tested, so that all must be readable
    contents = read_images(listed, reporter)
    digests = contents.by_path(listed)
    if recipe.distill.teacher is not None:
        fix = "train a teacher of each fold with --data.fold I/N, and its students with the same fold"
        raise UsageError("--teacher with vit crossval: one teacher has trained on images that the folds test", fix)
    seen = seen_before(recipe, listed, contents, OF_FOLDS)
    warn_of_seen(reporter, seen)
    weights = {path: weights_hash(path) for path in (recipe.model.init_from,) if path is not None}
    inputs = []
    for source in sources:
        known = known_contents(source, digests)
        assert known is not None  # all images have just been read
        inputs.append(Inputs(found.name, known.split_hashes(source), weights))
    parent, notes = Path(recipe.out if options.layers.says("out") else OUT).expanduser(), [*joined.notes]
    if len(found.splits) > 1:
        counts = ", ".join(f"{len(samples):,} {split}" for split, samples in found.splits.items())
        notes.insert(0, f"the splits of {found.name} ({counts}) do not count: every image is tested once")
    if data.train_images is not None:
        notes.append(f"fold 1: {sources[0].notes[-1]}")
    notes += [start.why] if start.why else []
    facts: dict[str, JsonValue] = {
        "data": found.name,
        "source": data.source,
        "classes": list(found.class_names),
        "images": len(whole),
        "network": first.spec.name,
        "folds": folds,
        "division": f"{describe_division(whole)}, seed {data.split_seed}",
        "seed": recipe.seed,
        **({"seen_before": list(seen)} if seen else {}),
    }
    return CrossvalPlan(
        fold_cells(recipe, first.spec.name, inputs, [len(source.splits["train"]) for source in sources]),
        CrossvalDirectory(parent / (recipe.name or slug(found.name))),
        digests,
        facts,
        notes,
    )


def show_crossval(reporter: Reporter, plan: CrossvalPlan, where: ExecutorOptions) -> None:
    """Show what a cross-validation will do."""
    from vit.study.running.cluster import describe_share, share_of

    facts, sizes = plan.facts, sorted({cell.num_images for cell in plan.cells})
    assert isinstance(facts["classes"], list)
    share = share_of(where.executor, where.cluster_options, where.jobs)
    each = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    reporter.line(f"Cross-validation of {facts['network']} on {facts['data']}")
    reporter.facts(
        [
            ("data", f"{facts['images']:,} images; {len(facts['classes'])} classes"),
            *(("note", note) for note in plan.notes),
            ("folds", f"{facts['folds']}, {facts['division']}"),
            ("training", f"{each} images each"),
            ("jobs", describe_share(where.executor, share)),
            *facts_of_cells(plan.cells[0].recipe, plan.folder.path),
            ("folder", str(plan.folder.path)),
        ]
    )


def report_crossval(reporter: Reporter, path: Path) -> None:
    """Collect the folds, write predictions.csv, summary.json and report.html, and show accuracy and paths.

    BadInputsError where a fold is not finished.
    """
    from vit.checkpoints.locking import alone
    from vit.report.studies.crossval_page import write_crossval_page
    from vit.study.crossval import CrossvalDirectory

    folder = CrossvalDirectory.open(path)
    with alone(folder.lock_path):
        found = folder.collect()
        write_crossval_page(found, folder.report_path)
    accuracy = found.accuracy
    right, total = int(found.predictions.correct.sum()), len(found.predictions.labels)
    reporter.line(f"\n{right:,} of {total:,} images are predicted right by {found.judges}")
    for sentence in found.seen_before:
        reporter.line(f"WARNING: {sentence}")
    if found.left_out:
        reporter.line(found.left_out_text)
    units = "the folds" if accuracy.num_groups is None else f"the folds and {accuracy.num_groups:,} groups"
    whole = f"{_text(accuracy.accuracy)}; the interval respects {units}"
    naive = f"{_text(accuracy.naive)}; it takes all images for independent, and is often too narrow"
    reporter.facts([("accuracy", whole), ("naive", naive)])
    folds = enumerate(zip(accuracy.num_images, accuracy.folds, found.runs, strict=True), 1)
    rows = [(number, f"{count:,}", _text(one), run.relative_to(path)) for number, (count, one, run) in folds]
    reporter.table(("fold", "images", "accuracy", "run"), rows)
    if found.last_weights_warning:
        reporter.line(f"\n{found.last_weights_warning}")
    reporter.line()
    reporter.facts([("report", str(folder.report_path)), ("predictions", str(folder.predictions_path))])
    data = read_recipe(RunLayout(found.runs[0]).config_path).data
    of_data = {name: getattr(data, name) for name in ("root", "groups", "image_column", "label_column")}
    options = {"labels": path, **of_data}
    reporter.next_command(shell_command("vit", "data", "check", data.source, options=options))


def _text(accuracy: "Interval") -> str:
    assert accuracy.low is not None
    assert accuracy.high is not None
    return interval(accuracy.value, accuracy.low, accuracy.high)
