"""Prediction sets have the coverage that was asked for, and agree with crepes where it has the method."""

import numpy as np
import pytest
from crepes import ConformalClassifier
from scipy.stats import binom

from vit.checkpoints.validation_scores import ValidationScores
from vit.commands.cli.command_line import run_command
from vit.commands.predicting.predict import predict
from vit.errors import UsageError
from vit.inference.answers.answers import SET_METHODS, PredictionSets, fewest_of_sets

NUM_CLASSES = 4
FREQUENCIES = [0.7, 0.1, 0.1, 0.1]


def draw(generator, count):
    """Labels of unequal classes, and probabilities that know something of them."""
    labels = generator.choice(NUM_CLASSES, count, p=FREQUENCIES)
    logits = generator.normal(size=(count, NUM_CLASSES))
    logits[np.arange(count), labels] += 1.0
    exponentials = np.exp(logits)
    return labels, (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(np.float32)


def covered(rule, labels, probabilities, generator):
    members = rule.members(probabilities, generator.random(len(labels)))
    return members, members[np.arange(len(labels)), labels]


@pytest.mark.parametrize("method", SET_METHODS)
@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_coverage_holds_over_many_fits(method, coverage):
    generator = np.random.default_rng(0)
    hits = total = 0
    for _ in range(60):
        rule = PredictionSets.fit(ValidationScores.of(*draw(generator, 300)), method, coverage, NUM_CLASSES)
        _, hit = covered(rule, *draw(generator, 300), generator)
        hits, total = hits + hit.sum(), total + len(hit)
    # fits vary: the coverage given one fit of n images has a standard deviation of sqrt(c (1 - c) / n)
    spread = 4 * np.sqrt(coverage * (1 - coverage) * (1 / total + 1 / (60 * 300 * min(FREQUENCIES))))
    assert coverage - spread < hits / total


@pytest.mark.parametrize("asked", ["--target_accuracy=1", "--coverage=1", "--coverage=0", "--reject_below=2"])
def test_what_is_not_a_fraction_is_refused(asked):
    """1 was a division by zero."""
    with pytest.raises(UsageError, match=f"{asked.strip('-').replace('=', ' is ')}; give a number >0 and <1"):
        run_command(predict, ["run", "images", asked])


LEVEL = 0.8931  # crepes differs where (n + 1) (1 - coverage) is whole: it keeps p-values that are equal to 1 - coverage


@pytest.mark.parametrize("method", ["lac", "class_conditional"])
def test_sets_are_those_of_crepes(method):
    generator = np.random.default_rng(1)
    labels, probabilities = draw(generator, 200)
    new = draw(generator, 100)[1].astype(np.float64)
    alphas = 1.0 - probabilities[np.arange(200), labels].astype(np.float64)
    oracle = ConformalClassifier()
    if method == "lac":
        oracle.fit(alphas)
        theirs = oracle.predict_set(1.0 - new, confidence=LEVEL, smoothing=False)
    else:
        oracle.fit(alphas, bins=labels)
        bins = np.tile(np.arange(NUM_CLASSES), (100, 1))
        theirs = np.column_stack([
            oracle.predict_set(1.0 - new[:, [c]], bins=bins[:, c], confidence=LEVEL, smoothing=False)
            for c in range(NUM_CLASSES)
        ])  # fmt: skip
    rule = PredictionSets.fit(ValidationScores.of(labels, probabilities), method, LEVEL, NUM_CLASSES)
    ours = rule.members(new.astype(np.float32), generator.random(100))
    theirs[np.arange(100), new.argmax(axis=1)] = 1  # ours are never empty
    assert (ours == theirs.astype(bool)).all()


def test_class_conditional_sets_cover_rare_classes_that_others_neglect():
    generator = np.random.default_rng(2)

    def biased(count):
        labels, probabilities = draw(generator, count)
        probabilities[:, 0] *= 3  # the network prefers the common class
        return labels, probabilities / probabilities.sum(axis=1, keepdims=True)

    lowest = {}
    for method in ("lac", "class_conditional"):
        rule = PredictionSets.fit(ValidationScores.of(*biased(20_000)), method, 0.9, NUM_CLASSES)
        labels, probabilities = biased(20_000)
        _, hit = covered(rule, labels, probabilities, generator)
        lowest[method] = min(hit[labels == number].mean() for number in range(NUM_CLASSES))
    assert lowest["lac"] < 0.85
    assert lowest["class_conditional"] > 0.88


def test_aps_sets_of_difficult_images_are_larger():
    generator = np.random.default_rng(3)
    rule = PredictionSets.fit(ValidationScores.of(*draw(generator, 2000)), "aps", 0.9, NUM_CLASSES)
    _, probabilities = draw(generator, 2000)
    sizes = rule.members(probabilities, generator.random(2000)).sum(axis=1)
    is_easy = probabilities.max(axis=1) > np.median(probabilities.max(axis=1))
    assert sizes[is_easy].mean() < sizes[~is_easy].mean() - 0.5


def test_with_too_few_images_a_set_is_every_class():
    count = fewest_of_sets(0.9)
    assert count == 9
    generator = np.random.default_rng(4)
    labels, probabilities = draw(generator, count)
    enough = PredictionSets.fit(ValidationScores.of(labels, probabilities), "lac", 0.9, NUM_CLASSES)
    few = PredictionSets.fit(ValidationScores.of(labels[1:], probabilities[1:]), "lac", 0.9, NUM_CLASSES)
    assert not enough.unlimited
    assert few.unlimited == [0, 1, 2, 3]
    assert few.members(probabilities, np.zeros(count)).all()


def test_a_set_is_never_empty():
    generator = np.random.default_rng(5)
    for method in SET_METHODS:
        rule = PredictionSets.fit(ValidationScores.of(*draw(generator, 500)), method, 0.05, NUM_CLASSES)
        assert (rule.members(draw(generator, 500)[1], np.ones(500)).sum(axis=1) >= 1).all()


def test_coverage_of_lac_is_not_far_above_the_one_asked_for():
    generator = np.random.default_rng(6)
    rule = PredictionSets.fit(ValidationScores.of(*draw(generator, 4000)), "lac", 0.8, NUM_CLASSES)
    _, hit = covered(rule, *draw(generator, 20000), generator)
    assert hit.sum() < binom.ppf(0.9999, 20000, 0.83)


def grouped(generator, num_groups, size):
    """Labels, probabilities and groups: the images of a group have one class, and are about equally difficult."""
    groups = np.repeat(np.arange(num_groups), generator.integers(1, 2 * size, num_groups))
    labels = generator.integers(0, NUM_CLASSES, num_groups)[groups]
    logits = 0.3 * generator.normal(size=(len(groups), NUM_CLASSES))
    logits[np.arange(len(groups)), labels] += 3.0 * generator.normal(size=num_groups)[groups]
    exponentials = np.exp(logits)
    return labels, (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(np.float32), groups


def mean_coverage(method, with_groups, fits=400):
    """(coverage of images of new groups, its standard error) over many fits on few groups."""
    num_groups = 12 * (NUM_CLASSES if method == "class_conditional" else 1)
    generator, found = np.random.default_rng(7), []
    for _ in range(fits):
        labels, probabilities, groups = grouped(generator, num_groups, 12)
        scores = ValidationScores.of(labels, probabilities, groups if with_groups else None)
        rule = PredictionSets.fit(scores, method, 0.9, NUM_CLASSES)
        labels, probabilities, _ = grouped(generator, 60, 12)
        found.append(covered(rule, labels, probabilities, generator)[1].mean())
    return np.mean(found), np.std(found) / fits**0.5


@pytest.mark.parametrize("method", SET_METHODS)
def test_coverage_holds_for_images_of_new_groups(method):
    share, error = mean_coverage(method, with_groups=True)
    assert share > 0.9 - 3 * error
    if method != "aps":  # its random draws hide it
        naive, error = mean_coverage(method, with_groups=False)
        assert naive < 0.9 - 2 * error, "the world is one in which groups matter"


def test_groups_of_one_image_are_images_and_copies_change_nothing():
    labels, probabilities = draw(np.random.default_rng(8), 300)
    alone = ValidationScores.of(labels, probabilities)
    single = ValidationScores.of(labels, probabilities, np.arange(300))
    copied = ValidationScores.of(*(np.repeat(one, 4, axis=0) for one in (labels, probabilities, np.arange(300))))
    for method in ("lac", "class_conditional"):
        limits = [PredictionSets.fit(one, method, 0.9, NUM_CLASSES).limits for one in (alone, single, copied)]
        assert np.array_equal(limits[0], limits[1]) and np.array_equal(limits[0], limits[2])


def test_few_groups_make_sets_of_all_classes_however_many_images_they_have():
    labels, probabilities = draw(np.random.default_rng(9), 800)
    few = ValidationScores.of(labels, probabilities, np.arange(800) % (fewest_of_sets(0.9) - 1))
    assert len(PredictionSets.fit(few, "lac", 0.9, NUM_CLASSES).unlimited) == NUM_CLASSES
