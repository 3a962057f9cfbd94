"""`vit convert` and `--init_from`: foreign weights predict at once, and are a start for training."""

import json
import os

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file

from tests.tables import rows
from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.checkpoints.load import load
from vit.checkpoints.validation_scores import ValidationScores
from vit.commands.exporting.convert import _class_names
from vit.data.pixels.preprocess import Preprocess
from vit.models.spec import NetworkSpec, create_network
from vit.weights.pretrained import PretrainedWeights, imagenet_classes

QUICK = ("--epochs", 1, "--optim.warmup", 0, "--wandb", "off")


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    made = create_network("vit_nano_patch2_8", 3, 8, depth=2, num_heads=1, qk_norm=True).eval()
    torch.nn.init.normal_(made.head.weight)
    return made


@pytest.fixture
def folder(network, tmp_path):
    """A folder as Hugging Face's hub has them."""
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    preprocess = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.5] * 3, "resample": 2, "size": 8}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(preprocess))
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "red", "1": "green", "2": "blue"}}))
    return tmp_path


def refused(answer, code, *words):
    """The answer is one line on standard error."""
    assert answer.failed(code, *words).err.count("\n") == 1


def test_a_card_says_where_weights_came_from_without_their_folder(vit, folder, here):
    vit("convert", folder / "model.safetensors", "--output", "x.ckpt", "--card", "card.md", "--num_heads", 1).ok()
    text = (here / "card.md").read_text()
    assert "converted from weights in a file or folder, model.safetensors." in text and str(folder) not in text
    assert "vit.load('x.ckpt')" in text and "Unknown: no accuracy on test images is recorded." in text
    refused(vit("convert", folder, "--output", "y.ckpt", "--card", "card.md"), 2, "card.md exists")


def test_convert_then_predict(vit, folder, network, colors):
    answer = vit("convert", folder, "--output", folder / "x.ckpt").ok()
    for word in ("timm", "preprocessor_config.json", "red, green, blue", "matched", "vit predict"):
        assert word in answer.out
    loaded, description = load(folder / "x.ckpt")
    images = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        assert torch.equal(loaded(images), network(images))
    assert description.preprocess == Preprocess(8, 1.0, (0.4, 0.5, 0.6), (0.5, 0.5, 0.5), "bilinear", "squash")
    predicted = vit("predict", folder / "x.ckpt", colors / "red", "--output", folder / "rows.csv")
    assert predicted.code == 0 and (folder / "rows.csv").read_text().count(",ok,") == 14
    refused(vit("convert", folder, "--output", folder / "x.ckpt"), 2, "exists")


@pytest.mark.parametrize("source", ["own.ckpt", "exported.safetensors"])
def test_probabilities_stay_calibrated(vit, network, colors, tmp_path, source):
    own, rows = tmp_path / "own.ckpt", {}
    scores = ValidationScores.of(np.arange(3), np.full((3, 3), 1 / 3, np.float32))
    description = Description(
        ("blue", "green", "red"),
        NetworkSpec.named("vit_nano_patch2_8", 3, {"depth": 2, "num_heads": 1, "qk_norm": True}),
        Preprocess(8, 1.0),
        temperature=0.25,
        validation_scores=scores,
    )
    write_checkpoint(checkpoint_content(description, network.state_dict()), own)
    if source != own.name:
        assert vit("export", own, "--format", "safetensors", "--output", tmp_path / source).code == 0
    vit("convert", tmp_path / source, "--output", tmp_path / "back.ckpt").ok("0.250, as in the source")
    assert load(tmp_path / "back.ckpt")[1].validation_scores.to_plain() == scores.to_plain()
    for name in (own.name, "back.ckpt"):
        options = ("--output", tmp_path / f"{name}.csv", "--probabilities")
        assert vit("predict", tmp_path / name, colors / "red", *options).code == 0
        rows[name] = (tmp_path / f"{name}.csv").read_text()
    assert rows["own.ckpt"] == rows["back.ckpt"]

    others = ("--image_size", 12, "--activation", "quick_gelu") if source == own.name else ("--image_size", 12)
    answer = vit("convert", tmp_path / source, "--output", tmp_path / "other.ckpt", *others).ok("0.250 is not kept")
    assert ("WARNING: --activation quick_gelu takes the place of gelu" in answer.err) == (source == own.name)
    other = load(tmp_path / "other.ckpt")[1]
    assert other.temperature == 1 and other.validation_scores is None


