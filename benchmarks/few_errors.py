"""Do intervals contain the truth where few answers are wrong? Simulated, without a network.

    python benchmarks/few_errors.py [--draws 1000]

Of the area under risk and coverage (AURC), in three worlds. doubt: most probabilities are near 1, and a quarter of the
doubt is justified. blind: 5 % of the answers are wrong, whatever the probability. sure: nearly all errors are below a
probability of 0.7. Of the log-loss in the same worlds, with ten classes.

Of micro F1, where each of three labels is on 30 % of the images. cells: 2 % of all cells are wrong. images: all labels
of 2 % of the images are wrong. Of the log-loss of 20 labels in the same worlds.

Percentiles of a bootstrap, as vit had them before, stand beside the intervals of `vit.inference`.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.data.core.samples import Labels
from vit.inference.answers.selective import risk_coverage
from vit.inference.metrics.metrics import with_intervals
from vit.inference.metrics.multilabel_metrics import MultilabelMetrics, multilabel_metrics
from vit.inference.scores.intervals import Metric
from vit.inference.scores.scored_images import ScoredImages, ScoredLabels

IMAGES = (10, 25, 100, 400, 2000)
MANY = 200_000  # images of the truth
LABELS, SHARE, WRONG = 3, 0.3, 0.02
CLASSES, LOSS_LABELS = 10, 20
RESAMPLES = 200

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def answers(world: str, count: int, random: np.random.Generator) -> tuple[Floats, Bools]:
    """Probabilities of the given answers, and whether each is right."""
    confidences = random.beta(4 if world == "sure" else 8, 1, count)
    right = {
        "doubt": 1 - (1 - confidences) / 4,
        "blind": np.full(count, 0.95),
        "sure": np.where(confidences > 0.7, 0.999, 0.6),
    }[world]
    return confidences, random.random(count) < right


def area(confidences: Floats, correct: Bools) -> float:
    wrong = ~correct[np.argsort(-confidences)]
    return float((wrong.cumsum() / np.arange(1, len(wrong) + 1)).mean())


def predictions(world: str, count: int, random: np.random.Generator) -> tuple[Floats, Labels]:
    """Probabilities of the classes, and the true ones."""
    sure, right = answers(world, count, random)
    others = random.dirichlet(np.full(CLASSES - 1, 0.5), count) * (1 - sure[:, None])
    probabilities = np.concatenate([sure[:, None], others], axis=1)
    return probabilities, np.where(right, 0, random.integers(1, CLASSES, count))


def log_loss(probabilities: Floats, labels: Labels) -> float:
    return float(-np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-12)).mean())


def cells(world: str, count: int, random: np.random.Generator) -> tuple[Bools, Bools]:
    """Which labels images have, and which they are given."""
    present = random.random((count, LABELS)) < SHARE
    return present, present ^ (random.random((count, 1 if world == "images" else LABELS)) < WRONG)


def micro_f1(present: Bools, given: Bools) -> float:
    return float(2 * (present & given).sum() / max(1, present.sum() + given.sum()))


def label_probabilities(world: str, count: int, random: np.random.Generator) -> tuple[Floats, Labels]:
    """Probabilities of labels, and which of them images have."""
    present = random.random((count, LOSS_LABELS)) < SHARE
    wrong = random.random((count, 1 if world == "images" else LOSS_LABELS)) < WRONG
    sure = np.minimum(random.beta(8, 1, present.shape), 1 - 1e-6)
    return np.where(present ^ wrong, sure, 1 - sure), present.astype(np.int64)


def label_loss(probabilities: Floats, present: Labels) -> float:
    return float(-np.log(np.where(present, probabilities, 1 - probabilities)).mean())


def measured_area(confidences: Floats, correct: Bools) -> Metric:
    return risk_coverage(confidences, correct).area


def measured_loss(probabilities: Floats, labels: Labels) -> Metric:
    scored = ScoredImages(_names(labels), labels, probabilities.astype(np.float32))
    return with_intervals(scored, CLASSES).nll


def measured_f1(present: Bools, given: Bools) -> Metric:
    return _scored(np.where(given, 0.9, 0.1), present).micro_f1


def measured_label_loss(probabilities: Floats, present: Labels) -> Metric:
    return _scored(probabilities, present).nll


def _scored(probabilities: Floats, present: Labels | Bools) -> MultilabelMetrics:
    scored = ScoredLabels(_names(present), present.astype(np.int8), probabilities.astype(np.float32))
    return multilabel_metrics(scored, [0.5] * present.shape[1])


def _names(labels: Labels | Bools) -> tuple[str, ...]:
    return tuple(map(str, range(len(labels))))


Values = tuple[npt.NDArray[Any], npt.NDArray[Any]]
Draw = Callable[[str, int, np.random.Generator], Values]


def rows(
    name: str,
    worlds: tuple[str, ...],
    draw: Draw,
    value: Callable[..., float],
    measure: Callable[..., Metric],
    draws: int,
) -> Iterator[str]:
    """Rows of the table of one metric: losses in nats, others in percent."""
    unit, digits, factor = (" nats", 3, 1) if "loss" in name else (" %", 1, 100)
    random = np.random.default_rng(0)
    for world in worlds:
        truth = float(np.mean([value(*draw(world, MANY, random)) for _ in range(5)]))
        for count in IMAGES:
            times = draws if count < 1000 else draws // 4
            covers, widths = np.zeros(2), np.zeros(2)
            for _ in range(times):
                first, second = draw(world, count, random)
                found = measure(first, second)
                drawn = random.integers(0, count, (RESAMPLES, count))
                low, high = np.percentile([value(first[own], second[own]) for own in drawn], (2.5, 97.5))
                lows, highs = np.array([low, found.low]), np.array([high, found.high])
                covers += (lows <= truth) & (truth <= highs)
                widths += highs - lows
            before, ours = (
                f"{100 * covered / times:.0f} | {factor * width / times:.{digits}f}"
                for covered, width in zip(covers, widths, strict=True)
            )
            yield f"| {name} | {world} | {factor * truth:.{digits}f}{unit} | {count:,} | {before} | {ours} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    print("| metric | world | truth | images | bootstrap covers | width | vit covers | width |\n|" + "---|" * 8)
    worlds, label_worlds = ("doubt", "blind", "sure"), ("cells", "images")
    for table in (
        rows("AURC", worlds, answers, area, measured_area, draws),
        rows("log-loss", worlds, predictions, log_loss, measured_loss, draws),
        rows("micro F1", label_worlds, cells, micro_f1, measured_f1, draws // 4),
        rows("log-loss of labels", label_worlds, label_probabilities, label_loss, measured_label_loss, draws // 4),
    ):
        for row in table:
            print(row, flush=True)


if __name__ == "__main__":
    main()
