"""Trains a plan into a run folder"""

from collections.abc import Sequence

from lightning.pytorch import seed_everything

from vit.atomic_files import write_text
from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.training.best_weights import measure_checkpoint
from vit.training.callbacks.listener import Listener
from vit.training.failures import explained, how_to_resume
from vit.training.features import SharedFeatures
from vit.training.initial_network import initial_network
from vit.training.micro_batches import StepCount, until_it_fits, words
from vit.training.optimize import Watch, optimize
from vit.training.planning.plan import Plan
from vit.training.probe import measure_probe, probe
from vit.training.recipes.values import dump
from vit.training.result import FitResult, run_result
from vit.training.signals import Signals


def fit(
    plan: Plan,
    run: RunDirectory,
    listeners: Sequence[Listener] = (),
    resume: bool = False,
    data: ImageDataModule | None = None,
    shared: SharedFeatures | None = None,
) -> FitResult:
    """Train, keep the best and the last checkpoint, calibrate the best one, and score validation and test images.

    Where memory runs out in the first steps, the training starts again with smaller micro-batches.

    Args:
        run: an empty run folder, or with `resume` a run folder with checkpoints.
        listeners: receivers of steps and rows (on the first process), and of notices.
        resume: whether to continue from the last checkpoint.
        data: loaders that may hold images in memory already; None: new ones.
        shared: features of a frozen backbone that the cells of a study share; None: they are computed here.

    Raises:
        CheckpointError: neither the last checkpoint nor the previous one is readable.
        DivergedError: a loss, gradient or weight is not finite.
        ResourceError: a checkpoint could not be written, or memory is not sufficient.
        ProcessesError: another process of the same training has ended, or differs from this one.
        StoppedError: Ctrl-C, SIGTERM or SIGUSR1 ended the training, and its state is saved.
    """
    data = data or plan.data_module()

    def attempt(plan: Plan, count: StepCount) -> FitResult:
        renewed = data.renewed(plan.loader_options)
        return _fit(plan, run, [*listeners, count], resume, renewed, signals, shared)

    def again(plan: Plan) -> None:
        write_text(run.config_path, dump(plan.recipe))
        for listener in listeners:
            listener.replanned(plan.recipe)
        _notify(listeners, words(plan))

    with Signals(how_to_resume(run)) as signals, explained(plan, run):
        if plan.world_size == 1 and shared is None:
            data.dataset("train")  # memory that the images need is not a matter of micro-batches
        return until_it_fits(plan, attempt, again, may_divide=not run.can_resume)


def _fit(
    plan: Plan,
    run: RunDirectory,
    listeners: Sequence[Listener],
    resume: bool,
    data: ImageDataModule,
    signals: Signals,
    shared: SharedFeatures | None,
) -> FitResult:
    """One attempt."""
    seed_everything(plan.recipe.seed, verbose=False)
    start = initial_network(plan, resume, lambda text: _notify(listeners, text))
    if plan.recipe.model.freeze == "backbone":
        stats, features = probe(start, data, plan, run, listeners, shared)
        if shared is None or plan.source.is_multilabel:  # temperatures and thresholds of labels need all images
            best = measure_checkpoint(run.best_path, plan, data, plan.device, features)
        else:
            best = measure_probe(run.best_path, data, plan, shared, features)
    else:
        stats, best = optimize(start, data, plan, run, Watch(signals, listeners), resume)
    for text in best.words():
        _notify(listeners, text)
    if stats.is_first_process:
        best.store(run.best_path)
    result = run_result(plan, stats, best)
    if stats.is_first_process:
        run.previous_path.unlink(missing_ok=True)
    return FitResult(result, best.scored, data, stats.is_first_process)


def _notify(listeners: Sequence[Listener], text: str) -> None:
    for listener in listeners:
        listener.notice(text)
