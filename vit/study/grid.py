"""The grid of a study: networks, numbers of images, seeds and budgets become cells

A cell is one training. Its folder is named by the series, the number of images and the seed, and ends with a hash of
everything that decides its result. So a finished cell is never trained again, and a changed cell gets another folder.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vit.checkpoints.run import slug
from vit.console import count_of
from vit.errors import UsageError
from vit.layout import CELLS
from vit.study.findings import ListedCell
from vit.study.spec import with_cell_files
from vit.training.planning.schedule import AUTO, batch_multiple, choose_batch_size, equal_rounds, fine_tuning_steps
from vit.training.recipes.recipe import PLACES_OF_IMAGES, Recipe
from vit.training.recipes.values import plain, training_options

_BUDGET = re.compile(r"(steps|epochs):(\d+)")
_GROWING = re.compile(r"steps:(\d+)@(\d+)\^(\d*\.?\d+)")
_OWN = "recipe"  # budget of cells that train as long as their own recipes say


@dataclass(frozen=True)
class Budget:
    """Length of a cell's training: a number of steps, of epochs, the longer of both, or of neither: the recipe's."""

    steps: int | None  # number of optimizer steps; None: the epochs or the recipe decide
    epochs: int | None  # number of passes over the training images; None: the steps or the recipe decide
    at: int | None = None  # number of training images that get `steps`; None: all get as many
    growth: float = 0.0  # steps grow with this power of the number of images

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """ "steps:2000", "epochs:30", "steps:2000,epochs:30", "steps:100@140^0.5" or "recipe"; else UsageError."""
        if text == _OWN:
            return cls(None, None)
        if (growing := _GROWING.fullmatch(str(text))) and int(growing[1]) and int(growing[2]):
            return cls(int(growing[1]), None, int(growing[2]), float(growing[3]))
        parts = [_BUDGET.fullmatch(part.strip()) for part in str(text).split(",")]
        lengths = {part[1]: int(part[2]) for part in parts if part}
        if not all(parts) or len(lengths) != len(parts) or 0 in lengths.values():
            raise UsageError(
                f"--budget {text}",
                "give steps:2000, epochs:30, steps:2000,epochs:30 (the longer), steps:100@140^0.5 or recipe",
            )
        return cls(lengths.get("steps"), lengths.get("epochs"))

    def __str__(self) -> str:
        if self.at is not None:
            return f"steps:{self.steps}@{self.at}^{self.growth:g}"
        parts = [f"{name}:{value}" for name, value in (("steps", self.steps), ("epochs", self.epochs)) if value]
        return ",".join(parts) or _OWN

    def describe(self) -> str:
        epochs = count_of(self.epochs or 0, "epoch")
        if self.steps is None and self.epochs is None:
            return "the length of each network's own recipe"
        if self.steps is None:
            return f"{epochs} at every size (few steps at small sizes)"
        steps = count_of(math.prod(equal_rounds(self.steps)), "optimizer step")
        if self.at is not None:
            return f"about {steps} at {self.at:,} images, growing with images^{self.growth:g}"
        if self.epochs is None:
            return f"{steps} at every size"
        return f"{steps} or {epochs}, whichever is longer"

    def part(self, share: float) -> "Budget":
        """A part of this length, of at least one step and one epoch; the length of recipes stays."""
        steps, epochs = (None if one is None else max(1, round(one * share)) for one in (self.steps, self.epochs))
        return replace(self, steps=steps, epochs=epochs)

    def apply(self, recipe: Recipe, num_images: int) -> Recipe:
        """The recipe of a cell with this length and a batch of at most `num_images`."""
        optim = recipe.optim
        batch = choose_batch_size(recipe, num_images)
        if batch > num_images:
            multiple = batch_multiple(recipe)
            batch = max(multiple, num_images - num_images % multiple)
        optim = replace(optim, batch_size=batch)
        if self.epochs is not None and self.steps is not None:
            longer = max(self.steps, self.epochs * (num_images // batch))
            optim = replace(optim, steps=longer)
        elif self.steps is not None:
            times = 1.0 if self.at is None else (num_images / self.at) ** self.growth
            optim = replace(optim, steps=max(1, round(self.steps * times)))
        elif self.epochs is not None:
            optim = replace(optim, epochs=self.epochs, steps=None)
        return replace(recipe, optim=optim)


def of_cells(recipe: Recipe, where: str, fix: str) -> Recipe:
    """The recipe on one device, without a time beside its steps: the steps that a run has measured are its length.

    UsageError, with `fix`, where trial steps on a machine would decide the length or the batch of a cell.
    """
    optim = recipe.optim if recipe.optim.steps is None else replace(recipe.optim, time=None)
    for option, value in (("time", optim.time), ("batch_size", optim.batch_size)):
        if isinstance(value, str):
            problem = f"optim.{option} {value} in {where}, whose cells mean the same on every machine"
            raise UsageError(problem, fix if option == "time" else "give a number")
    return replace(recipe, optim=optim, trainer=replace(recipe.trainer, devices=1, num_nodes=1))


@dataclass(frozen=True)
class Cell(ListedCell):
    """One training of the grid."""

    recipe: Recipe
    is_fold: bool = False  # whether it is a fold of a cross-validation. Cells of a study may all have one fold, too.

    @property
    def images_shown(self) -> int:
        """Number of images that training shows to the network, with repetitions: a measure of the cell's work."""
        optim = self.recipe.optim
        if optim.steps is not None:
            return optim.steps * (optim.batch_size if isinstance(optim.batch_size, int) else self.num_images)
        if optim.epochs != AUTO:
            return optim.epochs * self.num_images
        batch_size = choose_batch_size(self.recipe, self.num_images)
        return fine_tuning_steps(self.num_images, batch_size) * batch_size

    def describe(self) -> str:
        return f"fold {self.recipe.data.fold}" if self.is_fold else super().describe()


