"""`vit train DATA`: from images to a classifier in a run folder."""

import json
import shlex
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.commands.reading import read_images
from vit.commands.recipe_options import check_names, listed_images
from vit.commands.resuming import newest_run
from vit.commands.train_options import Wanted, wanted
from vit.console import ProgressReport, Reporter, duration, interval, percent
from vit.errors import BadInputsError, DisagreementError, StoppedError, UsageError
from vit.launch import is_first
from vit.training.recipe import plain

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory

FEW_IMAGES = 50_000  # Dosovitskiy et al. 2021, section 4.3: below millions a ViT from random weights is behind CNNs
PHOTOGRAPH = 96
SHOWN_BAD = 5
SCRATCH = (
    "a ViT from random weights learns little from so few photographs: --init_from WEIGHTS starts from pretrained "
    "ones (a file, a folder, timm:NAME, torchvision:NAME, hf:ORG/NAME)"
)


def train(arguments: Sequence[str]) -> int:
    """Train, show the plan and the progress, and leave a run folder."""
    run = _train(wanted(arguments))
    if run is None:
        words = [token for token in arguments if not token.startswith("--dry_run")]
        Reporter().next_command(shlex.join(["vit", "train", *words]))
        return 0

    from vit.training.run_images import count_left_out

    bad = count_left_out(run)
    if bad:
        raise BadInputsError(
            f"{bad:,} validation and test images cannot be read, and were not measured",
            f"see left_out in {run.result_path}",
        )
    return 0


def train_run(arguments: Sequence[str]) -> "RunDirectory":
    """`train`, for whoever goes on with its run folder."""
    run = _train(wanted(arguments))
    if run is None:
        raise UsageError("a dry run leaves no run folder", "leave dry_run out, or use the command line")
    return run


def _train(asked: Wanted) -> "RunDirectory | None":
    recipe = asked.recipe
    check_names(recipe)
    listed = listed_images(recipe)

    from vit.checkpoints.run import RunDirectory
    from vit.training.beginning import check_unchanged, write_beginning
    from vit.training.distributed.meeting import Meeting
    from vit.training.plan import make_plan

    first = is_first()
    reporter = Reporter(quiet=not first)
    if not asked.names_data:
        reporter.notice("no DATA is given: digits are trained on, which come with the installation")
    plan = make_plan(recipe, listed)
    if asked.dry_run:
        read_images(plan.source, reporter)
        _show_plan(reporter, plan, "none: a dry run trains nothing")
        return None
    with ExitStack() as lock:

        def begin() -> str:
            contents = read_images(plan.source, reporter)
            going_on = asked.resumed
            if asked.find:
                going_on = newest_run(plan.recipe, plan.spec.name, plan.source.name)
                found = f"going on with {going_on}" if going_on else "starting a new run"
                none = "" if going_on else f", for {recipe.out} has no unfinished one"
                reporter.notice(f"--resume auto: {found}{none}")
            if going_on is None:
                run = RunDirectory.create(recipe.out, plan.source.name, plan.spec.name, recipe.name)
            else:
                run = RunDirectory(going_on)
            lock.enter_context(run.held())
            if going_on is None:
                write_beginning(run, plan.recipe, plan.source, contents)
            else:
                check_unchanged(run, plan.source, contents)
            return json.dumps({"run": str(run.path), "resume": going_on is not None})

        meeting = asked.meeting or Meeting(plan.world_size)
        decision = json.loads(meeting.decided("run", begin))
        run = RunDirectory(Path(decision["run"]))
        _fit(plan, run, decision["resume"], reporter, first)
    return run


