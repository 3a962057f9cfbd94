"""Where a recipe trains: device and processes, weights sharded over them (FSDP), and batch norm over all GPUs

Each process of FSDP keeps a part of every parameter, gradient and optimizer state (Zhao et al. 2023, arXiv 2304.11277).
The first process writes ordinary checkpoints with whole tensors, which any number of processes resumes, with or without
sharding. Batch norm (Ioffe and Szegedy 2015, arXiv 1502.03167) takes its statistics from the images of all GPUs.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments import ClusterEnvironment, LightningEnvironment, TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from vit.errors import UsageError, nearest
from vit.inference.devices import choose_device, choose_precision
from vit.launch import is_launched
from vit.models.network import Network
from vit.models.vision_transformer import Block, VisionTransformer
from vit.training.distributed.processes import PATIENCE
from vit.training.recipes.recipe import TrainerConfig

STRATEGIES = ("auto", "ddp", "fsdp")


@dataclass(frozen=True)
class Machine:
    """Where a recipe trains."""

    device: torch.device  # device of this process
    world_size: int  # number of processes over all machines
    precision: str  # precision of the training


def choose_machine(trainer: TrainerConfig) -> Machine:
    """The machine that a recipe asks for. Errors are those of `device_and_world_size`."""
    device, world_size = device_and_world_size(trainer)
    may_be_float16 = trainer.strategy != "fsdp"
    return Machine(device, world_size, choose_precision(trainer.precision, device, may_be_float16))


def device_and_world_size(trainer: TrainerConfig) -> tuple[torch.device, int]:
    """The device of this process, and the number of processes over all machines.

    UsageError: the machine, or the launcher, does not have what the recipe asks for.
    """
    if trainer.strategy not in STRATEGIES:
        problem = f"--strategy {trainer.strategy} is not one of {', '.join(STRATEGIES)}"
        raise UsageError(problem, nearest(trainer.strategy, STRATEGIES))
    device = choose_device({"gpu": "cuda"}.get(trainer.accelerator, trainer.accelerator))
    visible = torch.cuda.device_count() if device.type == "cuda" else 1
    if not is_launched():
        return device, (visible if trainer.devices == "auto" else trainer.devices) * trainer.num_nodes
    launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "srun"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    if here and str(trainer.devices) not in ("auto", str(here)):
        problem = f"--devices {trainer.devices}, but {launcher} started {here} on this machine"
        raise UsageError(problem, "leave --devices out")
    if visible > 1 and here > visible:
        raise UsageError(f"{launcher} started {here} processes for {visible} GPUs", f"start {visible} on each machine")
    if launcher == "srun" and here == 1 < visible and trainer.devices == "auto":
        problem = f"srun started 1 process on a machine with {visible} GPUs"
        raise UsageError(problem, f"give srun --ntasks-per-node={visible}, or vit train --devices 1")
    return device, int(os.environ["WORLD_SIZE"])


def lightning_devices(trainer: TrainerConfig, device: torch.device) -> tuple[list[int] | int | str, int]:
    """(devices of a machine, number of machines), as Lightning's Trainer takes them.

    For Lightning each launched process is a machine with one device. So srun may distribute tasks over machines in any
    way, and each task may see all GPUs of its machine or only its own.
    """
    if is_launched():
        own = [dist.get_node_local_rank(0) % torch.cuda.device_count()] if device.type == "cuda" else 1
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


def strategy_for(world_size: int, is_sharded: bool) -> Strategy | str:
    """Lightning's strategy for a number of processes over all machines."""
    if world_size == 1:
        return "auto"
    return Sharding(world_size) if is_sharded else DDPStrategy(timeout=PATIENCE, gradient_as_bucket_view=True)


def shard(network: Network, mesh: DeviceMesh, precision: str) -> None:
    """Distribute the weights of one of our ViTs over the processes, block by block, once.

    In bf16-mixed the weights of attention and MLP travel in bfloat16, which is half of the bytes. They are kept, and
    their gradients are summed, in float32. All other weights travel in float32.
    """
    assert isinstance(network, VisionTransformer)  # the plan refuses others
    if isinstance(network, FSDPModule):
        return
    dtype = torch.bfloat16 if precision == "bf16-mixed" else None
    # about operations in place on the output of attention or MLP, of which a block has none
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    policy = MixedPrecisionPolicy(dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for block in network.blocks:
        assert isinstance(block, Block)
        fully_shard([block.attn, block.mlp], mesh=mesh["data_parallel"], mp_policy=policy)
    fully_shard(network, mesh=mesh["data_parallel"])


class Sharding(ModelParallelStrategy):
    """Lightning's strategy with our own safe reading of checkpoints, which runs no code and detects damage."""

    def __init__(self, num_processes: int) -> None:
        super().__init__(num_processes, 1, save_distributed_checkpoint=False, timeout=PATIENCE)

    @property
    def lightning_restore_optimizer(self) -> bool:
        """True: `load_model_state_dict` does not read the state of the optimizer."""
        return True

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        return self.checkpoint_io.load_checkpoint(Path(self.broadcast(str(checkpoint_path))))

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert self.model is not None
        whole = StateDictOptions(full_state_dict=True, strict=strict)
        set_model_state_dict(self.model, checkpoint["state_dict"], options=whole)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            weights = chain.from_iterable(group["params"] for group in optimizer.param_groups)
            numbers = chain.from_iterable(group["params"] for group in saved["param_groups"])
            state = {
                number: {name: _own_part(value, weight) for name, value in saved["state"].get(number, {}).items()}
                for number, weight in zip(numbers, weights, strict=True)
            }
            optimizer.load_state_dict({**saved, "state": state})


def _own_part(value: Any, weight: Tensor) -> Any:
    """The part of an optimizer tensor that this process keeps. Values of another shape stay whole."""
    if isinstance(value, Tensor) and isinstance(weight, DTensor) and value.shape == weight.shape:
        return distribute_tensor(value, weight.device_mesh, weight.placements)
    return value


def synchronized(network: Network, device: torch.device) -> Network:
    """The network with batch norm over all GPUs that train together. The names of its weights do not change."""
    if device.type != "cpu":  # of CPUs the plan refuses several with batch norm that learns
        from timm.layers.norm_act import convert_sync_batchnorm  # knows timm's layers; timm takes seconds to import

        convert_sync_batchnorm(network)  # in place, because the network itself is not a batch norm
    return network
