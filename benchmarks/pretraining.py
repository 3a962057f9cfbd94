"""Does learning without labels pay at equal compute? From scratch, DIET and MAE on CIFAR-10; DIET on pretrained weights

    python benchmarks/pretraining.py run FOLDER --cifar10 CIFAR10 --clothing CLOTHING --weights FILE
    python benchmarks/pretraining.py table FOLDER

CIFAR10 and CLOTHING are folders with train/ and test/ of class folders, CLOTHING also with validation/. FILE holds
DeiT-Tiny's weights. A cell is one network. Its result is FOLDER/cells/NAME.json, so that a stopped study continues.

On CIFAR-10 each network is trained for 100 steps with labels. A pretrained network has learned before from the same
images, or from 47,500 images, for the FLOPs of 200 such steps. A network from scratch is trained with labels for 300
steps, and as "short" for 100. All phases have batches of 64 images and Muon with one learning rate. The last weights
count. Nothing is chosen by validation or test images.

On clothing photographs DIET goes on from DeiT-Tiny's weights. Linear probes and nearest
neighbors compare both networks.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from pretraining_parts import (
    Floats,
    batches,
    in_memory,
    neighbor_accuracy,
    numbered,
    objective_loss,
    outputs,
    packed,
    probe_errors,
    step_flops,
    supervised_loss,
    train,
)

from vit.atomic_files import atomic_write
from vit.data.augment import Augment, preset
from vit.data.preprocess import Preprocess
from vit.data.samples import Samples, Source
from vit.data.sources import open_source
from vit.data.subset import subset
from vit.extras.pretrain.diet import Diet
from vit.extras.pretrain.mae import Mae
from vit.extras.pretrain.objective import Objective, without_classes
from vit.models.network import Network
from vit.models.spec import NetworkSpec
from vit.training.recipes.recipe import OptimConfig
from vit.weights.open import open_pretrained

PRETRAINING, TRAINING = 200, 100  # steps with labels, or the FLOPs of as many
BATCH = 64
TEST_IMAGES = 5000
SEEDS = (0, 1, 2)
SIZES = (1000, 47_500, 5000)  # in the order of the work
FEW = 1000  # labels beside a pretraining on EVERY image
EVERY = 47_500  # of the 50,000 training images, as in the study of the ViT against the CNN
NETWORK = "vit_mini_patch4_28"
CIFAR10 = Preprocess(32, mean=(0.491, 0.482, 0.447), std=(0.247, 0.243, 0.262))
OPTIM = OptimConfig(optimizer="muon", lr=0.002, warmup=0.05)
LIGHT = preset("light", 32, mirrored=True)
AUGMENT = {"diet": replace(preset("standard", 32, mirrored=True), crop=0.25), "mae": LIGHT}
BANK, QUERIES = 1000, 1000  # images of nearest neighbors: labeled ones at most, and test images

PHOTOS, PHOTO_STEPS, PHOTO_BATCH = 1000, 100, 16  # of DIET on clothing photographs
PHOTO_OPTIM = OptimConfig(optimizer="adamw", lr=0.0001, warmup=0.05)
LABELED = (100, 500, 3068)  # photographs of the linear probes


@dataclass(frozen=True)
class Cell:
    """One network on CIFAR-10.

    Attributes:
        method: "scratch", "short", "diet" or "mae".
        num_labeled: number of images whose labels are used.
        num_unlabeled: number of images of the pretraining, which include these; 0: none.
    """

    method: str
    num_labeled: int
    num_unlabeled: int
    seed: int

    @property
    def name(self) -> str:
        """Name of the cell's file."""
        return f"cifar10-{self.num_labeled:05}-of-{self.num_unlabeled:05}-{self.method}-{self.seed}"


def cells() -> Iterator[Cell]:
    """All cells, one size after the other. Few labels beside many images follow their pretraining."""
    for size in SIZES:
        for seed in SEEDS:
            yield Cell("scratch", size, 0, seed)
            yield Cell("short", size, 0, seed)
            for method in AUGMENT:
                yield Cell(method, size, size, seed)
                if size == EVERY:
                    yield Cell(method, FEW, EVERY, seed)