def _fit(plan: Any, run: Any, resume: bool, reporter: Reporter, first: bool) -> None:
    from vit.report.run_figures import write_classes
    from vit.training.finish import finish
    from vit.training.fit import fit
    from vit.training.tracking import Sharing, open_tracker

    _show_plan(reporter, plan, str(run.path))
    sharing = Sharing(plan.recipe.wandb_media, plan.recipe.wandb_model)
    if first:
        _warn_of_space(reporter, plan, run)
    mode: Any = plan.recipe.wandb if first else "off"
    tracker = open_tracker(mode, run.path, plain(plan.recipe), run.path.name, reporter.notice, sharing=sharing)
    watcher = _Watcher(reporter, tracker, _round_name(plan), plan.rounds)
    try:
        fitted = fit(plan, run, [watcher], resume=resume)
    except (StoppedError, DisagreementError):
        if first:
            raise
        return  # the first process says it; a launcher that sees another code first would cut that short
    finally:
        watcher.close()
    if not fitted.is_first_process:
        return

    def show() -> None:
        write_classes(run, fitted, plan.source.class_names)
        _draw(reporter, run, plan, fitted, tracker)

    finish(run, fitted, plan.source.class_names, show)
    tracker.finish()
    _show_result(reporter, run, fitted.result, _round_name(plan))


def _draw(reporter: Reporter, run: Any, plan: Any, fitted: Any, tracker: Any) -> None:
    """Figures and page; a picture that cannot be drawn must not make a finished training look lost."""
    from vit.report.run_figures import draw_run
    from vit.report.run_page import write_run_report

    try:
        draw_run(run, plan, fitted, tracker)
        write_run_report(run, plan.source, fitted.result)
    except Exception as error:  # noqa: BLE001  whatever it is, the training itself is whole
        again = f"'vit report {shlex.quote(str(run.path))}' tries again"
        reporter.notice(f"WARNING: figures and report could not be drawn: {type(error).__name__}: {error}; {again}")


def _show_plan(reporter: Reporter, plan: Any, run: str) -> None:
    from vit.training.tracking import Sharing
    from vit.training.wandb_login import intended

    sharing = Sharing(plan.recipe.wandb_media, plan.recipe.wandb_model)
    optim, source = plan.recipe.optim, plan.source
    images = ", ".join(f"{len(samples):,} {split}" for split, samples in source.splits.items())
    class_names = ", ".join(source.class_names[:6]) + (", ..." if len(source.class_names) > 6 else "")
    parts = f" in {optim.accumulate} parts" if optim.accumulate > 1 else ""
    processes = f" on {plan.world_size} processes" if plan.world_size > 1 else ""
    augment = ", ".join(
        f"{key} {value:g}"
        for key, value in plan.augment.to_dict().items()
        if value not in (0, 1.0) and key != "magnitude"
    )
    reporter.line(f"Training {plan.spec.name} on {source.name}")
    reporter.facts(
        [
            ("data", f"{images}; {len(source.class_names)} classes: {class_names}"),
            *(("note", note) for note in source.notes),
            *([("note", SCRATCH)] if _is_hopeful(plan) else []),
            (
                "network",
                f"{plan.cost.parameters:,} parameters, {plan.cost.flops / 1e6:,.0f} MFLOPs an image, "
                f"{plan.preprocess.image_size} pixels",
            ),
            *([("start", f"weights of {plan.recipe.model.init_from}")] if plan.recipe.model.init_from else []),
            ("augment", augment or "none"),
            ("batch", f"{plan.batch_size} images{parts}{processes}"),
            *_schedule(plan),
            ("device", f"{plan.device.type}, {plan.precision}"),
            ("run", run),
            ("W&B", sharing.words(*intended(plan.recipe.wandb))),
        ]
    )


def _is_hopeful(plan: Any) -> bool:
    """Whether a ViT is to learn photographs from few of them, with nothing to start from."""
    from vit.models.catalog import entry
    from vit.models.vision_transformer import VisionTransformer

    is_vit = entry(plan.spec.name).network is VisionTransformer
    few = len(plan.source.splits["train"]) < FEW_IMAGES and plan.preprocess.image_size >= PHOTOGRAPH
    return is_vit and few and plan.recipe.model.init_from is None


def _warn_of_space(reporter: Reporter, plan: Any, run: Any) -> None:
    """The best checkpoint, the last, the one before, and the one that is being written must fit on the disk."""
    needed, free = 4 * plan.checkpoint_bytes, shutil.disk_usage(run.path).free
    if needed > free:
        reporter.notice(
            f"WARNING: checkpoints will take up to {needed / 1e6:,.1f} MB, and {run.path} has {free / 1e6:,.1f} MB left"
        )


