"""Trains the objective of a plan into a run folder, and keeps the backbone"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from lightning.pytorch import seed_everything

from vit.checkpoints.format import KEY, Description, read_description, weights_of
from vit.checkpoints.io import read_checkpoint
from vit.checkpoints.result import versions
from vit.checkpoints.run import RunDirectory
from vit.data.loading.module import ImageDataModule
from vit.extras.pretrain.images import has_progress
from vit.extras.pretrain.objective import Objective
from vit.extras.pretrain.plan import PretrainPlan
from vit.extras.pretrain.pretrainer import KNN, Pretrainer, StartingAccuracy, make_objective
from vit.training.callbacks.metrics_csv import columns_with
from vit.training.distributed.processes import lost_process_explained
from vit.training.fit import with_signals_and_retries
from vit.training.loop import Loop
from vit.training.network.initial_network import initial_network
from vit.training.observers import Listener, Observers
from vit.training.running.oom_retry import StepCount
from vit.training.running.result import FitResult, pretrain_result
from vit.weights.file import write_backbone


@dataclass(frozen=True)
class Pretrained:
    """A finished pretraining."""

    fit: FitResult  # its result, without scores of images
    objective: Objective  # the objective with the last weights, in evaluation mode


def fit_pretraining(
    plan: PretrainPlan, run: RunDirectory, listeners: Sequence[Listener] = (), resume: bool = False
) -> Pretrained:
    """Train the objective of a plan, and write last.ckpt, metrics.csv and the backbone.

    Args:
        run: an empty run folder, or with `resume` a run folder with checkpoints.
        listeners: receivers of steps and rows (on the first process), and of notices.
        resume: whether to continue from the last checkpoint.

    Raises:
        VitError: as `fit`.
    """
    data = plan.data_module()
    if plan.world_size == 1:
        data.dataset("train")  # memory that the images need is not a matter of micro-batches
    return with_signals_and_retries(plan, run, listeners, partial(_fit, run=run, resume=resume, data=data))


def _fit(
    observers: Observers,
    plan: PretrainPlan,
    count: StepCount,
    *,
    run: RunDirectory,
    resume: bool,
    data: ImageDataModule,
) -> Pretrained:
    """One attempt."""
    observers = observers.also(count)
    data = data.renewed(plan.loader_options)
    seed_everything(plan.recipe.seed, verbose=False)
    start = initial_network(plan, resume, observers.notice, has_classes=False)
    objective = make_objective(start.network, plan)
    module = Pretrainer(objective, plan.recipe.optim, plan.total_steps, plan.recipe.seed)
    shows = has_progress(plan.source)
    columns, callbacks = (columns_with((KNN,)), [StartingAccuracy()]) if shows else (columns_with(()), [])
    loop = Loop(module, plan, run, observers, columns, describe_backbone(plan, start.license), callbacks)
    with lost_process_explained(loop.trainer):
        loop.trainer.fit(module, datamodule=data, ckpt_path=run.last_path if resume else None)
    stats = loop.stats
    metrics: dict[str, float] = {}
    license_name = start.license
    if stats.is_first_process:
        content = read_checkpoint(run.last_path)
        description = replace(read_description(content[KEY], run.last_path), unfinished=None)
        write_backbone(description, weights_of(content), run.backbone_path)
        metrics, license_name = description.metrics, description.license
        run.previous_path.unlink(missing_ok=True)
    result = pretrain_result(plan, plan.recipe.method, stats, metrics, license_name)
    return Pretrained(FitResult(result, {}, data, stats.is_first_process), objective.eval())


def describe_backbone(plan: PretrainPlan, license: str | None) -> Description:
    """The description that every checkpoint of a pretraining holds: that of a network without classes.

    Args:
        license: license of the weights that the pretraining starts from.
    """
    spec = replace(plan.spec, num_classes=0)
    return Description((), spec, plan.preprocess, plan.precision, versions=versions(), license=license)
