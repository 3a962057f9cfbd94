"""Files that could be read in two ways, or that state more than their tensors show."""

import argparse
import json
import shutil

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from vit.errors import CheckpointError
from vit.weights.file import read_weights_file
from vit.weights.folder import StatedFacts
from vit.weights.formats.weight_format import TimmModel
from vit.weights.open import _preprocess, open_pretrained

VIT, CNN, SIDE = "vit_tiny_patch16_224", "resnet18", 96
SETTINGS = {"mean": None, "std": None, "crop_pct": None, "interpolation": ""}  # of timm's train.py
PROCESSOR = {"image_processor_type": "ViTImageProcessor", "image_mean": [0.4] * 3, "image_std": [0.2] * 3, "size": 32}


@pytest.fixture(scope="module")
def cnn():
    return timm.create_model(CNN, num_classes=7).eval()


@pytest.fixture(scope="module")
def small_vit():
    return timm.create_model(VIT, depth=1, num_classes=5).eval()


@pytest.fixture(scope="module")
def of_transformers(tmp_path_factory):
    """(a ViT of transformers with another activation, its folder)."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    config = transformers.ViTConfig(
        hidden_size=48, num_hidden_layers=1, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        hidden_act="quick_gelu", id2label={0: "ant", 1: "bee", 2: "cat"}, label2id={"ant": 0, "bee": 1, "cat": 2},
    )  # fmt: skip
    model, folder = transformers.ViTForImageClassification(config).eval(), tmp_path_factory.mktemp("transformers")
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return model, folder


@pytest.fixture
def changed(of_transformers, tmp_path):
    """A function that copies the folder with other values in its configs."""

    def make(config=None, processor=None):
        folder = shutil.copytree(of_transformers[1], tmp_path / "changed", dirs_exist_ok=True)
        for name, values in (("config.json", config), ("preprocessor_config.json", processor)):
            plain = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps({**plain, **(values or {})}))
        return folder

    return make


def saved(path, content):
    torch.save(content, path)
    return str(path)


@pytest.mark.faults("P9")
@pytest.mark.slow
def test_the_image_size_that_a_training_states(cnn, tmp_path):
    """A CNN fits any size, so that a wrong one is a silently worse result."""
    state, settings = cnn.state_dict(), {**SETTINGS, "model": CNN}
    for stated in ({"img_size": SIDE}, {"input_size": [3, SIDE, SIDE]}, {"image_size": SIDE}, {"val_crop_size": SIDE}):
        args = argparse.Namespace(**settings, **stated)
        found = open_pretrained(saved(tmp_path / "a.pth.tar", {"state_dict": state, "arch": CNN, "args": args}))
        assert found.own_network().image_size == SIDE and "image_size" not in found.guesses(), stated
    args = argparse.Namespace(**settings, input_size=[3, SIDE, 128])
    with pytest.raises(CheckpointError, match="img_size"):
        open_pretrained(saved(tmp_path / "a.pth.tar", {"state_dict": state, "arch": CNN, "args": args}))
    assert "image_size" in open_pretrained(saved(tmp_path / "a.pth.tar", {"state_dict": state, "arch": CNN})).guesses()


@pytest.mark.faults("P9")
@pytest.mark.parametrize("stated", [{"input_size": [3, SIDE, SIDE]}, {"input_size": [3, SIDE, 128]}])
def test_the_image_size_of_a_hub_folder_is_that_of_its_weights(stated, cnn, tmp_path):
    """timm has several sets of weights for one architecture, each with its own size."""
    save_file(cnn.state_dict(), tmp_path / "model.safetensors")
    config = {"mean": [0.5] * 3, "std": [0.5] * 3, "crop_pct": 1.0, "interpolation": "bicubic", **stated}
    (tmp_path / "config.json").write_text(json.dumps({"architecture": CNN, "pretrained_cfg": config}))
    if stated["input_size"][-1] == SIDE:
        assert open_pretrained(str(tmp_path)).own_network().image_size == SIDE
    else:
        with pytest.raises(CheckpointError, match="only squares are supported"):
            open_pretrained(str(tmp_path))


def test_a_network_of_timm_for_images_that_are_no_squares_is_refused():
    model = TimmModel("vit_base_patch16_sapiens2", {"input_size": (3, 1024, 768)}, None, 1024, {})
    with pytest.raises(CheckpointError, match=r"sapiens2: input_size is .* only squares are supported"):
        _preprocess(StatedFacts(model=model, is_exact=True), model, None)


def test_published_files_of_torchvision_have_the_image_size_of_torchvision(tmp_path):
    state = timm.create_model("efficientnetv2_s", num_classes=1000).state_dict()
    found = open_pretrained(saved(tmp_path / "efficientnet_v2_s-dd5fe13b.pth", state))
    assert found.own_network().image_size == 384 and found.preprocess["crop_fraction"] == 1.0


@pytest.mark.faults("P9")
@pytest.mark.parametrize(
    "stated", [{"gp": "max"}, {"bn_eps": 0.1}, {"in_chans": 1}, {"model_kwargs": {"act_layer": "silu"}}]
)
def test_a_training_that_changed_the_network_is_refused(stated, cnn, tmp_path):
    """The tensors have the same names and shapes."""
    for values in (stated, {"gp": "avg", "bn_eps": None, "model_kwargs": {"drop_path_rate": 0.1}}):
        args = argparse.Namespace(model=CNN, **SETTINGS, **values)
        path = saved(tmp_path / "a.pth.tar", {"state_dict": cnn.state_dict(), "arch": CNN, "args": args})
        if values is stated:
            with pytest.raises(CheckpointError, match=r"changes timm's resnet18"):
                open_pretrained(path)
        else:
            open_pretrained(path)


def test_a_file_of_a_folder_is_read_with_the_configs_beside_it(of_transformers, changed):
    model, folder = of_transformers
    images = torch.randn(2, 3, 32, 32)
    for source in (folder, folder / "model.safetensors"):
        found = open_pretrained(str(source))
        with torch.no_grad():
            assert torch.allclose(found.build(3).network.eval()(images), model(images).logits, atol=1e-5)
        assert found.class_names == ("ant", "bee", "cat") and found.guesses() == "" and found.choice == ""
    other = changed()
    torch.save({name: value + 1 for name, value in model.state_dict().items()}, other / "pytorch_model.bin")
    assert open_pretrained(str(other)).choice == "model.safetensors, and not pytorch_model.bin"


@pytest.mark.parametrize("prefix", ["", "module.", "model."])
@pytest.mark.parametrize("family", ["ViT", "Dinov2"])
def test_networks_of_transformers_inside_other_programs(family, prefix, tmp_path):
    """A state dict has the names of the memory, and `save_pretrained` writes others."""
    import transformers

    sizes = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
    config = getattr(transformers, f"{family}Config")(**sizes, num_labels=3, use_swiglu_ffn=True)
    model = getattr(transformers, f"{family}ForImageClassification")(config).eval()
    model.save_pretrained(tmp_path)
    images = torch.randn(2, 3, 32, 32)
    for state in (model.state_dict(), load_file(tmp_path / "model.safetensors")):
        found = open_pretrained(saved(tmp_path / "a.ckpt", {"state_dict": {prefix + k: v for k, v in state.items()}}))
        with torch.no_grad():
            ours = found.build(3, given={"num_heads": 4}).network.eval()(images)
            assert torch.allclose(ours, model(images).logits, atol=1e-5)


@pytest.mark.faults("P9")
@pytest.mark.parametrize(
    ("config", "processor", "words"),
    [
        ({"label2id": {"ant": 1, "bee": 0, "cat": 2}}, None, "number the classes in different orders"),
        ({"label_names": ["bee", "ant", "cat"]}, None, "id2label and label_names number"),
        ({"pretrained_cfg": {"label_names": ["bee", "ant", "cat"]}}, None, "id2label and pretrained_cfg.label_names"),
        ({"image_size": [16, 64]}, None, "only squares are supported"),
        (None, {"image_mean": [123.7, 116.3, 103.5]}, "divide numbers of pixels from 0 to 255 by 255"),
        (None, {"resample": 0}, "'nearest' is not supported"),
    ],
)
def test_configs_that_cannot_be_followed_are_refused(config, processor, words, changed):
    with pytest.raises(CheckpointError, match=words):
        open_pretrained(str(changed(config, processor)))


def test_names_of_labels_that_two_classes_share_are_no_contradiction(changed):
    found = open_pretrained(str(changed({"id2label": {"0": "a", "1": "a", "2": "c"}, "label2id": {"a": 1, "c": 2}})))
    assert found.class_names == ("a", "a", "c")


@pytest.mark.faults("P10")
def test_classifiers_that_give_no_classes_are_not_converted(small_vit, changed, vit, here):
    state = small_vit.state_dict()
    one = {name: value[:1] if name.startswith("head.") else value for name, value in state.items()}
    zero = {name: value * (not name.startswith("head.")) for name, value in state.items()}
    own_head = {f"backbone.{name}": value for name, value in state.items()} | {"fc.weight": torch.ones(3, 5)}
    for source, words in (
        (saved(here / "one.pth", one), "has one output"),
        (saved(here / "zero.pth", zero), "the weights of its classifier are 0"),
        (changed({"problem_type": "regression"}), "it predicts numbers"),
    ):
        vit("convert", source, "--output", "x.ckpt", "--num_heads", 3).failed(4, words, "--init_from")
    answer = vit("convert", saved(here / "own.pth", own_head), "--output", "x.ckpt", "--num_heads", 3)
    assert answer.code == 0 and "other weights beside this network: fc.weight; if it ends in one" in answer.err


def test_weights_that_are_all_zero_are_refused(small_vit, tmp_path):
    """As a download that was reserved on the disk and never came: safetensors has no checksums."""
    save_file(
        {name: torch.zeros_like(value) for name, value in small_vit.state_dict().items()}, tmp_path / "a.safetensors"
    )
    with pytest.raises(CheckpointError, match="are 0"):
        open_pretrained(str(tmp_path / "a.safetensors"))


def test_a_network_that_its_program_calls_vit(small_vit, tmp_path):
    found = open_pretrained(saved(tmp_path / "a.pth", {"vit": small_vit.state_dict(), "epoch": 3}))
    assert found.format == "timm" and found.num_classes == 5


@pytest.mark.parametrize("ending", ["pth", "safetensors", "npz", "bin"])
def test_what_stands_in_the_place_of_a_download_is_named(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    for start, words in (
        (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs pointer"),
        (b"<html>", "an HTML page"),
    ):
        path.write_bytes(start)
        with pytest.raises(CheckpointError, match=words):
            open_pretrained(str(path))


def test_a_folder_of_pickled_parts(small_vit, tmp_path):
    state, names = small_vit.state_dict(), {}
    for number in range(2):
        part = f"pytorch_model-0000{number + 1}-of-00002.bin"
        torch.save({name: state[name] for name in list(state)[number::2]}, tmp_path / part)
        names |= dict.fromkeys(list(state)[number::2], part)
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": names}))
    assert read_weights_file(tmp_path).weights.keys() == state.keys()