def _schedule(plan: Any) -> list[tuple[str, str]]:
    """How weights are found, as facts."""
    optim = plan.recipe.optim
    if plan.recipe.model.freeze == "backbone":
        how = f"the last layer alone, on features computed once; {plan.rounds} penalties, validation chooses"
        return [("training", how)]
    decay = f", {optim.layer_decay:g} of it for each block below" if optim.layer_decay < 1 else ""
    return [
        ("optimizer", f"{optim.optimizer}, learning rate {optim.lr:g}{decay}, weight decay {optim.weight_decay:g}"),
        (
            "steps",
            f"{plan.total_steps:,} ({plan.total_steps / plan.steps_per_epoch:,.4g} epochs of "
            f"{plan.steps_per_epoch:,}), {plan.warmup_steps:,} of them warm-up, seed {plan.recipe.seed}",
        ),
    ]


def _round_name(plan: Any) -> str:
    """What each validation follows: an epoch, a part of a length in steps, or a penalty of a linear probe."""
    if plan.recipe.model.freeze == "backbone":
        return "penalty"
    return "epoch" if plan.recipe.optim.steps is None else "round"


class _Watcher:
    """Shows steps and rows, and hands rows to the tracker.

    Args:
        name: of what lies between two validations; see `_round_name`.
    """

    def __init__(self, reporter: Reporter, tracker: Any, name: str, rounds: int) -> None:
        self.reporter, self.tracker, self.name, self.rounds = reporter, tracker, name, rounds
        self.progress = ProgressReport(reporter, "step")

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        self.progress.update(done, total, f"loss {loss:.3f}, {images_per_second:,.0f} images/s")

    def row(self, row: dict[str, float], step: int) -> None:
        self.tracker.log({key: value for key, value in row.items() if key != "step"}, step)
        if "val/acc1" in row:
            self.reporter.notice(
                f"{self.name} {int(row['epoch']) + 1}/{self.rounds}  train loss {row['train/loss']:.3f}  "
                f"val loss {row['val/loss']:.3f}  val acc {percent(row['val/acc1'])}"
            )

    def notice(self, text: str) -> None:
        self.reporter.notice(text)

    def close(self) -> None:
        self.progress.close()


def _show_result(reporter: Reporter, run: Any, result: Any, round_name: str) -> None:
    reporter.line(
        f"\nBest {round_name} {result.best_epoch + 1}; {duration(result.seconds)} in all, "
        f"{result.images_per_second:,.0f} training images/s"
    )
    facts = [("validation accuracy", percent(result.validation["val/acc1"]))] if result.validation else []
    if result.metrics:
        tested = f"{result.num_images['test']:,} images"
        facts.append(("test accuracy", f"{interval(**result.metrics['acc1'])}, {tested}, 95 % interval"))
        before, after = (percent(metrics["ece"]["value"]) for metrics in (result.uncalibrated, result.metrics))
        chance = percent(result.metrics["ece"]["chance"])
        scaled = f"; {before} without temperature {result.temperature:.3f}" if result.temperature != 1 else ""
        facts.append(("test calibration error", f"{after} ({chance} by chance, were it calibrated){scaled}"))
    if result.skipped_steps:
        what = "loss or gradient was not a number"
        facts.append(("steps left out", f"{result.skipped_steps:,} of {result.steps:,}: their {what}"))
    if result.unreadable_images:
        what = "training images; others stood in for them ('vit data check' lists all)"
        facts.append(("unreadable", f"{result.unreadable_images:,} {what}"))
    for split, images in result.left_out.items():
        some = "; ".join(f"{path}: {reason}" for path, reason in list(images.items())[:SHOWN_BAD])
        more = "; ..." * (len(images) > SHOWN_BAD)
        facts.append((f"{split} left out", f"{len(images):,} images that cannot be read: {some}{more}"))
    reporter.facts([*facts, ("report", str(run.report_path)), ("checkpoint", str(run.best_path))])
    reporter.next_command(f"vit predict {shlex.quote(str(run.path))} FOLDER_OF_IMAGES --gallery")
