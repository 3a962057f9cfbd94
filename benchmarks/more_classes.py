"""Two classes more: a last layer that keeps its rows and gets two new ones, and a new last layer, on frozen features.

    vit embed deit_tiny_patch16_224.safetensors SET... --recursive --output all.parquet
    python benchmarks/more_classes.py all.parquet SET... > table.md

A SET holds pool/CLASS and test/CLASS. A seed draws two new classes. The first layer is a linear probe on 40 images
of each other class. Then both ways see 20 other images of all classes: AdamW, batches of 32, the same order.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import torch
from next_labels import Floats, Labels, images
from scipy import stats
from torch import Tensor, nn

from vit.inference.embeddings import Embeddings
from vit.training.network.initial_network import add_rows

FIRST, THEN, BATCH, RATE, SEEDS, STEPS = 40, 20, 32, 1e-3, 5, (0, 16, 64, 256)
Labeled = tuple[Tensor, Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("sets", type=Path, nargs="+")
    given = parser.parse_args()
    known = Embeddings.read(given.embeddings)
    print("| images | steps | new last layer (%) | rows kept (%) | difference (points) | p |")
    print("|---|---|---|---|---|---|")
    for folder in given.sets:
        pool, test = (tensors(*images(known, folder / part)) for part in ("pool", "test"))
        found = {(way, seed): curve(pool, test, way, seed) for way, seed in product(("new", "kept"), range(SEEDS))}
        for place, steps in enumerate(STEPS):
            new, kept = (np.array([100 * found[way, seed][place] for seed in range(SEEDS)]) for way in ("new", "kept"))
            gap = stats.ttest_1samp(kept - new, 0)
            low, high = gap.confidence_interval()
            cells = f"{new.mean():.1f} | {kept.mean():.1f} | {(kept - new).mean():+.1f} ({low:+.1f} to {high:+.1f})"
            print(f"| {folder.name} | {steps} | {cells} | {gap.pvalue:.4f} |", flush=True)


def tensors(vectors: Floats, labels: Labels) -> Labeled:
    """The same numbers for torch."""
    return torch.from_numpy(vectors), torch.from_numpy(labels)


def curve(pool: Labeled, test: Labeled, way: str, seed: int) -> list[float]:
    """Test accuracies after each number of steps of one way."""
    generator = torch.Generator().manual_seed(seed)
    num_classes = int(pool[1].max()) + 1
    new = torch.randperm(num_classes, generator=generator)[:2].tolist()
    order = torch.randperm(len(pool[1]), generator=generator)
    of_class = [order[pool[1][order] == number] for number in range(num_classes)]
    first = torch.cat([places[:FIRST] for number, places in enumerate(of_class) if number not in new])
    then = torch.cat([places[FIRST : FIRST + THEN] for places in of_class])
    head = nn.Linear(pool[0].shape[1], num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    if way == "kept":
        train(head, (pool[0][first], pool[1][first]), 500, generator)
        add_rows(head, pool[0][then], pool[1][then], new)
    draws, found, done = torch.Generator().manual_seed(1000 + seed), [], 0
    for steps in STEPS:
        train(head, (pool[0][then], pool[1][then]), steps - done, draws)
        done = steps
        with torch.inference_mode():
            found.append(float((head(test[0]).argmax(dim=1) == test[1]).float().mean()))
    return found


def train(head: nn.Linear, images: Labeled, steps: int, generator: torch.Generator) -> None:
    """Some optimizer steps on a head."""
    optimizer = torch.optim.AdamW(head.parameters(), RATE)
    for _ in range(steps):
        places = torch.randint(len(images[1]), (BATCH,), generator=generator)
        loss = nn.functional.cross_entropy(head(images[0][places]), images[1][places])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
