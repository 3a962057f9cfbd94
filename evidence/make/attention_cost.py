"""The share of a block's time that attention's two products take, against the formula N / (6 D + N).

    python evidence/make/attention_cost.py ROW

Blocks of ViT-Ti's width, D = 192 and 3 heads, in float32 inference on one thread. `vit inspect` shows the same for any
network. A share is a ratio of two times of the same moments, so that other work on the machine hardly changes it.
"""

import sys

import numpy as np
import torch
from definitions import EVIDENCE
from lines import Lines

from vit.explain.inspection import cost_by_size
from vit.models.vit_config import ViTConfig

TURNS = 5
GRIDS = (4, 8, 14, 20, 28, 40)  # patches along a side


def main() -> None:
    """Measure a row and write what was measured into its folder."""
    (row,) = sys.argv[1:]
    torch.set_num_threads(1)
    config = ViTConfig(image_size=224, patch_size=16, embed_dim=192, depth=1, num_heads=3)
    turns = [cost_by_size(config, [16 * grid for grid in GRIDS], torch.device("cpu")) for _ in range(TURNS)]
    values = {
        "measured share of the time": np.array([[cost.timed_share for cost in costs] for costs in turns]),
        "N / (6 D + N)": np.array([[cost.formula_share for cost in costs] for costs in turns]),
    }
    Lines(
        "patches N", "share of attention's products in a block", tuple(grid**2 for grid in GRIDS), values, "turns",
        True, f"python evidence/make/attention_cost.py {row}",
    ).write(EVIDENCE / row / "measured" / "cost.json")  # fmt: skip


if __name__ == "__main__":
    main()
