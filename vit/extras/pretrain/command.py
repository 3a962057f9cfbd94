"""`vit pretrain DATA`: from images without labels to a backbone that trainings start from"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import StrPath, without_dry_run
from vit.commands.cli.recipe_options import check_names
from vit.commands.training.resuming import newest_for_all, recipe_for_all
from vit.commands.training.run_folder import noticed_failure, open_run, read_on_first, tracker_of
from vit.commands.training.train_options import TrainOptions, in_one_process, read_values, read_words
from vit.commands.training.train_plan import warn_of_space
from vit.console import Reporter
from vit.errors import DisagreementError, StoppedError, UsageError
from vit.extras.pretrain.terminal import PretrainProgress, show_pretrain_plan, show_pretrain_result
from vit.launch import is_first
from vit.training.recipes.pretrain_recipe import PretrainRecipe
from vit.training.recipes.values import dump

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory, RunPath
    from vit.data.checks.contents import Contents
    from vit.data.core.samples import Source
    from vit.extras.pretrain.fit import Pretrained
    from vit.extras.pretrain.plan import PretrainPlan
    from vit.training.distributed.rendezvous import Rendezvous
    from vit.training.tracking.tracker import Tracker


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
        Reporter().next_command(f"vit pretrain {without_dry_run(words)}".rstrip())
    return 0


def run_pretraining(options: TrainOptions) -> "RunDirectory | None":
    """Carry a pretraining out; None where it was only to be shown."""
    if options.print_config:
        print(dump(options.layers.recipe()), end="")
        return None
    reporter = Reporter(quiet=not is_first())
    recipe, rendezvous = options.layers.recipe(), None
    if options.run is not None:
        recipe, rendezvous = recipe_for_all(options.run, options.layers)
    assert isinstance(recipe, PretrainRecipe)
    check_names(recipe)

    from vit.checkpoints.run import RunDirectory
    from vit.extras.pretrain.images import only_used
    from vit.extras.pretrain.plan import make_pretrain_plan, pretraining_images
    from vit.training.distributed.devices import device_and_world_size
    from vit.training.distributed.rendezvous import Rendezvous

    if not options.names_data:
        reporter.notice("no DATA is given: digits are learned from, which come with the installation")
    _, world_size = device_and_world_size(recipe)
    images = pretraining_images(recipe.data, recipe.seed)
    if options.dry_run:
        plan = make_pretrain_plan(recipe, only_used(images))
        show_pretrain_plan(reporter, plan, "none: a dry run learns nothing")
        return None
    rendezvous = rendezvous or Rendezvous(world_size)
    images, contents = _without_copies(images, recipe, rendezvous, reporter)
    plan = make_pretrain_plan(recipe, images)
    resumed = options.run
    if options.resume is not None and resumed is None:
        resumed, plan = newest_for_all(plan, rendezvous, images, reporter)
    with ExitStack() as lock:

        def decide() -> str:
            assert contents is not None
            return str(open_run(plan, resumed, contents, lock, plan.recipe.name or plan.recipe.method).path)

        run = RunDirectory(Path(rendezvous.decided("run", decide)))
        show_pretrain_plan(reporter, plan, str(run.path))
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
    """Pretrain into a run folder, and on the first process write and show the result."""
    from vit.extras.pretrain.fit import fit_pretraining
    from vit.training.fit import TrackedRows, finish
    from vit.training.tracking.tracker import tracked

    tracker = tracker_of(plan, run, reporter)
    progress = PretrainProgress(reporter, plan.validation_name, plan.rounds)
    try:
        with tracked(tracker):
            pretrained = fit_pretraining(plan, run, [TrackedRows(tracker), progress], resume)
    except (StoppedError, DisagreementError):
        if is_first():
            raise
        return  # the first process says it; a launcher that sees another code first would cut that short
    finally:
        progress.close()
    if not pretrained.fit.is_first_process:
        return
    keep_state = plan.recipe.trainer.keep_state

    def draw() -> None:
        with noticed_failure(reporter, run):
            _draw(run, plan, pretrained, tracker)

    finish(run, pretrained.fit, tracker, draw, keep_state)
    show_pretrain_result(reporter, run, pretrained.fit.result, plan)


def _draw(run: "RunDirectory", plan: "PretrainPlan", found: "Pretrained", tracker: "Tracker") -> None:
    """Draw figures and page."""
    from vit.extras.pretrain.page import draw_pretraining, write_pretrain_report

    draw_pretraining(run, plan, found, tracker)
    write_pretrain_report(run, found.fit.result)
