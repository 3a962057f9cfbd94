"""Made-up images with several labels, for tests: labels that depend on probabilities, some of them unknown."""

import numpy as np

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
