"""Size and speed of an export beside those of its checkpoint"""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from vit.export.format import Classify
from vit.inference.deployment import LoadedModel
from vit.inference.engine import trained_engine

ROUNDS = 3
MOST_IMAGES = 32
FLOPS_PER_PASS = 5e10  # of a timed pass: 20 images of ViT-Ti


@dataclass(frozen=True)
class Speed:
    """Images per second of a checkpoint and of its export, measured in turns on the same CPU."""

    batch_size: int  # images of a pass
    threads: int  # threads of both
    reference: float  # images per second of the checkpoint in PyTorch, float32
    exported: float  # images per second of the export


def measured_speed(trained: LoadedModel, exported: Classify) -> Speed:
    """Time both on random images; of `ROUNDS` passes after the first one, the fastest counts."""
    reference = trained_engine(trained, torch.device("cpu"), "32-true").probabilities
    side = trained.network.image_size
    flops = trained.description.spec.cost(side).flops
    count = max(1, min(MOST_IMAGES, int(FLOPS_PER_PASS / flops)))
    images = torch.randint(
        0,
        256,
        (count, trained.description.preprocess.channels, side, side),
        dtype=torch.uint8,
        generator=torch.Generator().manual_seed(0),
    )
    seconds = [float("inf"), float("inf")]
    with torch.inference_mode():
        for _ in range(1 + ROUNDS):  # the first pass allocates and compiles, and is never the fastest
            for place, classify in enumerate((reference, exported)):
                start = time.perf_counter()
                classify(images)
                seconds[place] = min(seconds[place], time.perf_counter() - start)
    return Speed(count, torch.get_num_threads(), count / seconds[0], count / seconds[1])


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    files = [item for item in path.rglob("*") if item.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
