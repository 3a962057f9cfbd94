"""What it costs that validation images choose the epoch, and that everything is fitted to them a second time.

A small ResNet trains on some images of a data set. After every epoch it scores a pool of other images. The pool is then
split many times into n validation images and the rest, which plays new images. Two rules use the same n images:

    reuse    all n images choose the epoch, and temperature, threshold and sets are fitted to all of them
    apart    half of them choose the epoch, everything is fitted to the other half, as with `data.calibration`

    python benchmarks/reuse.py digits
    python benchmarks/reuse.py fashion_mnist --root FOLDER --train 2000 --epochs 8

Scores of each training are kept in --folder, so that a second call only repeats the splits. Intervals are those of
Student's t over trainings, because splits of one pool are not independent.
"""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from scipy.stats import t as student
from torch import Tensor

from vit.checkpoints.validation_scores import ValidationScores
from vit.data.loader import labeled_images
from vit.data.preprocess import Preprocess
from vit.data.samples import Samples
from vit.data.sources import open_source
from vit.inference.calibration import fit_temperature
from vit.inference.metric_set import calibration_error
from vit.inference.prediction_sets import PredictionSets
from vit.inference.scored_images import ScoredImages
from vit.inference.selective import threshold_for
from vit.models.resnet import SmallImageResNet, SmallImageResNetConfig

BATCH = 64
RULES = ("reuse", "apart")
COLUMNS = {
    "accuracy": "accuracy on new images",
    "accuracy gap": "accuracy of the fit's images minus that of new images",
    "ECE": "calibration error on new images",
    "ECE gap": "calibration error of new images minus that of the fit's images",
    "coverage": "coverage of lac sets",
    "misses": "splits in which labels are right less often than the target (at most 5 % promised)",
    "labeled": "images with a label",
}

Arrays = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]  # labels (n,), probabilities of each epoch (E, n, C)


def loaded(samples: Samples, preprocess: Preprocess) -> tuple[Tensor, Tensor]:
    """Normalized images (n, 3, S, S) and class numbers (n,)."""
    batches = list(labeled_images(samples, preprocess))
    images = preprocess.normalize(torch.cat([batch.image for batch in batches]))
    return images, torch.cat([batch.label for batch in batches])


def trained(options: argparse.Namespace, seed: int) -> Arrays:
    """Train, and score the pool after every epoch at temperature 1."""
    kept = Path(options.folder) / f"{options.data}-{options.train}-{options.epochs}-{seed}.npz"
    if kept.is_file():
        with np.load(kept) as content:
            return content["labels"], content["probabilities"]
    source = open_source(options.data, options.root)
    train = source.splits["train"]
    order = np.random.default_rng(seed).permutation(len(train))[: options.train + options.pool]
    side = 8 if options.data == "digits" else 28
    preprocess = Preprocess(side, mean=(0.3, 0.3, 0.3), std=(0.36, 0.36, 0.36))
    images, labels = loaded(train.select(order), preprocess)
    torch.manual_seed(seed)
    config = SmallImageResNetConfig(
        image_size=side, num_classes=len(source.class_names), layers=(1, 1, 1, 1), widths=(16, 32, 64, 128)
    )
    network = SmallImageResNet(config)
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
    found = []
    for epoch in range(options.epochs):
        network.train()
        for part in torch.randperm(options.train).split(BATCH):
            if len(part) > 1:
                loss = F.cross_entropy(network(images[part]), labels[part])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        network.eval()
        with torch.inference_mode():
            parts = [network(part).softmax(dim=1) for part in images[options.train :].split(256)]
        found.append(torch.cat(parts).numpy())
        right = (found[-1].argmax(axis=1) == labels[options.train :].numpy()).mean()
        print(f"seed {seed}, epoch {epoch + 1}: {right:.2%} of the pool", flush=True)
    arrays = labels[options.train :].numpy(), np.stack(found)
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez(kept, labels=arrays[0], probabilities=arrays[1])
    return arrays


