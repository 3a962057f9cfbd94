"""Trains the objective of a plan into a run folder, and keeps the backbone"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lightning.pytorch import seed_everything

from vit.checkpoints.format import KEY, Description, read_description, weights_of
from vit.checkpoints.io import read_checkpoint
from vit.checkpoints.result import versions
from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.extras.pretrain.images import has_progress
from vit.extras.pretrain.objective import Objective
from vit.extras.pretrain.objectives import make_objective
from vit.extras.pretrain.plan import PretrainPlan
from vit.extras.pretrain.pretrainer import KNN, Pretrainer
from vit.extras.pretrain.starting_accuracy import StartingAccuracy
from vit.training.attempts import in_attempts
from vit.training.callbacks.listener import Listener
from vit.training.callbacks.metrics_csv import columns_with
from vit.training.distributed.processes import together
from vit.training.initial_network import initial_network
from vit.training.loop import Loop, Watch
from vit.training.result import FitResult, pretrain_result
from vit.weights.backbone_file import write_backbone


@dataclass(frozen=True)
class Pretrained:
    """A finished pretraining.

    Attributes:
        fit: its result, without scores of images.
        objective: the objective with the last weights, in evaluation mode.
    """

    fit: FitResult
    objective: Objective


def fit_pretraining(
    plan: PretrainPlan, run: RunDirectory, listeners: Sequence[Listener] = (), resume: bool = False
) -> Pretrained:
    """Train the objective of a plan, and write last.ckpt, metrics.csv and the backbone.

    Args:
        run: an empty run folder, or with `resume` a run folder with checkpoints.
        listeners: receivers of steps and rows (on the first process), and of notices.
        resume: whether to continue from the last checkpoint.

    Raises:
        VitError: as `in_attempts`.
    """

    def attempt(plan: PretrainPlan, data: ImageDataModule, watch: Watch) -> Pretrained:
        return _fit(plan, run, data, watch, resume)

    return in_attempts(plan, run, listeners, plan.data_module(), attempt)


def _fit(plan: PretrainPlan, run: RunDirectory, data: ImageDataModule, watch: Watch, resume: bool) -> Pretrained:
    """One attempt."""
    seed_everything(plan.recipe.seed, verbose=False)
    start = initial_network(plan, resume, watch.notice, has_classes=False)
    objective = make_objective(start.network, plan)
    module = Pretrainer(objective, plan.recipe.optim, plan.total_steps, plan.recipe.seed)
    shows = has_progress(plan.source)
    columns, callbacks = (columns_with((KNN,)), [StartingAccuracy()]) if shows else (columns_with(()), [])
    loop = Loop(module, plan, run, watch, columns, describe_backbone(plan, start.licence), callbacks)
    with together(loop.trainer):
        loop.fit(data, resume)
    stats = loop.stats
    metrics: dict[str, float] = {}
    licence = start.licence
    if stats.is_first_process:
        content = read_checkpoint(run.last_path)
        description = replace(read_description(content[KEY], run.last_path), unfinished=None)
        write_backbone(description, weights_of(content), run.backbone_path)
        metrics, licence = description.metrics, description.licence
        run.previous_path.unlink(missing_ok=True)
    result = pretrain_result(plan, plan.recipe.method, stats, metrics, licence)
    return Pretrained(FitResult(result, {}, data, stats.is_first_process), objective.eval())


def describe_backbone(plan: PretrainPlan, licence: str | None) -> Description:
    """The description that every checkpoint of a pretraining holds: that of a network without classes.

    Args:
        licence: licence of the weights that the pretraining starts from.
    """
    spec = replace(plan.spec, num_classes=0)
    return Description((), spec, plan.preprocess, plan.precision, versions=versions(), licence=licence)
