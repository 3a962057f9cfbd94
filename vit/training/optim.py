"""Parameter groups, optimizers and the learning-rate schedule"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import SGD, AdamW, Muon, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from vit.errors import UsageError
from vit.inference.devices import is_faster_in_bf16
from vit.own_code import is_path, load, running
from vit.training.recipes.recipe import OptimConfig

_ATTENTION = re.compile("attn|attention|qkv|mhsa")  # in the names of parameters, here and in timm
_TABLE = re.compile(r"(bias_table|biases|rel_pos_[hw])$")
Named = list[tuple[str, nn.Parameter]]
LEVELS = 13  # below the head of a ViT with 12 blocks, in which published values of layer decay count
MAX_WARMUP_STEPS = 10_000  # Dosovitskiy et al. 2021, table 3, for trainings of any length


class BatchedMuon(Muon):
    """PyTorch's Muon (Jordan et al. 2024) with one matrix product for all matrices of one shape, in all groups.

    Its steps have the size of AdamW's (Moonshot 2025, arXiv 2502.16982). State, groups and state dict are those of
    `torch.optim.Muon`, and so is the result to rounding. On two cores without AMX, Muon's part of a training step falls
    from 7.7 to 6.2 % (ViT of width 192, 32 px, patch 4).
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, adjust_lr_fn="match_rms_adamw")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        with torch.enable_grad():
            loss = None if closure is None else closure()
        matrices, gradients, averages = list[Tensor](), list[Tensor](), list[Tensor]()
        rates, decays = list[float](), list[float]()
        for group in self.param_groups:
            before = len(matrices)
            self._init_group(group, matrices, gradients, averages)
            new = matrices[before:]
            rates += [-group["lr"] * 0.2 * math.sqrt(max(matrix.shape)) for matrix in new]  # "match_rms_adamw"
            decays += [1 - group["lr"] * group["weight_decay"]] * len(new)
        if matrices:
            torch._foreach_lerp_(averages, gradients, 1 - group["momentum"])
            ahead = torch._foreach_lerp(gradients, averages, group["momentum"]) if group["nesterov"] else averages
            updates = all_orthogonalized(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
            torch._foreach_mul_(matrices, decays)
            torch._foreach_mul_(updates, rates)
            torch._foreach_add_(matrices, updates)
        return loss


def all_orthogonalized(
    updates: Sequence[Tensor], coefficients: tuple[float, float, float], steps: int, eps: float
) -> list[Tensor]:
    """The nearly orthogonal matrices next to given ones, in one iteration for all whose sides are equal.

    Shapes (m, n) and (n, m) are one: the iteration computes with the wide form of a matrix. Each result is contiguous,
    as the weight that it changes, because PyTorch's operations on lists are one kernel only then.
    """
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, update in enumerate(updates):
        alike[tuple(sorted(update.shape))].append(place)
    results: list[Tensor] = [*updates]
    for places in alike.values():
        tall = [place for place in places if updates[place].shape[0] > updates[place].shape[1]]
        wide = [place for place in places if place not in tall]
        stacked = torch.stack([updates[place] for place in wide] + [updates[place].mT for place in tall])
        made = orthogonalized(stacked, coefficients, steps, eps).to(stacked.dtype)
        parts = (made[: len(wide)], made[len(wide) :].mT.contiguous())
        for place, matrix in zip(wide + tall, chain(*(part.unbind() for part in parts)), strict=True):
            results[place] = matrix
    return results


def orthogonalized(wide: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """The nearly orthogonal matrices (L, m, n), m <= n, by the Newton-Schulz iteration of PyTorch's Muon, in its order.

    Where the hardware is not faster in bfloat16, the products are in float32: emulated products take 15 to 40 times as
    long on a processor with AVX2 alone.
    """
    a, b, c = coefficients
    wide = wide.to(torch.bfloat16 if is_faster_in_bf16(wide.device) else torch.float32)
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = wide @ wide.mT  # (L, m, m)
        wide = torch.baddbmm(wide, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide


class Trainable(Protocol):
    """What an optimizer must know of a module: a network, or a network with further layers of an objective."""

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def no_weight_decay(self) -> set[str]:
        """Names of parameters without weight decay, besides vectors; see `Network.no_weight_decay`."""

    def layers_above(self) -> dict[str, int]:
        """Number of blocks above each parameter; see `Network.layers_above`."""


def layer_decay(network: Trainable, config: OptimConfig) -> float:
    """What is given, or for "auto" 0.75 of a transformer whose layers have an order, else 1 (docs/finetuning.md)."""
    if not isinstance(config.layer_decay, str):
        return config.layer_decay
    return 0.75 if matrices_of_blocks(network.named_parameters()) and network.layers_above() else 1.0


def parameter_groups(network: Trainable, named: Named, config: OptimConfig) -> list[dict[str, Any]]:
    """Groups by weight decay and by layer.

    Matrices and kernels decay. Norms, biases, and the parameters that the network exempts (positions, class token) do
    not. With `layer_decay` the learning rate of a parameter is multiplied by that factor for every block between the
    parameter and the head (Clark et al. 2020, ELECTRA; Bao et al. 2022, BEiT). The exponent is that of a ViT with 12
    blocks at the same fraction of the depth, so that the lowest layers of a deep network learn, too.
    """
    exempt = network.no_weight_decay()
    decay = layer_decay(network, config)
    layers = network.layers_above() if decay < 1.0 else {}
    depth = max(layers.values(), default=0) or 1
    groups: dict[tuple[int, bool], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in named:
        above = layers.get(name, 0)
        groups[above, parameter.ndim >= 2 and name not in exempt].append(parameter)
    return [
        {
            "params": parameters,
            "lr": config.scaled_lr * decay ** (LEVELS * above / depth),
            "weight_decay": config.weight_decay if decays else 0.0,
        }
        for (above, decays), parameters in groups.items()
    ]


def check_optimizer(network: Trainable, config: OptimConfig) -> None:
    """Raise UsageError where the optimizer or its rates are not for such a network, which needs no memory."""
    if layer_decay(network, config) < 1 and not network.layers_above():
        problem = f"--optim.layer_decay {config.layer_decay} needs an order of layers, and this network has none"
        raise UsageError(problem, "give --optim.layer_decay 1, or a network with the method layers_above")
    if config.optimizer == "muon" and not matrices_of_blocks(network.named_parameters()):
        problem = "--optim.optimizer muon, given or of the recipe, needs a transformer: it works on matrices of blocks"
        raise UsageError(problem, "for a CNN add --optim.optimizer sgd --lr 0.1, or --optim.optimizer adamw")


def matrices_of_blocks(named: Iterable[tuple[str, nn.Parameter]]) -> Named:
    """The parameters that Muon works on: matrices of a transformer's blocks; none in a CNN.

    ConvNeXt has blocks with linear layers, too, but no attention. Tables of positions in attention are left out.
    """
    matrices = [(name, parameter) for name, parameter in named if parameter.ndim == 2 and ".blocks." in f".{name}"]
    has_attention = any(_ATTENTION.search(name) for name, _ in matrices)
    return [(name, parameter) for name, parameter in matrices if has_attention and not _TABLE.search(name)]


def _own_optimizer(groups: list[dict[str, Any]], config: OptimConfig) -> Optimizer:
    """The user's optimizer for groups of parameters, each with its `lr` and `weight_decay`. UsageError: it is none."""
    fix = "give a function of groups of parameters and of the options of optim, which makes a torch.optim.Optimizer"
    with running(config.optimizer, "--optim.optimizer", fix):
        made = load(config.optimizer, "--optim.optimizer")(groups, config)
        if not isinstance(made, Optimizer):
            raise TypeError(f"it makes a {type(made).__name__}")
        given, taken = ({id(one) for group in some for one in group["params"]} for some in (groups, made.param_groups))
        if given - taken:
            raise ValueError(f"it leaves out {len(given - taken):,} of {len(given):,} parameters")
    return made


def make_optimizer(network: Trainable, config: OptimConfig, fused: bool = True) -> Optimizer:
    """The optimizer of a recipe. UsageError: muon for a network without encoder blocks.

    Args:
        fused: whether to use PyTorch's fused form. In float16 that form unscales gradients after they are clipped. With
            sharded weights this option has no effect, because PyTorch supports them for AdamW alone.
    """
    named = [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]
    check_optimizer(network, config)
    fused = fused and not any(isinstance(parameter, DTensor) for _, parameter in named)
    if config.optimizer == "muon":
        hidden = matrices_of_blocks(named)
        hidden_ids = {id(parameter) for _, parameter in hidden}
        rest = [(name, parameter) for name, parameter in named if id(parameter) not in hidden_ids]
        return MuonAdamW(parameter_groups(network, hidden, config), parameter_groups(network, rest, config), fused)
    groups = parameter_groups(network, named, config)
    if is_path(config.optimizer):
        return _own_optimizer(groups, config)
    if config.optimizer == "sgd":
        return SGD(groups, lr=config.scaled_lr, momentum=config.momentum, nesterov=config.momentum > 0, fused=fused)
    return AdamW(groups, lr=config.scaled_lr, fused=fused)


class MuonAdamW(Optimizer):
    """Muon for the matrices of encoder blocks, AdamW for everything else, as one optimizer.

    Muon's steps have the size of AdamW's, so that both share one learning rate and one decay. The group dictionaries of
    both optimizers are the groups of this one, so that a schedule changes all of them.
    """

    def __init__(self, hidden: list[dict[str, Any]], rest: list[dict[str, Any]], fused: bool) -> None:
        self.muon = BatchedMuon(hidden)
        self.adamw = AdamW(rest, fused=fused)
        super().__init__([*self.muon.param_groups, *self.adamw.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = self.muon.step(closure)
        self.adamw.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state, and share the new group dictionaries again."""
        self.muon.load_state_dict(state_dict["muon"])
        self.adamw.load_state_dict(state_dict["adamw"])
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]


def warmup_steps(config: OptimConfig, total_steps: int) -> int:
    """Optimizer steps before the learning rate reaches its highest value."""
    return min(round(config.warmup * total_steps), MAX_WARMUP_STEPS, total_steps - 1)


@dataclass
class Decay:
    """The optimizer steps between which the learning rate falls. With `optim.patience` a callback decides them."""

    start: int  # step with the highest rate. The rate is constant between the warm-up and this step.
    end: int  # step with the lowest rate

    @classmethod
    def planned(cls, config: OptimConfig, total_steps: int) -> "Decay":
        """From the warm-up to the last step; with `optim.patience` not before it is known from which step on."""
        return cls(total_steps if config.patience else warmup_steps(config, total_steps), total_steps)


def make_schedule(optimizer: Optimizer, config: OptimConfig, total_steps: int, decay: Decay) -> LRScheduler:
    """Linear warm-up, then a cosine to `min_lr_ratio`: one factor per optimizer step, the same for every group.

    A callback may change the steps of the decay during the training.
    """
    warmup = warmup_steps(config, total_steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min(1.0, max(0, step - decay.start) / max(1, decay.end - decay.start))
        return config.min_lr_ratio + (1.0 - config.min_lr_ratio) * (1.0 + math.cos(math.pi * done)) / 2

    return LambdaLR(optimizer, factor)
