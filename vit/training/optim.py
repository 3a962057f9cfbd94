"""Parameter groups, optimisers and the learning-rate schedule."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW, Muon, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR

from vit.errors import UsageError
from vit.models.network import Network
from vit.training.recipe import OptimConfig


def parameter_groups(parameters: Iterable[tuple[str, nn.Parameter]], exempt: set[str], weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and kernels with decay; norms, biases, and what the network exempts (positions, class token) without."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in parameters:
        (free if parameter.ndim < 2 or name in exempt else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


def make_optimizer(network: Network, config: OptimConfig, fused: bool = True) -> Optimizer:
    """The optimiser of a recipe; not fused under float16, whose fused form unscales gradients after they are clipped.

    Raises:
        UsageError: muon for a network without encoder blocks.
    """
    named = [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]
    exempt = network.no_weight_decay()
    if config.optimizer == "muon":
        hidden = [parameter for name, parameter in named if parameter.ndim == 2 and ".blocks." in f".{name}"]
        if not hidden:
            raise UsageError("--optim.optimizer muon needs a transformer: it works on matrices of blocks", "give adamw or sgd")
        chosen = {id(parameter) for parameter in hidden}
        rest = parameter_groups(((n, p) for n, p in named if id(p) not in chosen), exempt, config.weight_decay)
        return MuonAdamW(hidden, rest, config.lr, config.weight_decay, fused)
    groups = parameter_groups(named, exempt, config.weight_decay)
    if config.optimizer == "sgd":
        return SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.momentum > 0, fused=fused)
    return AdamW(groups, lr=config.lr, fused=fused)


class MuonAdamW(Optimizer):
    """Muon (Jordan et al. 2024) for the matrices of encoder blocks, AdamW for everything else, as one optimiser.

    Both are PyTorch's. Muon's steps are scaled to the size of AdamW's (Moonshot 2025, arXiv 2502.16982), so that one
    learning rate and one decay serve both. The two optimisers' own group dictionaries are this one's groups: a schedule
    that changes these changes those.
    """

    def __init__(self, hidden: list[nn.Parameter], rest: list[dict[str, Any]], lr: float, weight_decay: float, fused: bool) -> None:
        self.muon = Muon(hidden, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
        self.adamw = AdamW(rest, lr=lr, fused=fused)
        super().__init__([*self.muon.param_groups, *self.adamw.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Both steps, after the closure."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.muon.step()
        self.adamw.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Both states, under "muon" and "adamw"."""
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` gave; the groups, which loading replaces, are shared anew."""
        self.muon.load_state_dict(state_dict["muon"])
        self.adamw.load_state_dict(state_dict["adamw"])
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]


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
