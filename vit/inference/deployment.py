"""What computes predictions: a graph for exports and other engines, and the copy of a network for `Engine`

The graph holds preprocessing and calibrated probabilities. The copy has batch norms folded, and weights cast once, and
packed on a CPU. Its results equal those of the network itself at the same precision, up to rounding.
"""

import copy
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from vit.checkpoints.format import Description
from vit.checkpoints.label_rules import LabelRules
from vit.data.pixels.preprocess import COLORS, to_device
from vit.inference.devices import has_bf16
from vit.models.heads import classifier_names
from vit.models.later_papers import RotaryPositions
from vit.models.network import Network
from vit.models.vision_transformer import Block, VisionTransformer

_ROWS = 7_000  # tokens of a pass: oneDNN packs weights for about as many rows, and computes any other number, too


@dataclass(frozen=True)
class LoadedModel:
    """The content of a checkpoint."""

    network: Network  # in evaluation mode
    description: Description


def probabilities_of(logits: Tensor, temperature: float, rules: LabelRules | None) -> Tensor:
    """The probabilities (B, C) of logits (B, C): a softmax over one temperature, or a sigmoid for each label.

    Everything that gives a probability computes it here, so that a model with several labels, which has `rules`, never
    gives a softmax.
    """
    if rules is None:
        return (logits / temperature).softmax(dim=1)
    temperatures = torch.tensor(rules.temperatures.tolist(), dtype=torch.float32)
    return (logits / to_device(temperatures, logits.device)).sigmoid()


def calibrated_probabilities(logits: Tensor, rules: LabelRules | None) -> Tensor:
    """The probabilities (B, C) of logits that are divided by their temperatures already, as in a file of weights."""
    return logits.softmax(dim=1) if rules is None else logits.sigmoid()


class DeploymentGraph(nn.Module):
    """Images (B, K, S, S) uint8 -> probabilities (B, C): normalization, network and calibration in one.

    A graph cannot decode a file or resize a picture to S, so both steps stay outside.
    """

    def __init__(self, trained: LoadedModel) -> None:
        super().__init__()
        self.network = trained.network
        self.preprocess = trained.description.preprocess
        self.temperature, self.rules = trained.description.temperature, trained.description.multilabel

    def forward(self, images: Tensor) -> Tensor:
        logits = self.network(self.preprocess.normalize(images))
        return probabilities_of(logits, self.temperature, self.rules)


def traced(trained: LoadedModel) -> torch.export.ExportedProgram:
    """The graph of `DeploymentGraph` for any batch size, without the paths of this machine."""
    module = DeploymentGraph(trained).eval().requires_grad_(False)
    side = trained.network.image_size
    # with a batch of one, one would become the only size
    example = torch.zeros(2, trained.network.in_chans, side, side, dtype=torch.uint8)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def notes(trained: LoadedModel) -> dict[str, str]:
    """What an exported graph says about itself, as text: classes, input and output, beside our own description."""
    names, rules = trained.description.class_names, trained.description.multilabel
    texts, row = {"classes": json.dumps(names), "input": describe_input(trained)}, f"float32 (batch, {len(names)})"
    if rules is None:
        return texts | {"output": f"{row}: probabilities, in the order of classes"}
    return texts | {
        "output": f"{row}: probability of each label, in the order of classes; they do not add up to 1; an image has a "
        "label from its threshold on",
        "thresholds": json.dumps(rules.thresholds.tolist()),
    }


def describe_input(trained: LoadedModel) -> str:
    """The input of an exported graph in words, for its metadata."""
    plain = trained.description.preprocess
    resized = {"shortest": "the shorter side", "squash": "both sides", "pad": "the longer side"}[plain.resize_mode]
    filled = f", where a shorter side is filled up with {plain.fill}" * (plain.resize_mode == "pad")
    pairs = list(zip(plain.window[::2], plain.window[1::2], strict=True)) if plain.window else []
    levels = ", ".join(f"{low:g} to 0, {high:g} to 255" for low, high in pairs)
    window = f"; values of more than 8 bits: {levels}" * bool(pairs)
    colors = {1: "gray", 3: "RGB"}.get(plain.channels, f"{plain.channels} channels")
    if plain.color_profiles == "convert" and plain.channels == COLORS:
        colors = "sRGB (embedded ICC profiles converted)"
    side = plain.image_size
    return (
        f"uint8 (batch, {plain.channels}, {side}, {side}): {colors}, upright, on white, 0 to 255; {resized} "
        f"resized to {plain.resize_side} ({plain.interpolation}, antialiased), then the middle square"
        f"{filled}; normalization is inside{window}"
    )


