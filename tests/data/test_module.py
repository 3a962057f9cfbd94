"""The training batches of `ImageDataModule`: micro-batches divide an optimizer step and do not change its images."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pytest

from vit.data.core.samples import Samples, Source
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.pixels.preprocess import Preprocess


class Sharded:
    """Images in 8 shards of 40. No image is read."""

    shares_prepared = False

    def read(self, path: str) -> bytes:
        raise AssertionError(path)

    def prepare(self, paths: Sequence[str]) -> None:
        raise AssertionError(paths)

    def content_hash(self, path: str) -> str:
        return ""

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64]:
        return np.array([int(path) // 40 for path in paths])


def step_images(reader: Sharded | None, accumulate: int) -> list[frozenset[int]]:
    """The images of each optimizer step of one pass, by 64 in a step."""
    samples = Samples([str(number) for number in range(320)], np.zeros(320, dtype=np.int64), reader=reader)
    options = LoaderOptions(64, 0, "none", accumulate=accumulate)
    data = ImageDataModule(Source("made", ("a",), {"train": samples}), Preprocess(8), None, options, seed=3)
    data.train_dataloader()
    assert data._train_sampler is not None
    batches = [[key.index for key in batch] for batch in data._train_sampler]
    assert {len(batch) for batch in batches} == {64 // accumulate}
    steps = [batches[first : first + accumulate] for first in range(0, len(batches), accumulate)]
    return [frozenset(chain.from_iterable(step)) for step in steps]


@pytest.mark.parametrize("reader", [Sharded(), None], ids=["shards", "files"])
@pytest.mark.parametrize("accumulate", [2, 4])
def test_accumulation_keeps_the_images_of_every_optimizer_step(reader: Sharded | None, accumulate: int) -> None:
    whole = step_images(reader, 1)
    assert len(whole) == 5 and step_images(reader, accumulate) == whole
