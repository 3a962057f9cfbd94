"""The preliminary answer: linear probes on frozen networks."""

import numpy as np
import pytest

from vit.data.checks.contents import read_contents
from vit.study.frozen.frozen import frozen_results, frozen_sizes
from vit.training.planning.plan import plan_of
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import ModelConfig, Recipe


@pytest.fixture(scope="module")
def probed(digits_run, tmp_path_factory):
    recipe = Recipe(data=DataConfig("digits"), model=ModelConfig(init_from=str(digits_run.best)))
    source = plan_of(recipe).source
    hashes, folder = read_contents(source).by_path(source), tmp_path_factory.mktemp("features")
    sizes = (30, len(source.splits["train"]))
    return frozen_results("ViT", recipe, sizes, [source] * 3, folder, hashes), sizes, source, folder


def test_every_size_and_seed_has_a_result_without_a_run(probed):
    found, sizes, source, folder = probed
    assert [(one.num_images, one.seed) for one in found] == [(size, seed) for size in sizes for seed in range(3)]
    assert all(one.correct.shape == (len(source.splits["test"]),) for one in found)
    assert all(one.accuracy == one.correct.mean() and not one.run for one in found)
    assert len(list(folder.glob("*.safetensors"))) == 1  # each image is computed once


def test_more_images_help_and_seeds_draw_their_own(probed):
    found, sizes, _, _ = probed
    errors = {size: [1 - one.accuracy for one in found if one.num_images == size] for size in sizes}
    assert np.mean(errors[30]) > np.mean(errors[sizes[-1]])
    assert len(set(errors[30])) > 1 and len(set(errors[sizes[-1]])) == 1  # with all images there is one head


@pytest.mark.parametrize(("pool", "classes", "least"), [(140, 10, 6), (3068, 10, 8), (25, 2, 1), (12, 2, 1)])
def test_sizes_end_with_all_images(pool, classes, least):
    sizes = frozen_sizes(pool, classes)
    assert sizes[-1] == pool and len(sizes) >= least and sizes == sorted(set(sizes))
