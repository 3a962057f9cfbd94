"""`vit inspect`: figures and a page of a ViT, with images, without, and of bare weights."""

import os

import pytest
import torch
from safetensors.torch import save_file

from tests.commands.following import next_words
from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.load import load
from vit.commands.predicting.inspect import inspect
from vit.data.pixels.preprocess import Preprocess
from vit.models.spec import NetworkSpec, create_network

pytestmark = pytest.mark.usefixtures("here")


def test_a_run_is_inspected_over_its_own_images(vit, digits_run, here):
    answer = vit("inspect", digits_run.path, "--limit", 5).ok()
    made = sorted(path.name for path in (here / "inspection").iterdir())
    assert made == ["attention.png", "cost.png", "filters.png", "inspection.html", "positions.png"]
    html = (here / "inspection" / "inspection.html").read_text()
    network, description = load(digits_run.best)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    assert f"{parameters:,}" in html and html.count("<img ") == 4 and "over 5 images" in html
    assert "mean attention distance over 5 images, by block: " in answer.out
    assert "quadratic in the 16 patches" in answer.out
    assert answer.out.strip().splitlines()[-1] == f"Next: vit explain {digits_run.path} IMAGES"
    assert vit("inspect", digits_run.path, "--limit", 1).code == 0 and (here / "inspection-2").is_dir()
    assert description.spec.name in answer.err


@pytest.mark.slow
def test_a_lone_checkpoint_needs_images_for_attention(vit, digits_run, mixed, here):
    (here / "<i>.ckpt").write_bytes(digits_run.best.read_bytes())
    vit("inspect", here / "<i>.ckpt").noted("without images, attention is not measured")
    html = (here / "inspection" / "inspection.html").read_text()
    assert "<i>" not in html and "&lt;i&gt;.ckpt" in html and "Without images this section is empty" in html
    answer = vit("inspect", here / "<i>.ckpt", mixed, "--output", "again")
    assert answer.code == 0 and "over 14 images" in answer.out  # bad files are passed over
    assert f"WARNING: 6 of 20 files could not be read, first {mixed}" in answer.err
    assert f"1 folder in {mixed} was not read (--recursive reads it)" in answer.err.splitlines()
    vit("inspect", here / "<i>.ckpt", mixed / "notes.txt").failed(3, "no image can be read in 1 file;")


@pytest.mark.parametrize(
    ("stem", "words"), [("patch", "turn a patch into a token"), ("conv", "the first convolution, which reads")]
)
def test_the_kernels_are_those_that_read_pixels(vit, here, stem, words):
    spec = NetworkSpec.named("vit_nano_patch2_8", 10, {"depth": 1, "stem": stem})
    about = Description(tuple("0123456789"), spec, Preprocess(8))
    torch.save(checkpoint_content(about, spec.build(8).state_dict()), here / "network.ckpt")
    assert vit("inspect", "network.ckpt").code == 0
    assert words in (here / "inspection" / "inspection.html").read_text()


def test_weights_of_others_are_inspected(vit, here, colors):
    torch.manual_seed(0)
    network = create_network("vit", 10, image_size=8, patch_size=2, embed_dim=64, depth=2, num_heads=1, qk_norm=True)
    weights = network.state_dict()
    save_file(weights, here / "whole.safetensors")
    save_file({name: value for name, value in weights.items() if "head" not in name}, here / "headless.safetensors")
    for name in ("whole", "headless"):
        answer = vit("inspect", f"{name}.safetensors", "--output", name).ok()
        assert (here / name / "filters.png").is_file()
        assert "quadratic in the 16 patches" in answer.out
        own = [value for key, value in weights.items() if name == "whole" or "head" not in key]
        page = (here / name / "inspection.html").read_text()
        assert f"{sum(map(torch.numel, own)):,}" in page and (">head</" in page) == (name == "whole")
        assert answer.out.splitlines()[-1] == f"Next: vit train DATA --init_from {name}.safetensors"
        assert vit(*next_words(answer, DATA=str(colors)), "--dry_run").code == 0


def test_what_cannot_be_inspected(vit, here):
    save_file(create_network("resnet10_small", 10, 8).state_dict(), here / "cnn.safetensors")
    vit("inspect", "cnn.safetensors").failed(4, "are of no ViT that is known", "'vit convert'")
    assert not (here / "inspection").exists()


@pytest.mark.slow
def test_a_cnn_s_checkpoint_is_refused(vit, here):
    out = here / "runs"
    options = ("--optim.steps", 1, "--batch_size", 32, "--wandb", "off", "--out", out)
    assert vit("train", "--config", "digits_cnn", *options).code == 0
    (best,) = out.glob("**/best.ckpt")
    vit("inspect", best).failed(2, "SmallImageResNet", "vit explain")


@pytest.mark.slow
@pytest.mark.skipif(
    not {"VIT_DEIT_WEIGHTS", "VIT_PHOTOS"} <= os.environ.keys(),
    reason="VIT_DEIT_WEIGHTS names no file with DeiT-Tiny's weights, or VIT_PHOTOS no folder of photographs",
)
def test_how_far_the_heads_of_deit_tiny_look(here):
    """Pixels, on 50 of 250 ImageNet photographs: heads differ in the first block, and look everywhere in the last one.

    Between photographs the heads of the first block have a standard deviation of 9 to 20 pixels, so the mean over 50
    others may be another one by 6. Crop and interpolation change it by less than 1.
    """
    found = inspect(os.environ["VIT_DEIT_WEIGHTS"], os.environ["VIT_PHOTOS"], limit=50).inspection
    assert found.reach.uniform_distance == pytest.approx(116.5, abs=0.05)
    table = [(row.min().item(), row.max().item()) for row in found.reach.distance]
    assert len(table) == 12
    assert table[0] == (pytest.approx(58, abs=6), pytest.approx(84, abs=6))
    assert table[2][0] == pytest.approx(21, abs=1)
    assert table[11] == (pytest.approx(114, abs=2), pytest.approx(116, abs=2))
