"""A study whose seeds start from weights of their own: the plan, its keys, and what study.json says of the weights."""

import pytest
import torch
from torch import nn

from vit.checkpoints.format import Description
from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_plan import make_study_plan
from vit.console import Reporter
from vit.data.pixels.preprocess import Preprocess
from vit.models.spec import NetworkSpec
from vit.weights.file import write_backbone
from vit.weights.open import weights_hash

NANO = "digits --model.network.name=vit_nano_patch2_8 --model.network.depth=1"
FINETUNE = "finetune --model.network.name=vit_nano_patch2_8 --model.network.depth=1"


def draw(path, seed):
    """Weights as a pretraining leaves them."""
    torch.manual_seed(seed)
    description = Description((), NetworkSpec.named("vit_nano_patch2_8", 0, {"depth": 1}), Preprocess(8))
    network = NetworkSpec.named("vit_nano_patch2_8", 10, {"depth": 1}).build(8)
    assert isinstance(network, nn.Module)
    kept = {name: value for name, value in network.state_dict().items() if not name.startswith("head")}
    write_backbone(description, kept, path)


def planned(folder, networks=("plain", "pretrained"), words=""):
    start = f"--model.init_from={folder}/mae_seed{{seed}}.safetensors {words}"
    lines = {"plain": NANO, "pretrained": f"{NANO} {start}", "tuned": f"{FINETUNE} {start}"}
    named = ", ".join(f"{name}: '{lines[name]}'" for name in networks)
    study = folder / "starts.yaml"
    study.write_text(
        f"networks: {{{named}}}\nsizes: [50, 100]\nseeds: 2\nbudget: steps:3\n",
        encoding="utf-8",
    )
    options = read_words(["--config", str(study), "--wandb", "off", "--out", str(folder / "studies")])
    return make_study_plan(options, Reporter(quiet=True))


def test_each_seed_starts_from_its_own_weights(tmp_path):
    files = [tmp_path / f"mae_seed{seed}.safetensors" for seed in (0, 1)]
    for seed, file in enumerate(files):
        draw(file, seed)
    plan = planned(tmp_path)
    starts = {(cell.series, cell.seed): cell.recipe.model.init_from for cell in plan.cells}
    assert starts == {
        ("plain", 0): None, ("plain", 1): None, ("pretrained", 0): str(files[0]), ("pretrained", 1): str(files[1])
    }  # fmt: skip
    assert plan.protocol["weights"] == {str(file): weights_hash(str(file)) for file in files}
    before = {cell.folder for cell in plan.cells}
    draw(files[1], 2)
    other = {cell.folder for cell in planned(tmp_path).cells} - before
    assert {folder.split("/")[1] for folder in other} == {"pretrained"} and len(other) == 2  # both sizes of seed 1


@pytest.mark.parametrize(
    ("words", "freeze", "lora"),
    [
        ("", "batch_stats", None),  # the recipe's own value
        ("--model.freeze=backbone", "backbone", None),
        ("--model.freeze=none --model.lora=2", "none", 2),
        ("--model.init_head=probe", "batch_stats", None),
    ],
)
def test_options_that_need_weights_go_with_weights_of_each_seed(tmp_path, words, freeze, lora):
    """The images are read with the first network, before the weights of any cell are known."""
    for seed in (0, 1):
        draw(tmp_path / f"mae_seed{seed}.safetensors", seed)
    cells = planned(tmp_path, ["tuned"], words).cells
    assert {(cell.recipe.model.freeze, cell.recipe.model.lora) for cell in cells} == {(freeze, lora)}
    assert len({cell.recipe.model.init_from for cell in cells}) == 2


def test_a_study_without_weights_says_nothing_of_weights():
    options = read_words(["digits", "--networks", "vit_nano_patch2_8", "--sizes", "50", "--wandb", "off"])
    assert "weights" not in make_study_plan(options, Reporter(quiet=True)).protocol