def test_other_names_have_other_groups(vit, network, tmp_path):
    """The scores of the groups "a" and "b" became those of whatever groups the new names had."""
    names, chances = ("a/x", "a/y", "b/z"), np.full((3, 3), 1 / 3, np.float32)
    scores = ValidationScores.of(np.arange(3), chances, class_names=names)
    spec = NetworkSpec.named("vit_nano_patch2_8", 3, {"depth": 2, "num_heads": 1, "qk_norm": True})
    description = Description(names, spec, Preprocess(8, 1.0), validation_scores=scores)
    write_checkpoint(checkpoint_content(description, network.state_dict()), tmp_path / "own.ckpt")
    assert len(scores.levels) == 1
    for number, text in enumerate(("x\ny\nz", "c/x\nd/y\nd/z")):
        (tmp_path / "names.txt").write_text(text)
        path = tmp_path / f"{number}.ckpt"
        vit("convert", tmp_path / "own.ckpt", "--output", path, "--class_names", tmp_path / "names.txt").ok()
        kept = load(path)[1].validation_scores
        assert kept.levels == () and kept.own.tolist() == scores.own.tolist()


def test_another_size_and_other_names(vit, folder):
    (folder / "names.txt").write_text("a\nb\nc\n")
    options = ("--image_size", 12, "--patch_size", 4, "--class_names", folder / "names.txt")
    answer = vit("convert", folder, "--output", folder / "x.ckpt", *options).ok()
    assert "4 x 4 -> 3 x 3 patches" in answer.out and "patches of 2 -> 4 pixels" in answer.out
    assert load(folder / "x.ckpt")[1].class_names == ("a", "b", "c")
    (folder / "names.txt").write_text("a\nb\n")
    refused(vit("convert", folder, "--output", folder / "y.ckpt", *options), 3, "2 names for 3 classes")


def test_a_name_of_two_classes_gets_their_numbers(vit, folder, draw_classes, here):
    """As "crane" of ImageNet, in many lists of its classes."""
    (folder / "config.json").write_text(json.dumps({"id2label": {"0": "crane", "1": "crane (0)", "2": "crane"}}))
    answer = vit("convert", folder, "--output", "x.ckpt").ok()
    names = ("crane (0) (0)", "crane (0) (1)", "crane (2)")
    assert load(here / "x.ckpt")[1].class_names == names
    assert "3 classes got the number into the name: crane (0) (0), crane (0) (1), crane (2)" in answer.out
    data = draw_classes(here / "photos", names, 3, side=8)
    assert vit("predict", "x.ckpt", data, "--recursive", "--probabilities", "--output", "rows.csv").code == 0
    for row in rows("rows.csv"):
        found = {name: float(row[f"p_{name}"]) for name in names}
        assert sum(found.values()) == pytest.approx(1, abs=1e-5)
        assert found[row["label"]] == max(found.values()) == float(row["probability"])
    assert vit("evaluate", "x.ckpt", data, "--output", "out").code == 0
    by_class = json.loads((here / "out" / "metrics.json").read_text())["per_class"]
    assert [(one["class"], one["images"]) for one in by_class] == [(name, 3) for name in names]


def test_a_thousand_names_are_imagenet_s_only_if_they_are_the_same():
    own = tuple(f"part {number}" for number in range(1000))
    for names, whose in ((own, "the source's"), (imagenet_classes(1000), "ImageNet's")):
        found = PretrainedWeights("x", "timm", {}, 1000, names, {}, "the file")
        assert _class_names(found, None) == (names, whose)


def test_a_list_of_classes_with_a_mark_of_byte_order_and_odd_characters(vit, folder):
    (folder / "names.txt").write_bytes("\ufefftench\r\na\u2028b\r\na\x85b\r\n".encode())
    vit("convert", folder, "--output", folder / "x.ckpt", "--class_names", folder / "names.txt").ok()
    assert load(folder / "x.ckpt")[1].class_names == ("tench", "a\u2028b", "a\x85b")


def test_a_list_that_is_not_utf8_is_refused(vit, folder):
    """Its names would be damaged for good."""
    (folder / "names.txt").write_bytes("caf\xe9\nb\nc\n".encode("latin-1"))
    answer = vit("convert", folder, "--output", folder / "x.ckpt", "--class_names", folder / "names.txt")
    refused(answer, 3, f"{folder / 'names.txt'} is not UTF-8", "save it as UTF-8")
    assert not (folder / "x.ckpt").exists()


