"""Training steps and predictions in bfloat16 and in float32, in turn in one process: which is faster here?

The network has random weights.

    python benchmarks/precision.py [NETWORK] [--batch 16] [--threads 1]
"""

import argparse
from functools import partial

import torch
from muon_share import step
from timing import Measurement, interleave

from vit.data.preprocess import Preprocess
from vit.inference.devices import choose_device, choose_precision
from vit.inference.engine import Engine
from vit.models.spec import create_network

PRECISIONS = ("bf16-mixed", "32-true")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", default="vit_tiny_patch16_224")
    parser.add_argument("--batch", type=int, default=16, help="images of a batch; default 16")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch; default 1")
    parser.add_argument("--turns", type=int, default=7, help="turns of each precision; default 7")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn; default 1.5")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    device = choose_device()
    print(f"auto: {choose_precision('auto', device)}")
    steps = {name: step(given.network, "adamw", given.batch, name) for name in PRECISIONS}
    speeds = interleave(steps, given.batch, given.turns, given.seconds)
    words = f"{given.network}, batches of {given.batch}, threads: {given.threads}"
    Measurement(f"Training steps of {words}", speeds).show()
    network = create_network(given.network, 10)
    preprocess = Preprocess(image_size=network.image_size)
    images = torch.randint(256, (given.batch, 3, network.image_size, network.image_size), dtype=torch.uint8)
    engines = {name: Engine(network, preprocess, device, name) for name in PRECISIONS}
    calls = {name: partial(engine.probabilities, images) for name, engine in engines.items()}
    speeds = interleave(calls, given.batch, given.turns, given.seconds)
    Measurement(f"Predictions of {words}", speeds).show()


if __name__ == "__main__":
    main()
