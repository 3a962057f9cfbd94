"""Teachers with random weights, as files."""

from dataclasses import replace
from pathlib import Path

import torch

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.data.pixels.preprocess import Preprocess
from vit.models.catalog import Value
from vit.models.network import Network
from vit.models.spec import NetworkSpec

CLASSES = ("blue", "green", "red")
OWN = Preprocess(12, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))


def write_teacher(
    path: Path,
    class_names: tuple[str, ...] = CLASSES,
    preprocess: Preprocess = OWN,
    network: str = "resnet10_small",
    temperature: float = 1.0,
    seed: int = 0,
    **options: Value,
) -> Network:
    """Write the checkpoint of a network with random weights, and give the network in evaluation mode."""
    torch.manual_seed(seed)
    options = options or ({"widths": (8, 8, 8, 8)} if network == "resnet10_small" else {})
    spec = replace(NetworkSpec.named(network, len(class_names), options), in_chans=preprocess.channels)
    made = spec.build(preprocess.image_size)
    with torch.no_grad():
        for weight in (*made.parameters(), *made.buffers()):
            if weight.is_floating_point():
                weight.copy_(torch.rand_like(weight) * 0.5 if weight.ndim < 2 else torch.randn_like(weight) * 0.2)
    description = Description(class_names, spec, preprocess, temperature=temperature, metrics={"val/acc1": 0.875})
    write_checkpoint(checkpoint_content(description, made.state_dict()), path)
    return made.eval()
