"""Processes that train one network compare what decides the training."""

import pytest

from vit.training.callbacks.checks import facts_to_compare
from vit.training.planning.plan import plan_of
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import Recipe


@pytest.mark.faults("X6", "X7", simulated="what would be compared is computed in one process")
def test_what_is_compared_follows_from_the_data_and_the_options(colors, tmp_path, draw_classes):
    def facts(**changes):
        source = changes.pop("source", colors)
        return facts_to_compare(plan_of(Recipe(data=DataConfig(source=str(source)), **changes)))

    first = facts()
    assert facts(out="elsewhere", wandb="off") == first
    assert facts(seed=1)["options"] != first["options"]
    fewer = draw_classes(tmp_path / "colors", ("blue", "green", "red"), 13)
    assert facts(source=fewer)["images"] != first["images"] and facts(source=fewer)["options"] == first["options"]
