"""How large the gradient of each block is before the first step: norms before, after and without, and no residuals.

    python evidence/make/gradients.py ROW

The networks are those of studies/digits_residuals.yaml with 24 blocks. The gradient is that of the mean loss of 256
training images of the digits. The norm is over all weights of a block. A head of zeros, as training starts with, would
pass no gradient. So the head is drawn here as the other matrices are.
"""

import sys

import numpy as np
import torch
from definitions import EVIDENCE
from lines import Lines
from torch import nn

from vit.data.loading.loader import labeled_images
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits
from vit.models.ablations import AblatedTransformer
from vit.models.spec import create_network

DEPTH, SEEDS, IMAGES = 24, 5, 256
NETWORKS: dict[str, dict[str, bool | str]] = {
    "pre-norm": {"norms": "pre"},
    "post-norm": {"norms": "post"},
    "no norms": {"norms": "none"},
    "no residuals": {"residuals": False},
}


def gradient_norms(
    seed: int, options: dict[str, bool | str], pixels: torch.Tensor, labels: torch.Tensor
) -> list[float]:
    """The norm of the gradient of each block, first to last."""
    torch.manual_seed(seed)
    network = create_network("vit_nano_ablated", 10, None, 3, depth=DEPTH, **options)
    assert isinstance(network, AblatedTransformer)
    nn.init.xavier_uniform_(network.vit.head.weight)
    nn.functional.cross_entropy(network(pixels), labels).backward()
    norms = []
    for block in network.blocks:
        gradients = [parameter.grad for parameter in block.parameters() if parameter.grad is not None]
        norms.append(float(torch.stack([gradient.norm() for gradient in gradients]).norm()))
    return norms


def main() -> None:
    """Measure a row and write what was measured into its folder."""
    (row,) = sys.argv[1:]
    train = with_all_splits(open_source("digits"), 0.1, 0.2, seed=0).splits["train"]
    preprocess = Preprocess(8, mean=(0.305,) * 3, std=(0.376,) * 3)
    batches = list(labeled_images(train.select(np.arange(IMAGES)), preprocess))
    pixels = preprocess.normalize(torch.cat([batch.image[batch.valid] for batch in batches]))
    labels = torch.cat([batch.label[batch.valid] for batch in batches])
    values = {
        name: np.array([gradient_norms(seed, options, pixels, labels) for seed in range(SEEDS)])
        for name, options in NETWORKS.items()
    }
    Lines(
        "block", "norm of its gradient at the start", tuple(range(1, DEPTH + 1)), values, "seeds", False,
        f"python evidence/make/gradients.py {row}",
    ).write(EVIDENCE / row / "measured" / "gradients.json")  # fmt: skip


if __name__ == "__main__":
    main()
