"""`vit inspect`: figures and a page of a ViT, with images, without, and of bare weights."""

import pytest
import torch
from safetensors.torch import save_file

from vit.models.catalog import build, create_network, resolve
from vit.training.checkpoint import load


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_is_inspected_over_its_own_images(vit, digits_run, here):
    answer = vit("inspect", digits_run.path, "--limit", 5)
    assert answer.code == 0, answer.err
    made = sorted(path.name for path in (here / "inspection").iterdir())
    assert made == ["attention.png", "cost.png", "filters.png", "inspection.html", "positions.png"]
    html = (here / "inspection" / "inspection.html").read_text()
    network, description = load(digits_run.best)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    assert f"{parameters:,}" in html and html.count("<img ") == 4 and "over 5 images" in html
    assert "mean attention distance over 5 images; all alike: " in answer.out
    assert "quadratic in the 16 patches" in answer.out
    assert answer.out.strip().splitlines()[-1] == f"Next: vit explain {digits_run.path} IMAGES"
    assert vit("inspect", digits_run.path, "--limit", 1).code == 0 and (here / "inspection-2").is_dir()
    assert description.network["name"] in answer.err


def test_a_lone_checkpoint_needs_images_for_attention(vit, digits_run, mixed, here):
    (here / "<i>.ckpt").write_bytes(digits_run.best.read_bytes())
    answer = vit("inspect", here / "<i>.ckpt")
    assert answer.code == 0 and "nothing is said of attention" in answer.err
    html = (here / "inspection" / "inspection.html").read_text()
    assert "<i>" not in html and "&lt;i&gt;.ckpt" in html and "none were given" in html
    answer = vit("inspect", here / "<i>.ckpt", mixed, "--output", "again")
    assert answer.code == 0 and "over 14 images" in answer.out  # bad files are passed over
    answer = vit("inspect", here / "<i>.ckpt", mixed / "notes.txt")
    assert answer.code == 3 and "none of 1 files" in answer.err


def test_bare_weights_say_nothing_of_their_network(vit, here):
    torch.manual_seed(0)
    save_file(create_network("vit_nano_patch2_8", 10, pos_embed="none").state_dict(), here / "other.safetensors")
    save_file(create_network("vit_nano_patch2_8", 10).state_dict(), here / "nano.safetensors")
    answer = vit("inspect", "nano.safetensors")
    assert answer.code == 2 and "--network" in answer.err
    answer = vit("inspect", "other.safetensors", "--network", "vit_nano_patch2_8")
    assert answer.code == 4 and "pos_embed" in answer.err
    answer = vit("inspect", "nano.safetensors", "--network", "vit_nano_patch2_8")
    assert answer.code == 0 and (here / "inspection" / "filters.png").is_file()


def test_what_cannot_be_inspected(vit, digits_run, here):
    answer = vit("inspect", digits_run.path, "--network", "vit_nano_patch2_8")
    assert answer.code == 2 and "--network" in answer.err
    save_file(build(resolve({"name": "resnet10_small"}, 8, 10)).state_dict(), here / "cnn.safetensors")
    answer = vit("inspect", "cnn.safetensors", "--network", "resnet10_small")
    assert answer.code == 2 and "SmallImageResNet" in answer.err and "vit explain" in answer.err
    assert not (here / "inspection").exists()
