"""Scoring: every image once, in order, at the precision that was asked for."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vit.data.core.samples import Samples, Source
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.loading.sampler import EvaluationSampler
from vit.data.pixels.augment import Augment
from vit.data.pixels.preprocess import Preprocess
from vit.errors import DataError
from vit.inference.engine import Engine, _in_order, score
from vit.inference.scores.scored_images import ScoredImages
from vit.models.spec import create_network


@pytest.fixture(scope="module")
def engine():
    torch.manual_seed(0)
    network = create_network("vit_nano_patch2_8", 3)
    torch.nn.init.normal_(network.head.weight)  # it begins at zero: every image would look the same
    return Engine(network, Preprocess(8), torch.device("cpu"), "32-true")


def loader(count, batch_size=128, labels=None):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8), dtype=np.uint8)
    labels = np.arange(count) % 3 if labels is None else labels
    samples = Samples([f"{i}.png" for i in range(count)], labels, arrays=pixels)
    options = replace(LoaderOptions(1), evaluation_batch_size=batch_size)
    module = ImageDataModule(Source("toy", ("a", "b", "c"), {"test": samples}), Preprocess(8), Augment(), options, 0)
    return module.evaluation_loader("test"), samples


@pytest.mark.parametrize(("count", "batch_size"), [(11, 4), (8, 4), (1, 4), (5, 128)])
def test_every_image_counts_once_and_in_order(engine, count, batch_size):
    batches, samples = loader(count, batch_size)
    scored = score(engine, batches)
    assert scored.paths == tuple(samples.paths)
    assert scored.labels.tolist() == samples.labels.tolist()
    assert scored.probabilities.shape == (count, 3)
    np.testing.assert_allclose(scored.probabilities.sum(axis=1), 1.0, atol=1e-6)
    whole = score(engine, loader(count)[0])
    np.testing.assert_allclose(scored.probabilities, whole.probabilities, atol=1e-6)


def test_no_images_are_an_error(engine):
    with pytest.raises(DataError, match="no images"):
        score(engine, [])


def test_rows_that_fill_a_batch_up_do_not_count(engine):
    batches, _ = loader(3)
    (batch,) = list(batches)
    padded = replace(batch, valid=torch.tensor([True, False, True]))
    assert score(engine, [padded]).paths == ("0.png", "2.png")


@pytest.mark.parametrize(("count", "processes"), [(1, 2), (2, 3), (9, 2), (11, 4), (12, 3)])
def test_parts_of_several_processes_come_back_in_order(count, processes):
    def part(rank):
        keys = [key for batch in EvaluationSampler(count, 4, rank, processes) for key in batch if key.valid]
        numbers = np.array([key.index for key in keys], dtype=np.int64)
        probabilities = np.repeat(numbers[:, None], 3, axis=1).astype(np.float32)
        places = [place * processes + rank for place in range(len(keys))]
        read = numbers % 4 != 2  # the others could not be read
        scored = ScoredImages(tuple(str(number) for number in numbers[read]), numbers[read], probabilities[read], {
            str(number): "damaged" for number in numbers[~read]
        })  # fmt: skip
        return scored, [place for place, good in zip(places, read, strict=True) if good]

    expected = [number for number in range(count) if number % 4 != 2]
    merged = _in_order([part(rank) for rank in range(processes)])
    assert merged.paths == tuple(map(str, expected))
    assert merged.labels.tolist() == merged.probabilities[:, 0].tolist() == expected
    assert sorted(merged.left_out, key=int) == [str(number) for number in range(2, count, 4)]


def test_temperature_softens(engine):
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    warm = Engine(engine.network, engine.preprocess, engine.device, "32-true", temperature=4.0)
    expected = (engine.logits(images) / 4).softmax(dim=1)
    torch.testing.assert_close(warm.probabilities(images), expected)
    assert (warm.probabilities(images).amax(1) < engine.probabilities(images).amax(1)).all()


def test_precision_changes_how_it_is_computed_and_not_what_comes_out(engine):
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    half = Engine(engine.network, engine.preprocess, engine.device, "bf16-mixed")
    assert half.logits(images).dtype == torch.float32
    assert not torch.equal(half.logits(images), engine.logits(images))
    torch.testing.assert_close(half.probabilities(images), engine.probabilities(images), atol=0.05, rtol=0)