def test_repeated_names_are_refused_and_spaces_around_a_name_do_not_count(vit, folder):
    options = ("--output", folder / "x.ckpt", "--class_names", folder / "names.txt")
    twice = "'a' in line 1 and in line 3"
    for text, words in (("a\nb\na\n", twice), ("a \nb\na\n", twice), ("a\n \nc\n", "one name in each line")):
        (folder / "names.txt").write_text(text)
        refused(vit("convert", folder, *options), 3, words)
    (folder / "names.txt").write_text(" a\t\nsea lion \nc")
    vit("convert", folder, *options).ok()
    assert load(folder / "x.ckpt")[1].class_names == ("a", "sea lion", "c")


@pytest.mark.parametrize(("prefix", "layer"), [("", "head.1"), ("", "fc"), ("net.", "fc")])
def test_a_classifier_of_another_name_is_named(prefix, layer, vit, network, tmp_path):
    """Once the answer was to train again, though the file has the classifier."""
    names = {name: layer + name.removeprefix("head") if name.startswith("head.") else prefix + name
             for name in network.state_dict()}  # fmt: skip
    save_file({names[name]: value.clone() for name, value in network.state_dict().items()}, tmp_path / "x.safetensors")
    answer = vit("convert", tmp_path / "x.safetensors", "--output", tmp_path / "x.ckpt")
    refused(answer, 4, f"its classifier may be {layer}.weight", "call that head, below the prefix of the other names")
    spoiled = {names[name]: value.clone() for name, value in network.state_dict().items() if "norm1" not in name}
    save_file(spoiled, tmp_path / "y.safetensors")
    refused(vit("convert", tmp_path / "y.safetensors", "--output", tmp_path / "y.ckpt"), 4, "norm1.bias is missing")


def test_weights_without_a_classifier(vit, network, tmp_path):
    state = {name: value for name, value in network.state_dict().items() if not name.startswith("head.")}
    save_file(state, tmp_path / "x.safetensors")
    answer = vit("convert", tmp_path / "x.safetensors", "--output", tmp_path / "x.ckpt")
    refused(answer, 4, "no classifier", "vit train DATA --init_from")
    assert not (tmp_path / "x.ckpt").exists()


def test_a_classifier_behind_a_layer_of_old_timm_is_not_taken_for_one(vit, network, colors, tmp_path):
    """tokens -> norm -> pre_logits (tanh) -> head: without that layer the head gives other classes."""
    state = {name: value.clone() for name, value in network.state_dict().items()}
    layer = {"pre_logits.fc.weight": torch.eye(64), "pre_logits.fc.bias": torch.zeros(64)}
    save_file({**state, **layer}, tmp_path / "x.safetensors")
    source, output = tmp_path / "x.safetensors", tmp_path / "x.ckpt"
    refused(vit("convert", source, "--output", output), 4, "reads pre_logits", "vit train DATA --init_from")
    options = ("--init_from", source, "--out", tmp_path / "runs", *QUICK)
    answer = vit("train", colors, *options, "--batch_size", 8).ok()
    assert "weights, initialized: head.bias, head.weight" in answer.err and "it reads pre_logits" in answer.err


