"""A checkpoint whose content is wrong or hostile: one error, and neither memory nor time is spent on it."""

import math
import time

import pytest
import torch

from vit.checkpoints.format import KEY, Description, checkpoint_content
from vit.checkpoints.load import load
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError, UsageError
from vit.models.spec import NetworkSpec


@pytest.fixture
def content():
    spec = NetworkSpec.named("vit_nano_patch2_8", 3, {"depth": 2})
    return checkpoint_content(Description(("a", "b", "c"), spec, Preprocess(8)), spec.build(8).state_dict())


def refused(content, tmp_path, *words):
    torch.save(content, tmp_path / "x.ckpt")
    started = time.monotonic()
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / "x.ckpt")
    assert time.monotonic() - started < 5
    for word in words:
        assert word in str(caught.value)


@pytest.mark.faults("C7", "C8", "C9")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.pop("network.head.bias"), ["head.bias is missing"]),
        (lambda s: s.update({"network.extra": torch.zeros(2)}), ["extra is unexpected"]),
        (lambda s: s.update({"network.head.bias": torch.zeros(4)}), ["head.bias", "(4,)", "(3,)"]),
        (lambda s: s.update({"network.head.bias": torch.zeros(3, dtype=torch.int64)}), ["head.bias", "int64"]),
        (lambda s: s.update({"network.head.bias": torch.tensor([0, math.nan, 0])}), ["not numbers", "head.bias"]),
        (lambda s: s.update({"network.pos_embed": torch.full((1, 17, 64), math.inf)}), ["not numbers"]),
        (lambda s: s.update({"network.head.bias": "0 0 0"}), ["did not write"]),
        (lambda s: s.update({"network.head.bias": torch.zeros(3).to_sparse()}), []),
        (lambda s: s.update({"network.huge": torch.zeros(1).expand(10**10)}), ["did not write"]),
        (lambda s: s.update({7: torch.zeros(3)}), ["did not write"]),
        (lambda s: s.clear(), []),
    ],
)
def test_wrong_weights(content, tmp_path, change, words):
    change(content["state_dict"])
    refused(content, tmp_path, *words)


@pytest.mark.parametrize("state", [None, [], "weights", 5])
def test_weights_that_are_no_dictionary(content, tmp_path, state):
    refused({**content, "state_dict": state}, tmp_path, "did not write")


@pytest.mark.parametrize("plain", [None, [], "vit", 5, {}, {"format": None}, {"format": "x"}, {"format": math.inf}])
def test_descriptions_that_are_none(content, tmp_path, plain):
    refused({**content, KEY: plain}, tmp_path, "description")


@pytest.mark.faults("C5", "C7")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "os.system"}, ["os.system"]),
        ({"name": "hf-hub:timm/resnet18"}, ["hf-hub"]),
        ({"name": "../../etc/passwd"}, []),
        ({"name": ["vit_nano_patch2_8"]}, []),
        ({"name": None}, []),
        ({"class_path": "os.system", "init_args": {"command": "true"}}, ["init_args"]),
        ({"class_path": "os.system"}, ["class_path"]),
        ({"network": {"class_path": "subprocess.run"}}, ["network"]),
        ({"depth": {"class_path": "x"}}, []),
        ({"depth": 2.5}, ["depth"]),
        ({"depth": True}, ["depth"]),
        ({"depth": -1}, ["depth"]),
        ({"depth": 10**9}, ["1000000000 blocks"]),
        ({"embed_dim": 10**6 * 4}, ["does not fit"]),
        ({"mlp_ratio": 1e30}, []),
        ({"mlp_ratio": math.nan}, []),
        ({"num_classes": 10**9}, ["num_classes is not set here"]),
        ({"image_size": 10**9}, ["image_size is not set here"]),
        ({"model": "resnet50"}, ["model"]),
        ({"pos_embed": "evil"}, ["pos_embed"]),
        ({"patch_size": 3}, ["patch_size 3"]),
        ({"num_heads": 7}, []),
        ({"depth": 1}, ["blocks.1"]),
    ],
)
def test_hostile_networks(content, tmp_path, change, words):
    content[KEY]["network"].update(change)
    refused(content, tmp_path, *words)


