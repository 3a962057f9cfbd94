"""Temperature scaling: finds what was put in, stays sober with few images, and changes no label."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm

from vit.checkpoints.io import store_calibration
from vit.checkpoints.load import load
from vit.inference.answers.calibration import fit_temperature
from vit.inference.metrics.metrics import with_intervals
from vit.inference.predictor import load as load_predictor
from vit.inference.scores.scored_images import ScoredImages


def scored(count, temperature, seed=0, num_classes=5, scale=3.0):
    """Images whose true labels are drawn at a temperature, and probabilities that know nothing of it."""
    generator = np.random.default_rng(seed)
    logits = scale * generator.normal(size=(count, num_classes))
    truth = softmax(logits / temperature, axis=1)
    labels = (truth.cumsum(axis=1) > generator.random((count, 1))).argmax(axis=1)
    probabilities = softmax(logits, axis=1).astype(np.float32)
    return ScoredImages(tuple(map(str, range(count))), labels, probabilities), logits


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_a_temperature_is_found_again(temperature):
    found = fit_temperature(scored(8000, temperature)[0])
    assert found.value == pytest.approx(temperature, rel=0.05)
    assert found.value == (found.fitted if temperature != 1.0 else 1.0)


@pytest.mark.parametrize("temperature", [0.5, 2.5])
def test_probabilities_of_other_images_become_honest(temperature):
    fitted = fit_temperature(scored(200, temperature)[0]).value
    other, _ = scored(5000, temperature, seed=1)
    before, after = (with_intervals(some, 5) for some in (other, other.at(fitted)))
    assert after.ece.value < 0.3 * before.ece.value
    assert after.nll.value < before.nll.value and after.acc1 == before.acc1


@pytest.mark.parametrize("count", [1, 3, 10, 30])
def test_few_images_that_are_all_right_do_not_make_it_certain(count):
    probabilities = np.tile(np.array([0.8, 0.1, 0.1], dtype=np.float32), (count, 1))
    some = ScoredImages(tuple(map(str, range(count))), np.zeros(count, dtype=np.int64), probabilities)
    found = fit_temperature(some)
    assert 0.3 < found.fitted < 1.0 and found.value == (1.0 if count < 10 else found.fitted)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_few_images_that_are_all_wrong_do_not_make_it_useless(count):
    probabilities = np.tile(np.array([0.98, 0.01, 0.01], dtype=np.float32), (count, 1))
    some = ScoredImages(tuple(map(str, range(count))), np.ones(count, dtype=np.int64), probabilities)
    assert 1.0 < fit_temperature(some).fitted < 6.0


def test_few_images_rarely_make_probabilities_worse():
    """20 validation images of a network that is calibrated already: the fit alone made every second one worse."""
    other, _ = scored(2000, 1.0, seed=1)
    fits = [fit_temperature(scored(20, 1.0, seed=seed)[0]) for seed in range(100, 200)]
    worse = [other.at(fit.value).losses.mean() > other.losses.mean() + 1e-3 for fit in fits]
    assert np.mean(worse) <= 0.1
    assert np.mean([other.at(fit.fitted).losses.mean() > other.losses.mean() + 1e-3 for fit in fits]) > 0.3


def test_it_says_what_it_did():
    sure, unsure = (fit_temperature(scored(count, 0.5)[0]) for count in (400, 3))
    assert sure.describe() == f"{sure.value:.3f}, fitted on 400 validation images" and sure.value < 0.6
    assert unsure.value == 1.0
    assert unsure.describe().startswith("stays 1: 3 validation images") and f"{unsure.fitted:.3f}" in unsure.describe()


def test_without_images_it_is_one():
    empty = ScoredImages((), np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.float32))
    found = fit_temperature(empty)
    assert found.fitted == pytest.approx(1.0, abs=1e-5) and found.value == 1.0


def test_another_temperature_is_that_of_the_logits():
    some, logits = scored(300, 1.0)
    for temperature in (0.3, 1.0, 4.0):
        changed = some.at(temperature)
        np.testing.assert_allclose(changed.probabilities, softmax(logits / temperature, axis=1), atol=2e-6)
        assert np.array_equal(changed.predictions, some.predictions) and changed.temperature == temperature
        np.testing.assert_allclose(changed.at(1.0).probabilities, some.probabilities, atol=2e-6)
    np.testing.assert_allclose(some.at(0.3).uncalibrated, some.confidences, atol=2e-6)


def test_probabilities_that_have_become_zero():
    certain = ScoredImages(("a", "b"), np.array([0, 1]), np.array([[1, 0, 0], [1, 0, 0]], dtype=np.float32))
    assert np.isfinite(fit_temperature(certain).value) and np.isfinite(certain.at(5.0).probabilities).all()


def test_a_checkpoint_keeps_it_and_predictions_follow(digits_run, mixed, tmp_path):
    copy = tmp_path / "copy.ckpt"
    shutil.copy(digits_run.best, copy)
    network, before = load(copy)
    files = [str(mixed / "a b.png")]
    (sure,) = load_predictor(copy).predict_files(files)
    store_calibration(copy, before.temperature * 3, None)
    again, after = load(copy)
    assert after.temperature == before.temperature * 3 and after.class_names == before.class_names
    assert all((again.state_dict()[key] == value).all() for key, value in network.state_dict().items())
    (softer,) = load_predictor(copy).predict_files(files)
    assert softer.label == sure.label and softer.probability < sure.probability
    assert load(digits_run.path / "checkpoints" / "last.ckpt")[1].temperature == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["copy.ckpt"]


@pytest.mark.parametrize(("count", "temperature"), [(60, 1.0), (60, 0.7), (400, 0.5)])
def test_copies_of_images_in_a_group_do_not_make_a_temperature_clearer(count, temperature):
    some, _ = scored(count, temperature)
    copied = ScoredImages(
        tuple(map(str, range(6 * count))),
        np.repeat(some.labels, 6),
        np.repeat(some.probabilities, 6, axis=0),
        groups=np.repeat(np.arange(count), 6),
    )
    alone, found = fit_temperature(some), fit_temperature(copied)
    assert found.fitted == pytest.approx(alone.fitted, rel=1e-4) and found.gain == pytest.approx(alone.gain, rel=1e-3)
    assert fit_temperature(replace(copied, groups=None)).gain == pytest.approx(6 * alone.gain, rel=1e-3)


def test_few_patients_rarely_make_a_calibrated_network_look_otherwise():
    """20 patients of 30 images each: a patient is as a whole easier or more difficult than the probabilities say."""
    clear = {True: 0, False: 0}
    for seed in range(100):
        generator = np.random.default_rng(seed)
        groups = np.repeat(np.arange(20), 30)
        highest = generator.uniform(0.5, 1.0, 600).astype(np.float32)
        chance = norm.cdf(norm.ppf(highest) * 3**0.5 + generator.normal(0, 2**0.5, 20)[groups])  # 1 + 2 = 3
        labels = (generator.random(600) > chance).astype(np.int64)
        images = ScoredImages(tuple(map(str, groups)), labels, np.stack([highest, 1 - highest], axis=1), groups=groups)
        for grouped in clear:
            clear[grouped] += fit_temperature(images if grouped else replace(images, groups=None)).is_clear
    assert clear[True] <= 15 and clear[False] >= 30


def test_groups_that_are_all_right_count_as_groups():
    """At the likeliest temperature, 0.05, no image has a slope: a hundred images of five groups counted as such."""
    probabilities = np.tile([[0.9, 0.1]], (100, 1)).astype(np.float32)
    images = ScoredImages(tuple(map(str, range(100))), np.zeros(100, dtype=int), probabilities)
    one_of_each = ScoredImages(images.paths[:5], images.labels[:5], probabilities[:5])
    assert fit_temperature(images).is_clear and not fit_temperature(one_of_each).is_clear
    found = fit_temperature(replace(images, groups=np.repeat(np.arange(5), 20)))
    assert not found.is_clear and found.gain == pytest.approx(fit_temperature(one_of_each).gain, rel=0.1)
