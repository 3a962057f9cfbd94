"""How many labels `vit data next` saves: linear probes on images that doubt chooses, and on random ones.

    vit embed deit_tiny_patch16_224.safetensors SET... --recursive --output all.parquet
    python benchmarks/next_labels.py run ROWS.jsonl all.parquet SET...
    python benchmarks/next_labels.py table ROWS.jsonl

A SET holds pool/CLASS and test/CLASS. A seed draws 100 images with labels and 100 validation images; the others are to
choose from. Each round labels 100 more. All methods of a seed begin alike.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats

from vit.inference.answers.nearest import choose_doubtful, doubts
from vit.inference.embeddings import Embeddings
from vit.tasks.task import SINGLE_LABEL, LossOptions
from vit.training.network.features import HeadFit
from vit.training.planning.schedule import PENALTIES

STEP, LAST = 100, 400  # labels of a round, and after the last one
RANDOM_SIZES = (100, 200, 300, 400, 500, 700, 1000)
Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("rows", type=Path)
    parser.add_argument("embeddings", type=Path, nargs="?")
    parser.add_argument("sets", type=Path, nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    if given.action == "table":
        show([json.loads(line) for line in given.rows.read_text().splitlines()])
        return
    known = Embeddings.read(given.embeddings)
    for folder in given.sets:
        parts = {part: images(known, folder / part) for part in ("pool", "test")}
        for seed in range(given.seeds):
            for method in ("random", "doubt", "margin"):
                began = time.perf_counter()
                curve = accuracies(*parts["pool"], *parts["test"], method, seed)
                row = {"data": folder.name, "seed": seed, "method": method, "accuracy": curve}
                with given.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(folder.name, seed, method, f"{time.perf_counter() - began:.1f} s", flush=True)


def images(known: Embeddings, folder: Path) -> tuple[Floats, Labels]:
    """Vectors and class numbers of the images below a folder."""
    rows = [row for row, path in enumerate(known.paths) if Path(path).is_relative_to(folder)]
    names = [Path(known.paths[row]).parent.name for row in rows]
    return known.vectors[rows], np.unique(names, return_inverse=True)[1]


def accuracies(
    pool: Floats, labels: Labels, test: Floats, test_labels: Labels, method: str, seed: int
) -> dict[int, float]:
    """{number of labels: test accuracy} of linear probes on images that a method chooses round by round."""
    order = np.random.default_rng(seed).permutation(len(pool))
    validation, chosen, rest = order[:STEP], order[STEP : 2 * STEP], order[2 * STEP :]
    found, head = dict[int, float](), torch.nn.Linear(1, 1)
    for count in RANDOM_SIZES if method == "random" else range(STEP, LAST + 1, STEP):
        if len(rest) < count - len(chosen):
            break
        if method == "random":
            chosen = order[STEP : STEP + count]
        elif count > STEP:
            with torch.inference_mode():
                probabilities = head(torch.from_numpy(pool[rest])).softmax(1).numpy()
            if method == "doubt":
                places = choose_doubtful(probabilities, pool[rest], STEP, 1000 * seed + count)
            else:
                places = np.argsort(-doubts(probabilities))[:STEP]
            chosen, rest = np.concatenate([chosen, rest[places]]), np.delete(rest, places)
        head = probe((pool[chosen], labels[chosen]), (pool[validation], labels[validation]), int(labels.max()) + 1)
        with torch.inference_mode():
            found[count] = float((head(torch.from_numpy(test)).argmax(1).numpy() == test_labels).mean())
    return found


def probe(train: tuple[Floats, Labels], validation: tuple[Floats, Labels], num_classes: int) -> torch.nn.Linear:
    """A linear head with the penalty of the lowest validation loss, as in `vit train --freeze backbone`."""
    of_train, of_validation = ((torch.from_numpy(x), torch.from_numpy(y)) for x, y in (train, validation))
    fit = HeadFit(
        of_train, of_validation, num_classes, SINGLE_LABEL.loss(train[1], LossOptions("bce", 0.0, None, None))
    )
    lowest, head = float("inf"), torch.nn.Linear(train[0].shape[1], num_classes)
    for penalty in PENALTIES[::3]:
        fit.fit(penalty)
        if (val_loss := fit.metrics()["val/loss"]) < lowest:
            lowest = val_loss
            fit.put_into(head)
    return head


def show(rows: list[dict[str, Any]]) -> None:
    """Accuracy beyond random, paired by seed, with 95 % t intervals; and how many random labels are as good."""
    curves = {(row["data"], row["method"], row["seed"]): row["accuracy"] for row in rows}
    seeds, names = sorted({row["seed"] for row in rows}), list(dict.fromkeys(row["data"] for row in rows))
    print(
        "| images | labels | random (%) | doubt - random (points) | p | margin - random (points) | p | random labels |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for data, count in product(names, map(str, range(2 * STEP, LAST + 1, STEP))):
        of = {
            method: np.array([curves[data, method, seed][count] for seed in seeds])
            for method in ("random", "doubt", "margin")
        }
        cells = []
        for method in ("doubt", "margin"):
            test = stats.ttest_1samp(100 * (of[method] - of["random"]), 0)
            low, high = test.confidence_interval()
            cells += [
                f"{100 * (of[method] - of['random']).mean():+.1f} ({low:+.1f} to {high:+.1f})",
                f"{test.pvalue:.3f}",
            ]
        sizes = curves[data, "random", seeds[0]]
        mean = {int(size): float(np.mean([curves[data, "random", seed][size] for seed in seeds])) for size in sizes}
        needed = labels_for(mean, float(of["doubt"].mean()))
        words = "more than there are" if needed is None else f"{needed:.0f}"
        print(f"| {data} | {count} | {100 * of['random'].mean():.1f} | {' | '.join(cells)} | {words} |")


def labels_for(curve: dict[int, float], accuracy: float) -> float | None:
    """The number of random labels with an accuracy, between the sizes of a curve that is made to rise; None: beyond."""
    counts = sorted(curve)
    rising = np.maximum.accumulate([curve[count] for count in counts])
    return float(np.interp(accuracy, rising, counts)) if accuracy <= rising[-1] else None


if __name__ == "__main__":
    main()