def prepared(network: Network, device: torch.device, precision: str) -> nn.Module:
    """The network in evaluation mode as an `Engine` runs it, within autocast where the precision is "bf16-mixed".

    On a CPU and on an NVIDIA or AMD GPU this is a copy, and later changes of the network's weights do not reach it.
    Elsewhere it is the network.
    """
    if device.type not in ("cpu", "cuda"):
        return network
    made = copy.deepcopy(network).requires_grad_(False)
    for module in list(made.modules()):
        if parametrize.is_parametrized(module, "weight"):  # LoRA
            parametrize.remove_parametrizations(module, "weight")
    _fold_batch_norm(made)
    dtype = torch.bfloat16 if precision == "bf16-mixed" else torch.float32
    if device.type == "cpu" and isinstance(made, VisionTransformer) and can_pack(dtype):
        return PackedViT(made, dtype)
    if dtype == torch.float32:
        return made
    for module in made.modules():
        if type(module) in (nn.Linear, nn.Conv2d):  # autocast would cast the weights of these in every pass
            module.to(torch.bfloat16)
    return made


def _fold_batch_norm(network: Network) -> None:
    """Multiply the scales of batch norms into the convolutions before them: a fifth of the time of a resnet18.

    The last layers stay modules of their own, so that `with_features` can read what goes into them.
    """
    heads = {network.get_submodule(name) for name in classifier_names(network)}
    for name in ("model", "patch_embed.layers"):  # a network of timm's, the convolutional stem of a ViT
        try:
            part = network.get_submodule(name)
        except AttributeError:
            continue
        if any(type(module) is nn.BatchNorm2d for module in part.modules()):
            with suppress(Exception):  # torch.fx follows only some Python code, and raises errors of many types
                network.set_submodule(name, _fused(part, heads))


def _fused(part: nn.Module, whole: Collection[nn.Module]) -> nn.Module:
    """The graph of a module without batch norms, in which the modules `whole` are called and not looked into."""
    from torch import fx
    from torch.fx.experimental.optimization import fuse  # not at the top: a plain ViT does not need it

    class Tracer(fx.Tracer):
        def is_leaf_module(self, module: nn.Module, module_qualified_name: str) -> bool:
            return module in whole or super().is_leaf_module(module, module_qualified_name)

    return fuse(fx.GraphModule(part, Tracer().trace(part)), no_trace=True)


def can_pack(dtype: torch.dtype) -> bool:
    """Whether PyTorch has oneDNN's packed linear layers, and this CPU computes them fast in a number format."""
    has_operators = all(hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight"))
    is_fast = torch.cpu._is_avx2_supported() if dtype == torch.float32 else has_bf16(torch.device("cpu"))
    return is_fast and torch.backends.mkldnn.is_available() and has_operators


class PackedLinear(nn.Module):
    """A linear layer with weights in oneDNN's order, and with GELU in the same kernel if asked for.

    torch.compile computes linear layers with the same operators. They exist for inference only.
    """

    def __init__(self, linear: nn.Linear, dtype: torch.dtype, activation: str = "none") -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().to(dtype), _ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        self.activation = activation

    def forward(self, tokens: Tensor) -> Tensor:
        made: Tensor = torch.ops.mkldnn._linear_pointwise(tokens, self.weight, self.bias, self.activation, [], "none")
        return made


class PackedViT(nn.Module):
    """A ViT with packed blocks: images (B, 3, S, S) float32 -> logits (B, C) float32. It changes the network.

    Norms have float32 weights, and heads compute in float32. In bfloat16 the errors are then as large as those of
    autocast.
    """

    def __init__(self, network: VisionTransformer, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        exact = {  # parts whose numbers stay in float32
            name: copy.deepcopy(module)
            for name, module in network.named_modules()
            if isinstance(module, nn.LayerNorm | RotaryPositions) or name in ("head", "head_dist")
        }
        self.network = network.to(dtype)
        for name, module in exact.items():
            network.set_submodule(name, module)
        is_gelu = network.config.activation == "gelu"
        for place, block in enumerate(network.blocks, 1):
            assert isinstance(block, Block)
            attention: Any = block.attn  # nn.Module: its layers change their type
            mlp: Any = block.mlp
            if place < len(network.blocks):  # the last one splits its weights (`Attention.project`)
                attention.qkv = PackedLinear(attention.qkv, dtype)
            attention.proj = PackedLinear(attention.proj, dtype)
            mlp.fc1 = PackedLinear(mlp.fc1, dtype, "gelu" if is_gelu else "none")
            mlp.activation = nn.Identity() if is_gelu else mlp.activation
            mlp.fc2 = PackedLinear(mlp.fc2, dtype)
        for head in (network.head, network.head_dist):
            if head is not None:
                head.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            logits: Tensor = self.network(images.to(self.dtype))
        return logits
