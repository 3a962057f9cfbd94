"""Trains a plan into a run folder"""

from collections.abc import Sequence

from lightning.pytorch import seed_everything

from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.training.attempts import in_attempts
from vit.training.best_weights import measure_checkpoint
from vit.training.callbacks.listener import Listener
from vit.training.features import SharedFeatures
from vit.training.initial_network import initial_network
from vit.training.loop import Watch
from vit.training.optimize import optimize
from vit.training.planning.plan import Plan
from vit.training.probe import measure_probe, probe
from vit.training.result import FitResult, run_result


def fit(
    plan: Plan,
    run: RunDirectory,
    listeners: Sequence[Listener] = (),
    resume: bool = False,
    data: ImageDataModule | None = None,
    shared: SharedFeatures | None = None,
) -> FitResult:
    """Train, keep the best and the last checkpoint, calibrate the best one, and score validation and test images.

    Args:
        run: an empty run folder, or with `resume` a run folder with checkpoints.
        listeners: receivers of steps and rows (on the first process), and of notices.
        resume: whether to continue from the last checkpoint.
        data: loaders that may hold images in memory already; None: new ones.
        shared: features of a frozen backbone that the cells of a study share; None: they are computed here.

    Raises:
        VitError: as `in_attempts`.
    """

    def attempt(plan: Plan, data: ImageDataModule, watch: Watch) -> FitResult:
        return _fit(plan, run, watch, resume, data, shared)

    return in_attempts(plan, run, listeners, data or plan.data_module(), attempt, reads_images=shared is None)


def _fit(
    plan: Plan, run: RunDirectory, watch: Watch, resume: bool, data: ImageDataModule, shared: SharedFeatures | None
) -> FitResult:
    """One attempt."""
    seed_everything(plan.recipe.seed, verbose=False)
    start = initial_network(plan, resume, watch.notice)
    if plan.recipe.model.freeze == "backbone":
        stats, features = probe(start, data, plan, run, watch.listeners, shared)
        if shared is None or not plan.source.task.is_exclusive:  # temperatures and thresholds of labels need all images
            best = measure_checkpoint(run.best_path, plan, data, plan.device, features)
        else:
            best = measure_probe(run.best_path, data, plan, shared, features)
    else:
        stats, best = optimize(start, data, plan, run, watch, resume)
    for text in best.words():
        watch.notice(text)
    if stats.is_first_process:
        best.store(run.best_path, plan.recipe.trainer.keep_state)
    result = run_result(plan, stats, best)
    if stats.is_first_process:
        run.previous_path.unlink(missing_ok=True)
    return FitResult(result, best.scored, data, stats.is_first_process)