class Study:
    """The cells of a folder.

    Args:
        folder: folder of all results.
        cifar10: folder of CIFAR-10.
    """

    def __init__(self, folder: Path, cifar10: Path) -> None:
        self.folder = folder
        source = open_source(str(cifar10))
        tested = source.splits["test"]
        self.pool = in_memory(source.splits["train"])
        self.test = in_memory(subset(tested, min(TEST_IMAGES, len(tested)), 0, "balanced"))
        self.spec = NetworkSpec.named(NETWORK, len(source.class_names))

    def network(self, seed: int) -> Network:
        """The network with the random weights of a seed."""
        torch.manual_seed(seed)
        return self.spec.build(CIFAR10.image_size)

    def images(self, count: int, seed: int) -> Samples:
        """A subset of the training images, equally many of each class; a smaller one lies inside a larger one."""
        return subset(self.pool, count, seed, "balanced")

    def run(self, cell: Cell) -> dict[str, object]:
        """Train the network of a cell, and measure it."""
        labeled = self.images(cell.num_labeled, cell.seed)
        network, before = self.network(cell.seed), {}
        if cell.num_unlabeled:
            before = self.pretrained(cell)
            fitted = network.load_state_dict(torch.load(self.weights_path(cell), weights_only=True), strict=False)
            if set(fitted.missing_keys) != {"head.weight", "head.bias"} or fitted.unexpected_keys:
                raise RuntimeError(f"the weights of {cell.name} do not fit: {fitted}")
        steps = TRAINING + PRETRAINING if cell.method == "scratch" else TRAINING
        began = time.process_time()
        drawn = batches(labeled, CIFAR10, LIGHT, BATCH, cell.seed)
        flops = steps * step_flops(supervised_loss(network), next(batches(labeled, CIFAR10, LIGHT, BATCH, cell.seed)))
        losses = train(network, supervised_loss(network), drawn, steps, OPTIM)
        seconds = time.process_time() - began
        wrong = outputs(network, self.test, CIFAR10).argmax(axis=1) != self.test.labels
        return {
            **vars(cell), "accuracy": 1 - float(wrong.mean()), "steps": steps, "flops": flops, "seconds": seconds,
            "loss": float(np.mean(losses[-10:])), "pretraining": before, "wrong": packed(wrong),
        }  # fmt: skip

    def weights_path(self, cell: Cell) -> Path:
        """The backbone that a pretraining left."""
        return self.folder / "weights" / f"{cell.method}-{cell.num_unlabeled:05}-{cell.seed}.pt"

    def pretrained(self, cell: Cell) -> dict[str, object]:
        """What the pretraining of a cell was, and how good its features are; trained where it is not finished."""
        path = self.weights_path(cell).with_suffix(".json")
        if not path.is_file():
            network = self.network(cell.seed)
            numbers = numbered(self.images(cell.num_unlabeled, cell.seed))
            torch.manual_seed(cell.seed + 1000)
            objective: Objective = (
                Mae(self.headless(network))
                if cell.method == "mae"
                else Diet(self.headless(network), len(numbers), is_pretrained=False)
            )
            flops_with_labels, flops = self.flops(objective, numbers, cell)
            steps = round(PRETRAINING * flops_with_labels / flops)
            began = time.process_time()
            drawn = batches(numbers, CIFAR10, AUGMENT[cell.method], BATCH, cell.seed + 1000)
            losses = train(objective, objective_loss(objective), drawn, steps, OPTIM)
            found = {
                "steps": steps, "flops": steps * flops, "seconds": time.process_time() - began,
                "loss_first": float(np.mean(losses[:10])), "loss": float(np.mean(losses[-10:])),
                "neighbors": self.neighbors(objective.network, cell),
                "neighbors_of_random_weights": self.neighbors(self.headless(self.network(cell.seed)), cell),
            }  # fmt: skip
            torch.save(objective.network.state_dict(), self.weights_path(cell))
            write(path, found)
        return dict(json.loads(path.read_text()))

    def flops(self, objective: Objective, numbers: Samples, cell: Cell) -> tuple[int, int]:
        """FLOPs of a step with labels, and of one of an objective."""
        network = self.network(cell.seed)
        labeled = next(batches(self.images(FEW, cell.seed), CIFAR10, LIGHT, BATCH, 0))
        batch = next(batches(numbers, CIFAR10, AUGMENT[cell.method], BATCH, 0))
        return step_flops(supervised_loss(network), labeled), step_flops(objective_loss(objective), batch)

    def headless(self, network: Network) -> Network:
        """The network without its layer for classes."""
        return without_classes(network, NETWORK)

    def neighbors(self, network: Network, cell: Cell) -> float:
        """Accuracy of nearest neighbors in the features of a network without classes."""
        bank = self.images(min(cell.num_unlabeled, BANK), cell.seed)
        queries = self.test.select(np.random.default_rng(0).permutation(len(self.test))[:QUERIES])
        known, asked = (outputs(network, samples, CIFAR10) for samples in (bank, queries))
        return neighbor_accuracy(known, bank.labels, asked, queries.labels)


