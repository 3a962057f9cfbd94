"""Parameter groups, optimisers and the learning-rate schedule."""

from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR

from vit.models.network import Network
from vit.training.recipe import OptimConfig


def parameter_groups(network: Network, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and kernels with decay; norms, biases, and what the network exempts (positions, class token) without."""
    exempt = network.no_weight_decay()
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            (free if parameter.ndim < 2 or name in exempt else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


def make_optimizer(network: Network, config: OptimConfig, fused: bool = True) -> Optimizer:
    """The optimiser of a recipe; not fused under float16, whose fused form unscales gradients after they are clipped."""
    groups = parameter_groups(network, config.weight_decay)
    if config.optimizer == "sgd":
        return SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.momentum > 0, fused=fused)
    return AdamW(groups, lr=config.lr, fused=fused)


def make_schedule(optimizer: Optimizer, config: OptimConfig, total_steps: int) -> LRScheduler:
    """Linear warm-up, then a cosine to `min_lr`, one value per optimiser step."""
    warmup = min(int(config.warmup_epochs * total_steps / config.epochs), total_steps - 1)
    lowest = config.lr * config.min_lr
    cosine = CosineAnnealingLR(optimizer, T_max=max(1, total_steps - warmup), eta_min=lowest)
    if warmup < 1:
        return cosine
    return SequentialLR(optimizer, [LinearLR(optimizer, 1 / (warmup + 1), 1.0, warmup), cosine], milestones=[warmup])


def has_bf16(device: torch.device) -> bool:
    """Whether the hardware itself computes in bfloat16 (emulation is slower than float32)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()  # noqa: SLF001  no public query
    return False