def parse_sizes(sizes: Sequence[int | str], pool: int) -> list[int]:
    """Numbers of training images from counts, percentages ("10%") and "all", ascending; else UsageError."""
    counts: set[int] = set()
    for size in sizes:
        text = str(size).strip().replace("_", "")
        if text == "all":
            counts.add(pool)
        elif re.fullmatch(r"\d+", text) and int(text) > 0:
            if int(text) > pool:
                raise UsageError(f"--sizes {text}: there are {pool:,} training images", "give 'all' for all of them")
            counts.add(int(text))
        elif re.fullmatch(r"\d+(\.\d+)?%", text) and 0 < float(text[:-1]) <= 100:
            counts.add(max(1, round(pool * float(text[:-1]) / 100)))
        else:
            raise UsageError(f"--sizes {size}", "give counts, percentages or 'all': 100,300,10%,all")
    if not counts:
        raise UsageError("--sizes is empty", "give at least one size, such as all")
    return sorted(counts)


@dataclass(frozen=True)
class Inputs:
    """Hashes of the files that cells learn from. A replaced file has another hash, and a moved file has the same."""

    data: str  # name of the data, which may decide the augmentation
    image_hashes: Mapping[str, str]  # {split: hash} of the names, labels, content and groups of all images
    # {path: hash} of the weights that recipes start from, and of the teachers
    weight_hashes: Mapping[str, str] = field(default_factory=dict)


def key_of(recipe: Recipe, inputs: Inputs) -> str:
    """A hash of everything that decides a cell's result: recipe without names and paths, weights, and all images."""
    values = training_options(plain(recipe))
    values["trainer"]["compile"] = recipe.trainer.compile is True  # "auto" is, like precision, what a machine decides
    if recipe.optim.steps is not None:
        del values["optim"]["epochs"]  # steps decide the length, so that a recipe that lasts longer keeps its cells
    seldom = ("loss", "metric", "patience", "lr_batch_size")
    for part, name in (("augment", "own"), *(("optim", name) for name in seldom)):
        if values[part][name] is None:
            del values[part][name]  # few recipes name one
    for part, name in PLACES_OF_IMAGES:
        del values[part][name]
    if recipe.model.init_from is not None:
        values["model"]["init_from"] = inputs.weight_hashes[recipe.model.init_from]
    if recipe.distill.teacher is None:
        del values["distill"]
    else:
        values["distill"]["teacher"] = inputs.weight_hashes[recipe.distill.teacher]
        del values["distill"]["teacher_hash"]
    text = json.dumps([values, inputs.data, dict(inputs.image_hashes)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def make_cells(
    series: Mapping[str, Mapping[str, Recipe]],
    seeds: Mapping[int, Sequence[int]],
    budget: Budget,
    inputs: Inputs,
    folds: int = 0,
) -> list[Cell]:
    """Every cell of {name: {choice: recipe}}, small sizes first; one choice, named "", where nothing is tuned.

    With `folds`, each seed tests its own of so many; 0: all cells have the test images of their recipes.
    """
    cells = []
    for num_images in sorted(seeds):
        for seed in seeds[num_images]:
            for name, choices in series.items():
                for choice, recipe in choices.items():
                    fold = f"{seed % folds + 1}/{folds}" if folds else recipe.data.fold
                    data = replace(recipe.data, train_images=num_images, subset_seed=seed, fold=fold)
                    cell_recipe = with_cell_files(replace(recipe, data=data, seed=seed), num_images, seed)
                    whole = budget.apply(cell_recipe, num_images)
                    ending = f"-{slug(choice)}" if choice else ""
                    folder = f"{CELLS}/{slug(name)}/{num_images:07d}/seed{seed}{ending}-{key_of(whole, inputs)}"
                    cells.append(Cell(name, num_images, seed, choice, folder, whole))
    return cells


def shard(cells: Sequence[Cell], part: int, parts: int) -> list[Cell]:
    """The cells of one of several machines, numbered from 1. Cells among which tuning chooses stay together."""
    if any(cell.choice for cell in cells):
        groups = {group: number for number, group in enumerate(dict.fromkeys(cell.group for cell in cells))}
        return [cell for cell in cells if groups[cell.group] % parts == part - 1]
    return list(cells[part - 1 :: parts])
