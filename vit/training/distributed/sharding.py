"""Sharded weights: each process keeps a part of every parameter, its gradient and its optimizer state (FSDP).

Zhao et al. 2023 (arXiv 2304.11277), as PyTorch's `fully_shard`, through Lightning's ModelParallelStrategy. A block's
parameters are gathered while it computes. Checkpoints are ordinary ones, put together on the first process: another
number of processes, or one that shards nothing, goes on from them, and every command reads them.
"""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from vit.models.vision_transformer import VisionTransformer
from vit.training.classifier import Classifier
from vit.training.distributed.processes import PATIENCE


class ShardedClassifier(Classifier):
    """A classifier whose network is spread over the processes, block by block."""

    def configure_model(self) -> None:
        if isinstance(self.network, FSDPModule):
            return
        assert isinstance(self.network, VisionTransformer)
        assert self.device_mesh is not None
        mesh = self.device_mesh["data_parallel"]
        for block in self.network.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(self.network, mesh=mesh)


class Sharding(ModelParallelStrategy):
    """Lightning's strategy, with our own reading of checkpoints: nothing in them is run, and a damaged one is noticed.

    Args:
        processes: over all machines.
    """

    def __init__(self, processes: int) -> None:
        super().__init__(processes, 1, save_distributed_checkpoint=False, timeout=PATIENCE)

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Lightning's own would have read the optimizer's state together with the weights."""
        return True

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        return self.checkpoint_io.load_checkpoint(Path(self.broadcast(str(checkpoint_path))))

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert self.model is not None
        whole = StateDictOptions(full_state_dict=True, strict=strict)
        set_model_state_dict(self.model, checkpoint["state_dict"], options=whole)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, found in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            weights = chain.from_iterable(group["params"] for group in optimizer.param_groups)
            places = chain.from_iterable(group["params"] for group in found["param_groups"])
            state = {
                place: {name: _spread(value, weight) for name, value in found["state"].get(place, {}).items()}
                for place, weight in zip(places, weights, strict=True)
            }
            optimizer.load_state_dict({**found, "state": state})


def _spread(value: Any, weight: torch.Tensor) -> Any:
    """A number of the optimizer for each of a weight's: the part that this process keeps."""
    if isinstance(value, torch.Tensor) and isinstance(weight, DTensor) and value.shape == weight.shape:
        return distribute_tensor(value, weight.device_mesh, weight.placements)
    return value
