"""Where a recipe trains: the device and the number of processes"""

import os

import torch
from lightning.fabric.plugins.environments import ClusterEnvironment, LightningEnvironment, TorchElasticEnvironment

from vit.errors import UsageError, nearest
from vit.inference.devices import choose_device
from vit.launch import is_launched
from vit.training.recipes.recipe import Recipe, TrainerConfig

STRATEGIES = ("auto", "ddp", "fsdp")


def device_and_world_size(recipe: Recipe) -> tuple[torch.device, int]:
    """The device of this process, and the number of processes over all machines.

    Raises:
        UsageError: the machine, or the launcher, does not have what the recipe asks for.
    """
    trainer = recipe.trainer
    if trainer.strategy not in STRATEGIES:
        raise UsageError(
            f"--strategy {trainer.strategy} is not one of {', '.join(STRATEGIES)}",
            nearest(trainer.strategy, STRATEGIES),
        )
    device = choose_device({"gpu": "cuda"}.get(trainer.accelerator, trainer.accelerator))
    if is_launched():
        _check_launch(trainer, device)
        return device, int(os.environ["WORLD_SIZE"])
    automatic = torch.cuda.device_count() if device.type == "cuda" else 1
    return device, (automatic if trainer.devices == "auto" else trainer.devices) * trainer.num_nodes


def _check_launch(trainer: TrainerConfig, device: torch.device) -> None:
    """Raise UsageError if the launcher started another number of processes than the recipe or the GPUs need."""
    launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "srun"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    if here and str(trainer.devices) not in ("auto", str(here)):
        raise UsageError(
            f"--devices {trainer.devices}, but {launcher} started {here} on this machine", "leave --devices out"
        )
    visible = torch.cuda.device_count() if device.type == "cuda" else 1
    if visible > 1 and here > visible:
        raise UsageError(f"{launcher} started {here} processes for {visible} GPUs", f"start {visible} on each machine")
    if launcher == "srun" and here == 1 < visible and trainer.devices == "auto":
        raise UsageError(
            f"srun started 1 process on a machine with {visible} GPUs",
            f"give srun --ntasks-per-node={visible}, or vit train --devices 1",
        )


def lightning_devices(trainer: TrainerConfig, device: torch.device) -> tuple[list[int] | int | str, int]:
    """(devices of a machine, number of machines), as Lightning's Trainer takes them.

    For Lightning each launched process is a machine with one device. So srun may distribute tasks over machines in any
    way, and each task may see all GPUs of its machine or only its own.
    """
    if is_launched():
        own = [torch.distributed.get_node_local_rank(0) % torch.cuda.device_count()] if device.type == "cuda" else 1
        return own, int(os.environ["WORLD_SIZE"])
    automatic = "auto" if device.type != "cpu" else 1
    return (automatic if trainer.devices == "auto" else trainer.devices), trainer.num_nodes


class LaunchedEnvironment(TorchElasticEnvironment):
    """Processes that a launcher started, each with one device."""

    def local_rank(self) -> int:
        return 0

    def node_rank(self) -> int:
        return self.global_rank()


def lightning_environment() -> ClusterEnvironment:
    """How Lightning finds its processes. Its own SLURM support does not know every way to start tasks."""
    return LaunchedEnvironment() if is_launched() else LightningEnvironment()
