"""Runs that differ only in their seed: one recipe, trained several times on the same images"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vit.study.findings import Difference, Interval, JsonValue
from vit.study.learned_images import LearnedImages
from vit.study.paired import difference, hochberg, pairs
from vit.study.variance_components import Floats, mean_error
from vit.training.recipes.values import training_options


@dataclass(frozen=True)
class Run:
    """A finished run on the test images that all runs share.

    Attributes:
        config: recipe as plain values.
        wrong: (T,) whether the prediction for each test image is wrong, as `image_groups.gathered` returns it.
        learned: images that the run has learned from; None: not known, or those of all runs.
    """

    name: str
    network: str
    seed: int | None
    config: Mapping[str, JsonValue]
    wrong: Floats
    learned: LearnedImages | None = None

    @property
    def draw(self) -> JsonValue:
        """The seed that has drawn the training images from all of them; None where the run uses all."""
        data = self.config.get("data")
        if not isinstance(data, dict) or not data.get("train_images"):
            return None
        return self.seed if data.get("subset_seed") is None else data["subset_seed"]

    def learned_like(self, other: "Run") -> bool:
        """Whether both have learned from the same images, as far as that is known; a seed may draw its own subset."""
        if self.learned is None or other.learned is None or self.learned is other.learned:
            return True
        return self.learned.is_same(other.learned, self.draw == other.draw)


@dataclass(frozen=True)
class Repeated:
    """The runs of one recipe, by seed.

    Attributes:
        name: name of the network, or of the first run where two recipes share a network.
        wrong: {seed: (T,) whether the prediction for each test image is wrong, as `image_groups.gathered` returns it}.
        num_units: number of equally large groups of the test images; None: all are independent.
    """

    name: str
    wrong: dict[int, Floats]
    num_units: float | None = None

    @property
    def error(self) -> Interval:
        """Mean error of the seeds. Its interval covers other seeds and other test images."""
        return mean_error(np.stack(list(self.wrong.values())), self.num_units)


def repeated(runs: Sequence[Run], num_units: float | None = None) -> list[Repeated]:
    """The recipes in the order of their first run, empty where no recipe has two seeds, or one has a seed twice."""
    groups = _grouped(runs)
    firsts = [group[0] for group in groups]
    plain = len({run.network for run in firsts}) == len(firsts)
    found = [
        Repeated(first.network if plain else first.name, {run.seed or 0: run.wrong for run in group}, num_units)
        for first, group in zip(firsts, groups, strict=True)
    ]
    several = any(len(one.wrong) > 1 for one in found)
    return found if several and sum(len(one.wrong) for one in found) == len(runs) else []


def _grouped(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of each recipe that have learned from the same images."""
    groups: list[tuple[str, list[Run]]] = []
    for run in runs:
        recipe = _recipe(run)
        for known, group in groups:
            if known == recipe and all(run.learned_like(one) for one in group):
                group.append(run)
                break
        else:
            groups.append((recipe, [run]))
    return [group for _, group in groups]


def differences(groups: Sequence[Repeated]) -> list[tuple[str, Difference | None]]:
    """The first recipe against each other one on their common seeds, corrected together; None without common seeds."""
    first, *others = groups
    shared = [pairs({0: first.wrong}, {0: other.wrong}, first.num_units) for other in others]
    found = [difference(pair[0]) if pair else None for pair in shared]
    adjusted = hochberg([one.tested_p if one else None for one in found])
    return [
        (other.name, replace(one, p_adjusted=p) if one else None)
        for other, one, p in zip(others, found, adjusted, strict=True)
    ]


def _recipe(run: Run) -> str:
    """A text that is equal for runs that differ only in their seed; the name of a run without a recipe."""
    if not run.config or run.seed is None:
        return run.name
    values = training_options(run.config)
    values.pop("seed", None)
    if isinstance(values.get("data"), dict):
        values["data"].pop("subset_seed", None)
    return json.dumps(values, sort_keys=True, default=str)
