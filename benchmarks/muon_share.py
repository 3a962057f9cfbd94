"""Muon's share of a training step: steps with Muon, with AdamW and without an optimizer, in turn in one process.

The network is `vit_mini_patch4_28`, that of `configs/fashion_mnist.yaml`, with batches of 128 that stay in memory.

    python benchmarks/muon_share.py
"""

import argparse
import os
from collections.abc import Callable

import torch
import torch.nn.functional as F
from timing import Measurement, interleave
from torch import Tensor

from vit.inference.devices import autocast, choose_device, choose_precision
from vit.models.spec import create_network
from vit.training.optim import make_optimizer
from vit.training.recipes.recipe import OptimConfig

NETWORK, BATCH = "vit_mini_patch4_28", 128


def step(name: str, optimizer_name: str, batch: int, precision: str = "auto") -> Callable[[], Tensor]:
    """A training step of a network of its own. Without the name of an optimizer it changes no weight."""
    device = choose_device()
    precision = choose_precision(precision, device)
    network = create_network(name, 10).to(device).train()
    optimizer = None
    if optimizer_name:
        optimizer = make_optimizer(network, OptimConfig(optimizer=optimizer_name))
    images = torch.randn(batch, 3, network.image_size, network.image_size, device=device)
    labels = torch.arange(batch, device=device) % 10

    def run() -> Tensor:
        network.zero_grad()
        with autocast(precision, device):
            logits = network(images)
        loss = F.cross_entropy(logits.float(), labels, label_smoothing=0.1)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss.detach()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=11, help="turns of each side; default 11")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn; default 1.5")
    parser.add_argument("--batch", type=int, default=BATCH, help="images of a batch; default 128")
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    sides = {"Muon": "muon", "AdamW": "adamw", "without an optimizer": ""}
    calls = {side: step(NETWORK, name, arguments.batch) for side, name in sides.items()}
    speeds = interleave(calls, arguments.batch, arguments.turns, arguments.seconds)
    Measurement(f"Training steps of {NETWORK}, batches of {arguments.batch}, by optimizer", speeds).show()


if __name__ == "__main__":
    main()
