"""Do intervals of means over classes contain the truth where classes have few images? Simulated, without a network.

    python benchmarks/class_means.py [--draws 300]

30 classes have 20 images and a recall of about 95 %, and 30 rare classes have one to five images and a recall of about
30 %. Percentiles of a bootstrap, as vit had them before, stand beside those of `vit.inference.scores.intervals`. For
mAP, 10 labels have 60 images of 400, and 10 rare labels one to five. Of classes whose images fall as 1 / rank, the test
images are drawn at random, with recalls of 60 to 95 %.
"""

import argparse

import numpy as np
import numpy.typing as npt

from vit.data.core.samples import Labels
from vit.inference.metrics.multilabel_metrics import multilabel_metrics
from vit.inference.scores.intervals import Metric, balanced_accuracy, macro_f1
from vit.inference.scores.scored_images import ScoredLabels

COMMON, MANY = 30, 20  # classes, and images of each
LABELS, IMAGES, OFTEN = 10, 400, 60
RESAMPLES = 200

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float, float]


class Classes:
    """A world of 60 classes, of which 30 are rare, with its true means."""

    def __init__(self, rare: int, random: np.random.Generator) -> None:
        self.random = random
        self.counts = np.repeat([MANY, rare], COMMON)
        recall = np.concatenate([random.beta(19, 1, COMMON), random.beta(1.5, 3.5, COMMON)])
        weights = random.dirichlet(np.repeat([1.0, 0.2], COMMON), len(recall))
        np.fill_diagonal(weights, 0)
        self.chances = weights / weights.sum(axis=1, keepdims=True) * (1 - recall)[:, None] + np.diag(recall)
        called = self.counts @ self.chances
        self.truth = float(recall.mean()), float((2 * self.counts * recall / (self.counts + called)).mean())

    def draw(self) -> tuple[Labels, Labels]:
        """(labels, predictions) of test images."""
        labels = np.repeat(np.arange(len(self.counts)), self.counts)
        steps = self.chances.cumsum(axis=1)[labels]
        predictions = (steps < self.random.random((len(labels), 1))).sum(axis=1)
        return labels, np.minimum(predictions, len(self.counts) - 1)


def percentiles(labels: Labels, predictions: Labels, random: np.random.Generator) -> list[Interval]:
    """Balanced accuracy and macro F1 with the percentiles of a bootstrap, each over the classes of its sample."""
    count, classes = len(labels), 2 * COMMON

    def values(times: Floats) -> tuple[float, float]:
        seen, called = (np.bincount(numbers, times, classes) for numbers in (labels, predictions))
        hit = np.bincount(labels, times * (labels == predictions), classes)
        either = seen + called
        return float((hit[seen > 0] / seen[seen > 0]).mean()), float((2 * hit[either > 0] / either[either > 0]).mean())

    def drawn() -> Floats:
        return np.bincount(random.integers(0, count, count), minlength=count).astype(np.float64)

    samples = np.array([values(drawn()) for _ in range(RESAMPLES)])
    low, high = np.percentile(samples, (2.5, 97.5), axis=0)
    return [(value, *ends) for value, ends in zip(values(np.ones(count)), zip(low, high, strict=True), strict=True)]


def class_rows(rare: int, draws: int) -> list[str]:
    """Two rows of the table: balanced accuracy and macro F1."""
    random, found = np.random.default_rng(rare), np.zeros((2, 2, 2))
    for _ in range(draws):
        world = Classes(rare, random)
        labels, predictions = world.draw()
        ours = [
            balanced_accuracy(labels, labels == predictions, 2 * COMMON),
            macro_f1(labels, predictions, 2 * COMMON),
        ]
        before = percentiles(labels, predictions, random)
        for metric, truth in enumerate(world.truth):
            for place, interval in enumerate((before[metric], _ends(ours[metric]))):
                found[metric, place] += _judged(interval, truth)
    return [_row(name, rare, found[metric], draws) for metric, name in enumerate(("balanced accuracy", "macro F1"))]


def zipf_row(classes: int, images: int, draws: int) -> str:
    """The row of macro F1 where a class has as many images as chance gives it."""
    random, covered, held = np.random.default_rng(classes), 0, 0
    shares = 1 / np.arange(1, classes + 1)
    shares /= shares.sum()
    for _ in range(draws):
        recall = random.uniform(0.6, 0.95, classes)
        chances = np.tile(shares, (classes, 1))
        np.fill_diagonal(chances, 0)
        chances *= ((1 - recall) / chances.sum(axis=1))[:, None]
        chances += np.diag(recall)
        truth = float((2 * shares * recall / (shares + shares @ chances)).mean())
        labels = random.choice(classes, images, p=shares)
        steps = chances.cumsum(axis=1)[labels]
        predictions = np.minimum((steps < random.random((images, 1))).sum(axis=1), classes - 1)
        covers, holds = _judged(_ends(macro_f1(labels, predictions, classes)), truth)
        covered, held = covered + covers, held + holds
    name = f"macro F1, {classes} classes of a Zipf law, {images} images"
    return f"| {name} | by chance | | | {100 * covered / draws:.0f} | {100 * held / draws:.0f} |"


def label_row(rare: int, draws: int) -> str:
    """The row of mAP, whose truth is the mean of 100 test sets with as many images of each label."""
    random, found = np.random.default_rng(rare), np.zeros((2, 2))
    positives = np.repeat([OFTEN, rare], LABELS)
    for _ in range(draws):
        shift = random.normal(1.5, 0.7, 2 * LABELS)

        def draw(shift: Floats = shift) -> ScoredLabels:
            labels = np.zeros((IMAGES, 2 * LABELS), dtype=np.int8)
            for label, count in enumerate(positives):
                labels[random.permutation(IMAGES)[:count], label] = 1
            logits = random.normal(size=labels.shape) + labels * shift - 2
            return ScoredLabels(tuple(map(str, range(IMAGES))), labels, (1 / (1 + np.exp(-logits))).astype(np.float32))

        truth = float(np.mean([_map_of(draw()) for _ in range(100)]))
        measured = multilabel_metrics(draw(), [0.5] * 2 * LABELS).map
        assert measured is not None
        found[1] += _judged(_ends(measured), truth)
    return _row("mAP", rare, found, draws)


def _map_of(scored: ScoredLabels) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(scored.labels, scored.probabilities, average="macro"))


def _ends(metric: Metric) -> Interval:
    return metric.value, metric.low, metric.high


def _judged(interval: Interval, truth: float) -> tuple[bool, bool]:
    """(whether it contains the truth, whether it contains its own value)."""
    value, low, high = interval
    return low <= truth <= high, low <= value <= high


def _row(name: str, rare: int, found: Floats, draws: int) -> str:
    before, ours = ([f"{100 * count / draws:.0f}" for count in row] for row in found)
    return f"| {name} | {rare} | {' | '.join([*(before if found[0].any() else ['', '']), *ours])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    draws = parser.parse_args().draws
    columns = "bootstrap covers | holds its value | class_means covers | holds its value"
    print(f"| mean of | images of a rare class | {columns} |\n|{'---|' * 6}")
    for rare in (1, 2, 3, 5):
        print("\n".join(class_rows(rare, draws)), flush=True)
    for classes, images in ((10, 100), (30, 300)):
        print(zipf_row(classes, images, draws), flush=True)
    for rare in (1, 2, 3, 5):
        print(label_row(rare, max(1, draws // 3)), flush=True)


if __name__ == "__main__":
    main()
