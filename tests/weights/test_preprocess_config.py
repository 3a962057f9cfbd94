"""Preprocessing that the configurations beside weights describe, in the keys of three libraries."""

import json

import pytest
from safetensors.torch import save_file
from timm.data import resolve_data_config

from tests.weights.test_open import HALF, IMAGENET, weights_of
from vit.errors import CheckpointError
from vit.weights.open import open_pretrained
from vit.weights.preprocess_config import from_hugging_face_config, from_settings

MEANS = {"image_mean": HALF, "image_std": HALF}


@pytest.mark.parametrize(
    ("files", "expected", "whose"),
    [
        (
            {"preprocessor_config.json": {"image_mean": HALF, "image_std": HALF, "resample": 2, "do_center_crop": True,
                                          "size": {"shortest_edge": 10}, "crop_size": {"height": 8, "width": 8}}},
            {"mean": HALF, "std": HALF, "interpolation": "bilinear", "crop_fraction": 0.8,
             "resize_mode": "shortest"},
            "preprocessor_config.json",
        ),
        (
            {"config.json": {"pretrained_cfg": {"mean": HALF, "std": HALF, "crop_pct": 0.95, "crop_mode": "squash"}}},
            {"mean": HALF, "std": HALF, "interpolation": "bicubic", "crop_fraction": 224 / 235,
             "resize_mode": "squash"},
            "config.json",
        ),
        (
            {"open_clip_config.json": {"preprocess_cfg": {"mean": HALF, "std": IMAGENET, "resize_mode": "squash"}}},
            {"mean": HALF, "std": IMAGENET, "interpolation": "bicubic", "crop_fraction": 1.0,
             "resize_mode": "squash"},
            "open_clip_config.json",
        ),
        ({}, {"mean": IMAGENET, "std": (0.229, 0.224, 0.225), "interpolation": "bicubic"}, "usual for timm"),
    ],
    ids=["transformers", "timm", "openclip", "nothing"],
)  # fmt: skip
def test_preprocessing_of_a_folder(files, expected, whose, tmp_path):
    save_file(weights_of(), tmp_path / "model.safetensors")
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    found = open_pretrained(str(tmp_path))
    assert found.preprocess == expected and found.preprocess_from.startswith(whose)


@pytest.mark.parametrize(
    ("config", "mode", "fraction"),
    [
        ({"size": {"height": 8, "width": 8}}, "squash", 1.0),
        ({"size": 8}, "squash", 1.0),
        ({"size": 8, "crop_size": 8, "do_center_crop": True}, "shortest", 1.0),
        ({"size": 8, "image_processor_type": "CLIPImageProcessor"}, "shortest", 1.0),
        ({"size": 10, "crop_size": 8, "feature_extractor_type": "DeiTFeatureExtractor"}, "squash", 0.8),
        ({"size": {"height": 10, "width": 10}, "crop_size": {"height": 8, "width": 8}}, "squash", 0.8),
        ({"size": {"shortest_edge": 8}}, "shortest", 1.0),
        ({"size": {"shortest_edge": 224}, "image_processor_type": "ConvNextImageProcessor"}, "shortest", 224 / 256),
        ({"size": 224, "crop_pct": 0.9, "feature_extractor_type": "ConvNextFeatureExtractor"}, "shortest", 224 / 248),
        ({"size": {"shortest_edge": 384}, "image_processor_type": "ConvNextImageProcessor"}, "squash", 1.0),
    ],
)
def test_a_library_that_squashes_pictures_is_followed(config, mode, fraction, tmp_path):
    save_file(weights_of(), tmp_path / "model.safetensors")
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": HALF, "image_std": HALF, "resample": 2, **config})
    )
    found = open_pretrained(str(tmp_path)).preprocess
    assert (found["resize_mode"], found["crop_fraction"]) == (mode, fraction)


@pytest.mark.parametrize(
    ("file", "config", "words"),
    [
        ("config.json", {"pretrained_cfg": {"crop_mode": "middle"}}, "crop_mode is 'middle'"),
        (
            "open_clip_config.json",
            {"preprocess_cfg": {"mean": HALF, "std": HALF, "resize_mode": "longest"}},
            "'longest'",
        ),
        ("preprocessor_config.json", {**MEANS, "size": {"longest_edge": 8}}, "padding a picture is not supported"),
        ("preprocessor_config.json", {**MEANS, "size": {"height": 8, "width": 16}}, "not a square"),
    ],
)
def test_a_library_that_pads_pictures_is_refused(file, config, words, tmp_path):
    save_file(weights_of(), tmp_path / "model.safetensors")
    (tmp_path / file).write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=rf"/{file} has preprocessing that cannot be used: [^(]*{words}"):
        open_pretrained(str(tmp_path))


@pytest.mark.faults("P9")
def test_configs_of_a_folder_that_contradict_each_other_are_refused(tmp_path):
    save_file(weights_of(), tmp_path / "model.safetensors")
    processor = {**MEANS, "resample": 3, "size": 8}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    for mean in (HALF, IMAGENET):
        theirs = {"preprocess_cfg": {"mean": mean, "std": HALF}}
        (tmp_path / "open_clip_config.json").write_text(json.dumps(theirs))
        if mean == HALF:
            assert open_pretrained(str(tmp_path)).preprocess_from == "preprocessor_config.json"
    with pytest.raises(CheckpointError, match=r"itself: mean .*preprocessor_config.json and mean .*open_clip_config"):
        open_pretrained(str(tmp_path))