@pytest.mark.faults("C7")
def test_a_cnn_of_a_billion_blocks(content, tmp_path):
    content[KEY]["network"] = {"name": "resnet10_small", "layers": [10**9, 1, 1, 1]}
    refused(content, tmp_path, "1000000000 blocks")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ["a", "b", 3]}, ["class names"]),
        ({"classes": ["a", "b", "x" * 1001]}, ["class names"]),
        ({"classes": 3}, []),
        ({"precision": "64-true"}, ["64-true"]),
        ({"precision": ["32-true"]}, []),
        ({"temperature": 0.0}, ["temperature"]),
        ({"temperature": math.nan}, ["temperature"]),
        ({"temperature": 1e-300}, ["temperature"]),
        ({"temperature": 1e300}, ["temperature"]),
        ({"temperature": "warm"}, []),
        ({"metrics": {"val/acc1": "high"}}, []),
        ({"metrics": []}, []),
        ({"versions": None}, []),
        ({"network": None}, []),
        ({"preprocess": None}, []),
        ({"preprocess": []}, []),
    ],
)
def test_hostile_descriptions(content, tmp_path, change, words):
    content[KEY].update(change)
    refused(content, tmp_path, "broken description", *words)


def test_a_description_without_classes_is_of_a_pretraining(content, tmp_path):
    content[KEY]["classes"] = []
    refused(content, tmp_path, "a layer for classes, and no names of classes")
    for name in ("weight", "bias"):
        content["state_dict"].pop(f"network.head.{name}")
    torch.save(content, tmp_path / "x.ckpt")
    with pytest.raises(UsageError, match="of a pretraining"):
        load(tmp_path / "x.ckpt")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ["crane", "b", "crane"]}, ["classes 0 and 2 are both called 'crane'", "vit convert"]),
        ({"classes": ["a", "b"]}, ["head.bias is (3,) float32, not (2,)"]),
        ({"preprocess": Preprocess(16).to_dict()}, ["pos_embed is (1, 17, 64)"]),
    ],
)
def test_descriptions_that_do_not_fit_the_weights(content, tmp_path, change, words):
    content[KEY].update(change)
    refused(content, tmp_path, *words)


@pytest.mark.parametrize("key", ["classes", "network", "preprocess", "precision", "temperature", "metrics", "versions"])
def test_a_description_without_one_of_its_keys(content, tmp_path, key):
    del content[KEY][key]
    refused(content, tmp_path, "broken description", key)


@pytest.mark.parametrize(
    "change",
    [
        {"image_size": 0},
        {"image_size": 10**9},
        {"image_size": 8.0},
        {"image_size": "8"},
        {"crop_fraction": 0.0},
        {"crop_fraction": 1e-9},
        {"crop_fraction": 1.5},
        {"crop_fraction": "all"},
        {"mean": [0.5, 0.5]},
        {"mean": "abc"},
        {"mean": 0.5},
        {"std": [0.2, 0.0, 0.2]},
        {"std": [0.2, math.nan, 0.2]},
        {"interpolation": "lanczos"},
        {"interpolation": None},
        {"window": [5.0, 5.0]},
        {"window": [0.0]},
        {"window": [0.0, math.inf]},
        {"transform": "os.system"},
    ],
)
def test_hostile_preprocessing(content, tmp_path, change):
    content[KEY]["preprocess"].update(change)
    refused(content, tmp_path, "broken description")


def test_preprocessing_that_lacks_a_value_is_refused(content, tmp_path):
    """A default would be a guess: a network that was trained with other colors would give other labels."""
    del content[KEY]["preprocess"]["color_profiles"]
    refused(content, tmp_path, "broken description", "lacks color_profiles")


@pytest.mark.faults("C5")
def test_what_stands_beside_our_keys_is_not_used(content, tmp_path):
    torch.save({**content, "hyper_parameters": {"class_path": "os.system"}, "epoch": "x"}, tmp_path / "x.ckpt")
    assert load(tmp_path / "x.ckpt")[1].class_names == ("a", "b", "c")
