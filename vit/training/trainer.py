"""Lightning's Trainer with the settings of a plan"""

import logging
import warnings
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.strategies import DDPStrategy, Strategy
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from vit.checkpoints.run import RunDirectory
from vit.errors import UsageError
from vit.training.checkpoint_io import DurableCheckpointIO
from vit.training.distributed.devices import lightning_devices, lightning_environment
from vit.training.distributed.processes import PATIENCE, observe_patiently
from vit.training.distributed.sharding import Sharding
from vit.training.planning.plan import Plan


def make_trainer(plan: Plan, run: RunDirectory, callbacks: list[Callback], files: DurableCheckpointIO) -> Trainer:
    """A Trainer for a plan. It shows nothing, and leaves signals to us.

    Raises:
        UsageError: Lightning does not accept the settings.
    """
    _silence_lightning()
    observe_patiently()
    settings, optim = plan.recipe.trainer, plan.recipe.optim
    devices, machines = lightning_devices(settings, plan.device)
    trainer = _checked_trainer(
        accelerator=settings.accelerator,
        devices=devices,
        num_nodes=machines,
        strategy=_strategy(plan),
        precision=plan.precision,
        max_epochs=plan.rounds,
        accumulate_grad_batches=optim.accumulate,
        gradient_clip_val=optim.clip_norm or None,
        callbacks=callbacks,
        plugins=[files, lightning_environment()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        default_root_dir=run.path,
    )
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]  # see Signals
    return trainer


def _strategy(plan: Plan) -> Strategy | str:
    if plan.world_size == 1:
        return "auto"
    return Sharding(plan.world_size) if plan.is_sharded else DDPStrategy(timeout=PATIENCE)


def _checked_trainer(**settings: Any) -> Trainer:
    try:
        return Trainer(**settings)
    except (ValueError, MisconfigurationException) as error:
        problem = " ".join(str(error).split())
        raise UsageError(f"Lightning refuses the trainer's settings: {problem[:300]}", "change trainer.*") from error


def _silence_lightning() -> None:
    """Hide Lightning's notices: they tell a developer what to change, and do not concern the user's run."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"lightning\.(pytorch|fabric)\..*")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
