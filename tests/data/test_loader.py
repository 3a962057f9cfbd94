"""How many processes prepare the images of a training, where the user does not say."""

import numpy as np
import pytest

from vit.data import loader
from vit.data.augment import Augment
from vit.data.module import ImageDataModule, LoaderOptions
from vit.data.preprocess import Preprocess
from vit.data.samples import Samples, Source


def workers(augment: Augment) -> int:
    images = np.zeros((40, 8, 8), dtype=np.uint8)
    samples = Samples([str(number) for number in range(40)], np.zeros(40, dtype=np.int64), arrays=images)
    options = LoaderOptions(4, cache="memory")
    data = ImageDataModule(Source("made", ("a",), {"train": samples}), Preprocess(8), augment, options, seed=0)
    return data.train_dataloader().num_workers


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more processes than this machine has cores
@pytest.mark.parametrize(
    ("augment", "has_gpu", "cores", "expected"),
    [
        (Augment(shift=0.1, mixup=0.5), True, 16, 0),  # a batch is one gather; the GPU does the rest
        (Augment(randaugment=2), True, 16, 16),
        (Augment(randaugment=2), True, 40, 16),
        (Augment(randaugment=2), False, 16, 0),  # the training needs these cores
        (Augment(crop=0.5), False, 6, 6),
    ],
)
def test_images_that_need_work_before_a_gpu_has_them_get_a_process_for_each_core(
    augment: Augment, has_gpu: bool, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "available_cores", lambda: cores)
    monkeypatch.setattr(loader.torch.cuda, "is_available", lambda: has_gpu)
    assert workers(augment) == expected
