"""Queries, keys and values that start as in the authors' code, beside the start of MAE's code, which is ours.

Xavier's rule gives one matrix of all three (3D, D), as in MAE, the authors' standard deviation divided by sqrt(2). Each
seed is trained from both: the same images, and the same initial weights but for that factor.

    python benchmarks/query_start.py train FOLDER --fashion_mnist ROOT
    python benchmarks/query_start.py table FOLDER

`train` keeps the result of each training in FOLDER and leaves out what is there. The intervals are those of Student's t
over the seeds' differences.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import t as student

from vit.__main__ import main as main_of_vit
from vit.checkpoints.result import RunResult
from vit.models.vision_transformer import VisionTransformer

FACTORS = {"MAE": 1.0, "authors": 2**0.5}
OPTIMIZERS = {"muon": (), "adamw": ("--optim.optimizer", "adamw", "--optim.lr", "0.001")}


@dataclass(frozen=True)
class Training:
    """A training from one of the two starts.

    Attributes:
        setting: data set and optimizer.
        start: key of FACTORS.
        options: options of `vit train` but for the seed.
    """

    setting: str
    start: str
    seed: int
    options: tuple[str, ...]

    def path(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / self.setting / self.start / f"{self.seed}.json"


def trainings(root: str) -> Iterator[Training]:
    """All trainings, the two starts of a seed one after the other."""
    for optimizer, words in OPTIMIZERS.items():
        data: dict[str, tuple[tuple[str, ...], int]] = {"digits": (("digits", "--optim.steps", "300"), 10)}
        if root:
            images = ("--data.root", root, "--data.train_images", "10000", "--optim.steps", "400")
            data["fashion_mnist"] = (("fashion_mnist", *images), 5)
        for name, (options, seeds) in data.items():
            for seed in range(seeds):
                for start in FACTORS:
                    yield Training(f"{name}, {optimizer}", start, seed, (*options, *words))


def train(training: Training, path: Path) -> None:
    """Train, and keep the result at `path`."""
    initialize, factor = VisionTransformer.initialize, FACTORS[training.start]

    def scaled(self: VisionTransformer) -> None:
        initialize(self)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if name.endswith("qkv.weight"):
                    weight.mul_(factor)

    VisionTransformer.initialize = scaled  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as out:
            words = [*training.options, "--seed", str(training.seed), "--out", out, "--wandb", "off"]
            if main_of_vit(["train", *words]):
                raise SystemExit(f"the training for {path} did not end well")
            (result,) = Path(out).glob("**/result.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(result, path)
    finally:
        VisionTransformer.initialize = initialize  # type: ignore[method-assign]


def numbers(path: Path) -> tuple[float, float]:
    """Test accuracy in percent, and mean negative log-probability of the label in nats."""
    metrics = RunResult.read(path).metrics
    return 100 * metrics["acc1"]["value"], metrics["nll"]["value"]


def table(folder: Path) -> None:
    """Print both starts and their paired difference for each setting."""
    print("| setting | seeds | MAE's start | authors' start | accuracy, authors' minus MAE's | loss, same |")
    print("|---|---|---|---|---|---|")
    for setting in sorted(folder.iterdir()):
        seeds = [
            path.name for path in sorted((setting / "authors").iterdir()) if (setting / "MAE" / path.name).is_file()
        ]
        found = np.array([[numbers(setting / start / seed) for start in FACTORS] for seed in seeds])  # (seeds, 2, 2)
        means = found.mean(axis=0)
        gap: npt.NDArray[np.float64] = found[:, 1] - found[:, 0]  # (seeds, 2)
        half = student.ppf(0.975, len(gap) - 1) * gap.std(axis=0, ddof=1) / len(gap) ** 0.5
        print(
            f"| {setting.name} | {len(seeds)} | {means[0, 0]:.2f} % | {means[1, 0]:.2f} % "
            f"| {gap[:, 0].mean():+.2f} ± {half[0]:.2f} points | {gap[:, 1].mean():+.4f} ± {half[1]:.4f} nats |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("train", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fashion_mnist", default="", metavar="ROOT", help="folder of torchvision's FashionMNIST")
    arguments = parser.parse_args()
    if arguments.action == "table":
        table(arguments.folder)
        return
    for training in trainings(arguments.fashion_mnist):
        path = training.path(arguments.folder)
        if not path.is_file():
            train(training, path)


if __name__ == "__main__":
    main()