def test_hostile_sources(vit, network, colors, tmp_path):
    state = {name: value.clone() for name, value in network.state_dict().items()}
    save_file({**state, "surprise": torch.ones(1)}, tmp_path / "surprise.safetensors")
    save_file({"x": torch.ones(1)}, tmp_path / "unknown.safetensors")
    save_file({**state, "norm.weight": torch.ones(5)}, tmp_path / "shape.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "surprise.safetensors").read_bytes()[:-10])
    torch.save({"x": os.system}, tmp_path / "code.pth")
    cases = {
        "surprise.safetensors": "surprise is unexpected",
        "unknown.safetensors": "no ViT that is known",
        "shape.safetensors": "norm.weight is (5,)",
        "cut.safetensors": "not a whole safetensors file",
        "code.pth": "would run code",
        "gone.pth": "there is no file",
    }
    for name, words in cases.items():
        refused(vit("convert", tmp_path / name, "--output", tmp_path / "x.ckpt"), 4, words, name)
        options = ("--init_from", tmp_path / name, "--out", tmp_path / "runs", "--wandb", "off")
        refused(vit("train", colors, *options), 4, words, name)
    assert not (tmp_path / "x.ckpt").exists()


def test_training_takes_network_and_preprocessing_from_the_weights(vit, folder, colors, tmp_path):
    options = ("--init_from", folder, "--out", tmp_path / "runs", *QUICK)
    answer = vit("train", colors, *options, "--batch_size", 8).ok()
    for word in (
        "weights, names: timm",
        "weights, matched: 38 tensors",
        "rows in the order of these classes",
        "preprocessor_config.json",
    ):
        assert word in answer.err, answer.err
    (config,) = (tmp_path / "runs").glob("**/config.yaml")
    recipe = yaml.safe_load(config.read_text())
    assert recipe["model"]["network"]["depth"] == 2 and recipe["model"]["network"]["num_heads"] == 1
    assert recipe["model"]["preprocess"]["mean"] == [0.4, 0.5, 0.6]
    assert load(config.parent / "checkpoints" / "best.ckpt")[1].preprocess.interpolation == "bilinear"


def test_options_stand_above_the_weights(vit, folder, colors, tmp_path):
    options = ("--image_size", 12, "--model.preprocess.mean", "[0.1, 0.2, 0.3]", "--model.network.drop_path_rate", 0.1)
    answer = vit("train", colors, "--init_from", folder, *options, "--out", tmp_path / "runs", *QUICK).ok()
    assert "pos_embed: 4 x 4 -> 6 x 6 patches" in answer.err
    (best,) = (tmp_path / "runs").glob("**/best.ckpt")
    description = load(best)[1]
    assert description.preprocess.mean == (0.1, 0.2, 0.3) and description.preprocess.std == (0.5, 0.5, 0.5)
    assert description.spec.options["drop_path_rate"] == 0.1


def test_what_nothing_states_is_a_guess_until_an_option_replaces_it(vit, network, tmp_path):
    state = {name: value.clone() for name, value in network.state_dict().items()}
    torch.save({"model_state_dict": {f"net.{name}": value for name, value in state.items()}}, tmp_path / "mine.pth")
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    answer = vit("convert", tmp_path / "mine.pth", "--output", tmp_path / "a.ckpt").ok()
    assert "WARNING: nothing settles these values, so they are guesses: mean, std, crop_fraction, inter" in answer.err
    options = (
        "--mean", "[0.1, 0.2, 0.3]", "--std", "[0.5, 0.5, 0.5]", "--crop_fraction", 0.8, "--interpolation", "bilinear",
    )  # fmt: skip
    answer = vit("convert", tmp_path / "mine.pth", "--output", tmp_path / "b.ckpt", *options)
    assert answer.code == 0 and "WARNING" not in answer.err, answer.err
    found = load(tmp_path / "b.ckpt")[1].preprocess
    assert (found.mean, found.std) == ((0.1, 0.2, 0.3), (0.5, 0.5, 0.5))
    assert (found.crop_fraction, found.interpolation) == (0.8, "bilinear")
    wrong = vit("convert", tmp_path / "mine.pth", "--output", tmp_path / "c.ckpt", "--mean", "[123, 116, 103]")
    refused(wrong, 2, "--mean 123 116 103 is not between 0 and 1")
    refused(
        vit("convert", tmp_path / "mine.pth", "--output", tmp_path / "c.ckpt", "--weights", "ema"), 4, "no averaged"
    )


@pytest.mark.slow
def test_a_cnn_by_its_name_predicts_and_trains(vit, colors, tmp_path):
    made = create_network("resnet18", 3, 32)
    state = {name.removeprefix("model."): value for name, value in made.state_dict().items()}
    torch.save(state, tmp_path / "mine.pth")
    refused(vit("convert", tmp_path / "mine.pth", "--output", tmp_path / "x.ckpt"), 4, "--network resnet18")
    refused(vit("predict", tmp_path / "mine.pth", colors / "red"), 4, "vit convert")
    answer = vit("convert", tmp_path / "mine.pth", "--output", tmp_path / "x.ckpt", "--network", "resnet18")
    assert answer.code == 0 and "class 0, class 1" in answer.out, answer.err
    options = ("--init_from", tmp_path / "mine.pth", "--image_size", 32, "--out", tmp_path / "runs", *QUICK)
    refused(vit("train", colors, *options), 4, "--network resnet18")
    answer = vit("train", colors, *options, "--network", "resnet18", "--batch_size", 8)
    assert answer.code == 0 and "weights, matched: 122 tensors" in answer.err, answer.err
    assert "does not settle these values, so they are guesses: mean, std, crop_fraction, interpolation; " in answer.err


def test_a_checkpoint_that_appears_meanwhile_is_kept(vit, folder, monkeypatch):
    def write(content, path):
        write_checkpoint(content, path)
        (folder / "x.ckpt").write_text("of another program")

    monkeypatch.setattr("vit.checkpoints.load.write_checkpoint", write)
    refused(vit("convert", folder, "--output", folder / "x.ckpt"), 7, "another program has made", "and the new file is")
    assert (folder / "x.ckpt").read_text() == "of another program"
    (kept,) = folder.glob("x-*.ckpt")
    assert load(kept)[1].class_names
    assert not list(folder.glob(".x.ckpt*"))