class Photographs:
    """DIET from DeiT-Tiny's weights on clothing photographs, and the same weights without it."""

    def __init__(self, clothing: Path, weights: Path) -> None:
        self.source: Source = open_source(str(clothing))
        filled = open_pretrained(str(weights)).build(len(self.source.class_names))
        self.name, self.preprocess, self.state = filled.spec.name, filled.preprocess, filled.network.state_dict()
        self.build: Callable[[], Network] = lambda: filled.spec.build(filled.preprocess.image_size)

    def network(self) -> Network:
        """DeiT-Tiny without its layer for classes."""
        network = self.build()
        network.load_state_dict(self.state)
        return without_classes(network, self.name)

    def run(self, seed: int | None) -> dict[str, object]:
        """Probes and neighbors of the weights after DIET with a seed; None: of the weights as they are."""
        network, found = self.network(), {}
        if seed is not None:
            chosen = numbered(subset(self.source.splits["train"], PHOTOS, seed, "natural"))
            torch.manual_seed(seed)
            objective = Diet(network, len(chosen), is_pretrained=True)
            augment: Augment = preset("standard", self.preprocess.image_size, mirrored=True)
            began = time.process_time()
            drawn = batches(chosen, self.preprocess, augment, PHOTO_BATCH, seed)
            losses = train(objective, objective_loss(objective), drawn, PHOTO_STEPS, PHOTO_OPTIM)
            found = {"seconds": time.process_time() - began, "loss_first": losses[0], "loss": losses[-1]}
        splits = {split: self.source.splits[split] for split in ("train", "validation", "test")}
        features = {split: outputs(network, samples, self.preprocess) for split, samples in splits.items()}
        return {"method": "DeiT-Tiny" if seed is None else "DIET", **found, **self.measured(features)}

    def measured(self, features: Mapping[str, Floats]) -> dict[str, object]:
        """Wrong test images of linear probes, and accuracies of nearest neighbors, by number of labels and seed."""
        splits = self.source.splits
        held_out = [(features[split], splits[split].labels) for split in ("validation", "test")]
        train_place = {path: place for place, path in enumerate(splits["train"].paths)}
        probes, neighbors = {}, {}
        for count in LABELED:
            for seed in SEEDS:
                chosen = subset(splits["train"], min(count, len(train_place)), seed, "natural")
                known = features["train"][[train_place[path] for path in chosen.paths]]
                probes[f"{count} {seed}"] = packed(probe_errors(known, chosen.labels, held_out[0], held_out[1]))
                neighbors[f"{count} {seed}"] = neighbor_accuracy(known, chosen.labels, *held_out[1])
        return {"probes": probes, "neighbors": neighbors}


def write(path: Path, values: Mapping[str, object]) -> None:
    """Write a JSON file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(values))


def run(folder: Path, cifar10: Path, clothing: Path, weights: Path, only: str) -> None:
    """Train every cell that has no result, and whose name contains `only`."""
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    study, photographs = Study(folder, cifar10), Photographs(clothing, weights)
    work: list[tuple[str, Callable[[], dict[str, object]]]] = [
        (cell.name, partial(study.run, cell)) for cell in cells()
    ]
    place = sum(cell.num_labeled != 5000 for cell in cells())
    work[place:place] = [(f"clothing-{seed}", partial(photographs.run, seed)) for seed in (None, *SEEDS)]
    for name, compute in work:
        path = folder / "cells" / f"{name}.json"
        if only in name and not path.is_file():
            began = time.monotonic()
            found = compute()
            write(path, found)
            print(f"{name}: {found.get('accuracy', '')} in {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running, table = (commands.add_parser(name) for name in ("run", "table"))
    for one in (running, table):
        one.add_argument("folder", type=Path)
    for name in ("cifar10", "clothing", "weights"):
        running.add_argument(f"--{name}", type=Path, required=True)
    running.add_argument("--only", default="", help="part of the names of the cells to train")
    given = parser.parse_args()
    if given.command == "run":
        torch.set_num_threads(1)
        run(given.folder, given.cifar10, given.clothing, given.weights, given.only)
    else:
        from pretraining_table import show

        show(given.folder)


if __name__ == "__main__":
    main()
