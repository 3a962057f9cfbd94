"""Do thresholds, prediction sets and accuracies keep their promises for new groups? Simulated, without a network.

    python benchmarks/group_promises.py [--fits 400]

A group has 1 to 2 s - 1 images, which are alike in their confidence and in whether the prediction is right. Or 5 % of
the groups have 20 s images, and the others 2. Images of confidence c are right with probability c^2, so the accuracy
above a threshold is known. For the sets, a group has one class, and its images are about equally difficult. Every row
is fitted twice: with images taken for independent, and with groups.
"""

import argparse
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from vit.checkpoints.validation_scores import ValidationScores
from vit.data.core.samples import Labels
from vit.inference.answers.answers import SET_METHODS, PredictionSets, SetMethod
from vit.inference.answers.selective import threshold_for
from vit.inference.scores.image_groups import numbered
from vit.inference.scores.intervals import Metric

NUM_CLASSES = 4
COVERAGE = 0.9
NEW_GROUPS = 60
WORLDS = ((200, 5, 0.65, False), (40, 30, 0.8, False), (200, 10, 0.9, False), (200, 5, 0.65, True))

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Groups of validation images, and the accuracy that is asked for.

    Attributes:
        size: mean number of images of a group, s.
        alike: correlation of the images of a group, of their confidences and of their answers.
        uneven: whether 5 % of the groups have 20 s images, and the others 2.
    """

    num_groups: int
    size: int
    alike: float
    target: float
    uneven: bool = False

    def groups(self, random: np.random.Generator) -> Labels:
        """(n,) the group of each image."""
        return groups_of(self.num_groups, self.size, self.uneven, random)

    def uniform(self, groups: Labels, random: np.random.Generator) -> Floats:
        """(n,) numbers from 0 to 1, correlated within a group."""
        shared, own = random.normal(size=self.num_groups)[groups], random.normal(size=len(groups))
        return np.asarray(ndtr(self.alike**0.5 * shared + (1 - self.alike) ** 0.5 * own))

    def row(self, fits: int) -> str:
        """How often the accuracy above the threshold is lower than promised, and how many images are kept."""
        random, broken, kept = np.random.default_rng(0), np.zeros(2), np.zeros(2)
        for _ in range(fits):
            groups = self.groups(random)
            highest = 0.3 + 0.7 * self.uniform(groups, random)
            correct = self.uniform(groups, random) < highest**2
            for place, given in enumerate((None, groups)):
                found = threshold_for(self.target, highest, correct, given)
                if found < np.inf:
                    broken[place] += (1 - found**3) / (3 * (1 - found)) < self.target
                    kept[place] += (highest >= found).mean()
        shares = [f"{100 * one / fits:.1f}" for one in (*broken, *kept)]
        start = f"{self.num_groups} | {sizes_words(self.size, self.uneven)} | {self.alike:g} | {100 * self.target:g}"
        return f"| {start} | {' | '.join(shares)} |"


def groups_of(num_groups: int, size: int, uneven: bool, random: np.random.Generator) -> Labels:
    """(n,) the group of each image."""
    sizes = random.integers(1, 2 * size, num_groups)
    if uneven:
        sizes = np.where(random.random(num_groups) < 0.05, 20 * size, 2)
    return np.repeat(np.arange(num_groups), sizes)


def sizes_words(size: int, uneven: bool) -> str:
    """How many images a group has."""
    return f"2, or {20 * size}" if uneven else f"1 to {2 * size - 1}"


def accuracy_row(num_groups: int, uneven: bool, alike: float, accuracy: float, fits: int) -> str:
    """How many percent of the 95 % intervals contain the accuracy, and how wide they are.

    Args:
        alike: correlation of the answers of a group.
    """
    random, covered, width = np.random.default_rng(0), np.zeros(2), np.zeros(2)
    scale = (1 - alike) / alike
    for _ in range(fits):
        groups = groups_of(num_groups, 5, uneven, random)
        chances = random.beta(accuracy * scale, (1 - accuracy) * scale, num_groups)
        correct = random.random(len(groups)) < chances[groups]
        for place, given in enumerate((None, numbered([str(group) for group in groups]))):
            found = Metric.share(correct, given)
            covered[place] += found.low <= accuracy <= found.high
            width[place] += found.high - found.low
    shares = [f"{100 * one / fits:.1f}" for one in (*covered, *width)]
    return f"| {num_groups} | {sizes_words(5, uneven)} | {alike:g} | {100 * accuracy:g} | {' | '.join(shares)} |"


def grouped_scores(num_groups: int, random: np.random.Generator) -> tuple[Labels, npt.NDArray[np.float32], Labels]:
    """(labels (n,), probabilities (n, 4), groups (n,)) of groups of 1 to 23 images."""
    groups = np.repeat(np.arange(num_groups), random.integers(1, 24, num_groups))
    labels = random.integers(0, NUM_CLASSES, num_groups)[groups]
    logits = 0.3 * random.normal(size=(len(groups), NUM_CLASSES))
    logits[np.arange(len(groups)), labels] += 3 * random.normal(size=num_groups)[groups]
    exponentials = np.exp(logits)
    return labels, (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(np.float32), groups


def sets_row(method: SetMethod, num_groups: int, fits: int) -> str:
    """The coverage of the sets for images of new groups, with its standard error."""
    random = np.random.default_rng(0)
    found: list[list[float]] = [[], []]
    for _ in range(fits):
        labels, probabilities, groups = grouped_scores(num_groups, random)
        new_labels, new, _ = grouped_scores(NEW_GROUPS, random)
        for covered, given in zip(found, (None, groups), strict=True):
            scores = ValidationScores.of(labels, probabilities, given)
            members = PredictionSets.fit(scores, method, COVERAGE, NUM_CLASSES).members(new, random.random(len(new)))
            covered.append(float(members[np.arange(len(new)), new_labels].mean()))
    words = [f"{100 * np.mean(one):.1f} ± {100 * np.std(one) / fits**0.5:.1f}" for one in found]
    return f"| {method} | {num_groups} | {' | '.join(words)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=400)
    fits = parser.parse_args().fits
    columns = "groups | images of one | correlation | promised (%)"
    print(f"| {columns} | broken, images | broken, groups | kept, images | kept, groups |\n|{'---|' * 8}")
    for num_groups, size, target, uneven in WORLDS:
        for alike in (0.0, 0.5, 0.9):
            print(World(num_groups, size, alike, target, uneven).row(fits), flush=True)
    print(f"\n| sets | groups | coverage, images | coverage, groups |\n|{'---|' * 4}")
    for method in SET_METHODS:
        for num_groups in (12, 48, 200):
            print(sets_row(method, num_groups, fits), flush=True)
    columns = "groups | images of one | correlation | accuracy (%)"
    print(f"\n| {columns} | covered, images | covered, groups | width, images | width, groups |\n|{'---|' * 8}")
    for accuracy, num_groups, uneven in product((0.9, 0.97), (40, 200), (False, True)):
        for alike in (0.1, 0.5, 0.9):
            print(accuracy_row(num_groups, uneven, alike, accuracy, fits), flush=True)


if __name__ == "__main__":
    main()
