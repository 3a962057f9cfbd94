"""Which round's weights should become best.ckpt? Rules for the choice, on trainings of few and of many images.

A training scores a pool of other images after every round. The pool is then split many times into n validation images
and the rest, which plays new images. Each rule chooses a round by the n images alone:

    loss          the lowest validation loss (`optim.best_metric loss`)
    accuracy      the highest validation accuracy, the earliest of equal ones (`optim.best_metric acc1`)
    scaled loss   the lowest validation loss, each round at the temperature that fits its validation images best
    last          the last round, whatever the images say

    python benchmarks/checkpoint_choice.py train FOLDER --data digits= cifar10=IMAGES fashion_mnist=ROOT
    python benchmarks/checkpoint_choice.py train FOLDER --data photos=IMAGES --weights FILE
    python benchmarks/checkpoint_choice.py table FOLDER

`train` keeps the scores of each training in FOLDER and leaves out what is there. Every rule's probabilities get a
temperature that is fitted to the same n images, as in `vit train`. Intervals are those of Student's t over trainings,
because splits of one pool are not independent.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_softmax
from scipy.stats import t as student
from torch import Tensor

from vit.__main__ import main as main_of_vit
from vit.data.batch import Batch
from vit.inference.calibration import fit_temperature
from vit.inference.scored_images import ScoredImages
from vit.training.loop import Classifier

RULES = ("loss", "accuracy", "scaled loss", "last")
POOL = 4000  # most images of a pool
VALIDATION = (20, 100, 500, 2000)  # numbers of validation images
SPLITS = 60
OTHER_RECIPES = {  # and the values that today's recipes have changed
    "fashion_mnist": ("--config", "networks/vit_mini_28"),
    "fashion_mnist_cnn": ("--optim.lr", "0.1"),
}

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Training:
    """A training whose rounds are scored.

    Attributes:
        data: name of the data set.
        network: name of its recipe, or of a network.
        num_images: number of training images.
        options: further options of `vit train`.
    """

    data: str
    network: str
    num_images: int
    seed: int
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.data}-{self.network}-{self.num_images}-{self.seed}"


def trainings(name: str, place: str, weights: str) -> Iterator[Training]:
    """The trainings of a data set, small before large."""
    seeds, steps = (0, 1), ("--optim.steps", "300")
    if name == "photos":
        for seed in seeds:
            yield Training(name, "pretrained", 300, seed, (place, "--init_from", weights))
        return
    for num_images in (100, 1000):
        for recipe in ("digits", "digits_cnn") if name == "digits" else OTHER_RECIPES:
            for seed in seeds:
                if name == "digits":
                    options = ("digits", "--config", recipe, "--data.validation", "0.3", "--data.test", "0.1")
                elif name == "fashion_mnist":
                    options = ("fashion_mnist", "--config", recipe, "--data.root", place, "--data.validation", "0.0667")
                else:
                    options = (place, "--config", recipe, "--data.validation", "0.08", "--image_size", "32")
                yield Training(name, recipe, num_images, seed, (*options, *OTHER_RECIPES.get(recipe, ()), *steps))


def scored_rounds(training: Training) -> tuple[Labels, Floats]:
    """Train. Returns labels (n,) and logits (rounds, n, C) of the pool."""
    rounds: list[Tensor] = []
    labels: list[Tensor] = []
    parts: list[Tensor] = []
    update, end = Classifier.validation_step, Classifier.on_validation_epoch_end

    def step(self: Classifier, batch: Batch, batch_idx: int) -> None:
        parts.append(self.network(batch.image).float()[batch.valid].cpu())
        if not rounds:
            labels.append(batch.label[batch.valid].cpu())
        update(self, batch, batch_idx)

    def epoch_end(self: Classifier) -> None:
        rounds.append(torch.cat(parts))
        parts.clear()
        end(self)

    Classifier.validation_step, Classifier.on_validation_epoch_end = step, epoch_end  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as out:
            words = [*training.options, "--data.train_images", str(training.num_images), "--seed", str(training.seed)]
            words += ["--batch_size", "100"] * (training.num_images == 100)  # as in a study
            if main_of_vit(["train", *words, "--out", out, "--wandb", "off"]):
                raise SystemExit(f"{training.name} did not end well")
    finally:
        Classifier.validation_step, Classifier.on_validation_epoch_end = update, end  # type: ignore[method-assign]
    return torch.cat(labels).numpy(), torch.stack(rounds).numpy()


def chosen_round(rule: str, labels: Labels, logits: Floats) -> int:
    """The round that a rule chooses by the labels (n,) and the logits (rounds, n, C) of validation images."""
    if rule == "last":
        return len(logits) - 1
    if rule == "accuracy":
        return int(np.argmax([(one.argmax(axis=1) == labels).mean() for one in logits]))
    temperatures = [fitted(labels, one) if rule == "scaled loss" else 1.0 for one in logits]
    return int(np.argmin([loss(labels, one / t) for one, t in zip(logits, temperatures, strict=True)]))


def loss(labels: Labels, logits: Floats) -> float:
    """Mean negative log-probability of the labels, in nats."""
    return -float(log_softmax(logits.astype(np.float64), axis=1)[np.arange(len(labels)), labels].mean())


def fitted(labels: Labels, logits: Floats) -> float:
    """The temperature that `vit train` would fit to these images."""
    probabilities = np.exp(log_softmax(logits.astype(np.float64), axis=1)).astype(np.float32)
    return fit_temperature(ScoredImages(tuple(map(str, labels)), labels, probabilities)).value


def values(labels: Labels, logits: Floats, count: int, seed: int) -> npt.NDArray[np.float64]:
    """(rules, 3) accuracy and loss of new images, and the chosen round, as means over splits of the pool."""
    found = np.zeros((SPLITS, len(RULES), 3))
    for split in range(SPLITS):
        order = np.random.default_rng([seed, split]).permutation(len(labels))
        own, new = order[:count], order[count:]
        for place, rule in enumerate(RULES):
            number = chosen_round(rule, labels[own], logits[:, own])
            temperature = fitted(labels[own], logits[number][own])
            right = (logits[number][new].argmax(axis=1) == labels[new]).mean()
            found[split, place] = right, loss(labels[new], logits[number][new] / temperature), number + 1
    return np.asarray(found.mean(axis=0))


def train(options: argparse.Namespace) -> None:
    """Train what is missing."""
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, place in (words.partition("=") for words in options.data):
        for training in trainings(name, place, options.weights):
            path = folder / f"{training.name}.npz"
            if not path.is_file():
                labels, logits = scored_rounds(training)
                np.savez(path, labels=labels[:POOL], logits=logits[:, :POOL].astype(np.float32))


def table(options: argparse.Namespace) -> None:
    """Print accuracy and loss of every rule, beside those of `loss`."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(Path(options.folder).glob("*.npz")):
        groups.setdefault(path.stem.rpartition("-")[0], []).append(path)
    for count in VALIDATION:
        differences: dict[str, list[npt.NDArray[np.float64]]] = {}
        print(f"\n{count:,} validation images: accuracy (%) / loss of new images / round\n")
        print(f"| training | {' | '.join(RULES)} |\n|{'---|' * (1 + len(RULES))}")
        for group, paths in groups.items():
            found = []
            for seed, path in enumerate(paths):
                with np.load(path) as content:
                    if 2 * count <= len(content["labels"]):
                        found.append(values(content["labels"], content["logits"], count, seed))
            if found:
                cells = [f"{100 * a:.2f} / {nll:.3f} / {number:.1f}" for a, nll, number in np.mean(found, axis=0)]
                print(f"| {group} ({len(found)}) | {' | '.join(cells)} |", flush=True)
                for place, rule in enumerate(RULES):
                    differences.setdefault(rule, []).extend(one[place, :2] - one[0, :2] for one in found)
        for rule in RULES[1:]:
            rows = np.stack(differences[rule])
            half = student.ppf(0.975, len(rows) - 1) * rows.std(axis=0, ddof=1) / len(rows) ** 0.5
            mean = rows.mean(axis=0)
            print(
                f"- {rule} minus loss, {len(rows)} trainings: {100 * mean[0]:+.2f} ± {100 * half[0]:.2f} points of "
                f"accuracy, {mean[1]:+.4f} ± {half[1]:.4f} nats"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "table"])
    parser.add_argument("folder", help="folder of the scores")
    parser.add_argument(
        "--data", nargs="*", default=["digits="], help="NAME=PLACE of digits, cifar10, fashion_mnist, photos"
    )
    parser.add_argument("--weights", default="auto", help="pretrained weights for photos")
    options = parser.parse_args()
    (train if options.what == "train" else table)(options)


if __name__ == "__main__":
    main()
