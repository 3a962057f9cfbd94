"""LoRA through peft: the weight W of every linear layer becomes W + alpha / rank B A

Hu et al. 2022 (arXiv 2106.09685). W does not change. Training changes A (rank x in), B (out x rank, zero at first) and
the head. As in QLoRA (Dettmers et al. 2023, arXiv 2305.14314) all linear layers get adapters. In a ViT these are qkv,
proj, fc1 and fc2 of every block.

The weights of a checkpoint are the sums, so its readers do not need LoRA. The parts stand under the key "lora". A
resumed training reads them.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.errors import UsageError
from vit.models.network import Network, has_batch_norm
from vit.weights.adapt import head_names

ALPHA = 16  # as in peft's guide for ViTs (rank 16) and QLoRA (rank 64); the rank does not change it (Hu et al., 4.1)
PARTS = "lora"
_NAME = "default"  # peft's name of an adapter


def layers_to_adapt(network: Network, rank: int) -> list[str]:
    """Names of all linear layers wider than the rank, without the head.

    UsageError: there are no such layers; or there is batch norm, whose running means would change.
    """
    heads = {name.rpartition(".")[0] for name in head_names(network)}
    layers = {name: layer for name, layer in network.named_modules() if type(layer) is nn.Linear and name not in heads}
    if not layers or has_batch_norm(network):
        problem = "--lora is for networks of linear layers without batch norm, and this one is not"
        raise UsageError(problem, "leave --lora out, or choose a transformer for --network")
    widths = {name: min(layer.in_features, layer.out_features) for name, layer in layers.items()}
    if rank >= max(widths.values()):
        raise UsageError(f"--lora {rank}: the widest layer's rank is {max(widths.values())} at most", "give 4 to 64")
    return [name for name, width in widths.items() if width > rank]


def add_adapters(network: Network, rank: int) -> list[tuple[str, str]]:
    """Add adapters, and freeze all but them and the head. Returns names and values for the terminal."""
    from peft import LoraConfig, inject_adapter_in_model
    from peft.tuners.lora import Linear

    class WholeLinear(Linear):  # type: ignore[misc]
        """peft's layer as one product with W + alpha / rank B A, which is also the merged weight, in bfloat16 too.

        peft's own layer adds the product with B A when it is called. Our Attention and timm's BEiT read the weight and
        never call the layer, so they would silently ignore its adapter.
        """

        @property
        def weight(self) -> Tensor:
            base: Tensor = self.base_layer.weight
            with torch.autocast(base.device.type, enabled=False):
                return base + self.get_delta_weight(_NAME)

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight, self.base_layer.bias)

    names, heads = layers_to_adapt(network, rank), head_names(network)
    config = LoraConfig(r=rank, lora_alpha=ALPHA, target_modules=names)
    config._register_custom_module({nn.Linear: WholeLinear})  # see peft's developer guide, "Custom models"
    inject_adapter_in_model(config, network, _NAME)  # from here on only adapters require a gradient
    for name in heads:
        network.get_parameter(name).requires_grad_(True)
    trained, kept = (
        sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad is wanted)
        for wanted in (True, False)
    )
    how = f"LoRA of rank {rank} and alpha {ALPHA} in {len(names):,} linear layers, and the head"
    return [("trained", f"{trained:,} parameters ({how})"), ("kept", f"{kept:,} parameters")]


def merged(parts: dict[str, Tensor], rank: int) -> dict[str, Tensor]:
    """The state dict of a network with adapters -> the state dict of the same network without adapters."""
    whole: dict[str, Tensor] = {}
    for name, value in parts.items():
        layer, inside, last = name.rpartition(".base_layer.")
        if inside and last == "weight":
            down, up = (parts[f"{layer}.lora_{letter}.{_NAME}.weight"] for letter in "AB")
            value = value + up @ down * (ALPHA / rank)
        if inside or ".lora_" not in name:
            whole[f"{layer}.{last}" if inside else name] = value
    return whole