@pytest.mark.parametrize("key", ["image_mean", "image_std", "size", "crop_size", "resample"])
def test_what_transformers_would_take_from_a_class_is_asked_for(key, tmp_path):
    """A processor's class has means and sizes of its own for keys that its file lacks."""
    whole = {"image_mean": HALF, "image_std": HALF, "resample": 3, "size": 8, "crop_size": 8, "do_center_crop": True}
    save_file(weights_of(), tmp_path / "model.safetensors")
    for stated in ({}, {key: None}):
        config = {**{name: value for name, value in whole.items() if name != key}, **stated}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
        with pytest.raises(CheckpointError, match=f"preprocessor_config.json has no {key}.*save_pretrained"):
            open_pretrained(str(tmp_path))
    unresized = {"do_resize": False, "do_center_crop": False}
    unused = {"image_mean": {"do_normalize": False}, "image_std": {"do_normalize": False}, "size": unresized,
              "crop_size": {"do_center_crop": False}, "resample": unresized}[key]  # fmt: skip
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**config, **unused}))
    assert open_pretrained(str(tmp_path)).preprocess_from.startswith("preprocessor_config.json")


def test_the_size_and_the_resize_of_a_processor_are_not_passed_over(tmp_path):
    """A network for 8 pixels: images of another size, and images that nothing resizes, were taken without a word."""
    save_file(weights_of(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"image_size": 8}))
    for stated, guesses, whose in (
        ({}, (), "preprocessor_config.json"),
        ({"size": 16}, ("image_size",), "preprocessor_config.json, which makes images of 16 pixels, and config.json"),
        ({"do_resize": False}, ("crop_fraction", "interpolation"), "preprocessor_config.json, else usual for timm"),
    ):
        processor = {**MEANS, "resample": 2, "size": 8, **stated}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
        found = open_pretrained(str(tmp_path))
        assert found.guessed == guesses and found.preprocess_from.startswith(whose)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**processor, "crop_size": 8}))
    with pytest.raises(CheckpointError, match="a crop of pictures that are not resized is not supported"):
        open_pretrained(str(tmp_path))


@pytest.mark.parametrize(
    ("config", "mode", "fraction"),
    [
        ({"do_normalize": True, "do_resize": True, "image_mean": HALF, "image_std": HALF, "size": 224},
         "squash", 1.0),  # google/vit-base-patch16-224-in21k
        ({"crop_size": 224, "do_center_crop": True, "do_normalize": True, "do_resize": True, "resample": 3,
          "feature_extractor_type": "DeiTFeatureExtractor", "image_mean": IMAGENET, "image_std": IMAGENET,
          "size": 256}, "squash", 0.875),  # facebook/deit-base-patch16-224
        ({"crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "do_convert_rgb": True,
          "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": IMAGENET, "image_std": IMAGENET,
          "image_processor_type": "BitImageProcessor", "resample": 3, "rescale_factor": 0.00392156862745098,
          "size": {"shortest_edge": 256}}, "shortest", 0.875),  # facebook/dinov2-base
        ({"crop_size": None, "do_center_crop": None, "do_normalize": True, "do_rescale": True, "do_resize": True,
          "image_mean": IMAGENET, "image_std": IMAGENET, "image_processor_type": "DINOv3ViTImageProcessorFast",
          "resample": 2, "rescale_factor": 0.00392156862745098, "size": {"height": 224, "width": 224}},
         "squash", 1.0),  # facebook/dinov3-vits16-pretrain-lvd1689m
    ],
    ids=["vit", "deit", "dinov2", "dinov3"],
)  # fmt: skip
def test_published_configs_state_all_keys(config, mode, fraction):
    found, side = from_hugging_face_config(config, "vit")
    assert side == 224
    assert found["interpolation"] == ("bicubic" if config.get("resample") == 3 else "bilinear")
    assert (found["resize_mode"], found["crop_fraction"]) == (mode, fraction)
    assert (found["mean"], found["std"]) == (tuple(config["image_mean"]), tuple(config["image_std"]))


@pytest.mark.parametrize(
    "config",
    [
        {"image_mean": [1]}, {"rescale_factor": 1 / 127.5}, {"size": "large"}, {"do_rescale": False},
        {"image_processor_type": "LevitImageProcessor"}, {"size": 8, "do_flip_channel_order": True},
    ],
)  # fmt: skip
def test_preprocessing_that_cannot_be_used(config, tmp_path):
    save_file(weights_of(), tmp_path / "model.safetensors")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="preprocessing"):
        open_pretrained(str(tmp_path))


@pytest.mark.parametrize("unset", [None, ""])
def test_what_a_training_of_timm_leaves_empty_is_that_of_the_model(unset):
    """Its train.py keeps "" as the interpolation of every training that does not name one."""
    settings = {"mean": None, "std": None, "crop_pct": None, "interpolation": unset}
    base = {"input_size": (3, 224, 224), "mean": HALF, "std": HALF, "crop_pct": 0.875, "interpolation": "bilinear"}
    values, program = from_settings(settings, base)
    assert values["interpolation"] == resolve_data_config(dict(settings), pretrained_cfg=base)["interpolation"]
    assert program == "timm's train.py" and values["mean"] == HALF
