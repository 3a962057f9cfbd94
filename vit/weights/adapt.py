"""Weights adapted to a network of another image size, patch size or number of classes"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from vit.console import count_of
from vit.data.pixels.preprocess import COLORS
from vit.errors import some_of
from vit.models.heads import classifier_names
from vit.models.network import Network, misfits
from vit.models.network_names import import_timm
from vit.models.vision_transformer import VisionTransformer

_LARGEST_CUT, _LEAST_RESAMPLED = 14, 0.6  # patches a side of 224 pixels in 16; the part of them where both are equal

Changes = defaultdict[str, list[str]]  # how a tensor was computed, by its name


@dataclass(frozen=True)
class LoadReport:
    """What became of each tensor."""

    matched: list[str]  # names of tensors without a change
    resampled: dict[str, str] = field(default_factory=dict)  # tensors computed for another size, each with the way
    initialized: dict[str, str] = field(default_factory=dict)  # the head's tensors with initial values, and the reason
    dropped: dict[str, str] = field(default_factory=dict)  # names in the source without a place here, and the reason
    kept_rows: tuple[str, ...] = ()  # names of classes whose rows a head for other classes keeps
    new_rows: tuple[str, ...] = ()  # names of the other classes of this head, whose rows are 0

    def facts(self) -> list[tuple[str, str]]:
        facts = [("matched", f"{len(self.matched):,} tensors")]
        facts += [("resampled", f"{name}: {how}") for name, how in self.resampled.items()]
        for what, reasons in (("initialized", self.initialized), ("dropped", self.dropped)):
            for why in dict.fromkeys(reasons.values()):
                facts.append((what, f"{some_of(name for name in reasons if reasons[name] == why)}: {why}"))
        return facts

    def describe_rows(self) -> str:
        """Which rows a head for other classes keeps, and which are new; "" where it keeps none."""
        if not self.kept_rows:
            return ""
        new = f"; new, from the mean feature of their images: {some_of(self.new_rows)}" if self.new_rows else ""
        return f"the last layer keeps the rows of {count_of(len(self.kept_rows), 'known class', 'known classes')}{new}"


@dataclass(frozen=True)
class Classes:
    """Names of classes where both are known: those that weights were trained on, and those of the network."""

    old: Sequence[str]  # names of the weights' classes, in the order of the head's rows
    new: Sequence[str]  # names of the network's classes
    keeps_rows: bool = False  # whether a head for other classes keeps the rows of those with the same name

    @property
    def rows(self) -> list[int] | None:
        """The row of the old head for each new class; None where the classes are not the same ones."""
        numbers = {name: number for number, name in enumerate(self.old)}
        return [numbers[name] for name in self.new] if numbers.keys() == set(self.new) else None


def fill(
    network: Network,
    weights: Mapping[str, Tensor],
    dropped: Mapping[str, str] | None = None,
    classes: Classes | None = None,
) -> LoadReport:
    """Put weights into a network; as `adapt`. A head for other classes stays as it was initialized."""
    adapted, report = adapt(network, weights, classes)
    network.load_state_dict({**network.state_dict(), **adapted})
    return replace(report, dropped=dict(dropped or {}))


def adapt(
    network: Network, weights: Mapping[str, Tensor], classes: Classes | None = None
) -> tuple[dict[str, Tensor], LoadReport]:
    """(weights in a network's names that `fill` puts into it, the report). The network may be on the meta device.

    Without `classes`, heads are compared by their number of classes alone. ValueError: names are missing or unexpected,
    or shapes differ; the text lists them.
    """
    expected, taken = network.state_dict(), dict(weights)
    heads, changes = sorted(head_names(network)), Changes(list)
    _other_channels(network, taken, changes)
    body = [name for name in taken.keys() & expected.keys() if name not in heads]
    if isinstance(network, VisionTransformer):
        _resample(network, taken, any(name in taken for name in heads), changes)
    elif any(taken[name].shape != expected[name].shape for name in body):
        for name, value in network.resized(taken).items():
            taken[name] = value
            changes[name].append(f"by timm, for {network.image_size} pixels")
    initialized: dict[str, str] = {}
    old_row_of = _kept_rows(classes, heads, taken, expected)
    for name in heads:
        if name not in taken:
            initialized[name] = "the weights have no such head"
        elif old_row_of:
            rows = torch.zeros(expected[name].shape)
            rows[list(old_row_of)] = taken[name].float()[list(old_row_of.values())]
            taken[name] = rows
            changes[name].append(f"rows of {len(old_row_of):,} classes kept")
        elif taken[name].shape != expected[name].shape:
            initialized[name] = f"{len(taken[name]):,} -> {len(expected[name]):,} classes"
        elif classes is not None and list(classes.old) != list(classes.new):
            if classes.rows is None:
                initialized[name] = "the weights have other classes"
            else:
                taken[name] = taken[name][classes.rows]
                changes[name].append("rows in the order of these classes")
    taken = {name: value for name, value in taken.items() if name not in initialized}
    shapes, wanted = ({name: tuple(value.shape) for name, value in some.items()} for some in (taken, expected))
    wrong = misfits(shapes, {name: shape for name, shape in wanted.items() if name not in initialized})
    wrong += [
        f"{name} holds {str(value.dtype).removeprefix('torch.')}, not floating-point numbers, as of a quantized network"
        for name, value in taken.items()
        if name in expected and expected[name].is_floating_point() and not value.is_floating_point()
    ]
    if wrong:
        raise ValueError(some_of(sorted(wrong), separator="; "))
    names = classes.new if classes is not None and old_row_of else ()
    return taken, LoadReport(
        sorted(taken.keys() - changes.keys()),
        {name: "; ".join(hows) for name, hows in changes.items()},
        initialized,
        kept_rows=tuple(name for number, name in enumerate(names) if number in old_row_of),
        new_rows=tuple(name for number, name in enumerate(names) if number not in old_row_of),
    )


def _kept_rows(
    classes: Classes | None, heads: Sequence[str], weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> dict[int, int]:
    """{number of a class: its row in the old head}, of one linear head for other classes; {} where none is kept."""
    if classes is None or not classes.keeps_rows or classes.rows is not None:
        return {}
    is_linear = len(heads) == 2 and expected[heads[1]].ndim == 2  # "...bias" and "...weight" of one layer
    fits = (name in weights and weights[name].shape == (len(classes.old), *expected[name].shape[1:]) for name in heads)
    if not is_linear or not all(fits):
        return {}
    old = {name: number for number, name in enumerate(classes.old)}
    return {number: old[name] for number, name in enumerate(classes.new) if name in old}


def _other_channels(network: Network, weights: dict[str, Tensor], changes: Changes) -> None:
    """Replace kernels of three colors where the network has another number of channels.

    One channel gets the sum of the three kernels: equal channels give the same tokens. More channels repeat red, green
    and blue, times 3 / in_chans.
    """
    for name in network.first_kernels() if network.in_chans != COLORS else ():
        kernels = weights.get(name)
        if kernels is not None and kernels.ndim == 4 and kernels.shape[1] == COLORS:
            weights[name] = import_timm().models.adapt_input_conv(network.in_chans, kernels)
            how = "the sum of three kernels" if network.in_chans == 1 else "kernels of RGB repeated"
            changes[name].append(f"{COLORS} -> {network.in_chans} channels, {how}")


def _resample(network: VisionTransformer, weights: dict[str, Tensor], has_head: bool, changes: Changes) -> None:
    """Replace positions and patch kernels of another size.

    Classifiers for one size lose most of what they know where positions are resampled to a much smaller grid, and less
    with the middle ones (docs/finetuning.md). Self-supervised networks can have seen small crops with resampled
    positions (DINO), and networks for large images were trained on smaller ones before.
    """
    embed, kernels = network.patch_embed, "patch_embed.proj.weight"
    kernel, positions = weights.get(kernels), weights.get("pos_embed")
    if kernel is not None and kernel.ndim == 4 and kernel.shape[2:] != embed.proj.weight.shape[2:]:
        # FlexiViT's pseudo-inverse resize (arXiv 2212.08013, eq. 2): resized patches give the nearest tokens
        size = [embed.patch_size, embed.patch_size]
        weights[kernels] = import_timm().layers.resample_patch_embed(kernel, size)
        changes[kernels].append(f"patches of {kernel.shape[-1]} -> {embed.patch_size} pixels")
    if positions is not None and positions.ndim == 3 and isinstance(network.pos_embed, nn.Parameter):
        prefix = network.config.num_positions - network.config.num_patches
        grid = math.isqrt(max(0, positions.shape[1] - prefix))
        if grid != embed.grid_size and grid > 0 and grid * grid + prefix == positions.shape[1]:
            keeps_middle = has_head and grid <= _LARGEST_CUT and embed.grid_size < _LEAST_RESAMPLED * grid
            weights["pos_embed"] = resample_positions(positions, embed.grid_size, prefix, keeps_middle)
            how = ", the middle" * keeps_middle
            changes["pos_embed"].append(f"{grid} x {grid} -> {embed.grid_size} x {embed.grid_size} patches{how}")


def resample_positions(positions: Tensor, grid_size: int, num_prefix: int, keeps_middle: bool = False) -> Tensor:
    """Learned positions (1, num_prefix + N, D) for another grid of patches, resampled by timm.

    With `keeps_middle` those of a smaller grid are the middle ones, where neighbors stay neighbors.
    """
    if not keeps_middle:
        size = [grid_size, grid_size]
        resampled: Tensor = import_timm().layers.resample_abs_pos_embed(positions, size, num_prefix_tokens=num_prefix)
        return resampled
    prefix, patches = positions[:, :num_prefix], positions[:, num_prefix:]
    old, D = math.isqrt(patches.shape[1]), positions.shape[2]
    middle = slice((old - grid_size) // 2, (old + grid_size) // 2)
    return torch.cat((prefix, patches.reshape(1, old, old, D)[:, middle, middle].reshape(1, -1, D)), dim=1)


def head_names(network: Network) -> set[str]:
    """Names of the parameters whose shape depends on the number of classes; of several heads, those of all.

    Further layers that give logits count too, such as the one of all tokens in VOLO: such a layer stands beside a
    classifier in the same module, and reads and gives as many values.
    """
    places = classifier_names(network)
    below, count = tuple(f"{place}." for place in places), network.num_classes
    sizes = {name: value.shape for name, value in network.named_parameters() if name.startswith(below)}
    names = {name for name, size in sizes.items() if size[:1] == (count,)}
    linear = {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.Linear)}
    if not names:
        heads = [name for name, layer in linear.items() if layer.out_features == count]
        return {f"{heads[-1]}.{part}" for part in ("weight", "bias")} if heads else set()
    kinds = {(name.rpartition(".")[0], linear[name].weight.shape) for name in places if name in linear}
    beside = [name for name, layer in linear.items() if (name.rpartition(".")[0], layer.weight.shape) in kinds]
    return names | {f"{name}.{part}" for name in beside for part, _ in linear[name].named_parameters()}
