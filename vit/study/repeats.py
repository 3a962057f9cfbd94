"""Runs that differ only in their seed: one recipe, trained several times"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vit.study.findings import Difference, Interval, JsonValue
from vit.study.paired import difference, hochberg, pairs
from vit.study.variance_components import Floats, mean_error
from vit.training.recipes.recipe import UNDECIDING

_UNDECIDING = UNDECIDING | {"seed"}  # values of a recipe that do not change the experiment


@dataclass(frozen=True)
class Run:
    """A finished run on the test images that all runs share.

    Attributes:
        config: recipe as plain values.
        wrong: (T,) whether the prediction for each test image is wrong, as `image_groups.gathered` returns it.
    """

    name: str
    network: str
    seed: int | None
    config: Mapping[str, JsonValue]
    wrong: Floats


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
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_recipe(run), []).append(run)
    firsts = [group[0] for group in groups.values()]
    plain = len({run.network for run in firsts}) == len(firsts)
    found = [
        Repeated(first.network if plain else first.name, {run.seed or 0: run.wrong for run in group}, num_units)
        for first, group in zip(firsts, groups.values(), strict=True)
    ]
    several = any(len(one.wrong) > 1 for one in found)
    return found if several and sum(len(one.wrong) for one in found) == len(runs) else []


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
    values = {name: value for name, value in run.config.items() if name not in _UNDECIDING}
    data = values.get("data")
    if isinstance(data, dict):
        values["data"] = {name: value for name, value in data.items() if name != "subset_seed"}
    return json.dumps(values, sort_keys=True, default=str)
