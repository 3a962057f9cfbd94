"""The moving average of weights that are spread over processes: each keeps the average of its own parts"""

from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from vit.training.callbacks.averaging import Averaging, average_in
from vit.training.callbacks.non_finite import NonFinite


class ShardedAveraging(Averaging):
    """`Averaging` that needs no whole copy of the network. Checkpoints are the same, with whole tensors.

    Lightning's callback copies the network before it is spread over the processes, so every process would hold the
    whole average.
    """

    def __init__(self, decay: float, non_finite: NonFinite) -> None:
        super().__init__(decay, non_finite)
        self._parts: _AverageParts | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Nothing: the weights are spread after this call."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin the average. Checkpoints are read after this call."""
        self._parts = _AverageParts(pl_module, self._decay)
        self._average_model = self._parts  # type: ignore[assignment]  # it has what Lightning calls

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put the average in the place of the weights, with the keys of Lightning's callback."""
        assert self._parts is not None
        checkpoint["current_model_state"] = checkpoint["state_dict"]
        self._parts.swap(pl_module)
        checkpoint["state_dict"] = trainer.strategy.lightning_module_state_dict()
        self._parts.swap(pl_module)
        checkpoint["averaging_state"] = {"n_averaged": torch.tensor(self._parts.num_averaged)}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Take the average that the network was just filled with, and fill the network with the trained weights."""
        assert self._parts is not None
        self._parts.start_from(pl_module, int(checkpoint["averaging_state"]["n_averaged"]))
        trainer.strategy.load_model_state_dict({"state_dict": checkpoint["current_model_state"]})

    def _swap_models(self, pl_module: LightningModule) -> None:
        assert self._parts is not None
        self._parts.swap(pl_module)

    def _copy_average_to_current(self, pl_module: LightningModule) -> None:
        self._swap_models(pl_module)


class _AverageParts:
    """This process's parts of the averages of all weights. Our ViTs have no buffers that change in a training.

    Args:
        module: module whose weights are spread over the processes.
        decay: decay of the average.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.num_averaged = 0
        self._decay = decay
        self._averages = [part.clone() for part in _own_parts(module)]

    @torch.no_grad()
    def update_parameters(self, module: nn.Module) -> None:
        """Add the weights after a step. The first ones are the average."""
        average_in(self._averages, _own_parts(module), 1.0 - self._decay if self.num_averaged else 1.0)
        self.num_averaged += 1

    def start_from(self, module: nn.Module, num_averaged: int) -> None:
        """Take the weights of the module as the average of so many steps."""
        self.num_averaged = num_averaged
        for average, part in zip(self._averages, _own_parts(module), strict=True):
            average.copy_(part)

    def swap(self, module: nn.Module) -> None:
        """Exchange the average and the weights of the module."""
        for average, part in zip(self._averages, _own_parts(module), strict=True):
            before = part.clone()
            part.copy_(average)
            average.copy_(before)


def _own_parts(module: nn.Module) -> list[Tensor]:
    """The parts of all weights that this process keeps, which share their memory.

    After a validation the outermost weights are still gathered, because no backward pass has freed them.
    """
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
    return [weight.to_local() if isinstance(weight, DTensor) else weight for weight in _weights(module)]


def _weights(module: nn.Module) -> list[Tensor]:
    return [weight.detach() for weight in module.parameters()]


def averaging(decay: float, non_finite: NonFinite, is_sharded: bool) -> list[Callback]:
    """The callback that averages weights; none without a decay."""
    if not decay:
        return []
    return [ShardedAveraging(decay, non_finite) if is_sharded else Averaging(decay, non_finite)]
