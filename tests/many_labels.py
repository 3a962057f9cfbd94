"""Made-up images with several labels, for tests: labels that depend on probabilities, some of them unknown."""

import numpy as np
import torch
from PIL import Image

from tests.export.conftest import CLASSES, make_multilabel
from vit.checkpoints.format import checkpoint_content
from vit.inference.scores.scored_images import ScoredLabels


def scored_labels(count=400, rates=(0.05, 0.3, 0.7), unknown=0.1, temperature=1.0, seed=0, ties=False):
    """Labels drawn at a temperature, and the probabilities of a network that knows nothing of it."""
    generator = np.random.default_rng(seed)
    logits = np.log(np.array(rates) / (1 - np.array(rates))) + 2 * generator.normal(size=(count, len(rates)))
    labels = (generator.random(logits.shape) < 1 / (1 + np.exp(-logits / temperature))).astype(np.int8)
    labels[generator.random(logits.shape) < unknown] = -1
    probabilities = (1 / (1 + np.exp(-logits))).astype(np.float32)
    if ties:
        probabilities = np.round(probabilities, 1)
    return ScoredLabels(tuple(f"{i}.png" for i in range(count)), labels, probabilities)


def multilabel_checkpoint(path, kind="vit"):
    """A checkpoint of a network that gives several labels, with weights that are not trained."""
    made = make_multilabel(kind)
    torch.save(checkpoint_content(made.description, made.network.state_dict()), path)
    return path


def labeled_csv(folder, count=12, names=CLASSES):
    """A CSV of small images with a column of 0, 1 or nothing for each label, in an empty folder."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(2)
    rows = [",".join(["path", *names])]
    for number in range(count):
        Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{number}.png")
        cells = ["" if value == 2 else str(value) for value in generator.choice(3, len(names), p=[0.5, 0.4, 0.1])]
        rows.append(",".join([f"{number}.png", *cells]))
    (folder / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "labels.csv"
