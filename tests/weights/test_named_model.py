"""Names of files and of timm's models: the model that each one stands for."""

import pytest

from vit.weights.named_model import named_model


@pytest.mark.parametrize("name", ["no_such_model", "model", "", "best.ckpt"])
def test_other_names_stand_for_no_model(name):
    assert named_model(name) is None


@pytest.mark.parametrize("name", ["deit_tiny_patch16_224", "deit_tiny_patch16_224.fb_in1k"])
def test_names_of_timm_stand_for_its_model_with_and_without_a_tag(name):
    found = named_model(name)
    assert found is not None and found.name == "deit_tiny_patch16_224" and found.shapes["cls_token"] == (1, 1, 192)


@pytest.mark.filterwarnings("ignore:Mapping deprecated")
def test_an_old_name_of_timm_stands_for_its_model():
    assert named_model("vit_tiny_patch16_224_in21k").shapes["cls_token"] == (1, 1, 192)
