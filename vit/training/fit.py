"""Trains a plan into a run folder"""

from collections.abc import Sequence

from lightning.pytorch import seed_everything

from vit.checkpoints.io import store_calibration
from vit.checkpoints.run import RunDirectory
from vit.training.best_weights import measure_checkpoint
from vit.training.callbacks.listener import Listener
from vit.training.failures import explained, how_to_resume
from vit.training.initial_network import initial_network
from vit.training.optimize import optimize
from vit.training.planning.plan import Plan
from vit.training.probe import probe
from vit.training.result import FitResult, run_result
from vit.training.signals import Signals


def fit(plan: Plan, run: RunDirectory, listeners: Sequence[Listener] = (), resume: bool = False) -> FitResult:
    """Train, keep the best and the last checkpoint, calibrate the best one, and score validation and test images.

    Args:
        run: an empty run folder, or with `resume` a run folder with checkpoints.
        listeners: receivers of steps and rows (on the first process), and of notices.
        resume: whether to continue from the last checkpoint.

    Raises:
        CheckpointError: neither the last checkpoint nor the previous one is readable.
        DivergedError: a loss, gradient or weight is not finite.
        ResourceError: a checkpoint could not be written, or memory is not sufficient.
        ProcessesError: another process of the same training has ended, or differs from this one.
        StoppedError: Ctrl-C, SIGTERM or SIGUSR1 ended the training, and its state is saved.
    """

    def notice(text: str) -> None:
        for listener in listeners:
            listener.notice(text)

    with Signals(how_to_resume(run)) as signals, explained(plan, run):
        seed_everything(plan.recipe.seed, verbose=False)
        network = initial_network(plan, resume, notice)
        data = plan.data_module()
        if plan.recipe.model.freeze == "backbone":
            stats = probe(network, data, plan, run, listeners)
            best = measure_checkpoint(run.best_path, plan, data, plan.device)
        else:
            stats, best = optimize(network, data, plan, run, listeners, resume, signals)
        if best.fitted is not None:
            notice(f"temperature {best.fitted.words()}")
        if stats.is_first_process:
            store_calibration(run.best_path, best.temperature, best.validation_scores)
        result = run_result(plan, stats, best)
        if stats.is_first_process:
            run.previous_path.unlink(missing_ok=True)
        return FitResult(result, best.scored, data, stats.is_first_process)
