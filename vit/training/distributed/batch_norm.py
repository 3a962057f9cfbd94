"""Batch norm over a whole batch: its statistics include the images of all processes

Ioffe and Szegedy 2015 (arXiv 1502.03167). PyTorch's SyncBatchNorm refuses tensors on a CPU. There `_CpuSyncBatchNorm`
computes the same.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.modules.batchnorm import _BatchNorm

from vit.errors import UsageError
from vit.models.network import Network
from vit.training.recipes.recipe import Recipe


def has_batch_norm(network: nn.Module) -> bool:
    """Whether a network has any batch norm, PyTorch's or timm's."""
    return any(isinstance(layer, _BatchNorm) for layer in network.modules())


def takes_batch_stats(network: nn.Module, recipe: Recipe) -> bool:
    """Whether the output for an image in training depends on the other images of the batch."""
    return recipe.model.freeze == "none" and has_batch_norm(network)


def check_batch_norm(network: Network, name: str, micro_batch_size: int, recipe: Recipe) -> None:
    """Raise UsageError if batch norm would see one image at a time: of a micro-batch, over all processes."""
    if micro_batch_size <= 1 and takes_batch_stats(network, recipe):
        least = 2 * recipe.optim.accumulate
        raise UsageError(
            f"{name} has batch norm, which needs 2 images or more at a time, and gets 1 with "
            f"--batch_size {recipe.optim.batch_size or 'null'}",
            f"give --batch_size {least} or more, or more training images",
        )


def synchronized(network: Network, device: torch.device) -> Network:
    """The network with batch norm over all processes that train together. The names of its weights do not change."""
    if device.type != "cpu":
        from timm.layers.norm_act import convert_sync_batchnorm  # knows timm's layers; timm takes seconds to import

        convert_sync_batchnorm(network)  # in place, because the network itself is not a batch norm
        return network
    for name, layer in list(network.named_modules()):
        if isinstance(layer, _BatchNorm):
            network.set_submodule(name, _CpuSyncBatchNorm(layer))
    return network


class _SumOfProcesses(torch.autograd.Function):
    """The sum of one tensor over all processes. The gradient of a summand adds up the losses of all processes."""

    @staticmethod
    def forward(context: FunctionCtx, part: Tensor) -> Tensor:
        whole = part.clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(context: FunctionCtx, *gradients: Tensor) -> Tensor:
        return _SumOfProcesses.forward(context, gradients[0])


class _CpuSyncBatchNorm(_BatchNorm):
    """As the layer (B, C, ...), with timm's activation, but training statistics include images of all processes."""

    def __init__(self, layer: _BatchNorm) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum, affine=False, track_running_stats=False)
        self._parameters.update(layer._parameters)
        self._buffers.update(layer._buffers)
        self.affine, self.track_running_stats = layer.affine, layer.track_running_stats
        self.training = layer.training
        parts = dict(layer.named_children())  # none in PyTorch's layers
        self.drop, self.act = (parts.get(name, nn.Identity()) for name in ("drop", "act"))

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions."""

    def forward(self, input: Tensor) -> Tensor:
        normalized = self._over_all_processes(input) if self.training else super().forward(input)
        activated: Tensor = self.act(self.drop(normalized))
        return activated

    def _over_all_processes(self, input: Tensor) -> Tensor:
        x = input.to(torch.promote_types(input.dtype, torch.float32))
        axes, shape = [dim for dim in range(x.ndim) if dim != 1], (1, -1, *[1] * (x.ndim - 2))
        count = x.numel() // x.shape[1] * dist.get_world_size()  # each process has the same number of images
        mean: Tensor = _SumOfProcesses.apply(x.sum(axes)) / count
        centered = x - mean.view(shape)
        variance: Tensor = _SumOfProcesses.apply(centered.square().sum(axes)) / count
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked += 1
                share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean, share)
                self.running_var.lerp_(variance * (count / (count - 1)), share)
        normalized = centered * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            normalized = normalized * self.weight.view(shape) + self.bias.view(shape)
        return normalized.to(input.dtype)