def scored(arrays: Arrays, epoch: int, chosen: npt.NDArray[np.int64]) -> ScoredImages:
    """Images of the pool with the probabilities of an epoch."""
    labels, probabilities = arrays
    return ScoredImages(tuple(map(str, chosen)), labels[chosen], probabilities[epoch][chosen])


def measured(
    arrays: Arrays, validation: npt.NDArray[np.int64], rule: str, target: float, coverage: float
) -> list[float]:
    """The values of `COLUMNS` for one split. Where no threshold can be guaranteed, no image has a label."""
    labels, probabilities = arrays
    new = np.setdiff1d(np.arange(len(labels)), validation)
    half = len(validation) // 2
    choosing, fitting = (validation, validation) if rule == "reuse" else (validation[:half], validation[half:])
    epoch = int(np.argmin([scored(arrays, number, choosing).losses.mean() for number in range(len(probabilities))]))
    temperature = fit_temperature(scored(arrays, epoch, fitting)).value
    fit, test = (scored(arrays, epoch, part).at(temperature) for part in (fitting, new))
    scores = ValidationScores.of(fit.labels, fit.probabilities)
    sets = PredictionSets.fit(scores, "lac", coverage, probabilities.shape[2])
    inside = sets.members(test.probabilities, np.zeros(len(new)))[np.arange(len(new)), test.labels]
    threshold = threshold_for(target, scores.highest, scores.correct)
    misses, labeled = 0.0, 0.0
    if threshold is not None:
        with_label = test.confidences >= threshold.value
        labeled = float(with_label.mean())
        misses = float(with_label.any() and test.correct[with_label].mean() < target)
    error = calibration_error(test.correct, test.confidences).value
    own_error = calibration_error(fit.correct, fit.confidences).value
    accuracy = float(test.correct.mean())
    gap = float(fit.correct.mean()) - accuracy
    return [accuracy, gap, error, error - own_error, float(inside.mean()), misses, labeled]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--root")
    parser.add_argument("--train", type=int, default=500, help="training images")
    parser.add_argument("--pool", type=int, default=10_000, help="most other images")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--splits", type=int, default=200, help="splits of each training's pool")
    parser.add_argument("--validation", type=int, nargs="+", default=[200, 600])
    parser.add_argument("--target", type=float, default=0.95, help="accuracy of the labels")
    parser.add_argument("--coverage", type=float, default=0.9, help="of the sets")
    parser.add_argument("--folder", default="reuse_scores")
    options = parser.parse_args()
    trainings = [trained(options, seed) for seed in range(options.seeds)]
    for count in options.validation:
        values = np.zeros((len(RULES), options.seeds, options.splits, len(COLUMNS)))
        for seed, arrays in enumerate(trainings):
            for split in range(options.splits):
                drawn = np.random.default_rng([seed, split]).permutation(len(arrays[0]))[:count]
                for place, rule in enumerate(RULES):
                    values[place, seed, split] = measured(arrays, drawn, rule, options.target, options.coverage)
        print(f"\n{options.data}, {count} validation images, {options.seeds} trainings, {options.splits} splits each")
        print(
            f"{len(trainings[0][0]) - count:,} new images, target {options.target:.0%}, coverage {options.coverage:.0%}"
        )
        print(f"| | {' | '.join(RULES)} | difference |\n|---|---|---|---|")
        by_training = values.mean(axis=2)  # (rule, training, column)
        for place, words in enumerate(COLUMNS.values()):
            cells = [*by_training[:, :, place], by_training[1, :, place] - by_training[0, :, place]]
            print(f"| {words} | {' | '.join(map(_cell, cells))} |", flush=True)


def _cell(values: npt.NDArray[np.float64]) -> str:
    """Mean over trainings in %, with half the width of its 95 % interval."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{100 * values.mean():.2f} ± {100 * half:.2f}"


if __name__ == "__main__":
    main()
